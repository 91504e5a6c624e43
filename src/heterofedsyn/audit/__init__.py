"""An audit of the installed software: would it notice if a promise of privacy were broken?

Five layers look at the same release path from different sides; docs/audit.md says what each can
see. Whatever fails inside of a check is a failed check.
"""

from __future__ import annotations

from heterofedsyn.audit.effort import QUICK, THOROUGH, USUAL, Effort
from heterofedsyn.audit.findings import ALARM, Audit, Finding, Verdict
from heterofedsyn.audit.run import LAYERS, audit

__all__ = [
    "ALARM",
    "LAYERS",
    "QUICK",
    "THOROUGH",
    "USUAL",
    "Audit",
    "Effort",
    "Finding",
    "Verdict",
    "audit",
]
