"""tool_phase.py: who decides about a call, in which order calls run, and what is kept of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
import pytest
from pydantic import AfterValidator

from support.engines import AsyncEngineAPI, EngineAPI, call, check, results, valid_requests
from toolcast.agents.engine.conversation import NOT_RUN
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems
from toolcast.agents.permissions.permissions import Permissions
from toolcast.agents.sessions.session import Session
from toolcast.agents.subagents.elves import ElfConfig, ElfManager
from toolcast.errors import FailTurn, RateLimited, TryAgain, TurnCancelled, TurnFailed
from toolcast.events import ToolProgress, ToolResult, ToolStarted
from toolcast.llms.defaults import Configs
from toolcast.messages import ToolCallPart
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import ApprovalDecision, PermissionRequest

Approver = Callable[[PermissionRequest], Any]


class Shelf:
    """A tool that remembers what it was called with."""

    def __init__(self) -> None:
        self.put_there: list[str] = []

    def put(self, item: str) -> str:
        """Put an item on the shelf."""
        self.put_there.append(item)
        return f"{item} is there"


def put(id: str, item: str) -> ToolCallPart:
    return call(id, "put", json.dumps({"item": item}))


def shelf_and_engine(calls: Any, approve: Any, *more: Any) -> tuple[Shelf, ScriptedLLM, Engine]:
    shelf, llm = Shelf(), ScriptedLLM(calls, *more, "Done.")
    return shelf, llm, Engine(llm, [shelf.put], permissions=Permissions(approve=approve))


def as_sync(decide: Approver) -> Approver:
    return decide


def as_async(decide: Approver) -> Approver:
    async def approve(request: PermissionRequest) -> Any:
        return decide(request)

    return approve


def as_awaited(decide: Approver) -> Approver:
    """A sync function that gives something to await."""

    def approve(request: PermissionRequest) -> Any:
        return as_async(decide)(request)

    return approve


def raising(request: PermissionRequest) -> bool:
    raise OSError("no terminal")


@pytest.mark.parametrize("kind", [as_sync, as_async, as_awaited])
@pytest.mark.parametrize(
    "decide, runs, expected",
    [
        (PermissionRequest.allow, ["a"], "a is there"),
        (lambda request: True, ["a"], "a is there"),
        (lambda request: False, [], "permission denied"),
        (lambda request: None, [], "permission denied"),
        (lambda request: "yes", [], "permission denied"),
        (lambda request: request.deny("not today"), [], "permission denied: not today"),
        (PermissionRequest.deny, [], "permission denied: the user denied it"),
        (lambda request: request.edit({"item": "b"}), ["b"], "changed the arguments"),
        (lambda request: request.edit('{"thing": "b"}'), [], "item"),
        (raising, [], "the approver failed: OSError"),
    ],
    ids=["allow", "True", "False", "None", "a word", "deny, why", "deny", "edit", "a wrong edit", "raising"],
)
def test_E5_E13_what_the_approver_says(
    engine_api: EngineAPI, kind: Callable[[Approver], Approver], decide: Approver, runs: list[str], expected: str
) -> None:
    shelf, _, engine = shelf_and_engine(put("c1", "a"), kind(decide))
    received = engine_api.stream(engine, "Go.")
    assert received.turn is not None and received.turn.text == "Done."
    assert shelf.put_there == runs
    (result,) = results(engine.history)
    assert (result.call_id, result.is_error) == ("c1", not runs)
    assert expected in result.content
    (request,) = received.of(PermissionRequest)
    assert received.states[received.events.index(request)] == "permission_wait"
    assert received.events.index(request) < received.events.index(received.of(ToolResult)[0])
    check(engine)


@pytest.mark.fault(129)
def test_E13_without_an_approver_a_call_is_denied(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine(put("c1", "a"), None)
    text = engine_api.stream(engine, "Go.")
    assert text.of(PermissionRequest) == [] and shelf.put_there == []
    assert "no approver" in results(engine.history)[0].content
    assert "permission_wait" not in engine.trace


def test_E13_an_approver_that_raises_is_reported_to_the_log(
    engine_api: EngineAPI, caplog: pytest.LogCaptureFixture
) -> None:
    _, _, engine = shelf_and_engine(put("c1", "a"), raising)
    with caplog.at_level(logging.ERROR, "toolcast"):
        engine_api.submit(engine, "Go.")
    assert "the approver failed on put" in caplog.text


def test_the_request_has_the_exact_arguments(engine_api: EngineAPI) -> None:
    asked: list[PermissionRequest] = []
    _, _, engine = shelf_and_engine(put("c1", "a"), asked.append)
    engine_api.submit(engine, "Go.")
    assert [(one.call_id, one.tool, one.arguments) for one in asked] == [("c1", "put", '{"item": "a"}')]
    assert asked[0].reason


def test_calls_are_asked_about_one_at_a_time_before_any_runs(engine_api: EngineAPI) -> None:
    order: list[str] = []

    def approve(request: PermissionRequest) -> bool:
        order.append(f"asked {request.call_id}")
        return request.call_id != "b"

    def work(name: str) -> str:
        """Work."""
        order.append(f"ran {name}")
        return name

    calls = [call(id, "work", json.dumps({"name": id})) for id in "abc"]
    engine = Engine(ScriptedLLM(calls, "ok"), [work], permissions=Permissions(approve=approve))
    engine_api.submit(engine, "Go.")
    assert order == ["asked a", "asked b", "asked c", "ran a", "ran c"]
    assert [(one.call_id, one.is_error) for one in results(engine.history)] == [("a", False), ("b", True), ("c", False)]


def test_allow_session_counts_for_the_calls_behind_it_and_the_turns_after(engine_api: EngineAPI) -> None:
    asked: list[str] = []

    def approve(request: PermissionRequest) -> ApprovalDecision:
        asked.append(request.call_id)
        return request.allow_session()

    calls = [put("a", "1"), put("b", "2")]
    shelf, _, engine = shelf_and_engine(calls, approve, "Done.", put("c", "3"))
    engine_api.submit(engine, "Go.")
    engine_api.submit(engine, "Again.")
    assert (asked, shelf.put_there) == (["a"], ["1", "2", "3"])
    engine.reset()
    assert engine.conversation.remembered == []


def test_a_no_holds_beside_what_was_allowed_for_the_session(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine([put("1", "cup"), put("2", "vase"), put("3", "jug")], "later")
    first, second, third = engine_api.submit(engine, "Put them there.").pending
    engine_api.submit(engine, answers=[first.deny(), second.allow_session(), third.deny()])
    assert shelf.put_there == ["vase"]
    assert len(engine.conversation.remembered) == 1
    check(engine)


def test_a_no_holds_when_the_others_are_allowed_after_it(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine([put("1", "cup"), put("2", "vase"), put("3", "jug")], "later")
    first, second, _ = engine_api.submit(engine, "Put them there.").pending
    engine_api.submit(engine, answers=[first.deny()])
    assert engine_api.submit(engine, answers=[second.allow_session()]).text == "Done."
    assert shelf.put_there == ["vase", "jug"]
    check(engine)


def test_what_is_allowed_for_the_session_while_others_wait_is_remembered_once(engine_api: EngineAPI) -> None:
    engine = Engine(
        ScriptedLLM([put("1", "cup"), call("2", "drop", "{}"), call("3", "drop", "{}")], "Done."),
        [Shelf().put, CallableTool.from_function(lambda: "dropped", "drop", "Drop it.")],
        permissions=Permissions(approve="later"),
    )
    for action in ("allow_session", "allow", "deny"):
        request = (engine.pending or engine_api.submit(engine, "Go.").pending)[0]
        engine_api.submit(engine, answers=[ApprovalDecision(request.call_id, request.fingerprint, action)])
    assert [rule.tool for rule in engine.conversation.remembered] == ["put"]
    check(engine)


def test_what_is_forbidden_stays_forbidden_when_it_is_edited(engine_api: EngineAPI) -> None:
    opened: list[str] = []

    def open_file(path: str) -> str:
        """Open a file."""
        opened.append(path)
        return path

    permissions = Permissions(approve=lambda request: request.edit({"path": ".env"}))
    engine = Engine(
        ScriptedLLM(call("a", "open_file", '{"path": "notes"}'), "ok"), [open_file], permissions=permissions
    )
    engine_api.submit(engine, "Go.")
    assert opened == [] and "protected" in results(engine.history)[0].content


# Later


def test_later_ends_the_turn_and_answers_go_on_with_it(engine_api: EngineAPI) -> None:
    calls = [put("a", "1"), put("b", "2"), put("c", "3"), put("d", "4")]
    shelf, llm, engine = shelf_and_engine(calls, "later")
    turn = engine_api.submit(engine, "Go.")
    assert (turn.end, turn.text, shelf.put_there) == ("approval", "", [])
    assert engine.trace[-3:] == ("tool_exec", "permission_wait", "idle")
    assert [one.call_id for one in turn.pending] == ["a", "b", "c", "d"]
    assert turn.pending == engine.pending
    one, two, three, four = (
        ApprovalDecision.from_dict(json.loads(json.dumps(answer.to_dict())))
        for answer in (
            turn.pending[0].allow(),
            turn.pending[1].deny("no"),
            turn.pending[2].edit({"item": "three"}),
            turn.pending[3].allow(),
        )
    )
    text = engine_api.stream(engine, answers=[one, two, three, four])
    assert text.turn is not None and text.turn.text == "Done."
    assert text.of(PermissionRequest) == []
    assert shelf.put_there == ["1", "three", "4"]
    assert [one.is_error for one in results(engine.history)] == [False, True, False, False]
    assert engine.trace[:2] == ("idle", "tool_exec")
    assert len(llm.requests) == 2 and engine.pending == ()
    check(engine)


def test_answers_may_come_one_by_one(engine_api: EngineAPI) -> None:
    shelf, llm, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    turn = engine_api.submit(engine, "Go.")
    again = engine_api.submit(engine, answers=[turn.pending[0].allow()])
    assert (again.end, [one.call_id for one in again.pending], shelf.put_there) == ("approval", ["b"], [])
    assert again.pending == engine.pending and len(llm.requests) == 1
    assert engine_api.submit(engine, answers=[again.pending[0].deny()]).text == "Done."
    assert shelf.put_there == ["1"] and engine.conversation.answers == {}
    check(engine)


def test_an_answer_can_be_taken_back_while_others_are_missing(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    one, two = engine_api.submit(engine, "Go.").pending
    engine_api.submit(engine, answers=[one.allow()])
    engine_api.submit(engine, answers=[one.deny(), two.allow()])
    assert shelf.put_there == ["2"]


def test_answers_are_forgotten_with_their_calls(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    one, _ = engine_api.submit(engine, "Go.").pending
    engine_api.submit(engine, answers=[one.allow()])
    engine_api.submit(engine, "Forget it.")
    assert (shelf.put_there, engine.conversation.answers) == ([], {})


@pytest.mark.fault(129)
@pytest.mark.parametrize(
    "forged",
    [
        lambda request: ApprovalDecision(request.call_id, "0" * 64, "allow"),
        lambda request: PermissionRequest(request.call_id, "put", '{"item": "b"}').allow(),
        lambda request: PermissionRequest(request.call_id, "drop", request.arguments).allow_session(),
    ],
    ids=["no fingerprint", "other arguments", "another tool"],
)
@pytest.mark.parametrize("how", ["answers", "stream", "approver"])
def test_an_answer_to_something_else_denies(engine_api: EngineAPI, forged: Any, how: str) -> None:
    shelf, _, engine = shelf_and_engine(put("a", "1"), forged if how == "approver" else "later")

    def watch(stream: Any, event: Any) -> None:
        if how == "stream" and isinstance(event, PermissionRequest):
            stream.answer(forged(event))

    engine_api.stream(engine, "Go.", watch=watch)
    if how == "answers":
        engine_api.submit(engine, answers=[forged(engine.pending[0])])
    assert shelf.put_there == []
    assert "on another call, or on other arguments" in results(engine.history)[0].content
    assert engine.conversation.remembered == []


def test_an_answer_on_the_stream_comes_before_the_approver(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine(put("a", "1"), lambda request: pytest.fail("asked"))

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, PermissionRequest):
            stream.answer(event.allow())

    engine_api.stream(engine, "Go.", watch=watch)
    assert shelf.put_there == ["1"]


def test_text_in_place_of_answers_leaves_the_calls_unrun(engine_api: EngineAPI) -> None:
    shelf, llm, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    engine_api.submit(engine, "Go.")
    turn = engine_api.submit(engine, "Forget it.")
    assert turn.text == "Done." and len(turn.messages) == 1
    assert shelf.put_there == []
    assert [(one.call_id, one.is_error) for one in results(engine.history)] == [("a", True), ("b", True)]
    assert "not run" in results(engine.history)[0].content
    list(valid_requests(llm.requests))
    check(engine)


# Resuming


def resumed(engine: Engine, *answers: Any, tools: Any, **options: Any) -> tuple[ScriptedLLM, Engine]:
    """Another engine, as after a restart."""
    llm = ScriptedLLM(*answers)
    other = Engine(llm, tools, **options)
    other.restore(json.loads(json.dumps(engine.snapshot())))
    return llm, other


def test_after_a_restart_calls_without_a_result_are_run(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    engine_api.submit(engine, "Go.")
    llm, other = resumed(engine, "All there.", tools=[shelf.put])
    assert engine_api.submit(other).text == "All there."
    assert shelf.put_there == ["1", "2"]
    assert len(llm.requests) == 1
    check(other)


def test_after_a_restart_pending_requests_are_the_same(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine(put("a", "1"), "later")
    turn = engine_api.submit(engine, "Go.")
    _, other = resumed(engine, "ok", tools=[shelf.put], permissions=Permissions(approve="later"))
    assert other.pending == turn.pending
    engine_api.submit(other, answers=[turn.pending[0].allow()])
    assert shelf.put_there == ["1"]


@pytest.mark.fault(130)
@pytest.mark.parametrize("idempotent", [True, False])
def test_after_a_restart_what_had_begun_runs_again_only_if_it_may(engine_api: EngineAPI, idempotent: bool) -> None:
    shelf, _, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    engine_api.submit(engine, "Go.")
    engine.conversation.started.add("a")
    tool = CallableTool.from_function(shelf.put).with_(idempotent=idempotent)
    _, other = resumed(engine, "ok", tools=[tool])
    engine_api.submit(other)
    assert shelf.put_there == (["1", "2"] if idempotent else ["2"])
    assert [one.is_error for one in results(other.history)] == [not idempotent, False]
    assert other.conversation.started == set()
    check(other)


def test_a_new_message_after_a_restart_reports_calls_that_had_begun(engine_api: EngineAPI) -> None:
    shelf, _, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    engine_api.submit(engine, "Go.")
    engine.conversation.started.add("a")
    _, other = resumed(engine, "ok", tools=[shelf.put])
    engine_api.submit(other, "What happened?")
    first, second = results(other.history)
    assert "may have had its effect" in first.content and "not run" in second.content
    assert other.conversation.started == set() and shelf.put_there == []
    check(other)


def test_a_tool_is_marked_as_started_while_it_runs(engine_api: EngineAPI) -> None:
    seen: list[set[str]] = []

    def look() -> str:
        """Look."""
        seen.append(set(engine.conversation.started))
        return "ok"

    engine = Engine(ScriptedLLM([call("a", "look"), call("b", "look")], "ok"), [look])
    engine_api.submit(engine, "Go.")
    assert seen == [{"a"}, {"b"}]
    assert engine.conversation.started == set()


# Errors that end the turn


def raises(error: BaseException) -> CallableTool:
    def work() -> str:
        raise error

    return CallableTool.from_function(work, "work", "Work.")


@pytest.mark.parametrize("beside", [False, True], ids=["here", "beside"])
def test_a_tool_can_end_the_turn_as_failed(engine_api: EngineAPI, beside: bool) -> None:
    shelf = Shelf()
    llm = ScriptedLLM([call("a", "work"), put("b", "x")], "Done.")
    work = raises(FailTurn("the licence has expired")).with_(timeout=60 if beside else None)
    engine = Engine(llm, [work, shelf.put])
    with pytest.raises(TurnFailed, match=r"^the tool work ended the turn: the licence has expired$") as caught:
        engine_api.submit(engine, "Go.")
    assert isinstance(caught.value.__cause__, FailTurn)
    assert (caught.value.tool_name, shelf.put_there, len(llm.requests)) == ("work", [], 1)
    turn = caught.value.turn
    assert turn is not None and turn.end == "error"
    failed, left = results(engine.history)
    assert (failed.content, left.content, left.is_error) == ("the licence has expired", NOT_RUN, True)
    check(engine)
    assert engine_api.submit(engine, "Go on.").text == "Done."


def test_a_session_and_an_elf_end_as_failed() -> None:
    def engine() -> Engine:
        return Engine(ScriptedLLM(call("a", "work"), "Done."), [raises(FailTurn("gone"))])

    with Session(engine()) as session, pytest.raises(TurnFailed, match="gone"):
        session.run("Go.")
    assert session.state in ("error", "closed")
    result = ElfManager(engine()).spawn(ElfConfig("Go.", background=False)).wait()
    assert result.status == "failed"
    assert isinstance(result.error, TurnFailed)


def test_what_a_tool_raises_is_a_result_by_default(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "work"), "I see."), [raises(OSError("no disk"))])
    assert engine_api.submit(engine, "Go.").text == "I see."
    assert results(engine.history)[0].content == "OSError: no disk"


@pytest.mark.parametrize(
    ("error", "words"), [(OSError("no disk"), "OSError: no disk"), (FailTurn(), "FailTurn"), (KeyError(), "KeyError")]
)
def test_an_engine_can_let_every_error_of_a_tool_end_the_turn(
    engine_api: EngineAPI, error: Exception, words: str
) -> None:
    engine = Engine(ScriptedLLM(call("a", "work"), "I see."), [raises(error)], tool_errors="raise")
    with pytest.raises(TurnFailed, match=f"^the tool work ended the turn: {words}$") as caught:
        engine_api.submit(engine, "Go.")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("set_where", ["tool", "engine", "default"])
def test_errors_of_tools_end_turns_by_the_nearest_setting(engine_api: EngineAPI, set_where: str) -> None:
    work = raises(OSError("no disk")).with_(tool_errors="raise" if set_where == "tool" else None)
    made = Engine(
        ScriptedLLM(call("a", "work")), [work], tool_errors={"tool": "return", "engine": "raise"}.get(set_where)
    )
    default: Literal["return", "raise"] = "raise" if set_where == "default" else "return"
    with Configs.use(tool_errors=default), pytest.raises(TurnFailed, match="no disk"):
        engine_api.submit(made, "Go.")


def test_a_tool_can_return_its_errors_where_the_engine_raises_them(engine_api: EngineAPI) -> None:
    work = raises(OSError("no disk")).with_(tool_errors="return")
    engine = Engine(ScriptedLLM(call("a", "work"), "I see."), [work], tool_errors="raise")
    assert engine_api.submit(engine, "Go.").text == "I see."


def test_the_default_handling_of_tool_errors_is_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ScriptedLLM(call("a", "work"), "I see."), [raises(OSError("no disk"))])
    monkeypatch.setattr(Configs, "tool_errors", "raise")
    with pytest.raises(TurnFailed, match="no disk"), Session(engine) as session:
        session.run("Go.")  # in a thread of its own


def test_an_unknown_handling_of_tool_errors_is_refused() -> None:
    wrong: Any = "log"
    refused = pytest.raises(ValueError, match=r"^tool_errors='log' is not 'return' or 'raise'$")
    with refused:
        raises(OSError()).with_(tool_errors=wrong)
    with refused:
        Engine(ScriptedLLM(), tool_errors=wrong)
    with refused:
        Configs.tool_errors = wrong
    with refused, Configs.use(tool_errors=wrong):
        pass
    assert Configs.tool_errors == "return"


def test_an_error_of_a_call_inside_a_tool_is_raised_too(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "work"), "I see."), [raises(RateLimited("too fast"))], tool_errors="raise")
    with pytest.raises(TurnFailed, match="too fast"):
        engine_api.submit(engine, "Go.")


@pytest.mark.parametrize("failing", ["work", "arguments", "slow"])
def test_a_tool_that_fails_more_often_than_its_retries_ends_the_turn(engine_api: EngineAPI, failing: str) -> None:
    released = threading.Event()

    def work(times: int) -> str:
        if failing == "slow":
            released.wait(30)
        if times < 3:
            raise TryAgain(f"{times} is too few")
        return "done"

    def calls(*times: Any) -> list[Any]:
        return [call(f"c{number}", "work", f'{{"times": {time}}}') for number, time in enumerate(times)]

    wrong = {"work": 1, "arguments": '"x"', "slow": 5}[failing]
    tool = CallableTool.from_function(work).with_(retries=1, timeout=0.01 if failing == "slow" else None)
    if failing != "slow":  # a call that succeeds begins a new row, and so does a turn
        good = [*calls(wrong, 5, wrong), "I see."]
        engine = Engine(ScriptedLLM(*good, *calls(wrong), "I see."), [tool])
        assert engine_api.submit(engine, "Go.").text == engine_api.submit(engine, "Go.").text == "I see."
    engine = Engine(ScriptedLLM(*calls(wrong, wrong), "I see."), [tool])
    with pytest.raises(TurnFailed, match=r"^the tool work failed 2 times and ended the turn: ") as caught:
        engine_api.submit(engine, "Go.")
    released.set()
    assert caught.value.tool_name == "work"
    assert len(results(engine.history)) == 2  # the model has each of the errors


@pytest.mark.parametrize("retries", [-1, 1.5, True])
def test_retries_are_a_number_of_calls(retries: Any) -> None:
    with pytest.raises(ValueError, match=rf"retries={retries} is not a number of calls: expected 0 or more, or None"):
        raises(OSError()).with_(retries=retries)


def test_denied_calls_are_no_failures_of_the_tool(engine_api: EngineAPI) -> None:
    engine = Engine(
        ScriptedLLM(call("a", "work"), call("b", "work"), "I see."),
        [raises(OSError()).with_(retries=0)],
        permissions=Permissions(approve=lambda request: False),
    )
    assert engine_api.submit(engine, "Go.").text == "I see."


@pytest.mark.parametrize("calls", [call("a", "work"), call("a", "other"), call("a", "work", '{"x": ')])
def test_words_to_the_model_do_not_end_the_turn(engine_api: EngineAPI, calls: ToolCallPart) -> None:
    tools = [raises(TryAgain("later"))]
    engine = Engine(ScriptedLLM(calls, "I see."), tools, tool_errors="raise")
    assert engine_api.submit(engine, "Go.").text == "I see."


@pytest.mark.parametrize("error", [NameError("name 'x' is not defined"), OSError("no disk"), RateLimited("too fast")])
@pytest.mark.parametrize("beside", [False, True], ids=["here", "beside"])
def test_an_exception_of_a_tool_is_logged(
    engine_api: EngineAPI, caplog: pytest.LogCaptureFixture, error: Exception, beside: bool
) -> None:
    work = raises(error).with_(timeout=60 if beside else None)
    assert engine_api.submit(Engine(ScriptedLLM(call("a", "work"), "I see."), [work]), "Go.").text == "I see."
    (record,) = [record for record in caplog.records if record.levelno > logging.INFO]
    assert (record.name, record.levelno) == ("toolcast", logging.WARNING)
    assert record.getMessage() == f"the tool work raised {type(error).__name__}"
    assert record.exc_info is not None and record.exc_info[1] is error and error.__traceback__ is not None


def test_an_exception_of_a_validator_of_arguments_is_logged(
    engine_api: EngineAPI, caplog: pytest.LogCaptureFixture
) -> None:
    def check_item(item: str) -> str:
        raise KeyError(item)

    def work(item: Annotated[str, AfterValidator(check_item)]) -> str:
        """Work."""
        return item

    engine = Engine(ScriptedLLM(call("a", "work", '{"item": "x"}'), "I see."), [work])
    engine_api.submit(engine, "Go.")
    (record,) = [record for record in caplog.records if record.levelno > logging.INFO]
    assert record.getMessage() == "the tool work raised KeyError"


@pytest.mark.parametrize("calls", [call("a", "work"), call("a", "other"), call("a", "work", '{"x": ')])
def test_answers_for_the_model_are_not_logged(
    engine_api: EngineAPI, caplog: pytest.LogCaptureFixture, calls: ToolCallPart
) -> None:
    engine_api.submit(Engine(ScriptedLLM(calls, "I see."), [raises(TryAgain("later"))]), "Go.")
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


# An approver of all calls


@pytest.mark.parametrize("kind", [as_sync, as_async, as_awaited])
def test_all_calls_that_wait_are_approved_at_once(engine_api: EngineAPI, kind: Any) -> None:
    asked: list[list[str]] = []

    def approve_all(requests: Any) -> Any:
        asked.append([request.call_id for request in requests])
        if len(requests) == 1:
            return True
        first, second, third = requests
        return [third.edit({"item": "z"}), first.allow(), second.deny("no room")]

    shelf = Shelf()
    llm = ScriptedLLM([put("a", "x"), call("r", "look"), put("b", "y"), put("c", "w")], put("d", "v"), "Done.")
    look = CallableTool.from_function(shelf.put, "look").with_(read_only=True)
    permissions = Permissions("auto", approve_all=kind(approve_all))
    engine = Engine(llm, [shelf.put, look], permissions=permissions)
    record = engine_api.stream(engine, "Go.")
    assert record.turn is not None and record.turn.text == "Done."
    assert asked == [["a", "b", "c"], ["d"]]
    assert [request.call_id for request in record.of(PermissionRequest)] == ["a", "b", "c", "d"]
    assert shelf.put_there == ["x", "z", "v"]
    assert "no room" in results(engine.history)[2].content
    check(engine)


def raising_for_all(requests: Any) -> bool:
    raise OSError("no terminal")


@pytest.mark.parametrize(
    ("decide", "runs"),
    [
        (lambda requests: True, ["x", "y"]),
        (lambda requests: False, []),
        (lambda requests: None, []),
        (lambda requests: "yes", []),
        (lambda requests: 1, []),
        (lambda requests: [], []),
        (lambda requests: [True, True], []),
        (lambda requests: [requests[1].allow()], ["y"]),
        (lambda requests: [requests[0].allow(), requests[0].deny(), requests[1].allow()], []),
        (lambda requests: [requests[0].allow(), PermissionRequest("b", "put", '{"item": "z"}').allow()], ["x"]),
        (lambda requests: (request.allow_session() for request in requests), ["x", "y"]),
        (raising_for_all, []),
    ],
)
def test_only_what_was_approved_runs(engine_api: EngineAPI, decide: Any, runs: list[str]) -> None:
    shelf = Shelf()
    llm = ScriptedLLM([put("a", "x"), put("b", "y")], "Done.")
    engine = Engine(llm, [shelf.put], permissions=Permissions(approve_all=decide))
    assert engine_api.submit(engine, "Go.").text == "Done."
    assert shelf.put_there == runs
    assert [part.is_error for part in results(engine.history)].count(False) == len(runs)
    check(engine)


def test_a_reader_of_the_events_decides_before_the_approver_of_all(engine_api: EngineAPI) -> None:
    asked: list[str] = []

    def approve_all(requests: Any) -> bool:
        asked.extend(request.call_id for request in requests)
        return False

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, PermissionRequest) and event.call_id in given:
            stream.answer(event.allow())

    given: set[str] = set()
    for early, left, runs in (("a", "b", ["x"]), ("ab", "", ["x", "y"])):
        given.update(early)
        shelf = Shelf()
        llm = ScriptedLLM([put("a", "x"), put("b", "y")], "Done.")
        engine = Engine(llm, [shelf.put], permissions=Permissions(approve_all=approve_all))
        engine_api.stream(engine, "Go.", watch=watch)
        assert ("".join(asked), shelf.put_there) == (left, runs)
        asked.clear()


# Arguments


def test_arguments_that_are_read_leniently_are_kept_as_valid_json(engine_api: EngineAPI) -> None:
    shelf, llm, engine = shelf_and_engine(call("a", "put", "```json\n{'item': 'x',}\n```"), PermissionRequest.allow)
    text = engine_api.stream(engine, "Go.")
    assert shelf.put_there == ["x"]
    (made,) = engine.history[1].tool_calls
    assert json.loads(made.arguments) == {"item": "x"} and not made.truncated
    assert text.of(PermissionRequest)[0].arguments == made.arguments
    list(valid_requests(llm.requests))
    check(engine)


@pytest.mark.fault(89, 94)
@pytest.mark.parametrize("arguments", ['{"item": ', "[1]", "3"])
def test_arguments_that_no_one_can_read_are_kept_as_cut_off_and_never_run(
    engine_api: EngineAPI, arguments: str
) -> None:
    calls = [call("a", "put", arguments), put("b", "x")]
    shelf, _, engine = shelf_and_engine(calls, "later")
    engine_api.submit(engine, "Go.")
    made, _ = engine.history[1].tool_calls
    assert (made.arguments, made.truncated) == ("{}", True)
    assert [one.call_id for one in engine.pending] == ["b"]
    assert find_problems(engine.history[:1]) == []
    _, other = resumed(engine, "ok", tools=[shelf.put])
    engine_api.submit(other)
    assert shelf.put_there == ["x"]
    assert [one.is_error for one in results(other.history)] == [True, False]
    check(other)


def test_repaired_arguments_that_cannot_be_inspected_are_denied(engine_api: EngineAPI) -> None:
    ran: list[Any] = []

    def put(item: Annotated[str, AfterValidator(iter)]) -> None:
        """Put it."""
        ran.append(item)

    engine = Engine(ScriptedLLM(call("a", "put", "{'item': 'x'}"), "ok"), [put])
    engine_api.submit(engine, "Go.")
    (made,) = engine.history[1].tool_calls
    (result,) = results(engine.history)
    assert (ran, made.arguments, made.truncated, result.is_error) == ([], "{}", True, True)
    assert result.content.startswith("permission denied: an argument is 'str_ascii_iterator'")
    check(engine)


def test_an_unknown_tool_with_broken_arguments_leaves_a_valid_history(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(call("a", "unknown", "{oops"), "ok"), [])
    engine_api.submit(engine, "Go.")
    list(valid_requests(llm.requests))
    check(engine)


@pytest.mark.fault(88)
def test_no_arguments_are_an_empty_object(engine_api: EngineAPI) -> None:
    def now() -> str:
        """What time it is."""
        return "noon"

    engine = Engine(ScriptedLLM(call("a", "now", ""), "ok"), [now])
    engine_api.submit(engine, "Go.")
    assert results(engine.history)[0].content == "noon"
    check(engine)


# Order and overlap


def test_E10_results_come_in_call_order(engine_api: EngineAPI) -> None:
    calls = [call(id, "work", json.dumps({"name": id})) for id in "abcd"]

    def work(name: str) -> str:
        """Work."""
        return name.upper()

    text = engine_api.stream(Engine(ScriptedLLM(calls, "ok"), [work]), "Go.")
    assert [event.content for event in text.of(ToolResult)] == ["A", "B", "C", "D"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_E10_tools_that_only_read_overlap(engine_api: EngineAPI, kind: str) -> None:
    meet = threading.Barrier(3)

    def look(name: str) -> str:
        """Look."""
        meet.wait(30)
        return name

    async def alook(name: str) -> str:
        await anyio.to_thread.run_sync(meet.wait, 10)
        return name

    tool = CallableTool.from_function(look if kind == "sync" else alook, "look", "Look.").with_(read_only=True)
    calls = [call(id, "look", json.dumps({"name": id})) for id in "abc"]
    engine = Engine(ScriptedLLM(calls, "ok"), [tool])
    text = engine_api.stream(engine, "Go.")
    assert [event.content for event in text.of(ToolResult)] == ["a", "b", "c"]
    assert [type(event) for event in text.of(ToolStarted, ToolResult)] == [ToolStarted] * 3 + [ToolResult] * 3


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_E10_tools_that_write_never_overlap(engine_api: EngineAPI, kind: str) -> None:
    inside: list[str] = []
    most: list[int] = []

    def write(name: str) -> str:
        """Write."""
        inside.append(name)
        most.append(len(inside))
        inside.remove(name)
        return name

    async def awrite(name: str) -> str:
        inside.append(name)
        await anyio.lowlevel.checkpoint()
        most.append(len(inside))
        inside.remove(name)
        return name

    def look(name: str) -> str:
        """Look."""
        most.append(len(inside) + 1)
        return name

    reads = CallableTool.from_function(look).with_(read_only=True)
    writes = CallableTool.from_function(write if kind == "sync" else awrite, "write", "Write.")
    names = ["write", "look", "write", "write", "look", "look", "write"]
    calls = [call(f"c{at}", name, json.dumps({"name": name})) for at, name in enumerate(names)]
    engine = Engine(ScriptedLLM(calls, "ok"), [reads, writes])
    text = engine_api.stream(engine, "Go.")
    assert most == [1] * 7
    assert [event.name for event in text.of(ToolResult)] == names
    check(engine)


def test_a_tool_can_declare_itself_parallel(engine_api: EngineAPI) -> None:
    meet = threading.Barrier(2)

    def work() -> str:
        """Work."""
        meet.wait(30)
        return "ok"

    tool = CallableTool.from_function(work).with_(parallel=True)
    engine = Engine(ScriptedLLM([call("a", "work"), call("b", "work")], "ok"), [tool])
    assert engine_api.submit(engine, "Go.").text == "ok"
    assert not any(one.is_error for one in results(engine.history))


# The context of tools and their progress


def test_a_tool_gets_its_call_id_and_reports_progress(engine_api: EngineAPI) -> None:
    known: list[Any] = []

    def work(context: ToolContext[str]) -> str:
        """Work."""
        known.append((context.call_id, context.tool, context.deps, context.cancelled))
        context.emit(1)
        context.emit(2)
        return "ok"

    engine = Engine(ScriptedLLM(call("a", "work"), "ok"), [work], deps="mine")
    text = engine_api.stream(engine, "Go.")
    assert known == [("a", "work", "mine", False)]
    assert text.of(ToolProgress) == [ToolProgress("a", "work", 1), ToolProgress("a", "work", 2)]


def test_what_a_tool_gives_is_cut_to_the_limit(engine_api: EngineAPI) -> None:
    def much() -> str:
        """Much."""
        return "x" * 10_000

    engine = Engine(ScriptedLLM(call("a", "much"), "ok"), [much], output_limit=500)
    engine_api.submit(engine, "Go.")
    assert len(results(engine.history)[0].content) < 700


def test_a_tool_that_takes_too_long_is_an_error_result(engine_api: EngineAPI) -> None:
    released = threading.Event()

    def hang() -> str:
        """Hang."""
        released.wait(10)
        return "late"

    engine = Engine(
        ScriptedLLM(call("a", "hang"), "ok"),
        [CallableTool.from_function(hang).with_(timeout=0.02)],
        tool_timeout=10,
    )
    try:
        assert engine_api.submit(engine, "Go.").text == "ok"
    finally:
        released.set()
    assert results(engine.history)[0].is_error
    check(engine)


# Cancelling while an approver is asked


def test_E9_cancel_from_another_thread_while_an_async_approver_waits(engine_api: EngineAPI) -> None:
    async def approve(request: PermissionRequest) -> bool:
        threading.Thread(target=engine.cancel).start()
        await anyio.sleep_forever()
        return True

    shelf, llm, engine = shelf_and_engine(put("a", "1"), approve)
    with pytest.raises(TurnCancelled):
        engine_api.submit(engine, "Go.")
    assert engine.trace[-3:] == ("permission_wait", "cancelled", "idle")
    assert results(engine.history)[0].is_error and shelf.put_there == []
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Done."
    list(valid_requests(llm.requests))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_E9_under_an_event_loop_a_sync_approver_is_left_behind(backend: str) -> None:
    released = threading.Event()

    def approve(request: PermissionRequest) -> bool:
        threading.Thread(target=engine.cancel).start()
        return released.wait(10)

    shelf, _, engine = shelf_and_engine(put("a", "1"), approve)
    try:
        with pytest.raises(TurnCancelled):
            AsyncEngineAPI(backend).submit(engine, "Go.")
    finally:
        released.set()
    assert shelf.put_there == []
    check(engine)


class BlockingApprover:
    """An approver that allows for the session, once it is released."""

    def __init__(self, kind: Callable[[Approver], Approver] = as_sync) -> None:
        self.asked, self.released = threading.Event(), threading.Event()
        self.thread = threading.current_thread()
        self.approve = kind(self._approve)

    def _approve(self, request: PermissionRequest) -> ApprovalDecision:
        self.thread = threading.current_thread()
        self.asked.set()
        assert self.released.wait(30)
        return request.allow_session()

    def approve_all(self, requests: Any) -> list[ApprovalDecision]:
        return [self._approve(request) for request in requests]


def submitted(engine: Engine) -> BaseException | None:
    try:
        engine.submit("Go.")
    except TurnCancelled as error:
        return error
    return None


def streamed(engine: Engine) -> BaseException | None:
    return EngineAPI().stream(engine, "Go.").error


@pytest.mark.parametrize("run", [submitted, streamed])
@pytest.mark.parametrize("kind", ["sync", "async", "all"])
def test_E9_a_turn_of_another_thread_leaves_a_blocking_approver_behind(
    kind: str, run: Callable[[Engine], BaseException | None]
) -> None:
    approver = BlockingApprover(as_async if kind == "async" else as_sync)
    one = {"approve_all": approver.approve_all} if kind == "all" else {"approve": approver.approve}
    shelf, llm = Shelf(), ScriptedLLM(put("a", "1"), put("b", "2"), "Done.")
    engine = Engine(llm, [shelf.put], permissions=Permissions(**one))  # type: ignore[arg-type]  # one of two options
    with ThreadPoolExecutor() as pool:
        error = pool.submit(run, engine)
        assert approver.asked.wait(30)
        engine.cancel()
        assert isinstance(error.result(30), TurnCancelled)
        assert approver.thread.is_alive() and not approver.released.is_set()
        approver.released.set()
        approver.thread.join(30)
        assert not approver.thread.is_alive()
        assert (shelf.put_there, engine.conversation.remembered, engine.conversation.answers) == ([], [], {})
        check(engine)
        # It was not remembered: the next call is asked about.
        approver.asked.clear()
        assert pool.submit(engine.submit, "Again.").result(30).text == "Done."
    assert approver.asked.is_set() and shelf.put_there == ["2"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_E9_a_cancelled_task_leaves_a_blocking_approver_behind(backend: str) -> None:
    approver = BlockingApprover()
    shelf, _, engine = shelf_and_engine(put("a", "1"), approver.approve)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(engine.asubmit, "Go.")
            assert await anyio.to_thread.run_sync(approver.asked.wait, 30)
            group.cancel_scope.cancel()
        assert approver.thread.is_alive() and not approver.released.is_set()
        approver.released.set()
        assert await anyio.to_thread.run_sync(approver.released.wait, 30)

    anyio.run(main, backend=backend)
    assert (shelf.put_there, engine.conversation.remembered, engine.conversation.answers) == ([], [], {})
    check(engine)


def test_E9_in_the_main_thread_a_sync_approver_runs_there_and_ctrl_c_interrupts_it() -> None:
    threads: list[threading.Thread] = []

    def approve(request: PermissionRequest) -> bool:
        threads.append(threading.current_thread())
        signal.raise_signal(signal.SIGINT)
        return True

    shelf, _, engine = shelf_and_engine(put("a", "1"), approve)
    with pytest.raises(KeyboardInterrupt):
        engine.submit("Go.")
    assert (threads, shelf.put_there) == ([threading.main_thread()], [])
    check(engine)


def test_E9_an_approver_in_a_thread_of_its_own_sees_the_context_and_its_error_denies() -> None:
    where: ContextVar[str] = ContextVar("where", default="nowhere")
    seen: list[str] = []

    def approve(request: PermissionRequest) -> bool:
        seen.append(where.get())
        raise OSError("no terminal")

    def run() -> str:
        where.set("here")
        return engine.submit("Go.").text

    shelf, _, engine = shelf_and_engine(put("a", "1"), approve)
    with ThreadPoolExecutor() as pool:
        assert pool.submit(run).result(30) == "Done."
    assert (seen, shelf.put_there) == (["here"], [])
    assert "the approver failed: OSError" in results(engine.history)[0].content


def test_E9_without_an_event_loop_a_cancelled_turn_waits_for_a_sync_approver() -> None:
    def approve(request: PermissionRequest) -> bool:
        canceller = threading.Thread(target=engine.cancel)
        canceller.start()
        canceller.join()
        return True

    shelf, _, engine = shelf_and_engine(put("a", "1"), approve)
    with pytest.raises(TurnCancelled):
        engine.submit("Go.")
    assert shelf.put_there == []
    check(engine)


# What was found out about answers


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        (lambda request: [request.allow(), request.deny()], "or it got two"),
        (lambda request: [PermissionRequest("x", "put", request.arguments).allow()], "no call 'x' waits"),
        (lambda request: [True], r"request\.allow"),
    ],
    ids=["two to one call", "to no call", "no answer at all"],
)
def test_answers_that_cannot_be_taken(answers: Any, error: str) -> None:
    shelf, llm, engine = shelf_and_engine([put("a", "1")], "later")
    (request,) = engine.submit("Go.").pending
    with pytest.raises((ValueError, TypeError), match=error):
        engine.submit(answers=answers(request))
    assert (shelf.put_there, len(llm.requests), engine.pending) == ([], 1, (request,))
    with pytest.raises(ValueError, match="without text"):
        engine.submit("And?", answers=[request.allow()])
    with pytest.raises(TypeError, match=r"request\.allow"):
        engine.stream().answer(True)  # type: ignore[arg-type]  # that is what is tried
    assert engine.state == "idle"


@pytest.mark.fault(129)
def test_an_answer_to_another_conversation_approves_nothing_later() -> None:
    old = PermissionRequest("a", "put", '{"item": "1"}').allow()
    shelf, _, engine = shelf_and_engine([put("a", "1")], "later")
    with pytest.raises(ValueError, match="no message, and no history"):
        engine.submit(answers=[old])
    engine.inject("Hello.")
    with pytest.raises(ValueError, match="no call 'a' waits"):
        engine.submit(answers=[old])
    assert engine.submit("Go.").end == "approval" and shelf.put_there == []


def test_answers_that_wait_for_others_are_kept_over_a_restart() -> None:
    shelf, _, engine = shelf_and_engine([put("a", "1"), put("b", "2")], "later")
    one, two = engine.submit("Go.").pending
    engine.submit(answers=[one.deny("not that")])
    engine.inject("Be quick.")
    stored = json.loads(json.dumps(engine.snapshot()))
    llm = ScriptedLLM("Done.")
    later = Engine(llm, engine.tools, permissions=engine.permissions)
    later.restore(stored)
    assert later.pending == (two,)
    later.submit(answers=[two.allow()])
    assert shelf.put_there == ["2"]
    assert [one.content for one in results(later.history)] == ["permission denied: not that", "2 is there"]
    assert llm.requests[0].messages[-1].text == "Be quick."
    check(later)


@pytest.mark.parametrize("doubled", ['{"item": "nothing", "item": "1"}', '{"item" : "nothing", "it\\u0065m" : "1"}'])
def test_what_is_sent_twice_is_shown_as_it_will_run(doubled: str) -> None:
    shelf, _, engine = shelf_and_engine([ToolCallPart("a", "put", doubled)], "later")
    (request,) = engine.submit("Go.").pending
    assert json.loads(request.arguments) == {"item": "1"} and "nothing" not in request.arguments
    engine.submit(answers=[request.allow()])
    assert shelf.put_there == ["1"]


def test_a_path_is_looked_at_again_when_a_tool_has_run(tmp_path: Path, engine_api: EngineAPI) -> None:
    """What was a file when it was asked about may be a way to something else by now."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "key").write_text("secret")

    def unpack(archive: str) -> str:
        """Unpack an archive."""
        (tmp_path / "x").symlink_to(tmp_path / ".ssh")
        return "done"

    def read(path: str) -> str:
        """Read a file."""
        return Path(path).read_text()

    wanted = ToolCallPart("b", "read", json.dumps({"path": str(tmp_path / "x" / "key")}))
    engine = Engine(ScriptedLLM([call("a", "unpack", '{"archive": "x.zip"}'), wanted], "Hm."), [unpack, read])
    engine_api.submit(engine, "Go.")
    (tmp_path / "x").unlink(missing_ok=True)
    assert [one.is_error for one in results(engine.history)] == [False, True]
    assert "protected" in results(engine.history)[1].content


