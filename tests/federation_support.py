"""A site of a federation on this machine, with users, socket and units, and a server to reach."""

from __future__ import annotations

import email.utils
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from heterofedsyn import __version__
from heterofedsyn.federation.admission import admit, read_asking
from heterofedsyn.federation.doctor import examine
from heterofedsyn.federation.finding import Finding
from heterofedsyn.federation.flower_site import join_flower
from heterofedsyn.federation.founding import Founded, new_federation
from heterofedsyn.federation.joining import join as ask_to_join
from heterofedsyn.federation.joining import unpack_kit
from heterofedsyn.federation.party import Party, as_owner
from heterofedsyn.federation.services import services
from heterofedsyn.site.create import create_site
from heterofedsyn.site.settings import SiteSettings
from nvflare_support import free_port
from site_support import make_settings

AS_ROOT = os.geteuid() == 0
OTHER_DISK = Path("/dev/shm")


class Answering(threading.Thread):
    """Answers on a hub's port as its server does: TLS with its kit's certificate, and a date."""

    def __init__(self, certificate: Path, root: Path, port: int, *, mutual: bool) -> None:
        super().__init__(daemon=True)
        self.ahead = self.drip = 0.0
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(root))
        self._context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
        self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._listening = socket.create_server(("127.0.0.1", port))
        self.start()

    def run(self) -> None:
        while True:
            try:
                plain, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._speak, args=(plain,), daemon=True).start()

    def _speak(self, plain: socket.socket) -> None:
        with suppress(OSError), plain, self._context.wrap_socket(plain, True) as secured:
            secured.recv(4_096)
            date = email.utils.formatdate(time.time() + self.ahead, usegmt=True)
            answer = f"HTTP/1.1 426 Upgrade Required\r\nDate: {date}\r\n\r\n".encode()
            for letter in answer:
                secured.sendall(bytes([letter]))
                time.sleep(self.drip)

    def close(self) -> None:
        """Let go of the port, even while the thread waits for somebody."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.join(10)


class Engine:
    """What a machine shows of an engine: processes of its user with its kit, and a connection.

    Args:
        commands: with whose words processes are started.
    """

    def __init__(self, party: Party, commands: Iterable[tuple[str, ...]]) -> None:
        with as_owner(party.kit):
            self.connection = socket.socket()
        self.connection.connect(("127.0.0.1", party.port))
        self._processes = [
            subprocess.Popen(
                ["/bin/sh", "-c", "read -r _", *command],
                stdin=subprocess.PIPE,
                user=party.kit.stat().st_uid if AS_ROOT else None,
            )
            for command in commands
        ]

    def end(self) -> None:
        self.connection.close()
        for process in self._processes:
            process.kill()
            process.communicate()


@dataclass
class Machine:
    """One site as its machine has it."""

    root: Path
    founded: Founded
    party: Party
    settings: SiteSettings
    answering: Answering | None = None
    engine: Engine | None = None

    def answer(self, certificate: Path | None = None) -> None:
        """Answer on the hub's port, with the hub's certificate unless another is given."""
        self.silence()
        startup = self.founded.hub_folder / "kit" / "startup"
        shown = certificate or startup / "server.crt"
        mutual = self.party.nvflare is not None
        self.answering = Answering(shown, startup / "rootCA.pem", self.party.port, mutual=mutual)

    def silence(self) -> None:
        """Answer no more."""
        if self.answering is not None:
            self.answering.close()
        self.answering = None

    def run_engine(self, change: Callable[[str], str] = str) -> None:
        """Let the engine run as its units say, anew if it does.

        Args:
            change: of the words of each command; one without words is not started.
        """
        self.end_engine()
        units = services(Party.load(self.party.folder))
        texts = [shlex.join(unit.command) for unit in units if unit.user == self.party.engine]
        commands = [tuple(shlex.split(change(text))) for text in texts]
        self.engine = Engine(self.party, filter(None, commands))

    def end_engine(self) -> None:
        """Let it run no more."""
        if self.engine is not None:
            self.engine.end()
        self.engine = None

    @property
    def units(self) -> Path:
        return self.root / "units"

    def findings(self) -> list[Finding]:
        return list(examine(self.party.folder, self.units))

    def wrong(self) -> dict[str, Finding]:
        return {one.rule: one for one in self.findings() if one.state == "wrong"}


def admitted(founded: Founded, folder: Path, name: str, *, renew: bool = False, days: int) -> Path:
    """The hub's answer to a new request of a site, in the site's folder."""
    made = ask_to_join(founded.hub.federation, name, folder, renew=renew)
    out = folder / f"{name}.signed.zip"
    out.unlink(missing_ok=True)
    admit(read_asking(made.request, founded.root, renew=renew), out, days=days)
    return out


@dataclass(frozen=True)
class Names:
    """What a site has on its machine that others share."""

    prefix: str
    anchor: Path
    programs: Path


Join = Callable[[Founded, Path, Names], Party]


def by_nvflare(founded: Founded, folder: Path, names: Names) -> Party:
    """A site that NVFlare carries."""
    return unpack_kit(
        admitted(founded, folder, "elmwood", days=1_000),
        folder,
        fingerprint=founded.hub.fingerprint,
        prefix=names.prefix,
        anchor=names.anchor,
        programs=names.programs,
    )


def by_flower(founded: Founded, folder: Path, names: Names) -> Party:
    """A site that Flower carries; a hub's certificates are made by NVFlare here too."""
    party, _ = join_flower(
        founded.hub.federation,
        "elmwood",
        folder,
        superlink=f"localhost:{founded.hub.port}",
        root=founded.hub_folder / "kit" / "startup" / "rootCA.pem",
        fingerprint=founded.hub.fingerprint,
        prefix=names.prefix,
        anchor=names.anchor,
        programs=names.programs,
    )
    return party


