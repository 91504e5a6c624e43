"""The file `model`: noisy marginals with their variances; no rows, no exact counts, no pickle."""

from __future__ import annotations

import dataclasses
import hashlib

import msgspec
import numpy as np

from heterofedsyn.errors import ReleaseError
from heterofedsyn.hub.methods.base import Model, Value
from heterofedsyn.hub.release.sound import LARGEST
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.schema import Schema
from heterofedsyn.synthesis import (
    REBUILDS,
    SYNTHESIZERS,
    Measured,
    Measurement,
    Rebuild,
    Targets,
)

MODEL_FORMAT = 1
_MAGIC = b"heterofedsyn model"
DAMAGED = "the file is damaged; fetch the release again"


class _StoredMeasurement(msgspec.Struct, frozen=True, omit_defaults=True):
    statistic: Measured
    data: bytes
    """Little-endian float64."""
    variance: float
    aside: bool = False


class _StoredModel(msgspec.Struct, frozen=True):
    files: dict[str, str]
    """SHA-256 of the files that belong to the model, so that a changed one is noticed."""
    schema: str
    synthesizer: str
    settings: dict[str, Value]
    rebuild: str
    rebuild_settings: dict[str, Value]
    populations: tuple[tuple[_StoredMeasurement, ...], ...]


def pack(schema: Schema, model: Model, files: dict[str, str]) -> bytes:
    """A model as bytes, vouching for the files beside it."""
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
                    m.statistic, m.noisy.values.astype("<f8").tobytes(), m.noisy.variance, m.aside
                )
                for m in targets.measurements
            )
            for targets in model.targets
        ),
    )
    body = msgspec.msgpack.encode(stored)
    return b"%s %d %s\n%s" % (_MAGIC, MODEL_FORMAT, digest(body).encode(), body)


def unpack(data: bytes) -> tuple[dict[str, str], Schema, Model]:
    """The files that a model vouches for, its schema, and itself, if it is sound.

    Raises:
        ReleaseError: and others of msgspec, since the bytes may be anybody's.
    """
    head, _, body = data.partition(b"\n")
    words = head.split(b" ")
    if b" ".join(words[:2]) != _MAGIC or len(words) != 4 or not words[2].isdigit():
        raise ReleaseError("this is no model of heterofedsyn")
    if int(words[2]) > MODEL_FORMAT:
        raise ReleaseError(
            f"the model has format {int(words[2])}, newer than {MODEL_FORMAT}; upgrade heterofedsyn"
        )
    if int(words[2]) < 1 or digest(body).encode() != words[3]:
        raise ReleaseError(DAMAGED)
    stored = msgspec.msgpack.decode(body, type=_StoredModel)
    schema = Schema.from_toml(stored.schema)
    rebuild = REBUILDS.make(stored.rebuild, stored.rebuild_settings)
    populations = tuple(_targets(schema, rebuild, population) for population in stored.populations)
    if not populations:
        raise ReleaseError(DAMAGED)
    synthesizer = SYNTHESIZERS.make(stored.synthesizer, stored.settings)
    return stored.files, schema, Model(synthesizer, populations)


def _targets(schema: Schema, rebuild: Rebuild, stored: tuple[_StoredMeasurement, ...]) -> Targets:
    domain = schema.domain
    measurements = []
    for one in stored:
        one.statistic.check(domain)
        values = np.frombuffer(one.data, dtype="<f8").astype(np.float64)
        if values.size != one.statistic.integers(domain):
            raise ReleaseError("the model does not fit its schema; fetch the release again")
        # Written so that NaN, which compares as false, is refused.
        if not (np.all(np.abs(values) < LARGEST) and LARGEST**-2 < one.variance < LARGEST**2):
            raise ReleaseError("the model holds impossible numbers; fetch the release again")
        measurements.append(Measurement(one.statistic, Noisy(values, one.variance), one.aside))
    targets = Targets(schema, tuple(measurements), rebuild)
    if not targets.complete:
        raise ReleaseError("the model does not fit its schema; fetch the release again")
    rebuild.check(targets)
    return targets


def digest(data: bytes) -> str:
    """SHA-256 of bytes, as the model writes it."""
    return hashlib.sha256(data).hexdigest()
