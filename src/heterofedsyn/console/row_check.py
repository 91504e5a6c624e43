"""The schema check that a steward asks for: one at a time, beside the pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock, Thread

from heterofedsyn._words import MOST_CLAMPED, MOST_MISFIT, Pace
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.report.blocks import Block, Section, Table, Text, Warn
from heterofedsyn.schema import Schema
from heterofedsyn.site.counting import check
from heterofedsyn.site.misfits import (
    DETAILS,
    ROWS_TITLE,
    Tolerance,
    counted_said,
    dialect_hint,
    fit_lines,
    rule_lines,
    write_details,
)
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.sources import open_source


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

    def start(self, settings: SiteSettings, schema: Schema, about: str, *, most: int = 1) -> None:
        """Begin to read all rows of a site.

        Args:
            most: rows of one unit that count.

        Raises:
            UsageError: if rows are being read already.
        """
        with self._turn:
            if self.running is not None:
                raise UsageError("rows are being read already; wait for the end of that")
            self.running, self.progress = about, ""
        Thread(target=self._run, args=(settings, schema, about, most), daemon=True).start()

    def _run(self, settings: SiteSettings, schema: Schema, about: str, most: int) -> None:
        blocks: tuple[Block, ...] = (Warn("the check ended before all rows were read"),)
        try:
            blocks = self._look(settings, schema, most)
        except HeterofedsynError as error:
            blocks = (Warn(str(error)),)
        except OSError as error:
            blocks = (Warn(f"the rows cannot be read: {error.strerror or 'for no said reason'}"),)
        finally:
            moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            with self._turn:
                self.found, self.running = Found(about, moment, blocks), None

    def _look(self, settings: SiteSettings, schema: Schema, most: int) -> tuple[Block, ...]:
        source = open_source(settings.source)
        pace = Pace(self._hear)
        checked = check([source], schema, unit=settings.unit, max_rows_per_unit=most, watch=pace)
        blocks: list[Block] = [Text(counted_said(checked))]
        hint = dialect_hint(checked, [source], schema)
        try:
            Tolerance(MOST_MISFIT, MOST_CLAMPED).check(checked, schema, hint)
        except HeterofedsynError as error:
            blocks.append(Warn(str(error)))
        if lines := fit_lines(checked, schema):
            head = ("column", "rows that do not fit", "values clamped")
            blocks.append(Table(ROWS_TITLE, head, tuple(map(tuple, lines)), words=3))
        if lines := rule_lines(checked, schema):
            rows = tuple(map(tuple, lines))
            blocks.append(Table("Rules that rows break", ("rule", "rows"), rows, longest=300))
        if hint is not None:
            blocks.append(Text(f"Remark: {hint}"))
        blocks.append(Text(write_details(settings.folder / DETAILS, checked, schema)))
        return tuple(blocks)

    def _hear(self, text: str) -> None:
        self.progress = text
