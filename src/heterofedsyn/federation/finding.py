"""What a check of a machine found: one rule, how it stands, and what to do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

State = Literal["ok", "wrong", "cannot tell", "accepted"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the doctor.

    Attributes:
        rule: what was checked, in two or three words that stay the same.
        words: what was found.
        remedy: what to do; empty where nothing is.
    """

    rule: str
    state: State
    words: str
    remedy: str = ""


def ok(rule: str, words: str) -> Finding:
    """A rule that is kept."""
    return Finding(rule, "ok", words)


def wrong(rule: str, words: str, remedy: str) -> Finding:
    """A rule that is broken."""
    return Finding(rule, "wrong", words, remedy)


def unknown(rule: str, words: str, remedy: str) -> Finding:
    """A rule that cannot be checked from here."""
    return Finding(rule, "cannot tell", words, remedy)


def accepted(finding: Finding) -> Finding:
    """A rule that need not be kept here, as somebody decided; one that is kept stays so."""
    if finding.state == "ok":
        return finding
    return msgspec.structs.replace(finding, state="accepted", remedy="")


def judged(rule: str, faults: Iterable[str], remedy: str, otherwise: str) -> Finding:
    """A rule that is broken if there is a fault, and kept if there is none."""
    found = tuple(faults)
    return wrong(rule, "; ".join(found), remedy) if found else ok(rule, otherwise)


_ASK = """for path; do
    for what in r w x; do [ "-$what" "$path" ] && printf %s "$what"; done
    printf ' '
done"""


def rights(paths: Sequence[Path], user: int, groups: Sequence[int]) -> dict[Path, str]:
    """What a user may do with each path, of `rwx`: the system is asked as that user.

    Args:
        groups: of the user, its own first.

    Raises:
        PermissionError: if nobody may act as that user from here.
    """
    own = os.geteuid() == user != 0
    done = subprocess.run(
        ["/bin/sh", "-c", _ASK, "sh", *map(str, paths)],
        user=None if own else user,
        group=None if own else groups[0],
        extra_groups=None if own else list(groups[1:]),
        cwd="/",
        env={},
        capture_output=True,
        encoding="ascii",
        check=False,
    )
    return dict(zip(paths, done.stdout.split(" "), strict=False))
