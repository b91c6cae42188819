"""engine.py: E1-E14 of the acceptance behaviours, and what an engine keeps from turn to turn."""

from __future__ import annotations

import json
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from pydantic import BaseModel

from support.engines import EngineAPI, call, check, results, sequence, valid_requests
from toolcast import Configs, FallbackLLM
from toolcast.agents.engine import engine as engine_module
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems, unanswered_calls
from toolcast.agents.permissions.permissions import Permissions, Rule
from toolcast.errors import (
    BudgetExceeded,
    EmptyResponse,
    IllegalState,
    MissingLLMError,
    OutputTypeError,
    Overloaded,
    RateLimited,
    RoundsExceeded,
    StreamTruncated,
    ToolcastError,
    TurnCancelled,
)
from toolcast.events import (
    ErrorEvent,
    Failover,
    Finish,
    Routing,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolResult,
    ToolStarted,
    UsageReport,
)
from toolcast.messages import Message, ThinkingPart, ToolCallPart, assistant, tool_result, user
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import PermissionRequest
from toolcast.values.budgets import Budget
from toolcast.values.settings import Settings
from toolcast.values.usage import Usage

ONCE = Usage(10, 5)  # what each answer of a ScriptedLLM costs
LOOK = call("c1", "look", '{"city": "Oslo"}')


def look(city: str) -> str:
    """Look at a city."""
    return f"{city} is fine."


def fail(city: str = "") -> str:
    """Fail."""
    raise LookupError(f"no such city: {city}")


scripted = ScriptedLLM


# E1, E2


def test_E1_a_text_reply_is_one_round(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted("Hello!"))
    turn = engine_api.submit(engine, "Hi.")
    assert (turn.text, turn.rounds, turn.end, turn.usage) == ("Hello!", 1, "end_turn", ONCE)
    assert turn.messages == (assistant("Hello!"),)
    assert engine.trace == ("idle", "streaming", "accumulating", "complete", "idle")
    assert engine.history == (user("Hi."), assistant("Hello!"))
    assert len(llm.requests) == 1
    check(engine)


def test_E2_one_tool_turn_is_two_rounds(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted(LOOK, "Oslo is fine."), [look])
    turn = engine_api.submit(engine, "How is Oslo?")
    assert (turn.rounds, len(turn.messages), turn.usage, engine.usage) == (2, 3, ONCE + ONCE, ONCE + ONCE)
    assert sequence(engine) == ["user", "assistant", "tool", "assistant"]
    assert turn.messages[1] == tool_result(LOOK, "Oslo is fine.")
    assert engine.trace == (
        *("idle", "streaming", "accumulating", "tool_exec"),
        *("streaming", "accumulating", "complete", "idle"),
    )
    assert [asked.messages for asked in llm.requests][1] == engine.history[:3]
    check(engine)


def test_E2_the_events_of_a_tool_turn(engine_api: EngineAPI) -> None:
    engine = Engine(scripted(LOOK, "Fine."), [look])
    text = engine_api.stream(engine, "How is Oslo?")
    assert text.of(ToolStarted, ToolResult) == [
        ToolStarted("c1", "look"),
        ToolResult("c1", "look", "Oslo is fine.", False, "Oslo is fine."),
    ]
    assert "".join(event.text for event in text.of(TextDelta)) == "Fine."
    assert len(text.of(Finish)) == len(text.of(UsageReport)) == 2
    assert text.states[-1] == "streaming"
    assert text.turn is not None and text.turn.text == "Fine."


def test_usage_is_summed_over_turns(engine_api: EngineAPI) -> None:
    engine = Engine(scripted("a", "b"))
    engine_api.submit(engine, "1")
    engine_api.submit(engine, "2")
    assert engine.usage == ONCE + ONCE
    assert sequence(engine) == ["user", "assistant"] * 2


# E3


