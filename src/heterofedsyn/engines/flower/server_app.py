"""The ServerApp: it runs the study, carries its queries and writes its release.

Rounds, progress and the release are in the hub's folder; nothing is kept in Flower's state.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from heterofedsyn.engines.conducting import HUB, Conductor
from heterofedsyn.engines.exchange import Exchange
from heterofedsyn.engines.flower.bundle import order_of, result_of
from heterofedsyn.engines.flower.grid_exchange import GridExchange
from heterofedsyn.engines.progress import State
from heterofedsyn.errors import EngineError, UsageError

_LOG = logging.getLogger(__name__)


def conduct(grid: Grid, context: Context, *, simulated: bool = False) -> None:
    """The whole study.

    Args:
        simulated: whether answers with the noise of a simulation count, which protects nobody.

    Raises:
        EngineError: if it comes to no release; its progress says why.
    """
    place = os.environ.get(HUB)
    if not place:
        raise UsageError(f"{HUB} does not name the hub's folder; set it where SuperLink is started")
    hub = Path(place)
    order = order_of(context.run_config)
    result = result_of(hub, context.run_id)
    conductor = Conductor(order, hub, result, copies=False, simulated=simulated)

    def begin(messages: Mapping[str, bytes], seconds: float, again: bool) -> Exchange:
        return GridExchange(grid, messages, seconds, again=again)

    def failed(message: str, told: str) -> None:
        _LOG.error(told)  # Flower shows this log to everyone who may submit runs

    conductor.run(begin, lambda: False, failed)
    if conductor.progress.state is not State.DONE:
        raise EngineError("the study came to no release; `heterofedsyn study status` says why")


def main(grid: Any, context: Any) -> None:
    """What Flower calls."""
    conduct(grid, context)


app = ServerApp()
app.main()(main)
