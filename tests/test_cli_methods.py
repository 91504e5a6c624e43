from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from heterofedsyn import Budget, load
from heterofedsyn.hub import METHODS
from heterofedsyn.hub.methods.fedprivsyn import NO_PAIR
from heterofedsyn.privacy.trust import TRUST_MODELS
from heterofedsyn.simulate.split import Split
from invented import SCHEMA, Desk, names

pytestmark = pytest.mark.thorough

FILES = {
    *("model", "privacy.json", "report.html", "run.json", "synthetic.csv", "synthetic.parquet"),
}


def possible() -> list[tuple[str, str]]:
    """Every method under every trust model that it allows."""
    return [
        (name, trust)
        for name, method in METHODS.items()
        for trust in TRUST_MODELS
        if trust == "local" or (method.sums and not method.pools)
    ]


def check_release(folder: str, columns: list[str]) -> None:
    assert names(Path(folder)) == FILES
    release = load(folder)
    for targets in release.model.targets:
        assert math.isfinite(targets.total)
    privacy = release.privacy
    whole = Budget.of(epsilon=privacy.epsilon, delta=privacy.delta, conversion=privacy.conversion)
    assert privacy.rho == whole.rho
    assert [account.site for account in privacy.sites] == list(release.run.sites)
    for account in privacy.sites:
        assert account.charges
        for charge in account.charges:
            assert math.isclose(charge.rho, math.fsum(part.rho for part in charge.parts))
            for part in charge.parts:
                # What the noise is worth is what was charged; more noise than that is no sin.
                worth = part.sensitivity**2 / (2 * part.sigma**2)
                assert 0 < worth <= part.rho
                assert part.integers >= 1
        assert math.isclose(account.rho, math.fsum(charge.rho for charge in account.charges))
        assert account.rho <= privacy.rho
        spent = math.isclose(account.rho, privacy.rho)
        assert spent or any(NO_PAIR in remark for remark in release.run.remarks)
    table = pyarrow.parquet.read_table(f"{folder}/synthetic.parquet")
    assert table.column_names == columns
    assert table.num_rows == release.run.noisy_total
    for column in table.columns:
        assert column.null_count == 0
        if pa.types.is_floating(column.type):
            assert all(math.isfinite(value) for value in column.to_pylist())


@pytest.mark.parametrize(("method", "trust"), possible())
def test_every_method_gives_a_release_whose_charges_add_up(
    desk: Desk, method: str, trust: str
) -> None:
    # At a larger epsilon a site's share of the noise would fall below what a sum needs.
    assert desk.simulate("--method", method, "--trust", trust, epsilon="0.5") == 0
    check_release("release", ["age", "ward", "sick"])


# A method does not see how rows were dealt: each once, and no method with every way.
@pytest.mark.parametrize(
    ("method", "split"),
    [
        *((name, "label") for name in METHODS),
        *(("wavetree", str(way)) for way in Split if way != "label"),
    ],
)
def test_every_method_and_every_split_can_be_had(desk: Desk, method: str, split: str) -> None:
    assert desk.simulate("--method", method, "--split", split, "--sites", "3") == 0
    check_release("release", ["age", "ward", "sick"])


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(("method", "trust"), possible())
def test_every_method_takes_one_and_two_columns(
    desk: Desk, method: str, trust: str, columns: int
) -> None:
    entries = SCHEMA.split("[[columns]]")[1 : columns + 1]
    desk.write("s.toml", "".join("[[columns]]" + entry for entry in entries))
    sites = "2" if trust == "local" else "3"
    assert desk.simulate("--method", method, "--trust", trust, "--sites", sites, epsilon="0.5") == 0
    check_release("release", ["age", "ward"][:columns])


NUMBERS = """\
[[columns]]
name = "price"
type = "number"
min = 0
max = 1
bins = 4

[[columns]]
name = "constant"
type = "integer"
min = 3
max = 3
"""


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_numbers_and_a_constant(desk: Desk, method: str) -> None:
    desk.write("s.toml", NUMBERS)
    desk.write("d.csv", "price,constant\n" + "0.25,3\n0.75,3\n" * 100)
    assert desk.simulate("--method", method) == 0
    check_release("release", ["price", "constant"])


@pytest.mark.parametrize("conversion", ["tight", "paper"])
def test_every_conversion_is_stated_truly(desk: Desk, conversion: str) -> None:
    assert desk.simulate("--conversion", conversion) == 0
    assert load("release").privacy.conversion == conversion
    check_release("release", ["age", "ward", "sick"])


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("fedprivsyn", {"q": 0.2, "k": 4, "sketch": "gaussian"}),
    ("adafedprivsyn", {"bound": 1.0, "refresh": 1}),
    ("randmarg", {"passes": 0}),
]


@pytest.mark.parametrize(("method", "settings"), SETTINGS)
def test_settings_reach_the_method_and_the_record(
    desk: Desk, method: str, settings: dict[str, Any]
) -> None:
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    assert desk.simulate("--method", method, *given) == 0
    assert settings.items() <= load("release").run.settings.items()
