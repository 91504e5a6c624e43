"""What a study promises against whom, and whether the caps allow it, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heterofedsyn._words import aloud
from heterofedsyn.cli._show import say, show_table

if TYPE_CHECKING:
    from heterofedsyn.protocol.plan import Plan
    from heterofedsyn.site.ledger.entries import Account
    from heterofedsyn.site.settings import SiteSettings


def show_promise(plan: Plan, settings: SiteSettings, account: Account) -> None:
    """The promise, both prices against their caps, and whose keys are confirmed."""
    from heterofedsyn.protocol.promised import promise
    from heterofedsyn.site.promise import alone_lines, promise_json

    roster = promise_json(plan, settings, account).get("roster", [])
    if lines := alone_lines(plan, settings, account):
        head = ["", "rho", f"epsilon at delta {settings.delta:g}"]
        show_table("If each answer is seen by itself", head, lines)
    if roster:
        show_table(
            "Roster",
            ["site", "fingerprint of its key", "confirmed"],
            [[each["site"], aloud(each["fingerprint"]), each["standing"]] for each in roster],
        )
    for line in promise(plan):
        say(line)
