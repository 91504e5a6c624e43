"""A release: model, privacy statement and manifest, on disk and back; made from answers alone."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from heterofedsyn._files import check_no_link, check_place, digest_of, open_inside, written_whole
from heterofedsyn._version import __version__
from heterofedsyn.errors import HeterofedsynError, ReleaseError, UsageError
from heterofedsyn.hub.methods.base import Model, Outcome, Value
from heterofedsyn.hub.release import sampling
from heterofedsyn.hub.release.accuracy import Accuracy, accuracy_of
from heterofedsyn.hub.release.differences import SiteSummary
from heterofedsyn.hub.release.sound import (
    LARGEST,
    check_measured,
    check_run,
    check_statement,
    check_total,
)
from heterofedsyn.hub.release.statement import PrivacyStatement
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.protocol import Plan
from heterofedsyn.schema import Schema
from heterofedsyn.synthesis import (
    REBUILDS,
    SYNTHESIZERS,
    Measured,
    Measurement,
    Rebuild,
    Targets,
)

if TYPE_CHECKING:
    import pyarrow as pa

MODEL_FORMAT = 1
_MAGIC = b"heterofedsyn model"
_DAMAGED = "the file is damaged; fetch the release again"
_MOST_MODEL = 2**30
_MOST_TEXT = 2**28
PARTS = ("model", "privacy.json", "run.json")
"""Files without which a folder is no release."""

TABLES = ("synthetic.csv", "synthetic.parquet")
"""The same synthetic rows twice; a release may do without."""

FILES = (*PARTS, *TABLES, "report.html")
"""All that a release folder holds."""

MOST_RELEASED = 100_000_000
"""Rows of one table or release folder, so that no slip of the finger exhausts a machine."""

MOST_STREAMED = 10_000_000_000
"""Rows of one drawing that is written while it is drawn."""

MOST_UNASKED = 10_000_000
"""Rows that are drawn without being asked for: a few bytes from a stranger can tell of more."""

Record = TypeVar("Record")


class ScoredPair(msgspec.Struct, frozen=True):
    """How strongly a pair seemed to depend, and whether it was measured."""

    attributes: tuple[str, ...]
    score: float | None
    measured: bool


class Missed(msgspec.Struct, frozen=True):
    """A round without a site, and why, in words that fit after the site's name."""

    site: str
    round: int
    label: str
    reason: str


class Scaled(msgspec.Struct, frozen=True):
    """A round whose sums over fewer sites were multiplied by a ratio of noisy totals."""

    round: int
    label: str
    factor: float


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: how a release came about."""

    version: str
    method: str
    settings: dict[str, Value]
    sites: tuple[str, ...]
    seed: int
    study: str
    noisy_total: int
    pairs: tuple[ScoredPair, ...]
    remarks: tuple[str, ...]
    differences: tuple[SiteSummary, ...] = ()
    """How each site differs from the others; empty where sites are not seen singly."""
    missed: tuple[Missed, ...] | msgspec.UnsetType = msgspec.UNSET
    scaled: tuple[Scaled, ...] | msgspec.UnsetType = msgspec.UNSET
    """Neither is there when every site answered every round."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        outcome: Outcome,
        differences: tuple[SiteSummary, ...] = (),
        missed: tuple[Missed, ...] = (),
        scaled: tuple[Scaled, ...] = (),
    ) -> RunRecord:
        """The record of a finished study."""
        measured = {pair for targets in outcome.model.targets for pair in targets.pairs}
        pairs = [
            ScoredPair(pair, outcome.scores.get(pair), pair in measured)
            for pair in outcome.model.targets[0].domain.pairs()
            if pair in measured or pair in outcome.scores
        ]
        total = max(1, round(outcome.model.total))
        return cls(
            version=__version__,
            method=plan.method,
            settings=plan.settings,
            sites=plan.sites,
            seed=plan.seed,
            study=plan.fingerprint,
            noisy_total=total,
            pairs=tuple(pairs),
            remarks=(*outcome.remarks, *_absences(missed, scaled), *large_delta(plan.delta, total)),
            differences=differences,
            missed=missed or msgspec.UNSET,
            scaled=scaled if missed else msgspec.UNSET,
        )


def large_delta(delta: float, rows: int) -> tuple[str, ...]:
    """What to say of a delta that protects nobody among so many rows, if it does not."""
    if delta * rows < 1:
        return ()
    return (
        f"delta {delta:g} is not below 1 / (number of rows): it would allow publishing somebody's "
        "record outright; take a smaller one",
    )


