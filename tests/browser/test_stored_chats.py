"""The page on the chats of `toolcast web`: several at once, in a store that outlives the server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.held_llm import Gate, HeldLLM, call, text, thinking
from browser.stored_chats import stored_chats
from toolcast import Message, user
from toolcast.apps.web.saved_chat import SavedChat
from toolcast.chat.chat_context import ChatContext
from toolcast.messages import TextPart
from toolcast.stores.sqlite_store import SQLiteStore

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    Tab = Callable[[str], Page]


TEST = "from total import total\n\n\ndef test_total() -> None:\n    assert total([0.1, 0.2]) == 0.3\n"


def send(page: Page, words: str) -> None:
    box = page.get_by_role("textbox", name="Your message")
    box.fill(words)
    expect(page.locator(".chip[aria-busy=true]")).to_have_count(0)  # Enter sends nothing while a file is uploaded
    box.press("Enter")


def answers(page: Page) -> Locator:
    return page.locator(".message.assistant .prose")


def entry(page: Page, title: str) -> Locator:
    return page.get_by_role("navigation", name="Chats").get_by_role("link", name=title, exact=True)


def is_ready(page: Page) -> None:
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")


def test_two_chats_work_at_once_and_outlive_the_server(tab: Tab, tmp_path: Path) -> None:
    gate = Gate()
    llm = HeldLLM([*text("Rain "), gate, *text("until noon.")], text("Two is prime."))
    with stored_chats(tmp_path, llm) as url:
        page = tab(url)
        is_ready(page)
        send(page, "What about the weather?")
        expect(answers(page)).to_have_text("Rain")
        page.get_by_role("button", name="New chat", exact=True).click()
        expect(page.get_by_role("heading", name="New chat", level=1)).to_be_visible()
        is_ready(page)
        send(page, "Which number is prime?")
        expect(answers(page)).to_have_text("Two is prime.")
        weather = page.locator("#chat-list li", has_text="What about the weather?")
        expect(weather.get_by_role("img", name="working")).to_be_visible()
        gate.open()
        expect(weather.get_by_role("img", name="working")).to_have_count(0)
        entry(page, "What about the weather?").click()
        expect(answers(page)).to_have_text("Rain until noon.")
        page.get_by_role("button", name="Actions for “What about the weather?”").click()
        page.get_by_role("menuitem", name="Rename").click()
        page.keyboard.type("Weather")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Weather", level=1)).to_be_visible()
        page.get_by_role("searchbox").fill("noon")
        expect(entry(page, "Which number is prime?")).to_have_count(0)
        page.get_by_role("button", name="Actions for “Weather”").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name="Export as Markdown").click()
        assert "Rain until noon." in download.value.path().read_text()
        address = page.url.partition("#")[2]
        page.close()
    with stored_chats(tmp_path, HeldLLM(text("And sun after it."))) as url:
        page = tab(f"{url}#{address}")
        expect(answers(page)).to_have_text("Rain until noon.")
        is_ready(page)
        send(page, "And then?")
        expect(answers(page)).to_have_text(["Rain until noon.", "And sun after it."])
        entry(page, "Which number is prime?").focus()
        page.keyboard.press("Delete")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator(".chat-link")).to_have_text(["Weather"])


def test_an_edit_of_a_file_is_shown_as_a_diff_and_run_as_it_was_edited(tab: Tab, tmp_path: Path) -> None:
    edit = '{"path": "total.py", "old": "return sum(prices)", "new": "return round(sum(prices), 2)"}'
    llm = HeldLLM(call("edit_file", edit), text("It is rounded."))
    with stored_chats(tmp_path, llm) as url:
        file = tmp_path / "work" / "total.py"
        file.write_text("def total(prices):\n    return sum(prices)\n")
        page = tab(url)
        is_ready(page)
        send(page, "Round it")
        question = page.get_by_role("group", name="Approve edit_file?")
        expect(question.locator("tr.add .line")).to_contain_text("    return round(sum(prices), 2)")
        expect(question.locator("tr.add mark").first).to_have_text("round(")
        question.get_by_role("button", name="Edit").click()
        area = question.get_by_role("textbox")
        expect(area).to_have_value("return round(sum(prices), 2)")
        area.fill('return f"{sum(prices):.2f}"')
        question.get_by_role("button", name="Approve with edits").click()
        expect(answers(page)).to_have_text("It is rounded.")
        assert file.read_text() == 'def total(prices):\n    return f"{sum(prices):.2f}"\n'
        for _ in range(2):
            card = page.locator(".call")
            card.locator("summary").first.click()
            expect(card).to_contain_text("You edited this call.")
            expect(card.locator("tr.add").first).to_have_text('added: return f"{sum(prices):.2f}"')
            proposed = card.locator(".proposed")
            proposed.locator("summary").click()
            expect(proposed.locator("tr.add .line")).to_contain_text("return round(sum(prices), 2)")
            expect(card.locator(".result")).not_to_contain_text("The user changed")
            page.reload()


def test_calls_that_wait_are_shown_after_a_restart_before_their_chat_is_opened(tab: Tab, tmp_path: Path) -> None:
    write = call("write_file", '{"path": "z.py", "content": "x = 1"}')
    with stored_chats(tmp_path, HeldLLM(write)) as url:
        page = tab(url)
        is_ready(page)
        send(page, "Write it")
        expect(page.get_by_role("group", name="Approve write_file?")).to_be_visible()
    with stored_chats(tmp_path, HeldLLM(text("Written."))) as url:
        page = tab(url)
        is_ready(page)
        expect(page.locator(".chat-list .waits")).to_have_text("1")
        expect(page).to_have_title(re.compile("● another chat waits for approval"))
        page.keyboard.press("Control+Shift+Y")
        expect(page.get_by_role("group", name="Approve write_file?")).to_be_focused()


def test_a_call_that_was_always_allowed_shows_the_change_that_it_made(tab: Tab, tmp_path: Path) -> None:
    lines = [f"line {at}" for at in range(20)]
    after = [*lines[:4], "four", "five", *lines[6:]]
    write = [json.dumps({"path": path, "content": "\n".join(after) + "\n"}) for path in ("a.txt", "b.txt")]
    llm = HeldLLM(
        [*call("write_file", write[0], "c1"), *call("write_file", write[1], "c2")],
        [*call("write_file", write[1].replace("five", "5"), "c3"), *call("write_file", write[1], "c4")],
        text("Written."),
    )
    with stored_chats(tmp_path, llm) as url:
        for name in ("a.txt", "b.txt"):
            (tmp_path / "work" / name).write_text("\n".join(lines) + "\n")
        page = tab(url)
        is_ready(page)
        send(page, "Write them")
        page.get_by_role("group", name="Approve write_file?").first.get_by_role("button", name="Always allow").click()
        expect(answers(page)).to_have_text("Written.")
        for _ in ("as it happened", "as the server tells it"):
            cards = page.locator(".call")
            expect(cards.locator(".status[data-always]")).to_have_count(4)
            for index in range(4):
                cards.nth(index).locator("summary").first.click()
            expect(cards.locator(".counts")).to_have_text(["+2 −2", "+2 −2", "+1 −1", "wrote 20 lines"])
            page.reload()
            is_ready(page)


def test_a_long_edit_is_shown_as_far_as_it_is_stored(tab: Tab, tmp_path: Path) -> None:
    write = '{"path": "z.py", "content": "x = 1\\n"}'
    llm = HeldLLM(call("write_file", write), text("Written."))
    with stored_chats(tmp_path, llm) as url:
        page = tab(url)
        is_ready(page)
        send(page, "Write it")
        question = page.get_by_role("group", name="Approve write_file?")
        question.get_by_role("button", name="Edit").click()
        question.get_by_role("textbox").fill("".join(f"y{at} = {at}\n" for at in range(100)))
        question.get_by_role("button", name="Approve with edits").click()
        expect(answers(page)).to_have_text("Written.")
        page.locator(".call summary").first.click()
        expect(page.locator(".input > .diff tr.add")).to_have_count(100)  # known from before it ran
    with stored_chats(tmp_path, HeldLLM()) as url:
        page = tab(url)
        is_ready(page)
        entry(page, "Write it").click()
        card = page.locator(".call")
        expect(card.locator(".call-summary")).to_have_text("z.py")
        card.locator("summary").first.click()
        expect(card.locator(".input > .diff tr").nth(9)).to_have_text("y9 = 9")
        expect(card.locator(".input > .diff")).to_contain_text("The rest is not shown.")


def test_an_attached_text_is_read_by_the_model(tab: Tab, tmp_path: Path) -> None:
    llm = HeldLLM(text("It is about rain."))
    with stored_chats(tmp_path, llm) as url:
        page = tab(url)
        is_ready(page)
        page.locator("#file-input").set_input_files(
            {"name": "../notes.txt", "mimeType": "text/plain", "buffer": b"Rain until noon."}
        )
        expect(page.locator(".chip")).to_contain_text("16 bytes")
        send(page, "What is it about?")
        expect(answers(page)).to_have_text("It is about rain.")
        expect(page.locator(".chip")).to_have_count(0)
    assert "Rain until noon." in str(llm.requests[0][-1].to_dict())


def test_model_and_mode_of_a_chat_are_switched(tab: Tab, tmp_path: Path) -> None:
    with stored_chats(tmp_path, HeldLLM()) as url:
        page = tab(url)
        is_ready(page)
        page.get_by_role("button", name="Model").click()
        search = page.get_by_role("combobox", name="Model")
        search.fill("gibberish:")
        page.keyboard.press("Enter")
        expect(page.locator("#picker-error")).to_contain_text("no model 'gibberish:'")
        search.fill("other")
        expect(page.get_by_role("option", name="test:other")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Model test:other")).to_be_visible()
        is_ready(page)
        page.get_by_role("button", name="Mode build").click()
        page.get_by_role("menuitemradio", name="plan").click()
        expect(page.get_by_role("button", name="Mode plan")).to_be_visible()


def test_an_empty_chat_that_rested_is_begun_anew(tab: Tab, tmp_path: Path, expected: list[str]) -> None:
    """A hidden tab has no stream, and the server closes a chat without messages after some seconds."""
    expected.append("404")
    changed = """value => {
        Object.defineProperty(document, "visibilityState", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with stored_chats(tmp_path, HeldLLM(text("Here.")), idle=0.2) as url:
        page = tab(url)
        is_ready(page)
        before = page.url
        page.get_by_role("textbox", name="Your message").fill("Half a thought")
        page.evaluate(changed, "hidden")
        page.wait_for_timeout(1000)
        page.evaluate(changed, "visible")
        page.wait_for_function("before => location.href !== before", arg=before)
        is_ready(page)
        page.get_by_role("textbox", name="Your message").press("Enter")
        expect(answers(page)).to_have_text("Here.")
        expect(page.get_by_role("article", name="You")).to_contain_text("Half a thought")


@pytest.mark.nightly
def test_pictures_for_the_documentation(tab: Tab, tmp_path: Path) -> None:
    """With TOOLCAST_SCREENSHOTS they are written there; in any case they are small."""
    folder = Path(os.environ.get("TOOLCAST_SCREENSHOTS") or tmp_path)
    gate = Gate()
    edit = '{"path": "total.py", "old": "return sum(prices)", "new": "return round(sum(prices), 2)"}'
    llm = HeldLLM(
        text("Rain until noon, then sun."),
        text("`SELECT name FROM songs JOIN albums USING (album_id)`"),
        [
            *thinking("The function is in total.py."),
            *text("The totals come from `total.py`. I round there, and add a test."),
            *call("edit_file", edit, "c1"),
            *call("write_file", json.dumps({"path": "test_total.py", "content": TEST}), "c2"),
        ],
        [
            *text("Done:\n\n```python\ndef total(prices):\n    return round(sum(prices), 2)\n```\n\nThe totals now"),
            gate,
            *text(" have two digits."),
        ],
    )
    taken = list[str]()

    def take(page: Page, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", animations="disabled")
        taken.append(f"{name}.png")

    with stored_chats(tmp_path, llm) as url:
        (tmp_path / "work" / "total.py").write_text("def total(prices):\n    return sum(prices)\n")
        page = tab(url)
        page.set_viewport_size({"width": 1280, "height": 800})
        for words in ("What will the weather be?", "Join songs and albums"):
            is_ready(page)
            send(page, words)
            expect(answers(page)).to_have_count(1)
            page.get_by_role("button", name="New chat", exact=True).click()
            expect(page.get_by_role("heading", name="New chat", level=1)).to_be_visible()
        is_ready(page)
        send(page, "The totals of the shop have too many digits. Can you round them?")
        expect(page.locator(".approval")).to_have_count(2)
        expect(page.locator("#chat-list li")).to_have_count(3)
        expect(page.locator("#chat-list .badge")).to_have_text("2")
        page.mouse.move(640, 30)
        take(page, "web-approval")
        page.emulate_media(color_scheme="dark")
        page.get_by_role("group", name="Approve edit_file?").get_by_role("button", name="Approve").click()
        page.get_by_role("group", name="Approve write_file?").get_by_role("button", name="Reject").click()
        expect(answers(page).last).to_contain_text("The totals now")
        page.set_viewport_size({"width": 390, "height": 760})
        send(page, "And the tests?")
        expect(page.locator("#queue")).to_contain_text("And the tests?")
        take(page, "web-phone")
        page.emulate_media(color_scheme="light")
        page.get_by_role("button", name="Show the chats").click()
        take(page, "web-phone-chats")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Remove “And the tests?”").click()
        gate.open()
        is_ready(page)
    for name in taken:
        assert 5_000 < (folder / name).stat().st_size < 150_000


@pytest.mark.nightly
def test_a_stored_chat_of_ten_thousand_messages_is_found_read_and_continued(tab: Tab, tmp_path: Path) -> None:
    messages = [
        user(f"question {n // 2}") if n % 2 == 0 else Message("assistant", (TextPart(f"answer **{n // 2}**"),))
        for n in range(10_000)
    ]
    with SQLiteStore(tmp_path / "sessions.db") as store:
        for id, history in (("long", messages), ("short", [user("Something else")])):
            saved = SavedChat(id, store)
            saved.save("ready", ChatContext(model="test:held", messages=tuple(history)))
            saved.close()
    with stored_chats(tmp_path, HeldLLM(text("the newest answer", 3))) as url:
        page = tab(url)
        is_ready(page)
        page.get_by_role("searchbox").fill("answer **1234**")
        found = page.get_by_role("navigation", name="Chats").get_by_role("link")
        expect(found).to_have_count(1)
        found.click()
        expect(page.get_by_text("answer 4999")).to_be_in_viewport()
        assert page.locator(".message").count() <= 200
        for _ in range(5):  # the first message of the snapshot is 4900
            before = page.locator(".message.user .plain-text").first.inner_text()
            page.locator("#log").press("Home")
            page.wait_for_function(
                "before => document.querySelector('.message.user .plain-text').innerText !== before", arg=before
            )
        assert int(page.locator(".message.user .plain-text").first.inner_text().split()[1]) < 4900
        assert page.locator(".message").count() <= 250
        is_ready(page)
        send(page, "And now?")
        expect(page.get_by_text("the newest answer")).to_be_in_viewport()
        is_ready(page)
    with SQLiteStore(tmp_path / "sessions.db") as store:
        assert [record["kind"] for record in store.read("long")].count("message") == 10_002


def test_an_edited_message_keeps_its_file(tab: Tab, tmp_path: Path) -> None:
    with stored_chats(tmp_path, HeldLLM(text("Three lines."), text("It is a list."))) as url:
        page = tab(url)
        is_ready(page)
        page.locator("#file-input").set_input_files(
            {"name": "list.txt", "mimeType": "text/plain", "buffer": b"one\ntwo\nthree\n"}
        )
        expect(page.locator(".chip")).to_have_count(1)
        send(page, "How many lines?")
        expect(answers(page)).to_have_text("Three lines.")
        is_ready(page)
        page.locator(".message.user").hover()
        page.get_by_role("button", name="Edit message").click()
        page.get_by_role("textbox", name="Edited message").fill("What is it?")
        page.get_by_role("button", name="Send", exact=True).first.click()
        expect(answers(page)).to_have_text("It is a list.")
        expect(page.locator(".message.user .plain-text")).to_have_text("What is it?")
        expect(page.locator(".message.user .file-part")).to_contain_text("list.txt")
        expect(page.locator(".message.user .branches")).to_contain_text("2/2")
