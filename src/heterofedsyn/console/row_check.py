"""The schema check that a steward asks for: one at a time, beside the pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock, Thread

from heterofedsyn._words import Pace, sentence
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.report.blocks import Block, Section, Table, Text, Warn
from heterofedsyn.schema import Schema
from heterofedsyn.site.fitting import fit_rows
from heterofedsyn.site.misfits import ROWS_TITLE, Tolerance, counted_said, fit_lines, rule_lines
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.sources import open_source

_UNFORESEEN = (
    "the check ended before all rows were read, by an unexpected {}; please report this, but send "
    "no row"
)


@dataclass(frozen=True)
class Found:
    """What a check found, or why there was none.

    Attributes:
        about: which schema the rows were held against, in words.
    """

    about: str
    when: str
    blocks: tuple[Block, ...]

    @property
    def section(self) -> Section:
        """The same for a page, marked as private."""
        title = "Rows that do not fit"
        head = Text(f"Checked {self.when} against {self.about}.")
        return Section("rows", title, (head, *self.blocks), private=True)


class RowCheck:
    """The check that is going on, if any, and what the last one found."""

    def __init__(self) -> None:
        self._turn = Lock()
        self.running: str | None = None
        self.progress = ""
        self.found: Found | None = None

    @property
    def state(self) -> str:
        """Changes whenever a page about it should be shown anew."""
        return f"{self.running}|{self.progress}|{self.found.when if self.found else ''}"

    def start(
        self, settings: SiteSettings, schema: Schema, about: str, plan: Plan | None = None
    ) -> None:
        """Begin to read all rows of a site.

        Args:
            plan: of the study whose schema it is.

        Raises:
            UsageError: if rows are being read already.
        """
        with self._turn:
            if self.running is not None:
                raise UsageError("rows are being read already; wait for the end of that")
            self.running, self.progress = about, ""
        Thread(target=self._run, args=(settings, schema, about, plan), daemon=True).start()

    def _run(self, settings: SiteSettings, schema: Schema, about: str, plan: Plan | None) -> None:
        blocks: tuple[Block, ...] = ()
        try:
            blocks = self._look(settings, schema, plan)
        except HeterofedsynError as error:
            blocks = (Warn(str(error)),)
        except OSError as error:
            blocks = (Warn(f"the rows cannot be read: {error.strerror or 'for no said reason'}"),)
        except Exception as error:  # its text could quote a record, here and in the terminal
            blocks = (Warn(_UNFORESEEN.format(type(error).__name__)),)
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        with self._turn:
            self.found, self.running = Found(about, moment, blocks), None

    def _look(self, settings: SiteSettings, schema: Schema, plan: Plan | None) -> tuple[Block, ...]:
        source = open_source(settings.source)
        fitted = fit_rows(settings, source, schema, plan, Pace(self._hear))
        checked = fitted.checked
        blocks: list[Block] = [Text(sentence(counted_said(checked)))]
        try:
            fitted.check(Tolerance())
        except HeterofedsynError as error:
            blocks.append(Warn(str(error)))
        if lines := fit_lines(checked, schema):
            head = ("column", "rows that do not fit", "values clamped")
            blocks.append(Table(ROWS_TITLE, head, tuple(map(tuple, lines)), words=3))
        if lines := rule_lines(checked, schema):
            rows = tuple(map(tuple, lines))
            blocks.append(Table("Rules that rows break", ("rule", "rows"), rows, longest=300))
        if fitted.hint is not None:
            blocks.append(Text(f"Remark: {fitted.hint}"))
        blocks.append(Text(sentence(fitted.keep())))
        return tuple(blocks)

    def _hear(self, text: str) -> None:
        self.progress = text
