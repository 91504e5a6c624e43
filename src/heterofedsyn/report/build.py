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
from heterofedsyn.report.board import Agreed, board_section, board_sections
from heterofedsyn.report.checks import check_section
from heterofedsyn.report.dependence import dependence_section
from heterofedsyn.report.glossary import glossary_section
from heterofedsyn.report.manifest import manifest_section
from heterofedsyn.report.page import Page, render
from heterofedsyn.report.pair_noise import pair_noise_section
from heterofedsyn.report.privacy import budget_section, privacy_section
from heterofedsyn.report.purpose import title_of
from heterofedsyn.report.sites import site_section
from heterofedsyn.report.summary import summary_section


def public_report(folder: str | Path, agreed: Sequence[Agreed] = ()) -> str:
    """The public form: computed from a release folder and nothing else.

    Args:
        agreed: what receipts say; such a page is for those who may know who agreed.
    """
    drawing.check_drawing()
    place = Path(folder)
    release = load(place)
    return render(_page(release, (), place, agreed))


def board_report(folder: str | Path, agreed: Sequence[Agreed] = ()) -> str:
    """What a board asks, on two sheets of paper, from the release and its receipts."""
    drawing.check_drawing()
    release = load(Path(folder))
    sections = (
        *board_sections(release, agreed),
        glossary_section(release.privacy.whom, board=True),
    )
    page = Page(
        title=title_of(release, "For the board: a synthetic table"),
        lead=(
            "For those who decide whether a table of people who do not exist, made from noisy "
            f"answers about {_whose(release)}, is published: what that means for those whose data "
            "were used."
        ),
        private=False,
        facts=_facts(release),
        sections=sections,
        brief=True,
        foot=_foot(agreed),
    )
    return render(page)


def internal_report(
    folder: str | Path,
    real: Sequence[object],
    test: object | None = None,
    agreed: Sequence[Agreed] = (),
) -> str:
    """The internal form: with comparisons to private rows, which must not be published."""
    drawing.check_drawing()
    from heterofedsyn.report.comparison import private_sections

    place = Path(folder)
    release = load(place)
    return render(_page(release, private_sections(release, place, real, test), place, agreed))


def write_page(target: Path, text: str, *, private: bool) -> None:
    """A file that appears whole; a private one can be read by its owner only."""
    with file_written_whole(target) as partial:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(partial, flags, 0o600 if private else 0o666), "wb") as file:
            file.write(text.encode())


def _page(
    release: Release, private: tuple[Section, ...], folder: Path, agreed: Sequence[Agreed]
) -> Page:
    with synthetic_rows(release, folder) as rows:
        checks = check_section(release, rows)
        known = rows is not None and rows.vouched
        many = f"{rows.number:,}" if rows is not None and known else "none here"
    sections = (
        board_section(release, agreed),
        privacy_section(release),
        budget_section(release),
        attribute_section(release),
        dependence_section(release),
        pair_noise_section(release),
        site_section(release),
        checks,
        *private,
        glossary_section(release.privacy.whom),
        manifest_section(release, folder),
    )
    lead = (
        "This page describes a table of people who do not exist, made from noisy "
        f"answers about {_whose(release)}: what it is good for, what is promised to those whose "
        "data were used, and how far each figure can be off because of the noise that protects "
        "them."
    )
    return Page(
        title=title_of(release, "Report on a synthetic table"),
        lead=lead,
        private=bool(private),
        facts=(*_facts(release), ("Synthetic rows", many)),
        sections=sections,
        first=summary_section(release),
        foot=_foot(agreed),
    )


def _foot(agreed: Sequence[Agreed]) -> str:
    if agreed:
        return "This page is computed from the release and receipts of its sites."
    return "This page is computed from the release alone and costs no privacy."


def _whose(release: Release) -> str:
    if release.run.pooled:
        return "one pool of private rows"
    return f"private rows of {count(len(release.run.sites), 'site')}"


def _facts(release: Release) -> tuple[tuple[str, str], ...]:
    run, statement = release.run, release.privacy
    measured = len(release.model.pairs)
    return (
        ("Epsilon", f"{statement.epsilon:g}{' (simulated)' * statement.simulated_noise}"),
        ("Delta", f"{statement.delta:g}"),
        ("Rows (noisy)", f"{run.noisy_total:,}"),
        ("Columns", f"{len(release.schema.columns):,}"),
        ("Sites", "pooled" if run.pooled else f"{len(run.sites):,}"),
        ("Method", run.method),
        ("Pairs measured", f"{measured:,} of {len(release.schema.domain.pairs()):,}"),
    )
