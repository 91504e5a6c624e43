"""How long a round takes over each engine: real federations on this machine, by the guides.

`make rounds` prints the figures of docs/flower.md for NVFlare, Flower and Flower that runs what is
shipped, one after the other.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from engine_real import SCHEMA, SEED, SITES, TABLES, approve, make_study, progress_of, started
from heterofedsyn.bench.spark_cluster import cpu_seconds
from heterofedsyn.protocol import Study
from nvflare_support import AGENT, Federation


@dataclass(frozen=True)
class Timed:
    """A study that was run.

    Attributes:
        rounds: seconds of each, from when the hub noted that it began until it noted its end.
        cpu: seconds of processor time of all sites' engines, in the whole study.
        whole: seconds of `study run`.
    """

    rounds: tuple[float, ...]
    cpu: float
    whole: float


def timed(federated: Federation, study: Study) -> Timed:
    """Run a study that everyone approved of."""
    engines = [
        process.pid
        for name, process in federated.processes.items()
        if name.startswith(SITES) and not name.endswith(AGENT)
    ]
    cpu, begun = sum(map(cpu_seconds, engines)), time.monotonic()
    run = started(federated)
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    running = True
    while running:
        running = run.poll() is None
        progress = progress_of(federated, study)
        for found in progress.rounds if progress else ():
            first.setdefault(found.round, time.monotonic())
            if found.finished:
                last.setdefault(found.round, time.monotonic())
        time.sleep(0.05)
    assert run.returncode == 0, federated.log("run").read_text()
    return Timed(
        tuple(last[number] - first[number] for number in sorted(last)),
        sum(map(cpu_seconds, engines)) - cpu,
        time.monotonic() - begun,
    )


def federation_of(engine: str) -> type[Federation]:
    if engine == "nvflare":
        return Federation
    from flower_support import AppsFederation, FlowerFederation

    return FlowerFederation if engine == "flower" else AppsFederation


def main() -> None:
    parser = argparse.ArgumentParser(prog="rounds")
    parser.add_argument("engine", choices=["nvflare", "flower", "flower-runs-apps"])
    parser.add_argument("--studies", type=int, default=2)
    given = parser.parse_args()
    # Paths of sockets are short, so the folder's must be.
    root = Path(tempfile.mkdtemp(prefix="hfr"))
    try:
        with federation_of(given.engine).running(root, TABLES, SCHEMA) as federated:
            for site in SITES:
                federated.agent(site)
            for number in range(given.studies):
                study = make_study("wavetree", quorum=3, seed=SEED + number)
                approve(federated, study)
                found = timed(federated, study)
                seconds = ", ".join(f"{each:.1f}" for each in found.rounds)
                print(
                    f"{given.engine}, study {number + 1}: rounds of {seconds} s; "
                    f"{found.cpu / len(found.rounds):.2f} CPU s a round in engines of sites; "
                    f"{found.whole:.0f} s in all (load {os.getloadavg()[0]:.1f} on "
                    f"{os.cpu_count()} cores)",
                    flush=True,
                )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
