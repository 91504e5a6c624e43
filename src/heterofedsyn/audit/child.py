"""A process of its own that answers, forks, and answers again, all at one moment of its clock.

Reads a seed and two queries as JSON; writes the answers to the first query of this process, of
its fork, of another site in it, and of an agent on disk that was given no noise.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from heterofedsyn._arrays import stream
from heterofedsyn.audit.clock import stopped_clock
from heterofedsyn.audit.disk import SiteOnDisk
from heterofedsyn.audit.exhibit import SITE, plain_schema, plan_of, table_of
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site import Site
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books


def main() -> None:
    """Answer, fork and answer."""
    told = json.load(sys.stdin)
    first, second = (bytes.fromhex(message) for message in told["messages"])
    schema = plain_schema(32, 64)
    table = table_of(schema, 50, stream(told["seed"], "few rows"))

    def site() -> Site:
        return Site(SITE, table, plan_of(schema, told["seed"]), SecureNoise())

    with stopped_clock():
        site().answer(second)  # whatever a source keeps, it has by now
        source, out = os.pipe()
        if os.fork() == 0:
            os.write(out, site().answer(first))
            os._exit(0)
        os.close(out)
        parent = site().answer(first)
        with os.fdopen(source, "rb") as pipe:
            fork = pipe.read()
        os.wait()
        later = site().answer(first)
        agent = _agent(told["seed"], table, first)
    found = {"parent": parent, "fork": fork, "later": later, "agent": agent}
    json.dump({name: answer.hex() for name, answer in found.items()}, sys.stdout)


def _agent(seed: int, table: EncodedTable, message: bytes) -> bytes:
    """The answer of an agent as a site starts it."""
    schema = plain_schema(32, 64)
    plan = plan_of(schema, seed)
    lines = ["a0,a1", *(f"v{one},v{other}" for one, other in table.codes.T), ""]
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        rows = "\n".join(lines).encode()
        site = SiteOnDisk.make(Path(place), SITE, schema, plan, rows, epsilon=plan.epsilon)
        with Books.open(site.settings.folder, site.settings.anchor) as books:
            return Agent(site.settings, books, log=lambda line: None).answer(message)


if __name__ == "__main__":
    main()
