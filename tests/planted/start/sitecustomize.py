"""Plants the bug that an environment variable names as soon as the package has been imported.

Python runs this file at the start of every process whose PYTHONPATH has its folder: those of an
audit with a planted bug, and no others. Nothing of the package knows of it.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_PACKAGE = "heterofedsyn"
_NAME = os.environ.get("HETEROFEDSYN_PLANTED")


class _Planting(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        from planted.bugs import bugs

        assert _NAME is not None
        bugs()[_NAME].plant()


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != _PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _Planting(fullname, spec.origin)
        return spec


if _NAME:
    sys.meta_path.insert(0, _Finder())
