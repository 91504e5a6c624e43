"""What one query may ask for, whoever looks at it: hub, preview, approval and agent.

Everything here follows from the query and the public schema by counting. Nothing is drawn and no
matrix is made before a query has passed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.statistics import works
from heterofedsyn.schema import Domain

if TYPE_CHECKING:
    from heterofedsyn.protocol.messages import Query
    from heterofedsyn.protocol.plan import Plan

MOST_QUERY_BYTES = 2**24
"""The longest query: its parts take some thirty times its bytes of memory once they are read."""

MOST_REQUEST_BYTES = MOST_QUERY_BYTES + 2**20
"""The longest message to a site: a query, or what secure aggregation says with one of it."""

MOST_PARTS = 100_000

MOST_WORK = 2**26
"""The most cells one answer may be made from, so that no query can exhaust a site's memory."""

MOST_PART_WORK = 2**24
"""The most cells for one part of it: 64 MiB for a sketch's matrix of so many signs, and a second or
so to draw it."""

MOST_INTEGERS = 2**23
"""The most integers in one answer: 64 MiB, and 3.5 minutes at 25 microseconds for each."""

NOISE_SECONDS = 25e-6
"""That a site needs to draw one integer of noise."""

MOST_LABEL = 200

BYTES_OF_A_PART = 64
BYTES_AROUND = 512
"""The most that an answer holds beside its integers: for each part, and once."""


def most_answer_bytes(integers: int, parts: int) -> int:
    """A length that no answer with so many integers in so many parts exceeds."""
    return 8 * integers + BYTES_OF_A_PART * parts + BYTES_AROUND


BYTES_OF_A_SHARE = 256
BYTES_OF_TERMS = 128
"""The most that is kept with a masked answer: for each other site, and for each part the terms on
which it was released, but for the names of its attributes."""


def most_hidden_bytes(integers: int, parts: int, sites: int, asked: int) -> int:
    """A length that nothing kept of a masked answer exceeds.

    Args:
        sites: among which its self seed is shared.
        asked: bytes of the query, which has all names of attributes that terms have.
    """
    beside = BYTES_OF_TERMS * parts + BYTES_OF_A_SHARE * sites + BYTES_AROUND
    return 8 * integers + beside + asked


MOST_ANSWER_BYTES = most_answer_bytes(MOST_INTEGERS, MOST_PARTS)
MOST_REPLY_BYTES = MOST_ANSWER_BYTES + 2**20
"""The longest message of a site: an answer, and what secure aggregation sends with it."""


def check_query(query: Query, domain: Domain, encoded: bytes | None = None) -> None:
    """Refuse a query that no site answers, at the cost of counting.

    Args:
        encoded: the query as it is kept, if that was made already. A message that says the same may
            be shorter, so its own length does not tell.

    Raises:
        ProtocolError: saying which limit it is over, or what in it is no statistic of the domain.
    """
    label = query.label
    if len(label) > MOST_LABEL:
        raise ProtocolError(f"a label of {len(label):,} characters is too long")
    if not query.parts:
        raise ProtocolError(f"query {label!r} asks for nothing")
    if len(query.parts) > MOST_PARTS:
        raise ProtocolError(
            f"query {label!r} has {len(query.parts):,} parts, more than {MOST_PARTS:,}; ask for "
            "fewer pairs at a time"
        )
    for part in query.parts:
        if not (math.isfinite(part.share) and 0 < part.share <= 1):
            raise ProtocolError(f"a share of {part.share} must be above 0 and at most 1")
        part.statistic.check(domain)
    work = works([part.statistic for part in query.parts], domain)
    for needed, most in ((max(work), MOST_PART_WORK), (sum(work), MOST_WORK)):
        if needed > most:
            raise ProtocolError(
                f"query {label!r} needs {needed:,} cells, more than {most:,}; ask for fewer "
                "pairs, smaller sketches or fewer bins"
            )
    integers = sum(part.statistic.integers(domain) for part in query.parts)
    if integers > MOST_INTEGERS:
        raise ProtocolError(
            f"query {label!r} asks for {integers:,} integers, more than {MOST_INTEGERS:,}; ask "
            "for fewer pairs at a time or take fewer bins"
        )
    check_length(len(msgspec.msgpack.encode(query) if encoded is None else encoded))


def check_together(query: Query, plan: Plan) -> None:
    """Refuse counts of more columns together than a plan allows.

    Raises:
        ProtocolError: naming the columns.
    """
    for part in query.parts:
        names = part.statistic.attributes
        if len(names) > plan.together:
            raise ProtocolError(
                f"query {query.label!r} asks for counts of {' and '.join(names)} together, and the "
                f"study's plan allows counts of no more than {plan.together} columns"
            )


def check_length(many: int) -> None:
    """Refuse a query of so many bytes if no query need be so long.

    Raises:
        ProtocolError: saying the limit.
    """
    if many > MOST_QUERY_BYTES:
        raise ProtocolError(f"a query of {many:,} bytes is over the limit of {MOST_QUERY_BYTES:,}")
