"""A study from its coordinator's side: who is there, how far it is, and what to do if it stops.

`run_study` is the whole of it as a generator, which tells what happens and prints nothing: commands
and pages show it, each in its own way.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from heterofedsyn._defaults import WAIT_MINUTES
from heterofedsyn.engines.presence import Presence, Seen, Sightings, look_once
from heterofedsyn.engines.progress import Progress, State
from heterofedsyn.engines.session import LOOK_AGAIN, Server, Session, copy_release, ended
from heterofedsyn.errors import EngineError, HeterofedsynError, UsageError
from heterofedsyn.hub import Absence
from heterofedsyn.hub.replies import NO_ANSWER
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.refusal import Reason

START_SECONDS = 120.0
"""In which a server starts a job of sites that are connected."""

_PRESENCE_EVERY = 5
_ANOTHER = "with the right names the study is another: make it with `study new`"


class Stage(StrEnum):
    """What a study is waiting for."""

    REACHING = "reaching"
    GATHERING = "gathering"
    STARTING = "starting"
    ASKING = "asking"
    DONE = "done"


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """Where a study stands that is being run.

    Attributes:
        seconds: since this stage began.
        server: whom it is run by, for people.
        quorum: sites that it cannot do without.
    """

    stage: Stage
    seconds: float
    server: str
    quorum: int
    job: str | None = None
    presence: Presence | None = None
    progress: Progress | None = None


class StudyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a study is, or what it came to, and who is connected.

    Attributes:
        status: as the engine says; nothing before the first job.
    """

    study: str
    job: str | None = None
    status: str = ""
    progress: Progress | None = None
    sites: tuple[Seen, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[tuple[int, str], ...]:
        """Number and label of every round so far, in order."""
        rounds = self.progress.rounds if self.progress else ()
        return tuple(sorted({each.round: each.label for each in rounds}.items()))

    @property
    def head(self) -> list[str]:
        """What stands above `lines`."""
        rounds = (label if number == 0 else f"{number} {label}" for number, label in self.rounds)
        return ["site", "last seen", *rounds]

    @property
    def lines(self) -> list[list[str]]:
        """Every site: when it was heard, and what came of asking it, round by round."""
        return [
            [seen.site, seen.words, *(self.cell(seen.site, number) for number, _ in self.rounds)]
            for seen in self.sites
        ]

    def cell(self, site: str, number: int) -> str:
        """What came of asking a site in a round, in a word or two."""
        rounds = self.progress.rounds if self.progress else ()
        steps = [each for each in rounds if each.round == number and site in each.asked]
        if not steps:
            return "-"
        for step in steps:
            for absence in step.absent:
                if absence.site == site and (step.finished or not step.again):
                    return _short(absence)
        if any(site not in step.answered for step in steps):
            return "waiting" if self.runs else NO_ANSWER
        return "kept" if all(step.resumed for step in steps) else "answered"

    @property
    def runs(self) -> bool:
        """Whether a job of it is under way."""
        return self.job is not None and not ended(self.status)


def study_status(hub: Session, study: Study, sightings: Sightings | None = None) -> StudyStatus:
    """How far the newest job of a study is.

    Args:
        sightings: of whoever asks again and again; nothing for a single look.
    """
    heard = hub.heard()
    presence = (
        look_once(study.plan.sites, heard)
        if sightings is None
        else sightings.look(heard, time.time())
    )
    job = hub.latest(study)
    found = StudyStatus(
        study=study.fingerprint, job=job, sites=presence.sites, others=presence.others
    )
    if job is None:
        return found
    status = hub.status(job)
    if ended(status):
        with hub.result(job) as (progress, _):
            return msgspec.structs.replace(found, status=status, progress=progress)
    return msgspec.structs.replace(found, status=status, progress=hub.running(job))


def run_study(
    server: Server,
    study: Study,
    out: Path,
    *,
    wait: float = 60.0 * WAIT_MINUTES,
    resume: bool = False,
    rows: int | None = None,
    safe_csv: bool = False,
) -> Generator[Course]:
    """Run a study over a federation and write its release; closed early, it stops the job.

    Args:
        server: who runs it.
        wait: seconds in which the server must answer and sites be connected.

    Raises:
        HeterofedsynError: if it comes to no release, saying what to do.
    """
    now = Course(stage=Stage.REACHING, seconds=0.0, server=server.address, quorum=study.quorum)
    until = time.monotonic() + wait
    yield from _reach(server, now, until)
    with ExitStack() as held:
        hub = held.enter_context(server.connect())
        sightings = Sightings(study.plan.sites)
        now = yield from _gather(hub, sightings, now, until)
        job = hub.submit(study, resume=resume, rows=rows, safe_csv=safe_csv)
        running = ExitStack()
        held.enter_context(running)
        running.callback(_abort, hub, job)
        now = msgspec.structs.replace(now, stage=Stage.STARTING, seconds=0.0, job=job)
        yield now
        try:
            status = yield from _follow(hub, job, sightings, now, study)
        except EngineError as error:
            raise EngineError(
                f"{error}; when the server {now.server} is back, run this again, with --resume if "
                "a round was finished"
            ) from None
        running.pop_all()
        with hub.result(job) as (progress, folder):
            if progress is None:
                raise _never_began(hub, job, status)
            yield msgspec.structs.replace(now, stage=Stage.DONE, progress=progress)
            if progress.state is not State.DONE:
                raise stopped(progress, status)
            copy_release(folder, out)


def stopped(progress: Progress, status: str = "") -> HeterofedsynError:
    """Why a study came to no release, and what to do."""
    kind = UsageError if progress.wrong_use else HeterofedsynError
    words = [progress.message or f"the job ended as {status}"]
    if not progress.wrong_use:
        words += remedies(progress)
    return kind("; ".join(words))


def remedies(progress: Progress) -> list[str]:
    """What to do about sites that were missed last."""
    last = progress.rounds[-1].absent if progress.rounds else ()
    found = []
    for reason, remedy in _REMEDIES.items():
        names = sorted(absence.site for absence in last if absence.reason == reason)
        if names:
            found.append(remedy.format(", ".join(names)))
    if found:
        again = " with --resume" if any(each.finished for each in progress.rounds) else ""
        found.append(f"then run the same command again{again}")
    return found


_REMEDIES = {
    Absence.refused("", Reason.NOT_APPROVED).reason: "ask the steward of {} for `site approve`",
    Absence.refused("", Reason.UNAVAILABLE).reason: (
        "ask {} to start the agent, or to see what `site doctor` says"
    ),
    Absence.refused("", Reason.OVER_THE_CAP).reason: (
        "the study costs more than the steward of {} allows, so ask for less or for a larger cap"
    ),
    Absence.refused("", Reason.MALFORMED).reason: "see that {} has the hub's version installed",
    NO_ANSWER: "ask {} whether agent and engine run, and give the study more --patience",
}


def _short(absence: Absence) -> str:
    """A reason without what goes without saying in a table."""
    return absence.reason.removeprefix("refused (").removesuffix(")")


def _reach(server: Server, now: Course, until: float) -> Generator[Course]:
    """Wait until the server's port is open."""
    begun = time.monotonic()
    while True:
        yield msgspec.structs.replace(now, seconds=time.monotonic() - begun)
        why = server.unreachable()
        if why is None:
            return
        if time.monotonic() >= until:
            raise EngineError(why)
        time.sleep(LOOK_AGAIN)


def _gather(
    hub: Session, sightings: Sightings, now: Course, until: float
) -> Generator[Course, None, Course]:
    """Wait for all sites of the study; at the end of the time, for no more than its quorum."""
    begun = time.monotonic()
    while True:
        presence = sightings.look(hub.heard(), time.time())
        now = msgspec.structs.replace(
            now, stage=Stage.GATHERING, seconds=time.monotonic() - begun, presence=presence
        )
        yield now
        if not presence.missing:
            return now
        if presence.mistyped:
            raise UsageError(_mistyped(presence))
        if time.monotonic() >= until:
            if len(presence.connected) >= now.quorum:
                return now
            raise EngineError(_too_few(presence, now.quorum))
        time.sleep(LOOK_AGAIN)


def _mistyped(presence: Presence) -> str:
    """That a study names a site wrongly, so that waiting is in vain."""
    names = "; ".join(
        f"nobody is connected as {site!r} (did you mean {other!r}?)"
        for site, other in presence.mistyped
    )
    return f"{names}; {_ANOTHER}, and have it approved again"


def _too_few(presence: Presence, quorum: int) -> str:
    """That sites are missing, which, and what to do."""
    words = [
        f"{len(presence.connected)} of {len(presence.sites)} sites are connected and the study "
        f"needs {quorum}"
    ]
    words += [
        f"nobody is connected as {seen.site!r}" + (f" ({hint})" if hint else "")
        for seen in presence.missing
        if (hint := presence.hint(seen.site)) or seen.last_seen is None
    ]
    away = [seen.site for seen in presence.missing if not presence.hint(seen.site)]
    if len(away) < len(presence.missing):
        words.append(_ANOTHER)
    if away:
        words.append(
            f"ask {', '.join(away)} to start the engine, or to see what `site doctor` says"
        )
    words.append("then run this again, with a longer --wait perhaps")
    return "; ".join(words)


def _follow(
    hub: Session, job: str, sightings: Sightings, now: Course, study: Study
) -> Generator[Course, None, str]:
    """What comes of a job until it ends; it is not waited for in vain."""
    begun, looks = time.monotonic(), 0
    events = hub.follow(job)
    while True:
        try:
            progress = next(events)
        except StopIteration as end:
            return str(end.value)
        looks += 1
        if looks % _PRESENCE_EVERY == 0:
            presence = sightings.look(hub.heard(), time.time())
            now = msgspec.structs.replace(now, presence=presence)
        if progress is not None and now.stage is Stage.STARTING:
            now, begun = msgspec.structs.replace(now, stage=Stage.ASKING), time.monotonic()
        seconds = time.monotonic() - begun
        now = msgspec.structs.replace(now, seconds=seconds, progress=progress or now.progress)
        yield now
        if now.stage is Stage.STARTING and seconds > START_SECONDS:
            missing = now.presence is not None and len(now.presence.connected) < study.quorum
            raise HeterofedsynError(
                _too_few(now.presence, study.quorum)
                if missing and now.presence is not None
                else f"the server did not start the study within {START_SECONDS:.0f} s; ask at the "
                "hub what its log says, then run this again"
            )


def _never_began(hub: Session, job: str, status: str) -> HeterofedsynError:
    detail = hub.detail(job)
    return HeterofedsynError(
        f"the job ended as {status} before the study began"
        + (f": {detail}" if detail else "")
        + "; see at the hub, and at sites that are named, what `site doctor` and the logs say"
    )


def _abort(hub: Session, job: str) -> None:
    with suppress(EngineError):  # a server that is gone runs it no more
        hub.abort(job)
