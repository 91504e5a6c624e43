"""What a study is for, in the words of those who ask for it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from heterofedsyn.errors import UsageError

MOST_LETTERS = 500


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a study is for; part of its fingerprint, so that nobody changes it afterwards.

    Attributes:
        title: what people call it.
        purpose: what its release will be used for.
        contact: whom to ask.
    """

    title: str = ""
    purpose: str = ""
    contact: str = ""

    def __post_init__(self) -> None:
        for name, text in self.said:
            if len(text) > MOST_LETTERS or not text.isprintable():
                raise UsageError(f"{name} must be one line of at most {MOST_LETTERS} letters")

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
