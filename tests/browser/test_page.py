"""The web page in a real Chromium, on a model whose stream is held where the test wants it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from browser.held_llm import Flow, Gate, HeldLLM, asked, call, text, thinking
from browser.served import send_message, served
from toolcast import Permissions, Prices, Rule, ToolContext
from toolcast.chat.effects import StageTask
from toolcast.chat.events import ModelLoadProgress, ModelLoadSuccess
from toolcast.errors import RateLimited, ToolcastError
from toolcast.events import Event, ToolCallReset, ToolCallStart

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

    Tab = Callable[[str], Page]

IN_STREAM = "streaming_response"
WAITS = "waiting_for_tool_approval"


def send_mail(to: str, subject: str) -> str:
    """Send a mail."""
    return f"sent {subject!r} to {to}"


def run_command(command: str, timeout: int | None = None) -> str:
    """Run a command."""
    return f"ran {command} {timeout}"


def load_model(page: Page, name: str) -> None:
    page.get_by_role("button", name="Model").click()
    search = page.get_by_role("combobox", name="Model")
    search.fill(name)
    search.press("Enter")
    expect(search).to_be_hidden()


def is_in(page: Page, state: str) -> None:
    """The page shows that state: in its head, and in the diagram."""
    expect(page.locator("#state")).to_have_attribute("data-state", state)
    expect(page.locator(".box.lit")).to_have_attribute("data-state", state)


def card(page: Page, name: str = "send_mail") -> Locator:
    return page.get_by_role("region", name=f"Tool call: {name}")


def asked_about(page: Page, name: str = "send_mail") -> Locator:
    """The question about a call that waits."""
    return page.get_by_role("group", name=f"Approve {name}?")


def answers(page: Page) -> Locator:
    return page.locator(".message.assistant .prose")


MAIL = '{"to": "ann@example.org", "subject": "Weather"}'


def test_a_tool_is_approved(tab: Tab) -> None:
    gate = Gate()
    llm = HeldLLM(
        [*thinking("I should write to Ann."), *text("I write to Ann."), *call("send_mail", MAIL, held=gate)],
        text("Ann **has** it."),
    )
    llm.prices = Prices(input=1000, output=0)
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        is_in(page, "ready")
        send_message(page, "Tell Ann")
        expect(page.get_by_role("article", name="You")).to_have_text("Tell Ann")
        is_in(page, IN_STREAM)
        expect(page.locator(".thoughts")).to_have_text("I should write to Ann. ")
        expect(answers(page)).to_have_text("I write to Ann.")
        expect(card(page).locator(".arguments")).to_have_text(MAIL[: len(MAIL) // 2])  # they grow
        expect(card(page)).to_contain_text("being written")
        gate.open()
        is_in(page, WAITS)
        expect(asked_about(page).locator("summary")).to_have_text("to=ann@example.org subject=Weather")
        asked_about(page).locator("summary").click()
        expect(asked_about(page).locator(".arguments")).to_have_text(
            '{\n  "to": "ann@example.org",\n  "subject": "Weather"\n}', use_inner_text=True
        )
        expect(card(page).locator(".arguments")).to_be_hidden()  # the call is shown once
        asked_about(page).get_by_role("button", name="Approve", exact=True).click()
        is_in(page, "ready")
        expect(card(page)).to_contain_text("done")
        expect(card(page).locator(".result pre")).to_have_text("sent 'Weather' to ann@example.org")
        expect(page.locator("strong")).to_have_text("has")
        expect(page.locator("#fact-tools")).to_have_text("send_mail")
        expect(page.locator("#fact-tokens")).to_contain_text("240 in")
        expect(page.locator("#fact-tokens")).to_contain_text("about $0.2400")
    assert asked(llm.requests[1])[1] == "sent 'Weather' to ann@example.org"


def test_a_tool_is_rejected_and_the_model_reads_why(tab: Tab) -> None:
    llm = HeldLLM(call("send_mail", MAIL), text("Then I will not."))
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "Tell Ann")
        asked_about(page).get_by_role("textbox", name="Reason for the rejection").fill("Ann is asleep")
        asked_about(page).get_by_role("button", name="Reject", exact=True).click()
        is_in(page, "ready")
        expect(answers(page)).to_have_text("Then I will not.")
        expect(card(page)).to_have_attribute("data-status", "denied")
        expect(card(page).locator(".result pre")).to_have_text("permission denied: Ann is asleep")
    assert asked(llm.requests[1])[1] == "permission denied: Ann is asleep"


def test_a_call_is_edited(tab: Tab) -> None:
    llm = HeldLLM(call("send_mail", MAIL), text("Bob has it."))
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "Tell Ann")
        asked_about(page).get_by_role("button", name="Edit", exact=True).click()
        box = asked_about(page).get_by_role("textbox", name="Edited arguments, as JSON")
        expect(box).to_be_focused()
        box.fill('{"to": "bob"')
        asked_about(page).get_by_role("button", name="Approve with edits", exact=True).click()
        expect(asked_about(page).get_by_role("alert")).to_contain_text("Invalid JSON")
        box.fill('{"to": "bob", "subject": "Sun"}')
        asked_about(page).get_by_role("button", name="Approve with edits", exact=True).click()
        expect(answers(page)).to_have_text("Bob has it.")
        expect(card(page).locator(".result pre")).to_have_text("sent 'Sun' to bob")
        card(page).locator("summary").first.click()
        expect(card(page).locator(".input > .arguments")).to_contain_text('"to": "bob"')
        expect(card(page).locator(".proposed .arguments")).to_contain_text("ann@example.org")
        expect(card(page).locator(".call-summary")).to_have_text("to: bob, subject: Sun")
    assert "sent 'Sun' to bob" in asked(llm.requests[1])[1]


def test_the_way_back_from_editing_leads_to_the_same_question(tab: Tab) -> None:
    with served(HeldLLM(call("send_mail", MAIL), text("Sent.")), [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "Tell Ann")
        asked_about(page).get_by_role("button", name="Edit", exact=True).click()
        asked_about(page).get_by_role("button", name="Back", exact=True).click()
        asked_about(page).get_by_role("button", name="Approve", exact=True).click()
        expect(answers(page)).to_have_text("Sent.")


def test_escape_leaves_what_is_edited_and_is_no_answer(tab: Tab) -> None:
    with served(HeldLLM(call("send_mail", MAIL), text("Sent.")), [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "Tell Ann")
        asked_about(page).get_by_role("button", name="Edit", exact=True).click()
        page.keyboard.press("Escape")
        expect(asked_about(page).get_by_role("button", name="Approve", exact=True)).to_be_visible()
        expect(asked_about(page)).to_be_focused()
        page.keyboard.press("Escape")
        page.get_by_role("textbox", name="Your message").press("Escape")
        asked_about(page).get_by_role("button", name="Approve", exact=True).click()
        expect(answers(page)).to_have_text("Sent.")
        expect(card(page)).to_have_attribute("data-status", "done")


def test_a_tool_that_is_always_allowed_is_not_asked_about_again(tab: Tab) -> None:
    llm = HeldLLM(call("send_mail", MAIL), call("send_mail", MAIL, "c2"), text("Sent twice."))
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "Tell Ann")
        asked_about(page).get_by_role("button", name="Always allow", exact=True).click()
        expect(answers(page)).to_have_text("Sent twice.")
        expect(page.locator('.call[data-status="done"]')).to_have_count(2)
        expect(card(page).nth(0).locator(".status[data-always]")).to_have_count(1)
        expect(card(page).nth(1).locator(".status[data-always]")).to_have_count(1)
        page.get_by_role("button", name="Details").click()
        expect(page.locator("#fact-allowed")).to_be_visible()
        expect(page.locator("#fact-allowed")).to_have_text("every call of send_mail")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"command": "echo hi"}', "run_command: echo"),
        ('{"timeout": 5, "command": "echo hi"}', "run_command: echo, timeout: 5"),
    ],
)
def test_what_is_always_allowed_is_listed_in_plain_words(tab: Tab, arguments: str, words: str) -> None:
    with served(HeldLLM(call("run_command", arguments), text("Hi.")), [run_command]) as chat:
        page = tab(chat.url)
        send_message(page, "Greet")
        question = page.get_by_role("group", name="Approve run_command?")
        question.get_by_role("button", name="Always allow", exact=True).click()
        expect(answers(page)).to_have_text("Hi.")
        page.get_by_role("button", name="Details").click()
        expect(page.locator("#fact-allowed")).to_have_text(words)


def test_several_calls_are_decided_one_by_one(tab: Tab) -> None:
    both = [*call("send_mail", MAIL, "c1"), *call("send_mail", MAIL.replace("ann", "bob"), "c2")]
    llm = HeldLLM(both, text("One of two."))
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "Tell both")
        asked_about(page).nth(1).get_by_role("button", name="Reject", exact=True).click()
        expect(card(page).nth(1)).to_have_attribute("data-status", "denied")
        is_in(page, WAITS)
        asked_about(page).nth(0).get_by_role("button", name="Approve", exact=True).click()
        expect(answers(page)).to_have_text("One of two.")
        expect(card(page).nth(0).locator(".result pre")).to_have_text("sent 'Weather' to ann@example.org")


@pytest.mark.parametrize(("button", "status"), [("Approve all", "done"), ("Reject all", "denied")])
def test_several_calls_are_decided_at_once(tab: Tab, button: str, status: str) -> None:
    both = [*call("send_mail", MAIL, "c1"), *call("send_mail", MAIL.replace("ann", "bob"), "c2")]
    with served(HeldLLM(both, text("As you like.")), [send_mail]) as chat:
        page = tab(chat.url)
        expect(page.get_by_role("group", name="Decide about all calls")).to_be_hidden()
        send_message(page, "Tell both")
        expect(page.get_by_role("group", name="Decide about all calls")).to_contain_text("2 calls need your approval.")
        page.get_by_role("button", name=button).click()
        expect(answers(page)).to_have_text("As you like.")
        expect(page.locator(f'.call[data-status="{status}"]')).to_have_count(2)
        expect(page.get_by_role("group", name="Decide about all calls")).to_be_hidden()


@pytest.mark.parametrize("way", ["button", "Escape"])
def test_an_answer_is_interrupted_and_asked_for_again(tab: Tab, way: str) -> None:
    gate = Gate()
    llm = HeldLLM([*text("Once upon"), gate, *text(" a time")], text("Another story."))
    with served(llm) as chat:
        page = tab(chat.url)
        send_message(page, "Tell me a story")
        expect(answers(page)).to_have_text("Once upon")
        if way == "button":
            page.get_by_role("button", name="Stop").click()
        else:
            page.keyboard.press("Escape")
        is_in(page, "ready")
        expect(page.locator(".broken")).to_have_text("interrupted")
        expect(answers(page)).to_have_text("Once upon")
        expect(page.locator("#notice")).to_contain_text("The turn was stopped.")
        page.get_by_role("button", name="Try again").click()
        expect(answers(page)).to_have_text("Another story.")
        expect(page.locator(".broken")).to_have_count(0)
        expect(page.locator("#notice")).to_be_hidden()
        gate.open()


def test_a_message_waits_in_the_queue_and_is_answered(tab: Tab) -> None:
    gate = Gate()
    llm = HeldLLM([*text("One, two"), gate, *text(", three.")], text("And four."))
    with served(llm) as chat:
        page = tab(chat.url)
        send_message(page, "Count")
        expect(answers(page)).to_have_text("One, two")
        expect(page.locator("#send")).to_be_hidden()
        page.get_by_role("textbox", name="Your message").fill("Go on")
        expect(page.locator("#send")).to_have_text("Queue")
        send_message(page, "Go on")
        expect(page.get_by_role("list", name="Queued messages")).to_contain_text("Go on")
        expect(page.get_by_role("article", name="You")).to_have_count(1)
        gate.open()
        expect(answers(page)).to_have_text(["One, two, three.", "And four."])
        expect(page.get_by_role("article", name="You")).to_have_text(["Count", "Go on"])
        expect(page.locator("#queue")).to_be_hidden()
    assert [message.text for message in llm.requests[1]] == ["Count", "One, two, three.", "Go on"]


def test_a_reload_restores_the_chat_in_the_middle_of_a_stream(tab: Tab) -> None:
    gate = Gate()
    llm = HeldLLM(
        text("First answer."),
        [*thinking("So."), *text("Half"), *call("send_mail", MAIL, held=gate)],
    )
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "One")
        expect(answers(page)).to_have_text("First answer.")
        send_message(page, "Two")
        expect(card(page)).to_contain_text('{"to":')
        send_message(page, "Three")
        expect(page.locator("#queue .queued-text")).to_have_text("Three")
        page.reload()
        is_in(page, IN_STREAM)
        expect(answers(page)).to_have_text(["First answer.", "Half"])
        expect(page.locator("#queue .queued-text")).to_have_text("Three")
        expect(card(page).locator(".arguments")).to_have_text(MAIL[: len(MAIL) // 2])
        gate.open()
        is_in(page, WAITS)
        page.reload()
        asked_about(page).get_by_role("button", name="Approve", exact=True).click()
        expect(card(page).locator(".result pre")).to_have_text("sent 'Weather' to ann@example.org")


def test_all_tabs_show_the_same_chat(tab: Tab) -> None:
    with served(HeldLLM(call("send_mail", MAIL), text("Sent.")), [send_mail]) as chat:
        one, other = tab(chat.url), tab(chat.url)
        send_message(one, "Tell Ann")
        asked_about(other).get_by_role("button", name="Approve", exact=True).click()
        for page in (one, other):
            expect(answers(page)).to_have_text("Sent.")
            expect(page.get_by_role("article", name="You")).to_have_text("Tell Ann")


def test_a_connection_that_breaks_is_made_again_and_nothing_is_lost(tab: Tab) -> None:
    gate = Gate()
    with served(HeldLLM([*text("before "), gate, *text("after")])) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        expect(answers(page)).to_have_text("before")
        chat.break_connections()
        gate.open()
        expect(page.locator("#notice")).to_contain_text("Trying again")
        expect(answers(page)).to_have_text("before after")
        expect(page.locator("#notice")).to_be_hidden()


def test_a_tab_that_no_one_sees_leaves_and_comes_back(tab: Tab) -> None:
    seen = "Object.defineProperty(document, 'visibilityState', {value: '%s', configurable: true});"
    changed = seen + "document.dispatchEvent(new Event('visibilitychange'))"
    gate = Gate()
    with served(HeldLLM([*text("before "), gate, *text("after")])) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        expect(answers(page)).to_have_text("before")
        with page.expect_event("requestfailed"):  # its stream
            page.evaluate(changed % "hidden")
        gate.open()
        with page.expect_request("**/events?*after=*"):
            page.evaluate(changed % "visible")
        expect(answers(page)).to_have_text("before after")


def test_a_page_of_an_earlier_server_is_reported_so(tab: Tab, expected: list[str]) -> None:
    expected.append("403")
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        is_in(page, "ready")
        page.route("**/chats/**", lambda route: route.fulfill(status=403))
        chat.break_connections()
        expect(page.locator("#notice")).to_contain_text("The server rejected this page")


def test_the_end_of_the_server_is_reported(tab: Tab) -> None:
    with served(HeldLLM()) as chat:
        page = tab(chat.url)
        is_in(page, "ready")
    expect(page.locator("#notice")).to_contain_text("Cannot reach the server")
    send_message(page, "Hello")
    expect(page.locator("#notice")).to_contain_text("nothing was sent")
    expect(page.get_by_role("textbox", name="Your message")).to_have_value("Hello")


def test_another_model_is_loaded_with_its_progress(tab: Tab) -> None:
    gates = {"test:held": Gate(), "test:slow": Gate()}

    async def load(work: StageTask) -> None:
        name = work.context.model or ""
        if name not in gates:
            raise ToolcastError(f"there is no model {name}")
        work.emit(ModelLoadProgress(42.0))
        await gates[name].passed()
        work.emit(ModelLoadSuccess())

    gates["test:held"].open()
    with served(HeldLLM(text("Here I am.")), perform={"load_model": load}) as chat:
        page = tab(chat.url)
        is_in(page, "ready")
        expect(page.locator("#model-name")).to_have_text("test:held")
        load_model(page, "test:slow")
        is_in(page, "loading_model")
        expect(page.locator("#state")).to_have_text("loading the model: 42 %")
        expect(page.get_by_role("progressbar")).to_have_attribute("value", "42")
        send_message(page, "Are you there?")
        expect(page.locator("#queue .queued-text")).to_have_text("Are you there?")
        gates["test:slow"].open()
        expect(answers(page)).to_have_text("Here I am.")
        load_model(page, "test:<b>none</b>")
        is_in(page, "load_failed")
        expect(page.locator("#notice")).to_contain_text(
            "The model could not be loaded: there is no model test:<b>none</b>"
        )
        page.get_by_role("button", name="Try again").click()
        is_in(page, "load_failed")
        load_model(page, "test:slow")
        is_in(page, "ready")


def test_what_fails_is_sent_and_can_be_tried_again(tab: Tab) -> None:
    with served(HeldLLM(RateLimited("too many <b>requests</b>"), text("Now."))) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        expect(page.get_by_role("alert")).to_contain_text("The model did not answer.")
        expect(page.locator("#log")).to_contain_text("too many <b>requests</b>")
        page.get_by_role("button", name="Try again").click()
        expect(answers(page)).to_have_text("Now.")


def test_an_empty_answer_leaves_a_trace_and_can_be_tried_again(tab: Tab) -> None:
    with served(HeldLLM([], [], text("Here I am."))) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        expect(page.get_by_role("article", name="You").locator(".mark")).to_have_text("The model answered nothing.")
        expect(page.locator("#notice-text")).to_have_text("The model answered nothing.")
        send_message(page, "Anything?")
        expect(page.locator(".mark")).to_have_count(2)
        page.get_by_role("button", name="Try again").click()
        expect(answers(page)).to_have_text("Here I am.")
        expect(page.locator(".mark")).to_have_count(1)
        expect(page.locator("#notice")).to_be_hidden()


def test_a_tool_that_fails_can_be_run_again_or_the_turn_stopped(tab: Tab) -> None:
    tries = list[int]()

    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the disk is full")
        return "fine"

    rules = Permissions(rules=[Rule("flaky", "allow")])
    with served(HeldLLM(call("flaky", "{}"), text("It is fine.")), [flaky], permissions=rules) as chat:
        page = tab(chat.url)
        send_message(page, "Try")
        expect(page.get_by_role("alert")).to_contain_text("A tool failed.")
        expect(page.locator("#log")).to_contain_text("flaky: OSError: the disk is full")
        page.get_by_role("button", name="Try again").click()
        expect(answers(page)).to_have_text("It is fine.")
    assert len(tries) == 2


def test_a_running_tool_shows_its_progress_and_can_be_stopped(tab: Tab) -> None:
    go = threading.Event()

    def slow(context: ToolContext) -> str:
        context.emit("<i>half</i> done")
        go.wait(10)
        return "late"

    rules = Permissions(rules=[Rule("slow", "allow")])
    with served(HeldLLM(call("slow", "{}")), [slow], permissions=rules) as chat:
        page = tab(chat.url)
        send_message(page, "Run")
        expect(card(page, "slow").locator(".progress")).to_have_text("<i>half</i> done")
        is_in(page, "calling_tool")
        page.get_by_role("button", name="Stop").click()
        is_in(page, "ready")
        expect(card(page, "slow")).to_have_attribute("data-status", "interrupted")
        expect(card(page, "slow").get_by_label("Output until then", exact=True)).to_have_text("<i>half</i> done")
        go.set()


def test_the_output_of_a_running_command_stays_when_it_is_skipped(tab: Tab) -> None:
    go = threading.Event()

    def run_command(context: ToolContext, command: str) -> str:
        """Run a command."""
        context.emit("tick 1\nti")
        context.emit("ck 2\n")
        go.wait(10)
        return "late"

    rules = Permissions(rules=[Rule("run_command", "allow")])
    llm = HeldLLM(call("run_command", '{"command": "loop"}'), text("Skipped."))
    with served(llm, [run_command], permissions=rules) as chat:
        page = tab(chat.url)
        send_message(page, "Run")
        loop = card(page, "run_command")
        expect(loop.locator(".progress")).to_have_text("tick 1\ntick 2\n", use_inner_text=True)
        page.get_by_role("button", name="Skip tools").click()
        expect(answers(page)).to_have_text("Skipped.")
        expect(loop.locator(".status")).to_have_text("interrupted")
        expect(loop.get_by_label("Output until then", exact=True)).to_have_text("tick 1\ntick 2\n", use_inner_text=True)
        expect(loop.get_by_label("Result", exact=True)).to_contain_text("it may have had its effect")
        go.set()


def test_arguments_that_are_begun_anew_replace_the_first(tab: Tab) -> None:
    gate = Gate()
    begun: list[Event | Gate] = [ToolCallStart("c1", "send_mail"), *call("send_mail", "nonsense")[1:2]]
    llm = HeldLLM([*begun, ToolCallReset("c1"), *call("send_mail", MAIL)[1:2], gate, *call("send_mail", MAIL)[2:]])
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        send_message(page, "Tell Ann")
        expect(card(page).locator(".arguments")).to_have_text(MAIL[: len(MAIL) // 2])
        gate.open()
        is_in(page, WAITS)


EVIL = """<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>
[click](javascript:window.pwned=3) [data](data:text/html,<script>window.pwned=4</script>)
![picture](https://evil.example/pixel.png) <iframe srcdoc="<script>parent.pwned=5</script>"></iframe>
`<svg onload=window.pwned=6>` **<b onclick=window.pwned=7>bold</b>**

```html"onload="window.pwned=8
</code></pre><script>window.pwned=9</script>
```

| <img src=x onerror=window.pwned=10> | b |
|---|---|
| [x](vbscript:1) | [y](https://example.org/"onmouseover="window.pwned=11) |"""


def test_no_text_of_any_author_is_ever_html(tab: Tab) -> None:
    def echo(words: str) -> str:
        return words

    args = '{"words": "<img src=x onerror=window.pwned=20>\\u202e</pre><script>window.pwned=21</script>"}'
    unknown = '<img src=x onerror="window.pwned=22">'
    llm = HeldLLM(
        [*thinking(EVIL), *text(EVIL, 3), *call("echo", args)],
        [*text("and"), *call(unknown, args, "c2")],
        text(EVIL, 1000),
    )
    with served(llm, [echo]) as chat:
        page = tab(chat.url)
        send_message(page, EVIL)
        asked_about(page, "echo").get_by_role("button", name="Edit", exact=True).click()
        asked_about(page, "echo").get_by_role("button", name="Back", exact=True).click()
        asked_about(page, "echo").get_by_role("button", name="Approve", exact=True).click()
        is_in(page, "ready")
        expect(page.locator(".message")).to_have_count(4)
        page.reload()
        expect(page.locator(".message")).to_have_count(4)
        assert page.evaluate("window.pwned") is None
        mark_up = "img, script, iframe, svg:not(button > .glyph), b, object, embed, style, link, form"
        found = f":is(#log, #approvals) :is({mark_up})"
        assert page.locator(found).count() == 0
        assert page.locator("#log [onclick], #log [onerror], #log [onload], #log [onmouseover]").count() == 0
        links = page.locator("#log a").evaluate_all("links => links.map(link => [link.protocol, link.rel])")
        assert links
        assert all(link == ["https:", "noopener noreferrer"] for link in links)
        expect(page.get_by_role("article", name="You")).to_have_text(EVIL)


def test_who_is_asked_sees_the_arguments_as_they_are(tab: Tab) -> None:
    """Nothing is rounded, hidden or turned around."""
    args = '{"n":12345678901234567890,"to":"b\u202egro.elpmaxe","s":"a\\"{[:,","e":{},"more":[1,[]]}'
    shown = (
        '{\n  "n": 12345678901234567890,\n  "to": "b\\u202egro.elpmaxe",\n'
        '  "s": "a\\"{[:,",\n  "e": {},\n  "more": [\n    1,\n    []\n  ]\n}'
    )

    def take(n: int, to: str, s: str, e: dict[str, int], more: list[object]) -> str:
        return ""

    with served(HeldLLM(call("take", args)), [take]) as chat:
        page = tab(chat.url)
        send_message(page, "Go")
        is_in(page, WAITS)
        assert asked_about(page, "take").locator(".arguments").text_content() == shown


def test_the_page_fits_a_phone(tab: Tab) -> None:
    wide = f"A word of {'many' * 60} letters\n\n```\n{'code ' * 60}\n```\n\n| {'wide | ' * 20}\n|{'---|' * 20}\n"
    llm = HeldLLM([*text(wide, 500), *call("send_mail", MAIL.replace("Weather", "W" * 300))])
    with served(llm, [send_mail]) as chat:
        page = tab(chat.url)
        page.set_viewport_size({"width": 360, "height": 640})
        page.reload()
        send_message(page, "x" * 300)
        is_in(page, WAITS)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for name in ("Approve", "Edit", "Always allow", "Reject"):
            asked_about(page).get_by_role("button", name=name, exact=True).scroll_into_view_if_needed()
            expect(asked_about(page).get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("button", name="Stop")).to_be_in_viewport(ratio=1)
        expect(page.locator("#diagram")).to_be_hidden()
        page.get_by_role("button", name="Details").click()
        page.get_by_text("States", exact=True).click()
        expect(page.locator("#diagram")).to_be_visible()


FROM_END = "log => Math.round(log.scrollHeight - log.clientHeight - log.scrollTop)"


def words_in(page: Page) -> int:
    """The number of the last word that has come."""
    return int((answers(page).last.text_content() or "0").split()[-1])


def more_words(page: Page, count: int) -> None:
    """Wait for more words of a `Flow`."""
    page.wait_for_function(
        "last => +document.querySelector('.live .prose').textContent.trim().split(/\\s+/).at(-1) >= last",
        arg=words_in(page) + count,
    )


UPWARDS: dict[str, Callable[[Page], object]] = {
    "the wheel": lambda page: page.mouse.wheel(0, -200),
    "a small turn of the wheel": lambda page: page.mouse.wheel(0, -30),
    "a flick to the beginning": lambda page: page.mouse.wheel(0, -9000),
    "ArrowUp": lambda page: page.locator("#log").press("ArrowUp"),
    "PageUp": lambda page: page.locator("#log").press("PageUp"),
    "Home": lambda page: page.locator("#log").press("Home"),
    "Shift+Space": lambda page: page.locator("#log").press("Shift+Space"),
    "a finger": lambda page: swipe(page, 300, 500),
}


def swipe(page: Page, begin: int, end: int) -> None:
    """Move a finger over the log."""
    touch = page.context.new_cdp_session(page).send
    touch("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": 400, "y": begin}]})
    for y in range(begin, end, 20):
        touch("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": 400, "y": y}]})
    touch("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize("way", UPWARDS)
def test_a_reader_who_scrolls_up_stays_there_while_the_answer_streams(tab: Tab, way: str) -> None:
    flow = Flow()
    with served(HeldLLM(flow)) as chat:
        page = tab(chat.url)
        send_message(page, "Hello")
        log = page.locator("#log")
        page.wait_for_function("log => log.scrollTop > 400", arg=log.element_handle())
        log.hover()
        UPWARDS[way](page)
        stays(page)
        log.press("End")
        more_words(page, 40)
        page.wait_for_function(f"log => ({FROM_END})(log) === 0", arg=log.element_handle())
        flow.stop()
        is_in(page, "ready")


def stays(page: Page) -> None:
    """The log does not follow the words that come. (A finger's movement may take a moment to end.)"""
    log = page.locator("#log")
    more_words(page, 15)
    place = log.evaluate("log => log.scrollTop")
    more_words(page, 40)
    assert log.evaluate("log => log.scrollTop") <= place
    assert log.evaluate(FROM_END) > 100


def test_a_reader_who_drags_the_scrollbar_stays_there(browser: Browser) -> None:
    """A headless browser has scrollbars only where it is asked for them."""
    flow = Flow()
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    launched = browser.browser_type.launch(
        executable_path=os.environ["TOOLCAST_CHROMIUM"], args=args, ignore_default_args=["--hide-scrollbars"]
    )
    with served(HeldLLM(flow)) as chat, launched:
        page = launched.new_page()
        page.goto(chat.url)
        send_message(page, "Hello")
        page.wait_for_function("() => document.getElementById('log').scrollTop > 400")
        box = page.locator("#log").bounding_box()
        assert box
        x, bottom = box["x"] + box["width"] - 5, box["y"] + box["height"]
        page.mouse.move(x, bottom - 25)
        page.mouse.down()
        page.mouse.move(x, bottom - 200, steps=5)
        page.mouse.up()
        stays(page)
        page.locator("#log").click(position={"x": 5, "y": 5})  # not on the scrollbar
        page.locator("#log").evaluate("log => { log.scrollTop = log.scrollHeight }")
        more_words(page, 20)
        page.wait_for_function(f"() => ({FROM_END})(document.getElementById('log')) === 0")
        flow.stop()


def test_the_log_follows_its_end_until_the_reader_scrolls_up(tab: Tab) -> None:
    long = "\n\n".join(f"Paragraph {number} of an answer." for number in range(60))
    fenced = f"```\n{long}\n```\n\n| a | b |\n|---|---|\n{'| 1 | 2 |' * 30}"
    llm = HeldLLM(*([*thinking(long), *text(long, 10), *text(fenced, 50)] for _ in range(3)))
    with served(llm) as chat:
        page = tab(chat.url)
        log = page.locator("#log")
        for number in range(3):
            send_message(page, "Go on")
            expect(page.get_by_role("article", name="Model")).to_have_count(number + 1)
            is_in(page, "ready")
            page.wait_for_function(f"log => ({FROM_END})(log) === 0", arg=log.element_handle())
        page.set_viewport_size({"width": 500, "height": 500})
        page.wait_for_function(f"log => ({FROM_END})(log) === 0", arg=log.element_handle())
        log.hover()
        page.mouse.wheel(0, -300)
        page.wait_for_function(f"log => ({FROM_END})(log) > 200", arg=log.element_handle())
        page.set_viewport_size({"width": 500, "height": 450})
        assert log.evaluate(FROM_END) > 200


def test_a_wheel_over_code_that_scrolls_itself_leaves_the_log_at_its_end(tab: Tab) -> None:
    gate, result = Gate(), "\n".join(map(str, range(200)))

    def read() -> str:
        return result

    llm = HeldLLM(call("read", "{}"), [*text("before"), gate, *text(" and after", 2)])
    with served(llm, [read], permissions=Permissions(rules=[Rule("read", "allow")])) as chat:
        page = tab(chat.url)
        page.set_viewport_size({"width": 1200, "height": 600})
        send_message(page, "Read")
        expect(answers(page)).to_have_text("before")
        card(page, "read").locator("summary").click()
        card(page, "read").get_by_role("button", name="more lines").click()
        output = card(page, "read").locator(".result pre")
        output.press("End")
        page.wait_for_function("box => box.scrollTop > 0", arg=output.element_handle())
        page.locator("#log").press("End")
        page.wait_for_function(f"log => ({FROM_END})(log) === 0", arg=page.locator("#log").element_handle())
        output.hover()
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.mouse.wheel(0, -50)
        page.wait_for_function(
            "box => box.scrollTop < box.scrollHeight - box.clientHeight", arg=output.element_handle()
        )
        gate.open()
        is_in(page, "ready")
        page.wait_for_function(f"log => ({FROM_END})(log) === 0", arg=page.locator("#log").element_handle())


def test_the_end_of_code_and_thoughts_stays_in_view_while_they_grow(tab: Tab) -> None:
    half, end = Gate(), Gate()
    lines = [f"def function_{number}(x):\n    return 'text {number}'\n\n" for number in range(400)]
    code = "".join(lines)
    thoughts = [thinking(" ".join(f"idea {number}\n" for number in numbers)) for numbers in (range(60), range(60, 90))]
    llm = HeldLLM(
        [
            *thoughts[0],
            half,
            *thoughts[1],
            *text(f"```python\n{''.join(lines[:200])}", 50),
            end,
            *text(f"{''.join(lines[200:])}```", 50),
        ]
    )
    with served(llm) as chat:
        page = tab(chat.url)
        page.set_viewport_size({"width": 390, "height": 844})
        send_message(page, "Write it")
        box = page.locator(".live .thoughts")
        expect(box).to_contain_text("idea 59")
        page.wait_for_function(f"box => ({FROM_END})(box) < 2 && box.scrollTop > 100", arg=box.element_handle())
        half.open()
        block = page.locator(".live .code pre")
        expect(block).to_contain_text("text 199")
        page.wait_for_function(f"box => ({FROM_END})(box) < 2 && box.scrollTop > 100", arg=block.element_handle())
        assert block.locator(".hljs-keyword", has_text="def").count() == 200
        assert (block.text_content() or "").rstrip("\n") == "".join(lines[:200]).rstrip("\n")
        block.evaluate("box => { box.scrollTop = 500 }")
        end.open()
        is_in(page, "ready")
        block = page.locator(".code pre")
        expect(block).to_have_text(code.rstrip("\n"), use_inner_text=True)
        assert block.evaluate("box => box.scrollTop") == 500


def test_a_table_breaks_no_word_and_aligns_its_columns(tab: Tab) -> None:
    rows = "\n".join(
        f"| Burst {n} | {n * 1000} | {'a sentence that is long enough to wrap ' * 2} | yes |" for n in range(3)
    )
    made = f"| Burst | Tokens | Description | Incomprehensibilities |\n|:--|--:|---|:-:|\n{rows}\n"
    with served(HeldLLM(text(made, 30))) as chat:
        page = tab(chat.url)
        send_message(page, "Go")
        expect(page.locator("tbody tr")).to_have_count(3)
        is_in(page, "ready")
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 700})
            heads = page.locator("th").evaluate_all(
                "cells => cells.map(cell => { const range = document.createRange(); range.selectNodeContents(cell);"
                " return range.getClientRects().length; })"
            )
            assert heads == [1, 1, 1, 1], width
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        aligned = (
            page.locator("tr")
            .last.locator("td")
            .evaluate_all("cells => cells.map(cell => getComputedStyle(cell).textAlign)")
        )
        assert aligned == ["left", "right", "start", "center"]


