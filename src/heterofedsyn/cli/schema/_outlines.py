"""What commands that write an unfinished schema share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._show import note
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.schema.outline import Options, Outline

SchemaOut = Annotated[Path, typer.Option(help="Where the schema goes.")]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="COLUMN=MIN:MAX", help="The public range of a column; repeat."),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--values", metavar="COLUMN=A,B", help="The public list of values of a column; repeat."
    ),
]


def listed(texts: Sequence[str] | None) -> list[str]:
    """The names of an option that may repeat or hold commas; quotes keep a comma in a name."""
    import csv

    names = []
    for text in texts or []:
        names += [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    return [name for name in names if name]


def by_column(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """What an option says of each column."""
    said: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{option} {text!r} must be COLUMN=..., as in {option} age=...")
        if name in said:
            raise UsageError(f"{option} is given twice for column {name!r}; keep one")
        said[name] = value
    return said


def fill(outline: Outline, ranges: list[str] | None, values: list[str] | None) -> Outline:
    """The outline with what --range and --values say."""
    from heterofedsyn.schema.outline import filled

    lists = {name: listed([text]) for name, text in by_column(values, "--values").items()}
    return filled(outline, by_column(ranges, "--range"), lists)


def options_of(dialect: Options) -> str:
    """What a location says after its question mark."""
    from heterofedsyn.sources.dialect import written

    said = []
    for (key, column), values in dialect.items():
        said.append(written(key, values if key == "null" else values[0], column))
    return "&".join(said)


def write(outline: Outline, out: Path) -> None:
    """The schema file, whole or not at all."""
    from heterofedsyn._files import file_written_whole

    with file_written_whole(out) as partial:
        partial.write_text(outline.to_toml(), encoding="utf-8", newline="\n")


def tell(outline: Outline) -> None:
    """What a person must know and do, on stderr, a line for each."""
    for remark in outline.remarks:
        note(f"  {remark}")
    for entry in outline.entries:
        for said in ((f"left out: {entry.left_out}",) if entry.left_out else ()) + entry.remarks:
            note(f"  column {entry.name!r}: {said}")
    for name, keys in outline.lacking.items():
        note(f"  column {name!r}: fill in {' and '.join(keys)}")
