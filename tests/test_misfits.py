"""What the owner of rows is told of those that do not fit, and that a serving agent never cares."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._words import MOST_CLAMPED, MOST_MISFIT
from heterofedsyn.cli.app import run
from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.protocol import Answer, decode
from heterofedsyn.schema import Fit, Schema
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.misfits import Tolerance
from site_support import SCHEMA, approved_study, make_message, make_site, rows_of

pytestmark = pytest.mark.thorough

STAYS = Schema.of(
    {
        "columns": [
            {"name": "sex", "type": "categorical", "values": ["female", "male"]},
            {"name": "why", "type": "categorical", "values": ["birth", "fracture"]},
            {"name": "bmi", "type": "number", "min": 10, "max": 60},
        ],
        "rules": [{"never": {"sex": "male", "why": "birth"}}],
    }
)
HEADER = "sex,why,bmi\n"
GOOD = "female,birth,22.5\n"


class Owner:
    """Somebody in a folder with rows and a schema."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self._capsys = place, capsys
        STAYS.save(place / "schema.toml")

    def write(self, name: str, *rows: str) -> str:
        (self.place / name).write_text(HEADER + "".join(rows))
        return str(self.place / name)

    def check(self, *words: str | Path, code: int = 0) -> tuple[str, str]:
        return self("schema", "check", "--schema", self.place / "schema.toml", *words, code=code)

    def __call__(self, *words: str | Path, code: int = 0) -> tuple[str, str]:
        self._capsys.readouterr()
        ended = run([str(word) for word in words])
        out, err = self._capsys.readouterr()
        assert ended == code, err
        return out, err


@pytest.fixture
def owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Owner:
    return Owner(tmp_path, capsys)


MISFITS = ("male,birth,30\n", "male,,30\n", "secret,fracture,30\n", "male,fracture,heavy\n")


def test_check_tells_reasons_rules_and_clamped_values_and_no_value(owner: Owner) -> None:
    rows = owner.write("rows.csv", *MISFITS, "male,fracture,700\n", *[GOOD] * 95)
    out, err = owner.check("--data", rows)
    assert "1 missing" in out
    assert "1 unknown value" in out
    assert "1 not a number" in out
    assert "1 above" in out
    assert "1: never sex" in out
    assert "4 of 100 rows do not fit and are left out; this count is exact" in out
    assert "secret" not in out + err
    assert "heavy" not in out + err
    found = json.loads(owner.check("--data", rows, "--json")[0])
    assert found["misfits"] == {
        "sex": {"unknown value": 1},
        "why": {"missing": 1},
        "bmi": {"not a number": 1},
    }
    assert found["rules"] == {"1": 1}
    assert found["clamped"] == {"bmi": {"below": 0, "above": 1}}


def test_details_name_the_first_rows_of_each_table_in_a_file_of_ones_own(owner: Owner) -> None:
    one = owner.write("one.csv", *[GOOD] * 40, *MISFITS)
    two = owner.write("two.csv", *[GOOD] * 50, MISFITS[2], *[GOOD] * 9, *[MISFITS[2]] * 9)
    file = owner.place / "details.txt"
    _, err = owner.check("--data", one, "--data", two, "--details", file, "--most-misfit", "0.2")
    assert "only you can read" in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert f"{one}: column 'why', missing (1 in all): row 42\n" in text
    assert f"{one}: column 'sex', unknown value (11 in all): row 43\n" in text
    assert f"{two}: column 'sex', unknown value (11 in all): rows 51, 61, 62, 63\n" in text
    assert f"{one}: column 'bmi', not a number (1 in all): row 44\n" in text
    (broken,) = [line for line in text.splitlines() if "broken" in line]
    assert broken.startswith(f"{one}: rule 1 (never sex")
    assert broken.endswith(": row 41")
    assert "secret" not in text
    line = (owner.place / "one.csv").read_text().splitlines()[43 - 1 + 1]
    assert line.startswith("secret"), "row 43 is line 44 of the file"
    _, err = owner.check("--data", owner.write("good.csv", GOOD), "--details", file)
    assert f"all rows fit and no value is clamped: there is no {file}" in err
    assert not file.exists(), "what was found before is no longer true"


