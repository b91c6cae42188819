"""What messages show on the page: code, math, calls of tools, media, versions, and a long chat, in a real Chromium."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser.axe import findings, looks
from browser.held_llm import Flow, Gate, HeldLLM, text
from browser.served import send_message, served
from toolcast import Message, user
from toolcast.messages import AudioPart, DocumentPart, ImagePart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    Tab = Callable[[str], Page]

READY = '#state[data-state="ready"]'


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


def picture(width: int = 16, height: int = 8) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xfb\xef\xbe" * width) * height  # its base64 has the characters - and _
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def test_code_is_copied_and_says_so(browser: Browser) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    with served(HeldLLM(text("```py\nprint(1 < 2)\n```\n\nDone."))) as chat:
        page = context.new_page()
        page.goto(chat.url)
        send_message(page, "Go")
        expect(page.locator(".prose")).to_contain_text("Done.")
        copy = page.get_by_role("button", name="Copy code")
        copy.click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == "print(1 < 2)"
        page.get_by_role("button", name="Copy message").last.click()
        page.wait_for_function(
            "async () => await navigator.clipboard.readText() === '```py\\nprint(1 < 2)\\n```\\n\\nDone.'"
        )
    context.close()


def test_code_is_copied_without_the_clipboards_api(tab: Tab) -> None:
    with served(HeldLLM(), history=[user("Go"), assistant(TextPart("```\nold way\n```"))]) as chat:
        page = tab(chat.url)
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.evaluate("document.execCommand = name => { window.copied = document.activeElement.value; return true; }")
        page.get_by_role("button", name="Copy code").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("window.copied") == "old way"
        page.evaluate("document.execCommand = () => false")
        page.get_by_role("button", name="Copy message").first.click()
        expect(page.get_by_role("button", name="Not copied")).to_be_visible()


LINES = "\n".join(f"line {number}" for number in range(100))


def test_calls_are_folded_to_one_line(tab: Tab) -> None:
    calls = [
        ToolCallPart("a", "read_file", '{"limit": 5, "path": "src/a.py"}'),
        ToolCallPart("b", "add", '{"x": 1, "y": [2]}'),
        ToolCallPart("c", "odd", "no JSON"),
        ToolCallPart("d", "fail", "5"),
    ]
    results = [
        ToolResultPart("a", LINES),
        ToolResultPart("b", "3"),
        ToolResultPart("d", "exit code 1", is_error=True),
    ]
    history = [user("Go"), assistant(*calls), Message("tool", tuple(results)), assistant(TextPart("Done."))]
    with served(HeldLLM(), history=history) as chat:
        page = tab(chat.url)
        expect(page.locator(".call-summary")).to_have_text(
            ["src/a.py", "x: 1, y: [2]", "malformed: no JSON", "malformed: 5"]
        )
        expect(page.locator(".call .status")).to_have_text(["done", "done", "error", "error"])
        card = page.get_by_role("region", name="Tool call: read_file")
        expect(card.locator(".arguments")).to_be_hidden()
        expect(page.get_by_role("region", name="Tool call: fail").locator(".result pre")).to_be_visible()
        card.locator("summary").focus()
        page.keyboard.press("Enter")
        expect(card.locator(".arguments")).to_contain_text('"limit": 5')
        result = card.locator(".result pre")
        expect(result).to_contain_text("line 7")
        expect(result).not_to_contain_text("line 50")
        expect(result).to_contain_text("line 99")
        card.get_by_role("button", name="Show 85 more lines").click()
        expect(result).to_have_text(LINES)
        expect(result).to_be_focused()


def test_a_finished_call_shows_what_it_did(tab: Tab) -> None:
    """A file's change as a diff, a command as its text with how it ended; nothing covers the result."""
    long = json.dumps({"path": "long.txt", "content": "x\n" * 2100})
    calls = [
        ToolCallPart("a", "write_file", json.dumps({"path": "a.py", "content": 'def f():\n    return "1"\n'})),
        ToolCallPart("b", "edit_file", json.dumps({"path": "b.py", "old": "one\ntwo\nend", "new": "one\n2\n3\nend"})),
        ToolCallPart("c", "run_command", json.dumps({"command": "ls \u202e\nexit 3"})),
        ToolCallPart("d", "run_command", json.dumps({"command": "true"})),
        ToolCallPart("e", "write_file", json.dumps({"path": 5, "content": ""})),
        ToolCallPart("f", "edit_file", "[]"),
        ToolCallPart("g", "write_file", long),
    ]
    ends = {"c": "a\n\n[exit code 3]\n", "d": "[exit code 0]"}
    results = [ToolResultPart(call.id, ends.get(call.id, "done")) for call in calls]
    history = [user("Go"), assistant(*calls), Message("tool", tuple(results)), assistant(TextPart("Done."))]
    with served(HeldLLM(), history=history) as chat:
        page = tab(chat.url)
        cards = page.locator(".call")
        expect(page.locator(".call .status")).to_have_text(
            ["done", "done", "exit code 3", "done", "done", "done", "done"]
        )
        expect(cards.nth(2)).to_have_attribute("data-status", "failed")
        expect(cards.nth(2).get_by_label("Result", exact=True)).to_be_visible()  # as of any error
        for index in (0, 1, 3, 4, 5, 6):
            cards.nth(index).locator("summary").click()
        expect(cards.nth(0).locator(".diff .line")).to_have_text(["def f():", '    return "1"'])
        expect(cards.nth(0).locator(".counts")).to_have_text("wrote 2 lines")  # what the file was before is unknown
        expect(cards.nth(1).locator("tr")).to_have_text(["one", "removed: two", "added: 2", "added: 3", "end"])
        expect(cards.nth(2).get_by_label("Command")).to_have_text("ls \\u202e\nexit 3", use_inner_text=True)
        expect(cards.nth(4).get_by_label("Arguments")).to_contain_text('"path": 5')
        expect(cards.nth(5).get_by_label("Arguments")).to_contain_text('"malformed": "[]"')
        expect(cards.nth(6).locator(".note")).to_have_text("100 more lines are not shown.")
        copy = cards.nth(2).get_by_role("button", name="Copy result").bounding_box()
        text = cards.nth(2).get_by_label("Result", exact=True).bounding_box()
        assert copy is not None and text is not None
        assert copy["y"] + copy["height"] <= text["y"] + 1


