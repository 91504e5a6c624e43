"""Two tables that differ by one row, through anything that runs a study from end to end.

What runs is watched, not changed: the tables that sites got, the queries and the answers are noted
on their way. From that follow three figures. The queries of one run are put, without noise, to the
sites of both: the squared distance between them is a multiple of what was charged. The release is
built once more from the answers alone. And the other table is run once more while its sites give
the first one's answers: whatever is published then, said, or returned must be the same to the last
byte, for nothing but answers may tell the tables apart.
"""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from heterofedsyn.audit.coupling.answers import loss
from heterofedsyn.audit.findings import Broken, require
from heterofedsyn.audit.fixtures import temporary_folder
from heterofedsyn.audit.patches import patched
from heterofedsyn.hub import Release, Request, converse, drive
from heterofedsyn.hub.methods.base import Method
from heterofedsyn.marginals import Counts, TableCounts
from heterofedsyn.protocol import Answer, Plan, Query, decode, encode
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.simulate import run as run_module
from heterofedsyn.simulate import synthesizer
from heterofedsyn.site import Site


@dataclass(frozen=True)
class Published:
    """All that a run leaves behind for others: files by name, what it said, its exit code."""

    files: Mapping[str, bytes]
    said: str
    code: int

    def differences(self, other: Published) -> list[str]:
        """The names of whatever is not the same."""
        names = sorted({*self.files, *other.files})
        differ = [name for name in names if self.files.get(name) != other.files.get(name)]
        differ += ["what is said"] if self.said != other.said else []
        return differ + (["the exit code"] if self.code != other.code else [])


@dataclass(eq=False)
class Recorded:
    """One run: its study as it was begun, all messages, and what was published."""

    schema: Schema | None = None
    plan: Plan | None = None
    method: Method | None = None
    tables: dict[str, EncodedTable | Counts] = field(default_factory=dict)
    rounds: dict[bytes, dict[str, bytes]] = field(default_factory=dict)
    """By the query as it was sent: the answer of each site."""
    published: Published = field(default_factory=lambda: Published({}, "", 0))

    @property
    def begun(self) -> tuple[Schema, Plan, Method]:
        """The study.

        Raises:
            Broken: if the run came to none.
        """
        if self.schema is None or self.plan is None or self.method is None:
            raise Broken(f"no study was run, and the exit code is {self.published.code}")
        return self.schema, self.plan, self.method

    @property
    def queries(self) -> list[Query]:
        """What was asked, in order."""
        return [decode(message, Query) for message in self.rounds]

    def counts(self, site: str) -> Counts:
        """The exact counts of a site."""
        table = self.tables[site]
        return TableCounts(table) if isinstance(table, EncodedTable) else table

    def rows(self, site: str) -> Counter[tuple[int, ...]]:
        """The rows of a site, where it has codes of them."""
        table = self.tables[site]
        if not isinstance(table, EncodedTable):
            raise TypeError("this site has counts alone")
        return Counter(tuple(row) for row in table.codes.T.tolist())

    @property
    def pooled(self) -> Counter[tuple[int, ...]]:
        """The rows of all sites."""
        return sum((self.rows(site) for site in self.tables), Counter())


Run = Callable[[], Published]
"""Runs something from end to end."""


def record(run: Run, answers: Mapping[bytes, Mapping[str, bytes]] | None = None) -> Recorded:
    """What a run does.

    Args:
        answers: of an earlier run, which sites give instead of their own.

    Raises:
        Broken: if a site is asked what was not asked in that earlier run.
    """
    seen = Recorded()
    broken: list[Broken] = []
    true_study, true_answer = run_module.run_study, Site.answer

    def study(
        schema: Schema, plan: Plan, method: Method, tables: Sequence[Any], **more: Any
    ) -> Release:
        seen.schema, seen.plan, seen.method = schema, plan, method
        pooled = method.pools and len(tables) > 1
        own = [EncodedTable.concatenate(list(tables))] if pooled else list(tables)
        seen.tables = dict(zip(plan.sites, own, strict=True))
        return true_study(schema, plan, method, tables, **more)

    def answer(site: Site, message: bytes) -> bytes:
        if answers is None:
            said = true_answer(site, message)
        elif site.name in answers.get(message, {}):
            said = answers[message][site.name]
        else:
            broken.append(Broken("a row changes what is asked, though all answers are the same"))
            raise broken[0]
        seen.rounds.setdefault(message, {})[site.name] = said
        return said

    with (
        patched(run_module, run_study=study),
        patched(synthesizer, run_study=study),
        patched(Site, answer=answer),
    ):
        seen.published = run()
    if broken:  # a command turns whatever is raised into an exit code
        raise broken[0]
    return seen


