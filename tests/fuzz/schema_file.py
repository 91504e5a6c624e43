"""Schema files: what every party loads, and what a study or a release carries inside."""

from __future__ import annotations

from fuzz.law import folder, lawful
from heterofedsyn.schema import Schema, with_atoms
from heterofedsyn.simulate.hospitals import hospital_schema

FORM = "toml"

_EVERY_KIND = """\
label = "sick"
task = "binary_classification"

[[columns]]
name = "age"
type = "integer"
min = 17
max = 90
bins = 20
atoms = [17, 18]
nullable = true

[[columns]]
name = "price"
type = "number"
min = -1.5
max = 1e3
bins = 7
atoms = [0.0]

[[columns]]
name = "seen"
type = "datetime"
min = 2020-01-01T00:00:00
max = 2025-12-31
atoms = [2021-01-01]

[[columns]]
name = "ward"
type = "categorical"
values = ["a", "b", 3, "?"]
ordered = true
other = "?"

[[columns]]
name = "sick"
type = "boolean"
"""

_ONE = '[[columns]]\nname = "a"\ntype = "{}"\n{}\n'


def seeds() -> list[bytes]:
    return [_EVERY_KIND.encode(), hospital_schema().to_toml().encode()]


def examples() -> list[bytes]:
    """Small files that ask for much, and what parsers are known to trip over."""
    moments = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00")
    texts = [
        *(_ONE.format("datetime", f"min = {moment}\nmax = {moment}") for moment in moments),
        _ONE.format("integer", "min = 0\nmax = 2199023255552\nbins = 1099511627776\natoms = [5]"),
        _ONE.format("integer", f"min = 0\nmax = 9\nbins = 0x{'f' * 5_000}"),
        _ONE.format("integer", f"min = 0\nmax = 9\nbins = {'9' * 5_000}"),
        _ONE.format("number", "min = 5e-324\nmax = 1e-323\nbins = 65536"),
        _ONE.format("number", "min = nan\nmax = inf"),
        _ONE.format("categorical", f"values = [0x{'f' * 5_000}]"),
        _ONE.format("categorical", f'values = ["{"ab" * 30_000}"]\nother = "{"ba" * 30_000}"'),
        _ONE.format("categorical", "values = [" + '"",' * 100_000 + "]"),
        _ONE.format("boolean", "nullable = " + "[" * 50_000),
        f"label = 0x{'f' * 5_000}\n" + _ONE.format("boolean", ""),
        f"task = [0x{'f' * 5_000}]\n" + _ONE.format("boolean", ""),
        ".".join(["a"] * 300_000) + " = 1",
        "x = { " + ".".join(['"="'] * 100_000) + " = 1 }",
        f"[{'.'.join(['a'] * 300_000)}]",
        "[a.b.c.d.e]\n" * 20_000,
        "x = " + "{a=" * 50_000,
        '"\\u202e\\u001b[31m\\n" = 1',
        _ONE.format("\\u001b[31m", ""),
        "".join(f'[[columns]]\nname = "c{i}"\ntype = "boolean"\n' for i in range(60_000)),
        "".join(
            f'[[columns]]\nname="c{i}"\ntype="number"\nmin=0\nmax=1\nbins=65535\n'
            for i in range(20_000)
        ),
        "".join(
            f'[[columns]]\nname="c{i}"\ntype="integer"\nmin=0\nmax=4611686018427387903\n'
            "bins=65535\natoms=[0]\n"
            for i in range(1_000)
        ),
        "#" * (2**24 + 1),
    ]
    return [b"\xff\xfe" + _EVERY_KIND.encode("utf-16-le"), *(text.encode() for text in texts)]


def fuzz_one(data: bytes) -> None:
    path = folder("schema") / "schema.toml"
    path.write_bytes(data)
    schema = lawful(lambda: Schema.load(path))
    if schema is not None:
        assert len(schema.fingerprint) == 64
        assert min(schema.domain.sizes) >= 1
        assert Schema.from_toml(schema.to_toml()) == schema
        lawful(lambda: with_atoms(schema).domain)
