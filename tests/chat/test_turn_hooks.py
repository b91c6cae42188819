"""turn_hooks.py: the hooks and spans of a chat's turns, however they begin and end, on every API."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from support.chat_drivers import PATIENCE, ChatAPI
from support.engines import call
from support.telemetry import attributes, recorded
from toolcast.agents import Compaction, LLMSearch
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.chat.events import GenerationFailure, Interrupt, QueueMessage, RejectToolCall, Stop
from toolcast.errors import BudgetExceeded, RoundsExceeded, ServerError, ToolcastError, TurnCancelled, TurnFailed
from toolcast.messages import Message
from toolcast.testing import ScriptedLLM
from toolcast.values.budgets import Budget
from toolcast.values.hooks import CallInfo, Hooks
from toolcast.values.turn import Turn


class Watch(Hooks):
    """The turns of a chat: how each began and ended, and what was below it."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.turns: list[Turn] = []
        self.errors: list[BaseException] = []
        self.states: list[str] = []
        self.parents: dict[str, str | None] = {}
        self.ids: list[str] = []
        self.ended = threading.Semaphore(0)

    def turn_start(self, call: CallInfo, messages: tuple[Message, ...]) -> None:
        self.ids.append(call.id)
        self.asked.append([message.text for message in messages])

    def request(self, call: CallInfo, request: Any) -> None:
        self.parents[call.id] = call.parent

    def error(self, call: CallInfo, error: BaseException) -> None:
        if call.operation == "turn":
            self.errors.append(error)

    def state(self, call: CallInfo, state: str) -> None:
        assert call.id == self.ids[-1]
        self.states.append(state)

    def turn(self, call: CallInfo, turn: Turn) -> None:
        assert call.id in self.ids
        self.turns.append(turn)
        self.ended.release()

    @property
    def ends(self) -> list[str]:
        return [turn.end for turn in self.turns]

    def wait(self) -> Turn:
        """Wait for the end of a turn whose work is stopped elsewhere."""
        assert self.ended.acquire(timeout=PATIENCE)
        return self.turns[-1]


def look(value: int = 1) -> str:
    return f"{value} seen"


def opposite(value: int) -> str:
    return str(-value)


def opened(chats: ChatAPI, watch: Watch, *answers: Any, **options: Any) -> Any:
    options = {"permissions": Permissions("bypass"), "hooks": watch, **options}
    chat = chats.open(engine=Engine(ScriptedLLM(*answers), [look], **options))
    chats.dispatch(chat, "LOAD_MODEL")
    chats.until(chat, "ready")
    return chat


def send(chats: ChatAPI, chat: Any, text: str = "Look.") -> None:
    chats.dispatch(chat, QueueMessage(text))
    chats.until(chat)


def test_a_turn_with_its_requests_and_tools(chats: ChatAPI) -> None:
    watch = Watch()
    chat = opened(chats, watch, call("1", "look"), "Done.")
    send(chats, chat)
    (turn,) = watch.turns
    assert (watch.asked, turn.end, turn.rounds, watch.errors) == ([["Look."]], "end_turn", 2, [])
    assert [message.role for message in turn.messages] == ["assistant", "tool", "assistant"]
    assert turn.text == "Done." and turn.usage == chat.context.usage
    assert set(watch.parents.values()) == set(watch.ids)
    work = ["searching_tools", "generating_response", "streaming_response"]
    assert watch.states == [*work, "calling_tool", *work, "ready"]


def test_messages_that_wait_begin_a_turn_of_their_own(chats: ChatAPI) -> None:
    watch, begun, may_end = Watch(), threading.Event(), threading.Event()

    def wait() -> str:
        begun.set()
        assert may_end.wait(PATIENCE)
        return "waited"

    engine = Engine(
        ScriptedLLM(call("1", "wait", "{}"), "One.", "Two."), [wait], permissions=Permissions("bypass"), hooks=watch
    )
    chat = chats.open(engine=engine)
    chats.dispatch(chat, "LOAD_MODEL")
    chats.until(chat, "ready")
    chats.dispatch(chat, QueueMessage("First."))
    assert begun.wait(PATIENCE)
    chats.dispatch(chat, QueueMessage("Second."), QueueMessage("Third."))
    may_end.set()
    chats.until(chat)
    assert watch.asked == [["First."], ["Second.", "Third."]]
    assert [turn.text for turn in watch.turns] == ["One.", "Two."]
    assert [len(turn.messages) for turn in watch.turns] == [3, 1]


def test_a_turn_that_waits_for_an_approval_and_the_one_that_continues_it(chats: ChatAPI) -> None:
    watch = Watch()
    chat = opened(chats, watch, call("1", "look"), "Done.", permissions=Permissions("default"))
    send(chats, chat)
    (waits,) = watch.turns
    assert (waits.end, [request.tool for request in waits.pending]) == ("approval", ["look"])
    chats.dispatch(chat, RejectToolCall(reason="no"))
    chats.until(chat)
    assert (watch.asked, watch.ends) == ([["Look."], []], ["approval", "end_turn"])
    assert [message.role for message in watch.turns[1].messages] == ["tool", "assistant"]
    assert watch.turns[1].pending == ()


def test_a_turn_without_a_round_left(chats: ChatAPI) -> None:
    watch = Watch()
    chat = opened(chats, watch, call("1", "look"), call("2", "look"), max_rounds=1)
    send(chats, chat)
    assert (watch.ends, [type(error) for error in watch.errors]) == (["stopped"], [RoundsExceeded])
    error = watch.errors[0]
    assert isinstance(error, RoundsExceeded) and error.turn is watch.turns[0]
    assert ([attempt.number for attempt in error.attempts], error.provider) == ([1, 2], "scripted")


