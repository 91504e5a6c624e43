"""Rules: no row that breaks one is counted, and none is ever made."""

from __future__ import annotations

import warnings
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from heterofedsyn import FederatedSynthesizer
from heterofedsyn.errors import HeterofedsynError, HeterofedsynWarning, SchemaError, UsageError
from heterofedsyn.evaluation.tvd import total_variation
from heterofedsyn.hub.release import Release
from heterofedsyn.methods import METHODS, SYNTHESIZERS
from heterofedsyn.schema import EncodedTable, Schema, decode, encode
from heterofedsyn.schema.possible import Search
from heterofedsyn.schema.rules import MOST_RULES
from heterofedsyn.schema.schema import MOST_COLUMNS
from heterofedsyn.synthesis.obey import obey
from rules_support import any_rows, broken_rows, lawful_rows, random_schema

pytestmark = pytest.mark.thorough

WAYS = list(product(sorted(METHODS), sorted(SYNTHESIZERS)))

SEX = {"name": "sex", "type": "categorical", "values": ["male", "female"]}
ILL = {"name": "ill", "type": "categorical", "values": ["flu", "pregnancy", "birth"]}
AGE = {"name": "age", "type": "integer", "min": 0, "max": 99, "bins": 7}
BORN, SEEN = (
    {"name": name, "type": "date", "min": "2000-01-01", "max": "2009-12-31", "bins": 3}
    for name in ("born", "seen")
)


def schema(*rules: dict[str, Any], columns: tuple[dict[str, Any], ...] = ()) -> Schema:
    return Schema.of({"columns": [*(columns or (SEX, ILL, AGE, BORN, SEEN))], "rules": [*rules]})


def released(public: Schema, rows: pa.Table, method: str, synthesizer: str, seed: int) -> Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = FederatedSynthesizer(
            public,
            epsilon=(0.2, 1.0, 5.0)[seed % 3],
            delta=1e-6,
            method=method,
            settings={"synthesizer": synthesizer},
            noise_seed=seed,
        )
        half = rows.num_rows // 2
        return made.fit([rows.slice(0, half), rows.slice(half)]).release