def test_task_boxes_and_tables_from_right_to_left_are_at_the_right(tab: Tab) -> None:
    tasks = "- [ ] مهمة أولى\n- [x] مهمة ثانية\n\n"
    llm = HeldLLM(text(tasks + "| المدينة | السعر |\n|---|---|\n| دبي | 3 |\n\n| a | b |\n|---|---|\n| 1 | 2 |"))
    with served(llm) as chat:
        page = tab(chat.url)
        send_message(page, "قائمة")
        expect(page.locator("table")).to_have_count(2)
        is_in(page, "ready")
        item, box = page.locator("li").first, page.locator("li input").first
        begin = item.evaluate(
            "li => { const range = new Range(); range.selectNodeContents(li.lastChild);"
            " return Math.max(...[...range.getClientRects()].map(({ right }) => right)) }"
        )
        place = box.bounding_box()
        assert place
        assert place["x"] >= begin - 1  # to the right of the text
        edge = page.locator(".prose").evaluate("prose => prose.getBoundingClientRect().right")
        arabic, latin = (page.locator("table").nth(at) for at in (0, 1))
        assert abs(arabic.evaluate("table => table.getBoundingClientRect().right") - edge) < 2
        assert arabic.locator("th").first.evaluate("th => th.getBoundingClientRect().right") > edge - 5
        assert latin.evaluate("table => table.getBoundingClientRect().right") < edge - 100


