"""What a site demands of a study that hides answers in sums: known keys, and a price it allows."""

from __future__ import annotations

from heterofedsyn.errors import NotApproved
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import hears_sums
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.settings import SETTINGS, SiteSettings
from heterofedsyn.site.signing import Identity


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
    if plan.roster.get(settings.name) != Identity.load(settings.key).public:
        raise NotApproved(
            f"the study has another key for {settings.name!r} than {settings.key}; send key.pub to "
            "the coordinator"
        )
    if unknown := [name for name, confirmed in roster_of(settings, plan) if not confirmed]:
        raise NotApproved(
            f"the study's keys of {', '.join(unknown)} were not confirmed here; ask these sites by "
            "telephone, then `heterofedsyn site peer add`"
        )
    alone = plan.budget_alone
    if alone > cap:
        raise NotApproved(
            f"answers of the study, each seen by itself, would cost rho={alone.rho:.6g}, more than "
            f"the cap on that, rho={cap.rho:.6g} (alone_epsilon {settings.alone_epsilon:g} at "
            f"delta {settings.delta:g})"
        )


def roster_of(settings: SiteSettings, plan: Plan) -> list[tuple[str, bool]]:
    """Every other site of a study, and whether the study's key is the one confirmed here."""
    peers = Peers.load(settings.folder)
    return [
        (name, peers.confirms(name, key))
        for name, key in sorted(plan.roster.items())
        if name != settings.name
    ]


def check_own_key(settings: SiteSettings, account: Account) -> None:
    """Refuse to go on with a signing key that a repair retired.

    Raises:
        NotApproved: saying that it came back.
    """
    since = account.repairs[-1].key if account.repairs else ""
    if since and Identity.load(settings.key).public != since:
        raise NotApproved(
            f"{settings.key} is not the key that this site has since its ledger was repaired: a "
            "retired key came back, and nobody knows what was signed with it; put the new one back"
        )
