"""Whether something on disk changed, and what was read or worked out before."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def looks(path: Path) -> str:
    """Differs whenever a file or folder changed, came or went; means nothing else."""
    try:
        there = os.stat(path)  # noqa: PTH116
    except OSError:
        return "-"
    return f"{there.st_mtime_ns}/{there.st_size}/{there.st_ino}"


class Recent(Generic[Key, Value]):
    """What was asked for last, kept in mind for all threads.

    Args:
        most: that are kept.

    >>> squares = Recent[int, int](most=2)
    >>> [squares.get(each, lambda: each * each) for each in (1, 2, 3)], squares.find(1)
    ([1, 4, 9], None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._turn = Lock()

    def find(self, key: Key) -> Value | None:
        """What is kept, if anything is."""
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """What is kept, or what is made now; others do not wait meanwhile."""
        known = self.find(key)
        if known is not None:
            return known
        made = make()
        with self._turn:
            kept = self._kept.setdefault(key, made)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return kept
