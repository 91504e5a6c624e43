"""`python -m heterofedsyn`."""

from heterofedsyn.cli import main

main()
