"""Runs the child of an audit and notes which environment variables this software looks up.

A script, not a module: it must be in place before anything of the package is imported, since a
variable may be read then. What the child says gets one more entry, the names that were looked up.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import redirect_stdout
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[2])
_PASSED_ON = (__file__, os.__file__, "<frozen os>", "<frozen _collections_abc>")


class Noted(MutableMapping[str, str]):
    """The environment; whoever in the package looks for a name in it leaves that name here."""

    def __init__(self, real: MutableMapping[str, str]) -> None:
        self._real = real
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in _PASSED_ON:
            frame = frame.f_back
        if frame.f_code.co_filename.startswith(_PACKAGE):
            self.asked.add(name)
        return self._real[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._real[name] = value

    def __delitem__(self, name: str) -> None:
        del self._real[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def copy(self) -> dict[str, str]:
        """As that of the operating system has it."""
        return dict(self._real)


def main() -> None:
    """The child's answers, and what was looked up for them."""
    noted = Noted(os.environ)
    vars(os)["environ"] = noted
    from heterofedsyn.audit import child

    said = io.StringIO()
    with redirect_stdout(said):
        child.main()
    json.dump({**json.loads(said.getvalue()), "asked": sorted(noted.asked)}, sys.stdout)


if __name__ == "__main__":
    main()
