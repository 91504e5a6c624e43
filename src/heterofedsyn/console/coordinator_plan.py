"""The plan page: budget, sites, trust and quorum against the error to expect; nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.responses import Response

from heterofedsyn._words import count, percent
from heterofedsyn.console.coordinator_desk import CoordinatorDesk
from heterofedsyn.console.pages import Do, Form, Show, Visit
from heterofedsyn.console.planner import Expected, Setup
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub.methods import METHODS
from heterofedsyn.hub.planning.forecast import EPSILONS, Outlook
from heterofedsyn.hub.planning.forecast_words import BUDGET_HEAD, budget_line, figure
from heterofedsyn.hub.planning.trusts import REFUSED
from heterofedsyn.privacy.trust import LEAST_SITES, Local, SecureAggregation
from heterofedsyn.protocol import Plan
from heterofedsyn.report.blocks import Block, Facts, Table, Text
from heterofedsyn.report.chances import in_thousand, most_right
from heterofedsyn.schema import Schema

USUAL = {
    "rows": "20000",
    "sites": "5",
    "trust": Local.name,
    "delta": "1e-9",
    "method": "wavetree",
    "budget": str(EPSILONS.index(1.0)),
}
TRUSTS = (Local.name, SecureAggregation.name)
WIDTH, HEIGHT = 600, 220
"""Of the drawing, in its own units."""


@dataclass(frozen=True)
class Curve:
    """Points of a drawing: error upwards, budgets to the right, each as far as the last."""

    points: Sequence[tuple[float, float, str, str]]
    chosen: float

    @property
    def line(self) -> str:
        """The points as SVG writes them."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in self.points)


def views(desk: CoordinatorDesk) -> Mapping[str, Show]:
    """The page."""
    return {"plan": lambda visit: _plan(visit, desk)}


def actions(desk: CoordinatorDesk) -> Mapping[str, Do]:
    """A schema to plan for."""
    return {"plan/drop": lambda visit, form: _drop(visit, form, desk)}


def methods() -> list[str]:
    """The names of methods that a federation can run, the usual one first."""
    names = [name for name, kind in METHODS.items() if not kind.pools]
    return sorted(names, key=lambda name: (name != USUAL["method"], name))


def _plan(visit: Visit, desk: CoordinatorDesk) -> Response:
    schemas = desk.schemas()
    given = {name: visit.query(name, usual).strip() for name, usual in USUAL.items()}
    given |= {name: visit.query(name).strip() for name in ("schema", "colluding", "quorum")}
    given["schema"] = given["schema"] if given["schema"] in schemas else next(iter(schemas), "")
    problem, blocks, curve, new = "", list[Block](), None, ""
    if schemas:
        try:
            epsilon, setup = _setup(given, schemas[given["schema"]])
            plan = setup.plan(epsilon)
            expected = desk.planner.look(setup, epsilon)
            blocks = _blocks(plan, setup, expected, epsilon, desk)
            curve = _curve(expected, epsilon)
            problem = expected.problems.get(epsilon, "")
            new = _to_new(given, epsilon)
        except HeterofedsynError as error:
            problem = str(error)
    return visit.page(
        "coordinator_plan.html",
        "Plan",
        schemas=list(schemas),
        given=given,
        steps=len(EPSILONS) - 1,
        epsilons=EPSILONS,
        trusts=TRUSTS,
        methods=methods(),
        least=LEAST_SITES,
        problem=problem,
        blocks=blocks,
        curve=curve,
        size=(WIDTH, HEIGHT),
        new=new,
        folder=desk.folder,
    )