def _absences(missed: tuple[Missed, ...], scaled: tuple[Scaled, ...]) -> list[str]:
    """What a reader of the release must know about sites that missed a round."""
    first = {found.site: found for found in reversed(missed)}
    remarks = [
        f"{found.site} {found.reason} in round {found.round} ({found.label}) and was left out from "
        "then on"
        for found in sorted(first.values(), key=lambda found: (found.round, found.site))
    ]
    if scaled:
        rounds = ", ".join(f"round {s.round} ({s.label}) by {s.factor:.4g}" for s in scaled)
        remarks.append(
            "sums over fewer sites were multiplied by the ratio of noisy totals, as if the missing "
            f"sites looked like the others: {rounds}"
        )
    return remarks


class _StoredMeasurement(msgspec.Struct, frozen=True):
    statistic: Measured
    data: bytes
    """Little-endian float64."""
    variance: float


class _StoredModel(msgspec.Struct, frozen=True):
    files: dict[str, str]
    """SHA-256 of the files that belong to the model, so that a changed one is noticed."""
    schema: str
    synthesizer: str
    settings: dict[str, Value]
    rebuild: str
    rebuild_settings: dict[str, Value]
    populations: tuple[tuple[_StoredMeasurement, ...], ...]


@dataclass(frozen=True, eq=False)
class Release:
    """What a study publishes: anyone may sample from it, and nothing in it is private."""

    schema: Schema
    model: Model
    privacy: PrivacyStatement
    run: RunRecord
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the files beside the model, as it vouches for them; empty if never saved."""

    @property
    def usual_rows(self) -> int:
        """How many rows are drawn unless asked otherwise: the noisy total, if that is possible."""
        return min(self.run.noisy_total, MOST_RELEASED)

    def sample(self, rows: int | None = None, seed: int | None = None) -> pa.Table:
        """Synthetic rows with the schema's columns and types; the noisy total unless asked.

        The same seed gives the same rows. It is a matter of convenience, not of privacy.
        """
        import pyarrow as pa

        wanted = self.usual_rows if rows is None else check_rows(rows)
        return pa.concat_tables(self.batches(wanted, seed))

    def batches(self, rows: int | None = None, seed: int | None = None) -> Generator[pa.Table]:
        """The rows of `sample`, a part at a time: memory does not grow with their number."""
        wanted = self.usual_rows if rows is None else check_rows(rows, MOST_STREAMED)
        if seed is not None and seed < 0:
            raise UsageError(f"seed ({seed}) must be at least 0")
        drawn = secrets.randbits(128) if seed is None else seed
        return sampling.draw(self.schema, self.model, wanted, drawn)

    def accuracy(
        self, attributes: str | Sequence[str], groups: Sequence[int] | None = None
    ) -> Accuracy:
        """The standard error of a released marginal: of one column, a pair, or `()`, the total.

        Args:
            attributes: names of columns, in any order.
            groups: for one column, a group number for every value: errors are then those of sums
                over groups, which for long stretches of an ordered column are far smaller than
                those of its values would suggest.

        Raises:
            UsageError: if the pair was not measured.
        """
        return accuracy_of(self.model.targets, attributes, groups, self.run.noisy_total)

    def save(
        self,
        folder: str | Path,
        *,
        rows: int | None = None,
        overwrite: bool = False,
        safe_csv: bool = False,
    ) -> Path:
        """Write the release as a folder, all of it or nothing, with so many synthetic rows.

        Args:
            safe_csv: put an apostrophe before cells of `synthetic.csv` that a spreadsheet would
                take for formulas; `synthetic.parquet` always has the values themselves.

        Raises:
            UsageError: if the folder holds something already.
        """
        target = check_target(Path(folder), overwrite=overwrite)
        wanted = self.usual_rows if rows is None else check_rows(rows)
        with written_whole(target) as partial:
            sampling.write(
                self.batches(wanted, self.run.seed),
                csv=partial / "synthetic.csv",
                parquet=partial / "synthetic.parquet",
                safe_csv=safe_csv,
            )
            (partial / "privacy.json").write_bytes(_text(self.privacy))
            (partial / "run.json").write_bytes(_text(self.run))
            files = {}
            for path in sorted(partial.iterdir()):
                with path.open("rb") as file:
                    files[path.name] = digest_of(file)
            (partial / "model").write_bytes(_pack(self.schema, self.model, files))
        return target


def load(folder: str | Path) -> Release:
    """A release from its folder, of which no link leads out.

    A release may come from anybody. What is loaded can be sampled from and reported on: all that
    could prevent it is found here.

    Raises:
        ReleaseError: if it is missing, corrupt, contradicts itself, or is of a newer version.
    """
    place = Path(folder)
    if not place.is_dir():
        raise ReleaseError(f"there is no release folder {place}; name a folder made by --out")
    if not os.path.lexists(place / "model"):
        raise ReleaseError(f"{place}/model: there is no such file, so {place} is no release")
    files, schema, model = _part(place, "model", _unpack, _MOST_MODEL)

    def sound_statement(data: bytes) -> PrivacyStatement:
        statement = _record(PrivacyStatement, data, files.get("privacy.json"))
        check_statement(statement, schema.domain)
        return statement

    def sound_run(data: bytes) -> RunRecord:
        run = _record(RunRecord, data, files.get("run.json"))
        check_run(run, privacy, schema.domain)
        check_measured(run, (pair for targets in model.targets for pair in targets.pairs))
        check_total(run, model.total)
        return run

    privacy = _part(place, "privacy.json", sound_statement, _MOST_TEXT)
    run = _part(place, "run.json", sound_run, _MOST_TEXT)
    return Release(schema=schema, model=model, privacy=privacy, run=run, files=files)


def check_rows(rows: int, most: int = MOST_RELEASED) -> int:
    """The number of rows itself, if so many may be drawn."""
    if not 1 <= rows <= most:
        more = "use `heterofedsyn sample` or batches()" if most < MOST_STREAMED else "draw again"
        raise UsageError(f"rows ({rows}) must be in 1..{most}; for more, {more} with another seed")
    return rows


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
        raise ReleaseError(f"{path}: {_DAMAGED}") from None


def _text(record: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def _record(kind: type[Record], data: bytes, digest: str | None) -> Record:
    if _digest(data) != digest:
        raise ReleaseError(_DAMAGED)
    return msgspec.json.decode(data, type=kind)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _pack(schema: Schema, model: Model, files: dict[str, str]) -> bytes:
    stored = _StoredModel(
        files=files,
        schema=schema.to_toml(),
        synthesizer=model.synthesizer.name,
        settings=dataclasses.asdict(model.synthesizer),
        rebuild=model.targets[0].rebuild.name,
        rebuild_settings=dataclasses.asdict(model.targets[0].rebuild),
        populations=tuple(
            tuple(
                _StoredMeasurement(
                    m.statistic, m.noisy.values.astype("<f8").tobytes(), m.noisy.variance
                )
                for m in targets.measurements
            )
            for targets in model.targets
        ),
    )
    body = msgspec.msgpack.encode(stored)
    return b"%s %d %s\n%s" % (_MAGIC, MODEL_FORMAT, _digest(body).encode(), body)


def _unpack(data: bytes) -> tuple[dict[str, str], Schema, Model]:
    head, _, body = data.partition(b"\n")
    words = head.split(b" ")
    if b" ".join(words[:2]) != _MAGIC or len(words) != 4 or not words[2].isdigit():
        raise ReleaseError("this is no model of heterofedsyn")
    if int(words[2]) > MODEL_FORMAT:
        raise ReleaseError(
            f"the model has format {int(words[2])}, newer than {MODEL_FORMAT}; upgrade heterofedsyn"
        )
    if int(words[2]) < 1 or _digest(body).encode() != words[3]:
        raise ReleaseError(_DAMAGED)
    stored = msgspec.msgpack.decode(body, type=_StoredModel)
    if not {*stored.files} <= {*FILES}:
        raise ReleaseError("the model names files that no release has; fetch the release again")
    schema = Schema.from_toml(stored.schema)
    rebuild = REBUILDS.make(stored.rebuild, stored.rebuild_settings)
    populations = tuple(_targets(schema, rebuild, found) for found in stored.populations)
    if not populations:
        raise ReleaseError(_DAMAGED)
    synthesizer = SYNTHESIZERS.make(stored.synthesizer, stored.settings)
    return stored.files, schema, Model(synthesizer, populations)


def _targets(schema: Schema, rebuild: Rebuild, stored: tuple[_StoredMeasurement, ...]) -> Targets:
    domain = schema.domain
    measurements = []
    for found in stored:
        found.statistic.check(domain)
        values = np.frombuffer(found.data, dtype="<f8").astype(np.float64)
        if values.size != found.statistic.integers(domain):
            raise ReleaseError("the model does not fit its schema; fetch the release again")
        # Written so that NaN, which compares as false, is refused.
        if not (np.all(np.abs(values) < LARGEST) and LARGEST**-2 < found.variance < LARGEST**2):
            raise ReleaseError("the model holds impossible numbers; fetch the release again")
        measurements.append(Measurement(found.statistic, Noisy(values, found.variance)))
    targets = Targets(schema, tuple(measurements), rebuild)
    if not targets.complete:
        raise ReleaseError("the model does not fit its schema; fetch the release again")
    rebuild.check(targets)
    return targets
