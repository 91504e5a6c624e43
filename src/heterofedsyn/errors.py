"""Every error a user can meet; each is one line that says what was found and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_LETTERS = 2_000
"""Of a message."""

_MOST_COMPARED = 100
"""Letters of a word, beyond which no slip of the finger is looked for."""


class HeterofedsynError(Exception):
    """Something failed; the message is meant for a person and never holds a value of a record."""

    exit_code = 1

    def __str__(self) -> str:
        text = super().__str__()
        return plain(text[:_MOST_LETTERS]) + (" ..." if len(text) > _MOST_LETTERS else "")


class DataError(HeterofedsynError):
    """A table or file cannot be read as the schema says."""


class ReleaseError(HeterofedsynError):
    """A release is missing, corrupt, or written by a newer version."""


class ProtocolError(HeterofedsynError):
    """A message is malformed, or an answer does not belong to its query."""


class QuorumLost(ProtocolError):
    """Too few sites answered; the study can be resumed once they do."""


class JournalError(HeterofedsynError):
    """The rounds that a hub keeps are damaged, or do not belong to the study."""


class EngineError(HeterofedsynError):
    """The engine that carries messages did not do what it was asked."""


class UsageError(HeterofedsynError):
    """A request that cannot be carried out as worded: a wrong option, setting or schema."""

    exit_code = 2


class SchemaError(UsageError):
    """A schema that contradicts itself."""


class PrivacyRefusal(HeterofedsynError):
    """Refused because it would cost more privacy than was allowed, or could not be protected."""

    exit_code = 3


class NotApproved(PrivacyRefusal):
    """The steward has not consented to this study as it is now."""


class BudgetExceeded(PrivacyRefusal):
    """A charge does not fit into what is left."""


class LedgerUnavailable(HeterofedsynError):
    """The ledger on disk cannot be read, written or locked; nothing is released meanwhile."""


class LedgerDisputed(PrivacyRefusal):
    """The ledger on disk and its anchor do not tell the same story; nothing is released."""


class HeterofedsynWarning(UserWarning):
    """Something a user should know although it worked; never a value of a record."""

    def __str__(self) -> str:
        return plain(super().__str__())


class SimulatedNoiseWarning(HeterofedsynWarning):
    """Noise from a seed protects nobody from those who have the seed."""

    def __str__(self) -> str:
        return "simulated noise, for research: anyone with the seed can undo the noise"


def plain(text: str) -> str:
    """Text on one line, with every letter escaped that a terminal would obey or not show.

    These are controls and the line feed, what changes the direction of letters, has no width or
    separates lines, and what no text has: halves of letters and letters that are not assigned.

    >>> print(plain("ward\\x1b[2K\\u202e"))
    ward\\x1b[2K\\u202e
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that another is a slip of, if there is one.

    >>> closest("agee", ["age", "ward"])
    'age'
    """
    short = [name for name in known if len(name) <= _MOST_COMPARED]
    folded = {name.casefold(): name for name in reversed(short[:1_000])}
    close = difflib.get_close_matches(word[:_MOST_COMPARED].casefold(), folded, n=1)
    return folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint naming the closest known word, or all of them when none is close.

    >>> did_you_mean("agee", ["age", "ward"])
    "did you mean 'age'?"
    """
    names = [str(name) for name in known]
    close = closest(word, names)
    if close is not None:
        return f"did you mean {close!r}?"
    shown = ", ".join(repr(name[:_MOST_COMPARED]) for name in names[:12]) + (
        ", ..." if len(names) > 12 else ""
    )
    return f"known: {shown}"
