"""The site agent: it owns rows and books, answers approved studies, and refuses everything else.

What the hub hears of a refusal is one of four reasons. A row that does not fit or cannot be read is
left out and changes none of them; everything else is for the steward.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from heterofedsyn._words import Pace, short
from heterofedsyn.errors import ProtocolError
from heterofedsyn.marginals.counts import PAIRS, Counts
from heterofedsyn.privacy.noise import NoiseSource, SecureNoise
from heterofedsyn.protocol.aggregation import AskKey, AskMasked, AskOpened, AskVote
from heterofedsyn.protocol.codec import Asked, decode_asked, study_of
from heterofedsyn.protocol.messages import Query
from heterofedsyn.protocol.plan import unit_name
from heterofedsyn.protocol.refusal import Reason, Refused, words_of
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import hears_sums
from heterofedsyn.schema import Schema, with_atoms
from heterofedsyn.site.answering import Desk
from heterofedsyn.site.consent import (
    approved,
    approved_last,
    check_not_withdrawn,
    check_study,
)
from heterofedsyn.site.counting import count
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger_unit import check_unit
from heterofedsyn.site.log import PacedLog
from heterofedsyn.site.member import Member
from heterofedsyn.site.schedule import on_tick
from heterofedsyn.site.settings import Limits, SiteSettings
from heterofedsyn.site.shelf import Shelf
from heterofedsyn.site.signing import Identity
from heterofedsyn.site.turns import Turns
from heterofedsyn.sources import open_source

MOST_WAITING = 60
"""Queries that may wait for their turn; below the service's connections, so that all can try."""

_MOST_TABLES = 2
"""Encoded tables that are kept: studies differ in their schema's atoms, in their unit, and in how
many columns they may count together."""

_MOST_READINGS = 64
"""Times that the rows are read for one study: with others between, each query may need it.

A reading that fails counts here alone: it is no fault of the study, but must come to an end too.
"""


