"""The job of a study, without code of its own, and the session in which it is submitted."""

from __future__ import annotations

import io
import json
import logging
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from heterofedsyn._files import written_whole
from heterofedsyn.engines.nvflare.hardening import CONTROLLER, EXECUTOR
from heterofedsyn.engines.progress import Progress
from heterofedsyn.engines.session import Session, no_answer, plainly, read_progress
from heterofedsyn.engines.task import (
    PROGRESS,
    PROGRESS_FILE,
    RELEASE,
    RESULT,
    TASK,
    check_keys,
    pack,
)
from heterofedsyn.errors import EngineError, UsageError
from heterofedsyn.protocol import Study

_MOST_SECONDS = 20.0


def job_name(study: Study) -> str:
    """What the jobs of a study are called, and those of no other."""
    return f"heterofedsyn-{study.fingerprint}"


def write_job(
    study: Study,
    folder: Path,
    *,
    resume: bool = False,
    rows: int | None = None,
    safe_csv: bool = False,
) -> Path:
    """Write the job of a study: configuration only, for its own sites only.

    Raises:
        UsageError: if only a simulation can run it.
    """
    check_keys(study)
    meta = {
        "name": job_name(study),
        "resource_spec": {},
        "deploy_map": {"server": ["server"], "site": list(study.plan.sites)},
        "min_clients": study.quorum,
    }
    server = {
        "format_version": 2,
        "workflows": [
            {
                "id": "study",
                "path": CONTROLLER,
                "args": {
                    "study": pack(study.to_toml()),
                    "resume": resume,
                    "rows": rows,
                    "safe_csv": safe_csv,
                },
            }
        ],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    site = {
        "format_version": 2,
        "executors": [{"tasks": [TASK], "executor": {"path": EXECUTOR, "args": {}}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    with written_whole(folder) as partial:
        (partial / "meta.json").write_text(_text(meta), "utf-8")
        for app, name, config in (
            ("server", "config_fed_server.json", server),
            ("site", "config_fed_client.json", site),
        ):
            place = partial / app / "config"
            place.mkdir(parents=True)
            (place / name).write_text(_text(config), "utf-8")
    return folder


class Hub(Session):
    """A coordinator's session with the server of a federation."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def submit(
        self, study: Study, *, resume: bool, rows: int | None = None, safe_csv: bool = False
    ) -> str:
        """Submit the study; the number of its job comes back."""
        with tempfile.TemporaryDirectory() as scratch, _plain("submit the study"):
            folder = Path(scratch) / job_name(study)
            job = write_job(study, folder, resume=resume, rows=rows, safe_csv=safe_csv)
            found: str = self._session.submit_job(str(job))
            return found

    def latest(self, study: Study) -> str | None:
        """The newest job of a study."""
        name = job_name(study)
        with _plain("list the jobs"):
            jobs = [job for job in self._session.list_jobs() if job.get("job_name") == name]
        jobs.sort(key=lambda job: str(job.get("submit_time")))
        return str(jobs[-1]["job_id"]) if jobs else None

    def status(self, job: str) -> str:
        """What NVFlare says of a job, such as RUNNING or FINISHED:COMPLETED."""
        with _plain("ask for the job"):
            return str(self._session.get_job_meta(job).get("status"))

    def running(self, job: str) -> Progress | None:
        """How far a running job is; nothing before it runs or when it does not say."""
        try:
            found = self._session.do_app_command(job, PROGRESS, {})
            return msgspec.convert(found, Progress)
        except Exception:  # it has not begun, or has just ended: what it wrote tells
            return None

    def heard(self) -> dict[str, float]:
        """When each connected site was last heard, by the server's clock."""
        with _plain("ask who is connected"):
            return {
                str(client.name): float(client.last_connect_time)
                for client in self._session.get_connected_client_list()
            }

    def detail(self, job: str) -> str:
        """What server and sites said when they were to start a job, if anything was wrong."""
        with _plain("ask for the job"):
            said = self._session.get_job_meta(job).get("job_deploy_detail") or ()
        return "; ".join(str(line) for line in said if not str(line).endswith(": OK"))

    def abort(self, job: str) -> None:
        """Stop a job; finished rounds stay in the hub's journal."""
        with _plain("stop the job"):
            self._session.abort_job(job)

    @contextmanager
    def result(self, job: str) -> Iterator[tuple[Progress | None, Path]]:
        """What a finished job left: its progress and the folder of its release."""
        with tempfile.TemporaryDirectory() as scratch:
            with _plain("fetch the result"):
                place = Path(self._session.download_job_result(job, scratch))
            found = next(place.rglob(f"{RESULT}/{PROGRESS_FILE}"), None)
            if found is None:
                yield None, place
                return
            yield read_progress(found), found.parent / RELEASE

    def close(self) -> None:
        """End the session."""
        self._session.close()


@contextmanager
def connect(kit: Path, user: str | None = None) -> Iterator[Hub]:
    """A secure session with the startup kit of an administrator of the federation.

    Args:
        user: who it is; as the kit says unless given.
    """
    try:
        from nvflare.fuel.flare_api.flare_api import new_secure_session
    except ImportError:
        raise UsageError(
            "this needs the extra `nvflare`: pip install 'heterofedsyn[nvflare]'"
        ) from None
    who = user or _settings(kit).get("username")
    if not who:
        raise UsageError("the kit does not say whose it is; name the user with --user")
    if (why := unreachable(kit)) is not None:
        raise EngineError(why)
    with _quiet():
        with _plain("reach the server"), redirect_stdout(io.StringIO()):
            hub = Hub(new_secure_session(who, str(kit), timeout=_MOST_SECONDS))
        try:
            yield hub
        finally:
            hub.close()


def unreachable(kit: Path) -> str | None:
    """That nobody answers at the server's port, and what to do; nothing if somebody does."""
    return no_answer(*server_of(kit))


class KitServer:
    """The server that an administrator's kit is for.

    Args:
        user: who it is; as the kit says unless given.
    """

    def __init__(self, kit: Path, user: str | None = None) -> None:
        self._kit, self._user = kit, user
        host, port = server_of(kit)
        self.address = f"{host}:{port}"

    def unreachable(self) -> str | None:
        """That nobody answers there, and what to do; nothing if somebody does."""
        return unreachable(self._kit)

    def connect(self) -> AbstractContextManager[Hub]:
        """A secure session."""
        return connect(self._kit, self._user)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep NVFlare's log from people: what matters comes as one of our errors."""
    nobody, log = logging.NullHandler(), logging.getLogger()
    log.addHandler(nobody)
    try:
        yield
    finally:
        log.removeHandler(nobody)


def server_of(kit: Path) -> tuple[str, int]:
    """Name and port of the server that an administrator's kit is for."""
    settings = _settings(kit)
    try:
        return str(settings["host"]), int(settings["port"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{kit} does not say where the server is; make the kit anew") from None


def _settings(kit: Path) -> dict[str, Any]:
    try:
        found = json.loads((kit / "startup" / "fed_admin.json").read_text("utf-8"))["admin"]
        return dict(found)
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{kit} is no administrator's kit: it has no startup/fed_admin.json; name the folder "
            "that provisioning made for you"
        ) from None


_plain = partial(plainly, "NVFlare")


def _text(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"
