"""Pages in the browser for stewards and coordinators, on this machine alone."""

PACKAGES = ("starlette", "uvicorn", "jinja2", "python_multipart")
"""What its pages need, as they are imported."""
