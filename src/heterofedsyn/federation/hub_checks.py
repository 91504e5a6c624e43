"""Whether the hub is there, is the right one, and agrees what time it is."""

from __future__ import annotations

import email.utils
import errno
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from heterofedsyn.federation.finding import Finding, judged, ok, unknown, wrong
from heterofedsyn.federation.kit_checks import AS_ROOT, CERTIFICATE, renew_command
from heterofedsyn.federation.party import Party

MOST_APART = 60.0
"""Seconds between the hub's clock and this one."""

SECONDS = 10.0
"""For the whole of it, however slowly the other side speaks."""

_MOST_BYTES = 2**14


def check_hub(party: Party) -> Iterator[Finding]:
    """Reach the hub as the engine does, over TLS, and ask for the time."""
    where = f"{party.host}:{party.port}"
    try:
        context = ssl.create_default_context(cafile=str(party.root))
        if not party.flower:  # whose nodes sign every request with their keys instead
            context.load_cert_chain(party.kit / CERTIFICATE, party.key)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # NVFlare's say less than that asks for
    except PermissionError:
        yield unknown("hub reachable", "the kit's key cannot be read from here", AS_ROOT)
        return
    except OSError:
        yield wrong("hub reachable", "the kit's certificates are damaged", renew_command(party))
        return
    began, until = time.time(), time.monotonic() + SECONDS
    try:
        with (
            socket.create_connection((party.host, party.port), timeout=SECONDS / 2) as plain,
            _cut_off(plain, until),
            context.wrap_socket(plain, server_hostname=party.host) as secured,
        ):
            said = _date(secured, party.host)
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message or "its certificate is none of the federation's"
        yield wrong("hub reachable", f"{where} is not the hub: {why}", "call the hub")
        return
    except ssl.SSLError:
        yield wrong(
            "hub reachable",
            f"{where} does not speak TLS with this site's certificate",
            "does a proxy open TLS? it must let this through; else call the hub",
        )
        return
    except OSError as error:
        why = error.strerror or type(error).__name__
        yield wrong(
            "hub reachable",
            f"{where}: {why}",
            f"let outgoing TCP to {where} through, and ask whether the hub is up",
        )
        return
    how = "with its own certificate" if party.flower else "with certificates on both sides"
    yield ok("hub reachable", f"{where}, {how}")
    yield _clock(said, began)


@contextmanager
def _cut_off(plain: socket.socket, until: float) -> Iterator[None]:
    """End a connection at a moment, in whatever it is.

    Raises:
        TimeoutError: if it came to that.
    """
    cut = threading.Event()
    with plain.dup() as same:

        def end() -> None:
            cut.set()
            with suppress(OSError):  # the other side was faster
                same.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(until - time.monotonic(), end)
        timer.start()
        try:
            yield
        except OSError:
            if not cut.is_set():
                raise
        finally:
            timer.cancel()
            timer.join()
    if cut.is_set():
        raise TimeoutError(errno.ETIMEDOUT, f"no whole answer within {SECONDS:.0f} s")


def _date(secured: ssl.SSLSocket, host: str) -> str | None:
    """The time that the server's answer to a plain request tells."""
    secured.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < _MOST_BYTES:
        more = secured.recv(4_096)
        if not more:
            break
        answer += more
    for line in answer.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"date":
            return value.strip().decode("latin-1")
    return None


def _clock(said: str | None, began: float) -> Finding:
    try:
        moment = email.utils.parsedate_to_datetime(said or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return unknown("clock", "the hub does not tell its time", "timedatectl tells this one's")
    # What it told was so at some moment between our asking and now.
    apart = max(began - moment - 1, moment - time.time(), 0.0)
    return judged(
        "clock",
        [f"it is {apart:.0f} s apart from the hub's"] if apart > MOST_APART else [],
        "set it by a time server: timedatectl set-ntp true; if it is right, call the hub",
        f"within {MOST_APART:.0f} s of the hub's",
    )
