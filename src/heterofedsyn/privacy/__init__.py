"""Budgets, trust models, noise and ledgers: the only place where exact becomes noisy.

`budget`, `trust`, `terms` and `noisy` are open to everyone; `noise` and `ledger` belong to sites.
"""
