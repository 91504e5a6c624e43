"""The built-in hospitals: reproducible, unlike one another, and all of them fit their schema."""

from __future__ import annotations

import itertools
import re
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from heterofedsyn.errors import UsageError
from heterofedsyn.schema import CategoricalColumn, EncodedTable, encode
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals

PATIENTS = 20_000
SCHEMA = hospital_schema()

AGE_MARGIN = 3.0  # years between the means of any two hospitals
EMERGENCY_MARGIN = 0.08
INSURANCE_MARGIN = 0.05  # total variation

# Mutual information in nats; chance alone gives (a - 1)(b - 1) / 2n, here at most 0.008.
DEPENDENCIES = {
    ("age", "diagnosis"): 0.15,
    ("age", "systolic_pressure"): 0.3,
    ("age", "bmi"): 0.15,
    ("age", "ward"): 0.4,
    ("age", "prior_admissions"): 0.03,
    ("age", "discharge"): 0.04,
    ("sex", "diagnosis"): 0.03,
    ("sex", "creatinine"): 0.02,
    ("insurance", "age"): 0.02,
    ("bmi", "diagnosis"): 0.04,
    ("diagnosis", "ward"): 0.7,
    ("diagnosis", "emergency"): 0.05,
    ("emergency", "triage"): 0.2,
    ("triage", "ward"): 0.02,
    ("ward", "length_of_stay"): 0.1,
    ("length_of_stay", "cost"): 0.4,
    ("ward", "cost"): 0.15,
    ("length_of_stay", "discharge"): 0.03,
    ("prior_admissions", "readmitted"): 0.03,
    ("diagnosis", "readmitted"): 0.015,
    ("creatinine", "readmitted"): 0.012,
    ("length_of_stay", "readmitted"): 0.01,
}


@pytest.fixture(scope="module")
def sites() -> dict[str, pa.Table]:
    return hospitals(seed=1, patients=PATIENTS)


@pytest.fixture(scope="module")
def everyone(sites: dict[str, pa.Table]) -> pa.Table:
    return pa.concat_tables(sites.values())


@pytest.fixture(scope="module")
def encoded(everyone: pa.Table) -> EncodedTable:
    return encode(SCHEMA, everyone.to_batches()).table


def column(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values


def mutual_information(table: EncodedTable, first: str, second: str) -> float:
    domain = table.domain
    a, b = (table.codes[domain.index(name)].astype(np.int64) for name in (first, second))
    shape = domain.size(first), domain.size(second)
    joint = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape) / len(a)
    alone = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    there = joint > 0
    return float(np.sum(joint[there] * np.log(joint[there] / alone[there])))


def test_the_same_seed_gives_the_same_tables(sites: dict[str, pa.Table]) -> None:
    again = hospitals(seed=1, patients=PATIENTS)
    assert list(again) == list(sites)
    assert all(again[name].equals(sites[name]) for name in sites)


def test_another_seed_gives_other_patients(sites: dict[str, pa.Table]) -> None:
    other = hospitals(seed=2, patients=PATIENTS)
    assert not any(other[name].equals(sites[name]) for name in sites)


@settings(max_examples=25)
@given(st.integers(5, 3000))
def test_sizes_add_up_and_no_hospital_is_empty(patients: int) -> None:
    sizes = [table.num_rows for table in hospitals(patients=patients).values()]
    assert sum(sizes) == patients
    assert min(sizes) >= 1


def test_without_arguments_there_are_a_hundred_thousand_patients_in_five_unequal_sites() -> None:
    sizes = [table.num_rows for table in hospitals().values()]
    assert sum(sizes) == 100_000
    assert len(set(sizes)) == 5
    assert max(sizes) > 2 * min(sizes)


@pytest.mark.parametrize("patients", [-1, 0, 4])
def test_fewer_patients_than_hospitals_are_refused(patients: int) -> None:
    with pytest.raises(UsageError, match=r"must be at least 5"):
        hospitals(patients=patients)


def test_names_can_be_names_of_sites(sites: dict[str, pa.Table]) -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in sites)


def test_columns_have_the_order_and_types_of_the_schema(sites: dict[str, pa.Table]) -> None:
    types = {
        "integer": pa.int64(),
        "number": pa.float64(),
        "categorical": pa.string(),
        "boolean": pa.bool_(),
        "datetime": pa.timestamp("s"),
    }
    for table in sites.values():
        assert table.column_names == [entry.name for entry in SCHEMA.columns]
        assert table.schema.types == [types[entry.kind] for entry in SCHEMA.columns]


def test_the_schema_is_small_enough_for_a_demonstration_at_epsilon_one() -> None:
    assert SCHEMA.label == "readmitted"
    assert SCHEMA.task == "binary_classification"
    assert 150 <= sum(SCHEMA.domain.sizes) <= 180


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_schema_accepts_every_row(seed: int) -> None:
    for table in hospitals(seed, PATIENTS).values():
        kept = encode(SCHEMA, table.to_batches())
        assert kept.rows_dropped == 0
        assert kept.table.rows == table.num_rows


def test_no_number_needs_clamping(everyone: pa.Table) -> None:
    for entry in SCHEMA.columns:
        if entry.kind in {"integer", "number", "datetime"}:
            low, high = (getattr(entry, end) for end in ("min", "max"))
            found = pc.min_max(everyone[entry.name]).as_py()
            assert low <= found["min"] <= found["max"] <= high, entry.name


