"""Runs the layers of an audit, one check after the other."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from importlib.metadata import version

from heterofedsyn._version import __version__
from heterofedsyn.audit import coupling, game, ledger, noise
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Audit, Broken, Check, Finding, Layer, Verdict
from heterofedsyn.errors import HeterofedsynError, UsageError, did_you_mean

LAYERS: dict[str, tuple[str, Layer]] = {
    "coupling": (
        "does a record change more than was charged, or anything un-noised?",
        coupling.checks,
    ),
    "noise": ("is what is added the noise that is recorded, fresh every time?", noise.checks),
    "game": ("can a record be told from a transcript better than promised?", game.checks),
    "ledger": ("is every release charged, once, whatever crashes or is restored?", ledger.checks),
}
"""Every layer by name: the question it answers, and its checks."""


def audit(
    effort: Effort,
    seed: int,
    layers: Sequence[str] = (),
    progress: Callable[[str], None] = lambda line: None,
    enough: Callable[[Finding], bool] = lambda finding: False,
) -> Audit:
    """Run these layers, or all of them.

    Args:
        enough: ends a layer after a check with such a finding.

    Raises:
        UsageError: if there is no such layer, or a library is missing that one needs.
    """
    for name in layers:
        if name not in LAYERS:
            raise UsageError(f"there is no layer {name!r}; {did_you_mean(name, LAYERS)}")
    wanted = [name for name in LAYERS if name in layers or not layers]
    if "ledger" in wanted:
        ledger.check_library()
    verdicts = []
    for name in wanted:
        question, checks = LAYERS[name]
        start = _seconds()
        findings: list[Finding] = []
        for title, work in checks(effort, seed):
            progress(f"{name}: {title}")
            found = _findings((title, work))
            findings += found
            if any(map(enough, found)):
                break
        verdicts.append(Verdict(name, question, tuple(findings), _seconds() - start))
    return Audit(__version__, version("opendp"), effort.name, seed, tuple(verdicts))


def _findings(check: Check) -> list[Finding]:
    """What a check finds; one that breaks off has failed, with what it found before."""
    title, work = check
    found: list[Finding] = []
    try:
        for finding in work():
            found.append(finding)
    except (Broken, HeterofedsynError) as error:
        found.append(Finding(title, False, " ".join(str(error).split())))
    except Exception as error:
        found.append(Finding(title, False, f"unexpected {type(error).__name__}: {error}"[:300]))
    return found


def _seconds() -> float:
    """Of the processor, in this process and in those it started."""
    users = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, users))
