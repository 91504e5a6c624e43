"""A controller for tests that takes the noise of a simulation, so that bytes can be compared."""

from __future__ import annotations

from heterofedsyn.engines.nvflare.controller import StudyController


class SimulatedController(StudyController):
    """The real one, told to take what protects nobody."""

    takes_simulated = True
