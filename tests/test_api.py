from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import heterofedsyn
from heterofedsyn import FederatedSynthesizer, Schema
from heterofedsyn.errors import HeterofedsynWarning, PrivacyRefusal, UsageError
from heterofedsyn.marginals import TableCounts
from invented import SCHEMA, patients
from support import categories, dependent_table

HEAVY = ["numba", "pyarrow", "opendp", "pandas", "polars"]


def test_all_is_exactly_what_is_exposed() -> None:
    assert dir(heterofedsyn) == sorted(heterofedsyn.__all__)
    for name in heterofedsyn.__all__:
        assert getattr(heterofedsyn, name) is not None
    public = {
        name
        for name, value in vars(heterofedsyn).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public - {"TYPE_CHECKING"} <= {*heterofedsyn.__all__}


def test_a_public_name_says_what_it_is() -> None:
    for name in heterofedsyn.__all__:
        if not name.startswith("_"):
            assert getattr(heterofedsyn, name).__doc__
            assert getattr(heterofedsyn, name).__module__.startswith("heterofedsyn.")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'heterofedsyn' has no attribute 'Synth'"):
        heterofedsyn.Synth  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import heterofedsyn",
        "from heterofedsyn.cli.app import run; run(['--help'])",
        "from heterofedsyn.cli.app import run; run(['simulate', '--help'])",
        "from heterofedsyn.cli.app import run; run(['--version'])",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    code += f"; import sys, json; print(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout.splitlines()[-1]) == []


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "stream": lambda table: table.to_reader(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_snippet_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA)
    schema = Schema.load("schema.toml")
    a, b, c = (KINDS[kind](patients(seed=seed)) for seed in range(3))

    synth = FederatedSynthesizer(schema, epsilon=1.0, delta=1e-9, method="adafedprivsyn")
    synth.fit([a, b, c])
    table = synth.sample(10_000, seed=1)
    synth.save("release")
    few = heterofedsyn.load("release").sample(5)

    assert (table.num_rows, few.num_rows) == (10_000, 5)
    assert table.schema == few.schema
    assert table.schema.names == ["age", "ward", "sick"]
    assert table.schema.types == [pa.int64(), pa.string(), pa.bool_()]
    assert heterofedsyn.load("release").sample(10_000, seed=1).equals(table)
    assert not synth.release.privacy.simulated_noise


def fitted(sites: Any, **terms: Any) -> FederatedSynthesizer:
    settings = {"epsilon": 1.0, "delta": 1e-9, "method": "independent", "noise_seed": 1, **terms}
    schema = {"columns": [{"name": "age", "type": "integer", "min": 0, "max": 99, "bins": 5}]}
    return FederatedSynthesizer(schema, **settings).fit(sites)


def test_all_kinds_of_tables_give_the_same_release() -> None:
    totals = [
        fitted([make(patients())]).release.model.targets[0].marginals[("age",)].values
        for make in KINDS.values()
    ]
    for other in totals[1:]:
        assert np.array_equal(totals[0], other)


def test_sites_may_have_names() -> None:
    synth = fitted({"north": patients(), "south": patients()})
    assert synth.release.run.sites == ("north", "south")


def test_rows_that_do_not_fit_are_warned_about_by_column() -> None:
    with pytest.warns(
        UserWarning, match=r"site-1: 1 row does not fit and is left out \(age: 1 not"
    ):
        fitted([pa.table({"age": ["1", "2", "Zanzibar"]})])


def test_nothing_can_be_sampled_before_fit() -> None:
    synth = FederatedSynthesizer(
        {"columns": [{"name": "sick", "type": "boolean"}]}, epsilon=1.0, delta=1e-9
    )
    for ask in (lambda: synth.sample(1), lambda: synth.save("x"), lambda: synth.release):
        with pytest.raises(UsageError, match=r"call fit\(\) first"):
            ask()
    with pytest.raises(UsageError, match="no site"):
        synth.fit([])


def test_without_a_noise_seed_no_two_studies_are_alike() -> None:
    first, second = (fitted([patients()], noise_seed=None).release for _ in range(2))
    assert first.run.seed != second.run.seed
    one, other = (release.model.targets[0].marginals[("age",)] for release in (first, second))
    assert not np.array_equal(one.values, other.values)


def test_a_pooling_method_takes_no_tables_that_it_cannot_pool() -> None:
    schema = categories(3, 4)
    table = dependent_table(schema.domain, 50)
    synthesizer = FederatedSynthesizer(schema, epsilon=1, delta=1e-6, method="privsyn")
    with pytest.raises(UsageError, match="count them all as one table"):
        synthesizer.fit_encoded({"a": table, "b": TableCounts(table)})


def test_a_pooling_method_limits_a_persons_rows_over_all_tables() -> None:
    schema = Schema.from_toml(SCHEMA)
    first, *others = (patients().slice(0, 1).append_column("id", pa.array(["p"])) for _ in "abc")
    synthesizer = FederatedSynthesizer(
        schema, epsilon=1.0, delta=1e-9, method="privsyn", unit="id", noise_seed=1
    )
    holders = synthesizer.holders(dict(zip("abc", [first, *others], strict=True)))
    assert [synthesizer.encode(tables).table.rows for tables in holders.values()] == [1]
    encoded = synthesizer.encode([first]).table
    with pytest.raises(UsageError, match="pooled before encoding"):
        synthesizer.fit_encoded({"a": encoded, "b": encoded})


def test_a_second_fit_is_refused() -> None:
    synthesizer = FederatedSynthesizer(
        Schema.from_toml(SCHEMA), epsilon=1.0, delta=1e-9, noise_seed=1
    )
    synthesizer.fit([patients()])
    with pytest.raises(UsageError, match="fitted already"):
        synthesizer.fit([patients()])


def test_a_delta_that_protects_nobody_is_warned_of() -> None:
    synthesizer = FederatedSynthesizer(
        Schema.from_toml(SCHEMA), epsilon=1.0, delta=0.009, noise_seed=1
    )
    with pytest.warns(HeterofedsynWarning, match="not below 1 / ") as warned:
        release = synthesizer.fit([patients()]).release
    assert len(warned) == 1
    assert "delta 0.009 is not below 1 / (number of rows)" in str(release.run.remarks)


def test_a_delta_of_a_hundredth_is_refused_unless_it_is_allowed() -> None:
    schema = Schema.from_toml(SCHEMA)
    with pytest.raises(PrivacyRefusal, match=r"delta 0\.01 .* 1% .* allow_large_delta=True"):
        FederatedSynthesizer(schema, epsilon=1.0, delta=0.01)
    FederatedSynthesizer(schema, epsilon=1.0, delta=0.01, allow_large_delta=True)
