"""How an audit is shown: lines on a terminal, or one HTML page."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn._words import count
from heterofedsyn.audit import Audit, Verdict
from heterofedsyn.cli._options import check_file
from heterofedsyn.cli._show import say
from heterofedsyn.drawing import check_drawing
from heterofedsyn.report import write_page
from heterofedsyn.report.blocks import Points, Section, Table, Text, Warn
from heterofedsyn.report.page import Page, render


def show(audit: Audit) -> None:
    """The verdicts on stdout, each with its figures."""
    for verdict in audit.verdicts:
        say(f"{verdict.layer}: {_summary(verdict)}")
        say(f"  {verdict.question}")
        for finding in verdict.findings:
            say(f"  {'ok  ' if finding.passed else 'FAIL'}  {finding.name}: {finding.figure}")
    if audit.study:
        say(f"study {_study(audit)}")
        for mark, lines in (("tried", audit.tried), ("not tried", audit.untried)):
            for line in lines:
                say(f"  {mark}  {line}")
    say(_whole(audit))


def check_page(target: Path, *, overwrite: bool) -> None:
    """Refuse a page that cannot be written, before anything is audited for it.

    Raises:
        UsageError: saying why.
    """
    check_file(target, ".html", overwrite=overwrite, option="--html")
    check_drawing()


def write(target: Path, audit: Audit) -> None:
    """The verdicts as one page."""
    page = Page(
        title=f"Privacy audit: {'passed' if audit.passed else 'FAILED'}",
        lead=(
            "This page says what an audit of the installed software found on one machine. It "
            "looked at invented rows only; nothing on this page comes from private data."
        ),
        private=False,
        first=Section("verdict", "In short", (Points(tuple(_points(audit))),)),
        facts=(
            ("Verdict", "passed" if audit.passed else "failed"),
            ("heterofedsyn", audit.version),
            ("OpenDP", audit.opendp),
            ("Effort", audit.effort),
            ("Seed", str(audit.seed)),
            ("False alarm", f"at most {audit.false_alarm:.1g} for a sound build"),
        ),
        sections=(*(_section(verdict) for verdict in audit.verdicts), _LEGEND),
        foot="No rows of anybody were read for this page.",
    )
    write_page(target, render(page), private=False)


_LEGEND = Section(
    "legend",
    "How to read the figures",
    (
        Points(
            (
                ("held", "What was checked was as promised."),
                ("FAILED", "It was not. One such line is enough: do not use this installation."),
                (
                    "measured epsilon",
                    "What an attacker with every advantage achieved, as an estimate from so many "
                    "games. An estimate may lie above the promise by luck, as ten throws of a fair "
                    "coin may give six heads. Held means that luck explains it; how far off the "
                    "estimate may be is said beside it.",
                ),
                (
                    "p",
                    "The chance that sound software shows something as odd. Values all over 0 to 1 "
                    "are as they should be; a check fails below 0.000000001.",
                ),
                (
                    "of the charge at most",
                    "What one person changed in the answers, as a part of what was charged for "
                    "it. Up to 1 is as promised, and 1 itself means that nothing is wasted.",
                ),
                ("canaries", "Invented people who stand out, to see whether they can be found."),
                ("sigma, draws", "The size of noise, and how many numbers of it were looked at."),
            )
        ),
    ),
)


def _points(audit: Audit) -> list[tuple[str, str]]:
    """What the audit found, for people who read no further."""
    failed = [(verdict, finding) for verdict in audit.verdicts for finding in verdict.failed]
    every = sum(len(verdict.findings) for verdict in audit.verdicts)
    points = [
        (
            "Verdict",
            f"Passed. All {every:,} checks held, {_of_what(audit)}: as far as this audit can see, "
            "this installation keeps what it promises to the people in the data."
            if audit.passed
            else f"FAILED in {len(failed):,} of {every:,} checks. Do not use this installation "
            "with data of real people; send this page to whoever maintains it.",
        )
    ]
    points += [(f"{verdict.layer}, failed", finding.name) for verdict, finding in failed[:5]]
    points.append(
        (
            "Looked at",
            f"Your study {_study(audit)}, on invented rows: {'; '.join(audit.tried) or 'nothing'}."
            if audit.study
            else "Built-in studies of invented people, not a study of yours (audit --study does).",
        )
    )
    if audit.study:
        points.append(("Not tried with it", "; ".join(audit.untried) + "."))
    points.append(
        (
            "Not seen",
            "What an audit does not run: your rows, your network, your operating system, time and "
            "power; whether the people at a site are honest. It is no proof.",
        )
    )
    return points


def _study(audit: Audit) -> str:
    """The study by its title, if it has one, and its fingerprint."""
    return f"“{audit.title}” ({audit.study})" if audit.title else audit.study


def _of_what(audit: Audit) -> str:
    return "of your study and of built-in ones" if audit.tried else "of built-in studies"


def _section(verdict: Verdict) -> Section:
    rows = tuple(
        ("held" if finding.passed else "FAILED", finding.name, finding.figure)
        for finding in verdict.findings
    )
    failed = tuple(Warn(f"{finding.name}: {finding.figure}") for finding in verdict.failed)
    return Section(
        verdict.layer,
        f"{verdict.layer.capitalize()}: {'passed' if verdict.passed else 'FAILED'}",
        (
            Text(f"The question: {verdict.question} The answer: {_summary(verdict)}."),
            *failed,
            Table("What was checked", ("verdict", "check", "figures"), rows, words=3, longest=400),
        ),
    )


def _summary(verdict: Verdict) -> str:
    word = "passed" if verdict.passed else f"FAILED in {count(len(verdict.failed), 'check')}"
    return f"{word}, {count(len(verdict.findings), 'check')}, {verdict.seconds:.1f} CPU seconds"


def _whole(audit: Audit) -> str:
    passed = sum(verdict.passed for verdict in audit.verdicts)
    return (
        f"{'passed' if audit.passed else 'FAILED'}: {passed} of "
        f"{count(len(audit.verdicts), 'layer')} (heterofedsyn {audit.version}, OpenDP "
        f"{audit.opendp}); a sound build fails with a chance of at most {audit.false_alarm:.1g}"
    )
