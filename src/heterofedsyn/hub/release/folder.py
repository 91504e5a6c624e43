"""A release as a folder: written all of it or nothing, and read back with distrust."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import structs

from heterofedsyn._files import check_no_link, check_place, digest_of, open_inside, written_whole
from heterofedsyn.errors import HeterofedsynError, ReleaseError, UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.release import model_file, sampling
from heterofedsyn.hub.release.run_record import RunRecord
from heterofedsyn.hub.release.sound import check_model, check_run, check_statement
from heterofedsyn.hub.release.statement import PrivacyStatement
from heterofedsyn.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.hub.release.release import Release

_MOST_MODEL = 2**30
_MOST_TEXT = 2**28
PARTS = ("model", "privacy.json", "run.json")
"""Files without which a folder is no release."""

TABLES = ("synthetic.csv", "synthetic.parquet")
"""The same synthetic rows twice; a release may do without."""

FILES = (*PARTS, *TABLES, "report.html")
"""All that a release folder holds."""

Record = TypeVar("Record")


def write(target: Path, release: Release, rows: Generator[pa.Table], *, safe_csv: bool) -> None:
    """Write a release with these synthetic rows, all of it or nothing."""
    with written_whole(target) as partial:
        csv, parquet = (partial / name for name in TABLES)
        sampling.write(rows, csv=csv, parquet=parquet, safe_csv=safe_csv)
        (partial / "privacy.json").write_bytes(text(release.privacy))
        run = structs.replace(release.run, safe_csv=safe_csv or msgspec.UNSET)
        (partial / "run.json").write_bytes(text(run))
        files = {}
        for path in sorted(partial.iterdir()):
            with path.open("rb") as file:
                files[path.name] = digest_of(file)
        (partial / "model").write_bytes(model_file.pack(release.schema, release.model, files))


def copy(written: Path, target: Path) -> None:
    """Write a release that was just written to another place too, all of it or nothing."""
    with written_whole(target) as partial:
        for path in written.iterdir():
            shutil.copyfile(path, partial / path.name)


def read(place: Path) -> tuple[Schema, Model, PrivacyStatement, RunRecord, dict[str, str]]:
    """What `Release` holds, from its folder, of which no link leads out.

    A release may come from anybody. What is read can be sampled from and reported on: all that
    could prevent it is found here.

    Raises:
        ReleaseError: if it is missing, corrupt, contradicts itself, or is of a newer version.
    """
    if not place.is_dir():
        raise ReleaseError(f"there is no release folder {place}; name a folder made by --out")
    if not os.path.lexists(place / "model"):
        raise ReleaseError(f"{place}/model: there is no such file, so {place} is no release")

    def sound_model(data: bytes) -> tuple[dict[str, str], Schema, Model]:
        vouched, schema, model = model_file.unpack(data)
        if not {*vouched} <= {*FILES}:
            raise ReleaseError("the model names files that no release has; fetch the release again")
        return vouched, schema, model

    def sound_statement(data: bytes) -> PrivacyStatement:
        statement = _record(PrivacyStatement, data, files.get("privacy.json"))
        check_statement(statement, schema.domain)
        return statement

    def sound_run(data: bytes) -> RunRecord:
        run = _record(RunRecord, data, files.get("run.json"))
        plan = check_run(run, privacy, schema)
        check_model(run, privacy, plan, model)
        return run

    files, schema, model = _part(place, "model", sound_model, _MOST_MODEL)
    privacy = _part(place, "privacy.json", sound_statement, _MOST_TEXT)
    run = _part(place, "run.json", sound_run, _MOST_TEXT)
    return schema, model, privacy, run, files


def check_target(folder: Path, *, overwrite: bool) -> Path:
    """The folder itself, if a release may be written there; only releases are overwritten."""
    check_no_link(folder)
    if folder.is_dir() and any(folder.iterdir()):
        if not is_release(folder):
            raise UsageError(
                f"{folder} holds something else than a release and stays; name another folder"
            )
        if not overwrite:
            raise UsageError(
                f"{folder} holds a release already; name another folder, or replace it with "
                "--overwrite (overwrite=True)"
            )
    elif folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder")
    check_place(folder)
    return folder


def is_release(folder: Path) -> bool:
    """Whether a folder is a release, and nothing else."""
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    return {*PARTS} <= names <= {*FILES}


def _part(folder: Path, name: str, read: Callable[[bytes], Record], most: int) -> Record:
    path = folder / name
    try:
        with open_inside(folder, name, most) as file:
            data = file.read()
        return read(data)
    except ReleaseError as error:
        raise ReleaseError(f"{path}: {error}") from None
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise ReleaseError(f"{path}: {reason}; fetch the release again") from None
    except (msgspec.MsgspecError, HeterofedsynError, ValueError, KeyError, RecursionError):
        raise ReleaseError(f"{path}: {model_file.DAMAGED}") from None


def text(record: msgspec.Struct) -> bytes:
    """A record as a release holds it."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def _record(kind: type[Record], data: bytes, digest: str | None) -> Record:
    if model_file.digest(data) != digest:
        raise ReleaseError(model_file.DAMAGED)
    return msgspec.json.decode(data, type=kind)
