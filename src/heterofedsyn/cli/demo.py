"""`heterofedsyn demo`: the whole story on built-in hospitals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import NoiseSeed, Overwrite, SafeCsv
from heterofedsyn.cli._show import say

BASELINE = "independent"
OUT = Path("heterofedsyn-demo")
"""An earlier demo there is replaced without asking, and nothing else is."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the release.")] = OUT,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of every patient.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Below 1 / (all rows).")] = 1e-9,
    patients: Annotated[int, typer.Option(help="Invented patients, over all hospitals.")] = 100_000,
    method: Annotated[str, typer.Option(help="As in `simulate`.")] = "wavetree",
    seed: NoiseSeed = None,
    overwrite: Overwrite = False,
    safe_csv: SafeCsv = False,
) -> None:
    """Make a private synthetic table of five invented hospitals.

    Takes less than a minute.
    """
    from heterofedsyn._words import size
    from heterofedsyn.cli._show import note, show_round, show_table
    from heterofedsyn.cli.report import write_report
    from heterofedsyn.errors import UsageError
    from heterofedsyn.evaluation import total_variation
    from heterofedsyn.hub.release import check_target
    from heterofedsyn.simulate import FederatedSynthesizer
    from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
    from heterofedsyn.simulate.run import RoundReport

    if not 1_000 <= patients <= 10_000_000:
        raise UsageError(f"--patients ({patients}) must be in 1000..10000000")
    replaced = overwrite or (out == OUT and _is_demo(out))
    check_target(out, overwrite=replaced)
    schema = hospital_schema()

    def study(name: str) -> FederatedSynthesizer:
        return FederatedSynthesizer(
            schema, epsilon=epsilon, delta=delta, method=name, noise_seed=seed
        )

    main, plain = study(method), study(BASELINE)
    note(f"inventing {patients:,} patients of five hospitals, each with its own kind of patients")
    tables = hospitals(patients=patients)
    note(f"the hub asks, the hospitals answer with noisy counts ({method}):")
    sent = dict.fromkeys(tables, 0)

    def watch(report: RoundReport) -> None:
        show_round(report)
        for name, many in report.sent.items():
            sent[name] = sent.get(name, 0) + many

    release = main.fit(tables, watch=watch).release
    note(f"building the table, and one without any dependence ({BASELINE}) to compare with")
    release.save(out, overwrite=replaced, safe_csv=safe_csv)
    described = write_report(out)
    truth = plain.encode(list(tables.values())).table
    ours, baseline = (
        total_variation(truth, plain.encode([made.sample(seed=made.run.seed)]).table)
        for made in (release, plain.fit(tables).release)
    )

    show_table(
        "What left each hospital",
        ["hospital", "releases", "noisy integers", "sent", "spent (rho)", "of budget"],
        [
            [
                account.site,
                f"{sum(len(charge.parts) for charge in account.charges):,}",
                f"{sum(part.integers for charge in account.charges for part in charge.parts):,}",
                size(sent[account.site]),
                f"{account.rho:.5f}",
                f"{account.rho / release.privacy.rho:.1%}",
            ]
            for account in release.privacy.sites
        ],
    )
    show_table(
        "Distance from the pooled truth (total variation; 0 is equal, 1 is disjoint)",
        ["statistics", method, BASELINE, "ratio"],
        [
            [name, f"{a:.4f}", f"{b:.4f}", f"{a / b:.2f}"]
            for name, a, b in (
                ("one column", ours.one_way, baseline.one_way),
                ("two columns", ours.two_way, baseline.two_way),
            )
        ],
    )
    say(f"guarantee: {release.privacy.guarantee}")
    for remark in release.run.remarks:
        say(f"remark: {remark}")
    say("look at:")
    for name, what in (
        *(
            [("report.html", "what it is good for, what is promised, and every column in pictures")]
            if described
            else []
        ),
        ("synthetic.csv", f"{release.run.noisy_total:,} people who do not exist"),
        ("privacy.json", "every release, its noise and its price"),
        ("run.json", "how the table was made"),
    ):
        say(f"  {out / name}  {what}")
    say(f"more rows: heterofedsyn sample {out} --rows 1000 --out more.csv")


def _is_demo(folder: Path) -> bool:
    """Whether a folder is a release of the invented hospitals, and no link to one."""
    from heterofedsyn.errors import ReleaseError
    from heterofedsyn.hub.release import is_release, load
    from heterofedsyn.hub.release.run_record import POOLED
    from heterofedsyn.simulate.hospitals import hospital_names, hospital_schema

    if folder.is_symlink() or not is_release(folder):
        return False
    try:
        made = load(folder)
    except ReleaseError:
        return False  # its owner may still mend it
    ours = made.run.sites in (hospital_names(), (POOLED,))
    return ours and made.schema.domain.names == hospital_schema().domain.names
