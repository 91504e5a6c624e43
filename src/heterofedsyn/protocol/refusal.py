"""How a site says no: one of four reasons for the hub, and words for the steward."""

from __future__ import annotations

from enum import StrEnum

from heterofedsyn.errors import (
    BudgetExceeded,
    HeterofedsynError,
    LedgerDisputed,
    NotApproved,
    PrivacyRefusal,
    ProtocolError,
)

_MOST_WORDS = 500
"""Characters of one refusal in the steward's log; a hub chooses some of them."""


class Reason(StrEnum):
    """All that a hub hears of a refusal."""

    OVER_THE_CAP = "over the cap"
    NOT_APPROVED = "not approved"
    MALFORMED = "malformed"
    UNAVAILABLE = "unavailable"


class Refused(HeterofedsynError):
    """A query that gets no answer: `reason` is for the hub, the text for the steward."""

    def __init__(self, reason: Reason, text: str) -> None:
        """A refusal with its reason and what the steward should know."""
        super().__init__(text if len(text) <= _MOST_WORDS else text[:_MOST_WORDS] + " ...")
        self.reason = reason

    @classmethod
    def because_of(cls, error: Exception) -> Refused:
        """What the hub and the steward hear of an error."""
        reason = Reason.UNAVAILABLE
        match error:
            case Refused():
                return error
            case NotApproved():
                reason = Reason.NOT_APPROVED
            case BudgetExceeded():
                reason = Reason.OVER_THE_CAP
            case ProtocolError():
                reason = Reason.MALFORMED
            case PrivacyRefusal() if not isinstance(error, LedgerDisputed):
                reason = Reason.MALFORMED  # a share too small to be noised
        return Refused(reason, words_of(error))


def words_of(error: BaseException) -> str:
    """An error in words that hold no value of a record."""
    if isinstance(error, HeterofedsynError):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"unexpected {type(error).__name__}"  # its text could quote a record
