"""A real Chromium, headless. `TOOLCAST_CHROMIUM` is its path: `nox -s browser` sets it; elsewhere all is skipped.

After each test the browser must have nothing to complain of: no error, nothing that the page's own policy refused, no
request to anywhere else. That a server is gone is no complaint: the page is to show that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

CHROMIUM = os.environ.get("TOOLCAST_CHROMIUM")
BROKEN = re.compile(r"net::ERR_(CONNECTION|INCOMPLETE|EMPTY|SOCKET|CONTENT_LENGTH_MISMATCH)")
"""A server that has ended, or a connection that a test has broken."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM:
        return
    elsewhere = pytest.mark.skip(reason="needs Chromium, run `nox -s browser`: NOT TESTED HERE")
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker(elsewhere)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # on a busy machine
    alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=alone)
        yield browser
        browser.close()


@pytest.fixture
def expected() -> list[str]:
    """Words of complaints that a test provokes. They may come at any time, until the browser is closed."""
    return []


@pytest.fixture
def tab(browser: Browser, expected: list[str]) -> Iterator[Callable[[str], Page]]:
    """Opens an address in a new tab."""
    complaints = list[str]()
    context = browser.new_context(viewport={"width": 1200, "height": 800}, color_scheme="light")
    context.set_default_timeout(10_000)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not BROKEN.search(message.text):
            complaints.append(message.text)

    def opened(url: str) -> Page:
        page = context.new_page()
        page.on("console", on_console)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: complaints.extend([request.url] if _is_foreign(request.url) else []))
        page.goto(url)
        return page

    yield opened
    context.close()
    assert [each for each in complaints if not any(words in each for words in expected)] == []


def _is_foreign(url: str) -> bool:
    return not url.startswith("http://127.0.0.1:")