def check_released(method: str, synthesizer: str, seed: int, rows: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    public = random_schema(rng)
    real = lawful_rows(public, 600, rng)
    assert not any(broken_rows(public, real))
    release = released(public, real, method, synthesizer, seed)
    for many in rows:
        drawn = release.sample(many, seed=seed)
        assert not any(broken_rows(public, drawn))
        assert encode(public, drawn.to_batches()).rows_dropped == 0


@pytest.mark.filterwarnings("ignore:synthesizer pgm leaves out")
@pytest.mark.parametrize("place", [i for i, (_, way) in enumerate(WAYS) if way != "pgm"][::3])
def test_no_synthetic_row_breaks_a_rule(place: int) -> None:
    check_released(*WAYS[place], seed=place, rows=(1, 400))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:synthesizer pgm leaves out")
@pytest.mark.parametrize("place", range(len(WAYS)))
def test_no_synthetic_row_of_a_million_breaks_a_rule(place: int) -> None:
    check_released(*WAYS[place], seed=100 + place, rows=(1, 2, 50, -(-1_000_000 // len(WAYS))))


@pytest.mark.parametrize("seed", range(12))
def test_a_site_counts_the_rows_that_break_no_rule_and_no_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    public = random_schema(rng)
    rows = any_rows(public, 800, rng)
    broken = broken_rows(public, rows, derived=False)
    encoded = encode(public, rows.to_batches(max_chunksize=300))
    assert encoded.rows_dropped == sum(broken)
    kept = rows.filter(pa.array([not row for row in broken]))
    again = encode(public, kept.to_batches())
    assert again.rows_dropped == 0
    assert np.array_equal(again.table.codes, encoded.table.codes)
    assert sum(encoded.rules.values()) >= sum(broken)


@pytest.mark.parametrize("seed", range(8))
def test_a_code_lies_wholly_inside_or_outside_of_a_never(seed: int) -> None:
    rng = np.random.default_rng(seed)
    public = random_schema(rng)
    rules = tuple(rule for rule in public.rules if rule.name != "order")
    public = Schema(public.columns, public.label, public.task, rules)
    codes = np.stack([rng.integers(0, size, 300) for size in public.domain.sizes])
    table = EncodedTable.from_codes(public.domain, codes)
    wanted = public.rulebook.any_broken(table.codes).tolist()
    for _ in range(3):
        assert broken_rows(public, decode(public, table, rng)) == wanted


@pytest.mark.parametrize("seed", range(8))
def test_a_schema_with_rules_is_written_and_read_back_with_its_fingerprint(seed: int) -> None:
    public = random_schema(np.random.default_rng(seed))
    again = Schema.from_toml(public.to_toml())
    assert (again, again.fingerprint) == (public, public.fingerprint)
    fewer = Schema(public.columns, public.label, public.task, public.rules[:-1])
    assert fewer.fingerprint != public.fingerprint


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"never": {"sx": "male"}}], "rule 1 names 'sx', which is no column; did you mean 'sex'"),
        ([{"never": {"ill": "brith"}}], "no value 'brith'; did you mean 'birth'"),
        ([{"never": {"age": {"over": 3}}}], "unknown key 'over'"),
        ([{"never": {"age": {"above": 99}}}], "is no value of it"),
        ([{"never": {"age": {"above": "x"}}}], "must be a number"),
        ([{"never": {"age": {"missing": True}}}], "can never be missing"),
        ([{"never": {"sex": {"above": "male"}}}], "has no order"),
        ([{"never": {}}], "names no column"),
        ([{"order": ["born"]}], "at least two columns"),
        ([{"order": ["born", "age"]}], "not of one type"),
        ([{"order": ["sex", "ill"]}], "has no range"),
        ([{"order": ["born", "seen"]}, {"order": ["seen", "born"]}], "in a circle"),
        ([{"sometimes": {}}], "unknown kind 'sometimes'"),
        ([{"never": {"sex": ["male", "female"]}}], "rule 1 (never sex male or female) leaves no"),
        (
            [{"never": {"sex": "male"}}, {"never": {"sex": "female", "age": {"from": 0}}}],
            "rules 1 (never sex male) and 2 (never sex female with age from 0) leave no",
        ),
        (
            [{"determines": {"from": "ill", "to": "sex", "table": {"flu": "male"}}}],
            "lacks 2 values",
        ),
        ([{"determines": {"from": "ill", "to": "sex", "table": "t.csv"}}], "beside a schema file"),
        ([{"determines": {"from": "age", "to": "sex", "table": {}}}], "is not categorical"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_in_one_line(
    rules: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        schema(*rules)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.quick
def test_a_table_beside_the_schema_file_is_read_into_it(tmp_path: Path) -> None:
    table = {"flu": "male", "pregnancy": "female", "birth": "female"}
    inline = schema({"determines": {"from": "ill", "to": "sex", "table": table}})
    text = inline.to_toml().partition("[rules.determines]")[0]
    text += '[rules.determines]\nfrom = "ill"\nto = "sex"\ntable = "sexes.csv"\n'
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"\.toml: .*sexes\.csv.*cannot be read"):
        Schema.load(tmp_path / "s.toml")
    lines = "ill,sex\n" + "".join(f"{one},{other}\n" for one, other in table.items())
    (tmp_path / "sexes.csv").write_text(lines, encoding="utf-8")
    loaded = Schema.load(tmp_path / "s.toml")
    assert loaded == inline
    assert loaded.fingerprint == inline.fingerprint
    assert loaded.domain.names == ("ill", "age", "born", "seen")
    (tmp_path / "sexes.csv").write_text(lines + "flue,female\n", encoding="utf-8")
    with pytest.raises(SchemaError, match="1 value that column 'ill' does not list") as caught:
        Schema.load(tmp_path / "s.toml")
    assert "flue" not in str(caught.value)
    (tmp_path / "linked.csv").symlink_to("/etc/hostname")
    for elsewhere in ("/etc/hostname", "../sexes.csv", "x/../../sexes.csv", "linked.csv"):
        there = text.replace("sexes.csv", str(elsewhere))
        (tmp_path / "t.toml").write_text(there, encoding="utf-8")
        with pytest.raises(SchemaError, match="lies beside its schema"):
            Schema.load(tmp_path / "t.toml")
    (tmp_path / "sexes.csv").write_text(lines + "flu,female\n", encoding="utf-8")
    with pytest.raises(SchemaError, match="line 5 gives a value a second time"):
        Schema.load(tmp_path / "s.toml")


def test_a_determined_column_is_never_measured_and_always_right() -> None:
    table = {"flu": "male", "pregnancy": "female", "birth": "female"}
    public = schema({"determines": {"from": "ill", "to": "sex", "table": table}})
    rows = lawful_rows(public, 300, np.random.default_rng(0))
    release = released(public, rows, "wavetree", "tree", 1)
    assert all("sex" not in pair.attributes for pair in release.run.pairs)
    drawn = release.sample(500, seed=0)
    assert drawn.column_names == ["sex", "ill", "age", "born", "seen"]
    assert [table[ill] for ill in drawn["ill"].to_pylist()] == drawn["sex"].to_pylist()


@pytest.mark.quick
def test_dates_of_one_bin_are_in_order() -> None:
    public = schema({"order": ["born", "seen"]})
    codes = np.zeros((5, 4_000), np.int64)
    drawn = decode(public, EncodedTable.from_codes(public.domain, codes), np.random.default_rng(0))
    born, seen = drawn["born"].to_numpy(), drawn["seen"].to_numpy()
    assert (born <= seen).all()
    assert 0 < np.mean(born == seen) < 0.05
    assert len(np.unique(born)) > 900


def test_rules_that_leave_almost_nothing_of_what_was_measured_are_named() -> None:
    public = schema({"never": {"sex": "male", "age": {"from": 0}}})
    rows = lawful_rows(public, 300, np.random.default_rng(0))
    release = released(public, rows, "independent", "gum", 0)
    (targets,) = release.model.targets
    codes = np.zeros((5, 5_000), np.uint8)  # all of them men
    with pytest.warns(HeterofedsynWarning, match=r"rule 1 \(never sex male with age from 0\)"):
        made = obey(targets, EncodedTable(public.domain, codes), np.random.default_rng(0))
    assert (made.codes[0] == 1).all()
    few = obey(targets, EncodedTable(public.domain, codes[:, :5].copy()), np.random.default_rng(0))
    assert (few.codes[0] == 1).all()


@pytest.mark.quick
def test_a_swap_keeps_every_single_column_as_it_was() -> None:
    public = schema({"never": {"sex": "male", "ill": ["pregnancy", "birth"]}})
    rows = lawful_rows(public, 300, np.random.default_rng(0))
    (targets,) = released(public, rows, "independent", "gum", 0).model.targets
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 6_000) for size in public.domain.sizes])
    codes[1] = rng.choice(3, 6_000, p=(0.8, 0.1, 0.1))
    before = EncodedTable.from_codes(public.domain, codes)
    after = obey(targets, before, rng)
    assert not public.rulebook.any_broken(after.codes).any()
    for one, other in zip(before.codes, after.codes, strict=True):
        assert np.array_equal(np.bincount(one), np.bincount(other))


