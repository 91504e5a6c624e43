"""Queries and answers, and their one encoding; lengths depend on schema and query alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from heterofedsyn.marginals.statistics import Statistic, kind_of
from heterofedsyn.privacy.terms import Noised, NoisyIntegers, Terms, added

MESSAGE_VERSION = 1


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One statistic and the share of the study's budget that it may cost."""

    statistic: Statistic
    share: float


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="query", kw_only=True):
    """One round of questions, to all sites or to one."""

    study: str
    number: int
    label: str
    parts: tuple[Part, ...]
    to: str | None = None
    version: int = MESSAGE_VERSION

    @property
    def fingerprint(self) -> str:
        """A hash of the whole query: the same question is the same query."""
        return query_fingerprint(encode(self))


class Released(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The noisy integers of one part and how they were protected."""

    data: bytes
    """Little-endian int64."""
    sensitivity: float
    sigma: float
    rho: float

    @classmethod
    def of(cls, noised: Noised) -> Released:
        """Noisy integers, packed with their terms; the rest of these the query says."""
        terms = noised.terms
        return cls(
            data=noised.values.astype("<i8").tobytes(),
            sensitivity=terms.sensitivity,
            sigma=terms.sigma,
            rho=terms.rho,
        )

    @classmethod
    def sum_of(cls, parts: Sequence[Released]) -> Released:
        """The sum over sites of one part, with the noise of all of them."""
        return cls(
            data=added([part.values for part in parts]).astype("<i8").tobytes(),
            sensitivity=parts[0].sensitivity,
            sigma=math.sqrt(math.fsum(part.sigma**2 for part in parts)),
            rho=parts[0].rho,
        )

    def terms(self, statistic: Statistic) -> Terms:
        """On what terms it was released, by its own word; `statistic` is what was asked."""
        return Terms(
            kind=kind_of(statistic),
            attributes=statistic.attributes,
            sensitivity=self.sensitivity,
            sigma=self.sigma,
            integers=len(self.data) // 8,
            rho=self.rho,
        )

    @property
    def values(self) -> NoisyIntegers:
        """The noisy integers."""
        return NoisyIntegers(np.frombuffer(self.data, dtype="<i8").astype(np.int64))


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="answer", kw_only=True):
    """What one site (or the sum over sites) says to a query."""

    study: str
    query: str
    """Fingerprint of the query."""
    site: str
    simulated: bool
    parts: tuple[Released, ...]
    version: int = MESSAGE_VERSION


def encode(message: msgspec.Struct) -> bytes:
    """A message as bytes."""
    return msgspec.msgpack.encode(message)


def query_fingerprint(encoded: bytes) -> str:
    """The fingerprint of a query that `encode` gave these bytes for."""
    return hashlib.sha256(encoded).hexdigest()
