"""`heterofedsyn site ...`: what the steward of one organisation's rows does."""

from __future__ import annotations

import json
import os
import pwd
import signal
import stat
import sys
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterofedsyn._words import PRIVATE_ROWS, aloud, short
from heterofedsyn.cli import _steward
from heterofedsyn.cli._options import check_file
from heterofedsyn.cli._show import note, pace, protected, say, say_json
from heterofedsyn.cli._signals import endings
from heterofedsyn.errors import PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from heterofedsyn.protocol.study import Study
    from heterofedsyn.schema import Fit
    from heterofedsyn.site.settings import SiteSettings

app = typer.Typer(help="Own a table: decide what may leave it, and answer.", no_args_is_help=True)
ledger_app = typer.Typer(help="What the table has spent.", invoke_without_command=True)
app.add_typer(ledger_app, name="ledger")

Folder = Annotated[
    Path, typer.Option("--folder", metavar="DIR", help="The site's folder; `site` unless given.")
]
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study (TOML).")]
StudyName = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="The study's file, or the start of its fingerprint."),
]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Who = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who decides; the user's name unless given.")
]
HERE = Path("site")


@app.command()
def init(
    folder: Folder = HERE,
    schema: Annotated[Path | None, typer.Option(help="The public schema (TOML).")] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="LOCATION", help="The private rows: a file, or a database's query."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The site's name, as studies say it.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The most the table may ever spend, at --delta.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Below 1 / (all rows); 1e-9 is usual.")
    ] = None,
    study_epsilon: Annotated[
        float | None, typer.Option(help="The most one study may spend, at the same delta.")
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(help="A file, best on another disk, that repeats the end of the ledger."),
    ] = None,
    socket: Annotated[
        Path | None, typer.Option(help="Where the agent will answer; in a folder of its own.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="USER", help="Who carries messages: another user.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="The group of both users; that of --engine unless given."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that identifies a person, if rows do not; the ledger keeps it for life.",
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="More rows than the table has or will have; over twice as many unless given."
        ),
    ] = None,
) -> None:
    """Set up a site: settings, an empty ledger and a key.

    Asks on a terminal for what is not given. The caps are kept in site.toml and nowhere else.
    """
    from heterofedsyn._files import check_place
    from heterofedsyn.site.create import found_site
    from heterofedsyn.site.settings import SiteSettings, group_of, propose
    from heterofedsyn.sources import anchored

    check_place(folder)
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists already; a site is never replaced: name another folder")
    asked = _Answers()
    place = Path(os.path.realpath(folder))
    schema = asked.path("--schema", "public schema", schema)
    data = asked.text("--data", "private rows (a file, or a database's query)", data)
    name = asked.text("--name", "the site's name in studies", name)
    epsilon = asked.number("--epsilon", "most epsilon of the table, ever", epsilon)
    delta = asked.number("--delta", "at which delta", delta, "1e-9")
    study_epsilon = asked.number("--study-epsilon", "most epsilon of one study", study_epsilon)
    anchor = asked.path("--anchor", "anchor of the ledger, on another disk", anchor)
    socket = asked.path("--socket", "socket of the agent", socket)
    engine = asked.text("--engine", "user that carries messages", engine)
    asked.check()
    settings = SiteSettings(
        folder=place,
        name=name,
        schema=schema,
        source=anchored(data),
        epsilon=epsilon,
        delta=delta,
        study_epsilon=study_epsilon,
        anchor=anchor,
        socket=socket,
        engine=engine,
        group=group_of(engine) if group is None else group,
        unit=unit,
        rows=rows,
    )
    _ = settings.askers(), settings.group_id()  # refuse what they refuse
    checked = _check_rows(settings, settings.load_schema(), unit, 1)
    if settings.rows is None:
        settings = replace(settings, rows=propose(checked.rows_read))
    key = found_site(settings)
    _steward.show_misfits(checked)
    note(f"site {name!r} in {place}; the key of its receipts: {key}")
    note(
        f"cap: epsilon {epsilon:g} in all, {study_epsilon:g} for one study, at delta {delta:g} "
        f"(rho {settings.cap.rho:.4g} and {settings.study_cap.rho:.4g})"
    )
    for remark in settings.remarks():
        note(remark)
    if place.stat().st_dev == anchor.parent.stat().st_dev:
        note(
            f"remark: the anchor {anchor} is on the same disk as the ledger; whoever restores that "
            "disk restores both, and nobody notices"
        )