def _drop(visit: Visit, form: Form, desk: CoordinatorDesk) -> Response:
    """A schema that was dropped is kept in the folder."""
    upload = form.uploads.get("schema")
    if upload is None or not upload.data:
        raise UsageError("no file was chosen; choose or drop a schema first")
    try:
        schema = Schema.from_toml(upload.data.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError("the schema is not UTF-8 text; save it as UTF-8") from None
    name = form.text("name") or "schema"
    with desk.turn:
        schema.save(desk.new_place(name))
    visit.say(f"The schema is in {name}.toml.")
    return visit.go(f"plan?{urlencode({'schema': name})}")


def _setup(given: Mapping[str, str], schema: Schema) -> tuple[float, Setup]:
    step = _whole(given, "budget") or 0
    if not 0 <= step < len(EPSILONS):
        raise UsageError(
            f"there are {len(EPSILONS)} budgets to choose from; give 0 to {len(EPSILONS) - 1}"
        )
    summed = given["trust"] == SecureAggregation.name
    if given["method"] not in methods():
        raise UsageError(
            f"no federation can run method {given['method']!r}; choose {', '.join(methods())}"
        )
    try:
        delta = float(given["delta"])
    except ValueError:
        raise UsageError(f"delta ({given['delta']!r}) must be a number such as 1e-9") from None
    return EPSILONS[step], Setup(
        schema=schema,
        fingerprint=schema.fingerprint,
        rows=_whole(given, "rows") or 0,
        sites=_whole(given, "sites") or 0,
        trust=given["trust"],
        colluding=_whole(given, "colluding") if summed else None,
        quorum=_whole(given, "quorum") if summed else None,
        delta=delta,
        method=given["method"],
    )


def _whole(given: Mapping[str, str], name: str) -> int | None:
    text = given[name].replace(",", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UsageError(f"{name} ({given[name]!r}) must be a whole number")
    return int(text)


def _blocks(
    plan: Plan, setup: Setup, expected: Expected, epsilon: float, desk: CoordinatorDesk
) -> list[Block]:
    outlook = expected.outlooks.get(epsilon)
    trust = plan.trust_model
    facts = [
        ("Epsilon", f"{epsilon:g}"),
        ("An attacker is right", in_thousand(most_right(plan.budget.rho))),
        ("Noise of a sum", f"{math.sqrt(trust.variance_factor):.2f} times that of one place"),
        ("Error of one column", _error(outlook) or _unknown(expected, epsilon)),
        ("Error of two columns", _pair_error(outlook) or _unknown(expected, epsilon)),
    ]
    if plan.budget_alone != plan.budget:
        alone = plan.budget_alone.epsilon(plan.delta, plan.conversion)
        facts.append(("Epsilon if more collude", f"{alone:.3g}"))
    rows = tuple(
        tuple(budget_line(expected.outlooks[each], epsilon))
        if each in expected.outlooks
        else (f"{each:g}", _unknown(expected, each), *[""] * (len(BUDGET_HEAD) - 2))
        for each in EPSILONS
    )
    blocks: list[Block] = [
        Facts(tuple(facts)),
        Table("Budgets: expected total variation", tuple(BUDGET_HEAD), rows, words=2),
    ]
    if lines := _trusts(setup, epsilon, desk):
        head = ("trust", "noise of a sum", "error of one column", "epsilon if more collude")
        blocks.append(Table("Trust models at this budget", head, lines))
    runs = "" if outlook is None else f" of {count(outlook.runs, 'dry run')} on invented tables"
    blocks.append(
        Text(
            f"Noise is exact; errors are means{runs}, from schema, rows and budget alone: nothing "
            "is read and nothing is spent. An error is a total variation: the share of records "
            "that would have to change for the table to be exact."
        )
    )
    return blocks


def _trusts(setup: Setup, epsilon: float, desk: CoordinatorDesk) -> tuple[tuple[str, ...], ...]:
    """Either trust model; the error where it is known, which choosing it makes it."""
    found = []
    for trust in TRUSTS:
        other = setup if setup.trust == trust else setup.under(trust)
        try:
            plan = other.plan(epsilon)
        except HeterofedsynError:
            continue  # too few sites for sums
        outlook = desk.planner.known(other).outlooks.get(epsilon)
        alone = plan.budget_alone.epsilon(plan.delta, plan.conversion)
        error = _error(outlook) or "choose it to see"
        mark = " <" if trust == setup.trust else ""
        noise = f"{math.sqrt(plan.trust_model.variance_factor):.2f}"
        found.append((f"{trust}{mark}", noise, error, f"{alone:.3g}"))
    return tuple(found) if len(found) > 1 else ()


def _unknown(expected: Expected, epsilon: float) -> str:
    return REFUSED if epsilon in expected.problems else "being worked out"


def _error(outlook: Outlook | None) -> str:
    """The error of one column, for people; nothing before it is known."""
    if outlook is None:
        return ""
    return REFUSED if outlook.one_way is None else f"{percent(outlook.one_way)} of records"


def _pair_error(outlook: Outlook | None) -> str:
    """Between what and what that of two columns lies."""
    if outlook is None:
        return ""
    return "-" if outlook.two_way is None else " to ".join(map(percent, outlook.two_way))


def _curve(expected: Expected, epsilon: float) -> Curve | None:
    """The error of one column by budget, as far as it is known."""
    known = {
        each: outlook.one_way
        for each, outlook in expected.outlooks.items()
        if outlook.one_way is not None
    }
    if len(known) < 2:
        return None
    top = max(known.values()) or 1.0
    step = (WIDTH - 80) / (len(EPSILONS) - 1)
    points = [
        (
            40 + place * step,
            HEIGHT - 30 - (HEIGHT - 60) * known[each] / top,
            f"{each:g}",
            figure(known[each], ".3f"),
        )
        for place, each in enumerate(EPSILONS)
        if each in known
    ]
    return Curve(points, 40 + EPSILONS.index(epsilon) * step)


def _to_new(given: Mapping[str, str], epsilon: float) -> str:
    """Where a study of this plan is worded."""
    kept = {name: given[name] for name in ("schema", "trust", "delta", "method")}
    summed = given["trust"] == SecureAggregation.name
    kept |= {name: given[name] for name in ("colluding", "quorum") if summed and given[name]}
    return f"new?{urlencode({**kept, 'epsilon': f'{epsilon:g}'})}"
