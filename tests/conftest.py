"""What every test shares: the data folder, hypothesis profiles, and no silent skips in CI."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.load_profile("ci" if IN_CI else "default")


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


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


def pytest_configure(config: pytest.Config) -> None:
    # A plugin, not hooks of this file: those would not see the doctests under src.
    if IN_CI:
        config.pluginmanager.register(SkipsFail())


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The public tables: HETEROFEDSYN_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HETEROFEDSYN_DATA") or beside)
    if not folder.is_dir():
        pytest.skip("the public tables are not here; set HETEROFEDSYN_DATA to their folder")
    return folder
