"""Agents on disk that take part in sums: a whole study, and what they refuse for good."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import HeterofedsynError, NotApproved
from heterofedsyn.hub.conversation import drive, of_study
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.replies import Reply
from heterofedsyn.hub.requests import Request
from heterofedsyn.marginals import TableCounts
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site.consent import approve, close, withdraw
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.private import AGGREGATION
from heterofedsyn.site.settings import SiteSettings
from hidden_support import agents_of, approve_all, ask_agents, hidden_study, sites_of
from site_support import NOW, WHO
from support import categories, deal, dependent_table

SCHEMA = categories(3, 4, 5, label=0)
TABLES = dict(
    zip(("elm", "fir", "oak", "yew"), deal(dependent_table(SCHEMA.domain, 2_000), 4), strict=True)
)
SEED = 3


def test_agents_and_a_simulation_give_the_same_release(tmp_path: Path) -> None:
    sites = sites_of(tmp_path, TABLES, SCHEMA)
    study = hidden_study(sites, SCHEMA, method="allmarg")
    approve_all(sites, study)
    with agents_of(sites, partial(SimulatedNoise, SEED)) as agents:
        release = drive(of_study(study), lambda request: ask_agents(agents, request))
    release.save(tmp_path / "federated", rows=50)
    method = make_method("allmarg")
    tables = [TABLES[name] for name in study.plan.sites]
    simulated = run_study(SCHEMA, study.plan, method, tables, noise_seed=SEED)
    simulated.save(tmp_path / "simulated", rows=50)
    for path in (tmp_path / "simulated").iterdir():
        assert path.read_bytes() == (tmp_path / "federated" / path.name).read_bytes(), path.name


@pytest.mark.thorough
def test_both_prices_are_booked_once_for_every_query(tmp_path: Path) -> None:
    sites = sites_of(tmp_path, TABLES, SCHEMA)
    study = hidden_study(sites, SCHEMA, quorum=3, method="allmarg")
    approve_all(sites, study)
    with agents_of(sites) as agents:
        for _ in range(2):
            drive(of_study(study), lambda request: ask_agents(agents, request))
    honest = study.plan.trust_model.alone_factor
    assert honest == 2
    for settings in sites.values():
        account = Books.read(settings.folder, settings.anchor)
        assert [charged.label for charged in account.charges] == ["one-way", "pairs"]
        assert account.spent <= study.plan.budget
        assert account.spent_alone == account.spent.times(honest)
        assert len(account.agreed) == len(account.unmasked) == 2


def test_no_file_of_a_site_holds_what_it_counted(tmp_path: Path) -> None:
    sites = sites_of(tmp_path, TABLES, SCHEMA)
    study = hidden_study(sites, SCHEMA)
    approve_all(sites, study)
    asked: list[Request] = []

    def carry(request: Request) -> list[Reply]:
        asked.append(request)
        return ask_agents(agents, request)

    with agents_of(sites, lambda name: _Nothing()) as agents:
        drive(of_study(study), carry)
        counts = TableCounts(TABLES["elm"])
        exact = [part.statistic.exact(counts).values for part in asked[1].query.parts]
    for path in (tmp_path / "elm").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert all(values.astype("<i8").tobytes() not in data for values in exact), path


class _Nothing(SimulatedNoise):
    """No noise at all: what a file holds then would be the counts themselves."""

    def __init__(self) -> None:
        super().__init__(0, "")

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        return np.zeros(terms.integers, np.int64)


class _Stop(Exception):
    pass


def stopped_before(step: str, sites: dict[str, SiteSettings], place: Path) -> dict[str, bytes]:
    """The messages of all steps for `elm`; agents have answered those before this one."""
    study = hidden_study(sites, SCHEMA)
    approve_all(sites, study)
    messages: dict[str, bytes] = {}

    def carry(request: Request) -> list[Reply]:
        messages[request.step] = request.message("elm")
        if request.step == step:
            raise _Stop
        return ask_agents(agents, request)

    with agents_of(sites) as agents, pytest.raises(_Stop):
        drive(of_study(study), carry)
    shutil.copytree(sites["elm"].folder, place)
    with agents_of(sites) as agents:
        drive(of_study(study), lambda request: ask_agents(agents, request))
    return messages


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["masked", "agree", "open"])
def test_a_site_restored_from_a_copy_of_any_step_answers_nothing_and_is_never_approved_again(
    tmp_path: Path, step: str
) -> None:
    (tmp_path / "sites").mkdir()
    sites = sites_of(tmp_path / "sites", TABLES, SCHEMA)
    elm = sites["elm"]
    messages = stopped_before(step, sites, tmp_path / "copy")
    study = hidden_study(sites, SCHEMA)
    shutil.rmtree(elm.folder)
    shutil.copytree(tmp_path / "copy", elm.folder)
    with pytest.raises(HeterofedsynError, match="older copy"):
        Books.open(elm.folder, elm.anchor)
    Books.repair(elm.folder, elm.anchor, elm.study_cap, alone_cap=elm.alone_cap)
    with agents_of({"elm": elm}) as agents:
        for message in messages.values():
            with pytest.raises(Refused) as refused:
                agents["elm"].answer(message)
            assert refused.value.reason is Reason.NOT_APPROVED
    with pytest.raises(NotApproved):
        approve(elm, study, who=WHO, now=NOW)
    assert not list((elm.folder / AGGREGATION).rglob("key"))


@pytest.mark.parametrize("end", [withdraw, close])
def test_what_opens_answers_is_gone_when_a_study_ends_here(tmp_path: Path, end: object) -> None:
    sites = sites_of(tmp_path, TABLES, SCHEMA)
    elm = sites["elm"]
    study = hidden_study(sites, SCHEMA)
    approve_all(sites, study)
    messages: list[bytes] = []

    def carry(request: Request) -> list[Reply]:
        messages.append(request.message("elm"))
        return ask_agents(agents, request)

    with agents_of(sites) as agents:
        drive(of_study(study), carry)
        assert list((elm.folder / AGGREGATION).rglob("key"))
        end(elm, study.fingerprint, who=WHO, now=NOW)  # type: ignore[operator]
        assert not list((elm.folder / AGGREGATION).rglob("key"))
        for message in messages:
            with pytest.raises(Refused) as refused:
                agents["elm"].answer(message)
            assert refused.value.reason is Reason.NOT_APPROVED
    with pytest.raises(NotApproved):
        approve(elm, study, who=WHO, now=NOW)
    shutil.rmtree(elm.studies / study.fingerprint)
    with pytest.raises(NotApproved):
        approve(elm, study, who=WHO, now=NOW)
    shutil.rmtree(elm.folder / AGGREGATION)
    with pytest.raises(NotApproved):
        approve(elm, study, who=WHO, now=NOW)
