"""A site's own rows held against a schema, for its steward."""

from __future__ import annotations

from dataclasses import dataclass

from heterofedsyn.protocol.plan import Plan
from heterofedsyn.schema import Schema
from heterofedsyn.site.counting import check
from heterofedsyn.site.misfits import DETAILS, Checked, Tolerance, dialect_hint, write_details
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.sources import Source, Watch


@dataclass(frozen=True, eq=False)
class Fitted:
    """How the rows fit, and what else is known of how to mend them."""

    settings: SiteSettings
    schema: Schema
    checked: Checked
    hint: str | None

    def check(self, tolerance: Tolerance) -> None:
        """Refuse rows of which too many are wrong.

        Raises:
            DataError: saying how many, why, and what to do.
        """
        tolerance.check(self.checked, self.schema, self.hint)

    def keep(self) -> str:
        """Write down which rows do not fit, in the site's folder; returns where, in words.

        Raises:
            HeterofedsynError: if that cannot be written.
        """
        return write_details(self.settings.folder / DETAILS, self.checked, self.schema)


def fit_rows(
    settings: SiteSettings, source: Source, schema: Schema, plan: Plan | None, watch: Watch
) -> Fitted:
    """The rows of a site held against a schema.

    Args:
        plan: of the study that the schema is of, which says how many rows of one unit count.
    """
    same = plan is not None and plan.unit == settings.unit
    most = plan.rows_per_unit if plan is not None and same else 1
    checked = check([source], schema, unit=settings.unit, max_rows_per_unit=most, watch=watch)
    return Fitted(settings, schema, checked, dialect_hint(checked, [source], schema))
