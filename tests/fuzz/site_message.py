"""Messages to a site: to one in memory, whose errors are plain to see, and to the agent itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from agent_support import SCHEMA, FreshNoise, approved_study, ask, books_of, make_site, make_study
from fuzz.law import SECRET, check_words, folder, lawful
from heterofedsyn.marginals import Dependence, Flat, Grouped, Haar, Sketched, SketchKind, Total
from heterofedsyn.marginals.counts import Counts, TableCounts
from heterofedsyn.protocol import Answer, decode
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.site import Site
from heterofedsyn.site.agent import Agent
from support import dependent_table

FORM = "msgpack"

MOST_ANSWERS = 300
"""After which the agent gets a new site, whose ledger is short again."""

_STUDY = make_study()


def seeds() -> list[bytes]:
    study = _STUDY
    return [
        ask(study, Total(), share=1e-6),
        ask(study, Flat(("a0",)), Flat(("a0", "a2")), share=1e-6),
        ask(study, Haar(("a1",), 1), Grouped(("a0", "a1"), ((0, 1, 1), (0, 0, 1, 1))), share=1e-6),
        ask(study, Sketched(("a0", "a1"), 3, 9), Dependence(("a1", "a2")), share=1e-6),
        ask(study, Sketched(("a1", "a2"), 4, 9, SketchKind.GAUSSIAN), share=1e-6, to="one"),
    ]


def examples() -> list[bytes]:
    study = _STUDY
    wide = ((0,) * 3, (0,) * 4)
    return [
        b"",
        b"\x91" * 1_000_000,
        b"\x81\xa5parts\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        ask(study, *[Total()] * 20_000, share=1e-12),
        ask(study, *[Total()] * 100_001, share=1e-12),
        ask(study, *[Grouped(("a0", "a1"), wide)] * 20_000, share=1e-12),
        ask(study, *[Sketched(("a0", "a1"), 4096, i) for i in range(3_000)], share=1e-12),
        ask(study, Sketched(("a0", "a1"), 2**63 - 1, 0)),
        ask(study, Sketched(("a0", "a1"), 5, -(2**63))),
        ask(study, Sketched(("a0", "a1"), 4096, 1, SketchKind.GAUSSIAN)),
        ask(study, Haar(("a1",), 2**62)),
        ask(study, Flat(("a0",)), share=5e-324),
        ask(study, Flat(("a0",)), share=1.0, label="\x1b[2J\u202e\n" * 60),
        ask(study, Flat(("\x1b[2J" * 100_000,))),
        ask(study, Flat(("a0",)), study="../" * 30),
        ask(study, Flat(("a0",)), to="x" * 1_000_000),
        ask(study, Grouped(("a0", "a1"), ((2**63 - 1,) * 3, (0, 1, 2, 3)))),
        ask(study, Grouped(("a0", "a1"), ((), ()))),
        b"\x00" * (2**24 + 1),
    ]


def fuzz_one(data: bytes) -> None:
    site = Site("one", _counts(), _STUDY.plan, FreshNoise())
    said = lawful(lambda: site.answer(data))
    assert said is None or decode(said, Answer).site == "one"
    _Standing.now().check(data, answered=said is not None)


@cache
def _counts() -> Counts:
    return TableCounts(dependent_table(SCHEMA.domain, 20))


class _Standing:
    """A real agent on a real ledger, for as long as that is short."""

    _found: _Standing | None = None
    _made = 0

    def __init__(self) -> None:
        type(self)._made += 1
        place = folder("message") / str(self._made)
        endless: dict[str, Any] = {"refused_queries": 10**12, "refused_seconds": 1e12}
        settings = make_site(place, study_epsilon=100.0, epsilon=100.0, **endless)
        # A row that does not fit: the steward hears how many there are, and not what they hold.
        with Path(settings.source).open("a") as file:
            file.write(f"{SECRET},v0,v0\n")
        approved_study(settings)
        self.lines: list[str] = []
        self._agent = Agent(settings, books_of(settings), noise=FreshNoise(), log=self.lines.append)
        self._answers = 0

    @classmethod
    def now(cls) -> _Standing:
        if cls._found is None or cls._found._answers >= MOST_ANSWERS:
            cls._found = cls()
        return cls._found

    def check(self, data: bytes, *, answered: bool) -> None:
        said = self._ask(data)
        if isinstance(said, Refused):
            check_words(str(said))
            assert not answered or said.reason is Reason.OVER_THE_CAP
        else:
            self._answers += 1
            assert decode(said, Answer).site == "one"
        while self.lines:
            check_words(self.lines.pop())

    def _ask(self, data: bytes) -> bytes | Refused:
        try:
            return self._agent.answer(data)
        except Refused as refusal:
            return refusal
