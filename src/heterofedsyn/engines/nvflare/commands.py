"""NVFlare's commands, each in a process of its own, from one that has loaded them once.

Loading takes longer than most commands do, and setting up a federation takes many of them. A
command runs in a fork of a process without threads, so that nothing of one is seen by the next.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

OUTPUT = "out"
_MOST_SECONDS = 120.0


class Commands:
    """A process that runs NVFlare's commands one after the other, until this one ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def run(self, arguments: list[str]) -> bytes:
        """Run a command; what it wrote to its output comes back, and nobody sees the rest.

        Raises:
            OSError: if it cannot be run, or does not end.
        """
        with self._lock, tempfile.TemporaryDirectory() as scratch:
            # NVFlare keeps a record of every request and signature in the user's home: ours are
            # elsewhere, so that this scratch folder is its home.
            process = self._started()
            try:
                _ask(process, {"folder": scratch, "arguments": arguments})
            except BaseException:  # its answer would be taken for that of the next command
                self._end(process)
                raise
            return (Path(scratch) / OUTPUT).read_bytes()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._process is not None:
                self._end(self._process)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _ask(process: subprocess.Popen[bytes], asked: dict[str, object]) -> None:
    """Have a command run, and wait until it has."""
    if process.stdin is None or process.stdout is None:
        raise OSError("there is no pipe to NVFlare's commands")
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], _MOST_SECONDS)
    if not ready or not process.stdout.readline():
        raise OSError("NVFlare's command did not end")


def main() -> None:
    """Read commands, one in a line, and run each; ends when nobody asks any more."""
    import nvflare.cli

    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = _run(nvflare.cli.main, Path(asked["folder"]), asked["arguments"])
            finally:
                os._exit(code)
        os.waitpid(child, 0)
        sys.stdout.write("done\n")
        sys.stdout.flush()


def _run(command: object, folder: Path, arguments: list[str]) -> int:
    """Run NVFlare's program in a folder, with its output there."""
    os.chdir(folder)
    os.environ["HOME"] = str(folder)
    output = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    sys.argv = ["nvflare", *arguments]
    try:
        if callable(command):
            command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    main()
