"""An invented table of patients, and the command line run on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from heterofedsyn.cli.app import run

SCHEMA = """\
label = "sick"

[[columns]]
name = "age"
type = "integer"
min = 0
max = 99
bins = 5

[[columns]]
name = "ward"
type = "categorical"
values = ["a", "b", "c"]

[[columns]]
name = "sick"
type = "boolean"
"""


def patients(rows: int = 300, seed: int = 0) -> pa.Table:
    """Old patients are more often sick and never in ward c; every person has two rows."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    ward = np.where(age > 50, rng.integers(0, 2, rows), rng.integers(0, 3, rows))
    return pa.table(
        {
            "person": np.arange(rows) // 2 + 10_000 * seed,
            "age": age,
            "ward": np.array(["a", "b", "c"])[ward],
            "sick": rng.random(rows) < age / 100,
        }
    )


class Desk:
    """A folder with s.toml and d.csv in it, and commands that are run in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.code, self.out, self.err = 0, "", ""
        self.write("s.toml", SCHEMA)
        pyarrow.csv.write_csv(patients(), folder / "d.csv")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *arguments: str | Path) -> int:
        self._capsys.readouterr()
        self.code = run([str(argument) for argument in arguments])
        self.out, self.err = self._capsys.readouterr()
        return self.code

    def simulate(self, *arguments: str, epsilon: str = "2", out: str = "release") -> int:
        """A study of s.toml with a seed; `--data d.csv` unless there is a --data or --site."""
        given = {"--data", "--site"}.intersection(arguments)
        data = () if given else ("--data", "d.csv")
        terms = ("--schema", "s.toml", "--epsilon", epsilon, "--delta", "1e-9", "--seed", "7")
        return self.run("simulate", *terms, "--out", out, *data, *arguments)

    def refused(self, code: int, *words: str) -> None:
        """The last command said nothing but one line that holds these words."""
        lines = self.err.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1, self.err
        assert lines[-1] == errors[0]
        assert "Traceback" not in self.err
        assert "please report" not in errors[0]
        for word in words:
            assert word in errors[0], errors[0]
        assert code == self.code, errors[0]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
