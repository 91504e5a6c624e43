"""Methods beside each other on one's own public or invented rows."""
