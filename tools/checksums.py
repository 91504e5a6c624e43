"""Write SHA256SUMS of all files of a folder, as `sha256sum --check` reads it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

NAME = "SHA256SUMS"


def main() -> None:
    """Of the folder that is named."""
    folder = Path(sys.argv[1])
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != NAME
    ]
    (folder / NAME).write_text("".join(lines), "ascii")


if __name__ == "__main__":
    main()
