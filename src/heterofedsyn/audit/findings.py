"""What an audit found: one finding per check, one verdict per layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from heterofedsyn.audit.effort import Effort

ALARM = 1e-9
"""A statistical check fails if what it saw has a smaller chance than this."""


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at, whether it held, and by how much."""

    name: str
    passed: bool
    figure: str
    p_value: float | None = None
    """The chance of something as odd in sound software; None where no chance is involved."""

    @classmethod
    def of_chance(cls, name: str, p_value: float, figure: str = "") -> Finding:
        """A statistical check, which fails if what it saw is too unlikely."""
        shown = f"p {p_value:.2g}"
        return cls(name, p_value >= ALARM, f"{figure}, {shown}" if figure else shown, p_value)


class Broken(Exception):
    """A promise that did not hold, in one line."""


def require(held: bool, words: str) -> None:
    """Refuse to go on with a check whose promise is broken."""
    if not held:
        raise Broken(words)


Check: TypeAlias = tuple[str, Callable[[], str | Iterable[Finding]]]
"""A name, and work that gives the figure of what held, or findings; what it raises is a failure."""

Layer: TypeAlias = Callable[[Effort, int], Iterable[Check]]
"""The checks of a layer, for an effort and a seed."""


@dataclass(frozen=True)
class Verdict:
    """What one layer found."""

    layer: str
    question: str
    findings: tuple[Finding, ...]
    seconds: float
    """Of the processor."""

    @property
    def passed(self) -> bool:
        """Whether every check held, and there was one."""
        return bool(self.findings) and all(finding.passed for finding in self.findings)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that did not hold."""
        return tuple(finding for finding in self.findings if not finding.passed)


@dataclass(frozen=True)
class Audit:
    """The verdicts of all layers that were asked for."""

    version: str
    opendp: str
    effort: str
    seed: int
    verdicts: tuple[Verdict, ...]
    study: str = ""
    """Fingerprint of the study that took the place of the built-in ones; empty if none did."""
    tried: tuple[str, ...] = ()
    """What was done with that study, layer by layer."""
    untried: tuple[str, ...] = ()
    """What was done with built-in studies instead, or not at all, and why."""
    title: str = ""
    """What that study is called, if it says so."""

    @property
    def passed(self) -> bool:
        """Whether every layer passed."""
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def chances(self) -> int:
        """How many checks involved chance."""
        every = (finding for verdict in self.verdicts for finding in verdict.findings)
        return sum(finding.p_value is not None for finding in every)

    @property
    def false_alarm(self) -> float:
        """The most likely that sound software fails this audit, by Bonferroni."""
        return ALARM * self.chances

    def as_dict(self) -> dict[str, Any]:
        """The audit for programs."""
        return {
            "passed": self.passed,
            "version": self.version,
            "opendp": self.opendp,
            "effort": self.effort,
            "seed": self.seed,
            "study": self.study or None,
            "tried": self.tried,
            "untried": self.untried,
            "false_alarm": self.false_alarm,
            "layers": [
                {
                    "layer": verdict.layer,
                    "passed": verdict.passed,
                    "seconds": round(verdict.seconds, 2),
                    "findings": [asdict(finding) for finding in verdict.findings],
                }
                for verdict in self.verdicts
            ],
        }