def test_the_keyboard_is_enough(tab: Tab) -> None:
    with served(HeldLLM(text("Two lines."), call("send_mail", MAIL), text("Sent.")), [send_mail]) as chat:
        page = tab(chat.url)
        is_in(page, "ready")
        page.get_by_role("textbox", name="Your message").focus()
        page.keyboard.type("one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two")
        page.keyboard.press("Enter")
        expect(answers(page)).to_have_text("Two lines.")
        expect(page.get_by_role("article", name="You")).to_have_text("one\ntwo", use_inner_text=True)
        page.keyboard.press("Enter")  # nothing is sent
        page.keyboard.type("Tell Ann")
        page.keyboard.press("Enter")
        is_in(page, WAITS)
        for _ in range(30):
            page.keyboard.press("Shift+Tab")
            if page.evaluate("document.activeElement.textContent").startswith("Approve"):
                break
        page.keyboard.press("Enter")
        expect(answers(page)).to_have_text(["Two lines.", "Sent."])
    assert page.get_by_role("article", name="You").count() == 2


def test_a_message_is_sent_while_the_one_before_is_still_on_its_way(tab: Tab) -> None:
    with served(HeldLLM(text("First."), text("Second."))) as chat:
        page = tab(chat.url)
        is_in(page, "ready")
        first: list[Route] = []
        page.route("**/dispatch", lambda route: route.continue_() if first else first.append(route))
        page.get_by_role("textbox", name="Your message").focus()
        for message in ("one", "two"):
            page.keyboard.type(message)
            page.keyboard.press("Enter")
        expect(page.get_by_role("textbox", name="Your message")).to_have_value("")
        first[0].continue_()
        expect(page.get_by_role("article", name="You")).to_have_text(["one", "two"])


