"""What every test shares: the data folder, examples, signals, and no silent skips in CI."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from federation_support import Machine
    from invented import Desk

SAME, FRESH = "same", "fresh"
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

# The same commit has the same verdict every time: examples follow from the tests alone. Fresh ones
# are drawn by `make fuzz` and `make check-slow`, with a seed that is said and repeats them.
settings.register_profile(
    SAME,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=True,
    database=None,
)
settings.register_profile(FRESH, settings.get_profile(SAME), derandomize=False)
settings.load_profile(SAME)


class SkipsFail:
    """Turns a skipped test or module into a failed one: what CI does not run, it does not show."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            report.outcome = "failed"
            report.longrepr = f"skipped, which CI does not allow: {_reason(report)}"
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.skipped:
            report.outcome = "failed"
            report.longrepr = f"skipped, which CI does not allow: {_reason(report)}"
        return report


class WithoutFlower:
    """Leaves Flower's modules and tests to the environment that has Flower (`make check`)."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        place = collection_path.as_posix()
        named = collection_path.name.startswith(("test_flower", "flower_"))
        return True if named or place.endswith("/heterofedsyn/engines/flower") else None


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    # A plugin, not hooks of this file: those would not see the doctests under src.
    if IN_CI:
        config.pluginmanager.register(SkipsFail())
    if find_spec("flwr") is None:
        config.pluginmanager.register(WithoutFlower())
    if _is_fresh(config) and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))
    _start_children_like_any_others()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a sweep, all but the first are thorough."""
    begun: set[str] = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test in begun and item.get_closest_marker("sweep"):
            item.add_marker("thorough")
        begun.add(test)


def pytest_report_header(config: pytest.Config) -> str | None:
    if not _is_fresh(config):
        return None
    seed = config.option.hypothesis_seed
    return f"fresh examples; to repeat: --hypothesis-profile={FRESH} --hypothesis-seed={seed}"


def _is_fresh(config: pytest.Config) -> bool:
    return bool(config.option.hypothesis_profile == FRESH)


def _start_children_like_any_others() -> None:
    """Let no child inherit what `nohup`, `&` or another program made of its signals.

    What is ignored stays ignored for a child, but what has a handler gets its usual meaning. So
    this process hears what it ignored, and does as little about it.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The public tables: HETEROFEDSYN_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HETEROFEDSYN_DATA") or beside)
    if not folder.is_dir():
        pytest.skip("the public tables are not here; set HETEROFEDSYN_DATA to their folder")
    return folder


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Desk:
    """An invented table and its schema in the folder where commands run."""
    from invented import Desk

    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, capsys)


@pytest.fixture(scope="session")
def federated_site() -> Iterator[Machine]:
    """A site of a federation, with users of its own where this is root."""
    from federation_support import machine

    with machine() as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real one."""
    from browser_support import opened

    with opened() as found:
        yield found
