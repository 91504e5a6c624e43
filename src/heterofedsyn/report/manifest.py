"""How the release came about, and the files it consists of."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from heterofedsyn import drawing
from heterofedsyn.hub.release import FILES, Release
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
            ("Schema (SHA-256)", release.schema.fingerprint),
            ("Seed", str(run.seed)),
        )
    )
    blocks: list[Block] = [facts]
    blocks += [Text(f"Remark: {drawing.short(remark, 600)}.") for remark in run.remarks[:20]]
    if len(run.remarks) > 20:
        blocks.append(Text(f"{len(run.remarks) - 20:,} more remarks are in run.json."))
    blocks.append(Text("Settings of the method:"))
    settings = ((name, drawing.short(str(value), 100)) for name, value in run.settings.items())
    blocks.append(Facts(tuple(settings)))
    files = sorted(folder / name for name in _own(folder) if name != REPORT)
    rows = tuple((path.name, _digest(path), f"{path.stat().st_size:,}") for path in files)
    blocks.append(Table("Files of the release", ("file", "SHA-256", "bytes"), rows, words=2))
    blocks.append(
        Text(
            "Anyone with these files can make this page again: heterofedsyn report DIR --out "
            "report.html gives the same bytes with the same versions of the software."
        )
    )
    return Section("manifest", "How this release was made", tuple(blocks))


def strangers(folder: Path) -> tuple[str, ...]:
    """Names in a release folder that are no files of the release, fit to be shown."""
    own = _own(folder)
    names = sorted(path.name for path in folder.iterdir())
    return tuple(drawing.short(name, 60) for name in names if name not in own)


def _own(folder: Path) -> set[str]:
    """The files of the release themselves, and no links to others."""
    found = {path.name: path.lstat().st_mode for path in folder.iterdir() if path.name in FILES}
    return {name for name, mode in found.items() if stat.S_ISREG(mode)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