@pytest.mark.parametrize(
    "made, permissions, words",
    [
        (call("c1", "unknown"), None, "unknown"),
        (call("c1", "fail", '{"city": "Ys"}'), None, "no such city: Ys"),
        (LOOK, Permissions("deny"), "permission denied"),
        (call("c1", "look", '{"town": "Oslo"}'), None, "city"),
        (call("c1", "look", '{"city": '), None, "You wrote: '{\"city\": '"),
        (call("c1", "look", "Oslo"), None, "You wrote: 'Oslo'"),
        (call("c1", "look", '["Oslo"]'), None, "You wrote: '[\"Oslo\"]'"),
    ],
    ids=["unknown", "raising", "denied", "wrong arguments", "unreadable arguments", "no JSON", "no object"],
)
def test_E3_what_fails_is_an_error_result_with_the_same_id(
    engine_api: EngineAPI, made: ToolCallPart, permissions: Permissions | None, words: str
) -> None:
    engine = Engine(llm := scripted(made, "I see."), [look, fail], permissions=permissions)
    text = engine_api.stream(engine, "Go.")
    assert text.turn is not None and (text.turn.text, text.turn.rounds) == ("I see.", 2)
    (result,) = results(engine.history)
    assert (result.call_id, result.is_error) == ("c1", True)
    assert words in result.content
    (event,) = text.of(ToolResult)
    assert (event.call_id, event.is_error, event.content) == ("c1", True, result.content)
    list(valid_requests(llm.requests))
    check(engine)


@pytest.mark.fault(87, 128)
def test_E3_only_the_call_that_fails_fails(engine_api: EngineAPI) -> None:
    calls = [call("a", "unknown"), LOOK, call("b", "fail")]
    engine = Engine(scripted(calls, "I see."), [look, fail])
    text = engine_api.stream(engine, "Go.")
    assert [(one.call_id, one.is_error) for one in results(engine.history)] == [("a", True), ("c1", False), ("b", True)]
    assert [event.call_id for event in text.of(ToolResult)] == ["a", "c1", "b"]
    assert [event.call_id for event in text.of(ToolStarted)] == ["c1", "b"]


# E4


@pytest.mark.fault(123)
def test_E4_endless_calls_make_exactly_as_many_requests_as_allowed(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted(*[LOOK] * 9), [look], max_rounds=3)
    with pytest.raises(RoundsExceeded) as caught:
        engine_api.submit(engine, "Go.")
    assert len(llm.requests) == 3
    turn = caught.value.turn
    assert turn is not None and (turn.rounds, turn.end, len(turn.messages)) == (3, "stopped", 6)
    assert turn.usage == ONCE + ONCE + ONCE
    assert engine.trace[-2:] == ("error", "idle")
    check(engine)
    assert len(results(engine.history)) == 3
    assert len({result.call_id for result in results(engine.history)}) == 3


def test_E4_the_turn_can_be_gone_on_with(engine_api: EngineAPI) -> None:
    engine = Engine(scripted(LOOK, "Done."), [look], max_rounds=1)
    with pytest.raises(RoundsExceeded):
        engine_api.submit(engine, "Go.")
    assert engine_api.submit(engine).text == "Done."
    assert sequence(engine) == ["user", "assistant", "tool", "assistant"]


# E5, E13: see test_tool_phase.py for the answers


def test_E5_the_event_comes_and_the_state_waits_until_it_is_answered(engine_api: EngineAPI) -> None:
    asked: list[PermissionRequest] = []
    engine = Engine(scripted(LOOK, "Fine."), [look], permissions=Permissions(approve="later"))

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, PermissionRequest):
            asked.append(event)
            assert stream.state == engine.state == "permission_wait"
            stream.answer(event.allow())

    text = engine_api.stream(engine, "Go.", watch=watch)
    assert text.turn is not None and text.turn.text == "Fine."
    assert [(one.call_id, one.tool, one.arguments) for one in asked] == [("c1", "look", '{"city": "Oslo"}')]
    assert engine.trace == (
        *("idle", "streaming", "accumulating", "tool_exec", "permission_wait", "tool_exec"),
        *("streaming", "accumulating", "complete", "idle"),
    )
    assert not results(engine.history)[0].is_error


# E6, E7: the matrix is in test_permissions.py; here: that the engine obeys it


def test_E6_bypass_still_denies_what_is_protected(engine_api: EngineAPI) -> None:
    read: list[str] = []

    def open_file(path: str) -> str:
        """Open a file."""
        read.append(path)
        return "text"

    calls = [call("a", "open_file", '{"path": "a/../.env"}'), call("b", "open_file", '{"path": "os.environ"}')]
    rules = [Rule("look", "deny")]
    engine = Engine(scripted([*calls, LOOK], "x"), [open_file, look], permissions=Permissions("bypass", rules))
    engine_api.submit(engine, "Go.")
    assert read == ["os.environ"]
    assert [one.is_error for one in results(engine.history)] == [True, False, True]