def test_a_result_of_one_long_line_is_cut(tab: Tab) -> None:
    calls = assistant(ToolCallPart("a", "read", "{}"))
    history = [user("Go"), calls, Message("tool", (ToolResultPart("a", "x" * 20_000),)), assistant(TextPart("Done."))]
    with served(HeldLLM(), history=history) as chat:
        page = tab(chat.url)
        card = page.get_by_role("region", name="Tool call: read")
        card.locator("summary").click()
        card.get_by_role("button", name="Show 12,000 more characters").click()
        expect(card.locator(".result pre")).to_have_text("x" * 20_000)


def test_media_are_shown(tab: Tab) -> None:
    parts = (
        ImagePart(data=picture(), media_type="image/png"),
        ImagePart(url="https://elsewhere.example/a.png"),
        ImagePart(data=b"no image", media_type="image/png"),
        DocumentPart(data=b"x" * 2000, media_type="application/pdf", name="report.pdf"),
        AudioPart(data=b"no sound", media_type="audio/wav"),
    )
    history = [user("Look", *parts), assistant(TextPart("I see."))]
    with served(HeldLLM(), history=history) as chat:
        page = tab(chat.url)
        shown = page.locator(".picture :is(img, canvas)").first
        page.wait_for_function("node => (node.naturalWidth || node.width) === 16", arg=shown.element_handle())
        link = page.locator('a.file-part[href="https://elsewhere.example/a.png"]')
        expect(link).to_have_text("image")
        expect(page.get_by_text("report.pdf · application/pdf · 2 kB")).to_be_visible()
        page.get_by_role("button", name="Play").click()
        expect(page.get_by_role("button", name="cannot be played")).to_be_disabled()


