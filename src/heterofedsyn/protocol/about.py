"""What a study is for and until when, in the words of those who ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime

import msgspec
from msgspec.structs import replace

from heterofedsyn.errors import NotApproved, UsageError

MOST_LETTERS = 500

NO_TITLE = "A study without a title"

_FILLERS = "\u115f\u1160\u3164\uffa0"
"""Letters by their class that nobody sees."""

_LABELS = {"ethics_approval": "Ethics approval", "expires": "Ends after"}


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a study is for; part of its fingerprint, so that nobody changes it afterwards.

    Attributes:
        title: what people call it.
        purpose: what its release will be used for.
        contact: whom to ask.
        ethics_approval: who approved of it, and under which number.
        expires: the last day on which it may be asked, such as 2030-12-31, until its end in UTC.
    """

    title: str = ""
    purpose: str = ""
    contact: str = ""
    ethics_approval: str = ""
    expires: str = ""

    def __post_init__(self) -> None:
        for name, text in self.said:
            if len(text) > MOST_LETTERS or not text.isprintable():
                raise UsageError(f"{name} must be one line of at most {MOST_LETTERS} letters")
            if not any(each.isalnum() and each not in _FILLERS for each in text):
                raise UsageError(f"{name} looks empty; it needs a letter or a digit")
        _ = self.last_day

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> About:
        """The same from a dictionary.

        Raises:
            UsageError: if it says something else, or no text.
        """
        try:
            return msgspec.convert(dict(texts), cls)
        except msgspec.ValidationError as error:
            names = ", ".join(cls.__struct_fields__)
            raise UsageError(f"about a study can be said: {names}; {error}") from None

    @property
    def said(self) -> tuple[tuple[str, str], ...]:
        """Names and texts of what there is."""
        every = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return tuple((name, text) for name, text in every if text)

    @property
    def worded(self) -> tuple[tuple[str, str], ...]:
        """The same as people read it.

        >>> About(purpose="to plan beds", expires="2030-12-31").worded
        (('Purpose', 'to plan beds'), ('Ends after', '2030-12-31 (UTC)'))
        """
        return tuple(
            (_LABELS.get(name, name.capitalize()), f"{text} (UTC)" if name == "expires" else text)
            for name, text in self.said
        )

    @property
    def shown_title(self) -> str:
        """What to call it, whether or not it has a title."""
        return self.title or NO_TITLE

    @property
    def rest(self) -> tuple[tuple[str, str], ...]:
        """What people read of it below its title."""
        return replace(self, title="").worded

    @property
    def lines(self) -> list[str]:
        """The same, a line each."""
        return [f"{label.lower()}: {text}" for label, text in self.worded]

    @property
    def last_day(self) -> date | None:
        """The last day on which it may be asked; None if it does not say.

        Raises:
            UsageError: if what it says is no day.
        """
        if not self.expires:
            return None
        try:
            day = date.fromisoformat(self.expires)
        except ValueError:
            day = None
        if day is None or day.isoformat() != self.expires:
            raise UsageError(f"expires ({self.expires!r}) must be a day such as 2030-12-31")
        return day

    def check_open(self, now: datetime) -> None:
        """Refuse a study whose last day is past.

        Raises:
            NotApproved: saying since when.
        """
        last = self.last_day
        if last is not None and now.astimezone(UTC).date() > last:
            raise NotApproved(
                f"the study expired: its last day was {last} (UTC); a new one needs a new consent"
            )
