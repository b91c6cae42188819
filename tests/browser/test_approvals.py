"""Calls that wait for an approval: each shown once with what it would do, decided by one click or key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from browser.many_chats import ManyChats, many_chats

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    Tab = Callable[[str], Page]

WAITS = "waiting_for_tool_approval"
ROWS = [
    {"kind": "same", "old": 1, "new": 1, "text": "def total(prices):", "words": []},
    {"kind": "remove", "old": 2, "new": None, "text": "    return sum(prices)", "words": [[11, 14]]},
    {"kind": "add", "old": None, "new": 2, "text": "    return round(sum(prices), 2)", "words": [[11, 17], [28, 31]]},
]
EDIT = {
    "call_id": "c1",
    "tool": "edit_file",
    "arguments": '{"n": 12345678901234567890, "path": "total.py", "new": "a\\nb", "more": {"new": 1}}',
    "reason": "mode build asks before it edits files",
    "fingerprint": "f1",
    "always": "every call of edit_file in this session",
    "editable": {"argument": "new", "text": "a\nb"},
    "preview": {
        "kind": "diff",
        "path": "total.py",
        "change": "edit",
        "added": 1,
        "removed": 1,
        "rows": ROWS,
        "note": None,
    },
}
COMMAND = {
    "call_id": "c2",
    "tool": "run_command",
    "arguments": '{"command": "git status"}',
    "reason": "",
    "fingerprint": "f2",
    "always": "git status …",
    "editable": {"argument": "command", "text": "git status"},
    "preview": {"kind": "command", "command": "git status", "directory": "shop"},
}
MAIL = {
    "call_id": "c3",
    "tool": "send_mail",
    "arguments": json.dumps({"to": "ann@example.org", "text": ["line"] * 40}),
    "reason": "",
    "fingerprint": "f3",
    "always": None,
    "editable": None,
    "preview": {"kind": "call", "summary": "send_mail  ann@example.org", "arguments": {}, "is_complete": True},
}


def opened(tab: Tab, chats: ManyChats, *pending: dict[str, Any]) -> Page:
    page = tab(f"{chats.url}#c1")
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    page.evaluate("document.activeElement.blur()")  # what is read has the focus, and no field
    if pending:
        ask(chats, *pending)
        expect(page.get_by_role("region", name="Calls that wait")).to_be_visible()
    return page


def ask(chats: ManyChats, *pending: dict[str, Any]) -> None:
    chats.do(lambda: chats.chats["c1"].set(WAITS, pending=list(pending)))


def question(page: Page, tool: str) -> Locator:
    return page.get_by_role("group", name=f"Approve {tool}?")


def after_the_grace(page: Page, key: str) -> None:
    """Press a key after the time in which keys are taken to be meant for another field."""
    page.wait_for_timeout(700)
    page.keyboard.press(key)


def events(chats: ManyChats) -> list[dict[str, Any]]:
    return [event for _, event in chats.dispatched]


def test_each_call_is_shown_once_as_what_it_would_do(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats, EDIT, COMMAND, MAIL)
        edit, command, mail = (question(page, name) for name in ("edit_file", "run_command", "send_mail"))
        expect(edit.locator(".path")).to_have_text("total.py")
        expect(edit.locator(".counts")).to_have_text("+1 −1")
        expect(edit.locator(".add mark").first).to_have_text("round(")
        expect(edit).to_contain_text("mode build asks before it edits files")
        expect(edit.locator(".always-allows")).to_have_text(
            "Always allow will allow: every call of edit_file in this session"
        )
        expect(edit.get_by_label("Arguments")).to_have_count(0)
        expect(command.get_by_label("Command")).to_have_text("git status")
        expect(command).to_contain_text("in shop")
        expect(mail.locator("summary")).to_have_text("ann@example.org")
        expect(mail.get_by_label("Arguments")).to_be_hidden()
        mail.locator("summary").click()
        expect(mail.get_by_label("Arguments")).to_contain_text('"to": "ann@example.org"')
        expect(page.get_by_role("group", name="Decide about all calls")).to_contain_text("3 calls need your approval.")


def test_what_the_line_of_a_call_leaves_out_is_shown(tab: Tab) -> None:
    preview = {**MAIL["preview"], "summary": "send_mail  ann@…", "is_complete": False}
    cut = {**MAIL, "arguments": '{"to": "ann@example.org"}', "preview": preview}
    with many_chats() as chats:
        page = opened(tab, chats, cut)
        expect(question(page, "send_mail").get_by_label("Arguments")).to_be_visible()


def test_an_edit_that_will_fail_is_a_warning(tab: Tab) -> None:
    note = "The edit will fail: the text of `old` is not in total.py."
    with many_chats() as chats:
        page = opened(tab, chats, EDIT, {**EDIT, "fingerprint": "f9", "preview": {**EDIT["preview"], "note": note}})
        good, bad = (question(page, "edit_file").nth(at) for at in (0, 1))
        expect(bad.locator(".note.wrong")).to_have_text(note)
        expect(bad.get_by_role("button", name="Approve", exact=True)).not_to_contain_class("primary")
        expect(good.get_by_role("button", name="Approve", exact=True)).to_contain_class("primary")
        expect(good.locator(".note.wrong")).to_have_count(0)


def test_the_focus_and_the_title_tell_that_a_call_waits(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats, EDIT, COMMAND)
        expect(question(page, "edit_file")).to_be_focused()
        expect(page).to_have_title("● waits for approval – First – toolcast")
        after_the_grace(page, "a")
        expect(question(page, "edit_file")).to_have_count(0)
        expect(question(page, "run_command")).to_be_focused()
        page.get_by_role("button", name="Approve", exact=True).click()
        expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        expect(page).to_have_title("First – toolcast")
    assert events(chats) == [
        {"type": "APPROVE_TOOL_CALL", "call_id": "c1", "fingerprint": "f1"},
        {"type": "APPROVE_TOOL_CALL", "call_id": "c2", "fingerprint": "f2"},
    ]


def test_the_focus_stays_with_a_text_that_is_being_written(tab: Tab) -> None:
    with many_chats() as chats:
        page = tab(f"{chats.url}#c1")
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        box = page.get_by_role("textbox", name="Your message")
        box.press_sequentially("Say")
        ask(chats, EDIT)
        expect(question(page, "edit_file")).to_be_visible()
        page.keyboard.type(" are")
        expect(box).to_have_value("Say are")
        page.keyboard.press("Control+Shift+Y")
        expect(question(page, "edit_file")).to_be_focused()
        expect(page.locator("#approvals").get_by_role("status")).to_be_hidden()
    assert events(chats) == []


@pytest.mark.parametrize("text", ["now what about the docs", "please also add a test"])
def test_the_focus_stays_in_an_empty_message_box(tab: Tab, text: str) -> None:
    with many_chats() as chats:
        page = tab(f"{chats.url}#c1")
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        box = page.get_by_role("textbox", name="Your message")
        expect(box).to_be_focused()
        ask(chats, COMMAND)
        notice = page.locator("#approvals").get_by_role("status")
        expect(notice).to_have_text("A call needs your approval. Ctrl+Shift+Y goes there.")
        page.keyboard.type(text, delay=60)
        expect(box).to_have_value(text)
        ask(chats, EDIT, COMMAND)
        expect(notice).to_contain_text("2 calls need your approval. Ctrl+Shift+Y")
        expect(box).to_be_focused()
        expect(page.get_by_role("group", name="Approve")).to_have_count(2)
    assert events(chats) == []


def test_a_key_decides_only_after_a_pause_in_typing(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats, EDIT)
        expect(question(page, "edit_file")).to_be_focused()
        page.keyboard.type("arse arse arse", delay=100)  # far longer than the pause
        expect(page.get_by_role("textbox", name="Reason")).not_to_be_focused()
        expect(question(page, "edit_file")).to_be_focused()
        after_the_grace(page, "a")
        expect(question(page, "edit_file")).to_have_count(0)
    assert [event["type"] for event in events(chats)] == ["APPROVE_TOOL_CALL"]


def test_one_approval_after_the_other_is_decided_by_keys(tab: Tab) -> None:
    """While the model works the focus is in no field, so that it moves to the next call; typing goes to the box."""
    with many_chats() as chats:
        page = opened(tab, chats, EDIT)
        chats.after_decision = "calling_tool"
        after_the_grace(page, "a")
        expect(question(page, "edit_file")).to_have_count(0)
        expect(page.get_by_role("main")).to_be_focused()
        ask(chats, COMMAND)
        expect(question(page, "run_command")).to_be_focused()
        after_the_grace(page, "a")
        expect(page.get_by_role("main")).to_be_focused()
        chats.do(lambda: chats.chats["c1"].set("ready"))
        box = page.get_by_role("textbox", name="Your message")
        expect(box).to_be_focused()
        page.locator("#log").focus()
        page.keyboard.type("Thanks a lot")
        expect(box).to_have_value("Thanks a lot")
    assert [event["call_id"] for event in events(chats)] == ["c1", "c2"]


def long_diff(id: str) -> dict[str, Any]:
    """Return a request to write a file of 300 lines."""
    rows = [{"kind": "add", "old": None, "new": at, "text": f"line {at} " * 6, "words": []} for at in range(1, 301)]
    preview = {**EDIT["preview"], "rows": rows, "change": "create", "added": 300, "removed": 0}
    return {**EDIT, "call_id": id, "fingerprint": id, "tool": f"write_{id}", "preview": preview}


@pytest.mark.parametrize("size", [(390, 844), (1280, 800)])
@pytest.mark.parametrize("count", [1, 8])
def test_the_buttons_of_a_long_diff_are_in_view(tab: Tab, size: tuple[int, int], count: int) -> None:
    with many_chats() as chats:
        page = tab(f"{chats.url}#c1")
        page.set_viewport_size({"width": size[0], "height": size[1]})
        ask(chats, *[long_diff(str(at)) for at in range(count)])
        first = question(page, "write_0")
        for name in ("Approve", "Edit", "Always allow", "Reject"):
            expect(first.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        expect(first).to_contain_class("goes-on")  # the buttons are over the diff, and a line points there
        page.get_by_role("region", name="Calls that wait").evaluate("panel => panel.scrollTo(0, panel.scrollHeight)")
        last = question(page, f"write_{count - 1}")
        expect(last).not_to_contain_class("goes-on")
        expect(last.get_by_text("line 300")).to_be_in_viewport()
        expect(last.get_by_role("button", name="Approve")).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_keys_that_follow_a_moved_focus_at_once_decide_nothing(tab: Tab) -> None:
    with many_chats() as chats:
        page = tab(f"{chats.url}#c1")
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        page.evaluate("document.activeElement.blur()")
        page.evaluate(
            """() => new MutationObserver((_, observer) => {
                if (!document.activeElement.matches(".approval")) return;
                observer.disconnect();
                for (const key of "arse") {
                    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                }
                document.body.dataset.typed = "yes";
            }).observe(document.body, { subtree: true, attributes: true, childList: true })"""
        )
        ask(chats, EDIT)
        expect(question(page, "edit_file")).to_be_focused()
        page.locator("#title").evaluate("title => { title.dataset.any = '1' }")
        expect(page.locator("body")).to_have_attribute("data-typed", "yes")
        page.keyboard.press("Escape")
        expect(question(page, "edit_file")).to_be_visible()
    assert events(chats) == []


@pytest.mark.parametrize(
    ("key", "event"),
    [
        ("a", {"type": "APPROVE_TOOL_CALL", "call_id": "c1", "fingerprint": "f1"}),
        ("s", {"type": "APPROVE_TOOL_CALL", "call_id": "c1", "fingerprint": "f1", "for_session": True}),
        ("A", {"type": "APPROVE_TOOL_CALL", "fingerprints": ["f1", "f2"]}),
        ("R", {"type": "REJECT_TOOL_CALL", "fingerprints": ["f1", "f2"]}),
    ],
)
def test_one_key_decides(tab: Tab, key: str, event: dict[str, Any]) -> None:
    with many_chats() as chats:
        page = opened(tab, chats, EDIT, COMMAND)
        expect(question(page, "edit_file")).to_be_focused()
        after_the_grace(page, f"Shift+{key}" if key.isupper() else key)
        expect(question(page, "edit_file")).to_have_count(0)
    assert events(chats) == [event]


def test_a_call_is_rejected_with_a_reason_by_keys(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats, EDIT, COMMAND)
        expect(question(page, "edit_file")).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(question(page, "run_command")).to_be_focused()
        after_the_grace(page, "r")
        reason = question(page, "run_command").get_by_role("textbox", name="Reason for the rejection")
        expect(reason).to_be_focused()
        page.keyboard.press("Escape")
        expect(question(page, "run_command")).to_be_focused()
        after_the_grace(page, "r")
        page.keyboard.type("sales are on")
        page.keyboard.press("Enter")
        expect(question(page, "run_command")).to_have_count(0)
    assert events(chats) == [
        {"type": "REJECT_TOOL_CALL", "call_id": "c2", "fingerprint": "f2", "reason": "sales are on"}
    ]


def test_editing_opens_the_text_itself(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats, EDIT)
        expect(question(page, "edit_file")).to_be_focused()
        after_the_grace(page, "e")
        area = page.get_by_role("textbox", name="Edited new")
        expect(area).to_be_focused()
        expect(area).to_have_value("a\nb")
        area.fill('"quoted"\n{x}, [y]')
        page.keyboard.press("Control+Enter")
        expect(question(page, "edit_file")).to_have_count(0)
    (event,) = events(chats)
    assert event["arguments"] == EDIT["arguments"].replace('"a\\nb"', json.dumps('"quoted"\n{x}, [y]'))


def test_the_box_of_an_edited_command_takes_its_place_and_fits_it(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats, COMMAND)
        card = question(page, "run_command")
        card.get_by_role("button", name="Edit").click()
        expect(card.get_by_role("textbox")).to_have_js_property("rows", 2)
        expect(card.get_by_label("Command", exact=True)).to_be_hidden()
        card.get_by_role("button", name="Back").click()
        expect(card.get_by_label("Command", exact=True)).to_be_visible()


def test_a_text_with_invisible_characters_is_named_so(tab: Tab) -> None:
    hidden = {"argument": "command", "text": "git\u202estatus"}
    arguments = json.dumps({"command": hidden["text"], "b": [{"command": 1}], "c": 'x"y'})
    with many_chats() as chats:
        page = opened(tab, chats, {**COMMAND, "editable": hidden, "arguments": arguments})
        page.get_by_role("button", name="Edit").click()
        expect(question(page, "run_command").locator(".note")).to_contain_text("invisible characters")
        expect(question(page, "run_command").get_by_label("Command", exact=True)).to_be_visible()
        page.get_by_role("textbox", name="Edited command").fill("git log")
        page.get_by_role("button", name="Approve with edits").click()
        expect(question(page, "run_command")).to_have_count(0)
    assert json.loads(events(chats)[0]["arguments"]) == {"command": "git log", "b": [{"command": 1}], "c": 'x"y'}


def test_a_decided_call_keeps_its_diff(tab: Tab) -> None:
    """While it waits nothing in the log leads to another answer, which would drop it."""
    arguments = json.dumps({"path": "total.py", "old": "sum(x)", "new": "round(sum(x), 2)"})
    part = {"type": "tool_call", "id": "c1", "name": "edit_file", "arguments": arguments}
    messages = [
        {"role": "user", "parts": [{"type": "text", "text": "Go"}]},
        {"role": "assistant", "parts": [{"type": "text", "text": "I edit it."}, part]},
    ]
    result = {"role": "tool", "parts": [{"type": "tool_result", "call_id": "c1", "content": "1", "is_error": False}]}
    with many_chats() as chats:
        page = opened(tab, chats)
        request = {**EDIT, "arguments": arguments}
        chats.do(lambda: chats.chats["c1"].set(WAITS, messages=messages, pending=[request], branches=[]))
        expect(question(page, "edit_file").locator(".diff")).to_be_visible()
        answer = page.get_by_role("article", name="Model")
        expect(answer).to_be_visible()
        expect(answer.get_by_role("toolbar")).to_have_count(0)
        chats.do(lambda: chats.chats["c1"].set("ready", messages=[*messages, result], pending=[]))
        expect(answer.get_by_role("button", name="Regenerate the answer")).to_be_visible()
        answer.locator("summary").click()
        expect(answer.locator(".add mark").first).to_have_text("round(")
        expect(answer.locator(".remove .number").first).to_have_attribute("data-number", "2")
        page.reload()
        answer.locator("summary").click()
        expect(answer.locator("tr")).to_have_text(["removed: sum(x)", "added: round(sum(x), 2)"])


def test_a_decision_applies_to_what_was_shown(tab: Tab) -> None:
    """A call that is asked about anew, with other arguments, is another card."""
    with many_chats() as chats:
        page = opened(tab, chats, EDIT)
        question(page, "edit_file").get_by_role("textbox").fill("too soon")
        ask(chats, {**EDIT, "fingerprint": "f9"}, COMMAND)
        expect(question(page, "run_command")).to_be_visible()
        expect(question(page, "edit_file").get_by_role("textbox")).to_have_value("")
        question(page, "edit_file").get_by_role("textbox").fill("kept")
        ask(chats, {**EDIT, "fingerprint": "f9"})
        expect(question(page, "run_command")).to_have_count(0)
        expect(question(page, "edit_file").get_by_role("textbox")).to_have_value("kept")
        question(page, "edit_file").get_by_role("button", name="Reject").click()
        expect(question(page, "edit_file")).to_have_count(0)
    assert [(event["fingerprint"], event["reason"]) for event in events(chats)] == [("f9", "kept")]


FAKE_NOTIFICATIONS = """
window.made = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { window.asked = true; return (this.permission = window.answer ?? "granted"); }
  constructor(title, { body }) { window.made.push([title, body, this]); }
  close() {}
};
"""
HIDE = """value => {
  Object.defineProperty(document, "visibilityState", { value, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_notification_tells_where_it_was_switched_on(tab: Tab) -> None:
    with many_chats() as chats:
        chats.do(lambda: chats.add("Second"))
        page = tab("about:blank")
        page.add_init_script(FAKE_NOTIFICATIONS)
        page.goto(f"{chats.url}#c1")
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        assert page.evaluate("window.asked") is None
        page.get_by_role("button", name="Details").click()
        page.get_by_role("switch", name="Notify me").click()
        assert page.evaluate("window.asked")
        page.evaluate(HIDE, "hidden")
        chats.do(lambda: chats.chats["c2"].set(WAITS, pending=[EDIT]))
        page.wait_for_function("() => made.length === 1", timeout=20_000)
        chats.do(lambda: chats.chats["c2"].set("calling_tool", pending=[]))
        page.wait_for_timeout(7000)
        chats.do(lambda: chats.chats["c2"].set("ready"))
        page.wait_for_function("() => made.length === 2", timeout=20_000)
        expected = [["Second", "waits for your approval"], ["Second", "has finished"]]
        assert page.evaluate("made.map(each => each.slice(0, 2))") == expected
        page.evaluate(HIDE, "visible")
        page.evaluate("made[0][2].onclick()")
        expect(page.get_by_role("heading", name="Second", level=1)).to_be_visible()


def test_a_refused_permission_switches_notifications_off(tab: Tab) -> None:
    with many_chats() as chats:
        page = tab("about:blank")
        page.add_init_script(f"window.answer = 'denied'; {FAKE_NOTIFICATIONS}")
        page.goto(f"{chats.url}#c1")
        page.get_by_role("button", name="Details").click()
        page.get_by_role("switch", name="Notify me").click()
        expect(page.locator("#notify-note")).to_contain_text("The browser does not allow it")
        expect(page.get_by_role("switch", name="Notify me")).not_to_be_checked()
