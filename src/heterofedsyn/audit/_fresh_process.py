"""A new process that answers, forks, and answers again, all at one moment of its clock.

A script, not a module: it notes which environment variables this software looks up, and so must be
in place before anything of the package is imported, since a variable may be read then. It reads a
seed and two queries as JSON, and writes the answers to the first query of this process, of its
fork, of another site in it, and of an agent on disk that was given no noise; and the names that
were looked up.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).resolve().parents[1])
_PASSED_ON = (os.__file__, "<frozen os>", "<frozen _collections_abc>")


def note_names() -> set[str]:
    """The names that the package looks for in the environment from now on."""
    names: set[str] = set()
    kind: Any = type(os.environ)
    own = kind.__getitem__

    def noting(environment: Any, name: str) -> str:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in _PASSED_ON:
            frame = frame.f_back
        if frame.f_code.co_filename.startswith(_PACKAGE):
            names.add(name)
        value: str = own(environment, name)
        return value

    kind.__getitem__ = noting
    return names


def answers(told: dict[str, Any]) -> dict[str, bytes]:
    """Answer, fork and answer."""
    from heterofedsyn.audit.fixtures import SiteOnDisk, as_csv, temporary_folder
    from heterofedsyn.audit.noise import FewRows
    from heterofedsyn.audit.patches import stopped_clock
    from heterofedsyn.privacy.noise import SecureNoise

    first, second = (bytes.fromhex(message) for message in told["messages"])
    study = FewRows.of(told["seed"], 32, 64)
    with temporary_folder() as place, stopped_clock():
        study.site(SecureNoise()).answer(second)  # whatever a source keeps, it has by now
        source, out = os.pipe()
        if os.fork() == 0:
            os.write(out, study.site(SecureNoise()).answer(first))
            os._exit(0)
        os.close(out)
        parent = study.site(SecureNoise()).answer(first)
        with os.fdopen(source, "rb") as pipe:
            fork = pipe.read()
        os.wait()
        later = study.site(SecureNoise()).answer(first)
        rows, cap = as_csv(study.table), study.plan.epsilon
        site = SiteOnDisk.make(place, study.schema, rows, study.plan, epsilon=cap)
        with site.serving() as agent:
            own = agent.answer(first)
    return {"parent": parent, "fork": fork, "later": later, "agent": own}


if __name__ == "__main__":
    names = note_names()
    said = {name: answer.hex() for name, answer in answers(json.load(sys.stdin)).items()}
    json.dump({**said, "asked": sorted(names)}, sys.stdout)