def test_a_chat_of_ten_thousand_messages_is_read_in_both_directions(tab: Tab) -> None:
    history = [
        user(f"question {n // 2}") if n % 2 == 0 else assistant(TextPart(f"answer **{n // 2}**")) for n in range(10_000)
    ]
    with served(HeldLLM(text("the end")), history=history) as chat:
        page = tab(chat.url)
        log = page.locator("#log")
        expect(page.get_by_text("answer 4999")).to_be_in_viewport()
        assert page.locator(".message").count() <= 200
        for _ in range(12):
            before = page.locator(".message.user .plain-text").first.inner_text()
            log.press("Home")
            page.wait_for_function(
                "before => document.querySelector('.message.user .plain-text').innerText !== before", arg=before
            )
            assert page.locator(".message").count() <= 250
        first = int(page.locator(".message.user .plain-text").first.inner_text().split()[1])
        assert first < 4700
        newest = page.get_by_role("button", name="Newest message")
        expect(newest).to_be_visible()
        for _ in range(3):
            log.press("PageDown")
        newest.click()
        expect(page.get_by_text("answer 4999")).to_be_in_viewport()
        expect(newest).to_be_hidden()
        assert page.locator(".message").count() <= 200
        send_message(page, "And now?")
        expect(page.get_by_text("the end")).to_be_in_viewport()


def test_what_is_read_stays_in_its_place_while_earlier_messages_are_drawn(tab: Tab) -> None:
    history = [user(f"question {n}") if n % 2 == 0 else assistant(TextPart(f"answer {n}")) for n in range(400)]
    with served(HeldLLM(), history=history) as chat:
        page = tab(chat.url)
        expect(page.get_by_text("answer 399")).to_be_in_viewport()
        moved = page.evaluate("""async () => {
            const log = document.querySelector("#log");
            const wait = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            log.dispatchEvent(new WheelEvent("wheel", { deltaY: -1 }));
            log.scrollTop = 700;
            await wait();
            const seen = [...log.querySelectorAll(".message")].find(node => node.getBoundingClientRect().top > 100);
            const before = seen.getBoundingClientRect().top, count = log.querySelectorAll(".message").length;
            log.scrollTop -= 200;
            await wait();
            return [seen.getBoundingClientRect().top - before, log.querySelectorAll(".message").length - count];
        }""")
        assert moved[1] > 0
        assert abs(moved[0] - 200) < 2


def test_a_button_leads_to_what_came_meanwhile(tab: Tab) -> None:
    flow = Flow()
    with served(HeldLLM(flow)) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        page.wait_for_function("() => document.querySelector('#log').scrollTop > 400")
        page.locator("#log").press("PageUp")
        newest = page.get_by_role("button", name="Newest message; there is more below")
        expect(newest).to_be_visible()
        newest.focus()
        page.keyboard.press("Enter")
        expect(newest).to_be_hidden()
        expect(page.locator("#log")).to_be_focused()
        flow.stop()
        expect(page.locator(READY)).to_be_visible()
        log = page.locator("#log").element_handle()
        page.wait_for_function("log => log.scrollHeight - log.clientHeight - log.scrollTop < 2", arg=log)


def test_versions_of_messages(tab: Tab) -> None:
    llm = HeldLLM(text("One."), text("Two."), text("Three."))
    with served(llm) as chat:
        page = tab(chat.url)
        send_message(page, "First question")
        answer = page.locator(".message.assistant .prose")
        expect(answer).to_have_text("One.")
        page.get_by_role("button", name="Regenerate the answer").click()
        expect(answer).to_have_text("Two.")
        versions = page.get_by_role("group", name="Versions")
        expect(versions).to_have_text("2/2")
        expect(versions.get_by_role("button", name="Next version")).to_be_disabled()
        versions.get_by_role("button", name="Previous version").click()
        expect(answer).to_have_text("One.")
        expect(versions).to_have_text("1/2")
        page.get_by_role("button", name="Edit message").click()
        box = page.get_by_role("textbox", name="Edited message")
        expect(box).to_be_focused()
        expect(box).to_have_value("First question")
        box.fill("Not this")
        box.press("Escape")
        expect(page.locator(".message.user .plain-text")).to_have_text("First question")
        page.get_by_role("button", name="Edit message").click()
        box.fill("Second question")
        box.press("Enter")
        expect(answer).to_have_text("Three.")
        expect(page.locator(".message.user .plain-text")).to_have_text("Second question")
        user_versions = page.locator(".message.user").get_by_role("group", name="Versions")
        expect(user_versions).to_have_text("2/2")
        user_versions.get_by_role("button", name="Previous version").click()
        expect(page.locator(".message.user .plain-text")).to_have_text("First question")
        expect(answer).to_have_text("One.")
    assert [message.text for message in llm.requests[2]] == ["Second question"]


