"""Study files: what a coordinator sends to a steward, who looks at it before anything else."""

from __future__ import annotations

import dataclasses

from agent_support import make_study
from fuzz.law import folder, lawful
from heterofedsyn._toml import from_toml, to_toml
from heterofedsyn.hub.planning.preview import preview
from heterofedsyn.protocol import Study
from heterofedsyn.schema import Schema
from support import make_plan

FORM = "toml"

_SCHEMA = Schema.of(
    {
        "label": "sick",
        "columns": [
            {"name": "age", "type": "integer", "min": 0, "max": 99, "bins": 9},
            {"name": "ward", "type": "categorical", "values": ["a", "b"]},
            {"name": "sick", "type": "boolean"},
        ],
    }
)


def seeds() -> list[bytes]:
    plan = make_plan(
        _SCHEMA,
        ("one", "two"),
        method="fedprivsyn",
        unit="person",
        rows_per_unit=3,
        settings={"q": 0.2, "k": 5},
    )
    study = Study(plan=plan, schema=_SCHEMA.settings, quorum=2)
    return [make_study().to_toml().encode(), study.to_toml().encode()]


def examples() -> list[bytes]:
    good = make_study().to_toml()
    return [
        *(
            good.replace("seed = 7", f"seed = {number}").encode()
            for number in ("9" * 5_000, "0x" + "f" * 5_000, "-1", "1e400", "nan")
        ),
        good.replace("seed = 7", f"seed = 7\nsettings = {{ a = {10**30} }}").encode(),
        good.replace("seed = 7", "seed = 7\nsettings = { a = nan, b = inf }").encode(),
        good.replace("[plan]", "[plan]\nx." + "a." * 300_000 + "a = 1").encode(),
        good.replace("quorum = 1", "quorum = 1\npatience = nan").encode(),
        good.replace('"one"', ", ".join(f'"s{i}"' for i in range(50_000))).encode(),
        b"#" * (2**24 + 1),
        b"a = " + b"[]," * 300_000,
        b"schema = " + b"{a=" * 100_000,
    ]


def fuzz_one(data: bytes) -> None:
    _check(data)
    try:
        found = from_toml(data.decode())
        found["plan"]["schema"] = Schema.of(found["schema"]).fingerprint
        agreed = to_toml(found).encode()
    except Exception:
        return  # nothing that a plan could be made for
    _check(agreed)


def _check(data: bytes) -> None:
    path = folder("study") / "study.toml"
    path.write_bytes(data)
    study = lawful(lambda: Study.load(path))
    if study is not None:
        assert len(study.fingerprint) == 64
        assert study.encoding.fingerprint == study.plan.schema
        path.write_text(study.to_toml(), "utf-8")
        assert Study.load(path).fingerprint == study.fingerprint
        seen = lawful(lambda: preview(study, study.plan.sites[0]))
        assert seen is None or dataclasses.asdict(seen)
