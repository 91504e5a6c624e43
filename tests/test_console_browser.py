"""The steward's console in a real browser, beside a real agent; and pages that mean it ill."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from console_window import EVIL, Opened, window
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.socket import ask
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.consent import recorded
from heterofedsyn.site.settings import SiteSettings
from site_support import make_message, make_site, make_study

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "heterofedsyn"]


@pytest.fixture
def settings() -> Iterator[SiteSettings]:
    with tempfile.TemporaryDirectory() as place:  # short, as names of sockets must be
        yield make_site(Path(place))


@contextmanager
def console(settings: SiteSettings, log: Path) -> Iterator[str]:
    """The address of a console that runs as people start it."""
    command = [*COMMAND, "console", "--folder", str(settings.folder), "--no-browser"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.stdout.readline().strip()
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()


@contextmanager
def agent(settings: SiteSettings) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, "site", "serve", "--folder", str(settings.folder)], stderr=subprocess.DEVNULL
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def dropped(seen: Opened, study: Study, file: Path) -> None:
    study.save(file)
    seen.link("Studies")
    seen.page.set_input_files("#study", file)
    seen.page.get_by_role("button", name="Put it in the inbox").click()
    expect(seen.page.locator("#approve-head")).to_be_visible()


def test_the_whole_journey_of_a_steward(
    browser: Browser, settings: SiteSettings, tmp_path: Path
) -> None:
    about = About(title=f"Falls {EVIL}", purpose=EVIL, contact="Ada")
    study, log = make_study(about=about), tmp_path / "log"
    with console(settings, log) as address, window(browser, address, "Now") as seen:
        page = seen.page
        token = address.partition("token=")[2]
        assert token not in page.url
        for words in ("Now", "Studies", "Ledger", "Receipts", "Rows"):
            seen.link(words)
            seen.looks_well()

        dropped(seen, study, tmp_path / "study.toml")
        expect(page.locator("h1")).to_have_text(f"Falls {EVIL}")
        page.get_by_role("button", name="Check the rows").click()
        expect(page.locator("section#rows")).to_contain_text("300 rows read")
        seen.looks_well()
        page.reload()
        seen.approve(study)
        expect(page.locator(".said")).to_contain_text("Approved by")
        assert recorded(settings, study.fingerprint)
        seen.looks_well()

        seen.link("Now")
        with agent(settings) as served:
            expect(page.locator("#now")).to_contain_text("The agent answers on", timeout=60_000)
            ask(settings.socket, make_message(study, 1, 0.25), 60)
            expect(page.locator("#now")).to_contain_text("1 of 1 charged query answered")
            ask(settings.socket, make_message(study, 2, 0.25), 60)
            expect(page.locator("#now")).to_contain_text("2 of 2 charged queries answered")
            seen.looks_well()
            served.kill()
            expect(page.locator("#now")).to_contain_text("No agent answers")
        seen.link("Ledger")
        expect(page.locator("#ledger")).to_contain_text("question 2")
        expect(page.locator("#ledger")).to_contain_text("noise looks as it should")
        seen.looks_well()
        checked_receipt(seen, tmp_path)

        seen.link("Studies")
        page.locator("#decided a").first.click()
        page.get_by_label("Who decides").fill("Ada")
        page.get_by_label("I mean it").check()
        page.get_by_role("button", name="Take consent back").click()
        expect(page.locator(".said")).to_have_text(f"Consent to 'Falls {EVIL}' is withdrawn.")
        expect(page.locator("#standing")).to_contain_text("was withdrawn")
        seen.harmless()
        assert token not in log.read_text()


def checked_receipt(seen: Opened, folder: Path) -> None:
    """A receipt is signed, downloaded, and verified; a changed one is not."""
    page = seen.page
    seen.link("Receipts")
    page.get_by_role("button", name="Sign a receipt").click()
    with page.expect_download() as download:
        page.locator("section .cards a").first.click()
    file = folder / "receipt.json"
    download.value.save_as(file)
    for data, words in (
        (file.read_bytes(), "The receipt holds, if its key is the site's"),
        (file.read_bytes().replace(b"elmwood", b"Elmwood"), "The receipt does not hold"),
    ):
        file.write_bytes(data)
        page.set_input_files("#receipt", file)
        page.get_by_role("button", name="Verify").click()
        expect(page.locator("#verdict-head")).to_have_text(words)
        seen.looks_well()


def test_everything_is_decided_without_script(
    browser: Browser, settings: SiteSettings, tmp_path: Path
) -> None:
    study = make_study()
    with (
        console(settings, tmp_path / "log") as address,
        window(browser, address, "Now", script=False) as seen,
    ):
        expect(seen.page.locator("#live-state")).to_contain_text("reload this page")
        dropped(seen, study, tmp_path / "study.toml")
        seen.approve(study)
        expect(seen.page.locator(".said")).to_contain_text("Approved by")
        assert seen.messages == []


def test_two_tabs_approve_and_the_second_is_told(
    browser: Browser, settings: SiteSettings, tmp_path: Path
) -> None:
    study = make_study()
    with console(settings, tmp_path / "log") as address, window(browser, address, "Now") as seen:
        dropped(seen, study, tmp_path / "study.toml")
        second = Opened(seen.page.context.new_page(), address)
        second.page.goto(seen.page.url)
        for tab in (seen, second):
            tab.approve(study)
        expect(second.page.locator(".said")).to_contain_text("Already approved by")


class Ill(BaseHTTPRequestHandler):
    """A page on another port of this machine that knows all but the secrets of the session."""

    aim = ""

    def do_GET(self) -> None:
        text = f"""<!DOCTYPE html><meta charset=utf-8><title>ill</title>
        <iframe name=frame src="{self.aim}studies"></iframe><iframe name=sink></iframe>
        <form target=sink method=post action="{self.aim}studies/approve">
        <input name=token value=x></form>
        <script>
        window.found = [];
        fetch("{self.aim}studies", {{credentials: "include"}}).then(r => r.text())
          .then(t => found.push(t), e => found.push("refused"));
        document.forms[0].submit();
        </script>"""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


def test_a_page_on_another_port_can_neither_frame_nor_read_nor_send(
    browser: Browser, settings: SiteSettings, tmp_path: Path
) -> None:
    with console(settings, tmp_path / "log") as address, window(browser, address, "Now") as seen:
        dropped(seen, make_study(), tmp_path / "study.toml")
        asked: list[tuple[str, str]] = []
        own = ThreadingHTTPServer(("127.0.0.1", 0), Ill)
        Ill.aim = address.partition("enter?")[0]
        threading.Thread(target=own.serve_forever, daemon=True).start()
        try:
            other = seen.page.context.new_page()
            other.on(
                "request",
                lambda request: asked.append((request.url, request.headers.get("cookie", ""))),
            )
            other.goto(f"http://127.0.0.1:{own.server_port}/")
            other.wait_for_function("found.length == 1")
            assert other.evaluate("found") == ["refused"]
            frame = other.frame(name="frame")
            assert frame is not None
            assert "Studies" not in frame.content()
        finally:
            own.shutdown()
            own.server_close()
        assert not list(settings.studies.glob("*/consent.json"))
        assert not [cookie for url, cookie in asked if cookie and f":{own.server_port}/" in url]
