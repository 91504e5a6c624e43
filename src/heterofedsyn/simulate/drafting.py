"""A plan from public facts alone, before there is a study: for forecasts."""

from __future__ import annotations

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Method, check_trust, settings_of, with_columns
from heterofedsyn.privacy.budget import Conversion, check_usual_delta
from heterofedsyn.privacy.trust import Local
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.plan import Hiding
from heterofedsyn.schema import Schema
from heterofedsyn.simulate.run import site_names
from heterofedsyn.simulate.split import MOST_SITES


def draft_plan(
    public: Schema,
    method: Method,
    *,
    epsilon: float,
    delta: float,
    sites: int,
    trust: str = Local.name,
    colluding: int | None = None,
    quorum: int | None = None,
    conversion: str = Conversion.TIGHT.value,
    rows_per_unit: int = 1,
    allow_large_delta: bool = False,
) -> Plan:
    """A plan for so many sites, called by numbers.

    Raises:
        UsageError: if there is no such plan.
        PrivacyRefusal: if the budget allows nothing.
    """
    if not 1 <= sites <= MOST_SITES:
        raise UsageError(f"sites ({sites}) must be in 1..{MOST_SITES}")
    hiding = Hiding(trust, colluding, quorum)
    check_trust(method, trust)
    names = site_names(method, [f"site-{number}" for number in range(1, sites + 1)])
    plan = Plan(
        schema=public.fingerprint,
        encoding=method.encoding(public).fingerprint,
        epsilon=epsilon,
        delta=delta,
        conversion=conversion,
        trust=trust,
        sites=names,
        aggregation=hiding.aggregation(len(names)),
        unit="person" if rows_per_unit != 1 else None,
        rows_per_unit=rows_per_unit,
        method=method.name,
        settings=settings_of(method),
        seed=0,
    )
    check_usual_delta(delta, allow_large=allow_large_delta)
    return with_columns(plan, method, method.encoding(public))
