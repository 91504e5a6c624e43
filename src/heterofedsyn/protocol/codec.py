"""Messages from bytes, strictly: nothing is taken for a message that is not one."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import msgspec

from heterofedsyn.errors import ProtocolError
from heterofedsyn.protocol.aggregation import (
    AskKey,
    AskMasked,
    AskOpened,
    AskVote,
    Masked,
    OfferedKey,
    Opened,
    Vote,
)
from heterofedsyn.protocol.limits import MOST_PARTS, MOST_REPLY_BYTES, MOST_REQUEST_BYTES
from heterofedsyn.protocol.messages import MESSAGE_VERSION, Answer, Query

Asked: TypeAlias = Query | AskKey | AskMasked | AskVote | AskOpened
"""All that a hub can say to a site."""

Said: TypeAlias = Answer | OfferedKey | Masked | Vote | Opened
"""All that a site can say to a hub."""

Message = TypeVar("Message", bound=Asked | Said)

_ASKED = (Query, AskKey, AskMasked, AskVote, AskOpened)
_SAID = (Answer, OfferedKey, Masked, Vote, Opened)


class _OfAQuery(msgspec.Struct, frozen=True, tag="query"):
    """A request of which only the study is read."""

    study: str


class _OfAnAskKey(_OfAQuery, frozen=True, tag="ask-key"):
    pass


class _OfAnAskMasked(_OfAQuery, frozen=True, tag="ask-masked"):
    pass


class _OfAnAskVote(_OfAQuery, frozen=True, tag="ask-vote"):
    pass


class _OfAnAskOpened(_OfAQuery, frozen=True, tag="ask-opened"):
    pass


# Made here, where no other thread is: msgspec 0.22 ends the process when two threads decode a type
# for the first time.
_DECODERS: dict[type, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (*_ASKED, *_SAID)
}
_ANY_ASKED: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Asked)
_ANY_STUDY: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    _OfAQuery | _OfAnAskKey | _OfAnAskMasked | _OfAnAskVote | _OfAnAskOpened
)


def study_of(data: bytes) -> str:
    """The study that a request names, at a fraction of the cost of reading the request.

    Raises:
        ProtocolError: if the bytes are no request.
    """
    study: str = _strictly(data, _ANY_STUDY, MOST_REQUEST_BYTES, "request").study
    return study


def decode_asked(data: bytes) -> Asked:
    """Whatever a hub says to a site.

    Raises:
        ProtocolError: if the bytes are anything else.
    """
    asked: Asked = _strictly(data, _ANY_ASKED, MOST_REQUEST_BYTES, "request")
    _check(asked)
    return asked


def decode(data: bytes, kind: type[Message]) -> Message:
    """A message of the expected kind.

    Raises:
        ProtocolError: if the bytes are anything else.
    """
    most = MOST_REQUEST_BYTES if kind in _ASKED else MOST_REPLY_BYTES
    message: Message = _strictly(data, _DECODERS[kind], most, kind.__name__.lower())
    _check(message)
    return message


def _strictly(data: bytes, decoder: msgspec.msgpack.Decoder[Any], most: int, what: str) -> Any:
    if len(data) > most:
        raise ProtocolError(f"a message of {len(data):,} bytes is over the limit of {most:,}")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise ProtocolError(f"this is no {what} of version 1") from None


def _check(message: Asked | Said) -> None:
    if message.version != MESSAGE_VERSION:
        raise ProtocolError(
            f"message version {message.version} is not {MESSAGE_VERSION}; "
            "install the same version of heterofedsyn at hub and sites"
        )
    match message:
        case AskMasked():
            _check(message.query)
            for key in message.keys:
                _check(key)
        case Query() | Answer():
            if len(message.parts) > MOST_PARTS:
                raise ProtocolError(f"a message of {len(message.parts):,} parts is over the limit")
        case AskOpened():
            for vote in message.votes:
                _check(vote)
        case _:
            pass
