"""How the release came about, and the files it consists of."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from heterofedsyn import drawing
from heterofedsyn._files import digest_of, open_inside
from heterofedsyn.errors import ReleaseError
from heterofedsyn.hub.release import FILES, TABLES, Release
from heterofedsyn.hub.release.synthetic import MOST_BYTES
from heterofedsyn.report.blocks import Block, Facts, Section, Table, Text

REPORT = "report.html"
"""The public form inside a release folder."""


def manifest_section(release: Release, folder: Path) -> Section:
    """Version, method, settings, study and files."""
    run = release.run
    sites = ", ".join(run.sites[:20]) + (
        f" and {len(run.sites) - 20} more" if len(run.sites) > 20 else ""
    )
    facts = Facts(
        (
            ("heterofedsyn", run.version),
            ("Method", run.method),
            ("Synthesizer", str(run.settings.get("synthesizer", ""))),
            ("Sites", f"{len(run.sites):,}: {sites}"),
            ("Rows (noisy)", f"{run.noisy_total:,}"),
            ("Study (SHA-256 of its terms)", run.study),
            _schema(release),
            ("Seed", str(run.seed)),
        )
    )
    blocks: list[Block] = [facts]
    blocks += [
        Text(f"Whoever made the release remarks: “{drawing.short(remark, 600)}”.")
        for remark in run.remarks[:20]
    ]
    if len(run.remarks) > 20:
        blocks.append(Text(f"{len(run.remarks) - 20:,} more remarks are in run.json."))
    blocks.append(Text("Settings of the method:"))
    settings = ((name, drawing.short(str(value), 100)) for name, value in run.settings.items())
    blocks.append(Facts(tuple(settings)))
    rows = tuple(_line(release, folder, name) for name in sorted(_own(folder) - {REPORT}))
    blocks.append(Table("Files of the release", ("file", "SHA-256", "bytes"), rows, words=2))
    blocks.append(
        Text(
            "Anyone with these files can make this page again: heterofedsyn report DIR --out "
            "report.html gives the same bytes with the same versions of the software."
        )
    )
    return Section("manifest", "How this release was made", tuple(blocks))


def _schema(release: Release) -> tuple[str, str]:
    """The fingerprint of the public schema; an older release has but that which sites encode by."""
    if release.run.schema:
        return "Public schema (SHA-256 of what it says)", release.run.schema
    return "Schema of the codes (SHA-256 of what it says)", release.schema.fingerprint


def strangers(folder: Path) -> tuple[str, ...]:
    """Names in a release folder that are no files of the release, fit to be shown."""
    own = _own(folder)
    names = sorted(path.name for path in folder.iterdir())
    return tuple(drawing.short(name, 60) for name in names if name not in own)


def _own(folder: Path) -> set[str]:
    """The files of the release themselves, and no links to others."""
    modes = {path.name: path.lstat().st_mode for path in folder.iterdir() if path.name in FILES}
    return {name for name, mode in modes.items() if stat.S_ISREG(mode)}


def _line(release: Release, folder: Path, name: str) -> tuple[str, str, str]:
    """A file's digest and size, unless it is another one than the model vouches for."""
    try:
        with open_inside(folder, name, MOST_BYTES) as file:
            digest, size = digest_of(file), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ReleaseError(f"{folder / name}: {error.strerror or 'cannot be read'}") from None
    if name in TABLES and release.files.get(name) != digest:
        return name, "not the one that the model vouches for", ""
    return name, digest, f"{size:,}"
