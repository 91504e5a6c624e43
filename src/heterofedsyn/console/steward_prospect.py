"""What a study would mean for a site, section by section: who asks, what leaves, what it costs."""

from __future__ import annotations

from heterofedsyn._words import aloud, percent, sentence
from heterofedsyn.console.steward_site import OwnSite
from heterofedsyn.console.study_words import words_of
from heterofedsyn.errors import HeterofedsynError
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
from heterofedsyn.protocol.promised import asked_words, promise
from heterofedsyn.protocol.study import Study
from heterofedsyn.report.blocks import Block, Facts, Folded, Section, Table, Text, Warn
from heterofedsyn.report.chances import formula_of, guess_words, in_thousand, most_right
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.promise import alone_lines, cap_lines, promise_json, remarks
from heterofedsyn.site.settings import SiteSettings


def sections_of(
    site: OwnSite, settings: SiteSettings, study: Study, account: Account
) -> list[Section]:
    """All that there is to say before a decision; of what cannot be answered, who asks for it."""
    try:
        site.foreseen(study)
    except HeterofedsynError:
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
        Text(sentence(guess_words(rho, unit))),
    ]
    figures = [("an attacker's chance", f"{rho:.4g}", formula_of(rho))]
    if plan.budget_alone != plan.budget:
        alone = plan.budget_alone.rho
        words = "If more sites collude than the study allows for, that is"
        blocks.append(Text(f"{words} {in_thousand(most_right(alone))}."))
        figures.append(("the same if more sites collude", f"{alone:.4g}", formula_of(alone)))
    blocks += [Text(sentence(line)) for line in promise(plan, rho=False)]
    blocks += [Warn(line) for line in remarks(plan, settings, account)]
    head = ("figure", "rho", "at most")
    blocks.append(Folded(Table("where these chances come from", head, tuple(figures))))
    return Section("meaning", "What is promised, and against whom", tuple(blocks))


def _leaving(site: OwnSite, study: Study) -> Section:
    """Every release, with its noise and its price."""
    plan, shown = study.plan, site.foreseen(study)
    releases = tuple(map(tuple, release_lines(shown, plan)))
    fixed = Table(
        f"every release that is fixed in advance ({len(releases):,})",
        tuple(release_head(plan)),
        releases,
        words=2,
    )
    rounds = Table(
        "all rounds",
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
    consent = f"consent is to the budget: this is what the method will ask, but {asked_words(plan)}"
    blocks = (
        Text(sentence(most_words(shown))),
        columns,
        Text(sentence(consent)),
        Folded(rounds),
        Folded(fixed),
    )
    return Section("leaving", "What would leave", blocks)


def _caps(plan: Plan, settings: SiteSettings, account: Account) -> Section:
    """What share of the table's budget it may take, what is gone already, and the figures."""
    head = ("amount", "rho", f"epsilon at delta {settings.delta:g}")
    rows = tuple(map(tuple, cap_lines(plan, settings, account)))
    blocks: list[Block] = [
        *(Text(sentence(line)) for line in _shares(plan, settings, account)),
        Folded(Table("what is spent, against the caps", head, rows)),
    ]
    if lines := alone_lines(plan, settings, account):
        rows = tuple(map(tuple, lines))
        blocks.append(Folded(Table("the same if each answer is seen by itself", head, rows)))
    return Section("caps", "What it may cost", tuple(blocks))


def _shares(plan: Plan, settings: SiteSettings, account: Account) -> list[str]:
    """The same in words: every figure is a share of all that the table may ever spend."""
    cap, most = settings.cap.rho, plan.budget.rho
    own = account.spent_on(plan.fingerprint).rho
    others = account.spent.rho - own
    left = max(0.0, cap - others - most)
    lines = [
        f"this study may take up to {percent(most / cap)} of all that this table may ever spend",
        f"other studies have taken {percent(others / cap)} of it before; if this one takes all "
        f"that it may, {percent(left / cap)} is left for others",
    ]
    if own:
        lines.append(f"this study has taken {percent(own / cap)} so far")
    return lines


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