def test_the_focus_stays_with_the_versions_or_moves_to_the_message_box(tab: Tab) -> None:
    gate = Gate()
    llm = HeldLLM(text("One."), [gate, *text("Two.")], text("Three."))
    with served(llm) as chat:
        page = tab(chat.url)
        box = page.get_by_role("textbox", name="Your message")
        send_message(page, "First question")
        answer = page.locator(".message.assistant .prose")
        expect(answer).to_have_text("One.")
        page.get_by_role("button", name="Regenerate the answer").press("Enter")
        expect(answer).to_have_count(0)
        expect(box).to_be_focused()
        gate.open()
        expect(answer).to_have_text("Two.")
        versions = page.get_by_role("group", name="Versions")
        versions.get_by_role("button", name="Previous version").press("Enter")
        expect(answer).to_have_text("One.")
        expect(versions.get_by_role("button", name="Next version")).to_be_focused()  # there is no previous one
        page.keyboard.press("Enter")
        expect(answer).to_have_text("Two.")
        expect(versions.get_by_role("button", name="Previous version")).to_be_focused()
        page.get_by_role("button", name="Edit message").press("Enter")
        page.get_by_role("textbox", name="Edited message").fill("Second question")
        page.keyboard.press("Enter")
        expect(answer).to_have_text("Three.")
        expect(box).to_be_focused()


SHOWN = """async ({messages, branches, marks}) => {
    const { Log } = await import("/assets/messages.js");
    const node = document.createElement("div");
    document.querySelector("#log").append(node);
    window.events = [];
    const dispatch = async event => { window.events.push(event); return true; };
    const log = new Log(node, dispatch, { fileUrl: id => `files/${id}` });
    log.snapshot({ messages, interrupted: [], first: 0 });
    log.decorate({ marks, branches });
}"""


