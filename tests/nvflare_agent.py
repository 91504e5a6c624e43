"""A site agent for tests: the real one, that waits when it is told to.

Run as `python nvflare_agent.py FOLDER [SEED]`; with a seed, its noise is that of a simulation.
While FOLDER.hold holds a number, queries with that number or a later one are not answered; nothing
has been charged for them then. While it names a step of secure aggregation, that step is not taken.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from heterofedsyn.privacy.noise import SecureNoise, SimulatedNoise
from heterofedsyn.protocol import Query
from heterofedsyn.protocol.aggregation import AskKey, AskMasked, AskOpened, AskVote
from heterofedsyn.protocol.codec import Asked, decode_asked
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.server import Service
from heterofedsyn.site.settings import SiteSettings


class Gate:
    """An agent that can be told to wait."""

    def __init__(self, agent: Agent, hold: Path) -> None:
        self._agent = agent
        self._hold = hold

    def answer(self, message: bytes) -> bytes:
        asked = decode_asked(message)
        while self._hold.exists() and _is_held(asked, self._hold.read_text()):
            time.sleep(0.05)
        return self._agent.answer(message)

    def close(self) -> None:
        self._agent.close()


_STEPS = {AskKey: "keys", AskMasked: "masked", AskVote: "agree", AskOpened: "open"}


def _is_held(asked: Asked, hold: str) -> bool:
    if not isinstance(asked, Query):
        return _STEPS[type(asked)] == hold
    return hold == "" or (hold.isdigit() and asked.number >= int(hold))


def log(text: str) -> None:
    print(text, flush=True)


def main(folder: Path, seed: int | None) -> None:
    settings = SiteSettings.load(folder)
    with Books.open(settings.folder, settings.anchor) as books:
        noise = SecureNoise() if seed is None else SimulatedNoise(seed, settings.name)
        agent = Agent(settings, books, noise=noise, log=log)
        gate = Gate(agent, folder.with_name(f"{folder.name}.hold"))
        with Service(gate, settings, log=log) as service:
            signal.signal(signal.SIGTERM, lambda *_: service.stop())
            log(f"answering on {settings.socket}")
            service.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
