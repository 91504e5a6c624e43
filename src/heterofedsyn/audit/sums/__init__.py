"""Under secure aggregation: can a hub that lies, with sites in league, learn more than sums?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product

from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.sums import charges, folders, masks, rosters, secrets_kept
from heterofedsyn.audit.sums.knowledge import Judge
from heterofedsyn.audit.sums.lies import Hub, answered, strategies
from heterofedsyn.audit.sums.members import WORDS, Cast
from heterofedsyn.privacy.trust import SecureAggregation


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """The checks of this layer; none where no site could take part in a sum."""
    if find_spec("cryptography") is None:
        words = "not looked at: without the extra `site` no site takes part in a sum"
        yield "secure aggregation", lambda: words
        return
    yield from masks.checks(effort, seed)
    yield from secrets_kept.checks()
    yield from rosters.checks(seed)
    yield from charges.checks(effort, seed)
    yield from folders.checks(seed)
    for sites in (3, 4):
        for trust in settings(sites):
            name = f"{sites} sites, {trust.colluding} collude, quorum {trust.quorum}"
            yield f"a hub that lies: {name}", partial(lies, trust, seed)
            yield f"two lists of keys: {name}", partial(two_lists, trust, seed)


def settings(sites: int) -> Iterator[SecureAggregation]:
    """Every number of colluding sites and every quorum that there can be."""
    for colluding in range(1, sites - 1):
        least = SecureAggregation(sites, colluding).signatures
        for quorum in range(least, sites + 1):
            yield SecureAggregation(sites, colluding, quorum)


def lies(trust: SecureAggregation, seed: int, least: int = 1) -> str:
    """Every choice of sets of at least so many sites, and then everything else."""
    tried = 0
    broken: set[str] = set()
    for first in (True, False):
        begun = answered(Cast.of(trust, seed, first=first))
        hub, judge, most = Hub(begun), Judge(begun), 0
        for chosen in strategies(begun, least):
            cast = begun.copy()
            hub.lie(cast, chosen)
            most = max(most, judge.check(cast, "sets"))
            broken |= cast.broken
            tried += 1
        require(not broken, f"sets: {', '.join(sorted(broken))}")
        require(most == 2 * WORDS, f"{most} integers were told of {2 * WORDS}: nothing was tried")
    return f"{tried:,} choices of sets"


def two_lists(trust: SecureAggregation, seed: int) -> str:
    """Colluding sites show each honest one another list of keys."""
    begun = Cast.of(trust, seed)
    everyone = frozenset(begun.plan.sites)
    choices = list(product((0, 1), repeat=len(begun.honest)))
    for choice in choices:
        cast = answered(begun.copy(), dict(zip(begun.honest, choice, strict=True)))
        Hub(cast).lie(cast, dict.fromkeys(cast.honest, everyone))
        Judge(cast).check(cast, "lists of keys")
    return f"{len(choices)} choices of lists"
