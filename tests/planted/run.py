"""An audit up to the first finding with some words: `python -m planted.run SIZE WORDS FIRST ...`.

SIZE is `quick` or `thorough` (which never ends early), FIRST has words of the checks to begin with,
and the rest are layers, or nothing for all of them. Prints the audit as JSON.
"""

from __future__ import annotations

import json
import re
import sys

from heterofedsyn.audit import LAYERS, QUICK, THOROUGH, Effort, Finding, audit
from heterofedsyn.audit.findings import Check, Layer


def noticed(words: str, name: str, figure: str) -> bool:
    """Whether a failed check has these words; one that crashed has noticed nothing."""
    return "unexpected " not in figure and bool(re.search(words, f"{name}: {figure}"))


def _sooner(layer: Layer, first: str) -> Layer:
    def checks(effort: Effort, seed: int) -> list[Check]:
        return sorted(layer(effort, seed), key=lambda check: not re.search(first, check[0]))

    return checks


def main(size: str, words: str, first: str, *layers: str) -> None:
    """Run it."""

    def enough(finding: Finding) -> bool:
        hit = not finding.passed and noticed(words, finding.name, finding.figure)
        return bool(words) and hit and size == "quick"

    for name, (question, checks) in LAYERS.items():
        LAYERS[name] = question, _sooner(checks, first)
    effort = QUICK if size == "quick" else THOROUGH
    print(json.dumps(audit(effort, 11, layers, enough=enough).as_dict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
