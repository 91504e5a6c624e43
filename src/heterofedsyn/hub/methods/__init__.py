"""Every method by name; a new one is a file of its own and a line in `METHODS`."""

from __future__ import annotations

from collections.abc import Mapping

from heterofedsyn._registry import Registry
from heterofedsyn.hub.methods.adafedprivsyn import AdaFedPrivSyn
from heterofedsyn.hub.methods.allmarg import AllMarg
from heterofedsyn.hub.methods.base import Method, Value, build
from heterofedsyn.hub.methods.fedprivsyn import FedPrivSyn, FedPrivSynNoProjection
from heterofedsyn.hub.methods.independent import Independent
from heterofedsyn.hub.methods.localmerge import LocalMerge
from heterofedsyn.hub.methods.privsyn import PrivSyn
from heterofedsyn.hub.methods.randmarg import RandMarg
from heterofedsyn.hub.methods.wavetree import WaveTree

METHODS = Registry[Method](
    "method",
    Method,
    (
        WaveTree,
        AdaFedPrivSyn,
        FedPrivSyn,
        FedPrivSynNoProjection,
        AllMarg,
        RandMarg,
        PrivSyn,
        Independent,
        LocalMerge,
    ),
)

DEFAULT_METHOD = WaveTree.name


def make_method(name: str, settings: Mapping[str, Value] | None = None) -> Method:
    """The method of this name with these settings.

    >>> make_method("fedprivsyn", {"q": 0.3, "passes": 20}).synthesizer
    Gum(passes=20)
    """
    return build(METHODS.find(name), settings or {})
