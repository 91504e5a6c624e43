"""`heterofedsyn ask`: an answer with intervals to a question in SQL."""

from __future__ import annotations

from collections.abc import Callable
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

    The question is put to the synthetic table and to replicates of it: tables of other worlds that
    the noisy answers allow. The first question of a release takes some seconds for these.
    """
    from heterofedsyn.cli._show import note, say, say_json, show_table
    from heterofedsyn.hub.questions.inquiry import check
    from heterofedsyn.hub.questions.kept import Drawn, usual_cache
    from heterofedsyn.hub.release import load

    release = load(folder)
    place = cache or usual_cache()
    drawn = Drawn(release, replicates, place)
    check(question, release.schema, drawn.empty())
    if not drawn.kept:
        note(f"drawing {replicates} replicates, which are kept for the next question")
        drawn.keep(every_fifth(replicates))
    answer = release.answer(question, replicates=replicates, cache=place)
    if as_json:
        say_json(answer.as_dict())
        return
    show_table("Estimates with intervals of 95 %", answer.head, answer.shown())
    for line in answer.notes:
        say(line)


def every_fifth(all_of_them: int) -> Callable[[int], None]:
    """Says now and then how many replicates are drawn."""
    from heterofedsyn.cli._show import note

    def watch(many: int) -> None:
        if many and many % 5 == 0:
            note(f"  {many} of {all_of_them}")

    return watch
