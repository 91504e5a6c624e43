"""Runs what a comparison lacks, and writes what it found."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn._files import check_no_link
from heterofedsyn.bench.compare.asked import Comparison
from heterofedsyn.bench.compare.dealt import Dealt
from heterofedsyn.bench.compare.scoreboard import FILES, Scoreboard
from heterofedsyn.bench.resumable.carrying import Note, Telling, carry_out
from heterofedsyn.bench.resumable.lookup import Lookup
from heterofedsyn.bench.resumable.results import opened
from heterofedsyn.errors import HeterofedsynError


def compare(
    asked: Comparison, out: Path, *, overwrite: bool = False, jobs: int = 1, note: Note
) -> Scoreboard:
    """Do what a folder lacks of a comparison, and write its table, chart and page.

    Args:
        overwrite: remove an earlier comparison in the folder first.

    Raises:
        UsageError: if the folder belongs to another question.
        HeterofedsynError: if some of it failed; the rest is kept.
    """
    check_no_link(out)
    dealt = how_dealt(asked, note)
    question = asked.question()
    if overwrite and (out / FILES[0]).is_file():
        for name in FILES:
            (out / name).unlink(missing_ok=True)
    with opened(out, question, {}, "name another --out, or replace it with --overwrite") as results:
        ended = carry_out(asked.items(), results, asked.trial, jobs, Telling(note, asked.called))
        board = Scoreboard(asked, question, dealt, Lookup.read(out).of_seeds(asked.noise_seeds))
        board.write(out)
    if ended.failures:
        raise HeterofedsynError(
            f"{len(ended.failures)} of {ended.items} runs failed, the rest is kept; run again to "
            "try them once more"
        )
    return board


def how_dealt(asked: Comparison, note: Note) -> Dealt:
    """How the first repetition deals the rows, after checking that they fit the schema."""
    synthesizer = asked.synthesizer(asked.methods[0], asked.epsilons[0])
    encoded = synthesizer.encode([asked.trial.bench.rows])
    synthesizer.check_fit("data", encoded, [*asked.trial.data], allow=False)
    if remark := encoded.describe():
        note(f"note: {remark}; see `heterofedsyn schema check`")
    tables = synthesizer.split(encoded, asked.sites, asked.split)
    return Dealt.of(synthesizer.encoding, tables)
