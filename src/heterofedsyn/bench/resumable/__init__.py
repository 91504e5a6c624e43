"""Many studies that may be stopped and continued: what `bench paper` and `compare` share."""