@app.command()
def preview(
    study: StudyFile,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """What would leave for a study, before anything does.

    For the steward: it tells what the schema check found by column and count, which must not be
    published.
    """
    from heterofedsyn.errors import NotApproved
    from heterofedsyn.hub.planning.preview import preview as look_ahead
    from heterofedsyn.site.consent import check_schema, check_study, check_trust, check_unit
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.settings import SiteSettings

    settings = SiteSettings.load(folder)
    found = _load_study(study)
    check_trust(found)
    check_schema(settings, found)
    shown = look_ahead(found, settings.name)
    account = Books.read(settings.folder, settings.anchor)
    refusal = None
    try:
        check_study(settings, found)
        check_unit(settings, account)
    except NotApproved as error:
        refusal = str(error)
    plan = found.plan
    most = plan.rows_per_unit if plan.unit == settings.unit else 1
    checked = _check_rows(settings, found.encoding, settings.unit, most)
    if as_json:
        say_json(_steward.preview_json(shown, settings, account, checked, refusal))
        return
    _steward.show_preview(shown, found, settings, account)
    _steward.show_misfits(checked)
    if refusal is not None:
        say(f"it would be refused: {refusal}")


@app.command()
def approve(
    study: StudyFile,
    folder: Folder = HERE,
    who: Who = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="Of the study that was previewed: no other is approved, and none asked."),
    ] = None,
) -> None:
    """Consent to a study, up to its own budget.

    Consent is a ceiling, not a reservation; a study that is changed afterwards is another one. A
    preview shows what the study's method will ask, but consent is to the budget: the agent answers
    any statistic within it.
    """
    from heterofedsyn.hub.planning.preview import preview as look_ahead
    from heterofedsyn.site.consent import approve as consent_to
    from heterofedsyn.site.consent import check_study
    from heterofedsyn.site.ledger.books import Books

    settings = _own(folder)
    found = _load_study(study)
    if fingerprint is not None:
        _compare(fingerprint, found)
    check_study(settings, found)
    look_ahead(found, settings.name)
    plan = found.plan
    account = Books.read(settings.folder, settings.anchor)
    note(
        f"study {found.fingerprint}: {plan.method}, epsilon {plan.epsilon:g}, delta {plan.delta:g} "
        f"(rho {plan.budget.rho:.4g}) for every {protected(plan.unit)}"
    )
    note(f"to compare: {aloud(found.fingerprint)}")
    if account.spent.rho + plan.budget.rho > settings.cap.rho:
        note(
            f"remark: of the table's rho {settings.cap.rho:.4g} only "
            f"{_steward.left(settings, account):.4g} is left, so the study will be refused before "
            "its end"
        )
    if account.repairs:
        known = account.spent_on(found.fingerprint)
        note(
            f"remark: the ledger was repaired (entry {account.repairs[-1].number:,}), so entries "
            f"may be missing; of this study it knows rho {known.rho:.4g}"
        )
    note(
        "consent is to this budget: `site preview` shows what the method will ask, but the agent "
        "answers any statistic that the hub asks for within it"
    )
    if not yes and fingerprint is None:
        if not sys.stdin.isatty():
            raise UsageError("consent needs a terminal to confirm it, --fingerprint, or --yes")
        typer.confirm("Consent?", abort=True, err=True)
    consent = consent_to(settings, found, who=who or _user(), now=_now())
    say(f"approved {consent.study} by {consent.who} at {consent.when}")


