"""Runs agents that are killed at a named step: one process for each, forked from a warm one.

Each line of input names a site's folder, a step and a query; each line of output says what came
out of that agent before it died, and how it ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_support import FreshNoise
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.answers import ANSWERS
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Chain, Charged
from heterofedsyn.site.settings import SiteSettings

MOMENT = "at any moment"
STEPS = (
    "before the charge",
    "in the middle of the charge",
    "before anchoring the charge",
    "while anchoring the charge",
    "after the charge",
    "after the noise",
    "while storing",
    "in the middle of noting the answer",
    "before anchoring the answer",
    "while anchoring the answer",
    "after storing",
    "before sending",
    "while sending",
    "after sending",
)


class Fate:
    """Kills its own process, as kill -9 does, when the named step is reached."""

    def __init__(self, step: str) -> None:
        self._step = step

    def reached(self, step: str, before: Callable[[], object] = lambda: None) -> None:
        if step == self._step:
            before()
            os.kill(os.getpid(), signal.SIGKILL)


class FatedBooks(Books):
    """Books whose agent may die at each of their steps."""

    fate = Fate("")

    def charge(self, *what: Any, **terms: Any) -> None:
        self.fate.reached("before the charge")
        super().charge(*what, **terms)
        self.fate.reached("after the charge")

    def _put(self, chain: Chain) -> None:
        line = chain.lines[-1]
        place = chain.size - len(line)
        charged = isinstance(chain.entries[-1], Charged)
        self.fate.reached(
            "in the middle of the charge" if charged else "in the middle of noting the answer",
            lambda: os.pwrite(self._ledger, line[: len(line) // 2], place),
        )
        super()._put(chain)

    def _write_anchor(self, chain: Chain) -> None:
        what = "charge" if isinstance(chain.entries[-1], Charged) else "answer"
        self.fate.reached(f"before anchoring the {what}")
        new = self._anchor.with_name(f".{self._anchor.name}.new")
        self.fate.reached(f"while anchoring the {what}", lambda: new.write_bytes(b'{"number":'))
        super()._write_anchor(chain)

    def keep(self, query: str, answer: bytes, asked: bytes = b"") -> None:
        self.fate.reached("after the noise")
        new = self._folder / ANSWERS / f".{query}.new"
        self.fate.reached("while storing", lambda: new.write_bytes(answer[: len(answer) // 2]))
        super().keep(query, answer, asked)
        self.fate.reached("after storing")


def serve(folder: Path, step: str, message: bytes, out: int) -> None:
    """One agent's life: open the books, answer one query, send the answer."""
    fate = FatedBooks.fate = Fate(step)  # from the start: opening may repair what a crash left
    settings = SiteSettings.load(folder)
    books = FatedBooks.open(settings.folder, settings.anchor)
    agent = Agent(settings, books, noise=FreshNoise(), log=lambda line: None)
    try:
        answer = agent.answer(message)
    except Refused as refused:
        answer = b"refused: " + refused.reason.encode()
    fate.reached("before sending")
    fate.reached("while sending", lambda: os.write(out, answer[: len(answer) // 2]))
    os.write(out, answer)
    fate.reached("after sending")


def live(folder: Path, step: str, message: bytes, after: float) -> dict[str, str | int]:
    """What one agent process sends before it ends, and how it ends."""
    source, out = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(source)
            serve(folder, step, message, out)
            status = 0
        finally:
            os._exit(status)
    os.close(out)
    if step == MOMENT:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(source, "rb") as pipe:
        received = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"received": received.hex(), "ended": os.waitstatus_to_exitcode(status)}


def warm(place: Path) -> None:
    """Load what an agent loads, so that every fork starts at once."""
    from agent_support import approved_study, ask, make_site
    from heterofedsyn.marginals import Flat

    settings = make_site(place)
    message = ask(approved_study(settings), Flat(("a0", "a1")), Flat(("a2",)))
    with Books.open(settings.folder, settings.anchor) as books:
        Agent(settings, books, noise=FreshNoise(), log=lambda line: None).answer(message)


if __name__ == "__main__":
    warm(Path(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        result = live(
            Path(told["folder"]), told["step"], bytes.fromhex(told["message"]), told["after"]
        )
        print(json.dumps(result), flush=True)