def test_a_search_for_a_row_ends() -> None:
    """Colouring a complete graph of seven with six colours: no row, and many ways to see it."""
    columns = tuple(
        {"name": f"c{i}", "type": "categorical", "values": [f"v{k}" for k in range(6)]}
        for i in range(7)
    )
    rules = [
        {"never": {f"c{i}": f"v{k}", f"c{j}": f"v{k}"}}
        for i in range(7)
        for j in range(i)
        for k in range(6)
    ]
    with pytest.raises(SchemaError, match="possible row"):
        schema(*rules, columns=columns)
    possible = schema(*(rule for rule in rules if "c6" not in rule["never"]), columns=columns)
    row = Search(possible.domain.sizes, possible.rulebook.nevers, possible.rulebook.orders).run()
    assert len({row[i] for i in range(6)}) == 6


@pytest.mark.parametrize(
    ("column", "beyond"),
    [
        ({"type": "integer", "min": 0, "max": 9}, {"above": 2**63 - 1}),
        ({"type": "number", "min": 0, "max": 9, "decimals": 1}, 1e300),
    ],
)
def test_a_rule_about_a_number_that_no_column_can_hold_is_refused(
    column: dict[str, Any], beyond: object
) -> None:
    with pytest.raises(SchemaError, match="is no value of it"):
        schema({"never": {"cost": beyond}}, columns=({"name": "cost", **column},))


