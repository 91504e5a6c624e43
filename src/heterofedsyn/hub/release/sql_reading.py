"""What a text in SQL may say of a release: its letters, its functions, its columns and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from heterofedsyn._sql import duckdb_for, nodes
from heterofedsyn.errors import UsageError, did_you_mean, plain
from heterofedsyn.schema import CategoricalColumn, KeyColumn, Schema

TABLE = "release"
"""What rows are called in SQL."""

MOST_LETTERS = 10_000
"""Of a text."""

MOST_PARTS = 3_000
"""Of a text once every name stands for what it means: DuckDB writes it out so, unasked."""

TWICE = frozenset({"nullif", "fmod", "split_part", "weighted_avg", "wavg"})
"""Functions that DuckDB replaces by an expression with their arguments in it more than once."""

_PARTS_OF_A_FUNCTION = 8
"""At most, of such an expression without the arguments."""

SCALARS = frozenset(
    {
        *("+", "-", "*", "/", "//", "%", "**", "^", "@", "abs", "add", "subtract", "multiply"),
        *("divide", "mod", "fdiv", "fmod", "pow", "power", "sqrt", "cbrt", "exp", "ln", "log"),
        *("log2", "log10", "sign", "round", "round_even", "floor", "ceil", "ceiling", "trunc"),
        *("greatest", "least", "isnan", "isinf", "isfinite", "pi", "radians", "degrees"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "if", "nullif"),
        *("lower", "upper", "lcase", "ucase", "length", "len", "strlen", "left"),
        *("right", "substr", "substring", "trim", "ltrim", "rtrim", "contains", "starts_with"),
        *("ends_with", "prefix", "suffix", "^@", "strpos", "instr", "position", "like_escape"),
        *("not_like_escape", "ilike_escape", "not_ilike_escape", "~~", "!~~", "~~*", "!~~*"),
        *("~~~", "regexp_matches", "regexp_full_match", "regexp_extract", "split_part"),
        *("year", "quarter", "month", "week", "weekofyear", "yearweek", "day", "dayofmonth"),
        *("dayofweek", "weekday", "isodow", "isoyear", "dayofyear", "hour", "minute", "second"),
        *("decade", "century", "epoch", "epoch_ms", "date_part", "datepart", "date_trunc"),
        *("datetrunc", "date_diff", "datediff", "date_sub", "datesub", "date_add", "dayname"),
        *("monthname", "last_day", "days_in_month", "make_date", "strftime", "to_years"),
        *("to_months", "to_weeks", "to_days", "to_hours", "to_minutes", "to_seconds"),
    }
)
"""Functions of one row that give the same each time, and no text longer than what they are given.

What puts texts together is not among them: nested, it fills the memory before DuckDB sees it."""

AGGREGATES = frozenset(
    {
        *("count", "count_star", "count_if", "countif", "sum", "fsum", "sumkahan", "kahan_sum"),
        *("avg", "mean", "favg", "median", "quantile", "quantile_cont", "quantile_disc", "min"),
        *("max", "mode", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp"),
        *("variance", "sem", "mad", "skewness", "kurtosis", "kurtosis_pop", "entropy"),
        *("corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count"),
        *("regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"),
        *("bool_and", "bool_or", "geomean", "geometric_mean", "wavg", "weighted_avg"),
    }
)
"""Functions of many rows that say something of all of them, in whatever order."""

EXPRESSIONS = frozenset(
    {
        *("COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "CASE", "CAST", "COLLATE"),
        *("CONSTANT", "TYPE", "COLUMN_REF", "FUNCTION"),
    }
)
"""What the value of a row is made of; not of windows, lambdas, stars or parameters."""


@contextmanager
def read(what: str, text: str) -> Iterator[None]:
    """Refuses a text that is too long, no text, or nested deeper than it can be read.

    Args:
        what: it is, as in "the question".
    """
    if not text.strip() or len(text) > MOST_LETTERS:
        raise UsageError(f"{what} has {len(text):,} letters; write 1 to {MOST_LETTERS:,}")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"{what} holds what is no letter; write it as plain text")
    if _words_of(what, text) > MOST_PARTS:
        raise too_large(what)
    try:
        yield
    except RecursionError:
        raise UsageError(f"{what} is nested too deeply; write it flatter") from None


def too_large(what: str) -> UsageError:
    """What is said of a text that would keep DuckDB busy before the first row."""
    return UsageError(
        f"{what} has more than {MOST_PARTS:,} parts when it is written out, with all that its "
        "names and nested expressions stand for; write it shorter"
    )


def _words_of(what: str, text: str) -> int:
    """How many words DuckDB's parser reads, which repeats what stands behind CASE for each WHEN."""
    told = duckdb_for(what).tokenize(text)
    letters = text.encode()  # places are told in bytes
    ends = [*(place for place, _ in told[1:]), len(letters)]
    cases = [_Case()]
    for (start, kind), end in zip(told, ends, strict=bool(told)):
        word = letters[start:end].strip().upper() if kind.name == "keyword" else b""
        if word == b"CASE":
            cases.append(_Case())
        elif word == b"END" and len(cases) > 1:
            size = cases.pop().size
            cases[-1] = cases[-1].more(size)
        elif word == b"WHEN":
            cases[-1] = replace(cases[-1], whens=cases[-1].whens + 1)
        else:
            cases[-1] = cases[-1].more(1)
    return sum(case.size for case in cases)


