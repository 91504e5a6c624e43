"""Sites of sums on disk: what is restored, repaired, withdrawn or removed reveals nothing more.

Real agents with their books take part in a study. Then one site's folder is what it was before, or
lacks something, or its steward has changed his mind: whatever a hub asks, it hears nothing that it
had not heard before, and the study cannot begin there once more.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

from heterofedsyn.audit import oracle
from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.fixtures import (
    WHEN,
    temporary_folder,
)
from heterofedsyn.audit.patches import Passage, at_the_door
from heterofedsyn.audit.sums.federation import (
    NAMES,
    STEPS,
    TRUST,
    WHO,
    Federation,
    answer_of,
    ledger_of,
)
from heterofedsyn.privacy.trust import Local
from heterofedsyn.protocol import Study, decode, encode
from heterofedsyn.protocol.aggregation import (
    AskKey,
    AskMasked,
    OfferedKey,
)
from heterofedsyn.site.consent import close, withdraw
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.private import AGGREGATION
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import Identity


def checks(seed: int) -> Iterator[Check]:
    """Agents on disk, before and after something happened to one of them."""
    yield "on disk: both prices", partial(prices, seed)
    yield "on disk: started anew", partial(started_anew, seed)
    yield "on disk: older copies", partial(restored, seed)
    yield "on disk: older copies with their anchors", partial(restored_whole, seed)
    yield "on disk: studies that ended", partial(ended, seed)
    yield "on disk: files removed", partial(removed, seed)


def prices(seed: int) -> str:
    """An answer is booked at what it costs by itself, too, and there is a cap on that."""
    with temporary_folder() as place:
        sites = Federation(place, seed, room=1.6)
        first, spent = sites.first, Fraction(0)
        studies = (sites.study, sites.agree(seed + 1))
        answered = []
        for study in studies:
            for number in range(2):
                with at_the_door() as passages:
                    answered.append(_masked(sites, study, number))
                spent += _alone(passages)
                account = Books.read(first.folder, first.anchor)
                require(
                    spent <= Fraction(account.spent_alone.rho),
                    f"answers cost rho {float(spent)} by themselves, "
                    f"{account.spent_alone.rho} is booked for that",
                )
                require(
                    account.spent_alone <= first.alone_cap,  # type: ignore[operator]
                    "more is spent on answers seen alone than the cap on that",
                )
        require(answered == [True, True, True, False], "a cap on answers seen alone is not kept")
        return f"{float(spent / Fraction(account.spent_alone.rho)):.6f} of what is booked"


def _masked(sites: Federation, study: Study, number: int) -> bool:
    """Whether the first site gives a masked answer."""
    with sites.agents() as agents:
        ask = encode(AskKey(study=study.fingerprint))
        keys = tuple(decode(agent.answer(ask), OfferedKey) for agent in agents.values())
        query = sites.query(number, study)
        message = AskMasked(study=study.fingerprint, query=query, keys=keys)
        return answer_of(agents[NAMES[0]], encode(message)) is not None


def _alone(passages: list[Passage]) -> Fraction:
    """What one answer costs by itself: each part moves by 1."""
    local = Local(TRUST.sites)
    prices = [oracle.price_of(Fraction(1), p.terms.sigma, 1, local) for p in passages]
    return sum(prices, Fraction(0))


def started_anew(seed: int) -> str:
    """Agents that were stopped after every step give the same bytes, and sign one set."""
    with temporary_folder() as place:
        sites = Federation(place, seed)
        asked, said = sites.run()
        before = ledger_of(sites.first)
        with sites.agents(NAMES[0]) as agents:
            agent = agents[NAMES[0]]
            for step, message in asked.items():
                again = answer_of(agent, message)
                require(again == said[step], f"{step}: the same request gets other bytes")
            require(ledger_of(sites.first) == before, "the same requests are booked again")
        others = sites.others(asked)
        del others["a new query"]
        return f"{len(said)} steps again, {sites.check_silent(others, 'started anew')} refused"


def restored(seed: int) -> str:
    """The folder is what it was before some step, while the anchor stays; then it is repaired."""
    tried = 0
    with temporary_folder() as place:
        sites = Federation(place, seed)
        first = sites.first

        def copy(step: str) -> None:
            shutil.copytree(first.folder, place / "copies" / step)

        asked, _ = sites.run(copy)
        anchor = first.anchor.read_bytes()
        asked |= sites.others(asked)
        for step in STEPS:
            what = f"a copy from before {step}"
            _put_back(place / "copies" / step, first.folder)
            first.anchor.write_bytes(anchor)
            tried += sites.check_locked(asked, what)
            Books.repair(first.folder, first.anchor, first.study_cap, alone_cap=first.alone_cap)
            tried += sites.check_silent(asked, f"{what}, repaired")
            sites.check_over(f"{what}, repaired")
            _check_no_key(first, what)
            require(
                Identity.load(first.key).public != sites.keys[NAMES[0]],
                f"{what}, repaired: the site signs with the same key",
            )
    return f"{tried} requests for nothing"


def restored_whole(seed: int) -> str:
    """Folder and anchor are both what they were: shown what it signed, the site locks itself."""
    with temporary_folder() as place:
        sites = Federation(place, seed)

        def copy(step: str) -> None:
            shutil.copytree(place / NAMES[0], place / "copies" / step)

        asked, _ = sites.run(copy)
        tried = 0
        for step, shown in (("key", "masked"), ("masked", "open"), ("vote", "open")):
            what = f"a copy with its anchor from before {step}"
            _put_back(place / "copies" / step, place / NAMES[0])
            with sites.agents(NAMES[0]) as agents:
                agent = agents[NAMES[0]]
                if step == "masked":  # a second answer, whose list of keys is the same
                    answer_of(agent, asked["masked"])
                require(answer_of(agent, asked[shown]) is None, f"{what}: {shown} was answered")
            tried += sites.check_locked(asked, what)
    return f"{tried} requests for nothing"


def ended(seed: int) -> str:
    """Withdrawn or closed, a study is over, whatever is removed from the folder then."""
    tried = 0
    for end in (withdraw, close):
        with temporary_folder() as place:
            sites = Federation(place, seed)
            first, what = sites.first, end.__name__
            asked, _ = sites.run()
            asked |= sites.others(asked)
            end(first, sites.study.fingerprint, who=WHO, now=WHEN)
            tried += sites.check_silent(asked, what)
            _check_no_key(first, what)
            sites.check_over(what)
            for folder in (first.studies / sites.study.fingerprint, first.folder / AGGREGATION):
                shutil.rmtree(folder)
                sites.check_over(f"{what}, {folder.name} removed")
                tried += sites.check_silent(asked, f"{what}, {folder.name} removed")
    return f"{tried} requests for nothing"


def removed(seed: int) -> str:
    """Without its key or its list of keys a site answers nothing, and makes no other."""
    tried = 0
    for names in (("key",), ("list",), ("key", "list")):
        with temporary_folder() as place:
            sites = Federation(place, seed)
            asked, _ = sites.run()
            asked |= sites.others(asked)
            own = sites.first.folder / AGGREGATION / sites.study.fingerprint
            for name in names:
                (own / name).unlink()
            if names == ("list",):
                del asked["key"]
            what = f"without its {' and '.join(names)}"
            tried += sites.check_silent(asked, what)
            sites.check_over(what)
    return f"{tried} requests for nothing"


def _put_back(copy: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)


def _check_no_key(site: SiteSettings, what: str) -> None:
    kept = [*(site.folder / AGGREGATION).rglob("key")]
    require(not kept, f"{what}: the study's private key is still there")
