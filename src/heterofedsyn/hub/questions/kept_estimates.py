"""Estimates as bytes, so that the next question need not make them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import frozen
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.schema import Clique, Domain
from heterofedsyn.synthesis import Targets
from heterofedsyn.synthesis.estimates import Estimates
from heterofedsyn.synthesis.triples import Triple


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The estimates of one population; columns in the order of its domain."""

    total: float
    values: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    singles: tuple[bytes, ...]
    pairs: tuple[tuple[Clique, bytes], ...]
    triples: tuple[tuple[Clique, tuple[bytes, ...], bytes, bytes], ...]


def pack_estimates(populations: Sequence[Targets]) -> bytes:
    """What is believed about each population."""
    return msgspec.msgpack.encode([_packed(targets) for targets in populations])


def informed(model: Model, data: bytes) -> Model:
    """The same model, with estimates that were made of it before.

    Raises:
        ValueError: and others of msgspec, if they are not those of such a model.
    """
    kept = msgspec.msgpack.decode(data, type=tuple[_Kept, ...])
    populations = zip(model.targets, kept, strict=True)
    return Model(model.synthesizer, tuple(t.knowing(_unpacked(t, own)) for t, own in populations))


def _packed(targets: Targets) -> _Kept:
    estimates, names = targets.estimates, targets.domain.names
    return _Kept(
        estimates.total,
        tuple(estimates.values[name].astype("<f8").tobytes() for name in names),
        tuple(estimates.groups[name].astype("<i8").tobytes() for name in names),
        tuple(estimates.singles[name].astype("<f8").tobytes() for name in names),
        tuple((pair, own.astype("<f8").tobytes()) for pair, own in estimates.pairs.items()),
        tuple(
            (
                pair,
                tuple(held.astype("<i8").tobytes() for held in own.maps),
                own.table.astype("<f8").tobytes(),
                own.lift.astype("<f8").tobytes(),
            )
            for pair, own in estimates.triples.items()
        ),
    )


def _unpacked(targets: Targets, kept: _Kept) -> Estimates:
    domain = targets.domain

    def columns(own: Sequence[bytes], kind: str, over: Domain) -> dict[str, NDArray[Any]]:
        sized = zip(over.names, over.sizes, own, strict=True)
        return {name: _array(data, kind, (size,)) for name, size, data in sized}

    groups = columns(kept.groups, "<i8", domain)
    grid = Domain(domain.names, tuple(int(own.max()) + 1 for own in groups.values()))
    return Estimates(
        schema=targets.schema,
        total=kept.total,
        values=columns(kept.values, "<f8", domain),
        groups=groups,
        singles=columns(kept.singles, "<f8", grid),
        pairs={pair: _array(data, "<f8", grid.shape(pair)) for pair, data in kept.pairs},
        triples={
            pair: _triple((targets.schema.label or "", *pair), grid, maps, table, lift)
            for pair, maps, table, lift in kept.triples
        },
    )


def _triple(
    names: Clique, grid: Domain, maps: tuple[bytes, ...], table: bytes, lift: bytes
) -> Triple:
    label, one, other = (
        _array(own, "<i8", (grid.size(name),)) for name, own in zip(names, maps, strict=True)
    )
    held = (label, one, other)
    shape = tuple(int(own.max()) + 1 for own in held)
    return Triple(held, _array(table, "<f8", shape), _array(lift, "<f8", shape))


def _array(data: bytes, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.frombuffer(data, kind)
    return frozen(array.astype(array.dtype.newbyteorder("=")).reshape(shape))
