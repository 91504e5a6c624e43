"""An agent answers approved studies within its caps, and tells a hub nothing else."""

from __future__ import annotations

import inspect
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import heterofedsyn.site.agent as agent_module
import heterofedsyn.site.shelf as shelf_module
from agent_support import (
    NOW,
    SCHEMA,
    FreshNoise,
    approved_study,
    ask,
    books_of,
    make_site,
    make_study,
)
from heterofedsyn.errors import DataError, NotApproved, UsageError
from heterofedsyn.marginals import (
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    SketchKind,
    Statistic,
    Total,
)
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SecureNoise, SimulatedNoise
from heterofedsyn.protocol import Answer, Study, decode
from heterofedsyn.protocol.limits import MOST_INTEGERS, MOST_QUERY_BYTES
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.schema import Schema, encode, with_atoms
from heterofedsyn.site import Site
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import CONSENT, approve, withdraw
from heterofedsyn.site.ledger.answers import Kept
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import STUDY, SiteSettings
from heterofedsyn.sources import open_source
from support import NoNoise, categories, make_plan

pytestmark = pytest.mark.thorough

PAIR = Flat(("a0", "a1"))


class Setup:
    """A site, its books and an agent that notes what it logs."""

    def __init__(self, place: Path, noise: Any = None, **terms: Any) -> None:
        self.settings = make_site(place, **terms)
        self.books = books_of(self.settings)
        self.lines: list[str] = []
        self.noise = noise or FreshNoise()
        self.agent = self.another()

    def another(self) -> Agent:
        return Agent(self.settings, self.books, noise=self.noise, log=self.lines.append)

    def reply(self, message: bytes) -> bytes | Reason:
        """What the hub hears."""
        try:
            return self.agent.answer(message)
        except Refused as refused:
            return refused.reason

    def refusal(self, message: bytes) -> Refused:
        before = self.books.account
        with pytest.raises(Refused) as caught:
            self.agent.answer(message)
        assert self.books.account == before, "a refusal must not charge"
        assert "\n" not in str(caught.value)
        return caught.value


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Setup]:
    setup = Setup(tmp_path)
    with setup.books:
        yield setup