def test_decimals_are_rounded_as_people_write_them(everyone: pa.Table) -> None:
    for name, digits in {"bmi": 1, "creatinine": 2, "cost": 2}.items():
        values = everyone[name].drop_null()
        assert values.equals(pc.round(values, digits)), name


def test_every_category_occurs(everyone: pa.Table) -> None:
    for entry in SCHEMA.columns:
        if isinstance(entry, CategoricalColumn):
            assert set(everyone[entry.name].unique().to_pylist()) == set(entry.values)
            assert 3 <= len(entry.values) <= 12


def test_numbers_spread_over_their_bins(encoded: EncodedTable) -> None:
    for name in ("age", "bmi", "systolic_pressure", "creatinine", "length_of_stay", "cost"):
        share = np.bincount(encoded.codes[encoded.domain.index(name)]) / encoded.rows
        assert share.max() < 0.3, name


def test_nulls_are_where_the_schema_allows_them_and_nowhere_else(
    sites: dict[str, pa.Table],
) -> None:
    for table in sites.values():
        for entry in SCHEMA.columns:
            assert (table[entry.name].null_count > 0) == entry.nullable, entry.name


def test_what_is_missing_depends_on_emergency(everyone: pa.Table) -> None:
    emergency = column(everyone, "emergency")
    untested, unasked = (everyone[name].is_null().to_numpy() for name in ("creatinine", "smoker"))
    assert untested[~emergency].mean() > untested[emergency].mean() + 0.2
    assert unasked[emergency].mean() > unasked[~emergency].mean() + 0.1


def test_any_two_hospitals_differ_in_age_insurance_and_emergencies(
    sites: dict[str, pa.Table],
) -> None:
    kinds = SCHEMA.column("insurance")
    assert isinstance(kinds, CategoricalColumn)
    for first, second in itertools.combinations(sites.values(), 2):
        age, emergency = (
            abs(column(first, name).mean() - column(second, name).mean())
            for name in ("age", "emergency")
        )
        insured = [
            np.array([np.mean(column(table, "insurance") == kind) for kind in kinds.values])
            for table in (first, second)
        ]
        assert age >= AGE_MARGIN
        assert emergency >= EMERGENCY_MARGIN
        assert np.abs(insured[0] - insured[1]).sum() / 2 >= INSURANCE_MARGIN


def test_one_hospital_is_for_children_and_one_for_the_old(sites: dict[str, pa.Table]) -> None:
    assert column(sites["st-anna"], "age").mean() < 25
    assert column(sites["elmwood"], "age").mean() > 65


@pytest.mark.parametrize(("pair", "floor"), DEPENDENCIES.items(), ids=map("-".join, DEPENDENCIES))
def test_columns_depend_on_each_other(
    encoded: EncodedTable, pair: tuple[str, str], floor: float
) -> None:
    assert mutual_information(encoded, *pair) > floor


def test_what_grows_together_in_life_grows_together_here(everyone: pa.Table) -> None:
    for first, second, floor in [
        ("age", "systolic_pressure", 0.6),
        ("length_of_stay", "cost", 0.6),
        ("bmi", "systolic_pressure", 0.3),
    ]:
        assert np.corrcoef(column(everyone, first), column(everyone, second))[0, 1] > floor
    adult = everyone.filter(pc.field("age") >= 18)
    heavy = column(adult.filter(pc.field("diagnosis") == "endocrine"), "bmi").mean()
    assert heavy > column(adult, "bmi").mean() + 2


def test_nothing_impossible_happens(everyone: pa.Table) -> None:
    pregnant = everyone.filter(pc.field("diagnosis") == "pregnancy")
    assert pregnant["sex"].unique().to_pylist() == ["female"]
    assert 15 <= column(pregnant, "age").min() <= column(pregnant, "age").max() < 50
    assert not column(everyone.filter(pc.field("discharge") == "died"), "readmitted").any()
    assert column(everyone.filter(pc.field("ward") == "paediatrics"), "age").max() < 18
    assert not everyone.filter(pc.field("age") < 15)["smoker"].drop_null().to_numpy().any()


def test_planned_stays_begin_on_weekday_mornings(everyone: pa.Table) -> None:
    moment = everyone["admitted_at"]
    emergency = column(everyone, "emergency")
    weekend = pc.day_of_week(moment).to_numpy() >= 5
    early = pc.hour(moment).to_numpy() < 14
    assert weekend[~emergency].mean() < 0.12
    assert weekend[emergency].mean() > 0.22
    assert early[~emergency].mean() > 0.95
    assert early[emergency].mean() < 0.6


def test_lungs_suffer_in_winter(everyone: pa.Table) -> None:
    winter = np.isin(pc.month(everyone["admitted_at"]).to_numpy(), [12, 1, 2])
    lungs = column(everyone, "diagnosis") == "respiratory"
    assert lungs[winter].mean() > 1.25 * lungs[~winter].mean()


def test_stays_cover_the_year_in_order(sites: dict[str, pa.Table]) -> None:
    for table in sites.values():
        moments = table["admitted_at"].to_pylist()
        assert moments == sorted(moments)
        assert moments[0] < datetime(2025, 1, 8)
        assert moments[-1] > datetime(2025, 12, 24)
