"""`heterofedsyn simulate`: a federation in one process, from files to a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._options import (
    AllowLargeDelta,
    Colluding,
    Contact,
    ConversionName,
    Delta,
    Epsilon,
    Measure,
    NoiseSeed,
    Overwrite,
    Purpose,
    SafeCsv,
    SchemaFile,
    Settings,
    SumQuorum,
    Title,
    TrustModel,
    read_settings,
)
from heterofedsyn.cli._show import say, say_json
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from heterofedsyn.hub.release import Release
    from heterofedsyn.marginals import Counts
    from heterofedsyn.schema import EncodedTable, Fit
    from heterofedsyn.simulate.synthesizer import FederatedSynthesizer

SITES = 5
SPLIT = "uniform"


def simulate(
    schema: SchemaFile,
    epsilon: Epsilon,
    delta: Delta,
    out: Annotated[Path, typer.Option(help="Folder for the release.")],
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOCATION",
            help="Rows to be split: CSV, Parquet (a file, folder or glob), "
            "lake.duckdb#TABLE or postgresql://HOST/DB#QUERY; repeat to pool.",
        ),
    ] = None,
    site: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]LOCATION",
            help="Rows of one site, site-1, site-2, ... unless named; once per site, "
            "instead of --data.",
        ),
    ] = None,
    sites: Annotated[
        int | None,
        typer.Option(help=f"How many sites --data is split into; {SITES} unless given."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="WAY",
            help="How --data is split: sizes (1 : 2 : 3 ...), label (each site its own labels), "
            f"dirichlet (labels in random shares) or uniform; {SPLIT} unless given.",
        ),
    ] = None,
    site_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[=NAMES]",
            help="Column that says at which site a row of --data is: a categorical one of the "
            "schema, or any other with all that it may say, such as hospital=north,south.",
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="wavetree, adafedprivsyn, fedprivsyn, fedprivsyn-noprojection, allmarg, randmarg, "
            "independent, local-merge, or privsyn (which pools all rows: not federated).",
        ),
    ] = "wavetree",
    setting: Settings = None,
    measure: Measure = None,
    trust: TrustModel = "local",
    colluding: Colluding = None,
    quorum: SumQuorum = None,
    conversion: ConversionName = "tight",
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that identifies a person, whose rows must all be at one site; need not be "
            "in the schema, and is released only if it is.",
        ),
    ] = None,
    max_rows_per_unit: Annotated[
        int | None,
        typer.Option(help="Rows of one person that count; needs --unit, 1 unless given."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Synthetic rows; the noisy total unless given.")
    ] = None,
    seed: NoiseSeed = None,
    title: Title = "",
    purpose: Purpose = "",
    contact: Contact = "",
    allow_large_delta: AllowLargeDelta = False,
    allow_misfits: Annotated[
        bool,
        typer.Option(
            "--allow-misfits",
            help="Go on though half of the rows or more do not fit, or of a column's values are "
            "outside of its range.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    safe_csv: SafeCsv = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run a study on files or databases and write a release.

    A table of one owner is one --site, with least noise; --data deals it to several sites, each
    with noise of its own. Noise comes from the operating system unless --seed is given.
    """
    from heterofedsyn._words import count
    from heterofedsyn.cli._show import note, show_round
    from heterofedsyn.cli.report import write_report
    from heterofedsyn.hub import make_method
    from heterofedsyn.hub.release import check_rows, check_target
    from heterofedsyn.simulate.synthesizer import FederatedSynthesizer

    if max_rows_per_unit is not None and unit is None:
        raise UsageError("--max-rows-per-unit needs --unit, the column that identifies a person")
    if rows is not None:
        check_rows(rows)
    check_target(out, overwrite=overwrite)
    synthesizer = FederatedSynthesizer(
        schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        settings=read_settings(setting, measure),
        trust=trust,
        colluding=colluding,
        quorum=quorum,
        conversion=conversion,
        unit=unit,
        max_rows_per_unit=1 if max_rows_per_unit is None else max_rows_per_unit,
        about={"title": title, "purpose": purpose, "contact": contact},
        noise_seed=seed,
        allow_large_delta=allow_large_delta,
    )
    if bool(data) == bool(site):
        raise UsageError("give either --data (to be split) or --site (once per site)")
    if site and not (sites is None and split is None):
        raise UsageError("--sites and --split deal out --data; leave them out with --site")
    if site_column is not None and (site or not (sites is None and split is None)):
        raise UsageError("--site-column deals out --data; leave out --site, --sites and --split")
    pools = make_method(method).pools
    tables: Mapping[str, EncodedTable | Counts]
    if site:
        tables = _of_sites(synthesizer, site, pools=pools, allow=allow_misfits)
    elif site_column is not None:
        tables = _of_column(synthesizer, data or [], site_column, allow=allow_misfits)
    else:
        many = SITES if sites is None else sites
        way = split or SPLIT
        tables = _of_split(synthesizer, data or [], many, way, pools=pools, allow=allow_misfits)
    note(f"study over {'the pooled rows' if pools else count(len(tables), 'site')} with {method}")
    synthesizer.fit_encoded(tables, watch=show_round)
    synthesizer.save(out, rows=rows, overwrite=overwrite, safe_csv=safe_csv)
    write_report(out)
    drawn = synthesizer.release.usual_rows if rows is None else rows
    _tell(synthesizer.release, out, drawn, as_json=as_json)