def test_E6_without_permissions_tools_run_but_for_protected_paths(engine_api: EngineAPI) -> None:
    def open_file(path: str) -> str:
        """Open a file."""
        return path

    calls = [call("a", "open_file", '{"path": ".env"}'), call("b", "open_file", '{"path": "env"}')]
    engine = Engine(scripted(calls, "x"), [open_file])
    engine_api.submit(engine, "Go.")
    assert [one.is_error for one in results(engine.history)] == [True, False]


@pytest.mark.parametrize("mode, runs", [("plan", True), ("auto", True), ("accept_edits", True), ("deny", False)])
def test_E7_what_only_reads(engine_api: EngineAPI, mode: Any, runs: bool) -> None:
    engine = Engine(
        scripted(LOOK, "x"), [CallableTool.from_function(look).with_(read_only=True)], permissions=Permissions(mode)
    )
    engine_api.submit(engine, "Go.")
    assert results(engine.history)[0].is_error is not runs


# E11, E12, E14


def cut_off(text: str) -> list[Any]:
    return [TextDelta(text), UsageReport(ONCE), Finish("max_tokens")]


def test_E11_max_tokens_completes_marked_truncated(engine_api: EngineAPI) -> None:
    engine = Engine(scripted(cut_off("Once upon")))
    turn = engine_api.submit(engine, "Go.")
    assert (turn.truncated, turn.end, turn.text, turn.rounds) == (True, "max_tokens", "Once upon", 1)
    assert engine.trace[-2:] == ("complete", "idle")
    check(engine)


def test_E11_calls_of_an_answer_that_was_cut_off_are_not_run(engine_api: EngineAPI) -> None:
    cut = call("b", "look", '{"city": "Os', truncated=True)
    engine = Engine(llm := scripted([LOOK, cut], "Again."), [fail, look])
    turn = engine_api.submit(engine, "Go.")
    assert turn.truncated and len(llm.requests) == 1
    assert [(one.call_id, one.is_error) for one in results(turn.messages)] == [("c1", True), ("b", True)]
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Again."


@pytest.mark.parametrize("reason", ["stop_sequence", "refusal", "content_filter", "pause", "other"])
def test_how_the_answer_ended_is_how_the_turn_did(engine_api: EngineAPI, reason: Any) -> None:
    engine = Engine(scripted([TextDelta("Hm."), Finish(reason)]))
    assert engine_api.submit(engine, "Go.").end == reason


@pytest.mark.parametrize(
    "answer, error",
    [(RateLimited("slow down", status=429), RateLimited), ([TextDelta("Hel")], StreamTruncated)],
    ids=["at once", "in the middle"],
)
def test_E12_after_a_provider_error_all_is_as_before_and_can_be_tried_again(
    engine_api: EngineAPI, answer: Any, error: type[Exception]
) -> None:
    engine = Engine(llm := scripted(answer, "Hello!"))
    with pytest.raises(error):
        engine_api.submit(engine, "Hi.")
    assert engine.history == ()
    assert engine.trace == ("idle", "streaming", "error", "idle")
    check(engine)
    assert engine_api.submit(engine, "Hi.").text == "Hello!"
    assert llm.requests[1].messages == (user("Hi."),)


def test_E12_what_was_complete_before_the_error_stays(engine_api: EngineAPI) -> None:
    engine = Engine(scripted(LOOK, RateLimited("slow down"), "Fine."), [look])
    text = engine_api.stream(engine, "Go.")
    assert isinstance(text.error, RateLimited)
    assert isinstance(text.events[-1], ErrorEvent) and text.events[-1].error is text.error
    assert sequence(engine) == ["user", "assistant", "tool"]
    check(engine)
    assert engine_api.submit(engine).text == "Fine."


def test_E12_the_text_of_an_answer_that_broke_is_dropped(engine_api: EngineAPI) -> None:
    engine = Engine(scripted([TextDelta("Half")]), history=[user("a"), assistant("b")])
    text = engine_api.stream(engine, "Go.")
    assert isinstance(text.error, StreamTruncated)
    assert engine.history == (user("a"), assistant("b"))


def test_E14_a_model_without_tools_is_offered_none(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted("Hello!", function_calling=False), [look])
    assert engine_api.submit(engine, "Hi.").text == "Hello!"
    assert llm.requests[0].tools == ()


