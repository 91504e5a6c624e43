"""What the entries of a ledger mean for the next query."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn.site.ledger.entries import (
    Agreed,
    Answered,
    Charged,
    Entry,
    Joined,
    Listed,
    Noted,
    Repaired,
    Unmasked,
)


class Index:
    """What the entries mean for the next query: what is paid, what was answered, what is stored."""

    def __init__(self, answers: Path) -> None:
        self.charged: dict[str, Charged] = {}
        self.answered: dict[str, Answered] = {}
        self.noted: dict[tuple[str, str], Noted] = {}
        self._answers = answers
        self._study_of: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._stored: dict[str, int] = {}

    def take(self, line: bytes, entry: Entry) -> None:
        """What one more entry means."""
        match entry:
            case Charged():
                self.charged[entry.query] = entry
                self._study_of[entry.query] = entry.study
                self._store(entry.study, len(line))
            case Answered():
                self.answered[entry.query] = entry
                self._sizes[entry.query] = self._size_of(entry.query)
                study = self._study_of.get(entry.query, "")
                self._store(study, len(line) + self._sizes[entry.query])
            case Joined() | Listed() | Agreed() | Unmasked():
                self.noted[entry.about] = entry
                self._store(entry.study, len(line))
            case Repaired():
                # Answers to these may have left without our knowing: they must be paid again.
                for query in self.charged.keys() - self.answered.keys():
                    del self.charged[query]

    def is_answered(self, study: str, query: str) -> bool:
        """Whether this query of this study was answered."""
        return query in self.answered and self._study_of.get(query) == study

    def stored_on(self, study: str, but: str) -> int:
        """Bytes that one study takes on disk, but for the answer to one query."""
        other = self._sizes.get(but, 0) if self._study_of.get(but) == study else 0
        return self._stored.get(study, 0) - other

    def _store(self, study: str, many: int) -> None:
        self._stored[study] = self._stored.get(study, 0) + many

    def _size_of(self, query: str) -> int:
        """Bytes of a stored answer; none if it is lost, or no file can have that name."""
        try:
            return (self._answers / query).stat().st_size
        except (FileNotFoundError, ValueError):
            return 0
