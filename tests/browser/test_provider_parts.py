"""What a provider adds to an answer, in a real Chromium: its own tools, sources, and calls that need an approval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.held_llm import Gate, HeldLLM, text
from browser.served import send_message, served
from toolcast.events import ServerToolUse, TextCitation, ToolCallDelta, ToolCallDone, ToolCallStart
from toolcast.values.citations import Citation

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    Tab = Callable[[str], Page]

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe"
PAGE = {"url": "https://weather.example/oslo", "title": HOSTILE}
SEARCH = ServerToolUse("web_search", "srv_1", {"query": "Oslo weather"}, provider="test")
FOUND = ServerToolUse("web_search", "srv_1", output=[PAGE], provider="test")
FAILED = ServerToolUse("code_execution", "srv_2", {"code": "1 / 0"}, error=HOSTILE, provider="test")
GOOD = TextCitation(Citation("url_citation", 0, 5, "https://weather.example/oslo", HOSTILE))
SCRIPT = TextCitation(Citation("url_citation", 0, 5, "javascript:alert(1)", "Script"))
DISGUISED = TextCitation(Citation("url_citation", 0, 5, "https://bank.example@evil.example/", "Bank"))
DOCUMENT = TextCitation(Citation("page_location", 0, 5, title="Report", document=0, pages=(3, 4)))


def check_parts(page: Page) -> None:
    """The tools and the sources are there, as text, and no link leads elsewhere than it shows."""
    summaries = page.locator(".message.assistant details.thinking summary")
    expect(summaries).to_have_text(["web_search is used", "web_search answered", "code_execution failed"])
    shown = page.locator(".message.assistant .thoughts")
    expect(shown.nth(0)).to_contain_text("Oslo weather")
    expect(shown.nth(1)).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator(".message.assistant img")).to_have_count(0)
    sources = page.locator(".message.assistant details.sources")
    expect(sources.locator("summary")).to_have_text("Sources (4)")
    links = sources.locator("a")
    expect(links).to_have_count(1)
    expect(links).to_have_text("https://weather.example/oslo")
    expect(links).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(sources.locator("li").nth(3)).to_contain_text("Report (page 3)")
    assert "\u202e" not in page.locator(".message.assistant").inner_text()  # it would disguise what follows


def opened(parts: Locator) -> None:
    for number in range(parts.count()):
        parts.nth(number).evaluate("node => { node.open = true }")


def test_server_tools_and_sources(tab: Tab, tmp_path: Path) -> None:
    gate = Gate()
    parts = [SEARCH, FOUND, FAILED, *text("It is 4 degrees in Oslo."), GOOD, SCRIPT, DISGUISED, DOCUMENT]
    with served(HeldLLM([*parts, gate])) as chat:
        page = tab(chat.url)
        send_message(page, "How is the weather in Oslo?")
        check_parts(page)  # while it is written
        other = tab(chat.url)  # from a snapshot of the answer in progress
        check_parts(other)
        gate.open()
        expect(page.locator(".message.live")).to_have_count(0)
        check_parts(page)  # as a message
        other.reload()
        check_parts(other)
        opened(page.locator(".message.assistant details"))
        picture = page.screenshot(path=tmp_path / "parts.png", full_page=True)
        assert len(picture) > 10_000


ITEM = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "docs", "name": "find"}


@pytest.mark.parametrize(("button", "result"), [("Approve", "Approved"), ("Reject", "permission denied")])
def test_a_call_of_a_remote_mcp_server_is_approved_on_the_page(tab: Tab, button: str, result: str) -> None:
    arguments = '{"query": "x"}'
    opaque = {"responses": {**ITEM, "arguments": arguments}}
    call = [
        ToolCallStart("mcpr_1", "mcp.docs.find"),
        ToolCallDelta("mcpr_1", arguments),
        ToolCallDone("mcpr_1", "mcp.docs.find", arguments, opaque=opaque),
    ]
    llm = HeldLLM(call, text("Done."))
    with served(llm) as chat:
        page = tab(chat.url)
        send_message(page, "Find x")
        card = page.get_by_role("region", name="Tool call: mcp.docs.find")
        expect(card).to_contain_text("needs your approval")
        question = page.get_by_role("group", name="Approve mcp.docs.find?")
        question.get_by_role("button", name=button, exact=True).click()
        expect(page.locator(".message.assistant .prose")).to_have_text(["Done."])
        expect(card).to_contain_text(result)
        (part,) = llm.requests[1][-1].parts
        assert str(getattr(part, "content", "")).startswith(result)
