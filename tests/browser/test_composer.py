"""The message box: its size, its keys, files, drafts, and the messages that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from browser.held_llm import Gate, HeldLLM, text
from browser.many_chats import PIXEL, ManyChats, many_chats
from browser.served import served

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Locator, Page

    Tab = Callable[[str], Page]

TABLE: FilePayload = {"name": "table.csv", "mimeType": "text/csv", "buffer": b"a,b\n" * 600}
PHOTO: FilePayload = {"name": "photo.png", "mimeType": "image/png", "buffer": PIXEL}

GIVE = """([kind, name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    const event = kind === "paste"
        ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
        : new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true });
    document.getElementById("text").dispatchEvent(event);
}"""


def opened(tab: Tab, chats: ManyChats) -> Page:
    page = tab(f"{chats.url}#c1")
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    return page


def box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Your message")


def chips(page: Page) -> Locator:
    return page.get_by_role("list", name="Attached files").get_by_role("listitem")


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "text": text}]}


def test_the_box_grows_with_its_lines_to_a_limit(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        heights = [box(page).evaluate("box => box.clientHeight")]
        for lines in (3, 6, 60, 0):
            box(page).fill("\n".join("line" for _ in range(lines)))
            heights.append(box(page).evaluate("box => box.clientHeight"))
        assert heights[0] < heights[1] < heights[2] < heights[3] <= 240
        assert heights[4] == heights[0]


def test_what_is_not_sent_survives_a_reload_and_belongs_to_its_chat(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: chats.add("Second"))
        page = opened(tab, chats)
        page.locator("#file-input").set_input_files(TABLE)
        expect(chips(page)).to_contain_text("2 kB")
        box(page).fill("Half a thought")
        page.get_by_role("link", name="Second", exact=True).click()
        expect(page.get_by_role("heading", name="Second", level=1)).to_be_visible()
        expect(box(page)).to_have_value("")
        expect(chips(page)).to_have_count(0)
        page.go_back()
        expect(box(page)).to_have_value("Half a thought")
        page.reload()
        expect(box(page)).to_have_value("Half a thought")
        expect(chips(page)).to_contain_text("table.csv")
        assert "the-token" not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
        box(page).press("Enter")
        expect(page.get_by_role("article", name="You")).to_have_count(1)
        assert chats.dispatched[-1][1] == {"type": "QUEUE_MESSAGE", "message": "Half a thought", "files": ["f1"]}
        page.reload()
        expect(page.get_by_role("article", name="You")).to_have_count(1)
        expect(box(page)).to_have_value("")
        assert page.evaluate("sessionStorage.length") == 0


def test_files_are_picked_shown_and_removed(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Attach files").click()
        chooser.value.set_files([PHOTO, TABLE])
        expect(chips(page)).to_have_count(2)
        expect(chips(page).nth(0)).to_contain_text("70 bytes")
        page.wait_for_function("() => document.querySelector('.chip img').naturalWidth === 1")
        page.get_by_role("button", name="Remove photo.png").click()
        expect(chips(page)).to_have_count(1)
        expect(box(page)).to_be_focused()
        expect(page.get_by_role("button", name="Send")).to_be_enabled()  # files without a text
        page.wait_for_function("() => performance.getEntriesByType('resource').some(each => each.name.includes('f1'))")
        box(page).press("Enter")
        expect(chips(page)).to_have_count(0)
        assert chats.dispatched == [("c1", {"type": "QUEUE_MESSAGE", "message": "", "files": ["f2"]})]
        assert list(chats.files) == ["f2"]


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_files_are_pasted_and_dropped(tab: Tab, way: str) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        if way == "drop":
            page.evaluate(GIVE, ["dragover", "notes.txt", "text"])
            expect(page.locator("body")).to_have_class("with-sidebar dropping")
        page.evaluate(GIVE, [way, "notes.txt", "text"])
        expect(chips(page)).to_contain_text("notes.txt")
        expect(chips(page)).to_contain_text("4 bytes")
        expect(page.locator("body")).to_have_class("with-sidebar")
        assert [data for _, data in chats.files.values()] == [b"text"]


def test_limits_of_files_are_shown(tab: Tab, expected: list[str]) -> None:
    expected.append("415")
    with many_chats() as chats:
        page = opened(tab, chats)
        expect(page.get_by_role("button", name="Attach files")).to_have_attribute(
            "title", "Attach files: at most 3, 1 MB each"
        )
        page.locator("#file-input").set_input_files({**TABLE, "buffer": b"x" * 1_500_000})
        expect(page.locator("#notice-text")).to_have_text("table.csv has 1.5 MB; a file can have at most 1 MB")
        page.locator("#file-input").set_input_files({**TABLE, "name": "game.exe"})
        expect(page.locator("#notice-text")).to_have_text("game.exe: this type of file cannot be sent")
        expect(chips(page)).to_have_count(0)
        rejected = [{**TABLE, "name": name} for name in ("fake.exe", "game.exe")]
        large = [{**TABLE, "name": name, "buffer": b"x" * 1_500_000} for name in ("a.csv", "b.csv")]
        page.locator("#file-input").set_input_files([*large, *rejected])
        for name in ("a.csv has 1.5 MB", "b.csv has 1.5 MB", "fake.exe: this type", "game.exe: this type"):
            expect(page.locator("#notice-text")).to_contain_text(name)
        page.locator("#file-input").set_input_files([{**TABLE, "name": f"{number}.csv"} for number in range(5)])
        expect(chips(page)).to_have_count(3)
        expect(page.locator("#notice-text")).to_have_text("A message can have at most 3 files: without 3.csv, 4.csv")


def test_messages_that_wait_are_edited_and_removed(tab: Tab) -> None:
    with many_chats() as chats:
        first = chats.chats["c1"]
        page = opened(tab, chats)
        chats.do(lambda: first.set("streaming_response", queue=[message("one"), message("two")]))
        queue = page.get_by_role("list", name="Queued messages")
        expect(queue.get_by_role("listitem")).to_have_count(2)
        page.get_by_role("button", name="Edit “two”").click()
        area = page.get_by_role("textbox", name="Queued message")
        expect(area).to_be_focused()
        page.keyboard.type(" and")
        expect(area).to_have_value("two and")
        area.fill("two and a half")
        area.press("Enter")
        expect(queue.get_by_role("listitem").nth(1)).to_contain_text("two and a half")
        page.get_by_role("button", name="Edit “one”").click()
        area.press("Escape")
        expect(page.get_by_role("button", name="Edit “one”")).to_be_focused()
        page.get_by_role("button", name="Remove “one”").click()
        expect(queue.get_by_role("listitem")).to_have_count(1)
        assert [event for _, event in chats.dispatched] == [
            {"type": "HOLD_QUEUE", "index": 1},
            {"type": "EDIT_QUEUED", "index": 1, "message": "two and a half"},
            {"type": "RELEASE_QUEUE"},
            {"type": "HOLD_QUEUE", "index": 0},
            {"type": "RELEASE_QUEUE"},
            {"type": "REMOVE_QUEUED", "index": 0},
        ]


def test_a_message_that_was_sent_while_it_was_edited_changes_no_other(tab: Tab) -> None:
    with many_chats() as chats:
        first = chats.chats["c1"]
        page = opened(tab, chats)
        chats.do(lambda: first.set("streaming_response", queue=[message("one"), message("two"), message("three")]))
        area = page.get_by_role("textbox", name="Queued message")
        page.get_by_role("button", name="Edit “two”").click()
        area.fill("2")
        chats.do(lambda: first.set("generating_response", queue=[]))  # the one before it
        expect(page.locator("#state")).to_have_attribute("data-state", "generating_response")
        area.press("Enter")
        expect(page.locator(".queued-text")).to_have_text(["2", "three"])
        page.get_by_role("button", name="Edit “2”").click()
        area.fill("II")
        chats.do(lambda: first.set("streaming_response", queue=[], held=[message("three")]))
        expect(page.locator("#state")).to_have_attribute("data-state", "streaming_response")
        area.press("Enter")
        expect(page.locator("#notice-text")).to_contain_text("This message was sent before it was edited.")
        expect(box(page)).to_have_value("II")
        assert [event["index"] for _, event in chats.dispatched if event["type"] == "EDIT_QUEUED"] == [0]


def test_a_message_that_is_edited_is_held_back_when_the_answer_ends(tab: Tab) -> None:
    gate = Gate()
    with served(HeldLLM([*text("First."), gate], text("Second."))) as chat:
        page = tab(chat.url)
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        box(page).fill("Hello")
        box(page).press("Enter")
        expect(page.locator(".prose")).to_have_text("First.")
        box(page).fill("please delete the file")
        box(page).press("Enter")
        page.get_by_role("button", name="Edit “please").click()
        area = page.get_by_role("textbox", name="Queued message")
        area.fill("please DO NOT delete the file")
        gate.open()
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        expect(area).to_have_value("please DO NOT delete the file")
        area.press("Enter")
        expect(page.locator(".prose")).to_have_text(["First.", "Second."])
        expect(page.locator(".message.user .plain-text")).to_have_text(["Hello", "please DO NOT delete the file"])
        expect(page.get_by_role("list", name="Queued messages")).to_be_hidden()


def test_after_stop_the_queue_waits_until_it_is_sent(tab: Tab) -> None:
    with served(HeldLLM([*text("First."), Gate()], text("Second."), text("Third."))) as chat:
        page = tab(chat.url)
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        for words in ("Hello", "one", "two"):
            box(page).fill(words)
            box(page).press("Enter")
        expect(page.locator(".queued-text")).to_have_text(["one", "two"])
        page.get_by_role("button", name="Edit “two”").click()
        area = page.get_by_role("textbox", name="Queued message")
        area.fill("2")
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        area.press("Enter")
        queue = page.get_by_role("list", name="Queued messages")
        expect(queue.locator(".held .queued-text")).to_have_text(["one", "2"])
        page.reload()
        expect(queue.locator(".held .queued-text")).to_have_text(["one", "2"])
        box(page).fill("At once")
        box(page).press("Enter")
        expect(page.locator(".message.user .plain-text")).to_have_text(["Hello", "At once"])
        expect(page.locator(".prose").last).to_have_text("Second.")
        page.get_by_role("button", name="Edit “2”").click()
        area.press("Escape")
        expect(queue.locator(".held .queued-text")).to_have_text(["one", "2"])
        queue.get_by_role("button", name="Send now").click()
        expect(page.locator(".prose").last).to_have_text("Third.")
        expect(page.locator(".message.user .plain-text")).to_have_text(["Hello", "At once", "one", "2"])
        expect(queue).to_be_hidden()


def test_a_cancelled_edit_is_sent_only_by_hand_once_the_chat_is_ready(tab: Tab) -> None:
    with many_chats() as chats:
        first = chats.chats["c1"]
        page = opened(tab, chats)
        chats.do(lambda: first.set("streaming_response", queue=[message("one")]))
        page.get_by_role("button", name="Edit “one”").click()
        area = page.get_by_role("textbox", name="Queued message")
        area.fill("changed")
        chats.do(lambda: first.set("ready"))
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".held .queued-text")).to_have_text("one")
        page.get_by_role("button", name="Edit “one”").click()
        area.fill("lost?")
        chats.do(lambda: first.set("ready", queue=[], held=[]))  # sent in another tab
        expect(area).to_have_count(0)
        expect(box(page)).to_have_value("lost?")
        assert {event["type"] for _, event in chats.dispatched} == {"HOLD_QUEUE"}


def test_stop_takes_the_place_of_send_while_the_model_works(tab: Tab) -> None:
    with many_chats() as chats:
        first = chats.chats["c1"]
        page = opened(tab, chats)
        send, stop = (page.get_by_role("button", name=name, exact=True) for name in ("Send", "Stop"))
        expect(send).to_be_disabled()
        expect(stop).to_be_hidden()
        chats.do(lambda: first.set("streaming_response"))
        expect(send).to_be_hidden()
        box(page).fill("Later")
        expect(page.get_by_role("button", name="Queue", exact=True)).to_be_enabled()
        box(page).fill("")
        stop.click()
        expect(send).to_be_visible()
        assert chats.dispatched == [("c1", {"type": "STOP"})]
