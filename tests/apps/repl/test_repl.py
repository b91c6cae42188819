"""The loop of `toolcast chat`: R1 to R11 of its specification by name, then what else it does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from support.loopback import CLOSE, HOLD, whole
from support.ollama_server import DONE, MODEL, OllamaServer, call, delta
from support.repls import chat, repl_on
from support.scripted_screen import ScriptedScreen
from toolcast import CallableTool, Engine, LlamaCpp, Permissions, Session, ToolCallPart, user
from toolcast.agents.engine.history import find_problems
from toolcast.agents.engine.session_state import fold, opened_record
from toolcast.agents.subagents.elf_run import ElfEvent
from toolcast.apps.repl.approval_prompt import QUESTION
from toolcast.apps.repl.open_session import ChatSetup, OpenConversation
from toolcast.apps.repl.repl import Repl
from toolcast.errors import ConnectFailed, RateLimited, TurnStopped
from toolcast.events import (
    Finish,
    RawEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolStarted,
)
from toolcast.llms.model_registry import choose_llm
from toolcast.messages import ToolResultPart
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM
from toolcast.toolbox.questions import question_tool
from toolcast.tools.tool_context import ToolContext


def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


def looks(city: str, id: str = "c1") -> ToolCallPart:
    return ToolCallPart(id, "weather", f'{{"city": "{city}"}}')


def results(screen: ScriptedScreen) -> list[str]:
    return [content for _, _, content, _ in screen.of("call_result")]


# R1 to R11.


@pytest.mark.parametrize("typed", ["", "   \t", "exit", " Exit ", "QUIT", "/exit", "/EXIT", None])
def test_r1_it_ends(typed: str | None) -> None:
    llm = ScriptedLLM()
    screen = ScriptedScreen(typed, "too late")
    repl = repl_on(screen, llm)
    assert repl.run() == 0
    assert repl.state == "terminated"
    assert llm.requests == []
    assert screen.shown == []


@pytest.mark.parametrize("typed", ["hello", "exit now", "/usr/bin", "two\nlines", "quit\nexit", "!"])
def test_r1_any_other_text_is_asked(typed: str) -> None:
    llm = ScriptedLLM("Yes?")
    screen = ScriptedScreen(typed, interactive=False)
    assert repl_on(screen, llm).run() == 0
    assert llm.requests[0].messages[-1].text == typed
    assert screen.answer == "Yes?"


def test_r2_each_kind_has_its_sink() -> None:
    events = [
        *(ThinkingDelta("The "), ThinkingDelta("sea. "), TextDelta("I "), TextDelta(""), TextDelta("look. ")),
        *(ToolCallStart("c1", "weather"), ToolCallDone("c1", "weather", '{"city": "Oslo"}'), Finish("tool_use")),
    ]
    screen = chat("How?", "y", llm=ScriptedLLM(events, "It is sunny."), tools=[weather])
    assert screen.order == [
        *("thinking", "content", "call_begins", "end_answer", "preview", "call_decided", "call_complete"),
        *("call_result", "content", "end_answer", "note"),
    ]
    assert screen.thought == "The sea. "
    assert screen.answer == "I look. It is sunny."
    assert screen.of("call_result") == [("c1", "weather", "Oslo: sunny", False)]


def test_what_came_is_shown_before_it_is_waited_for_more() -> None:
    screen = ScriptedScreen("How?", "y")

    def weather() -> str:
        assert screen.caught_up.wait(20)  # the next event comes only when this returns
        return "sunny"

    llm = ScriptedLLM(ToolCallPart("c1", "weather"), "It is sunny.")
    assert repl_on(screen, llm, [weather]).run() == 0
    assert screen.of("call_result") == [("c1", "weather", "sunny", False)]


def test_the_activity_is_refreshed_while_nothing_comes() -> None:
    screen = ScriptedScreen("How?", "y")
    labels: list[str] = []

    def weather() -> str:
        screen.refreshed.clear()
        assert screen.refreshed.wait(20)  # no event comes before this returns
        labels.extend(each.label for each in screen.activities if each)
        return "sunny"

    llm = ScriptedLLM(ToolCallPart("c1", "weather"), "It is sunny.")
    assert repl_on(screen, llm, [weather]).run() == 0
    assert labels == ["Running weather"]
    assert [each is None for each in screen.activities] == [False, True]
    assert [(status.model, status.mode) for status in screen.statuses] == [("scripted", "build")] * 2


def test_the_embedded_model_is_loaded_first() -> None:
    screen = ScriptedScreen("How?")
    repl = repl_on(screen, LlamaCpp("absent.gguf"))
    assert repl.run() == 0
    assert screen.activities[0] is not None
    assert screen.activities[0].label == "Loading absent.gguf"
    assert repl.conversation.status.cost is None


def test_the_events_of_sub_agents_are_part_of_the_activity() -> None:
    screen = ScriptedScreen("Go", "y")
    tasks: list[tuple[str, str]] = []

    def work(context: ToolContext[Any]) -> str:
        context.emit(ElfEvent("elf-1", ToolStarted("7", "look"), "Review it"))
        screen.refreshed.clear()
        assert screen.refreshed.wait(20)
        tasks.extend((agent.task, agent.label) for each in screen.activities if each for _, agent in each.agents)
        return "done"

    assert repl_on(screen, ScriptedLLM(ToolCallPart("c1", "work"), "Done."), [work]).run() == 0
    assert tasks == [("Review it", "Running look")]
    assert screen.of("call_progress") == []


def test_r3_one_chunk_goes_to_all_three() -> None:
    with OllamaServer() as server:
        server.streams(delta(thinking="Hm.", content="Let me see.", tool_calls=[call("weather", city="Oslo")]), DONE)
        server.replies("Sunny.")
        screen = chat("How?", "y", llm=server.llm(), tools=[weather])
    assert screen.thought == "Hm."
    assert screen.answer == "Let me see.Sunny."
    assert [tuple(call[1:3]) for call in screen.of("call_decided")] == [("weather", '{"city": "Oslo"}')]
    assert screen.order[:3] == ["thinking", "content", "call_begins"]


@pytest.mark.slow
def test_r4_cut_at_every_byte_it_shows_the_same() -> None:
    documents = [delta(thinking="Höre"), delta(content="Ça\n"), delta(content="va 🌊?"), DONE]
    with OllamaServer() as server:
        server.streams(*documents)
        whole = server.streamed(*documents)
        expected = chat("Hi", llm=server.llm()).shown[:-1]
        for at in range(1, len(whole)):
            server.cut(whole[:at], whole[at:])
            assert chat("Hi", llm=server.llm()).shown[:-1] == expected
    assert ("content", "va 🌊?") in expected


def test_r5_a_turn_with_a_tool() -> None:
    with OllamaServer() as server:
        server.calls(call("weather", city="Oslo"))
        server.replies("It is sunny.")
        screen = chat("How is Oslo?", "y", llm=server.llm(), tools=[weather])
        _, second = server.bodies
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Oslo"}}
    assert second["messages"][3]["content"] == "Oslo: sunny"
    assert screen.answer == "It is sunny."
    assert [prompt for prompt, _ in screen.prompts][-1] == "> "


def test_r6_an_invalid_chunk() -> None:
    with OllamaServer() as server:
        server.streams(delta(content="Hel"), b"{nonsense\n", delta(content="lo"), DONE)
        server.replies("Fine.")
        screen = chat("Hi", "And now?", llm=server.llm())
    assert screen.answer == "HelloFine."
    assert [message for message in screen.errors if "nonsense" in message] == screen.errors != []


@pytest.mark.parametrize("body", [b"<html>Not Ollama</html>\n", b"[1, 2]\n"])
def test_r6_nothing_but_invalid_chunks(body: bytes) -> None:
    with OllamaServer() as server:
        server.streams(body)
        server.replies("Fine.")
        screen = chat("Hi", "And now?", llm=server.llm())
        assert server.bodies[1]["messages"][1:] == [{"role": "user", "content": "And now?"}]
    assert screen.answer == "Fine."
    assert "no response of Ollama's" in screen.errors[-1]


def test_r6_http_500() -> None:
    with OllamaServer() as server:
        server.fails(500, "out of\nmemory")
        server.replies("Fine.")
        screen = chat("Hi", "And now?", llm=server.llm())
    ((message, hint),) = screen.of("error")
    assert "out of memory" in message
    assert "\n" not in message
    assert hint == "/retry sends the message again"
    assert screen.answer == "Fine."


def test_r6_an_unknown_tool() -> None:
    with OllamaServer() as server:
        server.calls(call("fly", to="Oslo"))
        server.replies("I cannot fly.")
        server.replies("Fine.")
        screen = chat("Fly!", "And now?", llm=server.llm(), tools=[weather])
    ((_, name, content, is_error),) = screen.of("call_result")
    assert (name, is_error) == ("fly", True)
    assert "fly" in content
    assert screen.answer == "I cannot fly.Fine."


def test_r6_a_connection_that_breaks() -> None:
    with OllamaServer() as server:
        server.breaks_off(delta(content="Hel"), CLOSE)
        server.replies("Fine.")
        screen = chat("Hi", "And now?", llm=server.llm())
    assert len(screen.errors) == 1
    assert screen.answer == "HelFine."


def test_r6_no_one_there() -> None:
    screen = chat("Hi", llm=choose_llm("m-1", "127.0.0.1:9"))
    ((message, hint),) = screen.of("error")
    assert "127.0.0.1" in message
    assert "OLLAMA_HOST" in hint


def test_r7_ctrl_c_ends_the_answer() -> None:
    with OllamaServer() as server:
        server.breaks_off(delta(content="Once upon"), HOLD)
        server.replies("Fine.")
        screen = ScriptedScreen("Tell me", "And now?")
        screen.ctrl_c_at = ["content"]
        repl = repl_on(screen, server.llm())
        assert repl.run() == 0
        assert server.bodies[1]["messages"][1:] == [
            {"role": "user", "content": "Tell me"},
            {"role": "assistant", "content": "Once upon"},
            {"role": "user", "content": "And now?"},
        ]
    assert screen.answer == "Once uponFine."
    assert "(cancelled)" in screen.notes
    assert screen.errors == []


def test_r7_ctrl_c_at_the_prompt_leaves() -> None:
    repl = repl_on(ScriptedScreen(KeyboardInterrupt(), "too late"), ScriptedLLM())
    assert repl.run() == 130
    assert (repl.state, repl.session.state) == ("terminated", "closed")


def test_r8_the_second_question_sees_the_first_answer() -> None:
    with OllamaServer() as server:
        server.replies("Hello, Ada.")
        server.replies("Ada.")
        chat("I am Ada.", "Who am I?", llm=server.llm())
        second_request = [message["content"] for message in server.bodies[1]["messages"][1:]]
    assert second_request == ["I am Ada.", "Hello, Ada.", "Who am I?"]


@pytest.mark.parametrize("token", [None, "sk-1"])
def test_r9_what_is_sent(token: str | None) -> None:
    with OllamaServer() as server:
        server.replies("Hi.")
        chat("Hi", llm=choose_llm("m-1", server.host, token, {}), tools=[weather])
        (request,), (body,) = server.requests, server.bodies
    assert request.line.startswith("POST /api/chat ")
    assert request.headers.get("authorization") == (token and f"Bearer {token}")
    assert (body["model"], body["stream"]) == ("m-1", True)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["weather"]


@pytest.mark.parametrize(
    ("host", "scheme"),
    [("localhost", "http"), ("127.0.0.1:1", "http"), ("0.0.0.0", "http"), ("ollama.example", "https")],
)
def test_r9_the_scheme(host: str, scheme: str) -> None:
    llm: Any = choose_llm("m-1", host, None, {})
    assert llm.base_url.startswith(f"{scheme}://")


def test_r10_no() -> None:
    ran: list[str] = []

    def send_mail(to: str) -> str:
        """Send a mail."""
        ran.append(to)
        return "sent"

    llm = ScriptedLLM(ToolCallPart("c1", "send_mail", '{"to": "ada"}'), "Then I will not.")
    screen = chat("Write to Ada.", "n", llm=llm, tools=[send_mail])
    assert ran == []
    (result,) = llm.requests[1].messages[-1].parts
    assert "permission denied" in getattr(result, "content", "")
    assert screen.answer == "Then I will not."


# R11 is in test_pipes.py: it needs processes.


# What a person is asked.


def test_always_asks_no_more() -> None:
    llm = ScriptedLLM(looks("Oslo"), [looks("Rome"), looks("Bonn", "c2")], "Sunny.")
    screen = chat("How?", "a", llm=llm, tools=[weather])
    assert results(screen) == ["Oslo: sunny", "Rome: sunny", "Bonn: sunny"]
    assert len(screen.prompts) == 3


def test_a_no_holds_beside_an_always() -> None:
    llm = ScriptedLLM([looks("Oslo", "c1"), looks("Rome", "c2"), looks("Bonn", "c3")], "Well.")
    screen = chat("How?", "o", "n too far", "a", llm=llm, tools=[weather])
    assert results(screen) == ["permission denied: the user denied it: too far", "Rome: sunny", "Bonn: sunny"]


def test_a_no_holds_behind_an_always_that_covers_other_arguments() -> None:
    def shell(command: str) -> str:
        return f"ran {command}"

    calls = [ToolCallPart(f"c{n}", "shell", f'{{"command": "make {n}"}}') for n in (1, 2, 3)]
    screen = chat("Make!", "o", "a", "o", "n", "y", llm=ScriptedLLM(calls, "Made."), tools=[shell])
    assert results(screen) == ["ran make 1", "permission denied: the user denied it", "ran make 3"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("y", ["Oslo: sunny", "Rome: sunny"]),
        ("a", ["Oslo: sunny", "Rome: sunny"]),
        ("n too far", ["permission denied: the user denied it: too far"] * 2),
    ],
)
def test_all_calls_that_wait_are_decided_at_once(typed: str, expected: list[str]) -> None:
    llm = ScriptedLLM([looks("Oslo", "c1"), looks("Rome", "c2")], "Well.")
    screen = chat("How?", typed, llm=llm, tools=[weather])
    assert results(screen) == expected
    assert sum(prompt.startswith("Run all 2?") for prompt, _ in screen.prompts) == 1


def test_edited_arguments_run() -> None:
    screen = chat("How?", "e", "Rome", "y", llm=ScriptedLLM(looks("Oslo"), "Sunny."), tools=[weather])
    assert results(screen)[0].endswith("Rome: sunny")


def test_a_users_tool_with_the_name_of_a_built_in_one_is_not_shown_as_that() -> None:
    def write_file(path: str, content: str) -> str:
        """Send a file to the printer."""
        return "printed"

    part = ToolCallPart("c1", "write_file", '{"path": "a.txt", "content": "x"}')
    screen = chat("Print!", "y", llm=ScriptedLLM(part, "Done."), tools=[write_file])
    assert screen.of("preview") == [("write_file  path=a.txt content=x",)]


def test_what_may_run_unasked_is_not_asked() -> None:
    tool = CallableTool.from_function(weather).with_(read_only=True)
    screen = chat("How?", llm=ScriptedLLM(looks("Oslo"), "Sunny."), tools=[tool])
    assert results(screen) == ["Oslo: sunny"]


def test_with_no_one_there_it_is_denied() -> None:
    screen = ScriptedScreen("How?", interactive=False)
    assert repl_on(screen, ScriptedLLM(looks("Oslo"), "I may not."), [weather]).run() == 0
    assert "no approver" in results(screen)[0]


def test_output_of_a_tool_is_shown() -> None:
    def count(context: ToolContext) -> str:
        context.emit("one\n")
        context.emit({"two": 2})
        return "done"

    tool = CallableTool.from_function(count).with_(read_only=True)
    screen = chat("Count.", llm=ScriptedLLM(ToolCallPart("c1", "count"), "Done."), tools=[tool])
    assert screen.of("call_progress") == [("c1", "count", "one\n"), ("c1", "count", "{'two': 2}\n")]


@pytest.mark.parametrize(("typed", "answer"), [("blue", "blue"), ("2", "green"), ("", "")])
def test_the_model_asks(typed: str, answer: str) -> None:
    asks = ToolCallPart("c1", "ask_user", '{"question": "Which?", "choices": ["red", "green"]}')
    screen = chat("Paint it.", typed, llm=ScriptedLLM(asks, "Done."), tools=[question_tool()])
    assert screen.of("note")[0] == ("The model asks: Which?\n  1  red\n  2  green",)
    assert results(screen) == [answer]
    assert screen.prompts[1] == ("answer: ", "")


@pytest.mark.parametrize("typed", ["blue", None])
def test_a_question_of_the_model_is_shown_once(typed: str | None) -> None:
    arguments = '{"question": "Which?"}'
    call = [ToolCallStart("c1", "ask_user"), ToolCallReset("c1"), ToolCallDone("c1", "ask_user", arguments)]
    screen = ScriptedScreen("Paint it.", typed)
    repl = repl_on(screen, ScriptedLLM([*call, Finish("tool_use")], "Done."))
    repl.conversation.use(replace(repl.conversation.setup, builtin=(question_tool(),)))
    repl.run()
    assert screen.of("note")[0] == ("The model asks: Which?",)
    assert [kind for kind in screen.order if kind.startswith("call_")] == ([] if typed else ["call_result"])
    assert screen.answer == "Done."


def test_the_model_asks_and_the_person_leaves() -> None:
    asks = ToolCallPart("c1", "ask_user", '{"question": "Which?"}')
    screen = chat("Paint it.", None, "Bye", llm=ScriptedLLM(asks, "Well.", "Bye."), tools=[question_tool()])
    assert "no user is available" in results(screen)[0]
    assert screen.answer == "Well.Bye."


def test_the_model_asks_and_no_one_is_there() -> None:
    asks = ToolCallPart("c1", "ask_user", '{"question": "Which?"}')
    screen = ScriptedScreen("Paint it.", "blue", interactive=False)
    repl_on(screen, ScriptedLLM(asks, "Well.", "Yes."), [question_tool()]).run()
    assert "no user is available" in results(screen)[0]


def test_ctrl_c_at_a_question_ends_the_answer() -> None:
    asks = ToolCallPart("c1", "ask_user", '{"question": "Which?"}')
    screen = chat("Paint it.", KeyboardInterrupt(), "Hi", llm=ScriptedLLM(asks, "Hello."), tools=[question_tool()])
    assert screen.notes.splitlines()[:2] == ["The model asks: Which?", "(cancelled)"]
    assert screen.answer == "Hello."


# How turns end.


def test_a_failed_question_is_out_of_the_history() -> None:
    llm = ScriptedLLM(RateLimited("slow down"), "Hello.")
    screen = chat("First", "Second", llm=llm)
    assert [message.text for message in llm.requests[1].messages[1:]] == ["Second"]
    assert screen.of("error") == [("scripted scripted: slow down", "/retry sends the message again")]


def test_any_error_is_one_line() -> None:
    received: list[BaseException] = []
    error = ZeroDivisionError("one\ntwo")
    screen = chat("First", "Second", llm=ScriptedLLM(error, "Hello."), on_error=received.append)
    assert received == [error]
    assert screen.of("error") == [
        ("ZeroDivisionError: one two", "/retry sends the message again; --debug logs the traceback")
    ]
    assert screen.answer == "Hello."


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (RateLimited("slow down"), ""),
        (ZeroDivisionError("no"), "--debug logs the traceback"),
        (ConnectFailed("no"), "check that the server runs at the address in --host"),
        (TurnStopped("no"), ""),
    ],
)
def test_after_a_single_answer_no_command_is_the_next_step(error: Exception, hint: str) -> None:
    screen = ScriptedScreen()
    assert repl_on(screen, ScriptedLLM(error)).run("Hi") == 1
    assert [hint for _, hint in screen.of("error")] == [hint]


def test_a_resumed_session_shows_its_title_where_that_is_not_the_question() -> None:
    store = MemoryStore()
    chat("Hi there", "/rename Greetings", llm=ScriptedLLM("Hello."), store=store, session="s")
    screen = ScriptedScreen()
    repl = repl_on(screen, ScriptedLLM(), store=store, session="s")
    repl.show_resumed_session()
    repl.conversation.rename("Hi")
    repl.show_resumed_session()
    first, title, *rest = screen.notes.splitlines()
    assert (title, rest) == ("Title: Greetings", ["> Hi there", first, "> Hi there"])
    repl.run()


def test_an_error_without_words_is_called_by_its_name() -> None:
    assert chat("Hi", llm=ScriptedLLM(ZeroDivisionError())).errors == ["ZeroDivisionError"]


def test_a_screen_that_fails_ends_the_turn_and_no_more() -> None:
    screen = ScriptedScreen("First", "Second")
    screen.fails_at = ["content"]
    assert repl_on(screen, ScriptedLLM("Hello.", "Hello again.")).run() == 0
    assert screen.errors == ["ValueError: content cannot be shown"]
    assert screen.answer == "HellHello again."


def test_no_one_reads_what_is_written() -> None:
    screen = ScriptedScreen("First", "Second")
    screen.fails_at, screen.failure = ["content"], BrokenPipeError()
    repl = repl_on(screen, ScriptedLLM("Hello."))
    with pytest.raises(BrokenPipeError):
        repl.run()
    assert repl.session.state == "closed"


def test_in_a_pipe_a_failed_turn_is_exit_code_1() -> None:
    screen = ScriptedScreen("First", "Second", interactive=False)
    assert repl_on(screen, ScriptedLLM(RateLimited("slow down"), "Hello.")).run() == 1
    assert screen.of("error") == [("scripted scripted: slow down", "")]
    assert screen.answer == "Hello."


def test_ctrl_c_in_a_pipe_ends_all() -> None:
    screen = ScriptedScreen("First", "Second", interactive=False)
    screen.ctrl_c_at = ["content"]
    assert repl_on(screen, ScriptedLLM("Hello.")).run() == 130
    assert "again" not in screen.notes


def test_ctrl_c_while_a_tool_runs() -> None:
    def wait(context: ToolContext) -> str:
        cancelled = Event()
        context.cancellation.then(cancelled.set)
        context.emit("waiting")
        assert cancelled.wait(30)
        return "late"

    tool = CallableTool.from_function(wait).with_(read_only=True)
    screen = ScriptedScreen("Wait.", "And now?")
    screen.ctrl_c_at = ["call_progress"]
    llm = ScriptedLLM(ToolCallPart("c1", "wait"), "Fine.")
    assert repl_on(screen, llm, [tool]).run() == 0
    assert screen.answer == "Fine."
    assert find_problems(llm.requests[1].messages) == []


def test_ctrl_c_leaves_a_tool_behind_that_does_not_end() -> None:
    begun, leave = Event(), Event()
    ended: list[bool] = []

    def deaf() -> str:
        begun.set()
        ended.append(leave.wait(10))
        return "late"

    class Screen(ScriptedScreen):
        def flush_updates(self) -> None:
            if self.of("call_complete") and not self.of("call_result") and begun.wait(30) and not self.of("note"):
                raise KeyboardInterrupt

    screen = Screen("Wait.", "And now?")
    tool = CallableTool.from_function(deaf).with_(read_only=True)
    llm = ScriptedLLM(ToolCallPart("c1", "deaf"), "Fine.")
    assert repl_on(screen, llm, [tool]).run() == 0
    assert ended == []
    leave.set()
    assert screen.answer == "Fine."
    assert find_problems(llm.requests[1].messages) == []


def test_ctrl_c_again_while_it_ends_leaves() -> None:
    screen = ScriptedScreen("Tell me", "too late")
    screen.ctrl_c_at = ["content"]
    repl = repl_on(screen, ScriptedLLM("Once upon a time"))
    repl.session.cancel = interrupted  # type: ignore[method-assign]  # the second Ctrl-C, just then
    assert repl.run() == 130
    assert (repl.state, repl.session.state) == ("terminated", "closed")


def test_ctrl_c_in_the_answer_to_the_only_prompt_is_130() -> None:
    screen = ScriptedScreen()
    screen.ctrl_c_at = ["content"]
    assert repl_on(screen, ScriptedLLM("Once upon a time")).run("Tell me") == 130
    assert "(cancelled)" in screen.notes


def interrupted() -> None:
    raise KeyboardInterrupt


def test_a_second_ctrl_c_soon_after_the_first_does_not_leave() -> None:
    screen = ScriptedScreen("Hi", "And now?", KeyboardInterrupt())
    screen.ctrl_c_at = ["end_answer", "end_answer"]
    assert repl_on(screen, ScriptedLLM("Hello.", "Fine."), clock=lambda: 5.0).run() == 130
    assert "Press Ctrl-C again to leave." in screen.notes
    assert screen.answer == "Hello.Fine."


def test_a_ctrl_c_at_the_prompt_after_another_input_leaves() -> None:
    screen = ScriptedScreen("Hi", "/tools", KeyboardInterrupt(), "too late")
    screen.ctrl_c_at = ["content"]
    assert repl_on(screen, ScriptedLLM("Hello."), clock=lambda: 5.0).run() == 130
    assert "Press Ctrl-C again to leave." not in screen.notes


def test_a_third_ctrl_c_leaves() -> None:
    screen = ScriptedScreen("Hi", KeyboardInterrupt(), KeyboardInterrupt(), "too late")
    screen.ctrl_c_at = ["content"]
    assert repl_on(screen, ScriptedLLM("Hello."), clock=lambda: 5.0).run() == 130
    assert screen.notes.startswith("(cancelled)\nPress Ctrl-C again to leave.")


def test_r7_ctrl_c_at_the_prompt_leaves_when_the_stopped_answer_is_past() -> None:
    screen = ScriptedScreen("Hi", KeyboardInterrupt(), "too late")
    screen.ctrl_c_at = ["content"]
    times = iter([1.0, 2.5])
    assert repl_on(screen, ScriptedLLM("Hello."), clock=lambda: next(times)).run() == 130
    assert "again" not in screen.notes


def test_ctrl_c_at_an_approval_ends_the_turn() -> None:
    screen = ScriptedScreen("What's the weather?", KeyboardInterrupt(), "And now?")
    llm = ScriptedLLM([looks("Rome"), looks("Bonn", "c2")], "Fine.")
    assert repl_on(screen, llm, [weather]).run() == 0
    assert screen.answer == "Fine."
    assert "(cancelled)" in screen.notes
    sent = llm.requests[1].messages
    assert find_problems(sent) == []
    results = [part.content for message in sent for part in message.parts if isinstance(part, ToolResultPart)]
    assert results == ["the user denied it, and stopped the turn"] * 2


@pytest.mark.parametrize("then", [(), ("And now?",)], ids=["leave", "a request that fails"])
def test_a_turn_that_was_stopped_at_an_approval_is_not_continued_later(then: tuple[str, ...]) -> None:
    store = MemoryStore()
    screen = ScriptedScreen("What's the weather?", KeyboardInterrupt(), *then)
    llm = ScriptedLLM([looks("Rome")], RateLimited("slow down"))
    assert repl_on(screen, llm, [weather], store=store, session="s").run() == 0
    again, later = ScriptedScreen(), ScriptedLLM()
    assert repl_on(again, later, [weather], store=store, session="s").run() == 0
    assert later.requests == []
    assert "interrupted" not in again.notes


def test_a_stop_is_saved_at_once() -> None:
    store = MemoryStore()
    kinds: list[str] = []

    def closes_the_terminal() -> None:
        kinds.extend(record["kind"] for record in store.read("s"))

    screen = ScriptedScreen("What's the weather?", KeyboardInterrupt(), closes_the_terminal)
    repl_on(screen, ScriptedLLM([looks("Rome")]), [weather], store=store, session="s").run()
    state = fold(store.read("s")[: len(kinds)])
    assert (state.end, state.history[-1].role) == ("cancelled", "tool")


def test_a_ctrl_c_that_comes_too_late_to_cancel() -> None:
    idle = iter([None, interrupted, None, None])

    def observe(id: str, state: str) -> None:
        if state == "idle" and (now := next(idle)):
            now()

    screen = ScriptedScreen("Hi", "And now?")
    llm = ScriptedLLM("Hello.", "Fine.")
    assert repl_on(screen, llm, observer=observe).run() == 0
    assert screen.answer == "Hello.Fine."
    assert len(llm.requests[1].messages) == 4


def test_an_answer_that_was_cut_off() -> None:
    cut = [TextDelta("Once"), Finish("max_tokens")]
    assert "reached the limit" in chat("Tell me", llm=ScriptedLLM(cut)).notes


# Sessions.


def test_a_session_goes_on() -> None:
    store, llm = MemoryStore(), ScriptedLLM("Hello, Ada.", "Ada.")
    screen = chat("I am Ada.", llm=llm, store=store, session="ada")
    assert screen.notes == "Continue with: toolcast chat --session ada"
    chat("Who am I?", llm=llm, store=store, session="ada")
    assert [message.text for message in llm.requests[1].messages[1:]] == ["I am Ada.", "Hello, Ada.", "Who am I?"]


def left_waiting(store: MemoryStore) -> None:
    """Leave the session `s` while an approval is pending."""
    engine = Engine(ScriptedLLM(looks("Oslo")), [weather], permissions=Permissions(approve="later"))
    with Session(engine, id="s", store=store) as session:
        session.run("How is Oslo?")


def test_what_waits_for_an_answer_is_asked_first() -> None:
    store = MemoryStore()
    left_waiting(store)
    screen = chat("y", "Thanks", llm=ScriptedLLM("Sunny.", "Bye."), tools=[weather], store=store, session="s")
    assert screen.notes.startswith("The session's last turn was interrupted")
    question, *others = [prompt for prompt, _ in screen.prompts]
    assert question.startswith(QUESTION)
    assert others == ["> ", "> "]
    assert results(screen) == ["Oslo: sunny"]
    assert screen.answer == "Sunny.Bye."


def test_a_turn_that_was_cut_off_goes_on() -> None:
    store = MemoryStore()
    store.append("s", [opened_record("s", 1.0), {"kind": "message", "message": user("Hi").to_dict()}])
    assert chat(llm=ScriptedLLM("Hello."), store=store, session="s").answer == "Hello."


def test_in_a_pipe_the_question_comes_first() -> None:
    store = MemoryStore()
    left_waiting(store)
    screen, llm = ScriptedScreen("Never mind", interactive=False), ScriptedLLM("Good.")
    assert repl_on(screen, llm, [weather], store=store, session="s").run() == 0
    assert screen.answer == "Good."
    assert find_problems(llm.requests[0].messages) == []


# States.


def test_the_states_of_a_turn() -> None:
    seen: list[str] = []
    llm = ScriptedLLM(
        [ThinkingDelta("Hm."), TextDelta("Yes."), RawEvent("{"), RawEvent("?", damaged=True), Finish("end_turn")]
    )
    screen = ScriptedScreen("Hi")
    repl = repl_on(screen, llm, observer=lambda id, state: seen.append(state))
    assert repl.state == "init"
    repl.run()
    stream = "streaming_response"
    assert repl.trace == [
        *("idle", "processing_input", stream),
        *("routing", "thinking", stream),
        *("routing", "content_output", stream),
        *("routing", stream),
        *("routing", "error", stream),
        *("routing", stream),
        *("idle", "terminated"),
    ]
    assert seen == repl.trace
    assert screen.of("error") == [("cannot decode a part of the answer: ?", "it was skipped")]


def test_the_trace_begins_anew_with_each_input() -> None:
    repl = repl_on(ScriptedScreen("Hi", "/tools"), ScriptedLLM("Hello."))
    repl.run()
    assert repl.trace == ["idle", "processing_input", "idle", "terminated"]


# What is no question.


@pytest.mark.parametrize("mode", ["verify", "auto"])
def test_a_command_of_the_shell(mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    screen = chat("! echo here", "!exit 3", llm=ScriptedLLM(), mode=mode)
    assert capfd.readouterr().out == "here\n"
    assert screen.notes == "(exit code 3)"


@pytest.mark.parametrize("mode", [None, "plan", "build"])
def test_modes_without_a_shell(mode: str | None, capfd: pytest.CaptureFixture[str]) -> None:
    screen = chat("!echo here", llm=ScriptedLLM(), mode=mode)
    assert capfd.readouterr().out == ""
    ((message, hint),) = screen.of("error")
    assert "does not run commands" in message
    assert "/mode verify" in hint


def test_a_command_that_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *given, **options: interrupted())
    screen = chat("!sleep 1000", "Hi", llm=ScriptedLLM("Hello."), mode="auto")
    assert screen.answer == "Hello."
    assert screen.notes.startswith("(interrupted)")


@pytest.mark.parametrize(("typed", "near"), [("/modle x", "/mod"), ("/hepl", "/help"), ("/x", "/")])
def test_an_unknown_command(typed: str, near: str) -> None:
    ((message, hint),) = chat(typed, llm=ScriptedLLM()).of("error")
    assert typed.split()[0] in message
    assert hint.startswith(f"did you mean {near}")


PICTURE = b"\x89PNG\r\n\x1a\n\x00\x00"


def test_an_image_for_a_model_without_vision_is_an_error_before_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PICTURE)
    screen = ScriptedScreen("see @p.png", "then without")
    with OllamaServer() as server:
        server.show_answer = whole(json.dumps({"capabilities": ["completion", "tools"]}).encode())
        server.replies("Fine.")
        assert Repl(OpenConversation(ChatSetup(server.llm(), root=str(tmp_path)), MemoryStore()), screen).run() == 0
        sent = [body["messages"][-1]["content"] for body in server.bodies if "messages" in body]
    assert screen.errors == [f"{MODEL} does not read images: choose another model with /model, or remove the image"]
    assert sent == ["then without"]
