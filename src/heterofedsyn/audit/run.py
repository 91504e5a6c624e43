"""Runs the layers of an audit, one check after the other."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version

from msgspec import UnsetType

from heterofedsyn._version import __version__
from heterofedsyn.audit import coupling, game, histories, noise, sums
from heterofedsyn.audit.cases import Case
from heterofedsyn.audit.coupling import studies
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Audit, Broken, Check, Finding, Layer, Verdict
from heterofedsyn.audit.study_case import StudyCase
from heterofedsyn.errors import HeterofedsynError, UsageError, did_you_mean
from heterofedsyn.protocol import Study

LAYERS: dict[str, tuple[str, Layer]] = {
    "coupling": (
        "does a record change more than was charged, or anything un-noised?",
        coupling.checks,
    ),
    "noise": ("is what is added the noise that is recorded, fresh every time?", noise.checks),
    "game": ("can a record be told from a transcript better than promised?", game.checks),
    "ledger": (
        "is every release charged, once, whatever crashes or is restored?",
        histories.checks,
    ),
    "sums": (
        "can a hub that lies, with sites in league, learn more than sums?",
        sums.checks,
    ),
}
"""Every layer by name: the question it answers, and its checks."""


OF_A_STUDY: dict[str, Callable[[Effort, int, Case], Iterable[Check]]] = {
    "coupling": coupling.checks,
    "noise": noise.checks,
    "game": game.checks,
}
"""Layers in which a study of somebody's own takes the place of the built-in ones."""


def audit(
    effort: Effort,
    seed: int,
    layers: Sequence[str] = (),
    progress: Callable[[str], None] = lambda line: None,
    enough: Callable[[Finding], bool] = lambda finding: False,
    study: Study | None = None,
) -> Audit:
    """Run these layers, or all of them.

    Args:
        study: takes the place of the built-in ones, with its guarantee, schema and method.
        enough: ends a layer after a check with such a finding.

    Raises:
        UsageError: if there is no such layer.
    """
    for name in layers:
        if name not in LAYERS:
            raise UsageError(f"there is no layer {name!r}; {did_you_mean(name, LAYERS)}")
    case = None if study is None else StudyCase.of(study)
    verdicts = []
    for name, (question, checks) in LAYERS.items():
        if layers and name not in layers:
            continue
        start = _seconds()
        findings: list[Finding] = []
        own = OF_A_STUDY.get(name)
        for title, work in own(effort, seed, case) if own and case else checks(effort, seed):
            progress(f"{name}: {title}")
            said = _findings((title, work))
            findings += said
            if any(map(enough, said)):
                break
        verdicts.append(Verdict(name, question, tuple(findings), _seconds() - start))
    made = (__version__, version("opendp"), effort.name, seed, tuple(verdicts))
    if case is None:
        return Audit(*made)
    asked = layers or [*LAYERS]
    tried, untried = seen(case, effort, asked)
    about = case.study.plan.about
    title = "" if isinstance(about, UnsetType) else about.title
    return Audit(*made, case.study.fingerprint, tried, untried, title)


def seen(
    case: StudyCase, effort: Effort, layers: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What these layers do with a study of somebody's own, and what they do not."""
    why = "its rows are in one pool" if case.conducted.pools else "its answers are summed"
    alone, whole = studies.answers_singly(case), game.plays_whole(effort, case)
    does = {
        "coupling": "its questions and charges, with and without a person",
        "noise": "the sizes of its noise",
        "game": "its epsilon and delta, in games of single releases",
    }
    tried = [f"{name}: {words}" for name, words in does.items() if name in layers]
    untried = [f"{name}: not asked for" for name in LAYERS if name not in layers]
    if "coupling" in layers:
        part = "coupling: the study at an agent, and its release"
        if alone:
            tried.append(part)
        else:
            untried.append(f"{part} (built-in studies instead: {why})")
    if "game" in layers:
        part = "game: the study as a whole"
        if whole:
            tried.append(part)
        else:
            untried.append(f"{part} ({why if effort.adaptive_runs else 'too little effort'})")
    untried += [
        f"{name}: built-in studies instead, as for every study"
        for name in layers
        if name not in OF_A_STUDY
    ]
    return tuple(tried), tuple(untried)


def _findings(check: Check) -> list[Finding]:
    """What a check finds; one that breaks off has failed, with what it found before."""
    title, work = check
    findings: list[Finding] = []
    try:
        figure = work()
        if isinstance(figure, str):
            return [Finding(title, True, figure)]
        for finding in figure:
            findings.append(finding)
    except (Broken, HeterofedsynError) as error:
        findings.append(Finding(title, False, " ".join(str(error).split())))
    except Exception as error:
        findings.append(Finding(title, False, f"unexpected {type(error).__name__}: {error}"[:300]))
    return findings


def _seconds() -> float:
    """Of the processor, in this process and in those it started."""
    users = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, users))