def distance(one: Recorded, other: Recorded) -> Fraction:
    """How far the un-noised answers of two tables are apart, in multiples of what was charged.

    The queries are those of the first run; both tables are asked them.
    """
    _, plan, _ = one.begun
    charged: dict[str, Fraction] = defaultdict(Fraction)
    moved = Fraction(0)
    counts = [{site: run.counts(site) for site in plan.sites} for run in (one, other)]
    for message, said in one.rounds.items():
        replies = {site: decode(reply, Answer).parts for site, reply in said.items()}
        for place, part in enumerate(decode(message, Query).parts):
            apart = {
                site: part.statistic.exact(counts[1][site]).values
                - part.statistic.exact(counts[0][site]).values
                for site in said
            }
            if plan.trust != "local":  # only the sum is seen
                apart = {next(iter(said)): np.sum([*apart.values()], axis=0)}
            for site, change in apart.items():
                sigma = replies[site][place].sigma
                moved += loss([change], [np.zeros_like(change)], [sigma], plan.trust_model)
        for site, parts in replies.items():
            charged[site] += sum((Fraction(part.rho) for part in parts), Fraction(0))
    require(bool(charged), "nothing was charged")
    return moved / max(charged.values())


def rebuilt(one: Recorded) -> dict[str, bytes]:
    """The files of a release made from a run's answers and nothing else.

    Raises:
        Broken: if the hub asks for something else than it did in the run.
    """
    schema, plan, method = one.begun
    left = dict(one.rounds)

    def recorded(request: Request) -> list[Answer]:
        said = left.pop(encode(request.query), None)
        if said is None:
            raise Broken("a hub with the same answers asks for something else")
        answers = [decode(said[site], Answer) for site in plan.sites if site in said]
        return answers if plan.trust == "local" else [run_module.summed(answers)]

    release = drive(converse(schema, plan, method), recorded)
    with temporary_folder() as place:
        return files_in(release.save(place / "release"))


def check_published(run: Run, other: Run) -> Recorded:
    """Refuse a run whose published bytes follow from anything but its answers; what it did.

    Args:
        other: the same with a table that differs by a row.

    Raises:
        Broken: naming every file, message and exit code that differs.
    """
    one = record(run)
    own = rebuilt(one)
    differ = sorted(name for name, data in own.items() if one.published.files.get(name) != data)
    require(not differ, f"{', '.join(differ)} does not follow from the answers alone")
    again = record(other, one.rounds)
    differ = one.published.differences(again.published)
    require(not differ, f"with the same answers a row changes {', '.join(differ)}")
    return one


def files_in(folder: Path) -> dict[str, bytes]:
    """The files of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def simulate(*arguments: str | Path) -> Published:
    """`heterofedsyn simulate` with these arguments, in this process, without its report.

    What it notes for whoever owns the rows, on stderr, is not published.
    """
    # A layer above this one, as pyproject.toml says: what is audited is what people run.
    from heterofedsyn.cli import report
    from heterofedsyn.cli.app import run

    said = io.StringIO()
    with (
        temporary_folder() as place,
        patched(report, write_report=lambda *given, **options: False),
        chdir(place),
        redirect_stdout(said),
        redirect_stderr(io.StringIO()),
    ):
        code = run(["simulate", *map(str, arguments), "--out", "release"])
        folder = place / "release"
        files = files_in(folder) if folder.is_dir() else {}
    return Published(files, said.getvalue(), code)
