"""Every experiment of the paper, run again with honest noise and set beside what it printed."""
