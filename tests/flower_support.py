"""A real federation of Flower's on this machine, set up by the very blocks of docs/flower.md."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from docs_support import blocks
from heterofedsyn.engines.flower.superlink import SuperLink
from heterofedsyn.errors import EngineError
from nvflare_support import COORDINATOR, HUB, NAME, PATIENCE, ROOT, Federation, free_port, until
from nvflare_support import GUIDE as NVFLARE_GUIDE

GUIDE = NVFLARE_GUIDE | {
    block.words[0]: block.text for block in blocks(ROOT / "docs" / "flower.md") if block.words
}
RELAY = "heterofedsyn-relay.service"
SUPERLINK, PROXY = "superlink", "proxy"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass(eq=False)
class FlowerFederation(Federation):
    """One SuperLink, at which the coordinator works, and some sites.

    Attributes:
        gate: the port at which sites find the SuperLink: the proxy's, if there is nginx.
        runs_apps: whether SuperNodes run what is shipped.
        ports: of the SuperNodes, for their relays.
    """

    guide: ClassVar[dict[str, str]] = GUIDE
    runs_apps: ClassVar[bool] = False
    gate: int = field(default_factory=free_port)
    ports: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if NGINX is None:
            self.gate = self.port

    def folder(self, role: str) -> Path:
        return self.root / NAME / HUB if role in (HUB, COORDINATOR) else self.root / role

    def place(self, role: str) -> Path:
        return self.folder(role)

    def page(self, name: str, role: str) -> str:
        text = super().page(name, role)
        more = f" --runtime-port {self.ports.setdefault(role, free_port())}"
        more += " --runs-apps" if self.runs_apps else ""
        return (
            text.replace("localhost:9092", f"localhost:{self.gate}")
            .replace("192.0.2.10:9092", f"127.0.0.1:{self.gate}")
            .replace("127.0.0.1:9092", f"127.0.0.1:{self.port}")
            .replace("--port 9092", f"--port {self.port}")
            .replace("site flower", f"site flower{more}")
            .replace("/srv/superlink", str(self.folder(HUB)))
        )

    def environment(self) -> dict[str, str]:
        home = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        return super().environment() | home

    def provision(self) -> None:
        self.folder(HUB).mkdir(parents=True)
        said = self.run("root.sh", HUB)
        (self.fingerprint,) = re.findall(r"Fingerprint=([0-9A-F:]+)", said)
        (self.folder(HUB) / "config.toml").write_text(self.page("config.toml", HUB))
        self.server()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.kit, self.sites))

    def kit(self, site: str) -> None:
        """A key at a site, and its registration at the hub."""
        folder = self.folder(site)
        folder.mkdir()
        shutil.copy(self.folder(HUB) / "root.pem", folder)
        said = self.run("join.sh", site)
        assert "to read out by telephone" in said
        shutil.copy(folder / f"{site}.pub", self.folder(HUB))
        said = self.command(["bash", "-euc", self.page("register.sh", site)], HUB)
        assert "registered successfully" in said

    def server(self) -> None:
        if f"{HUB} {SUPERLINK}" in self.processes:
            return
        command = f"cd {self.folder(HUB)}; " + self.page("superlink.sh", HUB)
        self.spawn(f"{HUB} {SUPERLINK}", ["bash", "-euc", command], self.environment())
        until(self._listening, "the SuperLink's port")
        if NGINX is not None and f"{HUB} {PROXY}" not in self.processes:
            self._proxy(NGINX)

    def _proxy(self, program: str) -> None:
        """What lets sites through to the SuperLink, and nothing else."""
        folder = self.folder(HUB)
        (folder / "proxy.conf").write_text(self.page("proxy.conf", HUB))
        (folder / PROXY).mkdir()
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = " ".join(f"{kind}_temp_path {folder / PROXY / kind};" for kind in kinds)
        (folder / "nginx.conf").write_text(
            f"{'user root;' if os.getuid() == 0 else ''} daemon off; error_log stderr; "
            f"pid {folder / PROXY}/pid; events {{}} "
            f"http {{ access_log off; {places} include {folder}/proxy.conf; }}\n"
        )
        command = [program, "-p", str(folder / PROXY), "-c", str(folder / "nginx.conf")]
        self.spawn(f"{HUB} {PROXY}", command, self.environment())

    def end_server(self) -> None:
        self.end(f"{HUB} {SUPERLINK}")

    def engine(self, site: str) -> None:
        super().engine(site)
        if not self.runs_apps:
            self.start(RELAY, site)

    def server_of(self) -> SuperLink:
        hub = self.folder(HUB)
        return SuperLink(f"localhost:{self.port}", hub / "root.pem", hub / "studies")

    def connected(self) -> set[str]:
        import time

        try:
            with self.server_of().connect() as session:
                heard = session.heard()
        except EngineError:
            return set()
        return {site for site, when in heard.items() if when > time.time() - PATIENCE / 2}

    def progress_files(self) -> list[Path]:
        return [*self.folder(HUB).glob("studies/runs/*/progress.json")]

    def take_simulated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from heterofedsyn.engines.flower import bundle

        monkeypatch.setattr(bundle, "SERVER_APP", "flower_simulated:app")


class AppsFederation(FlowerFederation):
    """One whose SuperNodes run what is shipped: Flower starts the ClientApp for every message."""

    runs_apps = True