def test_a_message_that_cannot_be_sent_comes_back_to_the_input(tab: Tab, expected: list[str]) -> None:
    expected.append("ERR_FAILED")
    with served(HeldLLM(text("First."))) as chat:
        page = tab(chat.url)
        is_in(page, "ready")
        page.route("**/dispatch", lambda route: route.abort())
        box = page.get_by_role("textbox", name="Your message")
        box.fill("one")
        box.press("Enter")
        expect(box).to_have_value("one")


def test_the_diagram_is_drawn_from_the_table_and_lights_the_way(tab: Tab) -> None:
    gate = Gate()
    with served(HeldLLM([*text("Hello"), gate]), model=None) as chat:
        page = tab(chat.url)
        is_in(page, "idle")
        assert page.locator(".box").count() == 9
        way = page.locator('[data-way="waiting_for_tool_approval searching_tools"] title')
        assert "INTERRUPT" in (way.text_content() or "")
        load_model(page, "test:held")
        is_in(page, "ready")
        expect(page.locator(".way.lit")).to_have_attribute("data-way", "loading_model ready")
        send_message(page, "Hello")
        is_in(page, IN_STREAM)
        page.get_by_role("button", name="Details").click()
        page.get_by_text("States", exact=True).click()
        expect(page.get_by_role("img", name="States of the chat; it is streaming_response")).to_be_visible()
        expect(page.locator(".way.lit")).to_have_attribute("data-way", "generating_response streaming_response")
        gate.open()