def test_there_may_be_as_many_rules_and_columns_as_the_limits_allow() -> None:
    half = MOST_COLUMNS // 2
    columns: list[dict[str, Any]] = [{"name": f"flag{i}", "type": "boolean"} for i in range(half)]
    columns += [{"name": f"age{i}", "type": "integer", "min": 0, "max": 9} for i in range(half)]
    pairs = [(f"flag{i % half}", f"age{7 * i % half}", 4 + i % 3) for i in range(MOST_RULES)]
    rules = [{"never": {flag: True, age: {"above": most}}} for flag, age, most in pairs]
    book = schema(*rules, columns=tuple(columns)).rulebook
    weights = {place: np.ones(size) for place, size in enumerate(book.domain.sizes)}
    row = book.possible(weights, np.random.default_rng(0))
    codes = np.array([[row[place]] for place in range(MOST_COLUMNS)])
    assert not book.any_broken(codes).any()


def test_keys_are_invented_and_unique_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from heterofedsyn.hub.release import sampling

    monkeypatch.setattr(sampling, "CHUNK", 64)
    columns = (
        {"name": "id", "type": "key"},
        {"name": "case", "type": "key", "prefix": "K-"},
        AGE,
    )
    public = schema(columns=columns)
    rows = pa.table({"age": list(range(100))})  # keys are not even asked for
    drawn = released(public, rows, "independent", "gum", 0).sample(500, seed=0)
    assert drawn["id"].to_pylist() == list(range(1, 501))
    assert drawn["case"].to_pylist() == [f"K-{i:09}" for i in range(1, 501)]
    with pytest.raises(SchemaError, match="add one that can be measured"):
        schema(columns=columns[:2])


def test_numbers_come_back_with_their_decimals_and_days_as_days() -> None:
    columns = (
        {"name": "bmi", "type": "number", "min": 10, "max": 60, "bins": 9, "decimals": 1},
        {
            "name": "born",
            "type": "date",
            "min": "1990-01-01",
            "max": "1999-12-31",
            "nullable": True,
        },
    )
    public = schema(columns=columns)
    text = pa.table({"bmi": ["23.4", "23.44", "99", "x"], "born": ["1991-02-03", "", None, ""]})
    encoded = encode(public, text.to_batches())
    assert encoded.misfits == {"bmi": {"not a number": 1}}
    assert encoded.clamped == {"bmi": (0, 1)}
    assert encoded.places == {("bmi", "not a number"): [4], ("bmi", "above its range"): [3]}
    rows = pa.table({"bmi": ["23.4", "31.25"] * 10, "born": ["1991-02-03", ""] * 10})
    drawn = released(public, rows, "independent", "gum", 0).sample(2_000, seed=0)
    assert all(value == round(value, 1) for value in drawn["bmi"].to_pylist())
    assert drawn.schema.field("born").type == pa.date32()
    with pytest.raises(SchemaError, match="more than 1 decimals"):
        schema(columns=({**columns[0], "min": 10.05},))


def test_every_error_of_a_rule_is_one_of_ours() -> None:
    """Whatever stands in a rule, a schema is read or refused, never broken."""
    odd: list[Any] = [None, 1, "x", [], {}, [[]], {"a": 1}, True, 1e400, {"values": [{}]}]
    for kind in ("never", "order", "determines"):
        for value in odd:
            for said in (
                value,
                {"sex": value},
                [value, value],
                {"from": value, "to": "sex", "table": value},
            ):
                try:
                    schema({kind: said})
                except HeterofedsynError:
                    continue