def with_fields(message: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    decoded = msgspec.msgpack.decode(message)
    change(decoded)
    return msgspec.msgpack.encode(decoded)


@pytest.mark.quick
def test_an_approved_query_is_answered_charged_and_kept(site: Setup) -> None:
    study = approved_study(site.settings)
    message = ask(study, PAIR, Total(), share=0.25)
    answer = site.agent.answer(message)
    found = decode(answer, Answer)
    assert (found.site, found.study) == ("one", study.fingerprint)
    assert [part.values.size for part in found.parts] == [12, 1]
    (charged,) = site.books.account.charges
    assert charged.study == study.fingerprint
    assert charged.integers == 13
    assert charged.rho == pytest.approx(study.plan.budget.rho / 2)
    kept = Kept.to(found.query, site.settings.folder)
    assert kept is not None
    assert (kept.answer, kept.asked) == (answer, message)


def test_a_study_whose_charges_were_lost_spends_nothing_more_without_new_consent(
    site: Setup,
) -> None:
    study = approved_study(site.settings)
    folder, anchor = site.settings.folder, site.settings.anchor
    older = (folder / "ledger").read_bytes()
    site.agent.answer(ask(study, PAIR, share=0.9))
    site.books.close()
    (folder / "ledger").write_bytes(older)
    spent = Books.repair(folder, anchor, site.settings.study_cap).spent
    site.books = books_of(site.settings)
    site.agent = site.another()
    assert site.books.spent_on(study.fingerprint) == Budget(0.0)  # it is lost
    for message in (ask(study, PAIR, share=0.9), ask(study, Total(), share=0.9)):
        refused = site.refusal(message)
        assert refused.reason is Reason.NOT_APPROVED
        assert "the ledger was repaired" in str(refused)
    assert site.books.account.spent == spent
    approve(site.settings, study, who="a steward", now=NOW)
    site.agent.answer(ask(study, Total(), share=0.1))


@pytest.mark.quick
def test_the_same_query_again_gets_the_same_bytes_also_after_a_restart(site: Setup) -> None:
    message = ask(approved_study(site.settings), PAIR)
    first, account = site.agent.answer(message), site.books.account
    assert site.agent.answer(message) == first
    site.books.close()
    site.books = books_of(site.settings)
    assert site.another().answer(message) == first
    assert site.books.account == account
    # Other bytes that say the same are the same query.
    spelled = with_fields(message, lambda said: said.update(to=None, version=1))
    assert site.another().answer(spelled) == first
    assert site.books.account == account


@pytest.mark.parametrize(
    "statistic",
    [
        PAIR,
        Total(),
        Haar(("a1",), 1),
        Dependence(("a0", "a1")),
        Sketched(("a0", "a1"), 5, 3),
        Grouped(("a0", "a1"), ((0, 0, 1), (0, 1, 1, 0))),
    ],
    ids=lambda statistic: type(statistic).__name__,
)
def test_an_agent_and_a_simulated_site_answer_alike(tmp_path: Path, statistic: Statistic) -> None:
    setup = Setup(tmp_path, SimulatedNoise(5, "one"))
    study = approved_study(setup.settings)
    table = encode(SCHEMA, open_source(setup.settings.source).batches()).table
    simulated = Site("one", table, study.plan, SimulatedNoise(5, "one"))
    with setup.books:
        for label in ("one", "two"):
            message = ask(study, statistic, statistic, label=label)
            assert setup.agent.answer(message) == simulated.answer(message)
        assert setup.books.account.spent == simulated.ledger.spent


# Who may ask for what


@pytest.mark.quick
def test_only_what_the_steward_approved_is_answered(site: Setup) -> None:
    study = approved_study(site.settings)
    other = make_study(seed=8)
    for message in (
        ask(other, PAIR),
        ask(study, PAIR, study="0" * 64),
        ask(study, PAIR, study="../" + study.fingerprint),
        ask(study, PAIR, study=f"{site.settings.studies}/{study.fingerprint}"),
        ask(study, PAIR, study=study.fingerprint.upper()),
        ask(study, PAIR, study=study.fingerprint + "\n"),
        ask(study, PAIR, study=""),
    ):
        assert site.refusal(message).reason is Reason.NOT_APPROVED
    approve(site.settings, other, who="a steward", now=NOW)
    site.agent.answer(ask(other, PAIR))  # without a restart


def test_once_consent_is_withdrawn_nothing_is_answered_not_even_again(site: Setup) -> None:
    study = approved_study(site.settings)
    message = ask(study, PAIR)
    first = site.agent.answer(message)
    withdraw(site.settings, study.fingerprint, who="a steward", now=NOW)
    for asked in (message, ask(study, PAIR, label="more")):
        assert site.refusal(asked).reason is Reason.NOT_APPROVED
    approve(site.settings, study, who="a steward", now=NOW)
    assert site.agent.answer(message) == first


def forge(settings: SiteSettings, study: Study, approved: Study) -> None:
    """Put a study where an approved one belongs, consent included."""
    place, given = (settings.studies / each.fingerprint for each in (study, approved))
    place.mkdir(exist_ok=True)
    study.save(place / STUDY)
    consent = msgspec.json.decode((given / CONSENT).read_bytes())
    consent |= {"study": study.fingerprint, "rho": study.plan.budget.rho}
    (place / CONSENT).write_bytes(msgspec.json.encode(consent))


def test_a_study_file_that_changed_after_approval_is_refused(site: Setup) -> None:
    study = approved_study(site.settings)
    place = site.settings.studies / study.fingerprint
    make_study(epsilon=2.0).save(place / STUDY)
    assert site.refusal(ask(study, PAIR)).reason is Reason.NOT_APPROVED
    study.save(place / STUDY)
    site.agent.answer(ask(study, PAIR))
    categories(3, 4, 3).save(site.settings.schema)
    refused = site.refusal(ask(study, PAIR, label="again"))
    assert refused.reason is Reason.NOT_APPROVED
    assert "schema" in str(refused)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (
            {"trust": "secure-aggregation", "sites": ("one", "two", "three"), "quorum": 3},
            "alone_epsilon",
        ),
        ({"epsilon": 3.0}, "cap per study"),
    ],
)
def test_terms_of_its_own_help_no_hub(site: Setup, terms: dict[str, Any], words: str) -> None:
    approved = approved_study(site.settings)
    study = make_study(**terms)
    with pytest.raises(NotApproved):
        approve(site.settings, study, who="a steward", now=NOW)
    assert site.refusal(ask(study, PAIR)).reason is Reason.NOT_APPROVED
    # Not even when the study lies where an approved one would.
    forge(site.settings, study, approved)
    refused = site.refusal(ask(study, PAIR))
    assert refused.reason is Reason.NOT_APPROVED
    assert words in str(refused)


def test_another_number_of_sites_is_another_study(site: Setup) -> None:
    study = approved_study(site.settings)
    more = msgspec.structs.replace(
        study, plan=msgspec.structs.replace(study.plan, sites=("one", "two", "three"))
    )
    assert site.refusal(ask(more, PAIR)).reason is Reason.NOT_APPROVED
    without = msgspec.structs.replace(
        study, plan=msgspec.structs.replace(study.plan, sites=("two", "three"))
    )
    forge(site.settings, without, study)
    assert site.refusal(ask(without, PAIR)).reason is Reason.NOT_APPROVED


def test_consent_is_a_ceiling(site: Setup) -> None:
    study = approved_study(site.settings)
    place = site.settings.studies / study.fingerprint / CONSENT
    consent = msgspec.json.decode(place.read_bytes())
    place.write_bytes(msgspec.json.encode(consent | {"rho": study.plan.budget.rho / 5}))
    assert site.refusal(ask(study, PAIR, share=0.3)).reason is Reason.OVER_THE_CAP
    site.agent.answer(ask(study, PAIR, share=0.2))