def test_long_changed_arguments_are_reported_shortened() -> None:
    _, _, engine = shelf_and_engine([put("a", "1")], lambda request: request.edit({"item": "2" * 5_000}))
    engine.submit("Go.")
    assert len(results(engine.history)[0].content.splitlines()[0]) < 600


# Errors that the developer of a tool can correct, and the model cannot.


def test_a_connection_that_belongs_to_another_thread_is_in_the_log_with_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:

        def count() -> int:
            """Count."""
            found: int = connection.execute("SELECT 1").fetchone()[0]
            return found

        tool = replace(CallableTool.from_function(count), timeout=30)  # with a limit it runs in a thread
        engine = Engine(ScriptedLLM(ToolCallPart("1", "count", "{}"), "I cannot."), [tool])
        with caplog.at_level(logging.WARNING, "toolcast"):
            engine.submit("Count.")
    (result,) = results(engine.history)
    assert "ProgrammingError" in result.content and "check_same_thread" not in result.content
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    for words in (
        "count raised ProgrammingError",
        "check_same_thread=False",
        "under a lock",
        "inside the tool",
        "async",
    ):
        assert words in record.getMessage()


def fail_in_another_loop() -> None:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()

    async def wait() -> None:
        await future

    asyncio.run(wait())


def fail_without_a_loop() -> None:
    asyncio.get_running_loop()


