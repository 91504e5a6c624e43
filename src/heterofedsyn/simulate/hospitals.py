"""Five hospitals for demonstrations; every patient in them is invented."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.errors import UsageError
from heterofedsyn.schema import Schema
from heterofedsyn.simulate._hospital_facts import (
    AGES,
    COLUMNS,
    COST_OF_A_DAY,
    DIAGNOSES,
    GROUPS,
    HOSPITALS,
    MEAN_DAYS,
    SCHEMA,
    Diagnosis,
    Hospital,
)

if TYPE_CHECKING:
    import pyarrow as pa

Mask = NDArray[np.bool_]


def hospital_schema() -> Schema:
    """The public schema of the five hospitals; the label is whether a patient came back.

    >>> hospital_schema().label
    'readmitted'
    """
    return Schema.from_toml(SCHEMA)


def hospital_names() -> tuple[str, ...]:
    """The hospitals, in order."""
    return tuple(hospital.name for hospital in HOSPITALS)


def hospitals(seed: int = 0, patients: int = 100_000) -> dict[str, pa.Table]:
    """The stays of one year at each hospital, in order of admission; one row is one patient.

    >>> {name: stays.num_rows for name, stays in hospitals(patients=1000).items()}
    {'elmwood': 190, 'kingsbridge': 300, 'lakeside': 100, 'northgate': 250, 'st-anna': 160}
    """
    import pyarrow as pa

    least = len(HOSPITALS)
    if patients < least:
        raise UsageError(f"patients ({patients}) must be at least {least}, one for each hospital")
    ends = np.cumsum([hospital.share for hospital in HOSPITALS])
    sizes = 1 + np.diff(np.rint(ends * (patients - least)), prepend=0).astype(np.int64)
    site = np.repeat(np.arange(least), sizes)
    columns = _patients(site, np.random.default_rng(seed))
    order = np.lexsort((columns["admitted_at"].to_numpy(), site))
    everyone = pa.table({name: columns[name] for name in COLUMNS}).take(pa.array(order))
    starts = np.cumsum(sizes) - sizes
    return {
        hospital.name: everyone.slice(start, size)
        for hospital, start, size in zip(HOSPITALS, starts, sizes, strict=True)
    }


def _patients(site: Integers, rng: np.random.Generator) -> dict[str, pa.Array]:
    """Every column for patients of the given hospitals; causes are drawn before effects."""
    n = len(site)
    age, sex = _age_and_sex(site, rng)
    adult, decades = age >= 18, (age - 50) / 10
    male = _is("sex", "male", sex)
    insurance = _insurance(site, age, rng)
    smoker = _happens(np.where(age < 15, -np.inf, -0.9 - 0.25 * np.abs(decades) + 0.3 * male), rng)
    bmi = np.interp(age, (0, 5, 12, 18, 30, 55, 75, 95), (16, 16, 19, 22, 25, 28, 27, 24))
    bmi *= np.exp(np.where(adult, 0.19, 0.12) * rng.standard_normal(n) - 0.02 * smoker)

    diagnosis = _diagnosis(site, age, sex, smoker, bmi, rng)
    cancer = _is("diagnosis", "cancer", diagnosis)
    chronic = _of_diagnosis(lambda d: d.chronic)[diagnosis]
    emergency = _happens(
        _of_hospital(lambda h: h.emergency)[site] + _of_diagnosis(lambda d: d.emergency)[diagnosis],
        rng,
    )
    severity = rng.standard_normal(n) + 0.12 * decades + 0.3 * np.maximum(cancer, chronic)
    urgency = 0.8 * severity + 2.0 * emergency + 0.5 * rng.standard_normal(n)
    triage = np.digitize(urgency, (-0.1, 1.1, 2.3, 3.4))
    prior = rng.poisson(
        rng.gamma(1.5, 1 / 1.5, n) * np.exp(-0.2 + 0.16 * decades + 0.7 * cancer + 0.5 * chronic)
    )
    pressure = (
        np.interp(age, (0, 6, 15, 30, 50, 70, 90), (90, 100, 112, 119, 128, 139, 143))
        + 0.6 * (bmi - 26) * adult
        + _of_diagnosis(lambda d: d.pressure)[diagnosis]
        + np.where(adult, 13, 9) * rng.standard_normal(n)
    )
    creatinine = np.interp(age, (0, 15, 20, 60, 90), (0.35, 0.65, 0.8, 0.95, 1.2)) * np.exp(
        0.18 * male * adult
        + _of_diagnosis(lambda d: d.creatinine)[diagnosis]
        + 0.07 * severity
        + 0.2 * rng.standard_normal(n)
    )

    ward = _ward(site, age, diagnosis, triage, rng)
    mean_days = _by("ward", MEAN_DAYS)[ward] * np.exp(0.18 * severity + 0.02 * decades * adult)
    days = _fit("length_of_stay", np.floor(rng.gamma(2.5, mean_days / 2.5)))
    cost = _of_diagnosis(lambda d: d.cost)[diagnosis]
    cost += _by("ward", COST_OF_A_DAY)[ward] * (days + 0.5)
    cost *= np.exp(0.18 * rng.standard_normal(n) + 0.12 * _is("insurance", "private", insurance))
    discharge = _discharge(age, diagnosis, ward, severity, days, rng)
    readmitted = _happens(
        -3.6
        + 0.45 * np.minimum(prior, 6)
        + 0.1 * decades
        + 0.05 * days
        + 0.4 * emergency
        + 0.3 * smoker
        + 0.7 * (creatinine > 1.4)
        + 0.8 * cancer
        + 0.5 * chronic
        - 0.9 * _is("diagnosis", "pregnancy", diagnosis)
        + _by("discharge", {"nursing home": 0.5, "home care": 0.3, "died": -np.inf})[discharge],
        rng,
    )

    # In an emergency nobody asks about smoking, and a planned stay often needs no blood test.
    unasked = rng.random(n) < np.where(emergency, 0.22, 0.06)
    untested = rng.random(n) < np.where(emergency, 0.1, 0.4)
    return {
        "admitted_at": _moments(diagnosis, emergency, rng),
        "age": _integers("age", age),
        "sex": _words("sex", sex),
        "insurance": _words("insurance", insurance),
        "smoker": _flags(smoker, unasked),
        "bmi": _decimals("bmi", bmi, 1),
        "prior_admissions": _integers("prior_admissions", prior),
        "diagnosis": _words("diagnosis", diagnosis),
        "emergency": _flags(emergency),
        "triage": _words("triage", triage),
        "systolic_pressure": _integers("systolic_pressure", pressure),
        "creatinine": _decimals("creatinine", creatinine, 2, untested),
        "ward": _words("ward", ward),
        "length_of_stay": _integers("length_of_stay", days),
        "cost": _decimals("cost", cost, 2),
        "discharge": _words("discharge", discharge),
        "readmitted": _flags(readmitted),
    }


def _age_and_sex(site: Integers, rng: np.random.Generator) -> tuple[Integers, Integers]:
    n = len(site)
    group = _pick(np.array([hospital.groups for hospital in HOSPITALS]), site, rng)
    mean, spread, women = np.array(list(GROUPS.values())).T[:, group]
    years = np.where(mean > 0, rng.normal(mean, spread), 18 * rng.beta(0.7, 1.3, n))
    unspecified = 0.004
    weights = np.stack([women, 1 - women, np.full(n, unspecified)], axis=1)
    return np.floor(_fit("age", years)).astype(np.int64), _pick(weights, np.arange(n), rng)


def _insurance(site: Integers, age: Integers, rng: np.random.Generator) -> Integers:
    weights = np.array([_by("insurance", hospital.insurance) for hospital in HOSPITALS])[site]
    young = {"statutory": 1, "supplementary": 0.5, "private": 0.8, "none": 0.3}
    old = {"statutory": 1, "supplementary": 1.7, "private": 0.9, "none": 0.2}
    weights[age < 18] *= _by("insurance", young)
    weights[age >= 65] *= _by("insurance", old)
    return _pick(weights, np.arange(len(site)), rng)


def _diagnosis(
    site: Integers,
    age: Integers,
    sex: Integers,
    smoker: Mask,
    bmi: Floats,
    rng: np.random.Generator,
) -> Integers:
    names = _values("diagnosis")
    often = [np.interp(np.arange(101), AGES, DIAGNOSES[name].often) for name in names]
    treats = [[hospital.treats.get(name, 1.0) for name in names] for hospital in HOSPITALS]
    weights = np.stack(often, axis=1)[age] * np.array(treats)[site]
    weights *= np.exp(np.outer(np.maximum(bmi - 25, 0), _of_diagnosis(lambda d: d.heavy)))
    weights[smoker] *= np.exp(_of_diagnosis(lambda d: d.smoking))
    fertile = _is("sex", "female", sex) & (age >= 15) & (age < 50)
    weights[~fertile, names.index("pregnancy")] = 0
    return _pick(weights, np.arange(len(site)), rng)


def _ward(
    site: Integers, age: Integers, diagnosis: Integers, triage: Integers, rng: np.random.Generator
) -> Integers:
    names = _values("ward")
    of_adults = [_by("ward", DIAGNOSES[name].wards) for name in _values("diagnosis")]
    weights = np.array(of_adults)[diagnosis]
    birth = _is("diagnosis", "pregnancy", diagnosis)
    child = (age < 18) & ~birth
    weights[child] *= 0.04
    weights[child, names.index("paediatrics")] = 1
    geriatrics = _of_hospital(lambda h: h.geriatrics)[site] * np.interp(age, (65, 90), (0, 1))
    intensive = np.array([0.002, 0.005, 0.02, 0.09, 0.4])[triage] * np.where(birth, 0.2, 1)
    weights[:, names.index("geriatrics")] = geriatrics
    weights[:, names.index("intensive care")] = intensive
    return _pick(weights, np.arange(len(site)), rng)


def _discharge(
    age: Integers,
    diagnosis: Integers,
    ward: Integers,
    severity: Floats,
    days: Floats,
    rng: np.random.Generator,
) -> Integers:
    minor, old = age < 18, np.maximum(age - 60, 0) / 10
    birth, cancer = (_is("diagnosis", name, diagnosis) for name in ("pregnancy", "cancer"))
    intensive = _is("ward", "intensive care", ward)
    rehabilitation = _of_diagnosis(lambda d: d.rehabilitation)[diagnosis]
    log_weights = {
        "home": np.zeros(len(age)),
        "home care": -3.6 + 0.75 * old + 0.05 * days + 0.5 * cancer - 1.5 * minor,
        "rehabilitation": -4.2 + 0.35 * old + 0.1 * days + rehabilitation - 2.0 * minor,
        "nursing home": np.where(age < 50, -np.inf, -6.2 + 1.45 * old + 0.1 * days),
        "other hospital": -4.0 + 0.3 * severity + 0.9 * intensive,
        "died": -5.7 + 0.7 * old + 0.9 * severity + 2 * intensive + 1.2 * cancer - 3 * birth,
    }
    weights = np.exp(np.stack([log_weights[name] for name in _values("discharge")], axis=1))
    return _pick(weights, np.arange(len(age)), rng)


def _moments(diagnosis: Integers, emergency: Mask, rng: np.random.Generator) -> pa.Array:
    """When each stay began: planned ones on weekday mornings, emergencies around the clock."""
    import pyarrow as pa

    day, hour = np.arange(365), np.arange(24)
    weekday = (day + 2) % 7  # 2025 begins on a Wednesday
    planned = np.array([1.25, 1.2, 1.15, 1.1, 0.9, 0.2, 0.25])[weekday]
    urgent = np.array([1.1, 1.0, 0.98, 0.98, 1.02, 0.97, 0.95])[weekday]
    winter = _of_diagnosis(lambda d: d.winter)
    season = 1 + np.outer(winter, np.cos(2 * np.pi * (day - 20) / len(day)))
    days = _pick(
        np.vstack([planned * season, urgent * season]), emergency * len(winter) + diagnosis, rng
    )
    morning = np.exp(-(((hour - 9) / 2.2) ** 2))
    all_day = 1.2 + np.sin(2 * np.pi * (hour - 9) / len(hour))
    hours = _pick(np.vstack([morning, all_day]), emergency.astype(np.int64), rng)
    minutes = (24 * days + hours) * 60 + rng.integers(0, 60, len(days))
    return pa.array(np.datetime64("2025-01-01T00:00:00") + (60 * minutes).astype("timedelta64[s]"))


def _values(column: str) -> list[str]:
    values: list[str] = COLUMNS[column]["values"]
    return values


def _by(column: str, numbers: Mapping[str, float]) -> Floats:
    """One number per value of a categorical column; zero where none is given."""
    every = np.zeros(len(_values(column)))
    for value, number in numbers.items():
        every[_values(column).index(value)] = number
    return every


def _is(column: str, value: str, codes: Integers) -> Mask:
    """Which patients have one value of a categorical column."""
    same: Mask = codes == _values(column).index(value)
    return same


def _of_diagnosis(fact: Callable[[Diagnosis], float]) -> Floats:
    return np.array([fact(DIAGNOSES[name]) for name in _values("diagnosis")], np.float64)


def _of_hospital(fact: Callable[[Hospital], float]) -> Floats:
    return np.array([fact(hospital) for hospital in HOSPITALS], np.float64)


def _happens(log_odds: Floats, rng: np.random.Generator) -> Mask:
    happens: Mask = rng.random(len(log_odds)) * (1 + np.exp(-log_odds)) < 1
    return happens


def _pick(weights: Floats, row: Integers, rng: np.random.Generator) -> Integers:
    """For each entry of `row` a position in that row of the weights, in proportion to them."""
    rows, places = weights.shape
    below = np.cumsum(weights, axis=1)
    below = below / below[:, -1:] + np.arange(rows)[:, np.newaxis]
    place = np.searchsorted(below.ravel(), row + rng.random(len(row)), side="right")
    # A number just below one may round to it and fall into the next row.
    picked: Integers = np.minimum(place - row * places, places - 1)
    return picked


def _fit(column: str, values: NDArray[Any]) -> NDArray[Any]:
    """Values moved into the public range."""
    inside: NDArray[Any] = np.clip(values, COLUMNS[column]["min"], COLUMNS[column]["max"])
    return inside


def _integers(column: str, values: NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.rint(_fit(column, values)).astype(np.int64))


def _decimals(column: str, values: Floats, digits: int, missing: Mask | None = None) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.round(_fit(column, values), digits), mask=missing)


def _flags(values: Mask, missing: Mask | None = None) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, mask=missing)


def _words(column: str, codes: Integers) -> pa.Array:
    import pyarrow as pa

    return pa.array(_values(column), pa.string()).take(pa.array(codes))