def test_tools_and_settings_reach_the_model(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted("a"), [look], settings=Settings(temperature=0.5), instructions="Be brief.")
    engine_api.submit(engine, "Hi.")
    (asked,) = llm.requests
    assert [one.name for one in asked.tools] == ["look"]
    assert asked.settings.temperature == 0.5
    assert [message.role for message in asked.messages] == ["system", "user"]
    assert sequence(engine) == ["user", "assistant"]


# An answer of nothing


@pytest.mark.parametrize(
    "answer", [[Finish("end_turn")], [TextDelta(" \n"), Finish("end_turn")]], ids=["empty", "blank"]
)
def test_an_empty_answer_is_an_error_and_leaves_nothing(engine_api: EngineAPI, answer: Any) -> None:
    engine = Engine(scripted(answer, "Hello."))
    with pytest.raises(EmptyResponse, match=r"no text, no thinking and no tool call .*end_turn") as caught:
        engine_api.submit(engine, "Hi.")
    assert caught.value.retryable and caught.value.response is not None
    assert engine.history == ()
    check(engine)
    assert engine_api.submit(engine, "Hi?").text == "Hello."
    check(engine)


@pytest.mark.parametrize("stop", ["tool_use", "error", "other"])
def test_a_stop_reason_that_does_not_explain_an_empty_answer(engine_api: EngineAPI, stop: StopReason) -> None:
    with pytest.raises(EmptyResponse, match=stop):
        engine_api.submit(Engine(scripted([Finish(stop)])), "Hi.")


@pytest.mark.parametrize("stop", ["max_tokens", "stop_sequence", "refusal", "content_filter", "pause"])
def test_a_stop_reason_that_explains_an_empty_answer(engine_api: EngineAPI, stop: StopReason) -> None:
    assert engine_api.submit(Engine(scripted([Finish(stop)])), "Hi.").end == stop


@pytest.mark.parametrize("thought", [ThinkingDelta("Hm."), ThinkingDelta(redacted="x")], ids=["thought", "redacted"])
def test_an_answer_of_thinking_alone_is_not_empty(engine_api: EngineAPI, thought: ThinkingDelta) -> None:
    assert engine_api.submit(Engine(scripted([thought, Finish("end_turn")])), "Hi.").end == "end_turn"


def test_an_answer_of_unreadable_thinking_is_empty(engine_api: EngineAPI) -> None:
    with pytest.raises(EmptyResponse):
        engine_api.submit(Engine(scripted([ThinkingDelta(opaque={"x": 1}), Finish("end_turn")])), "Hi.")


def test_an_empty_answer_to_tool_results_ends_the_turn_with_a_warning(
    engine_api: EngineAPI, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(scripted(LOOK, [Finish("end_turn")], "Hello."), [look])
    turn = engine_api.submit(engine, "Look.")
    assert (turn.end, turn.text) == ("empty", "")
    assert "answer to the tool results was empty" in caplog.text
    check(engine)
    assert engine_api.submit(engine, "Hi?").text == "Hello."
    check(engine)


def test_a_paused_turn_keeps_the_calls_that_the_service_runs(engine_api: EngineAPI) -> None:
    searching = {"anthropic": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}}
    engine = Engine(llm := scripted([ThinkingDelta(opaque=searching), Finish("pause")], "Found."))
    assert engine_api.submit(engine, "Search.").end == "pause"
    assert engine.history[-1].parts == (ThinkingPart(opaque=searching),)
    assert engine_api.submit(engine).text == "Found."
    assert llm.requests[1].messages[-1] == Message("assistant", (ThinkingPart(opaque=searching),))


# One at a time


@pytest.mark.fault(115)
def test_a_turn_inside_a_turn_is_an_error_that_names_the_state(engine_api: EngineAPI) -> None:
    def again() -> str:
        """Ask again."""
        return engine.submit("And?").text

    engine = Engine(scripted(call("c1", "again"), "Done."), [again])
    assert engine_api.submit(engine, "Go.").text == "Done."
    (result,) = results(engine.history)
    assert result.is_error and "tool_exec" in result.content


@pytest.mark.fault(109)
def test_a_second_turn_is_refused_and_the_first_goes_on() -> None:
    engine = Engine(scripted("Hello!"))
    with engine.stream("Hi.") as stream:
        next(stream)
        for refused in (lambda: engine.submit("x"), engine.reset, lambda: engine.restore({"records": []})):
            with pytest.raises(IllegalState, match="streaming") as caught:
                refused()
            assert caught.value.state == "streaming"
        assert stream.result().text == "Hello!"
    check(engine)