def plain(role: str, words: str, *more: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": words}, *more]}


def test_buttons_of_messages(tab: Tab) -> None:
    """Each dispatches an event with the index of its message."""
    tool_call = {"type": "tool_call", "id": "a", "name": "f", "arguments": "{}"}
    result = {"role": "tool", "parts": [{"type": "tool_result", "call_id": "a", "content": "1", "is_error": False}]}
    messages = [
        plain("user", "One", {"type": "document", "file": "f1", "name": "a.txt"}),
        plain("assistant", "first", tool_call),
        result,
        plain("assistant", "second"),
        plain("user", "Two"),
        plain("assistant", "third"),
    ]
    shown = {
        "messages": messages,
        "marks": [
            {"index": 5, "kind": "failed", "text": "no \u202e network"},
            {"index": 2, "kind": "limit", "text": ""},
        ],
        "branches": [{"index": 1, "count": 3, "current": 1}, {"index": 4, "count": 2, "current": 0}],
    }
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        page.evaluate(SHOWN, shown)
        articles = page.get_by_role("article")
        expect(page.get_by_role("group", name="Versions")).to_have_text(["2/3", "1/2"])
        expect(articles.nth(1).get_by_role("toolbar")).to_have_count(0)  # the turn goes on
        expect(page.locator(".mark")).to_have_text(
            ["This turn reached a limit.", "This turn failed: no \\u202e network"]
        )
        articles.nth(2).get_by_role("button", name="Previous version").click()
        articles.nth(3).get_by_role("button", name="Next version").click()
        expect(articles.nth(3).get_by_role("button", name="Previous version")).to_be_disabled()
        articles.nth(4).get_by_role("button", name="Regenerate the answer").click()
        articles.nth(0).get_by_role("button", name="Edit message").click()
        box = page.get_by_role("textbox", name="Edited message")
        expect(box).to_be_focused()
        expect(box).to_have_value("One")
        box.press("Escape")
        expect(articles.nth(0).locator(".plain-text")).to_be_visible()
        expect(articles.nth(0).get_by_role("button", name="Copy message")).to_be_focused()
        articles.nth(0).get_by_role("button", name="Edit message").click()
        box.fill("  ")
        box.press("Enter")  # nothing to send
        box.fill("One\nand more")
        box.press("Enter")
        expect(box).to_have_count(0)
        assert page.evaluate("window.events") == [
            {"type": "SWITCH_BRANCH", "index": 1, "branch": 0},
            {"type": "SWITCH_BRANCH", "index": 4, "branch": 1},
            {"type": "REGENERATE", "index": 5},
            {"type": "EDIT_MESSAGE", "index": 0, "message": "One\nand more", "files": ["f1"]},
        ]


def test_the_counter_of_versions_stays_on_one_line(tab: Tab) -> None:
    messages = [plain("user", "go?"), plain("assistant", "first"), plain("user", "hi"), plain("assistant", "second")]
    branches = [{"index": at, "count": 2, "current": 1} for at in range(4)]
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        page.evaluate(SHOWN, {"messages": messages, "branches": branches})
        counters = page.get_by_role("group", name="Versions")
        expect(counters).to_have_count(4)
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            for counter, message in zip(counters.all(), page.get_by_role("article").all(), strict=True):
                tops = "all => all.map(each => each.getBoundingClientRect().top)"
                assert len(set(counter.get_by_role("button").evaluate_all(tops))) == 1
                text, article = counter.locator("span").bounding_box(), message.bounding_box()
                assert text and text["height"] < 30
                at = counter.bounding_box()
                assert at and article
                assert at["x"] + at["width"] <= width
                if "assistant" in (message.get_attribute("class") or ""):
                    assert at["x"] < article["x"] + 20  # no empty place where the hidden buttons are


def test_without_versions_a_message_can_be_copied_only(tab: Tab) -> None:
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        page.evaluate(SHOWN, {"messages": [plain("user", "One"), plain("assistant", "first")]})
        expect(page.get_by_role("toolbar")).to_have_count(2)
        expect(page.get_by_role("toolbar").get_by_role("button")).to_have_count(2)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_notice_of_an_empty_turn_is_below_the_buttons_of_its_message(tab: Tab, width: int) -> None:
    shown = {"messages": [plain("user", "One")], "marks": [{"index": 0, "kind": "empty", "text": ""}], "branches": []}
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate(SHOWN, shown)
        parts = [
            page.locator(f".message.user > {each}").bounding_box() for each in (".plain-text", ".toolbar", ".mark")
        ]
        tops, ends = [each["y"] for each in parts if each], [each["y"] + each["height"] for each in parts if each]
        assert ends[0] <= tops[1]
        assert ends[1] <= tops[2]


def test_a_turn_that_was_stopped_leaves_a_mark(tab: Tab) -> None:
    gate = Gate()
    with served(HeldLLM([*text("Half"), gate], text("Again."))) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        expect(page.locator(".prose")).to_have_text("Half")
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator(".mark")).to_contain_text("This turn was stopped")
        send_message(page, "Once more")
        expect(page.locator(".prose").last).to_have_text("Again.")
        expect(page.locator(".mark")).to_have_count(1)
        page.reload()
        expect(page.locator(".mark")).to_contain_text("This turn was stopped")
        gate.open()


def test_the_text_that_was_streamed_stays_when_it_is_complete(tab: Tab) -> None:
    gate = Gate()
    with served(HeldLLM([*text("A **word**\n\nand more"), gate, *text(" text.")])) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        expect(page.locator(".live .prose")).to_contain_text("and more")
        page.locator(".live .prose p").first.evaluate("node => { node.mine = true }")
        page.evaluate("""() => {
            window.removed = 0;
            const count = (records) => { for (const each of records) window.removed += each.removedNodes.length; };
            new MutationObserver(count).observe(document.querySelector("#log"), { childList: true });
        }""")
        gate.open()
        expect(page.locator(".live")).to_have_count(0)
        expect(page.locator(".prose")).to_have_text("A wordand more text.")
        assert page.locator(".prose p").first.evaluate("node => node.mine") is True
        assert page.evaluate("removed") == 0  # not even for a moment: its layout would be computed again


TAGS = """A claim[^1] and another[^1].

<details>
<summary>The *first* part</summary>

Inside H<sub>2</sub>O.
</details>

| Name | Meaning |
|---|---|
| a | {word} |
| {word} | one<br>two |

[^1]: A source.
"""


