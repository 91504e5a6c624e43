"""Exact counts do not type-check where only noised ones may pass."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

import heterofedsyn

HEAD = """\
from heterofedsyn._arrays import Exact, Integers
from heterofedsyn.marginals import Counts, Flat
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SecureNoise, add_noise
from heterofedsyn.privacy.terms import Noised, Terms, added
from heterofedsyn.protocol import Answer, Released


def leave(counts: Counts, integers: Integers, terms: Terms, budget: Budget) -> None:
    exact = Flat(("a",)).exact(counts)
"""

LAWFUL = "Released.of(add_noise(exact, terms, budget, SecureNoise(), b''))"

UNLAWFUL = [
    "Released.of(exact)",
    "Released.of(exact.values)",
    "Released.of(Noised(exact, terms))",
    "Released.of(Noised(exact.values, terms))",
    "Released.of(Noised(counts.of((('a', None),)), terms))",
    "Released.of(Noised(integers, terms))",
    "added([exact.values])",
    "add_noise(integers, terms, budget, SecureNoise(), b'')",
    "Answer(study='', query='', site='', simulated=True, parts=(exact,))",
]


@pytest.mark.slow
def test_only_what_passed_the_door_becomes_a_message(tmp_path: Path) -> None:
    lines = [LAWFUL, *UNLAWFUL]
    snippet = tmp_path / "leaving.py"
    snippet.write_text(HEAD + "".join(f"    {line}\n" for line in lines))
    said, trouble, _ = api.run(["--strict", "--no-error-summary", str(snippet)])
    assert not trouble
    first = HEAD.count("\n") + 1
    refused = {int(line.split(":")[1]) - first for line in said.splitlines() if ": error:" in line}
    assert refused == set(range(1, len(lines))), said


SOURCE = Path(heterofedsyn.__file__).parent

CALLERS = {
    "NoisyIntegers": {
        "privacy/noise.py",  # the door
        "privacy/terms.py",  # sums of what left
        "protocol/messages.py",  # what was read
        "hub/planning/dryrun.py",  # invented tables
        "audit/coupling/prices.py",  # lengths of messages
    },
    "Released": {
        "hub/planning/lengths.py",  # of an empty one
        "hub/sums.py",  # a sum from which masks were taken off
    },
}


@pytest.mark.thorough
def test_who_calls_integers_noisy_is_known() -> None:
    """A cast says nothing to the type checker: each one is a line to read."""
    callers = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                callers[node.func.id].add(path.relative_to(SOURCE).as_posix())
    assert {name: callers[name] for name in CALLERS} == CALLERS