def test_details_name_the_first_rows_that_are_clamped_by_side(owner: Owner) -> None:
    rows = owner.write("rows.csv", *[GOOD] * 9, "female,birth,3\n", "female,birth,444\n")
    file = owner.place / "details.txt"
    owner.check("--data", rows, "--details", file)
    assert file.read_text().splitlines()[1:] == [
        f"{rows}: column 'bmi', below its range (1 in all): row 10",
        f"{rows}: column 'bmi', above its range (1 in all): row 11",
    ]


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_every_column_in_a_wrong_unit_is_named_or_counted(columns: int) -> None:
    names = [f"x{number}" for number in range(columns)]
    fit = Fit(rows_read=4, clamped=dict.fromkeys(names, (0, 4)), values=dict.fromkeys(names, 4))
    with pytest.raises(DataError) as told:
        Tolerance(MOST_MISFIT, MOST_CLAMPED).check(fit, STAYS)
    said = [name for name in names if f"column {name!r}: of 4 values 4 above" in str(told.value)]
    assert said == names[:3]
    assert ("and so in 2 more columns" in str(told.value)) == (columns == 5)


@pytest.mark.parametrize("name", ["rows.csv", "schema.toml", ".", "missing/link"])
def test_details_replace_no_other_file(owner: Owner, name: str) -> None:
    for rows in ([GOOD] * 9, [GOOD, *MISFITS]):
        data = owner.write("rows.csv", *rows)
        (owner.place / "missing").mkdir(exist_ok=True)
        link = owner.place / "missing" / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(data)
        before = {path: path.read_bytes() for path in owner.place.iterdir() if path.is_file()}
        owner.check("--data", data, "--details", owner.place / name, code=UsageError.exit_code)
        assert before == {p: p.read_bytes() for p in owner.place.iterdir() if p.is_file()}


def test_a_wrong_unit_is_found_though_every_row_fits(owner: Owner) -> None:
    grams = owner.write("grams.csv", *["female,birth,22500\n"] * 20)
    _, err = owner.check("--data", grams, code=1)
    (line,) = err.splitlines()
    assert "column 'bmi': of 20 values 20 above its range, more than 20 %" in line
    owner.check("--data", grams, "--most-clamped", "1")


def test_a_wrong_unit_is_found_in_a_column_that_is_mostly_missing(owner: Owner) -> None:
    bmi = {"name": "bmi", "type": "number", "min": 10, "max": 60, "nullable": True}
    Schema.of({"columns": [bmi]}).save(owner.place / "schema.toml")
    rows = owner.write("rows.csv", *["female,birth,\n"] * 90, *["female,birth,3\n"] * 10)
    _, err = owner.check("--data", rows, code=1)
    assert "column 'bmi': of 10 values 10 below its range" in err


def test_another_dialect_gets_its_remedy(owner: Owner) -> None:
    text = "sex;why;bmi\n" + "female;birth;22,5\n" * 20
    (owner.place / "comma.csv").write_text(text)
    place = f"{owner.place / 'comma.csv'}?delimiter=;"
    _, err = owner.check("--data", place, code=1)
    assert "20 of 20 rows do not fit" in err
    assert "add &decimal=, to the location" in err
    terms = ("--schema", owner.place / "schema.toml", "--epsilon", "1", "--delta", "1e-9")
    out = owner.place / "release"
    _, err = owner("simulate", *terms, "--data", place, "--out", out, code=1)
    assert "add &decimal=, to the location" in err
    assert not out.exists()
    owner.check("--data", f"{place}&decimal=,")


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_exactly_the_share_passes_and_one_row_more_does_not(
    rows: int, dropped: int, below: int, above: int
) -> None:
    dropped = min(rows, dropped)
    fit = Fit(
        rows_read=rows, rows_dropped=dropped, clamped={"bmi": (below, above)}, values={"bmi": rows}
    )
    if 20 * dropped > rows or 5 * (below + above) > rows:
        with pytest.raises(DataError):
            Tolerance(MOST_MISFIT, MOST_CLAMPED).check(fit, STAYS)
    else:
        Tolerance(MOST_MISFIT, MOST_CLAMPED).check(fit, STAYS)


