"""Check locked dependencies against known advisories: `python tools/advisories.py LOCK ...`.

Runs pip-audit, which asks an advisory source. A dependency that the source says nothing about was
not checked, so that is a failure here: an index that knows no advisories must not look like one
that has none. Exit codes: 0 nothing is known, 1 something is, 2 nobody could tell.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SERVICES = ("pypi", "osv")


def main(locks: list[str]) -> int:
    """Ask the sources in turn until one knows every dependency."""
    said = ["pip-audit was not asked"]
    for service in SERVICES:
        command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", service]
        command += ["--disable-pip", "--require-hashes", "--format", "json"]
        command += ["--progress-spinner", "off"]
        for lock in locks:
            command += ["--requirement", lock]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        code, lines = verdict(done.stdout)
        if code < 2:
            print("\n".join(lines))
            return code
        said.append(f"{service}: {lines[0]}")
    print(f"advisories: no source could tell ({'; '.join(said[1:])}); try where one is reachable")
    return 2


def verdict(output: str) -> tuple[int, list[str]]:
    """The exit code and the lines to say for what pip-audit wrote.

    >>> verdict('{"dependencies": [{"name": "numpy", "version": "2.4.6", "vulns": []}]}')
    (0, ['advisories: nothing is known against 1 locked dependency'])
    """
    try:
        found: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return 2, ["no answer"]
    unknown = [one for one in found if "skip_reason" in one]
    if unknown or not found:
        return 2, [f"nothing about {len(unknown)} of {len(found)} dependencies"]
    lines = [
        f"{one['name']} {one['version']}: {flaw['id']}, "
        + (f"mended in {', '.join(flaw['fix_versions'])}" if flaw["fix_versions"] else "not mended")
        for one in found
        for flaw in one["vulns"]
    ]
    if lines:
        return 1, [f"advisories: {len(lines)} known against locked dependencies", *lines]
    many = "1 locked dependency" if len(found) == 1 else f"{len(found)} locked dependencies"
    return 0, [f"advisories: nothing is known against {many}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