@pytest.mark.fault(109)
def test_of_many_threads_one_has_a_turn_at_a_time() -> None:
    engine = Engine(llm := scripted(*["ok"] * 16))
    start = threading.Barrier(16)
    ended: list[str] = []

    def ask() -> None:
        start.wait(30)
        try:
            ended.append(engine.submit("Hi.").text)
        except IllegalState as error:
            ended.append(error.state)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(ended) == 16 and ended.count("ok") == len(llm.requests) >= 1
    assert sequence(engine) == ["user", "assistant"] * len(llm.requests)
    check(engine)


@pytest.mark.fault(112)
def test_context_variables_reach_tools_and_approvers(engine_api: EngineAPI) -> None:
    seen: list[str] = []

    def look_here() -> str:
        """Look."""
        seen.append(where.get())
        return "ok"

    async def look_there(context: ToolContext) -> str:
        """Look."""
        seen.append(where.get())
        return "ok"

    def approve(request: PermissionRequest) -> bool:
        seen.append(where.get())
        return True

    where: ContextVar[str] = ContextVar("where", default="nowhere")
    calls = [call("a", "look_here"), call("b", "look_there")]
    engine = Engine(scripted(calls, "ok"), [look_here, look_there], permissions=Permissions(approve=approve))
    token = where.set("here")
    try:
        engine_api.submit(engine, "Go.")
    finally:
        where.reset(token)
    assert seen == ["here"] * 4


# inject, reset, snapshot, restore, fork


def test_inject_between_turns_is_sent_at_once(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted("a"))
    engine.inject("Remember: be brief.")
    assert engine.history == (user("Remember: be brief."),)
    engine_api.submit(engine, "Hi.")
    assert llm.requests[0].messages == (user("Remember: be brief."), user("Hi."))


