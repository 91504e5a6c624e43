"""A site: it owns rows, a ledger and noise, and answers queries it can afford."""

from heterofedsyn.site.answering import Site

__all__ = ["Site"]
