"""What a hub makes an agent write to its steward's log, at no more than a steady rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

MOST_LINES = 120
"""Of one kind, in one spell."""

SPELL_SECONDS = 60.0


class PacedLog:
    """Writes so many lines of each kind in a minute; those left out are counted, and that is said.

    Attributes:
        write: takes the lines that are written; who calls it is not paced.
    """

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.write = write
        self._clock = clock
        self._turn = Lock()
        self._spells: dict[str, _Spell] = {}

    @classmethod
    def of(cls, log: Callable[[str], None] | PacedLog) -> PacedLog:
        """A log that is paced, or one that paces it."""
        return log if isinstance(log, PacedLog) else cls(log)

    def __call__(self, kind: str, text: str) -> None:
        """Write a line of this kind, or count it; there are few kinds, and no hub names one."""
        now = self._clock()
        with self._turn:
            spell = self._spells.get(kind)
            over = 0
            if spell is None or now >= spell.until:
                over = 0 if spell is None else spell.left_out
                spell = self._spells[kind] = _Spell(now + SPELL_SECONDS)
            written = spell.take()
        if over:
            self.write(_left_out(kind, over))
        if written:
            self.write(text)

    def close(self) -> None:
        """Say what was left out and not yet said."""
        with self._turn:
            spells, self._spells = self._spells, {}
        for kind, spell in spells.items():
            if spell.left_out:
                self.write(_left_out(kind, spell.left_out))


class _Spell:
    """A minute of one kind of lines."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.left_out = 0
        self._lines = 0

    def take(self) -> bool:
        if self._lines < MOST_LINES:
            self._lines += 1
            return True
        self.left_out += 1
        return False


def _left_out(kind: str, many: int) -> str:
    return f"{many:,} more lines of this kind were left out: {kind}"
