"""`heterofedsyn study package|run|status`: a study in a federation."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._defaults import WAIT_MINUTES
from heterofedsyn._words import size
from heterofedsyn.cli._options import Json, Overwrite, SafeCsv, StudyFile, seconds_of
from heterofedsyn.cli._show import Moving, note, say, say_json, show_table
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.engines.presence import Presence
    from heterofedsyn.engines.progress import Progress, RoundProgress
    from heterofedsyn.engines.session import Server
    from heterofedsyn.engines.study_run import Course, StudyStatus


class EngineName(StrEnum):
    """What carries the messages of a study."""

    nvflare = "nvflare"
    flower = "flower"


Engine = Annotated[
    EngineName, typer.Option(help="What carries messages: nvflare (with --kit) or flower.")
]
Kit = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Your startup kit: the folder that provisioning made."),
]
User = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who you are; as the kit says unless given.")
]
SuperLinkAddress = Annotated[
    str | None, typer.Option("--superlink", metavar="HOST:PORT", help="Of Flower's SuperLink.")
]
Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="FILE", help="The certificate that signed the SuperLink's."),
]
HubFolder = Annotated[
    Path | None,
    typer.Option("--hub", metavar="DIR", help="What HETEROFEDSYN_HUB names to the SuperLink."),
]


def server_of(
    engine: EngineName,
    kit: Path | None,
    user: str | None,
    superlink: str | None,
    root: Path | None,
    hub: Path | None,
) -> Server:
    """Who runs studies, by what was said on the command line.

    Raises:
        UsageError: if that does not fit together.
    """
    flower = {"--superlink": superlink, "--root": root, "--hub": hub}
    if engine is EngineName.nvflare:
        wrong = [name for name, value in flower.items() if value is not None]
        if wrong:
            raise UsageError(f"{wrong[0]} is for --engine flower")
        if kit is None:
            raise UsageError("name your startup kit with --kit")
        from heterofedsyn.engines.nvflare.job import KitServer

        return KitServer(kit, user)
    if kit is not None or user is not None:
        raise UsageError("--kit and --user are for --engine nvflare")
    if superlink is None or root is None or hub is None:
        raise UsageError("--engine flower needs --superlink, --root and --hub")
    from heterofedsyn.engines.flower.superlink import SuperLink

    return SuperLink(superlink, root, hub)


def package(
    study: StudyFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the NVFlare job.")],
) -> None:
    """Write the NVFlare job and what sites must allow.

    The classes come with the installed package; `study run` submits the same job.
    """
    from heterofedsyn._files import check_place
    from heterofedsyn.engines.nvflare.hardening import AUTHORIZATION, CONTROLLER, EXECUTOR
    from heterofedsyn.engines.nvflare.job import write_job
    from heterofedsyn.protocol import Study

    check_place(out)
    if out.exists():
        raise UsageError(f"{out} exists already; name a new folder")
    write_job(Study.load(study), out)
    note(f"job in {out}")
    say("server, class_allow_list of local/resources.json:")
    say_json([CONTROLLER])
    say("every site, class_allow_list of local/resources.json, and nothing else in it:")
    say_json([EXECUTOR])
    say("every site, local/authorization.json:")
    say_json(AUTHORIZATION)


def run(
    study: StudyFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the release.")],
    kit: Kit = None,
    user: User = None,
    engine: Engine = EngineName.nvflare,
    superlink: SuperLinkAddress = None,
    root: Root = None,
    hub: HubFolder = None,
    wait: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How long to wait for the server and for sites: 30s, 10m, 2h."
        ),
    ] = f"{WAIT_MINUTES}m",
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the last finished round; no site pays twice."),
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(help="Synthetic rows; the noisy total, at most 10 million, unless given."),
    ] = None,
    overwrite: Overwrite = False,
    safe_csv: SafeCsv = False,
) -> None:
    """Run a study over the federation and write its release.

    Says who is connected and waits for who is not; after --wait it goes on without them if the
    study's quorum is there. Shows every round: who answered, and who refused with which of four
    reasons.
    """
    from contextlib import closing

    from heterofedsyn.cli.report import write_report
    from heterofedsyn.engines.study_run import run_study
    from heterofedsyn.hub.release import check_rows, check_target
    from heterofedsyn.protocol import Study

    asked, patience = Study.load(study), seconds_of("--wait", wait)
    asked.plan.said_about.check_open(datetime.now(UTC))
    if rows is not None:
        check_rows(rows)
    check_target(out, overwrite=overwrite)
    shown = Shown(asked.fingerprint)
    server = server_of(engine, kit, user, superlink, root, hub)
    events = run_study(
        server, asked, out, wait=patience, resume=resume, rows=rows, safe_csv=safe_csv
    )
    with closing(events), closing(shown):
        for course in events:
            shown.show(course)
    write_report(out)
    say_release(out)


def say_release(out: Path) -> None:
    """What a study came to."""
    from heterofedsyn._words import count
    from heterofedsyn.hub.release import load
    from heterofedsyn.hub.release.synthetic import synthetic_rows

    release = load(out)
    with synthetic_rows(release, out) as there:
        drawn = 0 if there is None else there.number
    say(f"release in {out}: {count(drawn, 'synthetic row')}")
    say(f"guarantee: {release.privacy.guarantee}")
    for remark in release.run.remarks:
        say(f"remark: {remark}")


def status(
    study: StudyFile,
    kit: Kit = None,
    user: User = None,
    engine: Engine = EngineName.nvflare,
    superlink: SuperLinkAddress = None,
    root: Root = None,
    hub: HubFolder = None,
    as_json: Json = False,
) -> None:
    """How far a study is.

    Sites and rounds, who is connected, and refusals with their reasons.
    """
    import msgspec

    from heterofedsyn.engines.study_run import study_status
    from heterofedsyn.protocol import Study

    asked = Study.load(study)
    with server_of(engine, kit, user, superlink, root, hub).connect() as session:
        found = study_status(session, asked)
    if as_json:
        say_json(msgspec.to_builtins(found))
        return
    _show_status(found)


def _show_status(found: StudyStatus) -> None:
    """Sites and rounds as a table, and below it every round."""
    from heterofedsyn.engines.study_run import stopped

    say(f"study {found.study}")
    show_table("Sites and rounds", found.head, found.lines)
    if found.job is None:
        say("the server knows no job of this study; start it with `study run`")
        return
    say(f"job {found.job}: {found.status}")
    progress = found.progress
    for done in progress.rounds if progress else ():
        say(_line(done))
    if progress:
        say(f"stopped: {stopped(progress)}" if progress.message else progress.state.value)


class Shown:
    """Shows a study as it goes: whom it waits for on a line that moves, all else once."""

    def __init__(self, study: str) -> None:
        self._study = study
        self._lines: set[str] = set()
        self._moving = Moving()

    def show(self, course: Course) -> None:
        """What is new."""
        from heterofedsyn.engines.study_run import Stage

        if course.stage is Stage.REACHING:
            self._say(f"reaching the server {course.server}")
            self._moving.show("no answer yet")
            return
        if course.presence is not None and course.stage is Stage.GATHERING:
            for line in _connected(course.presence):
                self._say(line)
            if course.presence.missing:
                names = ", ".join(seen.site for seen in course.presence.missing)
                self._moving.show(f"waiting for {names}")
            return
        if course.job is not None:
            self._say(f"study {self._study}, job {course.job}")
        if course.progress is None:
            self._moving.show("the server starts the study at every site")
            return
        self._rounds(course.progress)

    def close(self) -> None:
        """Leave no line half-said."""
        self._moving.clear()

    def _rounds(self, progress: Progress) -> None:
        for round_ in progress.rounds:
            for line in [_line(round_)] if round_.finished else _asked_again(round_):
                self._say(line)
        under_way = [round_ for round_ in progress.rounds if not round_.finished]
        if under_way and progress.state == "running":
            names = ", ".join(under_way[-1].waited_for) or "the hub"
            self._moving.show(f"  {_what(under_way[-1])}: waiting for {names}")

    def _say(self, line: str) -> None:
        if line not in self._lines:
            self._lines.add(line)
            self._moving.clear()
            note(line)


def _connected(presence: Presence) -> list[str]:
    """Who is there and who is not; a name that nobody has may be a slip of the finger."""
    lines = [f"connected: {', '.join(presence.connected) or 'nobody'}"]
    for seen in presence.missing:
        hint = presence.hint(seen.site)
        lines.append(
            f"missing: {seen.site}, last seen {seen.words}"
            + (" since the server started" if seen.last_seen is None else "")
            + (f"; {hint}" if hint else "")
        )
    return lines


def _asked_again(round_: RoundProgress) -> list[str]:
    """A line for every site that was not there and is asked again."""
    from heterofedsyn.hub.replies import UNAVAILABLE

    return [
        f"  {_what(round_)}: {absence.site} {absence.reason}, and is asked again"
        for absence in round_.absent
        if absence.reason == UNAVAILABLE and round_.again
    ]


def _line(done: RoundProgress) -> str:
    from heterofedsyn._words import count

    what = _what(done)
    if done.resumed:
        return f"  {what}, from the journal"
    text = (
        f"  {what}, {len(done.answered)} of {count(len(done.asked), 'site')} answered, "
        f"{size(sum(done.received.values()))}, within {done.seconds:.0f} s"
    )
    if not done.finished and (left := done.waited_for):
        text += f", waiting for {', '.join(left)}"
    return "; ".join([text, *(f"{absence.site} {absence.reason}" for absence in done.absent)])


def _what(done: RoundProgress) -> str:
    """What sites were asked for."""
    from heterofedsyn._words import count
    from heterofedsyn.hub.replies import ANSWER

    if done.round == 0:
        return "keys of all sites"
    parts = f"round {done.round}: {done.label}"
    if done.step != ANSWER:
        return f"{parts}, {done.step}"
    return parts if done.resumed else f"{parts}, {count(done.parts, 'release')}"
