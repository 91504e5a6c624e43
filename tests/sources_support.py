"""What tests of several sources share."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

READ = """
import signal, sys
from heterofedsyn.sources import open_source
def terminate(number, frame):
    raise SystemExit(128 + number)
signal.signal(signal.SIGTERM, terminate)
source = open_source(sys.argv[1])
print("reading", flush=True)
for batch in source.batches():
    pass
"""


def interrupted(location: str, number: signal.Signals = signal.SIGINT) -> bool:
    """Whether a process that reads a location ends by a signal, although the query does not."""
    command = [sys.executable, "-c", READ, location]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        time.sleep(1)
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            return False
    if number == signal.SIGTERM:
        return process.returncode == 128 + number and said == b""
    return process.returncode == -number and b"KeyboardInterrupt" in said