def test_no_turn_begins_while_a_message_is_injected(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, begun = Engine(ScriptedLLM("Yes.")), list[bool]()

    def look(history: list[Message]) -> tuple[ToolCallPart, ...]:
        thread = threading.Thread(target=lambda: begun.append(engine._lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        return unanswered_calls(history)

    monkeypatch.setattr(engine_module, "unanswered_calls", look)
    engine.inject("Be brief.")
    assert begun == [False]
    monkeypatch.undo()
    assert engine.submit("Hello.").text == "Yes."


def test_inject_during_a_turn_comes_before_its_next_request(engine_api: EngineAPI) -> None:
    def hint() -> str:
        """Send a message."""
        engine.inject("Hurry!")
        return "ok"

    engine = Engine(llm := scripted(call("c1", "hint"), "Done."), [hint])
    engine_api.submit(engine, "Go.")
    assert [message.role for message in llm.requests[1].messages] == ["user", "assistant", "tool", "user"]
    assert llm.requests[1].messages[-1] == user("Hurry!")
    check(engine)


def test_inject_after_the_last_request_comes_before_what_is_sent_next(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted("a", "b"))

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, Finish):
            engine.inject("Too late?")

    engine_api.stream(engine, "1", watch=watch)
    engine_api.submit(engine, "2")
    assert llm.requests[1].messages == (user("1"), assistant("a"), user("Too late?"), user("2"))


def test_inject_while_calls_wait_for_answers_comes_behind_their_results(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted(LOOK, "Fine."), [look], permissions=Permissions(approve="later"))
    turn = engine_api.submit(engine, "Go.")
    engine.inject("Hurry!")
    assert engine_api.submit(engine, answers=[turn.pending[0].allow()]).text == "Fine."
    assert [message.role for message in llm.requests[1].messages] == ["user", "assistant", "tool", "user"]
    check(engine)


def test_reset_forgets_all_but_how_the_engine_is_made(engine_api: EngineAPI) -> None:
    engine = Engine(scripted("a", "b"), [look], budget=Budget(tokens=20))
    engine_api.submit(engine, "1")
    engine.reset()
    assert (engine.history, engine.usage, engine.trace, engine.state) == ((), Usage(), ("idle",), "idle")
    assert engine_api.submit(engine, "2").text == "b"


def test_a_snapshot_is_plain_data_and_restores_all(engine_api: EngineAPI) -> None:
    engine = Engine(scripted(LOOK, "Fine."), [look], permissions=Permissions(approve=PermissionRequest.allow_session))
    engine_api.submit(engine, "Go.")
    data = json.loads(json.dumps(engine.snapshot()))
    other = Engine(scripted(LOOK, "Still fine."), [look], permissions=Permissions(approve=lambda request: False))
    other.restore(data)
    assert (other.history, other.usage) == (engine.history, engine.usage)
    engine_api.submit(other, "Once more.")
    assert [one.is_error for one in results(other.history)] == [False, False]  # it was allowed for the session
    check(other)


def test_a_fork_is_made_alike_and_remembers_nothing(engine_api: EngineAPI) -> None:
    engine = Engine(scripted("a", LOOK, "b"), [look], instructions="Be brief.", max_rounds=2)
    engine_api.submit(engine, "1")
    other = engine.fork()
    assert (other.history, other.tools, other.llm, other.permissions) == (
        (),
        engine.tools,
        engine.llm,
        engine.permissions,
    )
    assert engine_api.submit(other, "2").text == "b"
    assert len(engine.history) == 2
    assert engine.fork(tools=[fail], max_rounds=1, permissions=Permissions("deny")).tools[0].name == "fail"


def test_with_nothing_sent_and_no_history_there_is_nothing_to_do() -> None:
    with pytest.raises(ValueError, match="no message, and no history"):
        Engine(scripted()).submit()


@pytest.mark.parametrize("name", ["max_rounds", "output_limit", "max_repeats", "max_attempts"])
def test_limits_are_at_least_one(name: str) -> None:
    options: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        Engine(scripted(), **options)


def test_an_engine_needs_an_llm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Configs, "llm", None)
    with pytest.raises(MissingLLMError):
        Engine()
    monkeypatch.setattr(Configs, "llm", llm := scripted("a"))
    assert Engine().llm is llm


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(OutputTypeError, match="look"):
        Engine(scripted(), [look, look])

    class look_(BaseModel):  # named like the tool
        x: int

    look_.__name__ = "look"
    look_.model_config["title"] = "look"
    with pytest.raises(OutputTypeError, match="look"):
        Engine(scripted(), [look]).submit("Go.", output_cls=look_)


def test_the_observer_hears_of_every_state(engine_api: EngineAPI) -> None:
    received: list[str] = []
    engine = Engine(scripted("a"), observer=lambda id, state: received.append(state))
    engine_api.submit(engine, "1")
    assert ("idle", *received) == engine.trace


# cancel


def test_E9_cancel_while_idle_does_nothing(engine_api: EngineAPI) -> None:
    engine = Engine(scripted("a", "b"))
    engine.cancel()
    engine_api.submit(engine, "1")
    engine.cancel()
    assert engine_api.submit(engine, "2").text == "b"


def test_E9_cancel_in_streaming_keeps_the_text_and_the_next_turn_works(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted("Hello there!", "Hm?"))

    def watch(stream: Any, event: Any) -> None:
        engine.cancel()

    text = engine_api.stream(engine, "Hi.", watch=watch)
    assert isinstance(text.error, TurnCancelled)
    assert text.error.turn is not None and text.error.turn.end == "cancelled"
    assert engine.trace == ("idle", "streaming", "cancelled", "idle")
    assert engine.history == (user("Hi."), assistant("Hell"))
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"
    list(valid_requests(llm.requests))


def test_E9_cancel_before_any_text_takes_back_what_was_sent(engine_api: EngineAPI) -> None:
    engine = Engine(scripted([TextDelta("  "), Finish("end_turn")], "Hello!"), history=[user("a"), assistant("b")])

    def watch(stream: Any, event: Any) -> None:
        engine.cancel()

    text = engine_api.stream(engine, "Hi.", watch=watch)
    assert isinstance(text.error, TurnCancelled)
    assert engine.history == (user("a"), assistant("b"))
    check(engine)


def test_E9_a_call_that_was_being_written_is_dropped(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted([call("c1", "look", '{"city": "Oslo, Norway"}')], "Hm?"), [look])

    def watch(stream: Any, event: Any) -> None:
        engine.cancel()

    text = engine_api.stream(engine, "Hi.", watch=watch)
    assert isinstance(text.error, TurnCancelled)
    assert engine.history == ()
    assert engine_api.submit(engine, "And?").text == "Hm?"
    list(valid_requests(llm.requests))


def test_E9_cancel_by_a_tool(engine_api: EngineAPI) -> None:
    def stop() -> str:
        """Stop."""
        engine.cancel()
        return "stopped"

    engine = Engine(llm := scripted([call("a", "stop"), LOOK], "Hm?"), [stop, look])
    with pytest.raises(TurnCancelled):
        engine_api.submit(engine, "Go.")
    assert [one.call_id for one in results(engine.history)] == ["a", "c1"]
    assert results(engine.history)[1].is_error
    assert engine.trace[-3:] == ("tool_exec", "cancelled", "idle")
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"
    list(valid_requests(llm.requests))


def test_E9_cancel_at_the_permission_event(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted(LOOK, "Hm?"), [look], permissions=Permissions(approve=lambda request: True))

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, PermissionRequest):
            engine.cancel()

    text = engine_api.stream(engine, "Go.", watch=watch)
    assert isinstance(text.error, TurnCancelled)
    assert engine.trace[-3:] == ("permission_wait", "cancelled", "idle")
    assert results(engine.history)[0].is_error
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"
    list(valid_requests(llm.requests))