def test_a_budget_that_is_used_up(chats: ChatAPI) -> None:
    watch = Watch()
    chat = opened(chats, watch, "Done.", "More.", budget=Budget(tokens=1))
    send(chats, chat)
    send(chats, chat)
    assert (watch.ends, [type(error) for error in watch.errors]) == (["end_turn", "stopped"], [BudgetExceeded])


def test_a_request_that_fails_and_its_retry(chats: ChatAPI) -> None:
    watch = Watch()
    chat = opened(chats, watch, ServerError("down"), "Done.")
    send(chats, chat)
    (error,) = watch.errors
    assert (watch.ends, str(error)) == (["error"], "scripted scripted: down")
    chats.dispatch(chat, "RETRY_GENERATION")
    chats.until(chat)
    assert (watch.asked, watch.ends) == ([["Look."], []], ["error", "end_turn"])


def test_a_tool_that_fails(chats: ChatAPI) -> None:
    watch = Watch()

    def fails() -> str:
        raise RuntimeError("broken")

    engine = Engine(ScriptedLLM(call("1", "fails", "{}")), [fails], permissions=Permissions("bypass"), hooks=watch)
    chat = chats.open(engine=engine)
    chats.dispatch(chat, "LOAD_MODEL")
    chats.until(chat, "ready")
    send(chats, chat)
    assert (watch.ends, [type(error) for error in watch.errors]) == (["error"], [TurnFailed])
    assert "broken" in str(watch.errors[0])


def test_a_failure_that_a_stage_of_the_user_emits(chats: ChatAPI) -> None:
    watch = Watch()

    async def generate(work: Any) -> None:
        work.emit(GenerationFailure("no idea"))

    engine = Engine(ScriptedLLM(), hooks=watch)
    chat = chats.open(engine=engine, perform={"generate": generate})
    chats.dispatch(chat, "LOAD_MODEL")
    chats.until(chat, "ready")
    send(chats, chat)
    assert [(type(error), str(error)) for error in watch.errors] == [(ToolcastError, "no idea")]


@pytest.mark.parametrize(
    "how", [Interrupt(), Stop(), "close", "restore"], ids=["interrupt", "stop", "close", "restore"]
)
def test_a_turn_that_is_cancelled_ends_when_its_work_has_ended(chats: ChatAPI, how: Any) -> None:
    watch = Watch()
    begun = threading.Event()

    async def generate(work: Any) -> None:
        begun.set()
        stopped = threading.Event()
        work.cancellation.then(stopped.set)
        if work.concurrent:
            import anyio

            await anyio.sleep_forever()
        assert stopped.wait(PATIENCE)

    chat = chats.open(engine=Engine(ScriptedLLM(), hooks=watch), perform={"generate": generate})
    chats.dispatch(chat, "LOAD_MODEL")
    chats.until(chat, "ready")
    chats.dispatch(chat, QueueMessage("Look."))
    assert begun.wait(PATIENCE)
    if how == "close":
        chats.close(chat)
    elif how == "restore":
        chats.call(chat.restore, chat.snapshot())
    else:
        chats.dispatch(chat, how)
    assert watch.wait().end == "cancelled"
    (error,) = watch.errors
    assert isinstance(error, TurnCancelled) and error.turn is watch.turns[0]
    assert len(watch.turns) == 1


def test_the_engines_hooks_observe_summaries_and_tool_searches(chats: ChatAPI) -> None:
    watch = Watch()
    summaries = ScriptedLLM("A summary.", model="summaries")
    choices = ScriptedLLM('{"tools": []}', model="choices")
    llm = ScriptedLLM("One.", "Two.")
    engine = Engine(
        llm,
        [look, opposite],
        hooks=watch,
        compaction=Compaction(keep=0, summarise=summaries, at=1),
        history=[Message("user", "Hello." * 9), Message("assistant", "Hi." * 9)],
    )
    chat = chats.open(engine=engine, search=LLMSearch(choices, limit=1))
    chats.dispatch(chat, "LOAD_MODEL")
    chats.until(chat, "ready")
    send(chats, chat)
    assert len(watch.parents) == 3 and set(watch.parents.values()) == set(watch.ids)
    assert watch.turns[0].usage == engine.conversation.spending.usage


@pytest.mark.parametrize("capture", [False, True])
def test_turns_have_spans(chats: ChatAPI, capture: bool) -> None:
    def ask(text: str) -> str:
        return ScriptedLLM("Hello.", model="inner").chat(text).text

    llm = ScriptedLLM(call("1", "ask", '{"text": "a"}'), call("2", "ask", '{"text": 1}'), "Done.")
    engine = Engine(llm, [ask], permissions=Permissions("bypass"))
    with recorded(capture_content=capture) as telemetry:
        chat = chats.open(engine=engine)
        chats.dispatch(chat, "LOAD_MODEL")
        chats.until(chat, "ready")
        send(chats, chat)
        chats.close(chat)
    assert telemetry.tree() == [
        "invoke_agent",
        "  chat scripted",
        "  execute_tool ask",
        "    chat inner",
        "  chat scripted",
        "  execute_tool ask",
        "  chat scripted",
    ]
    ran, invalid = telemetry.of("execute_tool ask")
    assert (ran.status.status_code, invalid.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert ("gen_ai.tool.call.arguments" in attributes(ran)) is capture
    turn = attributes(telemetry.one("invoke_agent"))
    assert (turn["toolcast.turn.end"], turn["toolcast.turn.rounds"]) == ("end_turn", 3)