@app.command()
def withdraw(study: StudyName, folder: Folder = HERE, who: Who = None) -> None:
    """Take consent back; what was spent stays spent."""
    from heterofedsyn.site.consent import withdraw as take_back

    settings = _own(folder)
    fingerprint = _find_study(settings, study)
    take_back(settings, fingerprint, who=who or _user(), now=_now())
    say(f"consent to {fingerprint} is withdrawn")


@app.command()
def serve(folder: Folder = HERE) -> None:
    """Answer approved studies until told to stop.

    First checks its own software and ledger. SIGTERM or Ctrl-C stops it.
    """
    from heterofedsyn.site.agent import Agent
    from heterofedsyn.site.consent import check_unit
    from heterofedsyn.site.ledger.anchor import check_anchor_folder
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.log import PacedLog
    from heterofedsyn.site.selfcheck import self_check
    from heterofedsyn.site.server import Service

    settings = _own(folder)
    mode = stat.S_IMODE(settings.folder.stat().st_mode)
    if mode & 0o077:
        raise UsageError(
            f"{settings.folder} has mode {mode:04o}; nobody but the agent's user may look into it: "
            f"chmod 700 {settings.folder}"
        )
    check_anchor_folder(settings.anchor)
    with (
        closing(PacedLog(_log)) as log,
        Books.open(settings.folder, settings.anchor) as books,
    ):
        check_unit(settings, books.account)
        for remark in settings.remarks():
            _log(remark)
        os.umask(0o077)
        agent = Agent(settings, books, log=log)
        agent.prepare()
        for line in self_check(settings, books, agent.noise):
            _log(line)
        with Service(agent, settings, log=log) as service:
            for number in (signal.SIGINT, *endings()):
                signal.signal(number, lambda *_: service.stop())
            spent, cap = books.account.spent.rho, settings.cap.rho
            _log(f"site {settings.name!r}: rho {spent:.6g} of {cap:.6g} is spent")
            _log(f"answering on {settings.socket}")
            service.run()
    _log("stopped; the ledger is closed and the socket is gone")
    if service.busy:
        # Whoever still reads after the time to stop would be waited for: Arrow calls Python there.
        os._exit(0)


@ledger_app.callback()
def ledger(context: typer.Context, folder: Folder = HERE, as_json: Json = False) -> None:
    """What the table has spent, and what is left; also while the agent serves."""
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.settings import SiteSettings

    if context.invoked_subcommand is not None:
        context.obj = folder
        return
    settings = SiteSettings.load(folder)
    account = Books.read(settings.folder, settings.anchor)
    if as_json:
        say_json(_steward.ledger_json(settings, account))
    else:
        _steward.show_ledger(settings, account)


@ledger_app.command()
def repair(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="The site's folder; `site` unless given."),
    ] = None,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored", help="Ledger and anchor agree, but both are from an older copy."
        ),
    ] = False,
) -> None:
    """Make a damaged or restored ledger usable.

    Books what ledger or anchor says is spent, whichever is more, and one full study on top. No
    consent that was given before holds any longer.
    """
    from heterofedsyn.site.ledger.books import Books

    settings = _own(folder or context.obj)
    account = Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=restored)
    say(f"rho {account.repairs[-1].rho:.6g} was booked for what may be missing")
    say("no study is approved any longer; `heterofedsyn site approve` those that may go on")
    say(_steward.balance(settings, account))


