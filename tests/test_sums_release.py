"""A release of sums says whose answers are in them, and nobody can make it say what cannot be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from heterofedsyn.errors import ReleaseError
from heterofedsyn.hub import Release, Request, drive, load, of_study
from heterofedsyn.hub.steps import MASKED
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.terms import stated_terms
from heterofedsyn.report.privacy import privacy_section
from heterofedsyn.report.sites import site_section
from release_changes import packed, write
from sums_support import NAMES, SCHEMA, Federation

pytestmark = pytest.mark.thorough


@cache
def made() -> tuple[Federation, Release]:
    """A release of five sites, of which one missed the second sum."""
    federation = Federation(5, quorum=4, method="wavetree")

    def away(request: Request, site: str) -> bool:
        return request.step == MASKED and request.query.number == 1 and site == "oak"

    return federation, drive(of_study(federation.study), federation.without(away))


def changed(change: Callable[[Any], object], folder: Path) -> Release:
    value = msgspec.msgpack.decode(packed(made()[1]))
    change(value)
    write(value, folder)
    return load(folder)


def put(*path: Any) -> Callable[[Any], None]:
    *way, last, value = path

    def change(stored: Any) -> None:
        for step in way:
            stored = stored[step]
        stored[last] = value

    return change


def without(*path: Any) -> Callable[[Any], None]:
    *way, last = path

    def change(stored: Any) -> None:
        for step in way:
            stored = stored[step]
        del stored[last]

    return change


def test_a_release_that_nobody_changed_can_be_read(tmp_path: Path) -> None:
    assert changed(lambda value: None, tmp_path / "r").privacy == made()[1].privacy


PRIVACY, SUMS = "privacy", ("privacy", "sums")
FORGED: dict[str, Callable[[Any], object]] = {
    "no colluding sites": without(PRIVACY, "colluding"),
    "no quorum": without(PRIVACY, "quorum"),
    "no sums": without(*SUMS),
    "none of the three": lambda v: [v[PRIVACY].pop(n) for n in ("colluding", "quorum", "sums")],
    "colluding too many": put(PRIVACY, "colluding", 4),
    "colluding none": put(PRIVACY, "colluding", 0),
    "quorum too small": put(PRIVACY, "quorum", 3),
    "another quorum, so another rho_alone": put(PRIVACY, "quorum", 5),
    "another trust": put(PRIVACY, "trust", "local"),
    "rho_alone of another trust": put(PRIVACY, "rho_alone", 5.0),
    "a sum below the quorum": put(*SUMS, 0, "sites", [*NAMES[:3]]),
    "a sum of strangers": put(*SUMS, 0, "sites", ["a", "b", "c", "d"]),
    "a sum with somebody twice": put(*SUMS, 0, "sites", ["birch", "birch", "elm", "Fir", "oak"]),
    "a sum in another order": put(*SUMS, 0, "sites", [*reversed(NAMES)]),
    "another label": put(*SUMS, 0, "label", "something else"),
    "a sum too few": without(*SUMS, 0),
    "somebody in a sum that it missed": put(*SUMS, 1, "sites", [*NAMES]),
    "somebody outside of a sum and not missed": put(*SUMS, 0, "sites", [*NAMES[:4]]),
    "missed by another": put("run", "missed", 0, "site", "elm"),
    "missed by a stranger": put("run", "missed", 0, "site", "a"),
    "missed in another round": put("run", "missed", 0, "round", 1),
    "missed for a reason that a terminal obeys": put("run", "missed", 0, "reason", "a\x1b[2J"),
    "missed by nobody": without("run", "missed"),
    "a factor below nothing": put("run", "scaled", 0, "factor", -1.0),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_no_study_can_have_said_of_its_sums_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError) as caught:
        changed(FORGED[what], tmp_path / "r")
    assert "\n" not in str(caught.value)


def test_sigma_is_that_of_the_honest_sites_of_a_quorum_and_rho_alone_their_number_times_rho() -> (
    None
):
    federation, release = made()
    statement = release.privacy
    assert statement.rho_alone == Budget(statement.rho).times(3).rho
    talk = of_study(federation.study)
    query = next(talk).query
    domain = federation.method.encoding(SCHEMA).domain
    stated = tuple(stated_terms(part, domain, federation.plan) for part in query.parts)
    for account in statement.sites:
        assert account.charges[0].parts == stated


def words_of(section: Any) -> str:
    return str(section.blocks)


def test_the_report_says_against_whom_sums_protect_and_who_is_in_them() -> None:
    _, release = made()
    assert "sums over at least" not in words_of(privacy_section(release))  # with a seed, nothing
    true_noise = msgspec.structs.replace(release.privacy, simulated_noise=False)
    release = dataclasses.replace(release, privacy=true_noise)
    said = words_of(privacy_section(release))
    assert "sums over at least 4 of 5 sites" in said
    assert "1 site may tell it all they know" in said
    assert "Sums without some site" in said
    assert "4 of 5" in said
    assert "oak" in said
    alone = Budget(release.privacy.rho_alone).epsilon(release.privacy.delta)
    shown = float(said.partition("still keep the promise with epsilon = ")[2].split()[0])
    assert alone <= shown <= alone * 1.011
    assert "can compare them" in words_of(site_section(release))
