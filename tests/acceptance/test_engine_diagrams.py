"""The document of UML diagrams, read by its author: the turn, the session, the stream, the adapters, the elves.

Twenty cases of the kind "that is not what I described". Public names only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import pytest

import toolcast
from toolcast import Anthropic, Engine, Google, Mistral, OpenAI, Permissions, Session, ToolCallPart
from toolcast.agents import BackgroundElf, ElfConfig, ElfManager, SyncElf
from toolcast.errors import IllegalState, Overloaded, RateLimited, TurnCancelled
from toolcast.events import TextDelta, ThinkingDelta, ToolCallDelta, ToolCallDone, ToolCallStart, ToolResult
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

OSLO = '{"city": "Oslo"}'
LOOK = ToolCallPart("c1", "look", OSLO)


def look(city: str) -> str:
    """Look at a city."""
    return f"{city} is fine."


def states_of(run: Callable[[Callable[[str, str], None]], object]) -> list[str]:
    """Return the states that an observer was called with while `run(observer)` ran."""
    seen: list[str] = []
    run(lambda _, state: seen.append(state))
    return seen


# State diagram: engine turn


def test_a_turn_without_tools_is_idle_streaming_accumulating_complete_idle() -> None:
    seen = states_of(lambda observer: Engine(ScriptedLLM("Hi."), observer=observer).submit("Hello"))
    assert seen == ["streaming", "accumulating", "complete", "idle"]


def test_a_tool_call_goes_back_to_streaming() -> None:
    seen = states_of(lambda observer: Engine(ScriptedLLM(LOOK, "Fine."), [look], observer=observer).submit("Oslo?"))
    assert seen == ["streaming", "accumulating", "tool_exec", "streaming", "accumulating", "complete", "idle"]


def test_max_tokens_completes_the_turn() -> None:
    cut = [TextDelta("Once upon"), toolcast.events.Finish("max_tokens")]
    engine = Engine(ScriptedLLM(cut))
    turn = engine.submit("A story.")
    assert (turn.text, turn.end, engine.state) == ("Once upon", "max_tokens", "idle")


def test_approval_is_a_state_of_its_own_between_tool_exec_and_tool_exec() -> None:
    permissions = Permissions("default", approve=lambda request: True)
    seen = states_of(
        lambda observer: Engine(ScriptedLLM(LOOK, "Fine."), [look], permissions=permissions, observer=observer).submit(
            "Oslo?"
        )
    )
    at = seen.index("permission_wait")
    assert (seen[at - 1], seen[at + 1]) == ("tool_exec", "tool_exec")


def test_a_denial_is_an_error_result_and_the_turn_goes_on() -> None:
    engine = Engine(
        ScriptedLLM(LOOK, "Then not."), [look], permissions=Permissions("default", approve=lambda request: False)
    )
    with engine.stream("Oslo?") as stream:
        results = [event for event in stream if isinstance(event, ToolResult)]
    assert [(result.call_id, result.is_error) for result in results] == [("c1", True)]
    assert stream.result().text == "Then not."


@pytest.mark.parametrize("where", ["streaming", "tool_exec", "permission_wait"])
def test_a_turn_is_cancelled_in_each_waiting_state_and_the_engine_works_again(where: str) -> None:
    seen: list[str] = []

    def cancel_here(_: str, state: str) -> None:
        seen.append(state)
        if state == where and "cancelled" not in seen:
            engine.cancel()

    engine = Engine(
        ScriptedLLM(LOOK, "Fine.", "Fine again."),
        [look],
        permissions=Permissions("default", approve=lambda request: True),
        observer=cancel_here,
    )
    with pytest.raises(TurnCancelled):
        engine.submit("Oslo?")
    assert seen[-2:] == ["cancelled", "idle"]
    assert engine.submit("And now?").text in {"Fine.", "Fine again.", ""}


def test_a_provider_error_passes_through_error_to_idle_and_is_raised() -> None:
    seen: list[str] = []
    engine = Engine(ScriptedLLM(Overloaded("busy"), "Hi."), observer=lambda _, state: seen.append(state))
    with pytest.raises(Overloaded):
        engine.submit("Hello")
    assert seen == ["streaming", "error", "idle"]
    assert engine.submit("Hello").text == "Hi."


def test_a_fatal_tool_error_passes_through_error_to_idle() -> None:
    def charge() -> str:
        """Charge the card."""
        raise toolcast.FailTurn("the licence has expired")

    seen: list[str] = []
    engine = Engine(
        ScriptedLLM(ToolCallPart("c1", "charge", "{}"), "Never."),
        [charge],
        observer=lambda _, state: seen.append(state),
    )
    with pytest.raises(toolcast.errors.TurnFailed, match="licence") as caught:
        engine.submit("Charge.")
    assert seen == ["streaming", "accumulating", "tool_exec", "error", "idle"]
    assert caught.value.turn is not None


def test_a_second_submit_during_a_turn_is_refused_and_the_first_goes_on() -> None:
    problems: list[Exception] = []

    def again(city: str) -> str:
        """Look at a city."""
        try:
            engine.submit("Meanwhile?")
        except IllegalState as error:
            problems.append(error)
        return city

    engine = Engine(ScriptedLLM(ToolCallPart("c1", "again", '{"city": "Oslo"}'), "Done."), [again])
    assert engine.submit("Go.").text == "Done."
    assert len(problems) == 1 and "tool_exec" in str(problems[0])


# State diagram: session lifecycle


def held() -> tuple[Session, threading.Event, threading.Event]:
    """Return a session with a turn in the middle of a tool, and events: begun, go on."""
    begun, go_on = threading.Event(), threading.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        await anyio.to_thread.run_sync(go_on.wait, abandon_on_cancel=True)
        return "waited"

    return Session(Engine(ScriptedLLM(ToolCallPart("c1", "wait", "{}"), "Done.", "More."), [wait])), begun, go_on


def test_the_channel_of_events_is_closed_when_the_turn_is_complete() -> None:
    with Session(Engine(ScriptedLLM("Hi."))) as session:
        session.send("Hello")
        assert "".join(event.text for event in session.events() if isinstance(event, TextDelta)) == "Hi."
        session.result()
        assert session.state == "idle"


def test_cancel_propagates_and_the_session_is_idle_again() -> None:
    session, begun, go_on = held()
    with session:
        session.send("Wait.")
        assert begun.wait(30) and session.state == "active"
        session.cancel()
        with pytest.raises(TurnCancelled):
            session.result(30)
        go_on.set()
        assert session.state == "idle"
        assert session.run("And now?").text


def test_close_while_active_cancels_first_and_nothing_can_be_sent_afterwards() -> None:
    session, begun, go_on = held()
    session.send("Wait.")
    assert begun.wait(30)
    session.close()
    go_on.set()
    assert session.state == "closed"
    with pytest.raises(TurnCancelled):
        session.result(30)
    with pytest.raises(IllegalState, match="closed"):
        session.send("Still there?")


def test_send_while_active_is_refused() -> None:
    session, begun, go_on = held()
    with session:
        session.send("Wait.")
        assert begun.wait(30)
        with pytest.raises(IllegalState, match="active"):
            session.send("Me too.")
        go_on.set()
        assert session.result(30).text == "Done."


# State diagram: stream


def test_a_stream_is_open_has_event_open_exhausted_closed() -> None:
    stream = ScriptedLLM("Hi.").stream_chat("Hello")
    seen = [stream.state]
    while stream.next():
        seen.append(stream.state)
        assert stream.current is not None
        seen.append(stream.state)
    assert seen[:3] == ["open", "has_event", "open"]
    assert (stream.state, stream.err) == ("exhausted", None)
    stream.close()
    assert (stream.next(), stream.err) == (False, None)


def test_a_failing_stream_returns_false_and_keeps_the_error() -> None:
    stream = ScriptedLLM([TextDelta("Hi"), RateLimited("slow down")]).stream_chat("Hello")
    while stream.next():
        pass
    assert stream.state == "errored"
    assert isinstance(stream.err, RateLimited)
    assert stream.next() is False
    stream.close()


# Component diagrams: adapters and the translation of events

ANTHROPIC: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "model": "claude", "content": [], "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi."}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": OSLO}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
CALLED = {"index": 0, "id": "c12345678", "function": {"name": "look", "arguments": ""}}
CHAT: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "delta": {"content": "Hi."}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [CALLED]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": OSLO}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
]
GOOGLE = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi."}]}}]},
    {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"city": "Oslo"}}}]},
                "finishReason": "STOP",
            }
        ]
    },
]
BEGIN_TO_END = [ToolCallStart, ToolCallDelta, ToolCallDone]


def body_of(chunks: list[dict[str, Any]], done: str = "") -> str:
    """Return the chunks as server-sent events."""
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + done


@pytest.mark.parametrize(
    ("make", "body"),
    [
        (Anthropic, "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in ANTHROPIC)),
        (partial(OpenAI, api="chat"), body_of(CHAT, "data: [DONE]\n\n")),
        (Mistral, body_of(CHAT, "data: [DONE]\n\n")),
        (Google, body_of(GOOGLE)),
    ],
    ids=["anthropic", "openai", "mistral", "google"],
)
def test_every_adapter_translates_to_the_same_events(make: Any, body: str) -> None:
    llm = make("model", api_key="key", network=ReplayNetwork(Recorded.of(body)))
    with llm.stream_chat("Hello", tools=[look]) as stream:
        events = list(stream)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hi."
    calls = [event for event in events if isinstance(event, ToolCallStart | ToolCallDelta | ToolCallDone)]
    assert sorted({type(event) for event in calls}, key=BEGIN_TO_END.index) == BEGIN_TO_END
    assert [type(event) for event in (calls[0], calls[-1])] == [ToolCallStart, ToolCallDone]
    assert calls[0].name == "look"
    (call,) = stream.response.message.tool_calls
    assert json.loads(call.arguments) == {"city": "Oslo"}
    if make is Anthropic:
        assert [event.text for event in events if isinstance(event, ThinkingDelta)] == ["Hm."]


@pytest.mark.parametrize("make", [Anthropic, OpenAI, Mistral, Google])
def test_every_adapter_is_the_same_provider_interface_and_needs_no_sdk(make: Any) -> None:
    assert issubclass(make, toolcast.FunctionCallingLLM)
    llm = make("model", api_key="key")
    assert llm.metadata.is_function_calling_model
    for way in ("chat", "achat", "stream_chat", "astream_chat", "predict_and_call", "apredict_and_call"):
        assert callable(getattr(llm, way))


# Struct relationships: elves


def test_the_interface_of_an_elf() -> None:
    manager = ElfManager(Engine(ScriptedLLM("One.", "Two.")))
    elf = manager.spawn(ElfConfig("Count."))
    assert isinstance(elf, BackgroundElf)
    assert manager.get(elf.id) is elf and list(manager.list()) == [elf]
    assert elf.wait().output == "One."
    assert [event.text for event in elf.events() if isinstance(event, TextDelta)]
    elf.send("Go on.")
    assert (elf.wait().output, elf.status) == ("Two.", "completed")


class ThreadLLM(toolcast.FunctionCallingLLM):
    """An LLM that answers with the thread it runs in."""

    @property
    def metadata(self) -> toolcast.llms.LLMMetadata:
        return toolcast.llms.LLMMetadata("thread", "test")

    async def _events(self, *_: Any) -> AsyncIterator[toolcast.events.Event]:
        yield TextDelta(str(threading.get_ident()))
        yield toolcast.events.Finish("end_turn")


@pytest.mark.parametrize("background", [False, True])
def test_a_sync_elf_runs_on_the_parents_thread_and_a_background_elf_does_not(background: bool) -> None:
    elf = ElfManager(Engine(ThreadLLM())).spawn(ElfConfig("Where?", background=background))
    assert isinstance(elf, BackgroundElf if background else SyncElf)
    assert (elf.wait().output == str(threading.get_ident())) is not background


def test_cancel_all_ends_every_elf_and_each_still_has_a_result() -> None:
    begun = threading.Semaphore(0)

    async def sleep() -> str:
        """Sleep."""
        begun.release()
        await anyio.sleep_forever()
        return ""

    manager = ElfManager(Engine(ScriptedLLM(*[ToolCallPart("c1", "sleep", "{}")] * 3), [sleep]))
    elves = [manager.spawn(f"Sleep {number}.") for number in range(3)]
    for _ in elves:
        assert begun.acquire(timeout=30)
    manager.cancel_all()
    assert [elf.wait(30).status for elf in elves] == ["cancelled"] * 3
    assert not manager.active
