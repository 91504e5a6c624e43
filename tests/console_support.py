"""A console that runs, and somebody who asks it things as a browser would."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import urlencode, urlsplit

from heterofedsyn.console.pages import Role
from heterofedsyn.console.serving import Console
from heterofedsyn.protocol.study import Study


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def place(self) -> str:
        """Where it leads."""
        return self.headers.get("location", "")

    def fields(self) -> dict[str, str]:
        """The values of all inputs of the page; of those with one name the last."""
        found = {}
        for tag in re.findall(r"<input\b[^>]*>", self.text):
            values = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
            if "name" in values:
                found[values["name"]] = unescape(values.get("value", ""))
        return found


@dataclass
class Caller:
    """Somebody on this machine, with or without a session."""

    port: int
    root: str
    cookie: str = ""
    logged: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self,
        path: str,
        form: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        **headers: str,
    ) -> Reply:
        """Ask for a path below the root, or send a form there as a page of the console does."""
        sent = {"host": self.host, "sec-fetch-site": "same-origin"}
        if self.cookie:
            sent["cookie"] = self.cookie
        if form is not None:
            body = urlencode(form).encode()
            sent["content-type"] = "application/x-www-form-urlencoded"
        if body is not None:
            sent["origin"] = f"http://{self.host}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        whole = path if path.startswith("/") else f"{self.root}/{path}"
        return self.send("GET" if body is None else "POST", whole, sent, body)

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Reply:
        """Send a request as it is; a header without a value is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if value:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            reply = connection.getresponse()
            text = reply.read().decode()
            check_ids(text)
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, text)
        finally:
            connection.close()

    def drop(self, name: str, data: bytes, to: str, /, **texts: str) -> Reply:
        """Send a file with a form, as browsers do."""
        mark = "----a-boundary"
        parts = [
            f'--{mark}\r\ncontent-disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
            for key, value in {"token": self.token, **texts}.items()
        ]
        head = (
            f'--{mark}\r\ncontent-disposition: form-data; name="{name}"; filename="x"\r\n'
            "content-type: application/octet-stream\r\n\r\n"
        )
        body = "".join(parts).encode() + head.encode() + data + f"\r\n--{mark}--\r\n".encode()
        return self.ask(to, body=body, content_type=f"multipart/form-data; boundary={mark}")

    @property
    def token(self) -> str:
        """What forms of this session hold."""
        for page in ("studies", "plan"):
            if "token" in (fields := self.ask(page).fields()):
                return fields["token"]
        raise AssertionError("no page has a form")


def check_ids(page: str) -> None:
    """On every page an id is one element's, and what refers to an id finds it."""
    ids = re.findall(r'<[^<>]*\sid="([^"]*)"', page)
    assert len(ids) == len({*ids}), sorted(ids)
    meant = re.findall(r'<[^<>]*\s(?:for="|aria-labelledby="|href="#)([^"]*)"', page)
    assert {each for names in meant for each in names.split()} <= {*ids}


@contextmanager
def running(role: Role, told: list[str] | None = None) -> Iterator[tuple[Console, str, list[str]]]:
    """A console that serves this role; with the address that opens it and the lines of its log.

    Args:
        told: gets the addresses that follow.
    """
    logged: list[str] = []
    addresses = [] if told is None else told
    with Console(role, tell=addresses.append, log=logged.append) as console:
        address = console.invite()
        thread = threading.Thread(target=console.run)
        thread.start()
        try:
            yield console, address, logged
        finally:
            console.stop()
            thread.join(20)
            assert not thread.is_alive()


def stranger(address: str) -> Caller:
    """Somebody who knows the address but has no session."""
    parts = urlsplit(address)
    assert parts.port is not None
    return Caller(parts.port, parts.path.removesuffix("/enter"))


def entered(address: str) -> Caller:
    """Somebody who showed the token."""
    caller = stranger(address)
    reply = caller.ask(address.partition(caller.host)[2], sec_fetch_site="none")
    assert reply.status == 303
    caller.cookie = reply.headers["set-cookie"].partition(";")[0]
    return caller


def heard(study: Study, reply: Reply) -> dict[str, str]:
    """The groups of a fingerprint that a page asks for, as a coordinator reads them out."""
    asked = [int(name) for name in re.findall(r'name="group-(\d)"', reply.text)]
    assert len(asked) == 2
    return {f"group-{i}": study.fingerprint[8 * i : 8 * i + 8] for i in asked}