def test_E9_closing_the_stream_cancels(engine_api: EngineAPI) -> None:
    engine = Engine(scripted("Hello there!", "Hm?"))
    engine_api.stream(engine, "Hi.", take=1)
    assert engine.trace == ("idle", "streaming", "cancelled", "idle")
    assert engine.history == (user("Hi."), assistant("Hell"))
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"


# A budget is checked before each request


def test_a_budget_of_the_engine_counts_all_turns(engine_api: EngineAPI) -> None:
    engine = Engine(llm := scripted("a", "b", "c"), budget=Budget(tokens=30))
    engine_api.submit(engine, "1")
    engine_api.submit(engine, "2")
    with pytest.raises(BudgetExceeded) as caught:
        engine_api.submit(engine, "3")
    assert caught.value.limit == "tokens"
    assert len(llm.requests) == 2
    assert len(engine.history) == 4
    check(engine)


# An engine as a tool


def test_an_engine_is_a_tool_for_another(engine_api: EngineAPI) -> None:
    inner = Engine(inner_llm := scripted(call("i1", "look", '{"city": "Rome"}'), "Rome is fine."), [look])
    asks = call("c1", "ask_agent", '{"prompt": "How is Rome?"}')
    engine = Engine(scripted(asks, "All fine."), [inner])
    assert engine_api.submit(engine, "Go.").text == "All fine."
    assert results(engine.history)[0].content == "Rome is fine."
    assert inner.history == ()
    assert inner_llm.requests[0].messages == (user("How is Rome?"),)
    check(engine)


def test_an_engine_as_a_tool_has_a_name(engine_api: EngineAPI) -> None:
    made = Engine(scripted("42")).as_tool("ask_expert", "Ask an expert.")
    engine = Engine(scripted(call("c1", "ask_expert", '{"prompt": "?"}'), "ok"), [made])
    engine_api.submit(engine, "Go.")
    assert results(engine.history)[0].content == "42"


@pytest.mark.parametrize("of_the_turn", [True, False])
def test_what_an_inner_engine_spends_counts_in_the_outer(engine_api: EngineAPI, of_the_turn: bool) -> None:
    inner = Engine(scripted("Fine."))
    asks = call("c1", "ask_agent", '{"prompt": "?"}')
    budget = Budget(tokens=25)
    engine = Engine(llm := scripted(asks, "never sent"), [inner], budget=None if of_the_turn else budget)
    options: dict[str, Any] = {"budget": budget} if of_the_turn else {}
    with pytest.raises(BudgetExceeded):
        engine_api.submit(engine, "Go.", **options)
    assert len(llm.requests) == 1
    check(engine)


@pytest.mark.fault(132)
def test_an_inner_engine_stops_at_the_budget_of_the_outer(engine_api: EngineAPI) -> None:
    inner = Engine(inner_llm := scripted(LOOK, LOOK, LOOK), [look])
    asks = call("c1", "ask_agent", '{"prompt": "?"}')
    engine = Engine(scripted(asks), [inner])
    with pytest.raises(BudgetExceeded):
        engine_api.submit(engine, "Go.", budget=Budget(tokens=40))
    assert len(inner_llm.requests) == 2
    assert "budget" in results(engine.history)[0].content


