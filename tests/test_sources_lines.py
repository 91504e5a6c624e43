"""Lines of CSV files: each is read by itself, wherever the file is cut into blocks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.sources import _csv_lines
from heterofedsyn.sources._csv_lines import Lines

TEXT = st.lists(st.sampled_from([b'"', b'""', b",", b"x", b"\n", b"\r", b"\r\n", b"\xff"]))


def is_open(line: bytes) -> bool:
    """Whether pyarrow's parser would go on to the next line, letter by letter."""
    in_quotes, at_start, place = False, True, 0
    while place < len(line):
        letter = line[place : place + 1]
        if in_quotes and line[place : place + 2] == b'""':
            place += 1
        elif in_quotes and letter == b'"':
            in_quotes = False
        elif not in_quotes and at_start and letter == b'"':
            in_quotes = True
        at_start = not in_quotes and letter == b","
        place += 1
    return in_quotes


def readable(content: bytes, most: int) -> list[bytes]:
    lines = re.split(rb"(?<=[\r\n])", content)
    return [
        line
        for line in lines
        if len(line) <= most and line.count(b'"') % 2 == 0 and not is_open(line.rstrip(b"\r\n"))
    ]


@given(TEXT, st.lists(st.integers(1, 9), min_size=1), st.sampled_from([6, 100]))
def test_a_line_is_kept_by_what_it_holds_alone(
    pieces: list[bytes], sizes: list[int], most: int
) -> None:
    content = b"header\n" + b"".join(pieces)
    blocks, place = [], 0
    for size in sizes * (1 + len(content)):
        if place < len(content):
            blocks.append(content[place : place + size])
        place += size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_csv_lines, "MOST_LINE_BYTES", most)
        lines = Lines()
        kept = b"".join([lines(block) for block in blocks] + [lines(b"")])
    expected = readable(content, most)
    found = re.split(rb"(?<=[\r\n])", kept)
    assert [line for line in found if line.strip()] == [line for line in expected if line.strip()]
    assert (lines.unreadable > 0) == bool(lines.trouble)


def test_a_long_line_is_not_held() -> None:
    lines = Lines()
    assert lines(b"a,b\n1,") == b"a,b\n"
    for _ in range(40):
        assert lines(b"x" * 100_000) == b""
        assert len(lines._held) <= _csv_lines.MOST_LINE_BYTES + 100_000
    assert lines(b"y\n3,4\n") == b"3,4\n"
    assert lines(b"") == b""
    assert (lines.unreadable, lines.trouble.partition(" is")[0]) == (1, "line 2")
