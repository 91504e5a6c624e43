"""What all parties agree on before a study starts."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

import msgspec

from heterofedsyn.errors import UsageError
from heterofedsyn.marginals.counts import PAIRS, TRIPLES
from heterofedsyn.masking.identity import raw_key
from heterofedsyn.privacy.budget import Budget, Conversion
from heterofedsyn.privacy.trust import LEAST_SITES, SecureAggregation, Trust, trust_model
from heterofedsyn.protocol.about import About

PLAN_VERSION = 1
MOST_ROWS_PER_UNIT = 10_000
RECORD = "record"
"""The unit of a study in which every row is protected by itself."""

NEIGHBOURS = "add-or-remove-one"
"""Between which tables a guarantee holds: that of every study."""

_NAMED_ALIKE = "record (column)"
"""How a unit column is written down whose name is that word."""

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Aggregation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How answers are hidden in sums over sites.

    Attributes:
        colluding: how many sites may pool what they know, with the hub or without.
        quorum: how many sites must be in every sum.
        keys: the roster: every site's public key, in base64. A simulation has none.
    """

    colluding: int
    quorum: int
    keys: dict[str, str] = {}


@dataclass(frozen=True)
class Hiding:
    """What was said of a trust model before it is known for how many sites.

    Attributes:
        colluding: sites that may pool what they know; 1 unless given.
        quorum: sites that must be in every sum; all of them unless given.
    """

    trust: str
    colluding: int | None = None
    quorum: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("colluding", "quorum") if getattr(self, name) is not None]
        if given and self.trust != SecureAggregation.name:
            raise UsageError(
                f"{' and '.join(given)} means nothing under trust {self.trust!r}; leave it out, or "
                f"use trust {SecureAggregation.name!r}"
            )

    def fewest(self) -> int:
        """The number of sites from which on it is possible.

        Raises:
            UsageError: if it never is.
        """
        if self.trust != SecureAggregation.name:
            return 1
        colluding, needed = self.terms(0).colluding, self.quorum
        if colluding < 1:
            raise UsageError(f"colluding ({colluding}) must be at least 1")
        if needed is not None and needed < colluding + 2:
            raise UsageError(
                f"quorum ({needed}) must be at least {colluding + 2} where {colluding} of the "
                "sites may collude, for any number of them"
            )
        return max(LEAST_SITES, needed or 0, 2 + colluding)

    def aggregation(self, sites: int) -> Aggregation | msgspec.UnsetType:
        """What a plan for so many sites says about sums, if it is about sums at all."""
        return self.terms(sites) if self.trust == SecureAggregation.name else msgspec.UNSET

    def terms(self, sites: int, keys: dict[str, str] | None = None) -> Aggregation:
        """How so many sites with these keys hide their answers."""
        return Aggregation(
            colluding=1 if self.colluding is None else self.colluding,
            quorum=sites if self.quorum is None else self.quorum,
            keys=keys or {},
        )


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Schema, guarantee, sites and method of one study; its fingerprint names the study."""

    schema: str
    """Fingerprint of the public schema, as everything about the study states it."""
    epsilon: float
    delta: float
    conversion: str = Conversion.TIGHT.value
    trust: str = "local"
    sites: tuple[str, ...]
    unit: str | None = None
    rows_per_unit: int = 1
    method: str
    settings: dict[str, str | int | float | bool] = {}
    seed: int
    """Public randomness of the hub: sketches, ties, synthesis. No site draws noise from it."""
    version: int = PLAN_VERSION
    aggregation: Aggregation | msgspec.UnsetType = msgspec.UNSET
    """Under secure aggregation alone; one colluding site and all in every sum unless given."""
    encoding: str | msgspec.UnsetType = msgspec.UNSET
    """Fingerprint of the schema by which sites encode, where it is one made from the public one."""
    about: About | msgspec.UnsetType = msgspec.UNSET
    """What the study is for, if that was said."""
    columns: int | msgspec.UnsetType = msgspec.UNSET
    """How many columns counts may be of together: three, or two where nothing is said."""

    def __post_init__(self) -> None:
        # 1 and 1.0 are one number, so they must have one fingerprint.
        for name in ("epsilon", "delta"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))
        if self.encoding == self.schema:
            msgspec.structs.force_setattr(self, "encoding", msgspec.UNSET)
        if self.about == About():
            msgspec.structs.force_setattr(self, "about", msgspec.UNSET)
        if self.columns == PAIRS:
            msgspec.structs.force_setattr(self, "columns", msgspec.UNSET)
        elif self.columns not in (msgspec.UNSET, TRIPLES):
            raise UsageError(
                f"columns ({self.columns}) must be {TRIPLES}, or be left out: counts are of one "
                f"column, of {PAIRS}, or of {TRIPLES} where a study says so"
            )
        if not self.sites or len(set(self.sites)) != len(self.sites):
            raise UsageError("a study needs at least one site, each with a name of its own")
        for name in self.sites:
            check_site_name(name)
        if not 1 <= self.rows_per_unit <= MOST_ROWS_PER_UNIT:
            raise UsageError(
                f"rows per unit ({self.rows_per_unit}) must be in 1..{MOST_ROWS_PER_UNIT}"
            )
        if self.unit is None and self.rows_per_unit != 1:
            raise UsageError("rows per unit needs a unit: name the column that identifies a person")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed ({self.seed}) must be in 0..2^63 - 1")
        if self.trust == SecureAggregation.name:
            if self.aggregation is msgspec.UNSET:
                usual = Hiding(self.trust).terms(len(self.sites))
                msgspec.structs.force_setattr(self, "aggregation", usual)
            elif self.aggregation.quorum < 1:  # which a trust model would take for all sites
                raise UsageError(
                    f"quorum ({self.aggregation.quorum}) must be at least {LEAST_SITES} sites"
                )
            _check_roster(self.roster, self.sites)
        elif self.aggregation is not msgspec.UNSET:
            raise UsageError(
                f"colluding sites and keys mean nothing under trust {self.trust!r}; leave them "
                f"out, or use trust {SecureAggregation.name!r}"
            )
        _ = self.budget, self.trust_model  # made once, and refuse what they refuse

    @cached_property
    def budget(self) -> Budget:
        """What the study may spend at every site."""
        return Budget.of(epsilon=self.epsilon, delta=self.delta, conversion=self.conversion)

    @cached_property
    def budget_alone(self) -> Budget:
        """What the study costs if somebody sees each answer by itself."""
        return self.budget.times(self.trust_model.alone_factor)

    @cached_property
    def trust_model(self) -> Trust:
        """Who may see a site's message."""
        if self.aggregation is msgspec.UNSET:
            return trust_model(self.trust, len(self.sites))
        hidden = self.aggregation
        return trust_model(
            self.trust, len(self.sites), colluding=hidden.colluding, quorum=hidden.quorum
        )

    @property
    def said_about(self) -> About:
        """What the study says of itself, each text empty where it does not."""
        return About() if self.about is msgspec.UNSET else self.about

    @property
    def together(self) -> int:
        """How many columns a statistic may be of at most."""
        return PAIRS if self.columns is msgspec.UNSET else self.columns

    @property
    def encoded_by(self) -> str:
        """Fingerprint of the schema by which sites encode."""
        return self.schema if self.encoding is msgspec.UNSET else self.encoding

    @property
    def roster(self) -> dict[str, str]:
        """Every site's public key; empty where nobody signs."""
        return {} if self.aggregation is msgspec.UNSET else self.aggregation.keys

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything above, with the schema by which sites encode as the schema.

        The public one follows from it but for atoms that it may name or leave to the method, which
        is the same to everybody; and studies of versions that knew no other keep their name.
        """
        known = msgspec.structs.replace(self, schema=self.encoded_by, encoding=msgspec.UNSET)
        return hashlib.sha256(msgspec.json.encode(known, order="sorted")).hexdigest()


def check_site_name(name: str) -> None:
    """Refuse what cannot be the name of a site."""
    if not _SITE_NAME.fullmatch(name):
        raise UsageError(f"site name {name!r} must be up to 64 letters, digits, '.', '_' or '-'")
    if name == "sum":
        raise UsageError("no site may be named 'sum'; that is the sum over sites")
    if name == "server":
        raise UsageError("no site may be named 'server'; that is the hub in a federation")


def _check_roster(keys: dict[str, str], sites: tuple[str, ...]) -> None:
    """Refuse a roster that does not name every site once, with a key of its own."""
    if len({name.lower() for name in sites}) != len(sites):
        raise UsageError("names of sites must differ in more than capital letters")
    if not keys:
        return
    if {*keys} != {*sites}:
        odd = sorted({*keys} ^ {*sites})
        raise UsageError(f"every site needs one public key, and nobody else: see {', '.join(odd)}")
    if len({raw_key(key) for key in keys.values()}) != len(keys):
        raise UsageError("two sites have the same public key; each must have its own")


def is_fingerprint(text: str) -> bool:
    """Whether this could name a study."""
    return _FINGERPRINT.fullmatch(text) is not None


def unit_name(column: str | None) -> str:
    """How statements and receipts call what is protected.

    >>> unit_name(None), unit_name("patient"), unit_name("record")
    ('record', 'patient', 'record (column)')
    """
    return RECORD if column is None else _NAMED_ALIKE if column == RECORD else column


def unit_column(name: str) -> str | None:
    """The column that tells people apart, or None where every row is protected by itself."""
    return None if name == RECORD else RECORD if name == _NAMED_ALIKE else name


def protected(column: str | None) -> str:
    """Whom a guarantee protects, given the column that tells people apart.

    >>> protected(None), protected("patient")
    ('record', 'person (patient)')
    """
    return RECORD if column is None else f"person ({column})"
