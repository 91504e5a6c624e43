"""Releases of every method as plain values, and every small change of them, one at a time."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from heterofedsyn import FederatedSynthesizer, Schema
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal, UsageError
from heterofedsyn.hub import METHODS, Release
from heterofedsyn.hub.release.run_record import RunRecord
from heterofedsyn.hub.release.sound import plan_of
from heterofedsyn.hub.release.statement import PrivacyStatement
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.synthesis import REBUILDS, SYNTHESIZERS

RECORDS = ("privacy", "run")

WIDE = """\
label = "sick"

[[columns]]
name = "age"
type = "integer"
min = 0
max = 99
bins = 12
nullable = true

[[columns]]
name = "ward"
type = "categorical"
values = ["a", "b", "c", "d"]

[[columns]]
name = "dose"
type = "number"
min = 0.0
max = 4.0
bins = 9

[[columns]]
name = "sick"
type = "boolean"
"""


def rows_of_one_site(seed: int, rows: int = 600) -> pa.Table:
    """Columns that depend on each other, so that pairs are worth measuring."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    return pa.table(
        {
            "age": pa.array(age, mask=rng.random(rows) < 0.1),
            "ward": np.array(["a", "b", "c", "d"])[(age // 30 + rng.integers(0, 2, rows)) % 4],
            "dose": np.clip(age / 25 + rng.normal(0, 0.3, rows), 0, 4),
            "sick": rng.random(rows) < age / 100,
        }
    )


@cache
def release_values() -> dict[str, bytes]:
    """By method and trust model, the three records of a release as one packed value."""
    tables = [rows_of_one_site(seed) for seed in (1, 2, 3)]
    found = {}
    for method in METHODS:
        for trust in ("local", "secure-aggregation"):
            try:
                synth = FederatedSynthesizer(
                    Schema.from_toml(WIDE),
                    epsilon=3.0,
                    delta=1e-9,
                    method=method,
                    trust=trust,
                    noise_seed=3,
                )
                release = synth.fit(tables).release
            except (UsageError, PrivacyRefusal):
                continue  # a method that is not made for this trust model
            found[f"{method} {trust}"] = release
    return {name: packed(release) for name, release in found.items()}


def packed(release: Any) -> bytes:
    from heterofedsyn.hub.release.folder import text
    from heterofedsyn.hub.release.model_file import pack

    model = msgspec.msgpack.decode(pack(release.schema, release.model, {}).partition(b"\n")[2])
    records = {part: json.loads(text(getattr(release, part))) for part in RECORDS}
    return msgspec.msgpack.encode({"model": model, **records})


def write(value: dict[str, Any], place: Path) -> None:
    """The value as a release folder without rows, with digests that agree."""
    place.mkdir(exist_ok=True)
    texts = {f"{part}.json": json.dumps(value.get(part)).encode() for part in RECORDS}
    digests = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    for name, data in texts.items():
        (place / name).write_bytes(data)
    seal(place, {**value["model"], "files": digests})


def vouch(folder: Path, name: str = "synthetic.parquet") -> None:
    """Have the model vouch for the file that is there, as a forger would."""
    body = (folder / "model").read_bytes().partition(b"\n")[2]
    stored = msgspec.msgpack.decode(body)
    stored["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    seal(folder, stored)


def seal(folder: Path, stored: Any) -> None:
    """Write a model with a digest that agrees."""
    body = msgspec.msgpack.encode(stored)
    digest = hashlib.sha256(body).hexdigest().encode()
    (folder / "model").write_bytes(b"heterofedsyn model 1 %s\n%s" % (digest, body))


@dataclass(frozen=True)
class Change:
    """One part of a release made into something else."""

    path: tuple[Any, ...]
    what: str

    def of(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """The changed release, or None where the change has no meaning or changes nothing."""
        changed = copy.deepcopy(value)
        holder: Any = changed
        for step in self.path[:-1]:
            holder = holder[step]
        if not _CHANGES[self.what](holder, self.path[-1]):
            return None
        return changed if changed != value else None


def changes(value: dict[str, Any]) -> Iterator[Change]:
    """Every change of every part; lists of very many numbers are changed at both ends."""
    for path in _paths(value, ()):
        if len(path) == 1:
            continue  # a whole file
        for what in _CHANGES:
            yield Change(path, what)


def _paths(value: Any, before: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    steps: list[Any] = []
    if isinstance(value, dict):
        steps = [*value]
    elif isinstance(value, list):
        steps = [*range(len(value))] if len(value) <= 40 else [0, 1, len(value) - 1]
    for step in steps:
        yield (*before, step)
        yield from _paths(value[step], (*before, step))


def forgeries(value: dict[str, Any]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What a forger would do: other models whose records were made to agree with them."""
    model = value["model"]
    sizes = _sizes(model["schema"])
    for name, kind in (("rebuild", REBUILDS), ("synthesizer", SYNTHESIZERS)):
        for other in kind:
            key = "settings" if name == "synthesizer" else "rebuild_settings"
            if other != "pgm":  # an extra, and slow: tried elsewhere
                yield f"{name} {other}", partial(_agreeing, {**model, name: other, key: {}}, value)
    for old, new in _OTHER_SCHEMAS:
        if old in model["schema"]:
            schema = model["schema"].replace(old, new, 1)
            yield f"schema {new}", partial(_agreeing, {**model, "schema": schema}, value)
    for which, population in enumerate(model["populations"]):
        for place, found in enumerate(population):
            for words, others in _other_measurements(found, sizes):
                changed = [*population[:place], *others, *population[place + 1 :]]
                yield (
                    f"population {which} measurement {place}: {words}",
                    partial(_agreeing, _with_population(model, which, changed), value),
                )
        for words, extra in _more_measurements(sizes):
            yield (
                f"population {which} and {words}",
                partial(_agreeing, _with_population(model, which, [*population, extra]), value),
            )
            yield (
                f"population {which} after {words}",
                partial(_agreeing, _with_population(model, which, [extra, *population]), value),
            )
        yield (
            f"population {which} backwards",
            partial(_agreeing, _with_population(model, which, population[::-1]), value),
        )


_OTHER_SCHEMAS = (
    ('label = "sick"', 'label = "age"'),
    ('label = "sick"', 'label = "ward"'),
    ('label = "sick"\n', ""),
    ("nullable = true", "nullable = false"),
    ("bins = 12", "bins = 13"),
    ("bins = 9", "bins = 8\nnullable = true"),
    ("bins = 9", "bins = 8\natoms = [0.0]"),
    ("bins = 9", "bins = 1"),
    ('type = "boolean"', 'type = "categorical"\nvalues = ["x", "y"]\nordered = true'),
    ('values = ["a", "b", "c", "d"]', 'values = ["a", "b", "c", "d"]\nordered = true'),
)


def _with_population(model: dict[str, Any], which: int, changed: list[Any]) -> dict[str, Any]:
    populations = [*model["populations"]]
    populations[which] = changed
    return {**model, "populations": populations}


def _sizes(schema: str) -> dict[str, int]:
    domain = Schema.from_toml(schema).domain
    return dict(zip(domain.names, domain.sizes, strict=True))


def _agreeing(model: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """The model with records that name its pairs, and charges that pay for its noise."""
    measured = {
        tuple(found["statistic"].get("attributes", ()))
        for population in model["populations"]
        for found in population
        if len(found["statistic"].get("attributes", ())) == 2
    }
    pairs = [{"attributes": [*pair], "score": 0.5, "measured": True} for pair in sorted(measured)]
    total = max(1, round(sum(map(_total, model["populations"]))))
    run = {**value["run"], "pairs": pairs, "noisy_total": total}
    run |= {"settings": {}, "schema": "", "differences": []}
    privacy = _paid(model["populations"], value["privacy"])
    return agreeing({**value, "model": model, "privacy": privacy, "run": run})


def agreeing(value: dict[str, Any]) -> dict[str, Any]:
    """A release whose study has the name that its records tell, if they tell of any."""
    try:
        run = msgspec.convert(value["run"], RunRecord)
        statement = msgspec.convert(value["privacy"], PrivacyStatement)
        plan = plan_of(run, statement, Schema.from_toml(value["model"]["schema"]))
    except (HeterofedsynError, msgspec.ValidationError):
        return value
    return {**value, "run": {**value["run"], "study": plan.fingerprint}}


def agreed(release: Release) -> Release:
    """The same of a release."""
    plan = plan_of(release.run, release.privacy, release.schema)
    return replace(release, run=msgspec.structs.replace(release.run, study=plan.fingerprint))


def _paid(populations: list[list[dict[str, Any]]], privacy: dict[str, Any]) -> dict[str, Any]:
    """A statement whose sites were charged for this model, as far as an epsilon allows it."""
    sites = [account["site"] for account in privacy["sites"]]
    own = len(populations) > 1  # a site each
    honest = privacy["quorum"] - privacy["colluding"] if "quorum" in privacy else 1
    told = []
    for place, site in enumerate(sites):
        population = populations[min(place, len(populations) - 1)]
        parts = [_part(found, honest / (1 if own else len(sites))) for found in population]
        rho = together(Budget(part["rho"]) for part in parts).rho
        told.append(
            {"site": site, "rho": rho, "charges": [{"label": "all", "rho": rho, "parts": parts}]}
        )
    most = max(account["rho"] for account in told)
    epsilon = min(100.0, 1.001 * Budget(most).epsilon(privacy["delta"]))
    whole = Budget.of(epsilon=epsilon, delta=privacy["delta"]).rho
    stated = {"epsilon": epsilon, "rho": whole, "rho_alone": whole * honest, "sites": told}
    if "sums" in privacy:
        stated["sums"] = [{"label": "all", "sites": sites}]
    return {**privacy, **stated}


def _part(found: dict[str, Any], share: float) -> dict[str, Any]:
    statistic = found["statistic"]
    sigma = math.sqrt(found["variance"] * share)
    return {
        "kind": statistic["type"],
        "attributes": statistic.get("attributes", []),
        "sensitivity": 1.0,
        "sigma": sigma,
        "integers": len(found["data"]) // 8,
        "rho": min(1e6, 1 / (2 * sigma**2)),
    }


def _total(population: list[dict[str, Any]]) -> float:
    """What the measurements of a population tell of its number of records."""
    told = [(0.0, 1e-300)]
    for found in population:
        values = np.frombuffer(found["data"], "<f8")
        statistic = found["statistic"]
        if statistic["type"] in ("total", "flat") and len(statistic.get("attributes", ())) < 2:
            told.append((float(values.sum()), 1 / (found["variance"] * values.size)))
    return max(1.0, float(np.average([t for t, _ in told], weights=[w for _, w in told])))


def _measurement(statistic: dict[str, Any], cells: int, variance: float = 40.0) -> dict[str, Any]:
    data = np.linspace(-50.0, 900.0, cells).astype("<f8").tobytes()
    return {"statistic": statistic, "data": data, "variance": variance}


def _flat(*names: str) -> dict[str, Any]:
    return {"type": "flat", "attributes": [*names]}


def _grouped(names: Sequence[str], maps: Sequence[Sequence[int]]) -> dict[str, Any]:
    return {"type": "grouped", "attributes": [*names], "groups": [[*groups] for groups in maps]}


def _more_measurements(sizes: dict[str, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measurements that fit the schema, whatever the method never asked for."""
    yield "a total", _measurement({"type": "total"}, 1)
    for name, size in sizes.items():
        yield f"flat {name}", _measurement(_flat(name), size)
        for level in range((size - 1).bit_length()):
            haar = {"type": "haar", "attributes": [name], "level": level}
            yield f"haar {name} {level}", _measurement(haar, 1 << level)
    for a, b in itertools.combinations(sizes, 2):
        yield f"flat {a} {b}", _measurement(_flat(a, b), sizes[a] * sizes[b])
        for words, of in _MAPS.items():
            maps = [of(sizes[a]), of(sizes[b])]
            cells = (max(maps[0]) + 1) * (max(maps[1]) + 1)
            yield f"{words} {a} {b}", _measurement(_grouped((a, b), maps), cells)


_MAPS: dict[str, Callable[[int], list[int]]] = {
    "every value": lambda size: [*range(size)],
    "halves": lambda size: [2 * code // size for code in range(size)],
    "all in one": lambda size: [0] * size,
    "all in the last": lambda size: [size - 1] * size,
    "backwards": lambda size: [*range(size)][::-1],
}


def _other_measurements(
    found: dict[str, Any], sizes: dict[str, int]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """One measurement replaced by others that fit the schema as well."""
    yield "gone", []
    yield "twice", [found, found]
    values = np.frombuffer(found["data"], "<f8")
    for words, work in _NUMBERS.items():
        yield words, [{**found, "data": work(values).astype("<f8").tobytes()}]
    for variance in (1e-35, 1e-9, 1e9, 1e35):
        yield f"variance {variance}", [{**found, "variance": variance}]
    own = found["statistic"].get("attributes", [])
    for words, other in _more_measurements(sizes):
        if (
            other["statistic"].get("attributes", []) == own
            and other["statistic"] != (found["statistic"])
        ):
            yield f"as {words}", [other]


_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "zeros": np.zeros_like,
    "negative": lambda values: -np.abs(values) - 1,
    "tiny": lambda values: values * 1e-300,
    "large": lambda values: values * 1e6,
    "huge": lambda values: np.full_like(values, 9e17),
    "hugely negative": lambda values: np.full_like(values, -9e17),
    "up and down": lambda values: 9e17 * (-1.0) ** np.arange(values.size),
}


def _delete(holder: Any, key: Any) -> bool:
    del holder[key]
    return True


def _duplicate(holder: Any, key: Any) -> bool:
    if not isinstance(holder, list):
        return False
    holder.insert(key, copy.deepcopy(holder[key]))
    return True


def _rename(holder: Any, key: Any) -> bool:
    if isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif isinstance(holder[key], str):
        holder[key] += "x"
    else:
        return False
    return True


def _swap(holder: Any, key: Any) -> bool:
    """With what comes next."""
    keys = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
    other = keys[(keys.index(key) + 1) % len(keys)]
    holder[key], holder[other] = holder[other], holder[key]
    return True


def _numbers(work: Any) -> Any:
    """A change of a number, or of all numbers that bytes stand for."""

    def change(holder: Any, key: Any) -> bool:
        found = holder[key]
        if isinstance(found, bool):
            return False
        if isinstance(found, int | float):
            with np.errstate(all="ignore"):
                made = work(np.float64(found)).item()
            whole = isinstance(found, int) and abs(made) < 2**63
            holder[key] = int(made) if whole else made
            return True
        if isinstance(found, bytes) and found and len(found) % 8 == 0:
            with np.errstate(all="ignore"):
                holder[key] = work(np.frombuffer(found, "<f8")).astype("<f8").tobytes()
            return True
        return False

    return change


def _put(other: Any) -> Any:
    def change(holder: Any, key: Any) -> bool:
        holder[key] = copy.deepcopy(other)
        return True

    return change


_CHANGES: dict[str, Any] = {
    "delete": _delete,
    "duplicate": _duplicate,
    "rename": _rename,
    "swap": _swap,
    "shift": _numbers(lambda x: x + 1),
    "back": _numbers(lambda x: x - 1),
    "scale": _numbers(lambda x: x * 1_000),
    "shrink": _numbers(lambda x: x / 1_000),
    "negative": _numbers(lambda x: -x),
    "zero": _numbers(lambda x: x * 0),
    "huge": _numbers(lambda x: x * 0 + 9e17),
    "most": _numbers(lambda x: x * 0 + 1e300),
    "nan": _numbers(lambda x: x * np.nan),
    "cut": lambda holder, key: (
        isinstance(holder[key], bytes | str | list)
        and bool(holder[key])
        and _put(holder[key][:-1])(holder, key)
    ),
    "none": _put(None),
    "text": _put("0"),
    "list": _put([]),
}
