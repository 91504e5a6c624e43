"""What a startup kit must say before its process may start: jobs may come, code may not."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heterofedsyn._files import read_whole

CONTROLLER = "heterofedsyn.engines.nvflare.controller.StudyController"
"""What the server's allow list must name."""

EXECUTOR = "heterofedsyn.engines.nvflare.executor.AgentExecutor"
"""What a site's allow list must name; it needs nothing else."""

AUTHORIZATION = {
    "format_version": "1.0",
    "permissions": {
        role: {
            "submit_job": "any",
            "clone_job": "none",
            "manage_job": "any",
            "download_job": "any",
            "view": "any",
            "app_command": "any",
            "operate": "none",
            "shell_commands": "none",
            "byoc": "none",
        }
        for role in ("project_admin", "lead")
    },
}
"""`local/authorization.json` of all: jobs may come, code and shell commands may not.

`app_command` lets a coordinator ask the server how far a study is, and nothing else is registered.
"""

SITE_RESOURCES: dict[str, Any] = {
    "format_version": 2,
    "class_list_enforcement_mode": "enforce",
    "class_allow_list": [EXECUTOR],
    "allow_log_streaming": False,
    "client": {"retry_timeout": 30},
    "components": [
        {
            "id": "resource_manager",
            "path": "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
            "args": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0},
        },
        {
            "id": "resource_consumer",
            "path": "nvflare.app_common.resource_consumers.gpu_resource_consumer"
            ".GPUResourceConsumer",
        },
        {
            "id": "process_launcher",
            "path": "nvflare.app_common.job_launcher.client_process_launcher"
            ".ClientProcessJobLauncher",
        },
    ],
}
"""`local/resources.json` of a site: one class, of the installed package, and no log to the hub."""

MOST_SETTINGS_BYTES = 2**20
AUTHORIZATION_FILE = Path("local", "authorization.json")
RESOURCES_FILE = Path("local", "resources.json")
OWN_CODE = (Path("/local/custom"), Path("local", "custom"))
"""Where NVFlare would look for code beside the installed one; the second within the kit."""


def hub_resources(state: Path) -> dict[str, Any]:
    """`local/resources.json` of the server, which keeps jobs and snapshots in a folder of its own.

    Args:
        state: that folder, as a path from the root.
    """
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [CONTROLLER],
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 100,
                "heart_beat_timeout": 600,
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor"
            ".StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {
                    "path": "nvflare.app_common.storages.filesystem_storage.FilesystemStorage",
                    "args": {"root_dir": str(state / "snapshots"), "uri_root": "/"},
                },
            },
        },
        "components": [
            {
                "id": "job_scheduler",
                "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                "args": {"max_jobs": 4},
            },
            {
                "id": "job_manager",
                "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                "args": {"uri_root": str(state / "jobs"), "job_store_id": "job_store"},
            },
            {
                "id": "job_store",
                "path": "nvflare.app_common.storages.filesystem_storage.FilesystemStorage",
            },
            {
                "id": "process_launcher",
                "path": "nvflare.app_common.job_launcher.server_process_launcher"
                ".ServerProcessJobLauncher",
            },
        ],
    }


def harden_site(kit: Path) -> None:
    """Let a site's kit refuse code, shell commands and log streaming."""
    _harden(kit, SITE_RESOURCES)


def harden_hub(kit: Path, state: Path) -> None:
    """Let the server's kit refuse code, and keep what it stores in one folder."""
    _harden(kit, hub_resources(state))


def make_private(kit: Path) -> None:
    """Take everything in a folder from groups and from others."""
    for path in (kit, *kit.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXU)


def settings_of_kit(path: Path) -> Any:
    """What a settings file of a kit says.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no JSON.
    """
    return json.loads(read_whole(path, MOST_SETTINGS_BYTES))


def differences(found: Any, needed: Any, place: str = "") -> Iterator[str]:
    """Where settings are not as they must be, by the names on the way there.

    >>> list(differences({"view": "any", "byoc": "any"}, {"view": "any", "byoc": "none"}))
    ['byoc']
    """
    if isinstance(found, dict) and isinstance(needed, dict):
        for name in sorted(map(str, {*found, *needed})):
            inner = f"{place}.{name}" if place else name
            if name not in found or name not in needed:
                yield inner
            else:
                yield from differences(found[name], needed[name], inner)
    elif found != needed or type(found) is not type(needed):
        yield place or "all of it"


def _harden(kit: Path, resources: dict[str, Any]) -> None:
    for name, value in ((AUTHORIZATION_FILE, AUTHORIZATION), (RESOURCES_FILE, resources)):
        (kit / name).write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    make_private(kit)