def fail_in_another_context() -> None:
    variable = ContextVar[int]("variable")
    variable.reset(copy_context().run(variable.set, 1))


def fail_outside_of_the_main_thread() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (fail_in_another_loop, "of one event loop was used in another"),
        (fail_without_a_loop, "has no event loop. Write the tool with async def"),
        (fail_in_another_context, "in a copy of the context"),
        (fail_outside_of_the_main_thread, "Pass the work on to the thread"),
    ],
)
def test_objects_of_another_loop_context_or_thread_are_in_the_log_with_the_remedy(
    caplog: pytest.LogCaptureFixture, fail: Callable[[], None], words: str
) -> None:
    def work() -> str:
        """Work."""
        fail()
        return "done"

    tool = replace(CallableTool.from_function(work), timeout=30)
    engine = Engine(ScriptedLLM(ToolCallPart("1", "work", "{}"), "I cannot."), [tool])
    with caplog.at_level(logging.WARNING, "toolcast"):
        engine.submit("Work.")
    (record,) = [record for record in caplog.records if record.name == "toolcast"]
    assert words in record.getMessage()
    (result,) = results(engine.history)
    assert words not in result.content


def test_another_error_has_no_remedy(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> str:
        """Work."""
        raise ValueError("the row 7 is missing")

    engine = Engine(ScriptedLLM(ToolCallPart("1", "work", "{}"), "I cannot."), [work])
    with caplog.at_level(logging.WARNING, "toolcast"):
        engine.submit("Work.")
    assert [record.getMessage() for record in caplog.records] == ["the tool work raised ValueError"]
