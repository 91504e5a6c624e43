"""Drive one target, or all: `python -m fuzz.run [TARGET ...] --minutes 10`.

By coverage where atheris is installed (it needs not be), else by changes alone. An input that
breaks the law is kept in a file, whose name is said; put it into `found/TARGET/`, and it is tried
in every later run.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TARGETS = (
    *("schema_file", "site_settings", "study_file", "site_message", "socket_frame", "hub_answer"),
    *("receipt", "consent", "ledger_file", "release", "release_report"),
)
FOUND = Path(__file__).with_name("found")
KEPT = Path("build") / "fuzz"

MOST_MEBIBYTES = 1_536
"""That any input may take beyond what the program takes anyway."""

MOST_SECONDS = 20
"""Of processor time for any input: sizes are limited, so this is far more than any needs."""


class TooSlow(BaseException):
    """An input that takes too long for its size."""


def main() -> int:
    """Fuzz in a process for each target, so that none outlives a crash of its own."""
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--examples", action="store_true", help="only known inputs, each once")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if unknown := {*asked.targets} - {*TARGETS}:
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    if asked.one:
        return _one(asked.targets[0], asked.minutes * 60)
    if asked.examples:
        return max(_examples(name) for name in asked.targets or TARGETS)
    KEPT.mkdir(parents=True, exist_ok=True)
    return max(_process(name, asked.minutes) for name in asked.targets or TARGETS)


def load(name: str) -> Any:
    """A target by its name."""
    return importlib.import_module(f"fuzz.{name}")


def known(name: str) -> list[bytes]:
    """Every input that was made on purpose or found before."""
    target = load(name)
    found = [path.read_bytes() for path in sorted((FOUND / name).glob("*"))]
    return [*target.seeds(), *target.examples(), *found]


def bounded(work: Callable[[bytes], None], data: bytes) -> None:
    """The work on one input, ended when it takes too long."""
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        work(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@contextmanager
def limited() -> Iterator[None]:
    """Meanwhile this process gets so much more memory than it has, and no more."""
    former = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_MEBIBYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, former)


def _examples(name: str) -> int:
    """Every known input of a target once, within the limits."""
    target = load(name)
    for data in target.seeds():
        target.fuzz_one(data)
    broken, inputs = 0, known(name)
    with limited():
        for data in inputs:
            start = time.process_time()
            try:
                bounded(target.fuzz_one, data)
            except (Exception, TooSlow):
                broken += 1
                traceback.print_exc(limit=-6)
                print(f"{name}: {len(data):,} bytes starting with {data[:60]!r}", file=sys.stderr)
            if (spent := time.process_time() - start) > 2:
                print(f"{name}: {spent:.1f} s for {len(data):,} bytes: {data[:60]!r}")
    print(f"{name}: {len(inputs)} known inputs, {broken} break the law", flush=True)
    return min(broken, 1)


def _process(name: str, minutes: float) -> int:
    command = [sys.executable, "-m", "fuzz.run", name, "--one", "--minutes", str(minutes)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    if executed:
        how = "coverage" if "by coverage" in done.stdout else "changes"
        print(f"{name}: {int(executed[1]):,} inputs by {how}", end="; ")
    if done.returncode:
        (KEPT / f"{name}.log").write_text(done.stdout)
        kept = re.search(r"Test unit written to (\S+)", done.stdout)
        place = kept[1] if kept else KEPT / f"{name}.log"
        print(f"BROKEN, see {place} and {KEPT / name}.log", flush=True)
        if kept:
            again = f"PYTHONPATH=tests python -m fuzz.run {name} --examples"
            print(f"to repeat: install -D {place} -t {FOUND / name} && {again}", flush=True)
        return 1
    print("nothing found", flush=True)
    return 0


def _one(name: str, seconds: float) -> int:
    if importlib.util.find_spec("atheris"):
        _by_coverage(name, seconds)  # which ends the process
    return _by_changes(name, seconds)


def _by_coverage(name: str, seconds: float) -> None:
    import atheris
    import numpy as np

    import heterofedsyn

    # Compiled loops cannot be watched.
    loops = Path(heterofedsyn.__file__).parent.rglob("_*_kernel.py")
    left_out = [f"heterofedsyn.{path.parent.name}.{path.stem}" for path in loops]
    with atheris.instrument_imports(include=["heterofedsyn"], exclude=left_out):
        target = load(name)
        for seed in target.seeds():
            target.fuzz_one(seed)
    from fuzz.changes import MOST_BYTES, TOKENS, changed

    seeds = [data for data in known(name) if len(data) <= MOST_BYTES]
    corpus = Path(tempfile.mkdtemp(prefix=f"corpus-{name}-"))
    for data in seeds:
        (corpus / hashlib.sha256(data).hexdigest()).write_bytes(data)
    words = corpus.with_suffix(".words")
    escaped = ("".join(f"\\x{byte:02x}" for byte in token) for token in TOKENS if len(token) < 64)
    words.write_text("".join(f'"{word}"\n' for word in escaped))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        if rng.random() < 0.4:
            return bytes(atheris.Mutate(data, most))
        return changed(data, rng, target.FORM, seeds)[:most]

    arguments = [
        *(sys.argv[0], str(corpus), f"-dict={words}", f"-max_total_time={seconds:.0f}"),
        *(f"-max_len={MOST_BYTES}", f"-timeout={2 * MOST_SECONDS}", "-print_final_stats=1"),
        *("-rss_limit_mb=4096", "-malloc_limit_mb=1536", f"-artifact_prefix={KEPT}/{name}-"),
        "-len_control=0",
    ]
    print("by coverage")
    atheris.Setup(arguments, target.fuzz_one, custom_mutator=mutate)
    atheris.Fuzz()


def _by_changes(name: str, seconds: float) -> int:
    import numpy as np

    from fuzz.changes import MOST_BYTES, changed

    target = load(name)
    corpus = [data for data in known(name) if len(data) <= MOST_BYTES]
    for seed in target.seeds():
        target.fuzz_one(seed)
    rng = np.random.default_rng(int.from_bytes(os.urandom(8)))
    until, executed = time.monotonic() + seconds, 0
    with limited():
        while time.monotonic() < until:
            data = changed(corpus[int(rng.integers(len(corpus)))], rng, target.FORM, corpus)
            try:
                bounded(target.fuzz_one, data)
            except (Exception, TooSlow):
                path = KEPT / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
                path.write_bytes(data)
                traceback.print_exc()
                print(f"Test unit written to {path}", file=sys.stderr)
                return 1
            executed += 1
    print(f"stat::number_of_executed_units: {executed}", file=sys.stderr)
    return 0


def _too_slow(number: int, frame: object) -> None:
    raise TooSlow(f"over {MOST_SECONDS} s of processor time")


if __name__ == "__main__":
    sys.exit(main())
