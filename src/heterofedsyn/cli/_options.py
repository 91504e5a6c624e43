"""Options that several commands share, each worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._words import STUDY_TEXTS
from heterofedsyn.errors import UsageError

SchemaFile = Annotated[Path, typer.Option(help="The public schema (TOML).")]
Epsilon = Annotated[
    float, typer.Option(help="Privacy budget of every record; with a unit, of every person.")
]
Delta = Annotated[float, typer.Option(help="Below 1 / (all rows); 1e-9 is usual.")]
AllowLargeDelta = Annotated[
    bool,
    typer.Option("--allow-large-delta", help="Take a delta of 0.01 or more, which protects few."),
]
TrustModel = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="local (everyone may see every answer) or secure-aggregation (only sums over sites "
        "are seen).",
    ),
]
Colluding = Annotated[
    int | None,
    typer.Option(
        help="Sites that may pool what they know, with the hub or without; for secure-aggregation, "
        "1 unless given."
    ),
]
SumQuorum = Annotated[
    int | None,
    typer.Option(
        help="Sites that must be in every sum; for secure-aggregation, all of them unless given."
    ),
]
ConversionName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="How epsilon and delta become rho: tight, or the paper's: paper."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting of the method, such as q=0.2; repeat."
    ),
]
Measure = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN,COLUMN",
        help="A pair that must be measured, whatever its score; repeat. A name with a comma stands "
        'in quotation marks: "height, cm",age.',
    ),
]
Title = Annotated[str, typer.Option(metavar="TEXT", help=STUDY_TEXTS["title"])]
Purpose = Annotated[str, typer.Option(metavar="TEXT", help=STUDY_TEXTS["purpose"])]
Contact = Annotated[str, typer.Option(metavar="TEXT", help=STUDY_TEXTS["contact"])]
EthicsApproval = Annotated[str, typer.Option(metavar="TEXT", help=STUDY_TEXTS["ethics_approval"])]
Expires = Annotated[str, typer.Option(metavar="DAY", help=STUDY_TEXTS["expires"])]
NoiseSeed = Annotated[
    int | None,
    typer.Option(help="Reproducible noise, FOR RESEARCH: anyone with the seed can undo it."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier release in --out.")
]
OverwriteFile = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study (TOML).")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="In CSV, an apostrophe before text that a spreadsheet would take for a formula.",
    ),
]


def read_settings(texts: list[str] | None, measure: list[str] | None = None) -> dict[str, str]:
    """The settings of `--set`, each once, and the pairs of `--measure`, which are one of them."""
    settings: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError(f"--set {text!r} must be NAME=VALUE, such as q=0.2")
        if name in settings:
            raise UsageError(f"--set {name} is given twice; keep one")
        settings[name] = value
    if measure:
        if "measure" in settings:
            raise UsageError("give either --measure or --set measure=..., not both")
        settings["measure"] = ";".join(measure)
    return settings


def check_file(target: Path, *endings: str, overwrite: bool = False, option: str = "--out") -> None:
    """Refuse a file that cannot be written, before any work is done for it.

    Raises:
        UsageError: saying what is in the way.
    """
    from heterofedsyn._files import check_place

    check_place(target)
    if endings and target.suffix not in endings:
        raise UsageError(f"{option} {target} must end in {' or '.join(endings)}")
    if target.is_dir():
        raise UsageError(f"{option} {target} is a folder; name a file in it")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists already; pass --overwrite or name another file")
    if not target.parent.is_dir():
        raise UsageError(f"{option} {target}: there is no folder {target.parent}; make it first")


def seconds_of(option: str, text: str) -> float:
    """A duration such as 30s, 10m or 2h, in seconds.

    >>> seconds_of("--wait", "10m")
    600.0

    Raises:
        UsageError: if it is anything else.
    """
    units = {"s": 1, "m": 60, "h": 3_600}
    number = text[:-1] if text[-1:] in units else text
    try:
        seconds = float(number) * units.get(text[-1:], 1)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 7 * 86_400 or "_" in text:
        raise UsageError(f"{option} ({text!r}) is no duration; write 30s, 10m or 2h")
    return seconds