def test_parts_unfold_while_more_of_them_comes_and_footnotes_lead_to_their_places(tab: Tab) -> None:
    gate = Gate()
    before, after = TAGS.format(word="a" * 60).split("Inside")
    with served(HeldLLM([*text(before), gate, *text("Inside" + after)])) as chat:
        page = tab(chat.url)
        send_message(page, "Go")
        summary = page.locator(".prose summary")
        expect(summary).to_have_text("The first part")
        summary.click()
        gate.open()
        expect(page.get_by_text("Inside H2O")).to_be_visible()
        expect(page.locator(READY)).to_be_visible()
        expect(page.get_by_text("Inside H2O")).to_be_visible()
        first = page.get_by_role("button", name="Footnote 1").first
        first.click()
        expect(page.locator("[data-note]")).to_be_focused()
        page.get_by_role("button", name="Back to footnote 1 in the text").click()
        expect(first).to_be_focused()
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            cells = page.locator(".prose td").evaluate_all(
                "all => all.map(each => each.scrollWidth - each.clientWidth)"
            )
            assert max(cells) <= 1  # no word is painted over the next column
            assert page.evaluate("document.documentElement.scrollWidth") <= width


DIFF = {
    "kind": "diff",
    "path": "src/a\u202e.py",
    "change": "edit",
    "added": 2,
    "removed": 1,
    "rows": [
        {"kind": "same", "old": 1, "new": 1, "text": "import os", "words": []},
        {"kind": "remove", "old": 2, "new": None, "text": "\U0001f600 old <b>name</b>", "words": [[2, 5]]},
        {"kind": "add", "old": None, "new": 2, "text": "\U0001f600 new <b>name</b>", "words": [[2, 5]]},
        {"kind": "add", "old": None, "new": 3, "text": "hidden \u200b", "words": []},
        {"kind": "gap", "old": None, "new": None, "text": "20 lines", "words": []},
    ],
    "note": "The file ends without a line feed.",
}


def test_a_diff(tab: Tab) -> None:
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        show = "async diff => document.querySelector('#log').append((await import('/assets/diff.js')).renderDiff(diff))"
        page.evaluate(show, DIFF)
        diff = page.locator(".diff")
        expect(diff.locator("figcaption")).to_have_text("src/a\\u202e.pychanged+2 −1")
        expect(diff.locator("tr.add .line")).to_have_text(["added: 😀 new <b>name</b>", "added: hidden \\u200b"])
        expect(diff.locator("mark")).to_have_text(["old", "new"])
        assert diff.locator("tr.add .number").last.get_attribute("data-number") == "3"
        expect(diff.locator(".note")).to_have_text("The file ends without a line feed.")
        page.evaluate(show, {"rows": []})
        expect(page.locator(".diff").nth(1).locator("figcaption")).to_have_text("+0 −0")


