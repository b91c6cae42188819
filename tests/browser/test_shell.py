"""The page around the messages: keys, accessibility, phones, and what happens to a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import pytest

from browser.axe import findings, looks
from browser.many_chats import PIXEL, ManyChats, encoded, many_chats
from browser.test_approvals import COMMAND, EDIT, MAIL, WAITS

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Tab = Callable[[str], Page]


def opened(tab: Tab, chats: ManyChats) -> Page:
    page = tab(f"{chats.url}#c1")
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    return page


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": text}]}


def fill(chats: ManyChats) -> None:
    """Fill the server with chats, and the first with messages, calls that wait and a queue."""
    for title, days in (("A title that is much too long for the sidebar and for a phone", 0), ("Second", 1)):
        chats.add(title, days)
    chats.chats["c2"].state = "calling_tool"
    chats.chats["c1"].set(
        WAITS,
        pending=[EDIT, COMMAND, MAIL],
        messages=[message("user", "Hello"), message("assistant", "An answer with `code`.\n\n- and\n- a list")],
        queue=[message("user", "x" * 300)],
        usage={"input_tokens": 9, "output_tokens": 9, "cost": "0.1"},
        context_tokens=24_000,
        context_window=200_000,
    )


@looks
def test_axe_finds_nothing(tab: Tab, width: int, scheme: Literal["light", "dark"]) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 844})
        assert findings(page) == []
        chats.do(lambda: fill(chats))
        page.locator("#file-input").set_input_files({"name": "photo.png", "mimeType": "image/png", "buffer": PIXEL})
        page.get_by_role("textbox", name="Your message").fill("A draft")
        expect(page.locator(".approval")).to_have_count(3)
        expect(page.locator(".chip img")).to_be_visible()
        assert findings(page) == []
        page.get_by_role("button", name="Edit", exact=True).first.click()
        page.get_by_role("button", name="Edit “x").click()
        assert findings(page) == []
        page.get_by_role("button", name="Details").click()
        page.get_by_text("States", exact=True).click()
        assert findings(page) == []
        page.get_by_role("button", name="Keyboard shortcuts").click()
        assert findings(page) == []
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Close the details").click()
        page.get_by_role("button", name="Model").click()
        expect(page.get_by_role("option")).to_have_count(3)
        assert findings(page) == []
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Mode build").click()
        assert findings(page) == []
        page.keyboard.press("Escape")
        if width == 390:
            page.get_by_role("button", name="Show the chats").click()
        expect(page.locator("#chat-list li")).to_have_count(3)
        assert findings(page) == []
        page.locator(".chat-menu").first.click()
        assert findings(page) == []
        page.get_by_role("menuitem", name="Rename").click()
        assert findings(page) == []
        page.keyboard.press("Escape")
        page.keyboard.press("Delete")
        expect(page.get_by_role("dialog")).to_be_visible()
        assert findings(page) == []


SMALL = """() => [...document.querySelectorAll("button, select, a[href], [role=option], summary")]
    .filter(each => each.checkVisibility({ visibilityProperty: true }) && !each.closest("#log, .skip"))
    .map(each => [each.getBoundingClientRect(), each])
    .filter(([box]) => box.width > 0 && (box.height < 43.5 || box.width < 43.5))
    .map(([box, each]) => `${each.id || each.className} ${each.textContent.slice(0, 20)} ${box.width}x${box.height}`)
