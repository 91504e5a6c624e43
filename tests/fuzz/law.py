"""Any input gives a value or one of our errors: one plain line, and nothing of a record in it."""

from __future__ import annotations

import shutil
import tempfile
import threading
import warnings
from atexit import register
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from heterofedsyn.errors import HeterofedsynError

SECRET = "Zebulon-Quux"
"""A value of a record: it may stand in no message and in no log line."""

MOST_LETTERS = 3_000
"""Of one message: a person reads it."""

Value = TypeVar("Value")


def lawful(work: Callable[[], Value]) -> Value | None:
    """What the work gives, or None if it is refused in words that are as they should be."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return work()
        except HeterofedsynError as error:
            check_words(str(error))
            return None


def check_words(text: str) -> None:
    """One line that a terminal shows as it is, short enough to read, without a record's value."""
    assert text.isprintable(), "a message holds letters that a terminal would obey"
    assert 0 < len(text) <= MOST_LETTERS, f"a message has {len(text):,} letters"
    assert SECRET not in text, "a message holds a record's value"
    assert "unexpected" not in text, text


@contextmanager
def no_broken_thread() -> Iterator[None]:
    """Meanwhile no thread may end with an exception; whoever heard of one before still does."""
    former, broken = threading.excepthook, list[str]()

    def hear(found: threading.ExceptHookArgs) -> None:
        broken.append(found.exc_type.__name__)
        former(found)

    threading.excepthook = hear
    try:
        yield
    finally:
        threading.excepthook = former
    assert not broken, f"a thread ended with {broken.pop()}"


@cache
def folder(name: str) -> Path:
    """A folder of this process alone, gone when it ends; in memory where there is such a place."""
    shared = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=shared if shared.is_dir() else None))
    register(shutil.rmtree, place, ignore_errors=True)
    return place
