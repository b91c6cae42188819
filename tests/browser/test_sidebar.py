"""The list of chats beside the messages: by day, searched, renamed, exported, deleted, and moved through by keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from browser.many_chats import ManyChats, many_chats

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    Tab = Callable[[str], Page]

QUESTION = {"call_id": "c1", "tool": "send_mail", "arguments": "{}", "reason": "", "fingerprint": "f1"}


def entry(page: Page, title: str) -> Locator:
    return page.get_by_role("navigation", name="Chats").get_by_role("link", name=title, exact=True)


def opened(tab: Tab, chats: ManyChats, id: str = "c1") -> Page:
    page = tab(f"{chats.url}#{id}")
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    return page


def test_chats_are_listed_by_day_and_the_address_names_the_one_that_is_shown(tab: Tab) -> None:
    with many_chats() as chats:
        for title, days in (("Second", 1), ("Third", 4), ("Fourth", 20), ("Ancient", 400)):
            chats.do(lambda title=title, days=days: chats.add(title, days))
        page = opened(tab, chats)
        days = page.locator("#chat-list h3")
        expect(days).to_have_count(5)
        expect(days.nth(0)).to_have_text("Today")
        expect(days.nth(1)).to_have_text("Yesterday")
        expect(days.nth(2)).to_have_text("Previous 7 days")
        expect(days.nth(3)).to_have_text("Previous 30 days")
        entry(page, "Third").click()
        expect(page.get_by_role("heading", name="Third", level=1)).to_be_visible()
        assert page.url.endswith("#c3")
        expect(entry(page, "Third")).to_have_attribute("aria-current", "page")
        page.go_back()
        expect(page.get_by_role("heading", name="First", level=1)).to_be_visible()
        page.go_forward()
        expect(page.get_by_role("heading", name="Third", level=1)).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Third", level=1)).to_be_visible()
        expect(page).to_have_title("Third – toolcast")


def test_a_chat_is_begun(tab: Tab) -> None:
    with many_chats() as chats:
        page = tab(chats.url)  # without the name of a chat: a new one
        expect(page.locator("#state")).to_have_text("ready")
        assert page.url.endswith("#c2")
        page.get_by_role("button", name="New chat", exact=True).click()
        expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        page.wait_for_url("**#c3")
        page.keyboard.press("Control+Shift+O")
        page.wait_for_url("**#c4")
        assert list(chats.chats) == ["c4", "c3", "c2", "c1"]


def test_chats_are_searched(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: chats.add("The weather of Ann"))
        page = opened(tab, chats)
        page.keyboard.press("Control+K")
        expect(page.get_by_role("searchbox", name="Search chats")).to_be_focused()
        page.keyboard.type("weather")
        expect(entry(page, "First")).to_have_count(0)
        page.keyboard.press("ArrowDown")
        expect(entry(page, "The weather of Ann")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="The weather of Ann", level=1)).to_be_visible()
        page.get_by_role("searchbox").fill("nothing of this kind")
        expect(page.locator("#no-chats")).to_have_text("No chat has “nothing of this kind”.")
        page.get_by_role("searchbox").press("Escape")
        expect(entry(page, "First")).to_be_visible()


def test_a_long_list_is_shown_in_parts(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: [chats.add(f"Chat {number}", 2) for number in range(120)])
        page = opened(tab, chats)
        expect(page.locator(".chat-link")).to_have_count(50)
        page.get_by_role("button", name="Show more").click()
        expect(page.locator(".chat-link")).to_have_count(100)
        expect(page.locator(".chat-link").nth(50)).to_be_focused()
        page.get_by_role("button", name="Show more").click()
        expect(page.locator(".chat-link")).to_have_count(121)
        expect(page.get_by_role("button", name="Show more")).to_be_hidden()


def test_a_chat_is_renamed_in_place(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        entry(page, "First").focus()
        page.keyboard.press("F2")
        field = page.get_by_role("textbox", name="Title of the chat")
        expect(field).to_be_focused()
        field.fill("Not this")
        page.keyboard.press("Escape")
        expect(entry(page, "First")).to_be_focused()
        page.get_by_role("button", name="Actions for “First”").click()
        page.get_by_role("menuitem", name="Rename").click()
        field.fill("<b>Renamed</b>")
        page.keyboard.press("Enter")
        expect(entry(page, "<b>Renamed</b>")).to_be_focused()
        expect(page.get_by_role("heading", name="<b>Renamed</b>", level=1)).to_be_visible()
        assert chats.chats["c1"].title == "<b>Renamed</b>"


def test_a_chat_is_deleted_after_a_confirmation(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: chats.add("Second"))
        page = opened(tab, chats)
        entry(page, "Second").focus()
        page.keyboard.press("Delete")
        dialog = page.get_by_role("dialog", name="Delete this chat?")
        expect(dialog).to_contain_text("“Second” and its files will be deleted for good.")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Escape")
        assert "c2" in chats.chats
        chats.do(lambda: chats.chats["c2"].set("streaming_response"))
        expect(page.get_by_role("img", name="working")).to_be_visible()
        entry(page, "Second").focus()
        page.keyboard.press("Delete")
        expect(dialog).to_contain_text("It is at work, which will be stopped.")
        page.keyboard.press("Escape")
        page.keyboard.press("Delete")
        dialog.get_by_role("button", name="Delete").click()
        expect(entry(page, "Second")).to_have_count(0)
        expect(entry(page, "First")).to_be_focused()
        page.keyboard.press("Delete")  # the one that is shown: a new one takes its place
        dialog.get_by_role("button", name="Delete").click()
        page.wait_for_url("**#c3")
        assert list(chats.chats) == ["c3"]


@pytest.mark.parametrize("format", ["Markdown", "JSON", "HTML"])
def test_a_chat_is_exported(tab: Tab, format: str) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.get_by_role("button", name="Actions for “First”").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=f"Export as {format}").click()
        assert download.value.path().read_text() == "First"
        assert download.value.suggested_filename == f"{format.lower()}.txt"


def test_badges_show_the_chats_at_work_and_those_that_wait(tab: Tab) -> None:
    with many_chats() as chats:

        def begin() -> None:
            chats.add("Second").state = "streaming_response"
            waits = chats.add("Third")
            waits.state, waits.context["pending"] = "waiting_for_tool_approval", [QUESTION, QUESTION]

        chats.do(begin)
        page = opened(tab, chats)
        second, third = (page.locator("#chat-list li", has_text=title) for title in ("Second", "Third"))
        expect(second.get_by_role("img", name="working")).to_be_visible()
        expect(third.get_by_role("img", name="waits for approval")).to_have_text("2")
        chats.do(lambda: chats.chats["c1"].set("streaming_response"))
        first = page.locator("#chat-list li", has_text="First")
        expect(first.get_by_role("img", name="working")).to_be_visible(timeout=1000)  # without asking for the list
        chats.do(lambda: chats.chats["c2"].set("ready"))
        expect(second.get_by_role("img", name="working")).to_have_count(0)


def test_the_list_is_moved_through_by_keys_and_is_one_stop_of_tab(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: [chats.add(title) for title in ("Second", "Third")])
        page = opened(tab, chats)
        page.get_by_role("searchbox", name="Search chats").focus()
        page.keyboard.press("Tab")
        expect(entry(page, "First")).to_be_focused()  # the one that is shown
        page.keyboard.press("Home")
        expect(entry(page, "Third")).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(entry(page, "Second")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Actions for “Second”")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
        page.keyboard.press("ArrowUp")
        expect(page.get_by_role("menuitem", name="Delete …")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Actions for “Second”")).to_be_focused()
        expect(page.get_by_role("menu")).to_have_count(0)


def test_a_chat_that_is_gone_is_replaced_by_a_new_one(tab: Tab, expected: list[str]) -> None:
    expected.append("404")
    with many_chats() as chats:
        page = tab(f"{chats.url}#gone")
        page.wait_for_url("**#c2")
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        expect(page.locator("#notice-text")).to_have_text("That chat does not exist any more. This is a new one.")
        entry(page, "First").click()
        expect(page.get_by_role("alert")).to_be_hidden()


def test_an_empty_chat_that_the_server_has_closed_is_begun_anew_with_the_draft(tab: Tab, expected: list[str]) -> None:
    expected.append("404")
    with many_chats() as chats:
        page = tab(chats.url)
        page.wait_for_url("**#c2")
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        page.get_by_role("textbox", name="Your message").fill("Half a thought")
        chats.do(lambda: (chats.chats.pop("c2"), chats.drop_streams()))
        page.wait_for_url("**#c3")
        expect(page.get_by_role("textbox", name="Your message")).to_have_value("Half a thought")
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        expect(page.get_by_role("alert")).to_be_hidden()


def test_a_chat_that_is_open_elsewhere_or_cannot_be_saved_says_so(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        chats.do(lambda: chats.chats["c1"].set("ready", locked="it is open in another program"))
        expect(page.locator("#notice-text")).to_have_text("You can only read this chat: it is open in another program")
        chats.do(lambda: chats.chats["c1"].set("ready", locked=None, not_saved="the disk is full"))
        expect(page.locator("#notice-text")).to_have_text("This chat is not saved: the disk is full")


def test_on_a_phone_the_list_is_behind_a_button(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: chats.add("Second"))
        page = opened(tab, chats)
        page.set_viewport_size({"width": 390, "height": 844})
        menu = page.get_by_role("button", name="Show the chats")
        expect(page.get_by_role("navigation")).to_be_hidden()
        menu.click()
        expect(page.get_by_role("button", name="New chat", exact=True)).to_be_focused()
        page.keyboard.press("Escape")
        expect(menu).to_be_focused()
        menu.click()
        entry(page, "Second").click()
        expect(page.get_by_role("navigation")).to_be_hidden()
        expect(page.get_by_role("heading", name="Second", level=1)).to_be_visible()
        menu.click()
        page.mouse.click(380, 400)
        expect(page.get_by_role("navigation")).to_be_hidden()


def test_the_list_stays_hidden_after_a_reload(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.get_by_role("button", name="Hide the chats").click()
        expect(page.get_by_role("button", name="Show the chats")).to_be_focused()
        page.reload()
        expect(page.get_by_role("button", name="Show the chats")).to_be_visible()
        page.keyboard.press("Control+Shift+S")
        expect(entry(page, "First")).to_be_visible()
