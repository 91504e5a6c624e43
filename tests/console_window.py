"""A console in a real browser, and all that happens while somebody looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from heterofedsyn.protocol.study import Study

PHONE, DESK = 390, 1280
EVIL = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"


@dataclass
class Opened:
    """A page in a browser, and all that happened while it was open."""

    page: Page
    address: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    referrers: list[str] = field(default_factory=list)

    def link(self, words: str) -> None:
        self.page.get_by_role("link", name=words, exact=True).click()
        expect(self.page.locator("h1")).to_have_text(words)

    def looks_well(self) -> None:
        """It fits on phones and desks, and machines can read it, in light and dark."""
        self.page.wait_for_load_state()  # with its style
        for width in (DESK, PHONE):
            self.page.set_viewport_size({"width": width, "height": 900})
            wide = self.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, self.page.url
        for scheme in ("light", "dark"):
            shown: Any = scheme
            self.page.emulate_media(color_scheme=shown)
            found = Axe().run(self.page)
            assert found.violations_count == 0, found.generate_report()

    def approve(self, study: Study) -> None:
        """As the coordinator reads out the fingerprint; with the keyboard alone."""
        first = self.page.locator("input[name^=group-]").first
        last = self.page.locator("input[name^=group-]").last
        for _ in range(80):
            self.page.keyboard.press("Tab")
            if first.evaluate("one => one === document.activeElement"):
                break
        for one in (first, last):
            number = int((one.get_attribute("name") or "").removeprefix("group-"))
            self.page.keyboard.type(study.fingerprint[8 * number : 8 * number + 8])
            self.page.keyboard.press("Tab")
        self.page.keyboard.type("Ada")
        self.page.keyboard.press("Enter")

    def harmless(self) -> None:
        """Nothing was said on the browser's console, nothing left, the token is told nowhere."""
        token = self.address.partition("token=")[2]
        assert token
        assert self.messages == []
        assert {urlsplit(url).netloc for url in self.requests} == {urlsplit(self.address).netloc}
        assert not [place for place in self.referrers if token in place]
        assert self.page.title() != "taken"


@contextmanager
def window(browser: Browser, address: str, first: str, *, script: bool = True) -> Iterator[Opened]:
    """A page that the address opens; `first` is what stands above it."""
    context = browser.new_context(
        viewport={"width": DESK, "height": 900},
        reduced_motion="reduce",
        java_script_enabled=script,
    )
    seen = Opened(context.new_page(), address)
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    context.on("request", lambda request: seen.requests.append(request.url))
    context.on("request", lambda request: seen.referrers.append(request.headers.get("referer", "")))
    seen.page.goto(address)
    expect(seen.page.locator("h1")).to_have_text(first)
    yield seen
    context.close()
