"""Releases: a folder that anyone may have made, loaded, sampled from and reported on."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from fuzz import schema_file
from fuzz.law import folder, lawful
from heterofedsyn import FederatedSynthesizer, Release, Schema, load
from invented import SCHEMA, patients

FORM = "msgpack"

_PARTS = ("privacy", "run")


@cache
def seeds() -> list[bytes]:
    """The three files of real releases as one value, without their hashes."""
    schema, tables = Schema.from_toml(SCHEMA), [patients(300, seed=1), patients(300, seed=2)]
    found = []
    for method in ("independent", "fedprivsyn", "wavetree"):
        synth = FederatedSynthesizer(schema, epsilon=20.0, delta=1e-9, method=method, noise_seed=3)
        release = synth.fit(tables).release
        found.append(_value(release.save(folder("release") / method, rows=5)))
    return found


def examples() -> list[bytes]:
    good: dict[str, Any] = msgspec.msgpack.decode(seeds()[0])

    def other(part: str, **values: Any) -> bytes:
        return msgspec.msgpack.encode({**good, part: {**good[part], **values}})

    return [
        *(
            other("model", schema=text.decode("utf-8", "replace"))
            for text in schema_file.examples()
            if len(text) < 2**21
        ),
        other("model", populations=[good["model"]["populations"][0]] * 3_000),
        other("model", settings={"passes": 2**62, "alpha": float("nan")}),
        other("model", rebuild_settings={"rounds": 2**62}),
        other("run", noisy_total=2**62),
        other("run", seed=-1),
        other("run", remarks=["\x1b[2J\u202e" * 1_000] * 100),
        other("privacy", rows_per_unit=2**62),
        other("privacy", epsilon=float("nan")),
        other("privacy", sites=[good["privacy"]["sites"][0]] * 5_000),
        b"heterofedsyn model " + b"9" * 5_000 + b" 0\n",
        b"heterofedsyn model 1 0\n",
        b"\x91" * 1_000_000,
    ]


def fuzz_one(data: bytes) -> None:
    release = write_and_load(data)
    if release is not None:
        rows = lawful(lambda: release.sample(rows=30, seed=1))
        assert rows is None or rows.num_rows == 30
        lawful(lambda: release.accuracy(()))
        lawful(lambda: release.accuracy(release.schema.domain.names[0]))


def write_and_load(data: bytes) -> Release | None:
    """The release that the bytes say, from its folder."""
    place = folder("release") / "fuzzed"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        found = msgspec.msgpack.decode(data)
        texts = {f"{part}.json": json.dumps(found[part]).encode() for part in _PARTS}
        digests = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
        body = msgspec.msgpack.encode({**found["model"], "files": digests})
        model = b"heterofedsyn model 1 %s\n%s" % (hashlib.sha256(body).hexdigest().encode(), body)
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError):
        texts, model = {f"{part}.json": data for part in _PARTS}, data
    for name, text in {**texts, "model": model}.items():
        (place / name).write_bytes(text)
    return lawful(lambda: load(place))


def _value(place: Path) -> bytes:
    model = msgspec.msgpack.decode((place / "model").read_bytes().partition(b"\n")[2])
    parts = {part: json.loads((place / f"{part}.json").read_bytes()) for part in _PARTS}
    return msgspec.msgpack.encode({"model": model, **parts})
