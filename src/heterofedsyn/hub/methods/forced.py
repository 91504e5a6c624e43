"""Pairs that must be measured, whatever the scores say: asked for, or tied together by rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from heterofedsyn._registry import Value
from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.protocol.limits import MOST_INTEGERS
from heterofedsyn.schema import Clique, Schema

MEASURE = "measure"
"""The setting that names them, of every method that measures pairs."""

MOST_RULED_CELLS = 256
"""Of a pair that is measured for a rule's sake, cell by cell. More drown in noise, and all other
pairs with them; larger ones are scored like any, and rows that break a rule are mended."""

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",;]*?))\s*(?=[,;]|$)')


def read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of a setting: columns with a comma between, pairs with a semicolon.

    >>> read_pairs('sex,diagnosis; "height, cm",age')
    (('sex', 'diagnosis'), ('height, cm', 'age'))

    Raises:
        UsageError: showing how a pair is written.
    """
    pairs: list[list[str]] = [[]]
    place = 0
    while text.strip():
        name = _NAME.match(text, place)
        if name is None:
            raise _unreadable(text)
        quoted, bare = name.groups()
        pairs[-1].append(bare if quoted is None else quoted.replace('""', '"'))
        place = name.end()
        if place == len(text):
            break
        if text[place] == ";":
            pairs.append([])
        place += 1
    read = []
    for names in pairs:
        if names in ([], [""]):  # a semicolon too many
            continue
        if len(names) != 2 or "" in names:
            raise _unreadable(text)
        first, second = names
        if first == second:
            raise UsageError(f"measure: a pair has two columns, not {first!r} twice")
        read.append((first, second))
    return tuple(read)


def write_pairs(pairs: Iterable[Sequence[str]]) -> str:
    """The setting that `read_pairs` reads.

    >>> write_pairs([("sex", "diagnosis"), ("height, cm", "age")])
    'sex,diagnosis;"height, cm",age'

    Raises:
        UsageError: if something is no pair.
    """
    texts = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise UsageError(
                "measure must be a list of pairs of columns, such as [('sex', 'diagnosis')]"
            )
        texts.append(",".join(map(_written, pair)))
    return ";".join(texts)


def with_pairs(settings: Mapping[str, Value], pairs: Iterable[Sequence[str]]) -> dict[str, Value]:
    """Settings that name these pairs too."""
    named = write_pairs(pairs)
    if named and MEASURE in settings:
        raise UsageError("give either measure or the setting of that name, not both")
    return {**settings, MEASURE: named} if named else dict(settings)


def asked_pairs(schema: Schema, measure: str) -> tuple[Clique, ...]:
    """The pairs of a setting in domain order, each once.

    A column that follows from another is measured through that one.

    Raises:
        UsageError: naming a column that there is not, or that can depend on nothing.
    """
    found: dict[Clique, None] = {}
    for names in read_pairs(measure):
        own = [_measured(schema, name) for name in names]
        if own[0] == own[1]:
            raise UsageError(
                f"measure: of {names[0]!r} and {names[1]!r} one follows from the other"
            )
        found[schema.domain.clique(*own)] = None
    return tuple(found)


def ruled_pairs(schema: Schema) -> tuple[Clique, ...]:
    """The pairs that rules tie together."""
    domain = schema.domain
    return tuple(pair for pair in schema.rulebook.pairs if min(domain.shape(pair)) > 1)


def forced_flat(schema: Schema, measure: str) -> tuple[Clique, ...]:
    """Both, where every cell of a pair is asked for; of those by rules the small ones.

    Raises:
        UsageError: if those asked for are more than one answer has room for.
    """
    domain, pairs = schema.domain, asked_pairs(schema, measure)
    cells = sum(map(domain.cells, pairs))
    if cells > MOST_INTEGERS:
        raise UsageError(
            f"measure: {count(len(pairs), 'pair')} with {cells:,} cells, more than the "
            f"{MOST_INTEGERS:,} of one answer; name fewer pairs, take fewer bins, or use wavetree"
        )
    small = [pair for pair in ruled_pairs(schema) if domain.cells(pair) <= MOST_RULED_CELLS]
    return *pairs, *(pair for pair in small if pair not in pairs)


def _measured(schema: Schema, name: str) -> str:
    """The column by which one is measured."""
    at = schema.rulebook.source_of(name)
    if at in (column.name for column in schema.columns) and at not in schema.domain.names:
        raise UsageError(
            f"measure: column {name!r} is a key, which is never measured; leave it out"
        )
    if schema.domain.size(at) < 2:
        raise UsageError(
            f"measure: column {name!r} has one value and can depend on nothing; leave its pairs out"
        )
    return at


def _written(name: str) -> str:
    if name != name.strip() or not name or any(mark in name for mark in ',;"'):
        return '"' + name.replace('"', '""') + '"'
    return name


def _unreadable(text: str) -> UsageError:
    return UsageError(
        f"measure={text!r} must name pairs of columns, such as sex,diagnosis or "
        'sex,diagnosis;"height, cm",age'
    )
