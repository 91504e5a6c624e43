"""The ClientApp: it hands query bytes to the site agent, knows no data and keeps no state."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from heterofedsyn.engines.flower.envelope import answered


def answer(message: Message, context: Context) -> Message:
    """The agent's answer; nothing is read from Flower's context, and nothing written."""
    return answered(message)


app = ClientApp()
app.query()(answer)