# A hostile hub


MALFORMED: dict[str, Callable[[Study], bytes]] = {
    "nothing": lambda s: b"",
    "zeros": lambda s: b"\0" * 1000,
    "enormous": lambda s: b"\xff" * (MOST_QUERY_BYTES + 1),
    "cut short": lambda s: ask(s, PAIR)[:-3],
    "too long": lambda s: ask(s, PAIR) + b"\0",
    "deep": lambda s: b"\x91" * 100_000,
    "a list": lambda s: msgspec.msgpack.encode([1, 2]),
    "another version": lambda s: ask(s, PAIR, version=2),
    "its own sigma": lambda s: with_fields(ask(s, PAIR), lambda q: q.update(sigma=0.0)),
    "its own cap": lambda s: with_fields(ask(s, PAIR), lambda q: q.update(cap=100.0)),
    "its own trust": lambda s: with_fields(ask(s, PAIR), lambda q: q.update(trust="none")),
    "its own sites": lambda s: with_fields(ask(s, PAIR), lambda q: q.update(sites=100)),
    "its own seed": lambda s: with_fields(ask(s, PAIR), lambda q: q.update(noise_seed=1)),
    "a part's sigma": lambda s: with_fields(
        ask(s, PAIR), lambda q: q["parts"][0].update(sigma=0.0)
    ),
    "no parts": ask,
    "another site's": lambda s: ask(s, PAIR, to="two"),
    "a long label": lambda s: ask(s, PAIR, label="x" * 1000),
    "a wide sketch": lambda s: ask(s, Sketched(("a0", "a1"), 10**9, 1)),
    "no width": lambda s: ask(s, Sketched(("a0", "a1"), 0, 1)),
    "share nan": lambda s: ask(s, PAIR, share=math.nan),
    "share infinite": lambda s: ask(s, PAIR, share=math.inf),
    "share 0": lambda s: ask(s, PAIR, share=0.0),
    "share 2": lambda s: ask(s, PAIR, share=2.0),
    "share -1": lambda s: ask(s, PAIR, share=-1.0),
    "share 1e-300": lambda s: ask(s, PAIR, share=1e-300),
    "unknown attribute": lambda s: ask(s, Flat(("x" * 10_000,))),
    "pair reversed": lambda s: ask(s, Flat(("a1", "a0"))),
    "pair twice": lambda s: ask(s, Flat(("a0", "a0"))),
    "map too short": lambda s: ask(s, Grouped(("a0", "a1"), ((0, 1), (0, 1, 2, 3)))),
    "map too long": lambda s: ask(s, Grouped(("a0", "a1"), ((0, 1, 2, 0), (0, 1, 2, 3)))),
    "map out of range": lambda s: ask(s, Grouped(("a0", "a1"), ((0, 1, 3), (0, 1, 2, 3)))),
    "map negative": lambda s: ask(s, Grouped(("a0", "a1"), ((0, 1, -1), (0, 1, 2, 3)))),
    "map empty": lambda s: ask(s, Grouped(("a0", "a1"), ((), ()))),
    "map no function": lambda s: with_fields(
        ask(s, Grouped(("a0", "a1"), ((0, 1, 2), (0, 1, 2, 3)))),
        lambda q: q["parts"][0]["statistic"].update(groups=[[[0, 1], 1, 2], [0, 1, 2, 3]]),
    ),
    "map huge": lambda s: ask(s, Grouped(("a0", "a1"), ((0, 1, 2**62), (0, 1, 2, 3)))),
    "too many parts": lambda s: ask(s, *[PAIR] * 100_001, share=1e-6),
    "too much work": lambda s: ask(s, *[Sketched(("a0", "a1"), 4096, 1)] * 2_000, share=1e-6),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_query_is_refused_uncharged_and_in_few_words(site: Setup, name: str) -> None:
    study = approved_study(site.settings)
    refused = site.refusal(MALFORMED[name](study))
    assert refused.reason is Reason.MALFORMED
    assert 10 < len(str(refused)) < 600


def test_an_answer_that_would_take_many_minutes_of_noise_is_refused(tmp_path: Path) -> None:
    schema = categories(4096, 4096)
    setup = Setup(tmp_path, schema=schema, rows=2)
    with setup.books:
        study = approved_study(setup.settings, schema)
        refused = setup.refusal(ask(study, Flat(("a0", "a1")), share=1e-9))
        assert refused.reason is Reason.MALFORMED
        assert f"{MOST_INTEGERS:,}" in str(refused)
        sketch = Sketched(("a0", "a1"), 2, 1)
        assert setup.refusal(ask(study, sketch, share=0.1)).reason is Reason.MALFORMED


def test_cheap_queries_come_to_an_end(site: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_module, "MOST_QUERIES", 5)
    study = approved_study(site.settings)
    for i in range(5):
        site.agent.answer(ask(study, PAIR, share=1e-6, label=f"{i}"))
    refused = site.refusal(ask(study, PAIR, share=1e-6, label="more"))
    assert refused.reason is Reason.OVER_THE_CAP
    site.agent.answer(ask(study, PAIR, share=1e-6, label="0"))
    other = approved_study(site.settings, seed=9)
    monkeypatch.setattr(shelf_module, "MOST_STUDY_INTEGERS", 30)
    for i in range(2):
        site.agent.answer(ask(other, PAIR, share=1e-6, label=f"{i}"))
    assert site.refusal(ask(other, PAIR, label="more")).reason is Reason.OVER_THE_CAP


def test_the_same_pair_under_a_thousand_labels_is_charged_until_nothing_is_left(
    site: Setup,
) -> None:
    study = approved_study(site.settings)
    reasons = []
    for i in range(1_000):
        try:
            site.agent.answer(ask(study, PAIR, share=0.015, label=f"ask {i}"))
        except Refused as refused:
            reasons.append(refused.reason)
    assert len(site.books.account.charges) == 66
    assert reasons == [Reason.OVER_THE_CAP] * 934
    assert site.books.spent_on(study.fingerprint) <= study.plan.budget


def test_many_studies_together_stay_under_the_cap_of_the_table(tmp_path: Path) -> None:
    setup = Setup(tmp_path, epsilon=2.0)
    answered, last = 0, None
    with setup.books:
        for seed in range(20):
            study = approved_study(setup.settings, seed=seed, epsilon=1.0)
            try:
                setup.agent.answer(ask(study, PAIR, share=1.0))
                answered += 1
            except Refused as refused:
                last = refused
        assert setup.books.account.spent <= setup.settings.cap
        assert answered == int(setup.settings.cap.rho // study.plan.budget.rho)
    assert last is not None
    assert last.reason is Reason.OVER_THE_CAP
    assert str(setup.settings.folder) in str(last)


def test_of_two_queries_at_once_that_fit_alone_exactly_one_is_answered(site: Setup) -> None:
    with ThreadPoolExecutor(2) as pool:
        for seed in range(100):
            study = approved_study(site.settings, seed=seed, epsilon=0.1)
            messages = [ask(study, PAIR, share=0.6, label=f"{i}") for i in range(2)]
            replies = list(pool.map(site.reply, messages))
            assert replies.count(Reason.OVER_THE_CAP) == 1, seed
            assert site.books.spent_on(study.fingerprint) <= study.plan.budget


def test_fifty_queries_at_once_are_each_answered_once_or_refused(site: Setup) -> None:
    study = approved_study(site.settings)
    messages = [ask(study, PAIR, share=0.0625, label=f"{i // 2}") for i in range(50)]

    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(site.reply, messages))
    assert replies.count(Reason.OVER_THE_CAP) == 18
    assert len({reply for reply in replies if reply is not Reason.OVER_THE_CAP}) == 16
    assert len(site.books.account.charges) == 16
    # The other half of each pair may have asked before or after, but never got another answer.
    for one, other in zip(replies[0::2], replies[1::2], strict=True):
        assert one == other


_MEASURED = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from agent_support import ask, approved_study, books_of, make_site
from heterofedsyn.marginals import Dependence, Flat, Sketched, SketchKind
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.site.agent import Agent
from support import NoNoise, categories

def peak():  # of this program alone: getrusage counts its parent in
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

schema = categories(256, 256)
settings = make_site(Path(sys.argv[1]), schema)
study, pair = approved_study(settings, schema), ("a0", "a1")
sent = 0
with books_of(settings) as books:
    agent = Agent(settings, books, noise=NoNoise(), log=lambda line: None)
    agent.answer(ask(study, Flat(("a0",))))
    before = peak()
    for message in (
        b"\\xff" * 2**24,
        ask(study, Sketched(pair, 64, 1, SketchKind.GAUSSIAN), share=1e-6),
        ask(study, *[Flat(pair)] * 128, share=1e-6),
        ask(study, *[Dependence(pair)] * 1024, share=1e-6),
        ask(study, Sketched(pair, 4096, 1)),
        b"\\xdd\\x7f\\xff\\xff\\xff" + b"\\xcd\\x30\\x39" * 5_000_000,
        b"\\xdb\\x7f\\xff\\xff\\xff" + b"x" * 1000,
    ):
        try:
            agent.answer(message)
            sent += 1
        except Refused:
            pass
print(sent, peak() - before)
"""


@pytest.mark.slow
def test_no_query_makes_an_agent_take_more_than_a_gigabyte_and_a_half(tmp_path: Path) -> None:
    paths = [str(Path(__file__).parent)]
    run = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(tmp_path / "measured"), *paths],
        capture_output=True,
        text=True,
        check=True,
    )
    sent, grown = map(int, run.stdout.split())
    assert sent == 3
    assert grown < 1.5 * 2**20


# Rows


def test_a_row_that_does_not_fit_changes_nothing_but_the_stewards_log(tmp_path: Path) -> None:
    answers = []
    for name, extra in (("clean", ""), ("dirty", "v0,SECRET,v1\nv99,v0,v0\n")):
        setup = Setup(tmp_path / name, NoNoise())
        with Path(setup.settings.source).open("a") as file:
            file.write(extra)
        study = approved_study(setup.settings)
        with setup.books:
            answers.append(setup.agent.answer(ask(study, PAIR)))
            spent = setup.books.account.spent
        log = " ".join(setup.lines)
        assert ("2 rows do not fit" in log) == bool(extra)
        assert "SECRET" not in log
    assert answers[0] == answers[1]
    assert spent.rho > 0


@pytest.mark.parametrize(
    "extra",
    [
        b"v0,v1\n",
        b"v0,v1,v1,v0\n",
        b"v0,v1,\xff\xfe\n",
        b"v0,\xc3\x28,v1\nv0\n",
        b"v0,\xff\n",
        b'v0,"v1,v1\n',
        b'v0,v1,"v1\xff\n',
        b'"' + b"v" * 5_000_000 + b"\n",
    ],
    ids=[
        *("too short", "too long", "no text", "two", "one of both", "an open quote"),
        *("and no text", "without end"),
    ],
)
@pytest.mark.parametrize("place", [1, 2, 10, 21])
def test_no_row_changes_whether_an_agent_answers(tmp_path: Path, extra: bytes, place: int) -> None:
    answers = []
    for name, more in (("clean", b""), ("dirty", extra)):
        setup = Setup(tmp_path / name, NoNoise())
        source = Path(setup.settings.source)
        lines = source.read_bytes().splitlines(keepends=True)
        # A quote far below would close one that was left open.
        lines[-1] = b'"' + lines[-1].replace(b",", b'","').replace(b"\n", b'"\n')
        lines.insert(place, more)
        source.write_bytes(b"".join(lines))
        study = approved_study(setup.settings)
        with setup.books:
            answers.append(setup.agent.answer(ask(study, PAIR)))
            if more:
                with pytest.raises(DataError):  # the steward hears of it before any hub asks
                    setup.another().prepare()
        log = " ".join(setup.lines)
        assert ("left out" in log) == bool(more)
        assert "v1" not in log
    assert answers[0] == answers[1]


def without_values(answer: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.msgpack.decode(answer)
    for part in fields["parts"]:
        part["data"] = len(part["data"])
    return fields


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 9, 10, 19])
def test_few_rows_or_none_are_answered_like_many(tmp_path: Path, rows: int) -> None:
    found = []
    for name, many in (("few", rows), ("many", 20)):
        setup = Setup(tmp_path / name, NoNoise())
        source = Path(setup.settings.source)
        source.write_text("".join(source.read_text().splitlines(keepends=True)[: 1 + many]))
        study = approved_study(setup.settings)
        with setup.books:
            setup.agent.prepare()
            answer = setup.agent.answer(ask(study, PAIR, Total(), Dependence(PAIR.attributes)))
            spent = setup.books.account.spent
        assert decode(answer, Answer).parts[1].values.tolist() == [many]
        found.append((len(answer), without_values(answer), spent))
    assert found[0] == found[1]


def test_a_source_that_cannot_be_read_is_like_any_other_trouble(site: Setup) -> None:
    study = approved_study(site.settings)
    rows = Path(site.settings.source).read_text()
    troubles: dict[str, Callable[[], object]] = {
        "empty": lambda: Path(site.settings.source).write_text(""),
        "no such column": lambda: Path(site.settings.source).write_text("a0,a1\nv0,v1\n"),
        "missing": Path(site.settings.source).unlink,
    }
    for name, make in troubles.items():
        make()
        refused = site.refusal(ask(study, PAIR))
        assert refused.reason is Reason.UNAVAILABLE, name
        assert "v0" not in str(refused)
    Path(site.settings.source).write_text(rows)
    site.agent.answer(ask(study, PAIR))


def test_rows_that_cannot_be_read_meet_the_steward_before_any_hub(site: Setup) -> None:
    site.agent.prepare()
    assert "read 20 rows" in site.lines[0]
    with Path(site.settings.source).open("a") as file:
        file.write("v0,v1\n")
    with pytest.raises(DataError, match="row 22"):
        site.another().prepare()


AGES = Schema.of(
    {
        "columns": [
            {"name": "age", "type": "integer", "min": 0, "max": 90, "bins": 5},
            {"name": "sex", "type": "categorical", "values": ["f", "m"]},
        ]
    }
)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("encoding", "approval"),
    [
        (AGES, "before the start"),
        (with_atoms(AGES), "before the start"),
        (with_atoms(AGES), "after it"),  # as the usual method has it
    ],
)
def test_rows_are_read_once_for_the_study_that_is_asked_next(
    tmp_path: Path, encoding: Schema, approval: str
) -> None:
    setup = Setup(tmp_path, schema=AGES, rows=0)
    Path(setup.settings.source).write_text("age,sex\n" + "30,f\n40,m\n" * 10)
    plan = make_plan(encoding, ("one", "two"))
    study = Study(plan=plan, schema=AGES.settings, quorum=1)
    older = Study(plan=make_plan(AGES, ("one", "two"), seed=9), schema=AGES.settings, quorum=1)

    def consent() -> None:
        approve(setup.settings, older, who="a steward", now=NOW)
        approve(setup.settings, study, who="a steward", now=NOW + timedelta(days=1))

    with setup.books:
        if approval == "before the start":
            consent()
        setup.agent.prepare()
        if approval == "after it":
            consent()
        for label in ("one", "two"):
            setup.agent.answer(ask(study, Flat(("age", "sex")), label=label))
    assert sum(line.startswith("read 20 rows") for line in setup.lines) == 1


@pytest.mark.quick
def test_only_studies_that_would_be_answered_say_how_rows_are_read(tmp_path: Path) -> None:
    setup = Setup(tmp_path, unit="id")
    Path(setup.settings.source).write_text("id,a0,a1,a2\n" + "7,v0,v0,v0\n" * 5)
    with setup.books:
        for seed, rows in enumerate((2, 3, 4)):
            study = approved_study(setup.settings, unit="id", rows_per_unit=rows, seed=seed)
            if rows == 2:
                kept = study
            elif rows == 3:
                withdraw(setup.settings, study.fingerprint, who="a steward", now=NOW)
            else:
                (setup.settings.studies / study.fingerprint / STUDY).write_text("damaged")
        setup.agent.prepare()
        setup.agent.answer(ask(kept, PAIR))
    assert sum(line.startswith("read 5 rows") for line in setup.lines) == 1


def test_a_surprise_in_the_rows_is_unavailable_and_quotes_nothing(
    site: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("SECRET")

    monkeypatch.setattr(agent_module, "count", fail)
    refused = site.refusal(ask(approved_study(site.settings), PAIR))
    assert refused.reason is Reason.UNAVAILABLE
    assert "SECRET" not in str(refused)


def test_a_unit_has_the_rows_it_may_contribute(tmp_path: Path) -> None:
    setup = Setup(tmp_path, NoNoise(), unit="id")
    Path(setup.settings.source).write_text("id,a0,a1,a2\n" + "7,v0,v0,v0\n" * 5 + "8,v1,v1,v1\n")
    study = approved_study(setup.settings, unit="id", rows_per_unit=2)
    with setup.books:
        assert setup.refusal(ask(make_study(), PAIR)).reason is Reason.NOT_APPROVED
        found = decode(setup.agent.answer(ask(study, Flat(("a0",)))), Answer)
    assert found.parts[0].values.tolist() == [2, 1, 0]
    assert found.parts[0].sensitivity == 2.0


def test_the_column_of_units_cannot_be_asked_for_unless_the_schema_names_it(
    tmp_path: Path,
) -> None:
    setup = Setup(tmp_path, NoNoise(), unit="id")
    source = Path(setup.settings.source)
    source.write_text("id,a0,a1,a2\n" + "NAME-OF-A-PERSON,v0,v0,v0\n" * 3)
    unnamed = approved_study(setup.settings, unit="id", rows_per_unit=2)
    with setup.books:
        for statistic in (Flat(("id",)), Flat(("id", "a0")), Flat(("a0", "id")), Haar(("id",), 0)):
            assert setup.refusal(ask(unnamed, statistic)).reason is Reason.MALFORMED
        answer = setup.agent.answer(ask(unnamed, PAIR))
    kept = [path for path in setup.settings.folder.rglob("*") if path.is_file()]
    assert len(kept) > 3
    for held in (answer, *(path.read_bytes() for path in kept), " ".join(setup.lines).encode()):
        assert b"NAME-OF-A-PERSON" not in held
    # Where the schema names it, it is a column like any other.
    named = Setup(tmp_path / "named", NoNoise(), unit="a0")
    study = approved_study(named.settings, unit="a0", rows_per_unit=2)
    with named.books:
        found = decode(named.agent.answer(ask(study, Flat(("a0",)))), Answer)
    assert found.parts[0].values.tolist() == [2, 2, 2]


def test_each_study_is_answered_from_the_rows_that_its_own_unit_may_have(tmp_path: Path) -> None:
    rows = "7,p,v0,v0,v0\n" * 5 + "8,p,v1,v1,v1\n" * 2 + "9,q,v2,v2,v1\n"
    wanted: dict[str | None, dict[int, list[int]]] = {
        "id": {3: [3, 2, 1], 1: [1, 1, 1], 2: [2, 2, 1]},
        "a0": {3: [3, 2, 1], 4: [4, 2, 1]},
        None: {1: [5, 2, 1]},
    }
    for unit, counts in wanted.items():
        setup = Setup(tmp_path / str(unit), NoNoise(), unit=unit)
        Path(setup.settings.source).write_text("id,ward,a0,a1,a2\n" + rows)
        studies = {
            most: approved_study(setup.settings, unit=unit, rows_per_unit=most) for most in counts
        }
        with setup.books:
            for label in ("once", "again, in the other order"):
                for most in counts if label == "once" else reversed(counts):
                    message = ask(studies[most], Flat(("a0",)), label=label)
                    found = decode(setup.agent.answer(message), Answer)
                    assert found.parts[0].values.tolist() == counts[most], (unit, most, label)
                    assert found.parts[0].sensitivity == most


# What a site protects, for life


PROTECTED: dict[str, tuple[str | None, list[tuple[str | None, int]]]] = {
    "records": (None, [("id", 1), ("id", 5), ("ward", 1)]),
    "people": ("id", [(None, 1), ("ward", 1), ("ward", 2)]),
}


@pytest.mark.parametrize("what", PROTECTED)
def test_a_site_answers_only_studies_that_protect_what_it_protects(
    tmp_path: Path, what: str
) -> None:
    own, others = PROTECTED[what]
    setup = Setup(tmp_path, NoNoise(), unit=own)
    Path(setup.settings.source).write_text("id,ward,a0,a1,a2\n7,p,v0,v0,v0\n7,p,v1,v1,v1\n")
    with setup.books:
        approved = approved_study(setup.settings, unit=own)
        setup.agent.answer(ask(approved, PAIR))
        for unit, most in others:
            study = make_study(unit=unit, rows_per_unit=most)
            with pytest.raises(NotApproved, match="the study protects"):
                approve(setup.settings, study, who="a steward", now=NOW)
            forge(setup.settings, study, approved)
            refused = setup.refusal(ask(study, PAIR))
            assert refused.reason is Reason.NOT_APPROVED
            assert "the study protects" in str(refused)


@pytest.mark.parametrize(("own", "other"), [(None, "id"), ("id", None), ("id", "ward")])
def test_a_ledger_protects_one_kind_of_thing_for_life_whatever_the_settings_say_later(
    tmp_path: Path, own: str | None, other: str | None
) -> None:
    setup = Setup(tmp_path, NoNoise(), unit=own)
    Path(setup.settings.source).write_text("id,ward,a0,a1,a2\n7,p,v0,v0,v0\n")
    with setup.books:
        approved = approved_study(setup.settings, unit=own)
        setup.agent.answer(ask(approved, PAIR))
    changed = replace(setup.settings, unit=other)
    (changed.folder / "site.toml").write_text(changed.to_toml())
    study = make_study(unit=other)
    with pytest.raises(NotApproved, match="one for life"):
        approve(changed, study, who="a steward", now=NOW)
    forge(changed, study, approved)
    lost = (changed.folder / "ledger").read_bytes()
    for ledger in (lost, b"", lost[: lost.index(b"\n") + 1]):
        if ledger != lost:  # whatever is lost of it, a repair remembers
            (changed.folder / "ledger").write_bytes(ledger)
            Books.repair(changed.folder, changed.anchor, changed.study_cap)
            consent = changed.studies / study.fingerprint / CONSENT
            told = msgspec.json.decode(consent.read_bytes())
            now = Books.read(changed.folder, changed.anchor).repaired
            consent.write_bytes(msgspec.json.encode(told | {"repaired": now}))
        with books_of(changed) as books:
            agent = Agent(changed, books, noise=NoNoise(), log=print)
            before = books.account
            with pytest.raises(Refused, match="one for life") as refused:
                agent.answer(ask(study, PAIR))
            assert refused.value.reason is Reason.NOT_APPROVED
            assert books.account == before


def test_a_ledger_that_does_not_say_what_it_protects_opens_and_is_told_with_its_first_charge(
    tmp_path: Path,
) -> None:
    settings = make_site(tmp_path)
    for path in (settings.folder / "ledger", settings.anchor):
        path.unlink()
    Books.create(settings.folder, settings.anchor)  # as all were until this was written down
    assert b"unit" not in settings.anchor.read_bytes()
    study = approved_study(settings)
    with books_of(settings) as books:
        agent = Agent(settings, books, noise=NoNoise(), log=print)
        assert books.account.unit == ""
        agent.answer(ask(study, PAIR))
        assert books.account.unit == "record"
        agent.answer(ask(study, PAIR, label="again"))
    assert (settings.folder / "ledger").read_bytes().count(b'"settled"') == 1
    with pytest.raises(NotApproved, match="one for life"):
        approved_study(replace(settings, unit="a0"), unit="a0")


KINDS: list[Statistic] = [
    Flat(("a0",)),
    PAIR,
    Total(),
    Haar(("a1",), 0),
    Haar(("a1",), 1),
    Dependence(("a0", "a1")),
    Sketched(("a0", "a1"), 5, 3),
    Sketched(("a0", "a1"), 7, 3, SketchKind.GAUSSIAN),
    Grouped(("a0", "a1"), ((0, 0, 1), (0, 1, 1, 0))),
]


def test_rows_that_change_within_a_person_cost_up_to_four_times_what_the_person_is_booked_at(
    tmp_path: Path,
) -> None:
    """At L = 1 one row can take another's place: the release moves by twice its sensitivity."""
    others = "1,v0,v0,v0\n2,v1,v3,v1\n3,v2,v1,v0\n"
    cells = [f"v{a},v{b},v0" for a in range(3) for b in range(4)]
    setup = Setup(tmp_path, NoNoise(), unit="id")
    study = approved_study(setup.settings, unit="id")
    found: list[Answer] = []
    with setup.books:
        for number, cell in enumerate(cells):  # each may be the one of a person's rows that counts
            Path(setup.settings.source).write_text(f"id,a0,a1,a2\n{others}9,{cell}\n")
            message = ask(study, *KINDS, share=0.005, label=f"{number}")
            found.append(decode(setup.another().answer(message), Answer))
    most = [0.0] * len(KINDS)
    for one, other in itertools.combinations(found, 2):
        for i, (first, second) in enumerate(zip(one.parts, other.parts, strict=True)):
            moved = float(((first.values - second.values) ** 2).sum())
            most[i] = max(most[i], moved / (2 * first.sigma**2) / first.rho)
    assert max(most) <= 4 + 1e-9
    assert most[3] == pytest.approx(4), "a Haar difference"
    assert most[0] == pytest.approx(2), "two counts by one each"


# Trouble with the books


def test_a_ledger_in_dispute_makes_the_site_unavailable_and_no_more(site: Setup) -> None:
    study = approved_study(site.settings)
    site.agent.answer(ask(study, PAIR))
    parent = site.settings.anchor.parent
    parent.rename(parent.with_name("gone"))
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            site.agent.answer(ask(study, PAIR, label="two"))
        assert caught.value.reason is Reason.UNAVAILABLE
        assert "anchor" in str(caught.value)
    parent.with_name("gone").rename(parent)
    site.agent.answer(ask(study, PAIR, label="two"))
    assert len(site.books.account.charges) == 2


def test_an_answer_that_was_lost_makes_its_query_unavailable_and_no_other(site: Setup) -> None:
    study = approved_study(site.settings)
    message = ask(study, PAIR)
    query = decode(site.agent.answer(message), Answer).query
    stored = site.settings.folder / "answers" / query
    data = stored.read_bytes()
    stored.unlink()
    assert site.refusal(message).reason is Reason.UNAVAILABLE
    site.agent.answer(ask(study, PAIR, label="another"))
    stored.write_bytes(data)
    assert site.agent.answer(message) == data[-len(site.agent.answer(message)) :]


# Noise


def test_no_file_option_or_variable_gives_an_agent_a_noise_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [f.name for f in fields(SiteSettings) if "seed" in f.name or "noise" in f.name]
    source = inspect.getsource(agent_module) + inspect.getsource(sys.modules[Books.__module__])
    assert "os.environ" not in source
    assert "getenv" not in source
    settings = make_site(tmp_path / "one")
    toml = settings.folder / "site.toml"
    for line in ("seed = 1", "noise_seed = 1", "noise = 'none'"):
        toml.write_text(f"{line}\n{settings.to_toml()}")
        with pytest.raises(UsageError):
            SiteSettings.load(settings.folder)
    assert isinstance(inspect.signature(Agent).parameters["noise"].default, SecureNoise)
    for name in ("SEED", "NOISE_SEED", "HETEROFEDSYN_SEED", "HETEROFEDSYN_NOISE_SEED"):
        monkeypatch.setitem(os.environ, name, "1")
    answers = []
    for name in ("two", "three"):
        setup = make_site(tmp_path / name)
        study = approved_study(setup)
        with books_of(setup) as books:
            message = ask(study, *[PAIR] * 5, share=0.05)
            answers.append(decode(Agent(setup, books, log=print).answer(message), Answer))
    assert not any(answer.simulated for answer in answers)
    values = [np.concatenate([part.values for part in answer.parts]) for answer in answers]
    assert not np.array_equal(values[0], values[1])


def test_a_budget_of_the_steward_bounds_what_a_study_gets(tmp_path: Path) -> None:
    setup = Setup(tmp_path, study_epsilon=1.0)
    with setup.books:
        study = approved_study(setup.settings, epsilon=1.0)
        refused = setup.refusal(ask(study, PAIR, PAIR, share=0.51))
        assert refused.reason is Reason.OVER_THE_CAP
        assert "study" in str(refused)
        assert setup.books.account.spent == Budget(0.0)
