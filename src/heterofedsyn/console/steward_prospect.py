"""What a study would mean for a site, section by section: who asks, what leaves, what it costs."""

from __future__ import annotations

from heterofedsyn._words import aloud, count, sentence
from heterofedsyn.console.steward_site import OwnSite
from heterofedsyn.console.study_words import words_of
from heterofedsyn.errors import NotApproved
from heterofedsyn.hub.planning.preview import (
    COLUMN_HEAD,
    ROUND_HEAD,
    column_lines,
    most_words,
    release_head,
    release_lines,
    round_lines,
)
from heterofedsyn.protocol.plan import Plan, protected
from heterofedsyn.protocol.promised import promise
from heterofedsyn.protocol.study import Study
from heterofedsyn.report.blocks import Block, Facts, Section, Table, Text, Warn
from heterofedsyn.report.chances import formula_of, guess_words, in_thousand, most_right
from heterofedsyn.site.consent import check_schema
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.promise import alone_lines, cap_lines, promise_json, remarks
from heterofedsyn.site.settings import SiteSettings


def sections_of(
    site: OwnSite, settings: SiteSettings, study: Study, account: Account
) -> list[Section]:
    """All that there is to say before a decision; nothing is computed for another schema.

    Raises:
        HeterofedsynError: if no site could answer it.
    """
    try:
        check_schema(settings, study)
    except NotApproved:
        return [_who_asks(study)]
    return [
        _who_asks(study),
        _meaning(study.plan, settings, account),
        _leaving(site, study),
        _caps(study.plan, settings, account),
        *_roster(study.plan, settings, account),
    ]


def _who_asks(study: Study) -> Section:
    plan = study.plan
    return words_of(
        plan.said_about,
        ("Sites", ", ".join(plan.sites)),
        ("Sites that must answer", f"{study.quorum} of {len(plan.sites)}"),
        ("Method", plan.method),
        ("Fingerprint of the schema", study.public.fingerprint),
    )


def _meaning(plan: Plan, settings: SiteSettings, account: Account) -> Section:
    """The promise in words, and as the chance of an attacker."""
    rho, unit = plan.budget.rho, protected(plan.unit)
    blocks: list[Block] = [
        Facts(
            (
                ("Epsilon", f"{plan.epsilon:g}"),
                ("Delta", f"{plan.delta:g}"),
                ("Protected", f"every {unit}"),
                ("Rows of one that count", f"{plan.rows_per_unit:,}"),
                ("Trust", plan.trust),
            )
        ),
        Text(sentence(f"{guess_words(rho, unit)} ({formula_of(rho)}, rho {rho:.4g})")),
    ]
    if plan.budget_alone != plan.budget:
        alone = plan.budget_alone.rho
        blocks.append(
            Text(
                "If more sites collude than the study allows for, that is "
                f"{in_thousand(most_right(alone))} (rho {alone:.4g})."
            )
        )
    blocks += [Text(sentence(line)) for line in promise(plan)]
    blocks += [Warn(line) for line in remarks(plan, settings, account)]
    return Section("meaning", "What is promised, and against whom", tuple(blocks))


def _leaving(site: OwnSite, study: Study) -> Section:
    """Every release, with its noise and its price."""
    plan, shown = study.plan, site.foreseen(study)
    releases = tuple(map(tuple, release_lines(shown, plan)))
    fixed = Table(
        f"Fixed in advance: {count(len(releases), 'release')}",
        tuple(release_head(plan)),
        releases,
        words=2,
    )
    rounds = Table(
        "All rounds",
        tuple(ROUND_HEAD),
        tuple(map(tuple, round_lines(shown))),
        words=2,
    )
    columns = Table(
        "About each column, at most",
        tuple(COLUMN_HEAD),
        tuple(map(tuple, column_lines(shown))),
        words=4,
        longest=200,
    )
    consent = (
        "Consent is to the budget: this is what the method will ask, but the agent answers any "
        "statistic that the hub asks for within it."
    )
    blocks = (Text(sentence(most_words(shown))), columns, rounds, fixed, Text(consent))
    return Section("leaving", "What would leave", blocks)


def _caps(plan: Plan, settings: SiteSettings, account: Account) -> Section:
    head = ("amount", "rho", f"epsilon at delta {settings.delta:g}")
    blocks: list[Block] = [
        Table("Against the caps", head, tuple(map(tuple, cap_lines(plan, settings, account))))
    ]
    if lines := alone_lines(plan, settings, account):
        rows = tuple(map(tuple, lines))
        blocks.append(Table("If each answer is seen by itself", head, rows))
    return Section("caps", "What it may cost", tuple(blocks))


def _roster(plan: Plan, settings: SiteSettings, account: Account) -> list[Section]:
    """Whose keys hide the answers, where there are any."""
    roster = promise_json(plan, settings, account).get("roster", [])
    if not roster:
        return []
    rows = tuple((each["site"], each["standing"], aloud(each["fingerprint"])) for each in roster)
    table = Table("Roster", ("site", "confirmed", "fingerprint of its key"), rows, 3, 100)
    words = (
        "Answers are hidden among these sites. Confirm a key by telephone with `heterofedsyn site "
        "peer add`; a study is approved only if all are."
    )
    return [Section("roster", "Whose keys", (table, Text(words)))]