@dataclass(frozen=True)
class _Case:
    """A CASE that is being read: the words before its first WHEN, and the others."""

    whens: int = 0
    before: int = 0
    others: int = 0

    def more(self, words: int) -> _Case:
        if self.whens:
            return replace(self, others=self.others + words)
        return replace(self, before=self.before + words)

    @property
    def size(self) -> int:
        return self.before * max(1, self.whens) + self.whens + self.others


def parts_of(expression: Any, known: dict[int, int]) -> int:
    """How many parts an expression has where DuckDB writes it out.

    Args:
        known: those of objects that were counted before, by their identity.
    """
    if isinstance(expression, list):
        return sum(parts_of(part, known) for part in expression)
    if not isinstance(expression, dict):
        return 0
    if id(expression) not in known:
        inner = sum(parts_of(part, known) for part in expression.values())
        kind = expression.get("class")
        if kind == "FUNCTION" and str(expression["function_name"]).lower() in TWICE:
            inner = 2 * inner + _PARTS_OF_A_FUNCTION
        known[id(expression)] = (2 * inner if kind == "BETWEEN" else inner) + (kind is not None)
    return known[id(expression)]


def functions(tree: Any) -> Iterator[str]:
    """The names of all functions, as DuckDB's parser has them."""
    for part in nodes(tree):
        if part.get("class") == "FUNCTION":
            yield str(part["function_name"]).lower()


def check_functions(tree: Any, known: frozenset[str]) -> None:
    """Refuse functions that are not among those known.

    Raises:
        UsageError: naming the first.
    """
    for part in nodes(tree):
        if part.get("class") != "FUNCTION":
            continue
        name = str(part["function_name"]).lower()
        if part.get("schema") or part.get("catalog") or name not in known:
            raise UsageError(_unknown(name))


def _unknown(name: str) -> str:
    if name in AGGREGATES:
        return f"{name}() sees more than one row; leave it out"
    return (
        f"{plain(name)}() is not known here: functions must give the same each time and hang on no "
        "order or single row; leave it out"
    )


def check_no_star(tree: Any) -> None:
    """Refuse columns that are not named one by one.

    Raises:
        UsageError: there is a * other than that of count(*), or COLUMNS.
    """
    if any(part.get("class") == "STAR" for part in nodes(tree)):
        raise UsageError(
            "name the columns instead of * or COLUMNS; `heterofedsyn sample` gives rows"
        )


def column_called(schema: Schema, word: str) -> str | None:
    """The column that SQL means by a word, as the schema spells it; None if there is none.

    Raises:
        UsageError: SQL could mean several, or the column is invented for every row.
    """
    alike = [column for column in schema.columns if column.name.casefold() == word.casefold()]
    if len(alike) > 1:
        names = ", ".join(repr(column.name) for column in alike)
        raise UsageError(
            f"columns {names} differ in the size of letters alone, which SQL does not tell apart; "
            "leave them out"
        )
    if not alike:
        return None
    if isinstance(alike[0], KeyColumn):
        raise UsageError(
            f"column {alike[0].name!r} is a key and holds invented identifiers; leave it out"
        )
    return alike[0].name


def no_column(schema: Schema, word: str) -> UsageError:
    """What is said of a word that is no column."""
    known = [column.name for column in schema.columns]
    return UsageError(f"the release has no column {word!r}; {did_you_mean(word, known)}")


def check_values(schema: Schema, tree: Any) -> None:
    """Refuse a comparison of a column with a value that it never has.

    Raises:
        UsageError: naming the value.
    """
    for part in nodes(tree):
        kind = part.get("type")
        if kind in ("COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_DISTINCT_FROM"):
            sides = [part["left"], part["right"]]
        elif kind in ("COMPARE_IN", "COMPARE_NOT_IN", "COMPARE_NOT_DISTINCT_FROM"):
            sides = part.get("children") or [part["left"], part["right"]]
        else:
            continue
        _check_sides(schema, sides)


def _check_sides(schema: Schema, sides: Sequence[Any]) -> None:
    named = [uncast(side)["column_names"] for side in sides if _is(uncast(side), "COLUMN_REF")]
    if len(named) != 1:
        return
    name = column_called(schema, named[0][-1])
    column = None if name is None else schema.column(name)
    if not isinstance(column, CategoricalColumn):
        return
    for side in sides:
        value = _text(side)
        if value is not None and value not in column.values:
            raise UsageError(
                f"column {column.name!r} has no value {value!r}; "
                f"{did_you_mean(value, column.values)}"
            )


def _text(expression: Any) -> str | None:
    """The text that an expression is, if it is one."""
    told = expression.get("literal")
    if told is not None and told["kind"] != "STRING":
        return None
    value = literal(expression) if _is(expression, "CONSTANT") else None
    return value if isinstance(value, str) else None


def _is(expression: Any, kind: str) -> bool:
    return bool(expression.get("class") == kind)


def uncast(expression: Any) -> Any:
    """What an expression is under its casts."""
    while _is(expression, "CAST"):
        expression = expression["child"]
    return expression


def literal(expression: Any) -> Any:
    """The value of a constant; versions of DuckDB tell it differently."""
    own = expression.get("literal", {}).get("text", expression.get("value"))
    return own.get("value") if isinstance(own, dict) else own
