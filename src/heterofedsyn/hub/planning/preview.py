"""What one site would be asked in a study, from public facts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.replies import Ask, make_query
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, Plan, Query, Released, encode
from heterofedsyn.protocol.limits import check_query
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import price_of, stated_terms


@dataclass(frozen=True)
class ForeseenRound:
    """A round, or several that are chosen from noisy answers.

    Attributes:
        fixed: known to the last integer; else all figures are the most there can be, and None
            where only the site's own limits hold.
        bytes: of the site's answers.
        parts: every release, if fixed.
    """

    label: str
    fixed: bool
    kinds: tuple[str, ...]
    rounds: int | None
    releases: int | None
    integers: int | None
    rho: float
    bytes: int | None
    parts: tuple[Terms, ...] = ()


@dataclass(frozen=True)
class Preview:
    """All that may leave one site.

    Attributes:
        rho: of the whole study, at most; less than the rounds together, of which not all can
            cost the most.
    """

    site: str
    study: str
    method: str
    rounds: tuple[ForeseenRound, ...]
    rho: float

    @property
    def integers(self) -> int | None:
        """The most integers that leave."""
        return _sum(round_.integers for round_ in self.rounds)

    @property
    def bytes(self) -> int | None:
        """The most bytes that leave."""
        return _sum(round_.bytes for round_ in self.rounds)


def preview(study: Study, site: str) -> Preview:
    """What a study would ask of one site.

    Raises:
        PrivacyRefusal: if its method needs all rows in one place.
        ProtocolError: if a site would refuse what it asks, whatever the price.
    """
    plan, schema = study.plan, study.encoding
    method = make_method(plan.method, plan.settings)
    if method.pools:
        raise PrivacyRefusal(
            f"method {plan.method!r} needs all rows in one place, which no federation gives it; "
            "it can be simulated only"
        )
    weight = Weight(plan, site)
    ahead = [part for part in method.ahead(Setting.of(schema, plan)) if part.to in (None, site)]
    asked = [make_query(part, plan, 0) if isinstance(part, Ask) else part for part in ahead]
    for part in asked:  # all of them before a sketch is drawn to price one
        if isinstance(part, Query):
            check_query(part, schema.domain)
    rounds = tuple(
        _fixed(part, study, weight) if isinstance(part, Query) else _later(part, weight)
        for part in asked
    )
    return Preview(site, study.fingerprint, plan.method, rounds, plan.budget.rho)


def _fixed(query: Query, study: Study, weight: Weight) -> ForeseenRound:
    domain = study.encoding.domain
    parts = tuple(stated_terms(part, domain, study.plan) for part in query.parts)
    return ForeseenRound(
        label=query.label,
        fixed=True,
        kinds=tuple(sorted({part.kind for part in parts})),
        rounds=1,
        releases=len(parts),
        integers=sum(part.integers for part in parts),
        rho=price_of(parts).rho,
        bytes=weight.of([part.integers for part in parts]),
        parts=parts,
    )


def _later(later: Later, weight: Weight) -> ForeseenRound:
    return ForeseenRound(
        label=later.label,
        fixed=False,
        kinds=later.kinds,
        rounds=later.rounds,
        releases=later.releases,
        integers=later.integers,
        rho=later.cost.rho,
        bytes=weight.most(later.rounds, later.releases, later.integers),
    )


class Weight:
    """The length of a site's answers, which depends on nothing but the sizes of its releases."""

    def __init__(self, plan: Plan, site: str) -> None:
        def length(*parts: Released) -> int:
            study = plan.fingerprint
            answer = Answer(study=study, query=study, site=site, simulated=False, parts=parts)
            return len(encode(answer))

        self._empty = length()
        nothing = Released(data=b"", sensitivity=1.0, sigma=1.0, rho=1.0)
        self._release = length(nothing) - self._empty - _head(0)

    def of(self, sizes: Sequence[int]) -> int:
        """Bytes of one answer with releases of these sizes."""
        found = self._empty + _list_head(len(sizes))
        for size, times in Counter(sizes).items():
            found += times * (self._release + _head(8 * size) + 8 * size)
        return found

    def most(self, rounds: int | None, releases: int | None, integers: int | None) -> int | None:
        """Bytes that so many answers have at most."""
        if rounds is None or releases is None or integers is None:
            return None
        answers = rounds * (self._empty + _list_head(releases))
        # So many integers in one release are the most that its head can tell.
        return answers + releases * (self._release + _head(8 * integers)) + 8 * integers


def _head(many: int) -> int:
    """Bytes by which msgpack tells the length of a buffer."""
    return 2 if many < 2**8 else 3 if many < 2**16 else 5


def _list_head(many: int) -> int:
    """Bytes by which msgpack tells the length of a list, beyond the one of an empty list."""
    return 0 if many < 2**4 else 2 if many < 2**16 else 4


def _sum(figures: Iterable[int | None]) -> int | None:
    found = list(figures)
    return None if None in found else sum(figure for figure in found if figure is not None)
