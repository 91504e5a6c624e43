"""A ServerApp for tests that takes the noise of a simulation, so that bytes can be compared."""

from __future__ import annotations

from typing import Any

from flwr.serverapp import ServerApp

from heterofedsyn.engines.flower.server_app import conduct


def main(grid: Any, context: Any) -> None:
    conduct(grid, context, simulated=True)


app = ServerApp()
app.main()(main)
