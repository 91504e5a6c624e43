"""What hub and sites say to each other: a plan, queries and answers; no rows, no exact counts."""

from heterofedsyn.protocol.codec import decode
from heterofedsyn.protocol.messages import Answer, Part, Query, Released, encode
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.protocol.study import Study

__all__ = ["Answer", "Part", "Plan", "Query", "Released", "Study", "decode", "encode"]
