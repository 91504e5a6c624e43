"""Asks sites through Flower's grid, each with a message of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from flwr.common.constant import ErrorCode
from flwr.supercore.error import FlowerError

from heterofedsyn.engines.conducting import Stopped
from heterofedsyn.engines.exchange import Exchange, Heard
from heterofedsyn.engines.flower.envelope import heard_of, question

_LOG = logging.getLogger(__name__)
_LOOK_AGAIN = 0.2
_NODES_AGAIN = 1.0
"""Seconds between two looks for a node that is not there."""


class GridExchange(Exchange):
    """One exchange over Flower.

    A site is the one node that is online under its name, which the hub gave to its key. Replies are
    taken for what they answer by the number of the question, as this exchange wrote it down, and
    from the node that was asked alone.
    """

    def __init__(
        self, grid: Any, messages: Mapping[str, bytes], seconds: float, *, again: bool
    ) -> None:
        super().__init__(messages, seconds, again=again)
        self._grid = grid
        self._asked: dict[str, tuple[str, int]] = {}
        """Site and node of every question that is not answered, by its number."""
        self._waiting: dict[str, bytes] = {}
        """Messages for sites that are not there yet."""
        self._looked = 0.0

    def _send(self, site: str, message: bytes, seconds: float) -> None:
        self._waiting[site] = message
        self._looked = 0.0

    def _came(self) -> Iterable[tuple[str, Heard]]:
        try:
            self._send_waiting()
            found = [*self._grid.pull_messages([*self._asked])] if self._asked else []
        except (httpx.HTTPError, FlowerError) as error:
            # A run that was stopped may ask for nothing more, and Flower has tried again by itself.
            _LOG.warning("Flower carries no more of this run: %s", type(error).__name__)
            raise Stopped from error
        heard = [self._taken(message) for message in found]
        if not found:
            time.sleep(_LOOK_AGAIN)
        return [each for each in heard if each is not None]

    def _cancel(self, sites: Iterable[str]) -> None:
        """Flower drops what is not fetched in time; a late reply has a number nobody asks for."""

    def _send_waiting(self) -> None:
        now = time.monotonic()
        if not self._waiting or now < self._looked + _NODES_AGAIN:
            return
        self._looked = now
        nodes = nodes_by_name(self._grid.get_nodes())
        for site in [site for site in self._waiting if site in nodes]:
            left = max(1.0, self._until - now)
            message = question(nodes[site], self._waiting[site], left)
            (number,) = self._grid.push_messages([message])
            if number:  # none if the node left just now: its site is looked for again
                del self._waiting[site]
                self._asked[number] = (site, nodes[site])

    def _taken(self, message: Any) -> tuple[str, Heard] | None:
        site, node = self._asked.pop(message.metadata.reply_to_message_id, ("", 0))
        if not site:
            return None
        if not self._again and _left(message):
            # As long as the study waits: SuperNodes are started anew, and machines with them.
            self._send(site, self._messages[site], 0.0)
            return None
        from_node = message.metadata.src_node_id == node
        return site, heard_of(message) if from_node else Heard.nothing()


def _left(message: Any) -> bool:
    """Whether it is Flower's word that the node which was asked is not there any more."""
    return not message.has_content() and bool(message.error.code == ErrorCode.NODE_UNAVAILABLE)


def nodes_by_name(nodes: Iterable[Any]) -> dict[str, int]:
    """The node of every site; a name that several have is nobody's."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        found.setdefault(str(node.name), []).append(int(node.node_id))
    return {name: numbers[0] for name, numbers in found.items() if name and len(numbers) == 1}