class _Outage(Refused):
    """The rows cannot be read: no fault of the study that needs them."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.UNAVAILABLE, text)


@dataclass(frozen=True)
class _Held:
    """By what rows were encoded, whose they are, and how many columns may be counted together."""

    encoding: str
    unit: str | None
    rows_per_unit: int = 1
    together: int = PAIRS

    @classmethod
    def by(cls, study: Study) -> _Held:
        plan = study.plan
        return cls(study.encoding.fingerprint, plan.unit, plan.rows_per_unit, plan.together)


class Agent:
    """Answers the queries of approved studies from one table, however many connections ask.

    Args:
        noise: from the operating system; only a test may pass another, and no file, option or
            environment variable can.
        clock: tells when a query came, on which alone it hangs whether its study is over.
        log: takes lines for the steward; no value of a record is ever in one. What is paced may be
            left out, so whoever gives a paced log closes it.
    """

    def __init__(
        self,
        settings: SiteSettings,
        books: Books,
        *,
        noise: NoiseSource = SecureNoise(),
        clock: Callable[[], datetime] = partial(datetime.now, UTC),
        log: Callable[[str], None] | PacedLog,
    ) -> None:
        self._settings = settings
        self._books = books
        self._noise = noise
        self._clock = clock
        self._paced = PacedLog.of(log)
        self._log = self._paced.write
        self._refused: dict[str, _Refusals] = {}
        self._tables: OrderedDict[_Held, Counts] = OrderedDict()
        self._readings: Counter[str] = Counter()
        self._turns = Turns(MOST_WAITING)

    @property
    def noise(self) -> NoiseSource:
        """What its answers are noised with, to be looked at before it serves."""
        return self._noise

    def answer(self, message: bytes) -> bytes:
        """The answer to an encoded query; the same query again gets the same bytes, uncharged.

        Raises:
            Refused: and nothing else; nothing is released then.
        """
        # Not when its turn comes: how long that takes may hang on rows.
        came = self._clock()
        try:
            study = study_of(message)
            # Who has no consent, or asked too much in vain, waits for no turn and takes none.
            check_not_withdrawn(self._settings, study)
            refused = self._refused.setdefault(study, _Refusals())
            refused.check(study, self._limits(self._settings.again()))
            # One query at a time: two that fit alone must not both be answered if they do not
            # together.
            with self._turns.of(study):
                return self._in_turn(study, message, came, refused)
        except Exception as error:
            raise Refused.because_of(error) from None

    def prepare(self) -> None:
        """Read all rows once, so that what is wrong with them meets the steward and not a hub.

        They are encoded as the study that was approved last has it, or as the usual method would:
        whoever asks next then need not wait until they are read again.

        Raises:
            HeterofedsynError: saying which row of which file cannot be read.
        """
        study = approved_last(self._settings, self._books.account, self._clock())
        with self._turns.of(""):
            if study is not None:
                self._read(study.encoding, _Held.by(study), strict=True)
            else:
                usual = with_atoms(self._settings.load_schema())
                self._read(usual, _Held(usual.fingerprint, self._settings.unit), strict=True)

    def close(self) -> None:
        """Answer nobody any more but whose turn it is; who waits is told so at once."""
        self._turns.close()

    def _in_turn(self, study: str, message: bytes, came: datetime, refused: _Refusals) -> bytes:
        """The answer, unless too much work came to nothing before; counts what does."""
        now = self._settings.again()  # the wait may have been long
        limits = self._limits(now)
        refused.check(study, limits)
        worked = 0.0
        try:
            # The turn lasts until the reply leaves: a second query must not tell when the first
            # ended. Nor may it tell by being over a quota, so what was refused is counted then.
            with on_tick(max(self._settings.tick, now.tick)):
                begun = time.monotonic()
                try:
                    return self._answer(message, came, now, limits)
                finally:
                    worked = time.monotonic() - begun
        except _Outage:
            raise
        except BaseException:
            refused.queries += 1
            refused.seconds += worked
            raise

    def _limits(self, now: SiteSettings) -> Limits:
        """What held at the start and what stands in the settings now, whichever is stricter."""
        return self._settings.limits.strictest(now.limits)

    def _answer(self, message: bytes, came: datetime, now: SiteSettings, limits: Limits) -> bytes:
        asked = decode_asked(message)
        account = self._books.account
        study, consent = approved(self._settings, asked.study, account, came)
        # What was decided at the start and what stands in the settings now must both allow it.
        check_study(now, study)
        check_unit(now, account)
        shelf = Shelf(
            books=self._books,
            folder=self._settings.folder,
            study=asked.study,
            unit=unit_name(study.plan.unit),
            limits=replace(limits, study_cap=min(limits.study_cap, consent.cap)),
        )
        answer = self._reply(asked, study, shelf)
        after = self._books.account.spent
        cost = f"rho={after.rho:.6g} spent by now" if after > account.spent else "for nothing more"
        self._paced("answered", f"answered {_named(asked)} of study {short(asked.study)}: {cost}")
        return answer

    def _reply(self, asked: Asked, study: Study, shelf: Shelf) -> bytes:
        """What is said to a request of an approved study: under its trust model, and no other."""
        desk = Desk(
            site=self._settings.name,
            plan=study.plan,
            domain=study.encoding.domain,
            counts=lambda: self._counts(study),
            noise=self._noise,
            trust=study.plan.trust_model,
        )
        if hears_sums(study.plan):
            return Member(desk, Identity.load(self._settings.key), shelf).answer(asked)
        if not isinstance(asked, Query):
            raise ProtocolError(f"there is no {_named(asked)} in a study of trust 'local'")
        return desk.answer(asked, shelf)

    def _counts(self, study: Study) -> Counts:
        """The counts of the site's rows as this study encodes them, read when first needed.

        Raises:
            Refused: as unavailable, whatever is wrong: rows may be what is wrong.
        """
        held = _Held.by(study)
        if held not in self._tables:
            if self._readings[study.fingerprint] >= _MOST_READINGS:
                raise Refused(
                    Reason.UNAVAILABLE,
                    f"the rows were read {_MOST_READINGS} times for study "
                    f"{short(study.fingerprint)}; start the agent again if it may go on",
                )
            self._readings[study.fingerprint] += 1
        try:
            return self._read(study.encoding, held)
        except Exception as error:
            raise _Outage(words_of(error)) from None

    def _read(self, schema: Schema, held: _Held, *, strict: bool = False) -> Counts:
        """Rows read before a hub asks may be refused; later on, what a row holds changes nothing
        but the counts.
        """
        if held not in self._tables:
            while len(self._tables) >= _MOST_TABLES:
                self._tables.popitem(last=False)
            source = open_source(self._settings.source)
            if not strict:
                source = source.forgiving(self._log)
            counted = count(
                [source],
                schema,
                unit=held.unit,
                max_rows_per_unit=held.rows_per_unit,
                folder=self._settings.folder,
                declared=self._settings.rows,
                together=held.together,
                watch=Pace(lambda text: self._log(f"reading {source.name}: {text}")),
            )
            self._log(f"read {counted.fit.rows_read:,} rows of {source.name}")
            if remark := counted.fit.describe():
                self._log(remark)
            self._tables[held] = counted.counts
        self._tables.move_to_end(held)
        return self._tables[held]


def _named(asked: Asked) -> str:
    """A request in words for the steward."""
    match asked:
        case Query():
            return f"query {asked.label!r}"
        case AskKey():
            return "request for a key"
        case AskMasked():
            return f"query {asked.query.label!r}, masked,"
        case AskVote():
            return f"set of {len(asked.members)} sites for query {short(asked.query)}"
        case AskOpened():
            return f"opening of query {short(asked.query)}"


@dataclass
class _Refusals:
    """Work for one study that came to nothing, since the agent was started.

    It is not kept on disk: nobody but the steward starts an agent, and by doing so gives a study
    that failed by mistake another chance.
    """

    queries: int = 0
    seconds: float = 0.0

    def check(self, study: str, limits: Limits) -> None:
        if self.queries >= limits.refused_queries or self.seconds >= limits.refused_seconds:
            raise Refused(
                Reason.UNAVAILABLE,
                f"{self.queries:,} queries of study {short(study)} were refused, after "
                f"{self.seconds:,.0f} s of work; nothing of it is looked at until the agent is "
                "started again",
            )