def test_an_order_leaves_single_columns_as_they_are_and_says_more_about_both() -> None:
    """Stays of some days in a year: groups are weeks wide, so that many rows have to be mended."""
    rng = np.random.default_rng(5)
    begin = rng.integers(0, 340, 6_000)
    end = begin + rng.poisson(4, begin.size)
    stays = pa.table(
        {
            "born": pa.array(begin + 10_957, pa.int32()).cast(pa.date32()),
            "seen": pa.array(end + 10_957, pa.int32()).cast(pa.date32()),
        }
    )
    year = {"max": "2000-12-31", "bins": 60}
    columns = ({**BORN, **year}, {**SEEN, **year})
    plain, ruled = schema(columns=columns), schema({"order": ["born", "seen"]}, columns=columns)
    truth = encode(plain, stays.to_batches()).table
    apart = []
    for public in (plain, ruled):
        drawn = released(public, stays, "wavetree", "tree", 1).sample(6_000, seed=1)
        apart.append(total_variation(truth, encode(plain, drawn.to_batches()).table))
    assert apart[1].one_way <= apart[0].one_way + 0.005
    assert apart[1].two_way < 0.9 * apart[0].two_way


@pytest.mark.parametrize("low", [-40.0, -2.0, -1e300, 0.0, -1e-300])
def test_ranges_on_both_sides_of_zero_are_cut_and_ordered_like_any(low: float) -> None:
    number = {"type": "number", "min": low, "max": 50, "bins": 9, "nullable": True}
    columns = ({"name": "a", **number}, {"name": "b", **number}, SEX)
    middle = low / 2 + 10.0
    public = schema(
        {"never": {"a": {"above": middle}, "sex": "male"}}, {"order": ["a", "b"]}, columns=columns
    )
    rng = np.random.default_rng(0)
    rows = any_rows(public, 500, rng)
    assert encode(public, rows.to_batches()).rows_dropped == sum(broken_rows(public, rows))
    drawn = released(public, lawful_rows(public, 400, rng), "wavetree", "tree", 1).sample(900, 1)
    assert not any(broken_rows(public, drawn))
    assert not any(np.isnan(value) for value in drawn["a"].drop_null().to_pylist())


@pytest.mark.quick
def test_orders_that_meet_in_a_missing_value_say_nothing_about_the_others() -> None:
    ages = [{**AGE, "name": name, "nullable": name == "b"} for name in "abc"]
    public = schema({"order": ["a", "b"]}, {"order": ["b", "c"]}, columns=tuple(ages))
    rows = pa.table({"a": [90] * 300, "b": pa.array([None] * 300, pa.int64()), "c": [1] * 300})
    assert encode(public, rows.to_batches()).rows_dropped == 0
    drawn = released(public, rows, "wavetree", "tree", 2).sample(300, 1)
    assert not any(broken_rows(public, drawn))
    assert drawn["b"].null_count > 250
    full = rows.set_column(1, "b", pa.array([90] * 300))
    assert encode(public, full.to_batches()).rules == {2: 300}
    codes = np.array([[6], [6], [0]])  # from a to b, but not from b to c, and so not from a to c
    assert public.rulebook.any_broken(EncodedTable.from_codes(public.domain, codes).codes).all()


def test_a_never_about_a_determined_column_is_kept_whatever_is_missing() -> None:
    ill, kind = {**ILL, "nullable": True}, {"name": "kind", "type": "categorical"}
    columns = (SEX, ill, {**kind, "values": ["x", "y"], "nullable": True})
    table = {"flu": "x", "pregnancy": "y", "birth": "y"}
    public = schema(
        {"never": {"kind": {"values": ["y"], "missing": True}, "sex": "male"}},
        {"determines": {"from": "ill", "to": "kind", "table": table}},
        columns=columns,
    )
    rows = pa.table(
        {
            "sex": ["male", "male", "male", "male", "female"],
            "ill": ["flu", "flu", None, "birth", "birth"],
            "kind": ["x", None, "y", None, None],
        }
    )
    assert encode(public, rows.to_batches()).rules == {1: 3}


