"""The blocks of a document, which tests run or follow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, and its text."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    assert text.count("\n```") % 2 == 0, f"{page.name} has a block that does not end"
    found = []
    for match in re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], tuple(match[2].split()), match[3], line))
    return found
