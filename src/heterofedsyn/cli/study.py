"""`heterofedsyn study ...`: what the coordinator of a federation does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._options import (
    AllowLargeDelta,
    Colluding,
    ConversionName,
    Delta,
    Epsilon,
    Json,
    Measure,
    Overwrite,
    OverwriteFile,
    SafeCsv,
    SchemaFile,
    Settings,
    StudyFile,
    TrustModel,
    check_file,
    read_settings,
)
from heterofedsyn.cli._show import guarantee, note, say, say_json, size
from heterofedsyn.errors import EngineError, HeterofedsynError, UsageError

if TYPE_CHECKING:
    from msgspec import UnsetType

    from heterofedsyn.engines.nvflare.job import Hub
    from heterofedsyn.engines.nvflare.progress import Progress, RoundProgress
    from heterofedsyn.protocol import Plan
    from heterofedsyn.protocol.plan import Aggregation

app = typer.Typer(help="Run a study over a federation of sites.", no_args_is_help=True)

Kit = Annotated[
    Path,
    typer.Option(metavar="DIR", help="Your startup kit: the folder that provisioning made."),
]
User = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who you are; as the kit says unless given.")
]


@app.command()
def new(
    schema: SchemaFile,
    site: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[=KEY]",
            help="A site, as the federation names it; once per site. For secure-aggregation with "
            "its public key, or the file of it.",
        ),
    ],
    epsilon: Epsilon,
    delta: Delta,
    out: Annotated[Path, typer.Option(help="The study (TOML), to be sent to every steward.")],
    trust: TrustModel = "local",
    colluding: Colluding = None,
    quorum: Annotated[
        int | None,
        typer.Option(
            help="Sites that must answer every round, or be in every sum; all of them unless given."
        ),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            help="Seconds a round may take at a site, its ticks and the turns of other studies "
            "included, beyond what its noise needs."
        ),
    ] = 60.0,
    most_rows: Annotated[
        int,
        typer.Option(help="Rows that any site has at most; who tells of more is left out."),
    ] = 10_000_000,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to synthesize; see `simulate --help`.")
    ] = "wavetree",
    setting: Settings = None,
    measure: Measure = None,
    conversion: ConversionName = "tight",
    unit: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that identifies a person, at every site."),
    ] = None,
    max_rows_per_unit: Annotated[
        int | None,
        typer.Option(help="Rows of one person that count; needs --unit, 1 unless given."),
    ] = None,
    allow_large_delta: AllowLargeDelta = False,
    overwrite: OverwriteFile = False,
) -> None:
    """Write a study, the file that stewards approve.

    Every steward gets the same file and approves it by its fingerprint.
    """
    import secrets

    from heterofedsyn._words import aloud, count
    from heterofedsyn.hub import make_method
    from heterofedsyn.hub.methods.base import settings_of
    from heterofedsyn.hub.planning.cost import check_feasible
    from heterofedsyn.privacy.budget import check_usual_delta
    from heterofedsyn.protocol import Plan, Study
    from heterofedsyn.schema import Schema

    if max_rows_per_unit is not None and unit is None:
        raise UsageError("--max-rows-per-unit needs --unit, the column that identifies a person")
    check_file(out, overwrite=overwrite)
    chosen = make_method(method, read_settings(setting, measure))
    if chosen.pools:
        raise UsageError(f"method {method!r} needs all rows in one place; it can only be simulated")
    public = Schema.load(schema)
    names, keys = _roster(site, trust)
    plan = Plan(
        schema=public.fingerprint,
        encoding=chosen.encoding(public).fingerprint,
        epsilon=epsilon,
        delta=delta,
        conversion=conversion,
        trust=trust,
        sites=names,
        unit=unit,
        rows_per_unit=1 if max_rows_per_unit is None else max_rows_per_unit,
        method=chosen.name,
        settings=settings_of(chosen),
        seed=secrets.randbits(62),
        aggregation=_aggregation(keys, trust, colluding, quorum),
    )
    check_usual_delta(delta, allow_large=allow_large_delta)
    check_feasible(chosen.encoding(public), plan, chosen)
    study = Study(
        plan=plan,
        schema=public.settings,
        quorum=len(names) if quorum is None else quorum,
        patience=patience,
        most_rows=most_rows,
    )
    study.save(out)
    needed = "must be in every sum" if keys else "must answer every round"
    many = f"{study.quorum} of {count(len(names), 'site')} {needed}"
    note(f"study in {out}; {many}; send it to every steward")
    if keys:
        note(f"promised: {_promise(plan)}; every steward confirms the keys of all other sites")
    note(f"let every steward compare: {aloud(study.fingerprint)}")
    say(study.fingerprint)


def _roster(sites: list[str], trust: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of sites, and their public keys where these are needed.

    Raises:
        UsageError: if a key is missing, or is given where nobody signs.
    """
    from heterofedsyn.privacy.trust import Local, SecureAggregation
    from heterofedsyn.site.signing import read_public_key

    told = [(name, equals, key) for name, equals, key in (site.partition("=") for site in sites)]
    names = tuple(name for name, _, _ in told)
    if trust != SecureAggregation.name:
        for name, equals, _ in told:
            if equals and trust == Local.name:
                raise UsageError(
                    f"--site {name}=KEY: under trust {trust!r} nobody needs a key; give the name "
                    f"alone, or add --trust {SecureAggregation.name}"
                )
        return names, {}
    for name, _, key in told:
        if not key:
            raise UsageError(
                f"--site {name} needs the site's public key under trust {trust!r}: give "
                f"{name}=KEY or {name}=FILE, as the site's steward sent it"
            )
    return names, {name: read_public_key(key) for name, _, key in told}


def _aggregation(
    keys: dict[str, str], trust: str, colluding: int | None, quorum: int | None
) -> Aggregation | UnsetType:
    """How answers are hidden in sums, where they are."""
    from msgspec import UNSET

    from heterofedsyn.protocol.plan import Hiding

    if keys:
        return Hiding(trust, colluding, quorum).terms(len(keys), keys)
    if colluding is not None:
        raise UsageError(
            f"--colluding means nothing under trust {trust!r}, where everyone may see every "
            "answer; leave it out"
        )
    return UNSET


def _promise(plan: Plan) -> str:
    """What is promised against whom, and what is left of it if more collude."""
    from heterofedsyn._words import count
    from heterofedsyn.hub.sums import trust_of

    trust = trust_of(plan)
    alone = plan.budget_alone.epsilon(plan.delta, plan.conversion)
    return (
        f"epsilon {plan.epsilon:g} though {count(trust.colluding, 'site')} may collude with the "
        f"hub, {alone:.3g} if more do"
    )


@app.command()
def package(
    study: StudyFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the NVFlare job.")],
) -> None:
    """Write the NVFlare job and what sites must allow.

    The classes come with the installed package; `study run` submits the same job.
    """
    from heterofedsyn._files import check_place
    from heterofedsyn.engines.nvflare.job import AUTHORIZATION, CONTROLLER, EXECUTOR, write_job
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


@app.command()
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
    say(f"guarantee: {guarantee(release.privacy)}")
    for remark in release.run.remarks:
        say(f"remark: {remark}")


@app.command()
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
