"""The books of a site: what was charged and what was said, on disk and for life."""
