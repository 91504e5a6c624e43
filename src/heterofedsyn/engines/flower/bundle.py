"""A study as Flower takes it: a bundle without code of its own, and a run's settings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from heterofedsyn._version import __version__
from heterofedsyn.engines.conducting import Order
from heterofedsyn.engines.task import check_keys, pack
from heterofedsyn.errors import UsageError
from heterofedsyn.protocol import Study

SERVER_APP = "heterofedsyn.engines.flower.server_app:app"
CLIENT_APP = "heterofedsyn.engines.flower.client_app:app"
"""Both are part of the installed package; a bundle names them and ships nothing."""

PUBLISHER = "heterofedsyn"
BUNDLE = f"{PUBLISHER}/heterofedsyn"
"""How Flower calls the bundle."""

FINGERPRINT = "fingerprint"
_STUDY, _RESUME, _ROWS, _SAFE_CSV = "study", "resume", "rows", "safe-csv"
_AS_MANY_AS_THERE_ARE = 0


def flower_version() -> str:
    """The version that is installed.

    Raises:
        UsageError: if there is none.
    """
    try:
        return version("flwr")
    except PackageNotFoundError:
        raise UsageError(
            "this needs the extra `flower`: pip install 'heterofedsyn[flower]'"
        ) from None


def bundle_text() -> str:
    """The one file of a bundle."""
    return f"""\
[project]
name = "heterofedsyn"
version = "{__version__.partition(".dev")[0]}"
description = "Noisy counts for one synthetic table; code and data stay where they are installed"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "{PUBLISHER}"

[tool.flwr.app.components]
serverapp = "{SERVER_APP}"
clientapp = "{CLIENT_APP}"

[tool.flwr.app.config]
{FINGERPRINT} = ""
{_STUDY} = ""
{_RESUME} = false
{_ROWS} = {_AS_MANY_AS_THERE_ARE}
{_SAFE_CSV} = false
"""


def settings_of(
    study: Study, *, resume: bool = False, rows: int | None = None, safe_csv: bool = False
) -> dict[str, str | bool | int]:
    """What a run of the bundle is told.

    Raises:
        UsageError: if only a simulation can run the study.
    """
    check_keys(study)
    return {
        FINGERPRINT: study.fingerprint,
        _STUDY: pack(study.to_toml()),
        _RESUME: resume,
        _ROWS: _AS_MANY_AS_THERE_ARE if rows is None else rows,
        _SAFE_CSV: safe_csv,
    }


def order_of(settings: Mapping[str, Any]) -> Order:
    """What a run was told."""
    rows = int(settings.get(_ROWS, _AS_MANY_AS_THERE_ARE))
    return Order(
        study=str(settings.get(_STUDY, "")),
        resume=settings.get(_RESUME) is True,
        rows=None if rows == _AS_MANY_AS_THERE_ARE else rows,
        safe_csv=settings.get(_SAFE_CSV) is True,
    )


def result_of(hub: Path, run: int | str) -> Path:
    """Where a run says how far it is."""
    return hub / "runs" / str(run)
