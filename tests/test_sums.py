"""A hub gets the sum over the sites that gave a masked answer, or nothing; whoever drops out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from heterofedsyn.errors import JournalError, ProtocolError, QuorumLost
from heterofedsyn.hub import Absence, Release, Request, drive, load, of_study
from heterofedsyn.hub.journal import Journal
from heterofedsyn.hub.quorum import MOST_FACTOR, Sets
from heterofedsyn.hub.replies import NO_ANSWER, SUM, Reply, Round
from heterofedsyn.hub.steps import AGREE, KEYS, MASKED, OPEN
from heterofedsyn.hub.sums import check_totals
from heterofedsyn.marginals.statistics import Flat, Haar, Statistic, Total
from heterofedsyn.masking.shamir import SHARE_BYTES
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Answer, Part, Query, decode, encode
from heterofedsyn.protocol.aggregation import Masked, OfferedKey, Opened, Told, Vote
from heterofedsyn.simulate.run import summed
from heterofedsyn.site import Site
from sums_support import NAMES, NOISE_SEED, Federation
from support import released

pytestmark = pytest.mark.thorough

SETTINGS = [
    (c, t, q) for c in (3, 4, 5) for t in range(1, c - 1) for q in range((c + t) // 2 + 1, c + 1)
]
LATE = [(c, t, q) for c, t, q in SETTINGS if q < c]
STEPS = (KEYS, MASKED, AGREE, OPEN)
Away = Callable[[Request, str], bool]


class Stop(Exception):
    """The hub is killed."""


def heard(federation: Federation, carry: Callable[[Request], Sequence[Reply]]) -> list[Round]:
    """Every finished round of a study."""
    talk, rounds = of_study(federation.study), list[Round]()
    request = next(talk)
    while True:
        round_ = request.check(carry(request))
        if request.step == OPEN:
            rounds.append(round_)
        try:
            request = talk.send(round_)
        except StopIteration:
            return rounds


def plain_sum(federation: Federation, query: Query, members: Sequence[str]) -> Answer:
    """The sum over sites as a driver that sees every answer forms it."""
    plan = federation.plan
    tables = dict(zip(plan.sites, federation.tables, strict=True))
    sites = [
        Site(name, tables[name], plan, SimulatedNoise(NOISE_SEED, name), trust=plan.trust_model)
        for name in members
    ]
    return summed([decode(site.answer(encode(query)), Answer) for site in sites])


def check_sums(federation: Federation, rounds: Sequence[Round], members: Sequence[str]) -> None:
    """All rounds are sums over these sites, as a driver that sees every answer forms them."""
    assert rounds
    for round_ in rounds:
        assert round_.members == tuple(members)
        assert round_.answers == (plain_sum(federation, round_.query, round_.members),)


def missing(step: str, gone: Collection[str], number: int | None = None) -> Away:
    """Sites that are away in a step of all queries, or of one."""

    def away(request: Request, site: str) -> bool:
        there = request.step != step or number not in (None, request.query.number)
        return not there and site in gone

    return away


def files_of(release: Release, folder: Path) -> dict[str, bytes]:
    place = release.save(folder)
    return {path.name: path.read_bytes() for path in place.iterdir()}


# EVERYBODY IS THERE


@pytest.mark.parametrize(("c", "t", "q"), SETTINGS)
def test_masked_sites_give_the_release_of_a_simulation_byte_for_byte(
    c: int, t: int, q: int, tmp_path: Path
) -> None:
    federation = Federation(c, colluding=t, quorum=q)
    masked = drive(of_study(federation.study), federation.carry)
    assert files_of(masked, tmp_path / "a") == files_of(federation.simulated(), tmp_path / "b")


@pytest.mark.quick
def test_a_release_of_sums_says_who_is_in_them_and_can_be_read_back(tmp_path: Path) -> None:
    federation = Federation(3, method="wavetree")
    release = drive(of_study(federation.study), federation.carry)
    release.save(tmp_path / "release")
    found = load(tmp_path / "release").privacy
    assert found == release.privacy
    assert (found.colluding, found.quorum) == (1, 3)
    assert found.rho_alone == pytest.approx(2 * found.rho)
    assert not isinstance(found.sums, msgspec.UnsetType)
    assert {each.sites for each in found.sums} == {NAMES[:3]}
    assert [each.label for each in found.sums] == [c.label for c in found.sites[0].charges]


def test_keys_are_asked_for_once_and_every_query_takes_three_steps() -> None:
    federation = Federation(3, method="wavetree")
    drive(of_study(federation.study), federation.carry)
    places = list(dict.fromkeys(place for place, *_ in federation.said))
    many = (len(places) - 1) // 3
    steps = [f"{n:04}-{step}" for n in range(1, many + 1) for step in (MASKED, AGREE, OPEN)]
    assert many >= 3
    assert places == [KEYS, *steps]


def test_every_site_but_in_the_last_step_hears_the_same_bytes() -> None:
    federation = Federation(4)
    drive(of_study(federation.study), federation.carry)
    for place, group in itertools.groupby(federation.said, key=lambda said: said[0]):
        messages = {message for _, _, message, _ in group}
        assert len(messages) == (4 if place.endswith(OPEN) else 1)


# SITES DROP OUT


@pytest.mark.parametrize(("c", "t", "q"), LATE)
def test_whoever_gave_no_masked_answer_is_outside_of_that_sum_and_asked_again(
    c: int, t: int, q: int
) -> None:
    for gone in itertools.combinations(NAMES[:c], c - q):
        federation = Federation(c, colluding=t, quorum=q)
        rounds = heard(federation, federation.without(missing(MASKED, gone, number=0)))
        left = [name for name in NAMES[:c] if name not in gone]
        check_sums(federation, rounds[:1], left)
        check_sums(federation, rounds[1:], NAMES[:c])
        assert [absence.site for absence in rounds[0].absent] == sorted(gone)
        assert not rounds[1].absent


@pytest.mark.parametrize(("c", "t", "q"), SETTINGS)
def test_sites_that_vanish_after_a_sum_of_all_do_not_change_it(c: int, t: int, q: int) -> None:
    trust = SecureAggregation(c, t, q)
    for step, most in ((AGREE, c - trust.signatures), (OPEN, c - trust.shares)):
        for many in range(1, most + 1):
            federation = Federation(c, colluding=t, quorum=q)
            gone = {*NAMES[:many]}
            rounds = heard(federation, federation.without(missing(step, gone)))
            check_sums(federation, rounds, NAMES[:c])
            assert not rounds[0].absent


@pytest.mark.parametrize(("c", "t", "q"), SETTINGS)
@pytest.mark.parametrize("step", STEPS)
def test_with_too_few_sites_a_step_waits_until_one_is_back(
    c: int, t: int, q: int, step: str, tmp_path: Path
) -> None:
    trust = SecureAggregation(c, t, q)
    here = {KEYS: c, MASKED: q, AGREE: trust.signatures, OPEN: trust.shares}[step]
    federation = Federation(c, colluding=t, quorum=q)
    whole = files_of(federation.simulated(), tmp_path / "simulated")
    gone = {*NAMES[: c - here + 1]}
    journal = Journal.create(tmp_path / "rounds", federation.study)
    with pytest.raises(QuorumLost, match="--resume") as lost:
        drive(of_study(federation.study), federation.without(missing(step, gone)), journal)
    assert all(f"site {name!r} {NO_ANSWER}" in str(lost.value) for name in gone)
    resumed = Journal.open(tmp_path / "rounds", federation.study)
    release = drive(of_study(federation.study), federation.carry, resumed)
    assert files_of(release, tmp_path / "release") == whole
    paid = {account.site: account.rho for account in release.privacy.sites}
    for name, memory in federation.memories.items():
        assert memory.ledger.spent.rho == pytest.approx(paid[name], rel=1e-12)


@pytest.mark.parametrize(("c", "t", "q"), LATE)
def test_a_sum_over_fewer_waits_for_every_member_and_is_the_same_when_it_is_back(
    c: int, t: int, q: int, tmp_path: Path
) -> None:
    late, lost = NAMES[0], NAMES[1]
    federation = Federation(c, colluding=t, quorum=q)

    def away(request: Request, site: str) -> bool:
        if request.step == MASKED:
            return request.query.number == 0 and site == late
        return request.step == OPEN and site == lost

    journal = Journal.create(tmp_path / "rounds", federation.study)
    with pytest.raises(QuorumLost, match=f"cannot be opened without them: site {lost!r}"):
        drive(of_study(federation.study), federation.without(away), journal)
    later = heard_from(federation, journal)
    check_sums(federation, later[:1], [name for name in NAMES[:c] if name != late])
    check_sums(federation, later[1:], NAMES[:c])


def heard_from(federation: Federation, journal: Journal) -> list[Round]:
    """Every round of a study that is resumed, with everybody there."""

    def carry(request: Request) -> Sequence[Reply]:
        return journal.find(request) or federation.carry(request)

    return heard(federation, carry)


def test_a_release_tells_who_missed_which_sum(tmp_path: Path) -> None:
    federation = Federation(5, quorum=4, method="wavetree")

    def away(request: Request, site: str) -> bool:
        return request.step == MASKED and site == NAMES[request.query.number % 2]

    release = drive(of_study(federation.study), federation.without(away))
    release.save(tmp_path / "release")
    assert load(tmp_path / "release").run == release.run
    sums = release.privacy.sums
    assert not isinstance(sums, msgspec.UnsetType)
    assert not isinstance(release.run.missed, msgspec.UnsetType)
    for number, each in enumerate(sums):
        assert each.sites == tuple(name for name in NAMES if name != NAMES[number % 2])
    found = [(missed.site, missed.round, missed.reason) for missed in release.run.missed]
    assert found == [(NAMES[n % 2], n + 1, NO_ANSWER) for n in range(len(sums))]
    assert f"birch {NO_ANSWER} in round 1 (total) and is not in its sum" in release.run.remarks
    assert {account.rho for account in release.privacy.sites} == {release.privacy.sites[0].rho}


# THE HUB IS KILLED


@pytest.mark.parametrize("quorum", [3, 4])
def test_a_hub_killed_at_any_step_ends_with_the_same_release(quorum: int, tmp_path: Path) -> None:
    """Also where a set of fewer was fixed before, and everybody is there later."""

    def away(request: Request, site: str) -> bool:
        return quorum < 4 and request.step == MASKED and request.query.number == 0 and site == "oak"

    federation = Federation(4, quorum=quorum)
    whole = drive(of_study(federation.study), federation.without(away))
    expected = files_of(whole, tmp_path / "whole")
    places = list(dict.fromkeys(place for place, *_ in federation.said))
    for killed in places:
        for answered in (False, True):
            _fresh(federation)
            carry = federation.without(away)

            def stopping(
                request: Request,
                killed: str = killed,
                answered: bool = answered,
                carry: Callable[[Request], list[Reply]] = carry,
            ) -> list[Reply]:
                if request.place == killed:
                    if answered:
                        carry(request)
                    raise Stop
                return carry(request)

            folder = tmp_path / f"{killed}-{answered}"
            with pytest.raises(Stop):
                drive(
                    of_study(federation.study), stopping, Journal.create(folder, federation.study)
                )
            before = [said for said in federation.said if said[0] == killed]
            federation.said.clear()
            journal = Journal.open(folder, federation.study)
            release = drive(of_study(federation.study), carry, journal)
            assert files_of(release, tmp_path / f"{killed}-{answered}-release") == expected
            again = [said for said in federation.said if said[0] == killed]
            assert not answered or again == before  # the same bytes, both ways


def _fresh(federation: Federation) -> None:
    """Sites that remember nothing of an earlier run, with the same keys and noise."""
    for name, table in zip(federation.plan.sites, federation.tables, strict=True):
        federation.members[name] = federation._member(name, table)
    federation.said.clear()


def test_a_step_that_was_sent_is_sent_again_in_the_same_bytes_or_not_at_all(tmp_path: Path) -> None:
    federation = Federation(3)
    journal = Journal.create(tmp_path / "rounds", federation.study)
    drive(of_study(federation.study), federation.carry, journal)
    for path in sorted((tmp_path / "rounds").glob("*.query")):
        kept = path.with_suffix(".round").read_bytes()
        sent = path.read_bytes()
        path.with_suffix(".round").unlink()
        path.write_bytes(sent[:-1] + bytes([sent[-1] ^ 1]))
        with pytest.raises(JournalError, match="another query than would be asked now"):
            drive(of_study(federation.study), federation.carry, journal)
        path.write_bytes(sent)
        path.with_suffix(".round").write_bytes(kept)


def test_a_resumed_hub_forms_the_set_that_it_formed_before(tmp_path: Path) -> None:
    """A site that comes back after `masked` was kept is not in that sum: others signed it."""
    federation = Federation(4, quorum=3)

    def away(request: Request, site: str) -> bool:
        if request.step == AGREE:
            raise Stop
        return site == "elm" and request.step == MASKED

    folder = tmp_path / "rounds"
    with pytest.raises(Stop):
        drive(
            of_study(federation.study),
            federation.without(away),
            Journal.create(folder, federation.study),
        )
    release = drive(
        of_study(federation.study), federation.carry, Journal.open(folder, federation.study)
    )
    sums = release.privacy.sums
    assert not isinstance(sums, msgspec.UnsetType)
    assert "elm" not in sums[0].sites
    assert all("elm" in each.sites for each in sums[1:])


def test_no_answer_of_a_single_site_is_at_the_hub(tmp_path: Path) -> None:
    """Neither in the journal nor in what it can be combined with by adding or taking away."""
    federation = Federation(3)
    journal = Journal.create(tmp_path / "rounds", federation.study)
    drive(of_study(federation.study), federation.carry, journal)
    kept = b"".join(path.read_bytes() for path in sorted((tmp_path / "rounds").iterdir()))
    for round_ in heard_from(federation, journal):
        for name in federation.plan.sites:
            alone = plain_sum(federation, round_.query, [name])
            for part in alone.parts:
                assert part.data not in kept


# SITES LIE


def replaced(kind: type[Any], site: str, change: Callable[[Any], object]) -> Any:
    """Changes the messages of one kind that one site sends."""

    def changed(request: Request, name: str, data: bytes) -> object:
        if name != site or request.kind is not kind:
            return data
        found = change(decode(data, kind))
        return encode(found) if isinstance(found, msgspec.Struct) else found

    return changed


def other(message: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(message, **fields)


WRONG_KEYS: dict[str, Callable[[OfferedKey], object]] = {
    "does not bear its signature": lambda key: other(key, signature=bytes(64)),
    "no key for this study": lambda key: other(key, key=bytes(32)),
    "sent something else": lambda key: b"garbage",
    "answered for another site": lambda key: other(key, site="oak"),
}


@pytest.mark.parametrize("said", WRONG_KEYS)
def test_a_wrong_key_stops_the_study_before_any_query_and_names_the_site(said: str) -> None:
    federation = Federation(3)
    change = replaced(OfferedKey, "elm", WRONG_KEYS[said])
    if said == "no key for this study":  # vouched for by its own site, and still none
        identity = federation.identities["elm"]

        def low(key: OfferedKey) -> OfferedKey:
            unsigned = other(key, key=bytes(32))
            signed: OfferedKey = other(unsigned, signature=identity.sign(unsigned.signed))
            return signed

        change = replaced(OfferedKey, "elm", low)
    with pytest.raises(QuorumLost, match=f"every site must offer a key.*site 'elm' .*{said}"):
        heard(federation, federation.changed(change))
    assert {place for place, *_ in federation.said} == {KEYS}


def test_one_key_under_two_names_names_both() -> None:
    federation = Federation(3)
    first: list[OfferedKey] = []

    def copied(request: Request, site: str, data: bytes) -> object:
        if request.step != KEYS:
            return data
        first.append(decode(data, OfferedKey))
        if site != "Fir":
            return data
        unsigned = other(first[-1], key=first[0].key)
        return encode(other(unsigned, signature=federation.identities[site].sign(unsigned.signed)))

    with pytest.raises(QuorumLost, match=r"'Fir' offered the key of another.*'birch' offered"):
        heard(federation, federation.changed(copied))


WRONG_MASKED: dict[str, Callable[[Masked], object]] = {
    "answered another query": lambda m: other(m, query="0" * 64),
    "sent a masked answer of the wrong length": lambda m: other(m, data=m.data[:-8]),
    "did not share its self seed with every other site": lambda m: other(m, shares=m.shares[1:]),
    "sealed a share of the wrong length": lambda m: other(
        m, shares=(other(m.shares[0], data=bytes(10**6)), *m.shares[1:])
    ),
    "sent something else than an answer": lambda m: b"garbage",
    NO_ANSWER: lambda m: None,
}


@pytest.mark.parametrize("said", WRONG_MASKED)
def test_a_wrong_masked_answer_is_outside_of_the_sum(said: str) -> None:
    federation = Federation(4, quorum=3)
    carry = federation.changed(replaced(Masked, "elm", WRONG_MASKED[said]))
    rounds = heard(federation, carry)
    check_sums(federation, rounds, ("birch", "Fir", "oak"))
    assert {round_.absent for round_ in rounds} == {(Absence("elm", said),)}


def test_real_sums_take_no_noise_of_a_simulation() -> None:
    federation = Federation(3)

    def carry(request: Request) -> list[Reply]:
        federation.carry(request)
        said = {site: data for place, site, _, data in federation.said if place == request.place}
        return [request.read(site, data) for site, data in said.items()]

    with pytest.raises(QuorumLost, match="used the noise of a simulation"):
        heard(federation, carry)


WRONG_VOTES: dict[str, Callable[[Vote], object]] = {
    "signed another set of sites": lambda vote: other(vote, signature=bytes(64)),
    "signed for another query": lambda vote: other(vote, query="0" * 64),
    "answered for another site": lambda vote: other(vote, site="birch"),
    "sent something else": lambda vote: b"",
}


@pytest.mark.parametrize("said", WRONG_VOTES)
def test_a_wrong_vote_does_not_count(said: str) -> None:
    change = replaced(Vote, "elm", WRONG_VOTES[said])
    federation = Federation(5, quorum=4)
    check_sums(federation, heard(federation, federation.changed(change)), NAMES)
    federation = Federation(3)
    with pytest.raises(QuorumLost, match=f"signatures of 3 of the 3 .*site 'elm' {said}"):
        heard(federation, federation.changed(change))


WRONG_OPENED: dict[str, Callable[[Opened], object]] = {
    "told a wrong self seed": lambda opened: other(opened, seed=bytes(16)),
    "opened another sum": lambda opened: other(opened, query="0" * 64),
    "did not tell the masks": lambda opened: other(opened, seeds=(Told("Fir", bytes(32)),)),
    "sent something else": lambda opened: b"garbage",
}


@pytest.mark.parametrize("said", WRONG_OPENED)
def test_who_opens_wrongly_counts_as_silent_and_is_named_where_it_is_needed(said: str) -> None:
    change = replaced(Opened, "elm", WRONG_OPENED[said])
    federation = Federation(4, quorum=3)
    check_sums(federation, heard(federation, federation.changed(change)), NAMES[:4])
    federation = Federation(4, quorum=3)

    def late(request: Request) -> list[Reply]:
        away = federation.without(lambda r, site: r.step == MASKED and site == "oak")
        return away(request) if request.step == MASKED else federation.changed(change)(request)

    with pytest.raises(QuorumLost, match=f"cannot be opened without them: site 'elm' .*{said}"):
        heard(federation, late)


@pytest.mark.parametrize("wrong", range(3))
def test_wrong_shares_are_dropped_and_nobody_is_accused(wrong: int) -> None:
    """Of five sites one is silent, and some of the others open their share of its seed wrongly."""
    federation = Federation(5, quorum=4)
    liars = [name for name in NAMES if name != "oak"][:wrong]

    def carry(request: Request) -> list[Reply]:
        def change(request: Request, site: str, data: bytes) -> object:
            if request.step != OPEN or site not in liars:
                return data
            opened = decode(data, Opened)
            shares = tuple(other(share, data=bytes(SHARE_BYTES)) for share in opened.shares)
            return encode(other(opened, shares=shares))

        return [
            Absence(site, NO_ANSWER)
            if request.step == OPEN and site == "oak"
            else federation.ask(request, site, change)
            for site in request.asked
        ]

    check_sums(federation, heard(federation, carry), NAMES)


def test_with_too_few_good_shares_the_silent_site_is_waited_for() -> None:
    federation = Federation(5, quorum=4)

    def carry(request: Request) -> list[Reply]:
        def change(request: Request, site: str, data: bytes) -> object:
            if request.step != OPEN or site == "birch":
                return data
            return encode(other(decode(data, Opened), shares=()))

        return [
            Absence(site, NO_ANSWER)
            if request.step == OPEN and site == "oak"
            else federation.ask(request, site, change)
            for site in request.asked
        ]

    with pytest.raises(QuorumLost, match="with so few others: site 'oak' gave no answer") as lost:
        heard(federation, carry)
    assert not any(name in str(lost.value) for name in ("birch", "elm", "Fir", "pine"))


def test_a_wrong_pair_seed_leaves_no_sum_and_one_clear_line() -> None:
    federation = Federation(4, quorum=3)

    def carry(request: Request) -> list[Reply]:
        def change(request: Request, site: str, data: bytes) -> object:
            if request.step == MASKED and site == "oak":
                return None
            if request.step == OPEN and site == "elm":
                opened = decode(data, Opened)
                return encode(other(opened, seeds=(Told("oak", bytes(32)),)))
            return data

        return federation.changed(change)(request)

    with pytest.raises(ProtocolError, match="nobody can say which site is at fault") as stopped:
        heard(federation, carry)
    assert not isinstance(stopped.value, QuorumLost)


def test_a_site_of_too_many_rows_stops_a_sum_that_cannot_be_true() -> None:
    federation = Federation(3)
    few = msgspec.structs.replace(federation.study, most_rows=1_000)
    federation.study = few
    with pytest.raises(ProtocolError, match="over 3 sites cannot be true: it told of more rows"):
        heard(federation, federation.carry)


# WHAT THE TABLES OF A SUM MUST HAVE IN COMMON


def table_round(*tables: tuple[Statistic, Sequence[int], float], members: str = "abc") -> Round:
    """A round of one sum in which tables tell these counts."""
    query = Query(
        study="s", number=0, label="q", parts=tuple(Part(kind, 0.1) for kind, _, _ in tables)
    )
    parts = tuple(released(list(values), sigma) for _, values, sigma in tables)
    answer = Answer(study="s", query=query.fingerprint, site=SUM, simulated=True, parts=parts)
    return Round(query, (answer,), members=tuple(members))


@pytest.mark.parametrize("apart", [0, 20, 22, 23, 24, 200, -200])
def test_tables_over_the_same_rows_tell_the_same_total_within_their_noise(apart: int) -> None:
    # The standard deviation of the difference is sqrt(2 * 2 + 4) = sqrt(8) = 2.83.
    round_ = table_round((Flat(("x",)), [500, 500], 2.0**0.5), (Flat(("y",)), [1_000 + apart], 2.0))
    if abs(apart) <= 8 * 8**0.5:
        check_totals(round_)
        return
    with pytest.raises(ProtocolError, match="tell different numbers of rows"):
        check_totals(round_)


def test_what_does_not_count_every_row_once_is_no_table_to_compare() -> None:
    check_totals(table_round((Flat(("x",)), [1_000], 1.0), (Haar(("x",), 0), [3], 1.0)))


def test_the_totals_of_a_simulated_sum_must_agree_too() -> None:
    federation = Federation(3)
    study = msgspec.structs.replace(
        federation.study, plan=other(federation.plan, aggregation=msgspec.UNSET)
    )
    talk = of_study(study)
    request = next(talk)
    assert request.asked == (SUM,)
    federation.plan = study.plan
    good = plain_sum(federation, request.query, federation.plan.sites)
    assert request.check([good]).members == federation.plan.sites
    first = good.parts[0]
    swollen = np.array(first.values) + 5_000
    bad = other(good, parts=(other(first, data=swollen.astype("<i8").tobytes()), *good.parts[1:]))
    with pytest.raises(ProtocolError, match="tell different numbers of rows"):
        request.check([bad])


# SUMS OVER DIFFERENT SETS


def taken(roll: Sets, round_: Round) -> tuple[float, Sets]:
    found = roll.take(round_)
    assert isinstance(found.roll, Sets)
    return found.factor, found.roll


def test_later_sums_are_scaled_to_the_first_set_that_told_a_total() -> None:
    roll = Sets(tuple("abcd"), 3)
    factor, roll = taken(roll, table_round((Total(), [1_000], 1.0), members="abcd"))
    assert factor == 1
    factor, roll = taken(roll, table_round((Total(), [800], 1.0), members="abc"))
    assert factor == pytest.approx(1_000 / 800)
    # What is known of a set by now counts, by inverse variance; tables of pairs tell it too.
    pairs = table_round((Flat(("x", "y")), [500, 500], 0.5), members="abc")
    factor, roll = taken(roll, pairs)
    assert factor == pytest.approx(1_000 / ((800 + 2 * 1_000) / 3))
    factor, roll = taken(roll, table_round((Haar(("x",), 0), [3], 1.0), members="abd"))
    assert factor == 1  # nothing is known of this set
    factor, _ = taken(roll, table_round((Total(), [1_000], 1.0), members="abcd"))
    assert factor == 1


def test_more_sites_never_have_fewer_rows_and_a_set_beside_may_have_either() -> None:
    first = Sets(tuple("abcd"), 3).take(table_round((Total(), [900], 1.0), members="abc")).roll
    assert isinstance(first, Sets)
    for members, told, expected in (
        ("abcd", 1_000, 0.9),
        ("abcd", 800, 1.0),
        ("abd", 1_000, 0.9),
        ("abd", 800, 1.125),
        ("ab", 1_000, 1.0),
    ):
        factor, _ = taken(first, table_round((Total(), [told], 1.0), members=members))
        assert factor == pytest.approx(expected)


@pytest.mark.parametrize("told", [10 * MOST_FACTOR + 1, 10 / MOST_FACTOR - 0.2, -3.0])
def test_a_set_that_is_far_from_the_first_stops_the_study(told: float) -> None:
    scale = 1_000
    roll = Sets(tuple("abcd"), 3)
    _, roll = taken(roll, table_round((Total(), [10 * scale], 1.0), members="abc"))
    with pytest.raises(ProtocolError, match="beyond 10 times"):
        roll.take(table_round((Total(), [round(told * scale)], 1.0), members="abd"))
