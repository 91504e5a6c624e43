"""Putting a report together and writing it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from heterofedsyn import drawing
from heterofedsyn._files import file_written_whole
from heterofedsyn._words import count
from heterofedsyn.hub.release import Release, load
from heterofedsyn.hub.release.synthetic import synthetic_rows
from heterofedsyn.report.attributes import attribute_section
from heterofedsyn.report.blocks import Section
from heterofedsyn.report.checks import check_section
from heterofedsyn.report.dependence import dependence_section
from heterofedsyn.report.manifest import REPORT, manifest_section, strangers
from heterofedsyn.report.page import Page, render
from heterofedsyn.report.pair_noise import pair_noise_section
from heterofedsyn.report.privacy import budget_section, privacy_section
from heterofedsyn.report.sites import site_section

__all__ = ["REPORT", "internal_report", "public_report", "strangers", "write_page"]


def public_report(folder: str | Path) -> str:
    """The public form: computed from a release folder and nothing else."""
    drawing.check_drawing()
    place = Path(folder)
    release = load(place)
    return render(_page(release, (), place))


def internal_report(folder: str | Path, real: Sequence[object], test: object | None = None) -> str:
    """The internal form: with comparisons to private rows, which must not be published."""
    drawing.check_drawing()
    from heterofedsyn.report.comparison import private_sections

    place = Path(folder)
    release = load(place)
    return render(_page(release, private_sections(release, place, real, test), place))


def write_page(target: Path, text: str, *, private: bool) -> None:
    """A file that appears whole; a private one can be read by its owner only."""
    with file_written_whole(target) as partial:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(partial, flags, 0o600 if private else 0o666), "wb") as file:
            file.write(text.encode())


def _page(release: Release, private: tuple[Section, ...], folder: Path) -> Page:
    with synthetic_rows(release, folder) as rows:
        checks = check_section(release, rows)
        known = rows is not None and rows.vouched
        many = f"{rows.number:,}" if rows is not None and known else "none here"
    sections = (
        privacy_section(release),
        budget_section(release),
        attribute_section(release),
        dependence_section(release),
        pair_noise_section(release),
        site_section(release),
        checks,
        *private,
        manifest_section(release, folder),
    )
    run, statement = release.run, release.privacy
    measured = sum(pair.measured for pair in run.pairs)
    pools = run.sites == ("pooled",)
    lead = (
        "This page describes a table of people who do not exist, made from noisy answers about "
        + (
            "one pool of private rows"
            if pools
            else f"private rows of {count(len(run.sites), 'site')}"
        )
        + ". It tells what is promised to those whose data were used, what the table is good for, "
        "and how far each figure can be off because of the noise that protects them."
    )
    facts = (
        ("Epsilon", f"{statement.epsilon:g}"),
        ("Delta", f"{statement.delta:g}"),
        ("Rows (noisy)", f"{run.noisy_total:,}"),
        ("Synthetic rows", many),
        ("Columns", f"{len(release.schema.columns):,}"),
        ("Sites", "pooled" if pools else f"{len(run.sites):,}"),
        ("Method", run.method),
        ("Pairs measured", f"{measured:,} of {len(release.schema.domain.pairs()):,}"),
    )
    return Page(
        title="Report on a synthetic table",
        lead=lead,
        private=bool(private),
        facts=facts,
        sections=sections,
    )
