"""The groups of a fingerprint that a steward's pages hide and ask for."""

from __future__ import annotations

import hmac
import os
import secrets
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from threading import Lock

from heterofedsyn._files import file_written_whole, read_whole, reason
from heterofedsyn._words import aloud, digits_of
from heterofedsyn.errors import PrivacyRefusal, UsageError

GROUPS = 8
"""Of a fingerprint, of eight letters each."""

KEY = "console.key"
"""In the site's folder; its owner alone reads it."""

MOST_WRONG = 5
"""Answers about one study, after which none is heard."""

_KEY_BYTES = 32
_PAIRS = tuple(combinations(range(GROUPS), 2))


class HiddenGroups:
    """Two groups of every fingerprint, which stay the same two whatever is answered.

    Were others hidden after a wrong answer, the page would show those that it asked for before.
    Which two follows from a key of the site, so that nobody else can tell, and make up a study
    that is right in these alone.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder / KEY
        self._key = b""
        self._wrong: Counter[str] = Counter()
        self._turn = Lock()

    def of(self, fingerprint: str) -> tuple[int, int]:
        """Which two they are, counted from zero.

        Raises:
            HeterofedsynError: if the site's key for this can be neither read nor made.
        """
        with self._turn:
            self._key = self._key or _kept(self._place)
        drawn = hmac.digest(self._key, fingerprint.encode(), "sha256")
        return _PAIRS[int.from_bytes(drawn, "big") % len(_PAIRS)]

    def check_open(self, fingerprint: str) -> None:
        """Refuse to hear more about a study that was told wrong too often.

        Raises:
            PrivacyRefusal: with the way that is left.
        """
        if self._wrong[fingerprint] >= MOST_WRONG:
            raise PrivacyRefusal(
                f"its fingerprint was told wrong {MOST_WRONG} times, and no page hears it any "
                "more; have the coordinator read all of it out, and approve the study with "
                "`heterofedsyn site approve`"
            )

    def check(self, fingerprint: str, told: Sequence[str]) -> None:
        """Refuse whoever does not know both; nothing says which one was wrong.

        Args:
            told: all groups as they were typed; only the hidden ones count.

        Raises:
            PrivacyRefusal: if one is wrong, or too many were before.
        """
        hidden, parts = self.of(fingerprint), aloud(fingerprint).split()
        with self._turn:
            self.check_open(fingerprint)
            if all(digits_of(told[i]) == parts[i] for i in hidden):
                return
            self._wrong[fingerprint] += 1
        raise PrivacyRefusal(
            "that is not this study's fingerprint: ask the coordinator by telephone to read it "
            "out; if it differs, somebody changed the study on its way, and nothing must be "
            "approved"
        )


def _kept(place: Path) -> bytes:
    """The key in a file, which is made if there is none."""
    try:
        if not place.exists():
            with file_written_whole(place) as partial:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
                    file.write(secrets.token_bytes(_KEY_BYTES))
        key = read_whole(place, _KEY_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {place}: {reason(error)}") from None
    if len(key) != _KEY_BYTES:
        raise UsageError(f"{place} is no key of the console; remove it, and another is made")
    return key