def _tell(release: Release, out: Path, drawn: int, *, as_json: bool) -> None:
    """What was made, and what is promised of it."""
    from heterofedsyn._words import count
    from heterofedsyn.privacy.budget import large_delta

    if as_json:
        summary = {
            "out": str(out),
            "method": release.run.method,
            "rows": drawn,
            "epsilon": release.privacy.epsilon,
            "delta": release.privacy.delta,
            "rho": release.privacy.rho,
            "spent": {account.site: account.rho for account in release.privacy.sites},
            "simulated_noise": release.privacy.simulated_noise,
            "remarks": list(release.run.remarks),
        }
        say_json(summary)
        return
    say(f"release in {out}: {count(drawn, 'synthetic row')}")
    say(f"guarantee: {release.privacy.guarantee}")
    warned = large_delta(release.privacy.delta, release.run.noisy_total)
    for remark in release.run.remarks:
        if remark not in warned:
            say(f"remark: {remark}")


def _of_sites(
    synthesizer: FederatedSynthesizer, texts: list[str], *, pools: bool, allow: bool
) -> dict[str, Counts]:
    """What is counted at each site that was named."""
    from heterofedsyn.cli._show import pace

    locations = _locations(texts)
    counted = synthesizer.count_sites(locations, lambda name: pace(f"reading {name}"))
    for name, holder in counted.items():
        own = [*locations.values()] if pools else [locations[name]]
        synthesizer.check_fit(name, holder.fit, own, allow=allow)
        _note_misfits(name, holder.fit)
    return {name: holder.counts for name, holder in counted.items()}


def _of_column(
    synthesizer: FederatedSynthesizer, data: list[str], text: str, *, allow: bool
) -> dict[str, EncodedTable]:
    """The rows of each site that a column names."""
    from heterofedsyn.cli._show import pace

    column = synthesizer.site_column(*_site_column(text))
    whole = synthesizer.encode(data, pace("reading"), dealt_by=column)
    synthesizer.check_fit("data", whole, data, allow=allow)
    _note_misfits("data", whole)
    return {**synthesizer.deal(whole, column)}


def _of_split(
    synthesizer: FederatedSynthesizer,
    data: list[str],
    many: int,
    split: str,
    *,
    pools: bool,
    allow: bool,
) -> dict[str, EncodedTable]:
    """Rows dealt to so many sites."""
    from heterofedsyn.cli._show import pace
    from heterofedsyn.simulate.split import MOST_SITES
    from heterofedsyn.simulate.synthesizer import name_sites

    synthesizer.check_sites([*name_sites(range(min(many, MOST_SITES)))])
    whole = synthesizer.encode(data, pace("reading"))
    synthesizer.check_fit("data", whole, data, allow=allow)
    _note_misfits("data", whole)
    dealt = synthesizer.split(whole, many, split)
    return {"pooled": whole.table} if pools else name_sites(dealt)


def _locations(texts: list[str]) -> dict[str, str]:
    """The location of every site's rows; a site without a name is named by its place."""
    from heterofedsyn.sources import check_location, split_name

    locations: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        named, location = split_name(text)
        name = f"site-{number}" if named is None else named
        if name in locations:
            raise UsageError(f"two --site options are named {name!r}; rename one of them")
        locations[name] = check_location(location)
    return locations


def _site_column(text: str) -> tuple[str, list[str] | None]:
    """A column's name, and what it may say if that is told."""
    name, equals, values = text.partition("=")
    if not name or (equals and not values):
        raise UsageError(
            f"--site-column {text!r} must be COLUMN or COLUMN=NAMES, such as hospital=north,south"
        )
    return name, values.split(",") if equals else None


def _note_misfits(name: str, fit: Fit) -> None:
    """A note on the rows of one holder that do not fit."""
    from heterofedsyn.cli._show import note

    if remark := fit.describe():
        note(f"note: {name}: {remark}; see `heterofedsyn schema check`")
