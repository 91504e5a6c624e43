"""`heterofedsyn ask`: an answer with intervals to a question in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import Json


def ask(
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    question: Annotated[
        str,
        typer.Argument(
            metavar="SQL", help="One SELECT with aggregates; the table is called release."
        ),
    ],
    replicates: Annotated[
        int, typer.Option(help="Tables that intervals come from; more take longer.")
    ] = 20,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where these tables are kept for the next question; below XDG_CACHE_HOME or "
            "~/.cache unless given.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer a question with intervals; costs no privacy.

    The question is put to the synthetic table and to replicates of it, made with noise drawn
    again. The first question of a release takes some seconds for these. The basis of a number is
    `measured` if it is of one column or of two that were measured together; where it `follows` from
    others, the interval covers noise, but not a dependence that nobody measured.
    """
    from heterofedsyn._files import cache_of
    from heterofedsyn.cli._show import note, say, say_json, show_table
    from heterofedsyn.hub.release import load

    place = cache or cache_of("ask")
    answer = load(folder).answer(question, replicates=replicates, cache=place, watch=note)
    if as_json:
        say_json(answer.as_dict())
        return
    if answer.cells:
        show_table(answer.title, answer.shown_head, answer.shown())
    for line in answer.notes:
        say(line)
