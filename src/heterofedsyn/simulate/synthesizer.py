"""The Python interface: a synthesizer that is fitted to several tables and then sampled."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.errors import (
    DataError,
    HeterofedsynWarning,
    PrivacyRefusal,
    SimulatedNoiseWarning,
    UsageError,
)
from heterofedsyn.hub import DEFAULT_METHOD, Release, make_method
from heterofedsyn.hub.methods.base import Value, check_trust, settings_of, with_columns
from heterofedsyn.hub.methods.forced import with_pairs
from heterofedsyn.hub.planning.cost import check_feasible
from heterofedsyn.hub.release.run_record import POOLED
from heterofedsyn.marginals import Counts
from heterofedsyn.marginals.counts import PAIRS
from heterofedsyn.privacy.budget import Conversion, check_usual_delta, large_delta
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.plan import Hiding
from heterofedsyn.schema import Encoded, EncodedTable, Fit, Schema, encode
from heterofedsyn.schema.table import columns_of
from heterofedsyn.simulate.persons import Heard, check_persons, people_of
from heterofedsyn.simulate.run import Watcher, run_study, site_names
from heterofedsyn.simulate.site_column import SiteColumn
from heterofedsyn.simulate.split import MOST_SITES, split
from heterofedsyn.site.counting import Counted, count
from heterofedsyn.site.misfits import check_half
from heterofedsyn.sources import Source, Watch, check_apart, open_source, read, unwatched
from heterofedsyn.sources.spark_table import SparkSource

if TYPE_CHECKING:
    import pyarrow as pa


class FederatedSynthesizer:
    """Fits one private synthetic table to the tables of several sites, in this process.

    Args:
        schema: a `Schema`, a path to a schema file, or a dictionary shaped like one.
        epsilon: the guarantee for every record, or every person with a `unit`, with `delta`.
        settings: settings of the method, such as `{"q": 0.2}`.
        measure: pairs that must be measured, whatever the scores say: `[("sex", "diagnosis")]`.
        trust: `local`, or `secure-aggregation`: the hub sees nothing but sums over sites.
        colluding: under secure aggregation, how many sites may pool what they know, with the hub
            or without; 1 unless given.
        quorum: under secure aggregation, how many sites must be in every sum, on which the noise
            of each hangs; all of them unless given. Here nobody is ever missing.
        unit: a column that identifies a person, if one person may have several rows, all of them
            at one site.
        about: `title`, `purpose`, `contact`, `ethics_approval` of the study, for its report.
        noise_seed: reproducible noise, for research only: anyone with the seed can undo it.
        allow_large_delta: take a delta of 0.01 or more, which protects few.
    """

    def __init__(
        self,
        schema: Schema | str | Path | Mapping[str, Any],
        *,
        epsilon: float,
        delta: float,
        method: str = DEFAULT_METHOD,
        settings: Mapping[str, Value] | None = None,
        measure: Sequence[tuple[str, str]] = (),
        trust: str = "local",
        colluding: int | None = None,
        quorum: int | None = None,
        conversion: str = Conversion.TIGHT,
        unit: str | None = None,
        max_rows_per_unit: int = 1,
        about: Mapping[str, str] | None = None,
        noise_seed: int | None = None,
        allow_large_delta: bool = False,
    ) -> None:
        _check_number("epsilon", epsilon)
        _check_number("delta", delta)
        _check_number("max_rows_per_unit", max_rows_per_unit, whole=True)
        self._method = make_method(method, with_pairs(settings or {}, measure))
        self.schema = Schema.of(schema)
        self.encoding = self._method.encoding(self.schema)
        self._seed = secrets.randbits(62) if noise_seed is None else noise_seed
        self._noise_seed = noise_seed
        if noise_seed is not None:
            warnings.warn(SimulatedNoiseWarning(), stacklevel=2)
        self._unit = unit
        self._hiding = Hiding(trust, colluding, quorum)
        check_trust(self._method, trust)
        self._terms: dict[str, Any] = {
            "schema": self.schema.fingerprint,
            "encoding": self.encoding.fingerprint,
            "epsilon": epsilon,
            "delta": delta,
            "conversion": conversion,
            "trust": trust,
            "unit": unit,
            "rows_per_unit": max_rows_per_unit,
            "method": self._method.name,
            "settings": settings_of(self._method),
            "seed": self._seed,
            "about": About.of(about or {}),
        }
        fewest = name_sites(range(min(self._hiding.fewest(), MOST_SITES)))
        with suppress(PrivacyRefusal):  # noise hangs on the number of sites, which fit knows
            check_feasible(self.encoding, self._plan([*fewest]), self._method)
        check_usual_delta(delta, allow_large=allow_large_delta)
        self._release: Release | None = None

    def fit(
        self,
        sites: Any,
        *,
        site_column: str | None = None,
        site_names: Sequence[str] | None = None,
        allow_misfits: bool = False,
        watch: Watcher = lambda report: None,
    ) -> FederatedSynthesizer:
        """Run the study over tables: pandas, polars, pyarrow, or file paths.

        Rows that do not fit the schema are left out, with a warning that counts them by column;
        values outside of a column's range are clamped to it.

        Args:
            sites: one table, a sequence of them, one per site, or a mapping from names of sites.
            site_column: a column that says at which site a row is; splits one table, or several
                that are put together. Sites are named by the values that the schema lists for it.
            site_names: what the column may say, if it is not in the schema; and not released.
            allow_misfits: go on though half of a table or more does not fit, or all of it, or
                half of a column's values lie outside of its range.

        Raises:
            UsageError: a table is given twice.
            DataError: half of a table does not fit, no row does, or half of a column is clamped.
            PrivacyRefusal: with a unit, somebody has rows at two sites.
        """
        if site_column is not None:
            column = self.site_column(site_column, site_names)
            if isinstance(sites, Mapping):
                raise UsageError("a site column deals out one table; give it without site names")
            rows = [sites] if _is_table(sites) else [*sites]
            whole = self.encode(rows, dealt_by=column)
            self.check_fit("the table", whole, rows, allow=allow_misfits)
            _warn_of_misfits("the table", whole)
            return self.fit_encoded(self.deal(whole, column), watch=watch)
        if site_names is not None:
            raise UsageError("site_names needs site_column, the column that holds them")
        if not isinstance(sites, Mapping):
            sites = name_sites([sites] if _is_table(sites) else sites)
        counted = self.count_sites(sites)
        for name, holder in counted.items():
            own = [*sites.values()] if self._method.pools else [sites[name]]
            self.check_fit(name, holder.fit, own, allow=allow_misfits)
            _warn_of_misfits(name, holder.fit)
        tables = {name: holder.counts for name, holder in counted.items()}
        return self.fit_encoded(tables, watch=watch)

    def site_column(self, name: str, names: Sequence[str] | None) -> SiteColumn:
        """A column that deals rows to sites, after checking that a study over these is possible.

        Raises:
            UsageError: nobody says which sites there are, or no such study can be made over them.
        """
        column = SiteColumn.of(self.encoding, name, names)
        self.check_sites(column.sites)
        return column

    def count_sites(
        self, sites: Mapping[str, Any], watch: Callable[[str], Watch] = lambda name: unwatched
    ) -> dict[str, Counted]:
        """The rows of every holder, counted by the schema, each read once.

        Args:
            watch: for the name of a holder, who hears how many of its rows were read.

        Raises:
            UsageError: a table is given twice.
            PrivacyRefusal: with a unit, somebody has rows at two sites.
        """
        counted: dict[str, Counted] = {}
        people: dict[str, set[int]] = {}
        holders = self.holders(sites)
        together = self._plan(list(sites)).together if sites else PAIRS
        for name, tables in holders.items():
            sources = [open_source(table) for table in tables]
            if self._unit is None or len(holders) < 2:
                counted[name] = self._count(sources, together, watch(name))
                continue
            heard = [
                source if isinstance(source, SparkSource) else Heard(source, self._unit)
                for source in sources
            ]
            counted[name] = self._count(heard, together, watch(name))
            people[name] = set().union(*(people_of(source, self._unit) for source in heard))
        check_persons(people)
        return counted

    def holders(self, sites: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Whose rows are put together before anything is counted: each site's, or all of them.

        A method that pools has one holder, and a person's rows are limited over all of its tables.

        Raises:
            UsageError: a table is given twice.
        """
        check_apart(sites.values())
        self.check_sites(list(sites))
        if self._method.pools and sites:
            return {POOLED: list(sites.values())}
        return {name: [table] for name, table in sites.items()}

    def _count(self, sources: Sequence[Source], together: int, watch: Watch) -> Counted:
        """The rows of one holder, put together and counted by the schema."""
        return count(
            sources,
            self.encoding,
            unit=self._unit,
            max_rows_per_unit=self._terms["rows_per_unit"],
            together=together,
            watch=watch,
        )

    def encode(
        self,
        tables: Sequence[Any],
        watch: Watch = unwatched,
        *,
        dealt_by: SiteColumn | None = None,
    ) -> Encoded:
        """Tables or files of one holder, put together and encoded by the schema in memory.

        Args:
            dealt_by: a column that says at which site a row is, encoded as well.

        Raises:
            UsageError: a table is given twice.
        """
        check_apart(tables)
        schema = self.encoding if dealt_by is None else dealt_by.schema
        return encode(
            schema,
            read(map(open_source, tables), columns_of(schema, self._unit), watch),
            unit=self._unit,
            max_rows_per_unit=self._terms["rows_per_unit"],
        )

    def check_fit(self, name: str, fit: Fit, tables: Sequence[Any], *, allow: bool) -> None:
        """Refuse to go on with half of a holder's rows or values wrong, or no row, unless allowed.

        Raises:
            DataError: for the owner of the rows; nothing is released.
        """
        if allow:
            return
        places = (open_source(table) for table in tables if isinstance(table, str | os.PathLike))
        try:
            check_half(fit, self.schema, places)
        except DataError as error:
            raise DataError(
                f"{name}: {error}; or, if that is as it should be, go on with "
                "--allow-misfits (in Python allow_misfits=True)"
            ) from None

    def split(self, encoded: Encoded, sites: int, kind: str) -> list[EncodedTable]:
        """One encoded table dealt to sites, as a federation might hold it.

        Without a noise seed nobody can tell the deal: its randomness is the operating system's,
        and no file holds it. The plan's seed, which is published, has no part in it.
        """
        if self._noise_seed is None:
            rng = np.random.default_rng(secrets.randbits(256))
        else:
            rng = stream(self._noise_seed, "split")
        return split(encoded, sites, kind, self.schema.label, rng)

    def deal(self, encoded: Encoded, column: SiteColumn) -> dict[str, EncodedTable]:
        """One encoded table dealt to sites by a column; all of it if the method pools.

        Raises:
            PrivacyRefusal: with a unit, somebody has rows at two sites.
        """
        if self._method.pools:
            return {POOLED: column.without(encoded.table)}
        return column.deal(encoded)

    def fit_encoded(
        self, tables: Mapping[str, EncodedTable | Counts], *, watch: Watcher = lambda report: None
    ) -> FederatedSynthesizer:
        """Run the study over tables that are encoded or counted already.

        Nobody can tell any more who is in them: with a unit, a person must be in one table only.
        """
        if not tables:
            raise UsageError("there is no site; give at least one table")
        if self._release is not None:
            raise UsageError(
                "this synthesizer was fitted already; a second study spends a budget of its own: "
                "make a new FederatedSynthesizer for it"
            )
        if self._method.pools and self._unit is not None and len(tables) > 1:
            raise UsageError("rows of a person in several tables must be pooled before encoding")
        plan = self._plan(list(tables))
        check_feasible(self.encoding, plan, self._method)
        self._release = run_study(
            self.encoding,
            plan,
            self._method,
            list(tables.values()),
            noise_seed=self._noise_seed,
            watch=watch,
        )
        for remark in large_delta(self._terms["delta"], self._release.run.noisy_total):
            warnings.warn(remark, HeterofedsynWarning, stacklevel=2)
        return self

    @property
    def release(self) -> Release:
        """What the study publishes."""
        if self._release is None:
            raise UsageError("nothing has been fitted yet; call fit() first")
        return self._release

    def sample(
        self, rows: int | None = None, seed: int | None = None, *, where: str | None = None
    ) -> pa.Table:
        """Synthetic rows; the noisy total unless asked."""
        return self.release.sample(rows, seed, where=where)

    def batches(
        self, rows: int | None = None, seed: int | None = None, *, where: str | None = None
    ) -> Iterator[pa.Table]:
        """The rows of `sample`, a part at a time: memory does not grow with their number."""
        return self.release.batches(rows, seed, where=where)

    def save(
        self,
        folder: str | Path,
        *,
        rows: int | None = None,
        overwrite: bool = False,
        safe_csv: bool = False,
    ) -> Path:
        """Write the release as a folder; see `Release.save`."""
        return self.release.save(folder, rows=rows, overwrite=overwrite, safe_csv=safe_csv)

    def check_sites(self, names: Sequence[str]) -> None:
        """Refuse sites over which no such study can be made, before anything of theirs is read.

        Raises:
            UsageError: too few for the trust model, or a name that no site can have.
        """
        if names:
            self._plan(names)

    def _plan(self, names: Sequence[str]) -> Plan:
        sites = site_names(self._method, names)
        plan = Plan(sites=sites, aggregation=self._hiding.aggregation(len(sites)), **self._terms)
        return with_columns(plan, self._method, self.encoding)


def name_sites(objects: Sequence[Any]) -> dict[str, Any]:
    """site-1, site-2, ... in the order given."""
    return {f"site-{number}": obj for number, obj in enumerate(objects, start=1)}


def _check_number(term: str, value: object, *, whole: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        kind = "whole number" if whole else "number"
        raise UsageError(f"{term} is a {type(value).__name__}; give a {kind}")


def _warn_of_misfits(name: str, fit: Fit) -> None:
    if remark := fit.describe():
        warnings.warn(f"{name}: {remark}", HeterofedsynWarning, stacklevel=3)


def _is_table(given: Any) -> bool:
    """Whether this is one table, and not several of them."""
    if isinstance(given, str | os.PathLike | Source) or not isinstance(given, Iterable):
        return True  # what is neither is refused where tables are opened
    # Asked of the type: some frames have to be computed before they tell their columns.
    return hasattr(given, "__arrow_c_stream__") or hasattr(type(given), "columns")
