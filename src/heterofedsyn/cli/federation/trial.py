"""`heterofedsyn federation try`: a real federation on one machine, with invented hospitals."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._defaults import SITE_OF_KIT
from heterofedsyn._words import size
from heterofedsyn.cli._options import TrustModel
from heterofedsyn.cli._show import note, say, show_table

if TYPE_CHECKING:
    from heterofedsyn.engines.progress import Progress
    from heterofedsyn.federation.trial_processes import Processes
    from heterofedsyn.federation.trial_run import Trial
    from heterofedsyn.protocol import Study
    from heterofedsyn.site.receipt import SignedReceipt

FOLDER = Path("heterofedsyn-try")


def try_federation(
    folder: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for everything; an earlier try is replaced."),
    ] = FOLDER,
    trust: TrustModel = "local",
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Go on running when all is done, with consoles, until Ctrl-C."),
    ] = False,
    patients: Annotated[
        int, typer.Option(help="Invented patients; three of five hospitals take part.")
    ] = 20_000,
) -> None:
    """Run a real federation of three invented hospitals on this machine.

    Makes certificates, starts a server, three agents and three engines, runs a study and checks its
    receipts. Nothing listens outside of this machine; Ctrl-C ends it all and removes what is not
    finished. Takes about a minute.
    """
    from heterofedsyn.cli.report import write_report
    from heterofedsyn.engines.nvflare.provisioning import nvflare_version
    from heterofedsyn.federation.trial_processes import processes
    from heterofedsyn.federation.trial_run import agree, check_wishes, set_up, sign_receipts, start

    check_wishes(trust, patients)
    nvflare_version()
    begun = time.monotonic()
    with processes(folder) as running:
        note(f"a federation of three invented hospitals, all of it in {folder}")
        note("certificates: the hub makes a root key, each hospital its own key, and the hub signs")
        trial = set_up(running, trust=trust, patients=patients)
        note("processes, on this machine and for nobody outside of it:")
        note("  hub: NVFlare's server; it asks questions, and sees noisy answers only")
        for site in trial.members:
            note(f"  {site}: an agent that reads the rows, keeps the ledger and has no network")
            note(f"  {site}: an engine that carries messages to the hub, and sees no rows")
        start(running, trial)
        study = agree(trial)
        note("every steward has looked at the study and approved it")
        most, progress = _run(running, trial, study)
        receipts = sign_receipts(trial, study)
        note("every hospital signed a receipt of what left it; all signatures and sums hold")
        note("drawing the report")
        write_report(trial.release)
        running.stays = True
        _say(trial, study, receipts, folder)
        carried = sum(
            step.sent * len(step.asked) + sum(step.received.values()) for step in progress.rounds
        )
        say(
            f"{time.monotonic() - begun:.0f} s, {most} processes, {size(carried)} carried between "
            "hub and hospitals"
        )
        if keep:
            _consoles(running, trial)
            _stay(running)
            return
        note("ending all processes; --keep leaves them running")


def _run(running: Processes, trial: Trial, study: Study) -> tuple[int, Progress]:
    """The study itself, as `study run` does it; the most processes seen, and how it went."""
    from contextlib import closing

    from heterofedsyn.cli.study.run import Shown
    from heterofedsyn.engines.nvflare.job import KitServer
    from heterofedsyn.engines.study_run import run_study
    from heterofedsyn.errors import EngineError

    shown, most, last = Shown(study.fingerprint), 0, None
    events = run_study(KitServer(trial.hub.coordinator_kit), study, trial.release)
    with closing(events), closing(shown):
        for course in events:
            running.check()
            shown.show(course)
            most, last = max(most, running.number), course.progress or last
    if last is None:
        raise EngineError(
            f"the study ended without a word; {running.log('hub')} tells why, and the same command "
            "tries again"
        )
    return most, last


def _say(trial: Trial, study: Study, receipts: list[SignedReceipt], folder: Path) -> None:
    """What each hospital spent, and where things are."""
    show_table(
        "What left each hospital, as its receipt says",
        ["hospital", "answers", "noisy integers", "spent (epsilon)", "of its cap for a study"],
        [
            [
                signed.receipt.site,
                f"{len(signed.receipt.releases):,}",
                f"{_integers(signed):,}",
                f"{signed.receipt.spent_epsilon:.3g}",
                f"{signed.receipt.spent_rho / settings.study_cap.rho:.0%}",
            ]
            for signed, settings in zip(
                receipts, (member.settings for member in trial.members.values()), strict=True
            )
        ],
    )
    site = next(iter(trial.members))
    say("look at:")
    for name, what in (
        ("release/report.html", "what the synthetic table is good for, and what is promised"),
        ("release/synthetic.csv", "patients who do not exist"),
        ("study.toml", "what every steward approved"),
        (f"receipts/{site}.json", "what left a hospital, signed by it"),
        (f"{site}", "a hospital: its rows, ledger, kit and unit files"),
        ("hospitals", "the hub: the root key, the server's kit, the coordinator's"),
        ("logs", "what every process said"),
    ):
        say(f"  {folder / name}  {what}")
    say("as the steward of a hospital would:")
    own = folder / site / SITE_OF_KIT
    say(f"  heterofedsyn site ledger --folder {own}")
    say(f"  heterofedsyn site preview {folder / 'study.toml'} --folder {own}")


def _integers(signed: SignedReceipt) -> int:
    return sum(part.integers for answer in signed.receipt.releases for part in answer.parts)


def _consoles(running: Processes, trial: Trial) -> None:
    """Pages for every steward and the coordinator; the addresses that open them are in no log."""
    from functools import partial
    from importlib.util import find_spec

    from heterofedsyn.console import PACKAGES

    if any(find_spec(name) is None for name in PACKAGES):
        note("no consoles: they need the extra `console`: pip install 'heterofedsyn[console]'")
        return
    told: list[str] = []

    def hear(who: str, line: str) -> None:
        told.append(line)
        say(f"{who}: {line}")

    sides = {
        f"steward of {site}": ["--folder", str(member.settings.folder)]
        for site, member in trial.members.items()
    }
    kit = str(trial.hub.coordinator_kit)
    sides["coordinator"] = ["--study-folder", str(trial.folder), "--kit", kit]
    program = str(trial.hub.hub.programs / "heterofedsyn")
    for who, options in sides.items():
        running.start(
            f"console {who}",
            [program, "console", "--no-browser", *options],
            {},
            partial(hear, who),
        )
    running.until(lambda: sum("http://" in line for line in told) >= len(sides), "the consoles")


def _stay(running: Processes) -> None:
    """Until Ctrl-C, which is how this is meant to end."""
    note("everything goes on running; Ctrl-C ends it")
    try:
        while True:
            running.check()
            time.sleep(1)
    except KeyboardInterrupt:
        note("ended; the folder stays")
