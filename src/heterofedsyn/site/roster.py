"""What a site demands of a study that hides answers in sums: known keys, and a price it allows."""

from __future__ import annotations

from enum import Enum

from heterofedsyn.errors import NotApproved
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import hears_sums
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.settings import SETTINGS, SiteSettings
from heterofedsyn.site.signing import Identity


class Standing(Enum):
    """What a site knows of a key that a study gives for a name."""

    OWN = "this site"
    NOT_OURS = "ANOTHER KEY than this site's"
    CONFIRMED = "yes"
    REPLACED = "ANOTHER KEY than confirmed"
    UNKNOWN = "NO"

    @property
    def good(self) -> bool:
        """Whether answers may be hidden with whoever has this key."""
        return self in (Standing.OWN, Standing.CONFIRMED)


def check_trust(settings: SiteSettings, study: Study) -> None:
    """Refuse a study that hides answers in sums unless this site can see to it itself.

    Raises:
        NotApproved: saying what is missing.
    """
    plan = study.plan
    if not hears_sums(plan):
        return
    cap = settings.alone_cap
    if cap is None:
        raise NotApproved(
            f"the study's trust model is {plan.trust!r}, under which an answer costs more if "
            "somebody sees it by itself; this site sets no cap on that, so it takes part in none: "
            f"set alone_epsilon in {SETTINGS} if it should"
        )
    if not plan.roster:
        raise NotApproved(
            "the study names no keys of sites, so nobody could check whom answers are hidden with; "
            "ask the coordinator for a study with every site's key"
        )
    _check_roster(settings, plan)
    alone = plan.budget_alone
    if alone > cap:
        raise NotApproved(
            f"answers of the study, each seen by itself, would cost rho={alone.rho:.6g}, more than "
            f"the cap on that, rho={cap.rho:.6g} (alone_epsilon {settings.alone_epsilon:g} at "
            f"delta {settings.delta:g})"
        )


def roster_of(settings: SiteSettings, plan: Plan) -> dict[str, Standing]:
    """Every site of a study in order, and what is known here of the key that the study has."""
    peers, own = Peers.load(settings.folder), Identity.load(settings.key).public

    def standing(name: str, key: str) -> Standing:
        if name == settings.name:
            return Standing.OWN if key == own else Standing.NOT_OURS
        if peers.confirms(name, key):
            return Standing.CONFIRMED
        return Standing.REPLACED if name in peers.keys else Standing.UNKNOWN

    return {name: standing(name, key) for name, key in sorted(plan.roster.items())}


def _check_roster(settings: SiteSettings, plan: Plan) -> None:
    """Refuse a study with keys that nobody here vouches for, the most alarming ones first."""
    found = roster_of(settings, plan)

    def such(standing: Standing) -> str:
        return ", ".join(name for name, each in found.items() if each is standing)

    if found.get(settings.name) is not Standing.OWN:
        raise NotApproved(
            f"the study has another key for {settings.name!r} than {settings.key}: it is an old "
            "one, or somebody replaced it; do not go on before asking the coordinator by "
            "telephone, and send key.pub again"
        )
    if replaced := such(Standing.REPLACED):
        raise NotApproved(
            f"the study has ANOTHER key for {replaced} than the one confirmed here: somebody may "
            "have replaced it; do not go on before asking there by telephone. If the key is a new "
            "one, `heterofedsyn site peer remove` the old one and `site peer add` it"
        )
    if unknown := such(Standing.UNKNOWN):
        raise NotApproved(
            f"the study's keys of {unknown} were not confirmed here; ask these sites by "
            "telephone, then `heterofedsyn site peer add`"
        )


def check_own_key(settings: SiteSettings, account: Account) -> None:
    """Refuse to go on with a signing key that a repair retired.

    Raises:
        NotApproved: saying that it came back.
    """
    since = next((one.key for one in reversed(account.repairs) if one.key), "")
    if since and Identity.load(settings.key).public != since:
        raise NotApproved(
            f"{settings.key} is not the key that this site has since its ledger was repaired: a "
            "retired key came back, and nobody knows what was signed with it; put the new one back"
        )