def test_json_tells_of_determined_columns_too(owner: Owner) -> None:
    table = {"birth": "female", "fracture": "male"}
    determined = {"determines": {"from": "why", "to": "sex", "table": table}}
    Schema.of({**STAYS.settings, "rules": [determined]}).save(owner.place / "schema.toml")
    found = json.loads(owner.check("--json")[0])
    assert found["columns"] == {"sex": 2, "why": 2, "bmi": 100}


@pytest.mark.parametrize("share", ["-0.1", "1.1", "nan"])
def test_a_share_is_a_share(owner: Owner, share: str) -> None:
    for option in ("--most-misfit", "--most-clamped"):
        owner.check(option, share, code=UsageError.exit_code)


def init(owner: Owner, rows: str, *words: str) -> list[str]:
    place = owner.place
    (place / "vault").mkdir(exist_ok=True)
    usual = ["site", "init", "--folder", place / "site", "--schema", place / "schema.toml"]
    caps = ["--epsilon", "3", "--delta", "1e-9", "--study-epsilon", "1", "--name", "elmwood"]
    where = [
        "--anchor",
        place / "vault" / "anchor",
        "--socket",
        place / "run" / "s",
        "--engine",
        "0",
    ]
    return [*map(str, [*usual, "--data", rows, *caps, *where, "--group", "0"]), *words]


def test_a_site_is_not_made_of_rows_that_do_not_fit_and_a_preview_of_them_fails(
    owner: Owner,
) -> None:
    bad = owner.write("rows.csv", *[GOOD] * 90, *[MISFITS[1]] * 10)
    out, err = owner(*init(owner, bad), code=1)
    assert "10 missing" in out
    assert "10 of 100 rows do not fit, more than 5 %" in err.splitlines()[-1]
    assert not (owner.place / "site").exists()
    owner(*init(owner, bad, "--most-misfit", "0.1"))
    details = owner.place / "site" / "misfits.txt"
    assert "column 'why', missing (10 in all): rows 91, 92, 93, 94, 95" in details.read_text()
    assert stat.S_IMODE(details.stat().st_mode) == 0o600
    study = owner.place / "study.toml"
    terms = ("--site", "elmwood", "--epsilon", "1", "--delta", "1e-9", "--out", study)
    owner("study", "new", "--schema", owner.place / "schema.toml", *terms)
    preview = ("site", "preview", study, "--folder", owner.place / "site")
    owner.write("rows.csv", *[MISFITS[0]] * 30, *[GOOD] * 70)
    for words in ((), ("--json",)):
        out, err = owner(*preview, *words, code=1)
        assert "30 of 100 rows do not fit" in err.splitlines()[-1]
        assert "(breaks rule 1: 30); rule 1 says: never sex" in err.splitlines()[-1]
    assert json.loads(out)["rules"] == {"1": 30}
    assert "rule 1 (never sex" in details.read_text()
    owner(*preview, "--most-misfit", "0.3")
    owner.write("rows.csv", *["female,birth,1\n"] * 100)
    out, err = owner(*preview, code=1)
    assert "100 below" in out
    assert "column 'bmi': of 100 values 100 below its range" in err.splitlines()[-1]
    assert "below its range (100 in all): rows 1, 2, 3, 4, 5\n" in details.read_text()
    owner.write("rows.csv", *[GOOD] * 100)
    _, err = owner(*preview)
    assert f"no value is clamped: there is no {details}" in err
    assert not details.exists()


@pytest.mark.parametrize("rows", ["all", "none"])
def test_a_serving_agent_answers_whatever_rows_hold(tmp_path: Path, rows: str) -> None:
    settings = make_site(tmp_path)
    study = approved_study(settings)
    header, *lines = rows_of(SCHEMA).decode().splitlines()
    kept = [",".join(["unheard of"] * len(SCHEMA.columns))] * len(lines) if rows == "all" else []
    Path(settings.source).write_text("\n".join([header, *kept, ""]))
    said: list[str] = []
    with Books.open(settings.folder, settings.anchor) as books:
        agent = Agent(settings, books, log=said.append)
        agent.prepare()
        answer = decode(agent.answer(make_message(study, 1, 0.25)), Answer)
    assert answer.site == settings.name
    assert not (settings.folder / "misfits.txt").exists()
    assert "unheard of" not in str(said)
