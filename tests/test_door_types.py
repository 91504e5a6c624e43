"""Exact counts do not type-check where only noised ones may pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

pytestmark = pytest.mark.thorough

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


def test_only_what_passed_the_door_becomes_a_message(tmp_path: Path) -> None:
    lines = [LAWFUL, *UNLAWFUL]
    snippet = tmp_path / "leaving.py"
    snippet.write_text(HEAD + "".join(f"    {line}\n" for line in lines))
    said, trouble, _ = api.run(["--strict", "--no-error-summary", str(snippet)])
    assert not trouble
    first = HEAD.count("\n") + 1
    refused = {int(line.split(":")[1]) - first for line in said.splitlines() if ": error:" in line}
    assert refused == set(range(1, len(lines))), said