"""


def test_a_phone_has_large_targets_and_nothing_beside_its_screen(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.set_viewport_size({"width": 390, "height": 844})
        chats.do(lambda: fill(chats))
        expect(page.locator(".approval")).to_have_count(3)
        assert page.evaluate(SMALL) == []
        for button in ("Show the chats", "Details"):
            page.get_by_role("button", name=button).click()
            assert page.evaluate(SMALL) == []
            page.keyboard.press("Escape")
        page.get_by_role("button", name="Model").click()
        expect(page.get_by_role("option")).to_have_count(3)
        assert page.evaluate(SMALL) == []
        page.keyboard.press("Escape")
        for width in (320, 390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            expect(page.get_by_role("textbox", name="Your message")).to_be_in_viewport(ratio=1)
            expect(page.get_by_role("button", name="Stop", exact=True)).to_be_in_viewport(ratio=1)
            expect(page.locator("#state")).to_be_in_viewport()


def test_the_header_of_a_phone_is_one_row_and_a_new_chat_has_its_box_in_the_middle(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.set_viewport_size({"width": 1280, "height": 800})
        box = page.locator("#composer")
        assert 300 < (box.bounding_box() or {})["y"] < 500
        page.set_viewport_size({"width": 390, "height": 844})
        assert (page.locator(".bar").bounding_box() or {})["height"] <= 64
        assert (box.bounding_box() or {})["y"] > 700
        for name in ("Attach files", "Mode build", "Model test:held", "Send"):
            expect(box.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        chats.do(lambda: chats.chats["c1"].set("calling_tool"))
        for name in ("Attach files", "Mode build", "Skip tools", "Stop"):
            expect(box.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)


def test_an_answer_has_buttons_once_its_turn_has_ended(tab: Tab) -> None:
    with many_chats() as chats:
        first = chats.chats["c1"]
        page = opened(tab, chats)
        asked = [message("user", "Hello"), message("assistant", "I will look.")]
        chats.do(lambda: first.set(WAITS, pending=[COMMAND], messages=asked, branches=[], marks=[]))
        expect(page.locator(".approval")).to_have_count(1)
        again = page.get_by_role("button", name="Regenerate the answer")
        expect(page.get_by_role("button", name="Edit message")).to_have_count(1)
        expect(again).to_have_count(0)
        chats.do(lambda: first.set("ready", pending=[]))
        expect(again).to_have_count(1)


def test_shortcuts_are_listed_and_work(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        box = page.get_by_role("textbox", name="Your message")
        expect(box).to_be_focused()
        page.keyboard.type("?/")
        expect(box).to_have_value("?/")
        page.locator("#log").focus()
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        expect(dialog).to_contain_text("Search chats")
        page.keyboard.press("Control+Shift+O")
        assert list(chats.chats) == ["c1"]
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.keyboard.press("/")
        expect(box).to_be_focused()
        expect(box).to_have_value("?/")


def test_escape_interrupts_only_what_works_and_closes_first(tab: Tab) -> None:
    with many_chats() as chats:
        first = chats.chats["c1"]
        page = opened(tab, chats)
        page.keyboard.press("Escape")
        chats.do(lambda: first.set("streaming_response"))
        expect(page.locator("#state")).to_have_text("answering")
        page.get_by_role("button", name="Details").click()
        expect(page.get_by_role("button", name="Close the details")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Details")).to_be_focused()
        page.get_by_role("button", name="Mode build").click()
        page.keyboard.press("Escape")
        page.get_by_role("searchbox").press("Escape")
        assert chats.dispatched == []
        with page.expect_response(lambda response: response.request.method == "POST"):
            page.get_by_role("textbox", name="Your message").press("Escape")
        chats.do(lambda: first.set("calling_tool"))
        with page.expect_response(lambda response: response.request.method == "POST"):
            page.get_by_role("button", name="Skip tools").click()
        expect(page.get_by_role("alert")).to_be_hidden()
        assert [event for _, event in chats.dispatched] == [{"type": "INTERRUPT"}] * 2


def test_the_first_stop_of_tab_skips_to_the_message_box(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.evaluate("document.activeElement.blur()")
        page.reload()
        page.locator("body").evaluate("() => { document.activeElement.blur() }")
        page.get_by_role("link", name="Skip to the message box").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        assert page.url.endswith("#c1")


def test_a_failed_turn_says_why_and_is_tried_again_in_place(tab: Tab) -> None:
    with many_chats() as chats:
        first = chats.chats["c1"]
        page = opened(tab, chats)
        error = {"stage": "generation", "message": "the service is <b>overloaded</b>", "retryable": True}
        chats.do(lambda: first.set("ready", last_error=error, retry="generation"))
        expect(page.get_by_role("alert")).to_contain_text("The model did not answer: the service is <b>overloaded</b>")
        with page.expect_response("**/dispatch*"):
            page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("alert")).to_be_visible()
        assert chats.dispatched == [("c1", {"type": "RETRY_GENERATION"})]
        chats.do(lambda: first.set("streaming_response", last_error=None, retry=None))
        expect(page.get_by_role("alert")).to_be_hidden()


def test_a_lost_connection_is_shown_in_the_title_too_and_is_found_again(tab: Tab, expected: list[str]) -> None:
    expected.append("ERR_FAILED")
    with many_chats() as chats:
        page = opened(tab, chats)
        page.route("**/chats**", lambda route: route.abort())
        chats.do(lambda: chats.chats["c1"].set("ready"))
        page.reload()
        expect(page.get_by_role("alert")).to_contain_text("Cannot reach the server")
        page.unroute_all()
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        expect(page.get_by_role("alert")).to_be_hidden()


def test_a_server_that_ends_is_reported(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
    expect(page.get_by_role("alert")).to_contain_text("Cannot reach the server. Trying again …")
    expect(page).to_have_title("⚠ connection lost – First – toolcast")


def test_two_tabs_show_the_same_chat_and_each_its_own(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: chats.add("Second"))
        one, other = opened(tab, chats), opened(tab, chats)
        one.get_by_role("textbox", name="Your message").fill("Hello")
        one.keyboard.press("Enter")
        expect(other.get_by_role("article", name="You")).to_have_text("Hello")
        other.get_by_role("link", name="Second", exact=True).click()
        expect(other.get_by_role("heading", name="Second", level=1)).to_be_visible()
        expect(other.get_by_role("article", name="You")).to_have_count(0)
        expect(one.get_by_role("heading", name="First", level=1)).to_be_visible()
        expect(one.get_by_role("article", name="You")).to_have_text("Hello")


def test_the_list_of_shortcuts_opens_from_the_message_box_too(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        expect(page.locator("#empty")).to_contain_text("Press Ctrl / for the keyboard shortcuts.")
        expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        page.keyboard.press("Control+/")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("textbox", name="Your message")).to_have_value("")
        page.set_viewport_size({"width": 390, "height": 844})
        expect(page.get_by_text("for the keyboard shortcuts")).to_be_hidden()


def test_a_click_into_the_messages_leaves_no_ring_around_them(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        log = page.get_by_role("log")
        log.click()
        page.keyboard.press("Home")
        expect(log).to_be_focused()
        assert log.evaluate("log => getComputedStyle(log).outlineStyle") == "none"
        page.get_by_role("textbox", name="Your message").focus()
        page.keyboard.press("Shift+Tab")
        expect(log).to_be_focused()
        assert log.evaluate("log => getComputedStyle(log).outlineStyle") == "solid"


UNLIKE = """() => [...document.querySelectorAll("button[aria-label]")]
    .map(each => [(each.dataset.label ?? each.innerText).replace(/[^a-z ]/gi, "").trim(), each.ariaLabel])
    .filter(([label, name]) => label.length > 1 && !name.toLowerCase().includes(label.toLowerCase()))