@pytest.mark.fault(132)
def test_an_inner_engine_is_cancelled_with_the_outer(engine_api: EngineAPI) -> None:
    def stop(context: ToolContext) -> str:
        """Stop all of it."""
        engine.cancel()
        return "stopped"

    inner = Engine(inner_llm := scripted(call("i1", "stop"), "never sent"), [stop])
    engine = Engine(scripted(call("c1", "ask_agent", '{"prompt": "?"}'), "Hm?"), [inner])
    with pytest.raises(TurnCancelled):
        engine_api.submit(engine, "Go.")
    assert len(inner_llm.requests) == 1
    assert results(engine.history)[0].is_error
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"


def test_an_inner_engine_whose_turn_would_wait_for_a_person_asks_no_one(engine_api: EngineAPI) -> None:
    inner = Engine(inner_llm := scripted(LOOK, "I may not look."), [look], permissions=Permissions(approve="later"))
    engine = Engine(scripted(call("c1", "ask_agent", '{"prompt": "?"}'), "ok"), [inner])
    engine_api.submit(engine, "Go.")
    assert results(engine.history)[0].content == "I may not look."
    assert results(inner_llm.requests[1].messages)[0].is_error


# Invalid arguments raise before anything is sent


@pytest.mark.parametrize(
    "options",
    [
        {"permissions": "bypass"},
        {"budget": 5},
        {"settings": {}},
        {"compaction": "soon"},
        {"tool_timeout": 0},
        {"tool_timeout": "1"},
        {"max_rounds": 1.5},
        {"max_rounds": "5"},
        {"max_attempts": 0},
        {"max_repeats": 0},
        {"output_limit": 0},
        {"observer": 5},
    ],
    ids=str,
)
def test_options_that_are_none(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"^{name}="):
        Engine(scripted("x"), **options)


@pytest.mark.parametrize(
    "message",
    ["", tool_result("c9", "42"), Message("assistant", (LOOK,)), ["Hello.", Message("assistant", (LOOK,))]],
    ids=["nothing", "a result", "a call", "a call behind a text"],
)
def test_what_cannot_be_sent(message: Any) -> None:
    engine = Engine(llm := scripted("x"))
    with pytest.raises(ValueError, match="invalid message"):
        engine.submit(message)
    if not isinstance(message, list):
        with pytest.raises(ValueError, match="invalid message"):
            engine.inject(message)
    assert (engine.history, llm.requests, engine.state) == ((), [], "idle")


@pytest.mark.parametrize("message", [5, [5]], ids=str)
def test_what_is_no_message(message: Any) -> None:
    with pytest.raises(TypeError, match="expected str, Message or a dict"):
        Engine(scripted("x")).submit(message)


@pytest.mark.parametrize("data", [{}, {"records": []}], ids=str)
def test_nothing_to_restore(data: Any) -> None:
    with pytest.raises(ToolcastError):
        Engine(scripted("x")).restore(data)


def test_a_stream_that_was_never_started_blocks_no_turn() -> None:
    """Ctrl-C may come between the two."""
    engine = Engine(scripted("One.", "Two."))
    left = engine.begin("First.", None, {}, concurrent=False)
    with pytest.raises(IllegalState):
        engine.submit("Second.")
    engine.cancel()
    assert left.ended and engine.state == "idle"
    assert engine.submit("Second.").text == "One."
    assert [message.text for message in engine.history] == ["Second.", "One."]


@pytest.mark.parametrize("state", ["streaming", "complete", "idle", "error"])
def test_an_observer_that_stops_the_program_leaves_the_engine_idle(state: str) -> None:
    stops = {state}

    def observe(id: str, now: str) -> None:
        if now in stops:
            raise SystemExit

    engine = Engine(scripted(RuntimeError("no") if state == "error" else "Hello.", "Again."), observer=observe)
    with pytest.raises(SystemExit):
        engine.submit("Go.")
    assert engine.state == "idle" and not find_problems(engine.history)
    stops.clear()
    assert engine.submit("Go.").end == "end_turn"


def test_E20_another_model_takes_over_before_content_and_not_after(engine_api: EngineAPI) -> None:
    text = engine_api.stream(Engine(FallbackLLM([scripted(Overloaded("busy")), scripted("Hello.")])), "Go.")
    assert text.turn is not None and text.turn.text == "Hello."
    assert [type(event) for event in text.of(Failover, Routing)] == [Routing, Failover, Routing]
    engine = Engine(FallbackLLM([scripted([TextDelta("Hel")]), scripted("Hello.")]))
    text = engine_api.stream(engine, "Go.")
    assert isinstance(text.error, StreamTruncated) and text.of(Failover) == []
    assert engine.history == ()