def test_numbers_beyond_all_in_a_rule_are_one_line() -> None:
    decimals = {"name": "n", "type": "number", "min": 0, "max": 9, "decimals": 2}
    for rule in (
        {"never": {"n": {"above": 1e308}}},
        {"never": {"age": {"to": 2**63 - 1}, "n": {"from": 0}}},
        {"never": {"age": [3, 2**63 - 1], "n": {"from": 0}}},
        {"never": {"age": {"above": 2**63 - 1}}},
    ):
        with pytest.raises(SchemaError):
            schema(rule, {"never": {"age": {"below": 99}}}, columns=(AGE, decimals))


def test_a_rule_has_one_form_whatever_the_order_of_its_keys() -> None:
    said = {"sex": "male", "ill": ["pregnancy", "birth"], "age": {"from": 3, "below": 9}}
    one, other = (schema({"never": dict(keys)}) for keys in (said.items(), reversed(said.items())))
    assert one == other
    assert one.to_toml() == other.to_toml()
    assert one.fingerprint == other.fingerprint


def test_a_value_of_a_rule_has_one_form() -> None:
    one, other = (schema({"never": {"age": {"above": end}, "sex": "male"}}) for end in (5, 5.0))
    assert one.fingerprint == other.fingerprint
    text, moment = (
        schema({"never": {"born": {"above": end}, "sex": "male"}})
        for end in ("2001-01-01", date(2001, 1, 1))
    )
    assert text.fingerprint == moment.fingerprint


def test_rules_of_a_stranger_are_read_in_bounded_work() -> None:
    many = tuple({**AGE, "name": f"a{i}"} for i in range(60))
    ordered = schema({"order": [column["name"] for column in many]}, columns=many)
    assert len(ordered.rulebook.orders) == 60 * 59 // 2
    chain = tuple({**AGE, "name": f"a{i}", "nullable": True} for i in range(120))
    with pytest.raises(SchemaError, match="say it with fewer"):
        schema({"order": [column["name"] for column in chain]}, columns=chain)
    nevers = [
        {"never": {f"a{i % 60}": {"above": 50}, f"a{(i * 7 + 1) % 60}": {"below": i % 40 + 1}}}
        for i in range(1_000)
        if i % 60 != (i * 7 + 1) % 60
    ]
    assert schema(*nevers, columns=many).rulebook.nevers


@pytest.mark.parametrize("end", [25.0, 10.5, 59.5, 37.0])
def test_a_rule_may_end_where_a_bin_of_real_numbers_does(end: float) -> None:
    columns = ({"name": "x", "type": "number", "min": 10, "max": 60}, SEX)
    for said in ({"from": end}, {"above": end}, {"below": end}, {"to": end}, [end]):
        public = schema({"never": {"x": said, "sex": "male"}}, columns=columns)
        x = np.array([end, np.nextafter(end, 0), np.nextafter(end, 99), end - 1e-10, end + 1e-10])
        rows = pa.table({"x": x, "sex": ["male"] * 5})
        broken = broken_rows(public, rows)
        assert encode(public, rows.to_batches()).rows_dropped == sum(broken)
        codes = np.stack(
            [np.arange(public.domain.size("x")), np.zeros(public.domain.size("x"), int)]
        )
        table = EncodedTable.from_codes(public.domain, codes)
        wanted = public.rulebook.any_broken(table.codes).tolist()
        assert broken_rows(public, decode(public, table, np.random.default_rng(0))) == wanted


def test_integers_at_the_ends_of_64_bits_are_in_order() -> None:
    for low in (-(2**63), 2**63 - 10):
        ends = {"type": "integer", "min": low, "max": low + 9, "bins": 3}
        public = schema(
            {"order": ["a", "b"]}, columns=({"name": "a", **ends}, {"name": "b", **ends})
        )
        table = EncodedTable.from_codes(public.domain, np.array([[0, 1, 2, 2], [0, 1, 2, 2]] * 1))
        for seed in range(20):
            drawn = decode(public, table, np.random.default_rng(seed))
            assert not any(broken_rows(public, drawn))
