"""How an audit is shown: lines on a terminal, or one HTML page."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn._words import count
from heterofedsyn.audit import Audit, Verdict
from heterofedsyn.cli._options import check_file
from heterofedsyn.cli._show import say
from heterofedsyn.drawing import check_drawing
from heterofedsyn.report import write_page
from heterofedsyn.report.blocks import Section, Table, Text, Warn
from heterofedsyn.report.page import Page, render


def show(audit: Audit) -> None:
    """The verdicts on stdout, each with its figures."""
    for verdict in audit.verdicts:
        say(f"{verdict.layer}: {_summary(verdict)}")
        say(f"  {verdict.question}")
        for finding in verdict.findings:
            say(f"  {'ok  ' if finding.passed else 'FAIL'}  {finding.name}: {finding.figure}")
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
        facts=(
            ("Verdict", "passed" if audit.passed else "failed"),
            ("heterofedsyn", audit.version),
            ("OpenDP", audit.opendp),
            ("Effort", audit.effort),
            ("Seed", str(audit.seed)),
            ("False alarm", f"at most {audit.false_alarm:.1g} for a sound build"),
        ),
        sections=tuple(_section(verdict) for verdict in audit.verdicts),
        foot="No rows of anybody were read for this page.",
    )
    write_page(target, render(page), private=False)


def _section(verdict: Verdict) -> Section:
    rows = tuple(
        ("ok" if finding.passed else "FAILED", finding.name, finding.figure)
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