@app.command()
def receipt(
    study: StudyName,
    folder: Folder = HERE,
    out: Annotated[
        Path | None, typer.Option(help="The receipt; a file of the site's folder unless given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Sign a record of what a study got.

    It says under which guarantee and by whose consent.
    """
    from heterofedsyn._words import count
    from heterofedsyn.protocol.plan import unit_column
    from heterofedsyn.site.consent import recorded
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.receipt import issue

    settings = _own(folder)
    found, consent = recorded(settings, _find_study(settings, study))
    account = Books.read(settings.folder, settings.anchor)
    signed = issue(settings, found, consent, account, now=_now())
    stem = f"{short(found.fingerprint)}-{account.number}"
    target = settings.receipts / f"{stem}.json" if out is None else out
    check_file(target, overwrite=overwrite or out is None)
    signed.save(target)
    made = signed.receipt
    say(f"receipt in {target}")
    say(
        f"{count(len(made.releases), 'answer')}, rho {made.spent_rho:.4g} of {made.rho:.4g}, "
        f"epsilon {made.spent_epsilon:.4g} at delta {made.delta:g} for every "
        f"{protected(unit_column(made.unit))}"
    )


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt.")],
    key: Annotated[
        str | None,
        typer.Option(help="The site's public key, or a file of it; else only that the file has."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a receipt: its signature and its figures."""
    from heterofedsyn._words import count
    from heterofedsyn.protocol.plan import unit_column
    from heterofedsyn.site.receipt import SignedReceipt
    from heterofedsyn.site.signing import read_public_key

    signed = SignedReceipt.load(file)
    signed.check(None if key is None else read_public_key(key))
    made = signed.receipt
    integers = sum(part.integers for answer in made.releases for part in answer.parts)
    if as_json:
        found = {
            "valid": True,
            "key": signed.key,
            "key_known": key is not None,
            "site": made.site,
            "study": made.study,
            "spent_rho": made.spent_rho,
            "spent_epsilon": made.spent_epsilon,
            "delta": made.delta,
            "answers": len(made.releases),
            "integers": integers,
            "repairs": [
                {"number": booked.number, "when": booked.when, "rho": booked.rho}
                for booked in made.repairs
            ],
        }
        say_json(found)
        return
    known = "the key given" if key is not None else f"key {signed.key}, which nobody vouched for"
    say(f"the receipt holds, signed with {known}")
    say(f"site {made.site!r}, study {made.study}, issued {made.issued}")
    say(f"consent by {made.consent_by} on {made.consent_when}")
    say(
        f"{count(len(made.releases), 'answer')} with {count(integers, 'noisy integer')}: rho "
        f"{made.spent_rho:.4g}, epsilon {made.spent_epsilon:.4g} at delta {made.delta:g} for every "
        f"{protected(unit_column(made.unit))}"
    )
    for booked in made.repairs:
        say(
            f"remark: the ledger was repaired ({booked.when}, entry "
            f"{booked.number:,}, rho {booked.rho:.4g} booked): entries may be missing, and more "
            "may have been released than is said here"
        )
    if made.simulated_noise:
        say("remark: its noise was simulated and protects nobody")


@app.command()
def evaluate(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    folder: Folder = HERE,
    out: Annotated[
        Path | None,
        typer.Option(help="The scores (JSON); a file of the site's folder unless given."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE",
            help="tvd, query, histogram, num_num, cat_num, cat_cat; repeat; tvd, query and "
            "histogram unless given.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Score a release against the site's own rows.

    The scores are computed from private rows and have no guarantee; no command sends them.
    """
    from heterofedsyn.cli.report import release_around
    from heterofedsyn.evaluation import QUICK, Evaluator
    from heterofedsyn.hub import load
    from heterofedsyn.hub.release.synthetic import synthetic_rows

    settings = _own(folder)
    found = load(release)
    public = settings.load_schema()
    if found.schema.domain.names != public.domain.names:
        raise UsageError(f"{release} has other columns than {settings.schema}")
    own = settings.folder / "evaluations"
    target = own / f"{release.resolve().name}.json" if out is None else out
    if release_around(target) is not None:
        raise UsageError(
            f"--out {target} lies in a release, which is published as a whole; keep the scores "
            "somewhere else"
        )
    if out is None:
        own.mkdir(mode=0o700, exist_ok=True)
    check_file(target, overwrite=overwrite)
    with synthetic_rows(found, release) as there:
        rows = found.sample(seed=0) if there is None else there.table()
    evaluator = Evaluator(public, settings.source)
    measures = only or QUICK
    scores = evaluator.score(rows, measures)
    floor = evaluator.floor(measures)
    report = {
        "warning": PRIVATE_ROWS,
        "site": settings.name,
        "release": str(release.resolve()),
        **scores.to_dict(),
        "floor": {name: value for name, value in floor.to_dict().items() if name != "remarks"},
    }
    _write_private(target, json.dumps(report, indent=1) + "\n")
    for remark in scores.remarks:
        note(f"remark: {remark}")
    say(f"scores in {target}")
    note(PRIVATE_ROWS)


class _Answers:
    """Settings from options, or from a person at a terminal."""

    def __init__(self) -> None:
        self._person = sys.stdin.isatty()
        self._missing: list[str] = []

    def text(self, option: str, words: str, given: str | None, usual: str | None = None) -> str:
        """What was given, or what the person says."""
        if given is not None:
            return given
        if not self._person:
            self._missing.append(option)
            return ""
        return str(typer.prompt(words, default=usual, err=True)).strip()

    def path(self, option: str, words: str, given: Path | None) -> Path:
        """A path from the root."""
        found = self.text(option, words, None if given is None else str(given))
        return Path(os.path.abspath(Path(found).expanduser()))  # noqa: PTH100

    def number(
        self, option: str, words: str, given: float | None, usual: str | None = None
    ) -> float:
        """A number."""
        if given is not None:
            return given
        found = self.text(option, words, None, usual)
        try:
            return float(found or "nan")
        except ValueError:
            raise UsageError(f"{words}: {found!r} is no number; see {option}") from None

    def check(self) -> None:
        """Refuse to go on if something is missing and there is nobody to ask."""
        if self._missing:
            raise UsageError(
                f"{', '.join(self._missing)} must be given, since there is no terminal to ask on"
            )


def _own(folder: Path) -> SiteSettings:
    """The settings of a site of this very user: what another writes the agent could not read."""
    from heterofedsyn.site.settings import SiteSettings

    settings = SiteSettings.load(folder)
    owner = settings.folder.stat().st_uid
    if owner != os.geteuid():
        raise UsageError(
            f"{settings.folder} belongs to {_name(owner)}; run this as that user, not as {_user()}"
        )
    return settings


def _compare(told: str, study: Study) -> None:
    """Refuse another study than the one whose fingerprint was told."""
    if "".join(told.split()).lower() != study.fingerprint:
        raise PrivacyRefusal(
            f"this is study {study.fingerprint}, not {told!r}; preview it again, and ask the "
            "coordinator for the whole fingerprint"
        )


def _load_study(path: Path) -> Study:
    from heterofedsyn.protocol.study import Study

    return Study.load(path)


def _find_study(settings: SiteSettings, text: str) -> str:
    """The fingerprint of a study given by its file or by the start of its fingerprint."""
    path = Path(text)
    if path.is_file():
        return _load_study(path).fingerprint
    known = sorted(found.name for found in settings.studies.iterdir() if found.name[0] != ".")
    fitting = [name for name in known if name.startswith(text)]
    if len(text) < 4 or len(fitting) != 1:
        shown = ", ".join(map(short, known)) or "none"
        raise UsageError(f"there is no file {text!r}, and no one study starts so; known: {shown}")
    return fitting[0]


def _check_rows(settings: SiteSettings, schema: Any, unit: str | None, most: int) -> Fit:
    """The site's rows held against a schema."""
    from heterofedsyn.site.counting import check
    from heterofedsyn.sources import open_source

    source = open_source(settings.source)
    return check(
        [source], schema, unit=unit, max_rows_per_unit=most, watch=pace(f"reading {source.name}")
    )


def _write_private(target: Path, text: str) -> None:
    """A file that appears whole and that only its owner can read."""
    from heterofedsyn._files import file_written_whole

    with file_written_whole(target) as partial:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
            file.write(text.encode())


def _log(text: str) -> None:
    """A line of the agent's log; a hub may have chosen some of its letters."""
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with suppress(OSError):  # nobody reads the log any more
        note(f"{when} {text}")


def _user() -> str:
    """The user's name by the operating system, which no environment variable can change."""
    return _name(os.geteuid())


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _now() -> datetime:
    return datetime.now(UTC)