def test_without_the_token_there_is_no_page(tab: Tab, expected: list[str]) -> None:
    expected.append("403")
    with served(HeldLLM()) as chat:
        page = tab(chat.url.replace("the-token", "another"))
        expect(page.locator("body")).to_contain_text("open the address that the server printed")


def test_a_foreign_page_gets_nowhere(tab: Tab, browser: Browser) -> None:
    """Another server of this machine, with the token stolen even."""
    send = """async url => {
        const request = {method: "POST", body: '{"type": "QUEUE_MESSAGE", "message": "evil"}'};
        const json = {Authorization: "Bearer the-token", "Content-Type": "application/json"};
        const tries = [
            {...request, mode: "no-cors"}, {...request, headers: json}, {...request, credentials: "include"},
        ];
        const results = [];
        for (const each of tries) {
            try { results.push((await fetch(url, each)).type); } catch { results.push("failed"); }
        }
        return results;
    }"""
    with served(HeldLLM()) as chat, served(HeldLLM()) as other:
        page = tab(chat.url)
        is_in(page, "ready")
        target = chat.url.replace("/?token", "/dispatch?token")
        # The page's own policy would refuse to try; a page of an attacker has none.
        plain = browser.new_context(bypass_csp=True).new_page()
        plain.goto(other.url)
        results = plain.evaluate(send, target)
        assert set(results) <= {"opaque", "failed"}
        assert chat.machine.state == "ready"
        assert chat.machine.context.messages == ()
        plain.context.close()