RICH = """## Plan

It is $O(n \\log n)$, and:

$$
\\sum_i x_i
$$

- [x] read `it`
- [ ] write

| Name | Tokens |
|:--|--:|
| alpha | 1,024 |

```python
def parse(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]  # numbers
```

> A quote with a [link](https://example.org/).

Press <kbd>Ctrl</kbd> <kbd>C</kbd>; water is H<sub>2</sub>O[^1].

<details open>
<summary>More</summary>

Text that is folded.
</details>

[^1]: A source.
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pictures_of_messages(browser: Browser, tmp_path: Path, width: int, scheme: Any) -> None:
    """With TOOLCAST_SCREENSHOTS they are written there. All text has the contrast of WCAG AA."""
    folder = Path(os.environ.get("TOOLCAST_SCREENSHOTS") or tmp_path)
    calls = assistant(ToolCallPart("a", "read_file", '{"path": "src/parser.py"}'))
    results = Message("tool", (ToolResultPart("a", "def parse(): ...", "read_file"),))
    image = ImagePart(data=picture(160, 90), media_type="image/png")
    history = [user("Plan the parser, please.", image), calls, results, assistant(TextPart(RICH))]
    context = browser.new_context(viewport={"width": width, "height": 960}, color_scheme=scheme)
    with served(HeldLLM(), history=history) as chat:
        page = context.new_page()
        page.goto(chat.url)
        page.locator(".prose math").first.wait_for()
        page.wait_for_function("document.querySelector('.picture :is(img, canvas)').getBoundingClientRect().width > 0")
        name = f"web-messages-{width}-{scheme}.png"
        page.screenshot(path=folder / name, animations="disabled")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CONTRASTS) == []
    context.close()
    assert 10_000 < (folder / name).stat().st_size < 300_000


CONTRASTS = """() => {
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const linear = value => value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
    const light = colour => colour.slice(0, 3).map(linear)
        .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = node => {
        for (; node; node = node.parentElement) {
            const colour = numbers(getComputedStyle(node).backgroundColor);
            if (colour.length === 3 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const wrong = [];
    for (const node of document.querySelectorAll("#log *")) {
        const hasText = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
        if (!hasText || !node.checkVisibility()) continue;
        const pair = [light(numbers(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (ratio < 4.5) wrong.push([node.className, node.textContent.slice(0, 40), ratio]);
    }
    return wrong;
}"""


def own_findings(page: Page) -> list[str]:
    """What axe finds, but for the levels of headings, which are those of the model's text."""
    return [each for each in findings(page) if not each.startswith("heading-order")]


@looks
def test_axe_finds_nothing_in_messages(tab: Tab, width: int, scheme: Any) -> None:
    calls = assistant(
        ThinkingPart("First the file."),
        ToolCallPart("a", "read_file", '{"path": "src/parser.py"}'),
        ToolCallPart("b", "run_command", '{"command": "false"}'),
    )
    results = Message(
        "tool",
        (
            ToolResultPart("a", "\n".join(map(str, range(200))), "read_file"),
            ToolResultPart("b", "exit code 1", "run_command", is_error=True),
        ),
    )
    files = (
        ImagePart(data=picture(), media_type="image/png"),
        DocumentPart(data=b"%PDF-", media_type="application/pdf", name="a.pdf"),
    )
    answer = assistant(TextPart(RICH), AudioPart(data=b"RIFF", media_type="audio/wav", transcript="Spoken."))
    with served(HeldLLM(), history=[user("Plan the parser.", *files), calls, results, answer]) as chat:
        page = tab(chat.url)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 844})
        page.locator(".prose math").first.wait_for()
        page.evaluate(
            "async diff => document.querySelector('#log').append((await import('/assets/diff.js')).renderDiff(diff))",
            DIFF,
        )
        assert own_findings(page) == []
        page.evaluate("for (const each of document.querySelectorAll('#log details')) each.open = true")
        assert own_findings(page) == []


def test_nothing_moves_for_readers_who_want_no_motion(tab: Tab) -> None:
    gate = Gate()
    running = "document.getAnimations().map(each => each.animationName ?? each.transitionProperty)"
    with served(HeldLLM([*text("An answer"), gate, *text(" ends.")])) as chat:
        page = tab(chat.url)
        send_message(page, "Go")
        expect(page.locator(".live .prose")).to_have_text("An answer")
        page.emulate_media(reduced_motion="no-preference")
        assert "beat" in page.evaluate(running)
        page.emulate_media(reduced_motion="reduce")
        assert page.evaluate(running) == []
        gate.open()


def test_what_is_at_the_edges_of_the_screen_keeps_out_of_its_unsafe_areas(tab: Tab) -> None:
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        page.set_viewport_size({"width": 390, "height": 844})
        assert "viewport-fit=cover" in (page.locator('meta[name="viewport"]').get_attribute("content") or "")
        session = page.context.new_cdp_session(page)
        padding = "() => parseFloat(getComputedStyle(document.querySelector('.below')).paddingBottom)"
        before = page.evaluate(padding)
        insets = {"top": 40, "bottom": 30, "left": 0, "right": 0}
        session.send("Emulation.setSafeAreaInsetsOverride", {"insets": insets})
        assert page.evaluate(padding) == before + 30
        assert page.evaluate("() => parseFloat(getComputedStyle(document.querySelector('.bar')).paddingTop)") >= 40


def test_a_long_diff_takes_no_more_room_than_it_shows(tab: Tab) -> None:
    """Its hidden words scroll with its lines, and a number stays on its line."""
    rows = [{"kind": "add", "old": None, "new": at, "text": f"line {at}", "words": []} for at in range(1, 301)]
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        page.evaluate(
            """async diff => {
              const message = document.createElement("div");
              message.className = "message assistant";
              message.append((await import("/assets/diff.js")).renderDiff(diff));
              document.querySelector("#log").append(message);
            }""",
            DIFF | {"rows": rows},
        )
        expect(page.locator(".diff tr.add")).to_have_count(300)
        log, shown = page.locator("#log"), page.locator(".diff")
        assert log.evaluate("log => log.scrollHeight") < shown.evaluate("diff => diff.offsetHeight") + 1000
        heights = page.locator(".diff tr.add").evaluate_all("rows => rows.map(row => row.offsetHeight)")
        assert set(heights) == {heights[0]}
