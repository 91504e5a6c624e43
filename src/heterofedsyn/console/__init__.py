"""Pages in the browser for stewards and coordinators, on this machine alone."""
