"""What Flower's messages hold: bytes for the agent, and bytes or a reason from it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from heterofedsyn.engines.exchange import Heard
from heterofedsyn.engines.relay import relay
from heterofedsyn.engines.task import ANSWER, QUERY, REASON, SECONDS, TASK
from heterofedsyn.protocol.refusal import Refused

_LOG = logging.getLogger(__name__)


def question(node: int, message: bytes, seconds: float) -> Message:
    """A message for a node, which Flower drops after so many seconds."""
    fields = ConfigRecord({QUERY: message, SECONDS: float(seconds)})
    # The time is kept by whoever waits; this is a bound for Flower's own books.
    return Message(RecordDict({TASK: fields}), node, MessageType.QUERY, ttl=float(seconds) + 1)


def answered(message: Message, hand: Callable[[object, object], bytes] = relay) -> Message:
    """The agent's answer to a message, or a reason without one.

    Args:
        hand: hands a query to the agent.
    """
    asked = _fields(message)
    try:
        said = ConfigRecord({ANSWER: hand(asked.get(QUERY), asked.get(SECONDS))})
    except Refused as refusal:
        _LOG.info("the agent gave no answer: %s", refusal.reason)
        said = ConfigRecord({REASON: refusal.reason.value})
    return Message(RecordDict({TASK: said}), reply_to=message)


def heard_of(message: Message) -> Heard:
    """What a site's reply holds; an error of Flower's is a site that failed."""
    if not message.has_content():
        return Heard.nothing()
    fields = _fields(message)
    return Heard(fields.get(ANSWER), fields.get(REASON))


def _fields(message: Message) -> dict[str, object]:
    content = message.content if message.has_content() else {}
    found = content.get(TASK) if TASK in content else None
    return dict(found) if isinstance(found, ConfigRecord) else {}
