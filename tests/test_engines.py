"""Every law of engines, kept in one process by a simulation and by NVFlare's own task exchange.

Flower's is in `test_flower_engine`, which runs in an environment of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from engine_contract import ROWS, EngineContract, Wires
from heterofedsyn.engines.conducting import Conductor, Order
from heterofedsyn.engines.exchange import Exchange, Heard
from heterofedsyn.engines.nvflare.controller import StudyController
from heterofedsyn.engines.nvflare.job import write_job
from heterofedsyn.engines.progress import Progress
from heterofedsyn.engines.task import RELEASE, pack
from heterofedsyn.errors import UsageError
from heterofedsyn.protocol import Study
from nvflare_simulated import SimulatedController
from nvflare_wires import run_wired
from sums_support import Federation


class Direct(Exchange):
    """No engine at all: sites are called, and what they say is at hand."""

    def __init__(
        self, wires: Wires, messages: Mapping[str, bytes], seconds: float, *, again: bool
    ) -> None:
        super().__init__(messages, seconds, again=again)
        self._wires = wires
        self._said: list[tuple[str, Heard]] = []

    def _send(self, site: str, message: bytes, seconds: float) -> None:
        for _ in range(2 if self._wires.repeats else 1):
            said = self._wires.answer(site, message)
            if said is not None:
                answered = isinstance(said, bytes)
                heard = Heard(said, None) if answered else Heard(None, str(said))
                self._said.append((site, heard))

    def _came(self) -> Iterable[tuple[str, Heard]]:
        said, self._said = self._said, []
        if not said:
            time.sleep(0.01)
        return reversed(said) if self._wires.reverses else said

    def _cancel(self, sites: Iterable[str]) -> None:
        """There is nothing under way."""


class TestSimulation(EngineContract):
    """In one process, with nothing between hub and sites."""

    def carried(
        self, study: Study, wires: Wires, root: Path, *, resume: bool = False
    ) -> tuple[Progress, Path]:
        return self._carried(study, wires, root, resume=resume, simulated=True)

    def carried_for_real(self, study: Study, wires: Wires, root: Path) -> tuple[Progress, Path]:
        return self._carried(study, wires, root, resume=False, simulated=False)

    def _carried(
        self, study: Study, wires: Wires, root: Path, *, resume: bool, simulated: bool
    ) -> tuple[Progress, Path]:
        order = Order(study=pack(study.to_toml()), resume=resume, rows=ROWS)
        made = Conductor(order, root / "hub", root / "result", copies=False, simulated=simulated)

        def begin(messages: Mapping[str, bytes], seconds: float, again: bool) -> Exchange:
            return Direct(wires, messages, seconds, again=again)

        made.run(begin, wires.stop.is_set, lambda message, told: None)
        return made.progress, root / "hub" / study.fingerprint / RELEASE


class TestNVFlare(EngineContract):
    """Over NVFlare's own books."""

    def carried(
        self, study: Study, wires: Wires, root: Path, *, resume: bool = False
    ) -> tuple[Progress, Path]:
        made = SimulatedController(pack(study.to_toml()), resume=resume, rows=ROWS)
        return run_wired(made, study.plan.sites, wires, root)

    def carried_for_real(self, study: Study, wires: Wires, root: Path) -> tuple[Progress, Path]:
        made = StudyController(pack(study.to_toml()), rows=ROWS)
        return run_wired(made, study.plan.sites, wires, root)


@pytest.mark.thorough
def test_no_nvflare_job_is_written_for_a_study_without_keys(tmp_path: Path) -> None:
    federation = Federation(3)
    plan = replace(federation.plan, aggregation=UNSET)
    with pytest.raises(UsageError, match="no keys of its sites"):
        write_job(replace(federation.study, plan=plan), tmp_path / "job")