@contextmanager
def machine(join: Join = by_nvflare) -> Iterator[Machine]:
    """A federation of one site; with users of its own where there may be."""
    prefix = f"hfst{os.getpid()}{join.__name__[3]}"
    root = Path(tempfile.mkdtemp(prefix="hfs"))
    root.chmod(0o755)
    anchor = Path(tempfile.mkdtemp(prefix="hfs", dir=OTHER_DISK))
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, root)
        ends.callback(shutil.rmtree, anchor)
        founded = new_federation("hospitals", "localhost", root / "hospitals", port=free_port())
        folder, programs = root / "elmwood", root / "programs"
        folder.mkdir()
        programs.mkdir()
        for name in ("heterofedsyn", "python3"):
            (programs / name).write_text(f"#!/bin/sh\necho heterofedsyn {__version__}\n")
            (programs / name).chmod(0o755)
        party = join(founded, folder, Names(prefix, anchor, programs))
        settings = replace(
            make_settings(root),
            folder=party.site,
            anchor=anchor / "elmwood",
            engine=party.engine,
            group=party.group,
            socket=party.socket,
        )
        create_site(settings)
        if AS_ROOT:
            _make_users(party, ends)
            _give(party, settings, ends)
        (root / "units").mkdir()
        for service in services(party):
            shutil.copy(folder / service.file, root / "units")
        made = Machine(root, founded, party, settings)
        ends.callback(made.silence)
        made.answer()
        ends.callback(made.end_engine)
        made.run_engine()
        yield made


def _make_users(party: Party, ends: ExitStack) -> None:
    """By the very script that a site runs; ended with them."""
    for command in (("groupdel", party.group), ("userdel", party.engine), ("userdel", party.agent)):
        ends.callback(subprocess.run, command, check=False, capture_output=True)
    subprocess.run(["sh", str(party.folder / "users.sh")], check=True)


def _give(party: Party, settings: SiteSettings, ends: ExitStack) -> None:
    """What would be the agent's had it made it: the site, the anchor, the socket."""
    owner = f"{party.agent}:{party.group}"
    place = party.socket.parent
    place.mkdir(mode=0o750)
    ends.callback(shutil.rmtree, place)
    listening = socket.socket(socket.AF_UNIX)
    ends.callback(listening.close)
    listening.bind(str(party.socket))
    party.socket.chmod(0o660)
    source = Path(settings.source)
    places = [party.site, settings.anchor, place, source]
    subprocess.run(["chown", "-R", owner, *map(str, places)], check=True)
    place.chmod(0o750)
    source.chmod(0o600)


def changed(path: Path, change: Callable[[str], str]) -> Callable[[], None]:
    """Change a file's text; returns what takes it back."""
    before = path.read_text("utf-8")
    path.write_text(change(before), "utf-8")
    return lambda: void(path.write_text(before, "utf-8"))


def opened(path: Path, mode: int) -> Callable[[], None]:
    """Change a path's mode; returns what takes it back."""
    before = path.stat().st_mode
    path.chmod(mode)
    return lambda: path.chmod(before)


def made(path: Path) -> Callable[[], None]:
    """Make a folder; returns what takes it back."""
    path.mkdir()
    return lambda: shutil.rmtree(path, ignore_errors=True)


def void(_: object) -> None:
    """Nothing, whatever there was."""
