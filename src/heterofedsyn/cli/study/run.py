"""`heterofedsyn study package|run|status`: a study in a federation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._options import Json, Overwrite, SafeCsv, StudyFile
from heterofedsyn.cli._show import note, say, say_json, size
from heterofedsyn.errors import EngineError, HeterofedsynError, UsageError

if TYPE_CHECKING:
    from heterofedsyn.engines.nvflare.job import Hub
    from heterofedsyn.engines.nvflare.progress import Progress, RoundProgress

Kit = Annotated[
    Path,
    typer.Option(metavar="DIR", help="Your startup kit: the folder that provisioning made."),
]
User = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who you are; as the kit says unless given.")
]


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
    kit: Kit,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the release.")],
    user: User = None,
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

    Shows every round: who answered, and who refused with which of four reasons.
    """
    from heterofedsyn._words import count
    from heterofedsyn.cli.report import write_report
    from heterofedsyn.engines.nvflare.job import connect, copy_release
    from heterofedsyn.engines.nvflare.progress import State
    from heterofedsyn.hub.release import check_rows, check_target, load
    from heterofedsyn.hub.release.synthetic import synthetic_rows
    from heterofedsyn.protocol import Study

    asked = Study.load(study)
    if rows is not None:
        check_rows(rows)
    check_target(out, overwrite=overwrite)
    with connect(kit, user) as hub:
        shown = _Shown()
        job = hub.submit(asked, resume=resume, rows=rows, safe_csv=safe_csv)
        note(f"study {asked.fingerprint} over {count(len(asked.plan.sites), 'site')}, job {job}")
        try:
            status = hub.watch(job, shown.show)
        except (KeyboardInterrupt, SystemExit):
            hub.abort(job)
            raise
        except EngineError as error:
            raise EngineError(f"{error}; once the server is back, continue with --resume") from None
        with hub.result(job) as (progress, folder):
            if progress is None:
                raise HeterofedsynError(f"the job ended as {status} before the study began")
            shown.show(progress)
            if progress.state is not State.DONE:
                kind = UsageError if progress.wrong_use else HeterofedsynError
                raise kind(progress.message or f"the job ended as {status}")
            copy_release(folder, out)
    write_report(out)
    release = load(out)
    with synthetic_rows(release, out) as there:
        drawn = 0 if there is None else there.number
    say(f"release in {out}: {count(drawn, 'synthetic row')}")
    say(f"guarantee: {release.privacy.guarantee}")
    for remark in release.run.remarks:
        say(f"remark: {remark}")


def status(
    study: StudyFile,
    kit: Kit,
    user: User = None,
    as_json: Json = False,
) -> None:
    """How far a study is: rounds, sites that answered, refusals."""
    import msgspec

    from heterofedsyn.engines.nvflare.job import connect
    from heterofedsyn.protocol import Study

    asked = Study.load(study)
    with connect(kit, user) as hub:
        job = hub.latest(asked)
        if job is None:
            raise UsageError(f"the federation knows no job of {study}; start it with `study run`")
        state = hub.status(job)
        progress = _progress(hub, job, state)
    if as_json:
        rounds = msgspec.to_builtins(progress) if progress else None
        say_json({"job": job, "status": state, "progress": rounds})
        return
    say(f"job {job}: {state}")
    for done in progress.rounds if progress else ():
        say(_line(done))
    if progress:
        say(f"{progress.state}{': ' if progress.message else ''}{progress.message}")


def _progress(hub: Hub, job: str, state: str) -> Progress | None:
    """How far a job is, or was when it ended."""
    if not state.startswith("FINISHED"):
        return hub.running(job)
    with hub.result(job) as (progress, _):
        return progress


class _Shown:
    """Shows every round, or every step of one, when it is finished, and whom it waits for before.

    Nothing is shown twice.
    """

    def __init__(self) -> None:
        self._lines: set[str] = set()

    def show(self, progress: Progress) -> None:
        for round_ in progress.rounds:
            lines = [_line(round_)] if round_.finished else _waiting(round_)
            for line in lines:
                if line not in self._lines:
                    self._lines.add(line)
                    note(line)


def _waiting(round_: RoundProgress) -> list[str]:
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
    if not done.finished:
        left = [site for site in done.asked if site not in done.answered]
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