"""


def test_buttons_have_their_labels_in_their_names(tab: Tab) -> None:
    """Who speaks to the computer says what is to be read on a button."""
    with many_chats() as chats:
        page = opened(tab, chats)
        chats.do(lambda: fill(chats))
        expect(page.locator(".approval")).to_have_count(3)
        chats.do(lambda: chats.chats["c1"].set("ready", pending=[], branches=[]))
        expect(page.get_by_role("button", name="Regenerate the answer")).to_be_visible()
        assert page.evaluate(UNLIKE) == []


def test_a_shortcut_goes_to_the_calls_that_wait_in_other_chats(tab: Tab) -> None:
    with many_chats() as chats:
        for title in ("Second", "Third", "Fourth"):
            chats.do(lambda title=title: chats.add(title))
        page = opened(tab, chats)
        page.keyboard.press("Control+Shift+Y")
        expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        chats.do(lambda: chats.chats["c2"].set(WAITS, pending=[EDIT]))
        chats.do(lambda: chats.chats["c3"].set(WAITS, pending=[COMMAND]))
        page.get_by_role("textbox", name="Your message").fill("A draft")
        page.keyboard.press("Control+Shift+Y")
        page.wait_for_url("**#c3")
        expect(page.locator(".approval")).to_be_focused()
        page.get_by_role("heading", level=1).click()
        page.locator(".approval header").click()
        expect(page.locator(".approval")).to_be_focused()
        expect(page.locator(".approval")).not_to_have_css("box-shadow", "none")  # its keys decide
        page.keyboard.press("Control+Shift+Y")
        page.wait_for_url("**#c2")
        expect(page.locator(".approval")).to_be_focused()
        expect(page.locator(".approval")).not_to_have_css("box-shadow", "none")
        expect(page.locator("#approvals")).to_have_js_property("scrollTop", 0)
        page.get_by_role("textbox", name="Your message").focus()
        page.keyboard.press("Control+Shift+Y")
        expect(page.locator(".approval")).to_be_focused()
        assert page.url.endswith("#c2")


def test_the_title_tells_that_another_chat_waits_as_soon_as_the_stream_has_its_row(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        row = {"id": "c9", "title": "Other", "updated": chats.now.isoformat(), "messages": 2, "model": "test:held"}

        def announce(**fields: object) -> None:
            chat = chats.chats["c1"]
            chat.events.append(encoded("chat", len(chat.events) + 1, row | fields))
            chat.set("ready")

        chats.do(lambda: announce(state="waiting_for_tool_approval", waiting=1))
        expect(page).to_have_title("● another chat waits for approval – First – toolcast", timeout=2000)
        chats.do(lambda: announce(deleted=True))
        expect(page).to_have_title("First – toolcast", timeout=2000)


def test_a_failure_of_the_models_server_is_in_plain_words_with_the_rest_folded(tab: Tab) -> None:
    error = {"stage": "generation", "message": "ollama m: no connection to h:11434: [Errno 111] no", "retryable": True}
    with many_chats() as chats:
        page = opened(tab, chats)
        chats.do(lambda: chats.chats["c1"].set("ready", last_error=error, retry="generation"))
        notice = page.locator("#notice-text")
        expect(notice).to_contain_text("Ollama does not answer at h:11434. Start it (ollama serve), then try again.")
        expect(notice.get_by_text("Errno")).to_be_hidden()
        notice.get_by_text("Technical details").click()
        expect(notice.get_by_text("Errno")).to_be_visible()


def test_an_answer_has_its_model_and_its_time(tab: Tab) -> None:
    messages = [{"role": role, "parts": [{"type": "text", "text": role}]} for role in ("user", "assistant")]
    notes = {"1": {"model": "ollama:qwen3:8b", "time": 1_700_000_000.0}}
    with many_chats() as chats:
        page = opened(tab, chats)
        chats.do(lambda: chats.chats["c1"].set("ready", messages=messages, branches=[], answered_by=notes))
        expect(page.get_by_role("article", name="Model").locator(".stamp")).to_contain_text("qwen3:8b · ")
        assert "ollama:qwen3:8b, " in (page.locator(".stamp").get_attribute("title") or "")


def test_a_theme_is_chosen_and_remembered(tab: Tab) -> None:
    light, dark = "rgb(255, 255, 255)", "rgb(20, 22, 31)"
    with many_chats() as chats:
        page, other = opened(tab, chats), opened(tab, chats)
        bodies = [page.locator("body"), other.locator("body")]
        page.get_by_role("button", name="Details").click()
        theme = page.get_by_role("group", name="Theme")
        expect(theme.get_by_role("radio", name="System")).to_be_checked()
        expect(bodies[0]).to_have_css("background-color", light)
        theme.get_by_text("Dark").click()
        for body in bodies:
            expect(body).to_have_css("background-color", dark)
        page.reload()
        expect(bodies[0]).to_have_css("background-color", dark)
        page.get_by_role("button", name="Details").click()
        expect(theme.get_by_role("radio", name="Dark")).to_be_checked()
        page.emulate_media(color_scheme="dark")
        page.keyboard.press("Tab")
        theme.get_by_role("radio", name="Dark").press("ArrowLeft")
        expect(bodies[0]).to_have_css("background-color", light)
        theme.get_by_text("System").click()
        expect(bodies[0]).to_have_css("background-color", dark)
        expect(bodies[1]).to_have_css("background-color", light)
