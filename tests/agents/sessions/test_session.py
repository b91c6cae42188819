"""session.py: E15 to E17 of the acceptance behaviours, and the rest that a session does, whatever its store."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support.chunks import delta, sse, text_body
from support.loopback import HOLD, Loopback, head, whole
from support.process import Process
from support.sessions import PATIENCE, BlockingTool, SessionAPI, StateTrace, call, check_history, ctrl_c
from toolcast import ApprovalDecision, OpenAI, PermissionRequest
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.session_state import fold
from toolcast.agents.permissions.permissions import Permissions
from toolcast.agents.sessions import session as sessions, session_turn as session_turns
from toolcast.agents.sessions.session import Session, SessionStatus
from toolcast.async_support import background_jobs, sync_driver
from toolcast.async_support.background_jobs import start_job
from toolcast.errors import IllegalState, RateLimited, SessionLocked, TurnCancelled
from toolcast.events import ErrorEvent, TextDelta, ToolResult, ToolStarted
from toolcast.messages import assistant, user
from toolcast.stores.memory_store import MemoryStore
from toolcast.stores.store import SessionLease
from toolcast.testing import ScriptedLLM
from toolcast.tools.tool_context import ToolContext
from toolcast.values.capabilities import LLMMetadata
from user.session import address, spoken

WAIT = call("c1", "wait")
signals = pytest.mark.skipif(sys.platform == "win32", reason="a signal to oneself")


class Colour(BaseModel):
    """A colour."""

    name: str


def scripted(*answers: Any, tools: Sequence[Any] = (), **options: Any) -> Engine:
    return Engine(ScriptedLLM(*answers), tools, **options)


# E15: a turn goes on by itself.


def test_E15_send_while_a_turn_goes_on_names_the_state(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, "done", "again", tools=[blocking_tool.wait]))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    with pytest.raises(IllegalState, match="cannot send while it is active") as raised:
        session_api.send(session, "go")
    assert raised.value.state == "active"
    with pytest.raises(IllegalState):
        session_api.run(session, "go")
    assert session.state == "active"  # no other turn was cancelled
    blocking_tool.release()
    assert session_api.result(session).text == "done"
    assert session.state == "idle"
    assert session_api.run(session, "go").text == "again"
    check_history(session.engine)


def test_E15_events_end_with_the_turn_and_the_result_is_there(session_api: SessionAPI) -> None:
    session = Session(scripted(call("c1", "look"), "a b c d", tools=[look]))
    session_api.send(session, "go")
    events = session_api.events(session)
    assert session.state == "idle"
    assert [type(event) for event in events if isinstance(event, (ToolStarted, ToolResult))] == [
        ToolStarted,
        ToolResult,
    ]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a b c d"
    turn = session_api.result(session)
    assert (turn.text, turn.end, turn.rounds) == ("a b c d", "end_turn", 2)
    assert session_api.result(session) is turn
    assert session_api.events(session) == events


def look() -> str:
    """Look."""
    return "nothing there"


def test_every_reader_sees_all_events(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, "done", tools=[blocking_tool.wait]))
    session_api.send(session, "go")
    early = session.events()
    seen: list[list[Any]] = [[], []]
    readers = [threading.Thread(target=lambda to=to: to.extend(session.events())) for to in seen]
    for reader in readers:
        reader.start()
    blocking_tool.wait_until_started()
    blocking_tool.release()
    everything = session_api.events(session)
    for reader in readers:
        reader.join(PATIENCE)
    assert seen == [everything, everything]
    assert list(early) == everything


def test_who_still_reads_the_last_turn_is_reported_nothing_of_the_next(session_api: SessionAPI) -> None:
    session = Session(scripted("one", "two"))
    session_api.run(session, "go")
    reader = session.events()
    session_api.run(session, "go")
    assert "".join(event.text for event in reader if isinstance(event, TextDelta)) == "one"


def test_there_are_no_events_before_the_first_turn(session_api: SessionAPI) -> None:
    assert session_api.events(Session(scripted())) == []


def test_there_is_no_result_before_the_first_turn(session_api: SessionAPI) -> None:
    session = Session(scripted())
    with pytest.raises(IllegalState, match="no turn to give the result of") as raised:
        session_api.result(session)
    assert raised.value.state == "idle"


def test_a_result_that_is_not_there_in_time(blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, "done", tools=[blocking_tool.wait]))
    session.send("go")
    blocking_tool.wait_until_started()
    with pytest.raises(TimeoutError, match=r"goes on after 0 seconds; cancel\(\) ends it"):
        session.result(0)
    assert session.state == "active"
    blocking_tool.release()
    assert session.result(PATIENCE).text == "done"


# E16: cancel and close.


def test_E16_what_means_nothing_does_nothing(session_api: SessionAPI) -> None:
    session = Session(scripted("hello"), observer=(trace := StateTrace()))
    session.cancel()
    assert session.state == "idle"
    session_api.run(session, "go")
    session.cancel()
    session_api.close(session)
    session_api.close(session)
    session.cancel()
    assert session.state == "closed"
    assert trace == ["idle", "active", "idle", "closed"]


def test_E16_send_after_close_is_an_error(session_api: SessionAPI) -> None:
    session = Session(scripted("hello"))
    session_api.close(session)
    with pytest.raises(IllegalState, match="cannot send while it is closed"):
        session_api.send(session, "go")
    assert session.engine.history == ()


def test_E16_close_during_a_turn_cancels_it(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, tools=[blocking_tool.wait]), observer=(trace := StateTrace()))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session_api.close(session)
    assert trace == ["idle", "active", "closed"]
    with pytest.raises(TurnCancelled) as raised:
        session_api.result(session)
    assert raised.value.turn is not None and raised.value.turn.end == "cancelled"
    assert isinstance(session_api.events(session)[-1], ErrorEvent)
    check_history(session.engine)


def test_cancel_in_a_tool_and_the_next_send_works(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, "again", tools=[blocking_tool.wait]), observer=(trace := StateTrace()))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session.cancel()
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    assert trace == ["idle", "active", "cancelling", "idle"]
    check_history(session.engine)
    assert session_api.run(session, "go").text == "again"
    check_history(session.engine)


def test_send_while_a_cancelled_turn_ends(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    session = Session(scripted(call("c1", "end_slowly"), tools=[blocking_tool.end_slowly]))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session.cancel()
    session.cancel()
    with pytest.raises(IllegalState, match="while it is cancelling"):
        session_api.send(session, "go")
    blocking_tool.release()
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    assert session.state == "idle"


def test_close_while_a_cancelled_turn_ends(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    session = Session(
        scripted(call("c1", "end_slowly"), tools=[blocking_tool.end_slowly]), observer=(trace := StateTrace())
    )
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session.cancel()
    closing = threading.Thread(target=session.close)
    closing.start()
    blocking_tool.release()
    closing.join(PATIENCE)
    session_api.close(session)
    assert trace == ["idle", "active", "cancelling", "closed"]
    with pytest.raises(TurnCancelled):
        session_api.result(session)


def test_cancel_while_a_person_is_asked(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    permissions = Permissions(approve=blocking_tool.approve)
    session = Session(scripted(call("c1", "act"), "again", tools=[act], permissions=permissions))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session.cancel()
    blocking_tool.release()
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    check_history(session.engine)
    assert session_api.run(session, "go").text == "again"


def act() -> str:
    """Do something."""
    raise AssertionError("it may not run")


STALLED: dict[str, tuple[Any, ...]] = {
    "before the first byte": (HOLD,),
    "before the first event": (head(200, "content-type: text/event-stream"), HOLD),
    "in the answer": tuple(spoken(*sse(delta(content="Once upon"), done=False), HOLD)),
}


@pytest.mark.parametrize("where", STALLED)
def test_cancel_while_a_server_is_silent(session_api: SessionAPI, where: str) -> None:
    with Loopback() as server:
        server.answer(*STALLED[where])
        server.answer(whole(text_body("again"), 200, "content-type: application/json"))
        llm = OpenAI("m-1", base_url=address(server), api_key="k", max_retries=0)
        session = Session(Engine(llm))
        session_api.send(session, "go")
        server.wait_requests(1)
        if where == "in the answer":
            assert isinstance(next(session.events()), TextDelta)
        session.cancel()
        with pytest.raises(TurnCancelled):
            session_api.result(session)
        server.wait_open(0)
        message = [user("go"), assistant("Once upon")] if where == "in the answer" else []
        assert list(session.engine.history) == message
        assert session_api.run(session, "go").text == "again"
        session_api.close(session)
        session_api.call(llm.aclose if session_api.awaits else llm.close)


def test_cancel_while_the_service_wants_us_to_wait(session_api: SessionAPI) -> None:
    with Loopback() as server:
        server.answer(whole(b"{}", 429, "retry-after: 50"))
        llm = OpenAI("m-1", base_url=address(server), api_key="k")
        session = Session(Engine(llm))
        session_api.send(session, "go")
        server.wait_requests(1)
        session.cancel()
        with pytest.raises(TurnCancelled):
            session_api.result(session)
        session_api.call(llm.aclose if session_api.awaits else llm.close)


def test_E17_no_one_has_to_read(session_api: SessionAPI) -> None:
    session = Session(Engine(ScriptedLLM("x" * 5_000, chunk=1)))
    assert len(session_api.run(session, "go").text) == 5_000


# How a turn is left by its own.


def test_a_tool_that_closes_the_session(session_api: SessionAPI) -> None:
    def close() -> str:
        """Close."""
        session.close()
        return "closed"

    session = Session(scripted(call("c1", "close"), tools=[close]), observer=(trace := StateTrace()))
    session_api.send(session, "go")
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    assert trace == ["idle", "active", "closed"]
    check_history(session.engine)


def test_a_tool_in_a_thread_of_its_own_that_closes_the_session(session_api: SessionAPI) -> None:
    closed = threading.Event()

    def close(context: ToolContext[Any]) -> str:
        """Close."""
        session.close()
        closed.set()
        return "closed"

    session = Session(scripted(call("c1", "close"), tools=[close]))
    session_api.send(session, "go")
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    assert closed.wait(PATIENCE)


@pytest.mark.parametrize("name", ["close", "aclose"])
def test_an_async_tool_that_closes_the_session(session_api: SessionAPI, name: str) -> None:
    async def close() -> str:
        """Close."""
        if name == "close":
            session.close()
        else:
            await session.aclose()
        return "closed"

    session = Session(scripted(call("c1", "close"), tools=[close]))
    session_api.send(session, "go")
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    assert session.state == "closed"
    check_history(session.engine)


def test_a_tool_cannot_wait_for_its_own_turn(session_api: SessionAPI) -> None:
    def ask() -> str:
        """Ask."""
        return session.result().text

    session = Session(scripted(call("c1", "ask"), "done", tools=[ask]))
    session_api.run(session, "go")
    (asked,) = [event for event in session_api.events(session) if isinstance(event, ToolResult)]
    assert "the turn would wait for itself" in asked.content


async def test_a_thread_cannot_wait_for_a_task_of_its_own() -> None:
    session = Session(scripted("hello"))
    await session.asend("go")
    with pytest.raises(RuntimeError, match=r"await aresult\(\)"):
        session.result()
    session.close()
    assert session.state == "closed"
    with pytest.raises(TurnCancelled):
        await session.aresult()
    with pytest.raises(TurnCancelled):
        session.result()


def test_an_observer_may_call_what_it_likes(session_api: SessionAPI) -> None:
    seen: list[str] = []

    def observe(session_id: str, state: str) -> None:
        seen.append(state)
        if state == "active":
            session.cancel()
        elif state == "cancelling":
            session.close()

    session = Session(scripted("hello"), id="mine", observer=observe)
    session_api.send(session, "go")
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    assert seen == ["active", "cancelling", "closed"]
    assert session.engine.history == ()


def test_the_observer_hears_the_id() -> None:
    received: list[tuple[str, str]] = []
    session = Session(scripted("hello"), id="mine", observer=lambda id, state: received.append((id, state)))
    session.run("go")
    assert received == [("mine", "active"), ("mine", "idle")]


# Errors.


def test_back_to_idle_after_an_error(session_api: SessionAPI) -> None:
    session = Session(scripted(RateLimited("slower"), "hello"), observer=(trace := StateTrace()))
    with pytest.raises(RateLimited):
        session_api.run(session, "go")
    assert (session.state, session.engine.history, session.unfinished) == ("idle", (), False)
    assert isinstance(session_api.events(session)[-1], ErrorEvent)
    with pytest.raises(RateLimited):
        session_api.result(session)
    assert session_api.run(session, "go").text == "hello"
    assert trace == ["idle", "active", "idle", "active", "idle"]


class Counting(MemoryStore):
    """A store that counts the bytes of what is appended."""

    def __init__(self) -> None:
        super().__init__()
        self.written: int = 0

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        self.written += len(json.dumps(records))
        super().append(id, records)


def test_what_a_turn_writes_does_not_grow_with_the_history(session_api: SessionAPI) -> None:
    """A turn that fails removes its message; a turn with a tool is saved at each step."""

    def cost(messages: int) -> list[int]:
        history = [make(f"{number:4}") for number in range(messages // 2) for make in (user, assistant)]
        store = Counting()
        answers = ("first", RateLimited("slow down"), call("c1", "look"), "an answer")
        session = Session(scripted(*answers, tools=[look], history=history), store=store)
        session_api.run(session, "go")  # which writes the history that there was
        counts = []
        for _ in range(2):
            before = store.written
            with suppress(RateLimited):
                session_api.run(session, "go")
            counts.append(store.written - before)
        session_api.close(session)
        assert fold(store.read(session.id)).history == session.engine.history
        return counts

    for few, many in zip(cost(10), cost(2000), strict=True):
        assert abs(few - many) < 50  # digits of numbers


def test_a_turn_that_never_begins_leaves_the_session_idle(session_api: SessionAPI) -> None:
    session = Session(scripted("hello"))
    with pytest.raises(ValueError, match="no message, and no history"):
        session_api.send(session)
    assert session.state == "idle"
    assert session_api.run(session, "go").text == "hello"


def test_the_engine_may_be_busy_without_its_session() -> None:
    engine = scripted("one", "two")
    session = Session(engine)
    with engine.stream("go") as stream:
        next(stream)
        with pytest.raises(IllegalState, match="engine cannot begin a turn while it is streaming"):
            session.send("go")
        assert session.state == "idle"
    assert session.run("go").text == "two"


def test_without_a_thread_there_is_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise RuntimeError("can't start new thread")

    store = MemoryStore()
    session = Session(scripted("hello"), id="mine", store=store, observer=(trace := StateTrace()))
    with monkeypatch.context() as full:
        full.setattr(sessions, "start_job", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            session.send("go")
    assert trace == ["idle", "active", "idle"]
    assert session.run("go").text == "hello"
    session.close()


def test_what_is_no_exception_of_a_tool_reaches_who_asks() -> None:
    def leave() -> None:
        """Leave."""
        raise SystemExit(3)

    session = Session(scripted(call("c1", "leave"), "again", tools=[leave]))
    with pytest.raises(SystemExit):
        session.run("go")
    assert session.state == "idle"
    check_history(session.engine)
    assert session.run("go on").text == "again"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_whose_event_loop_ends(backend: str, blocking_tool: BlockingTool) -> None:
    session = Session(
        scripted(WAIT, "again", tools=[blocking_tool.wait]), store=MemoryStore(), observer=(trace := StateTrace())
    )

    async def begin() -> None:
        await session.asend("go")
        await anyio.to_thread.run_sync(blocking_tool.wait_until_started)

    anyio.run(begin, backend=backend)
    assert trace == ["idle", "active", "idle"]
    with pytest.raises(TurnCancelled, match="the turn was cancelled") as raised:
        session.result()
    assert raised.value.turn is not None and raised.value.turn.end == "cancelled"
    check_history(session.engine)
    assert session.run("go on").text == "again"
    session.close()


# A turn whose event loop has stopped, or is closed.


class Left:
    """A session in the middle of a turn, whose event loop has stopped."""

    def __init__(self) -> None:
        self.engine = scripted(call("c1", "hang"), "again", tools=[self.hang], observer=self.note_state)
        self.store = MemoryStore()
        self.session = Session(self.engine, id="mine", store=self.store)
        self.states: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.begun = asyncio.Event()
        self.loop.run_until_complete(self.begin())

    async def begin(self) -> None:
        await self.session.asend("go")
        await self.begun.wait()

    async def hang(self) -> None:
        """Hang."""
        self.begun.set()
        await asyncio.Event().wait()

    def note_state(self, id: str, state: str) -> None:
        self.states.append(state)

    def forget(self) -> None:
        """Let go of the task: nothing comes of it."""
        while background_jobs._tasks:
            task: Any = background_jobs._tasks.pop()
            task._log_destroy_pending = False  # asyncio would write of it
            del task
        gc.collect()
        self.loop.close()


@pytest.fixture
def left() -> Iterator[Left]:
    left = Left()
    yield left
    left.forget()


@pytest.mark.parametrize("how", ["cancel", "result", "aresult"])
def test_a_turn_whose_loop_is_closed_is_ended_by_who_asks(left: Left, how: str) -> None:
    session = left.session
    left.loop.close()
    with suppress(TurnCancelled):
        asyncio.run(session.aresult()) if how == "aresult" else getattr(session, how)()
    assert session.state == "idle"
    assert isinstance(list(session.events())[-1], ErrorEvent)
    with pytest.raises(TurnCancelled):
        session.result()
    check_history(session.engine)
    assert session.run("go on").text == "again"
    message = session.engine.history
    left.forget()
    assert session.engine.history == message
    session.close()


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("how", ["close", "aclose"])
def test_close_ends_a_turn_whose_loop_has_stopped(
    left: Left, how: str, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_turns, "GRACE", 0.0)
    session = left.session
    if closed:
        left.loop.close()
    session.close() if how == "close" else asyncio.run(session.aclose())
    assert session.state == "closed"
    with pytest.raises(TurnCancelled):
        session.result()
    with Session.resume("mine", scripted(), left.store) as resumed:
        assert resumed.engine.history == session.engine.history
        check_history(resumed.engine)


def test_close_in_another_thread_waits_a_while_for_a_loop_that_may_go_on(
    left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_turns, "GRACE", 0.0)
    closing = threading.Thread(target=left.session.close)
    closing.start()
    closing.join(PATIENCE)
    with pytest.raises(TurnCancelled):
        left.session.result()


def test_a_loop_that_goes_on_after_all_changes_nothing(left: Left) -> None:
    left.session.close()
    states = list(left.states)
    with Session(left.engine) as session:
        assert session.run("go on").text == "again"
        message = session.engine.history
        ended = len(left.states)
        (task,) = asyncio.all_tasks(left.loop)
        left.loop.run_until_complete(task)
        assert (session.engine.history, session.engine.conversation.end) == (message, "end_turn")
    assert left.states[:ended][: len(states)] == states and len(left.states) == ended


def test_who_waits_for_a_result_looks_whether_the_loop_is_open(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_turns, "POLL_SECONDS", 0.001)
    raised: list[BaseException] = []

    def wait() -> None:
        with pytest.raises(TimeoutError, match=r"goes on after 0\.01 seconds"):
            left.session.result(0.01)
        left.loop.close()
        with pytest.raises(TurnCancelled) as error:
            left.session.result(PATIENCE)
        raised.append(error.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(PATIENCE)
    assert len(raised) == 1
    left.session.close()


def test_a_turn_of_the_parent_is_not_the_childs(blocking_tool: BlockingTool, process: Process) -> None:
    # test_session_resume.py forks; here, in one process, what the child does is looked at.
    over = threading.Event()
    engine = scripted(
        WAIT, "done", tools=[blocking_tool.wait], observer=lambda id, state: state == "idle" and over.set()
    )
    store = MemoryStore()
    session = Session(engine, id="mine", store=store)
    session.send("go")
    blocking_tool.wait_until_started()
    with process.as_child():
        session.close()
        with pytest.raises(TurnCancelled, match="this is its forked child"):
            session.result()
        assert isinstance(list(session.events())[-1], ErrorEvent)
    with pytest.raises(SessionLocked):
        store.claim("mine")
    blocking_tool.release()
    assert over.wait(PATIENCE)
    assert len(engine.llm.requests) == 2  # type: ignore[attr-defined]  # it is scripted; it was not cancelled: its connections are its parent's


# Whose the engine is.


def test_an_engine_belongs_to_one_open_session() -> None:
    store, engine = MemoryStore(), scripted("one", "two", "three")
    for id in ("a", "b"):
        Session(scripted(f"I am {id}."), id=id, store=store).run("Who are you?")
    gc.collect()
    a = Session.resume("a", engine, store)
    text = r"the engine belongs to the session 'a': close that, or take another, engine\.fork\(\)"
    for second in (lambda: Session.resume("b", engine, store), lambda: Session(engine), lambda: Session(engine)):
        with pytest.raises(IllegalState, match=text):
            second()
    assert a.run("Hi.").text == "one"
    a.close()
    with Session.resume("b", engine, store) as b:
        assert [message.text for message in b.engine.history] == ["Who are you?", "I am b."]
    with Session.resume("a", engine, store) as a:
        assert [message.text for message in a.engine.history] == ["Who are you?", "I am a.", "Hi.", "one"]


def test_a_session_that_is_forgotten_has_no_engine() -> None:
    engine = scripted("one", "two")
    Session(engine, store=MemoryStore()).run("go")
    gc.collect()
    assert Session(engine).run("go").text == "two"


def test_a_session_that_never_opens_has_no_engine() -> None:
    store, engine = MemoryStore(), scripted("hello")
    with store.claim("a"), pytest.raises(SessionLocked) as first:
        Session(engine, id="a", store=store)
    with pytest.raises(LookupError) as second:
        Session.resume("a", engine, store)
    assert Session(engine).run("go").text == "hello"
    del first, second  # they kept what failed


def test_an_engine_belongs_to_a_closed_session_until_its_turn_ends(
    session_api: SessionAPI, blocking_tool: BlockingTool
) -> None:
    session = Session(scripted(call("c1", "end_slowly"), "again", tools=[blocking_tool.end_slowly]))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    closing = threading.Thread(target=session.close)
    closing.start()
    session.cancel()
    with pytest.raises(IllegalState, match="belongs to the session"):
        Session(session.engine)
    blocking_tool.release()
    closing.join(PATIENCE)
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    with Session(session.engine) as other:
        assert session_api.run(other, "go").text == "again"
    session.close()
    session.engine.detach(session)  # is no longer its own
    Session(session.engine).close()


# What fails at an end.


class Unclaimable(MemoryStore):
    """A store whose claims cannot be released."""

    def claim(self, id: str, /) -> SessionLease:
        return SessionLease(self.fail)

    def fail(self) -> None:
        raise OSError("no lock")


def test_a_claim_that_cannot_be_released_keeps_no_one_waiting(
    session_api: SessionAPI, blocking_tool: BlockingTool, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(scripted(WAIT, tools=[blocking_tool.wait]), store=Unclaimable())
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session_api.close(session)
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    assert session_api.events(session)
    assert "could not be saved in session" in caplog.text and "no lock" in caplog.text
    idle = Session(scripted(), store=Unclaimable())
    with pytest.raises(OSError, match="no lock"):
        session_api.close(idle)
    assert idle.state == "closed"


class Leaving:
    """An observer that ends the program in one state."""

    def __init__(self, state: str) -> None:
        self.state = state

    def __call__(self, id: str, state: str) -> None:
        if state == self.state:
            self.state = ""
            raise SystemExit(3)


@pytest.mark.parametrize("state", ["active", "idle"])
def test_an_observer_that_ends_the_program_ends_the_turn(state: str) -> None:
    session = Session(scripted("hello", "hello"), id="mine", store=MemoryStore(), observer=Leaving(state))
    with pytest.raises(SystemExit):
        session.run("go")
    assert session.state == "idle"
    assert session.run("go").text == "hello"
    session.close()


@pytest.mark.parametrize("state", ["cancelling", "closed"])
def test_an_observer_that_ends_the_program_hinders_no_end(blocking_tool: BlockingTool, state: str) -> None:
    store = MemoryStore()
    session = Session(scripted(WAIT, tools=[blocking_tool.wait]), id="mine", store=store, observer=Leaving(state))
    session.send("go")
    blocking_tool.wait_until_started()
    with pytest.raises(SystemExit):
        session.cancel() if state == "cancelling" else session.close()
    with pytest.raises(TurnCancelled):
        session.result(PATIENCE)
    session.close()
    store.claim("mine").release()


# run and arun, interrupted.


@signals
def test_ctrl_c_ends_run_and_its_turn(blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, "again", tools=[blocking_tool.wait]), observer=(trace := StateTrace()))
    with ctrl_c(blocking_tool.wait_until_started, session), pytest.raises(KeyboardInterrupt):
        session.run("go")
    assert trace == ["idle", "active", "cancelling", "idle"]
    check_history(session.engine)
    assert session.run("go").text == "again"


@signals
def test_ctrl_c_ends_run_while_a_server_is_silent() -> None:
    with Loopback() as server:
        server.answer(HOLD)
        llm = OpenAI("m-1", base_url=address(server), api_key="k", max_retries=0)
        session = Session(Engine(llm))
        with ctrl_c(lambda: server.wait_requests(1), session), pytest.raises(KeyboardInterrupt):
            session.run("go")
        server.wait_open(0)
        assert (session.state, session.engine.history) == ("idle", ())
        llm.close()


def test_ctrl_c_while_the_thread_begins(blocking_tool: BlockingTool, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        start_job(*args, **options)
        blocking_tool.wait_until_started()
        raise KeyboardInterrupt

    session = Session(scripted(WAIT, "again", tools=[blocking_tool.wait]), observer=(trace := StateTrace()))
    with monkeypatch.context() as busy:
        busy.setattr(sessions, "start_job", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run("go")
    assert trace == ["idle", "active", "cancelling", "idle"]
    assert session.run("go").text == "again"


def test_a_thread_that_begins_after_ctrl_c_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    works: list[Any] = []

    def interrupted(work: Any, **options: Any) -> None:
        works.append(work)
        raise KeyboardInterrupt

    session = Session(scripted("hello"), observer=(trace := StateTrace()))
    with monkeypatch.context() as busy:
        busy.setattr(sessions, "start_job", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run("go")
    sync_driver.run(works[0]())
    assert trace == ["idle", "active", "idle"]
    assert session.run("go").text == "hello"


async def test_who_cancels_arun_cancels_its_turn(blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, "again", tools=[blocking_tool.wait]), observer=(trace := StateTrace()))
    async with anyio.create_task_group() as group:
        group.start_soon(session.arun, "go")
        await anyio.to_thread.run_sync(blocking_tool.wait_until_started)
        group.cancel_scope.cancel()
    assert trace == ["idle", "active", "cancelling", "idle"]
    check_history(session.engine)
    assert (await session.arun("go")).text == "again"


def test_a_task_that_is_cancelled_twice_still_leaves_an_idle_session() -> None:
    async def main() -> None:
        cleaning, release = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            """Be slow."""
            try:
                cleaning.set()
                await asyncio.sleep(PATIENCE)
            finally:
                cleaning.set()
                await release.wait()

        session = Session(scripted(call("c1", "slow"), "again", tools=[slow]))
        task = asyncio.create_task(session.arun("go"))
        await cleaning.wait()
        cleaning.clear()
        task.cancel()
        await cleaning.wait()
        assert session.state == "cancelling"
        task.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.state == "idle"
        check_history(session.engine)
        assert (await session.arun("go")).text == "again"

    asyncio.run(main())


async def test_who_stops_waiting_for_a_result_cancels_nothing(blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, "done", tools=[blocking_tool.wait]))
    await session.asend("go")
    await anyio.to_thread.run_sync(blocking_tool.wait_until_started)
    with anyio.move_on_after(0):
        await session.aresult()
    assert session.state == "active"
    blocking_tool.release()
    assert (await session.aresult()).text == "done"


def test_a_run_that_fails_cancels_no_later_turn(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    session = Session(scripted(WAIT, WAIT, "done", tools=[blocking_tool.wait]))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    first = session._turn
    assert first is not None
    session.cancel()
    with pytest.raises(TurnCancelled):
        session_api.result(session)
    blocking_tool.released.clear()
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session._cancel(first)  # as a run() does that was interrupted when its turn had just ended
    assert session.state == "active"
    blocking_tool.release()
    assert session_api.result(session).text == "done"


# What else there is to know.


def test_a_typed_result(session_api: SessionAPI) -> None:
    session = Session(scripted(Colour(name="red"), "hello"))
    turn = session_api.run(session, "go", output_cls=Colour)
    assert turn.output == Colour(name="red")
    assert not session.unfinished
    assert session_api.run(session, "go").text == "hello"
    assert not session.unfinished


def test_pending_calls_wait_for_answers(session_api: SessionAPI) -> None:
    done: list[str] = []

    def write(text: str) -> str:
        """Write."""
        done.append(text)
        return "written"

    engine = scripted(
        call("c1", "write", '{"text": "a"}'), "done", tools=[write], permissions=Permissions(approve="later")
    )
    session = Session(engine)
    assert session_api.run(session, "go").end == "approval"
    assert session.unfinished
    (request,) = session.pending
    assert (request.tool, request.call_id) == ("write", "c1")
    assert session_api.run(session, answers=[request.allow()]).text == "done"
    assert (done, session.pending, session.unfinished) == (["a"], (), False)


def test_nothing_is_pending_while_the_turn_goes_on(session_api: SessionAPI, blocking_tool: BlockingTool) -> None:
    permissions = Permissions(approve=lambda request: True)
    session = Session(scripted([WAIT, call("c2", "wait")], "done", tools=[blocking_tool.wait], permissions=permissions))
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    assert session.pending == ()
    blocking_tool.release()
    assert session_api.result(session).text == "done"


def test_a_history_that_ends_with_a_question_is_unfinished(session_api: SessionAPI) -> None:
    session = Session(scripted("hello", history=[user("Hi.")]))
    assert session.unfinished
    assert session_api.run(session).text == "hello"
    assert not session.unfinished


class Windowed(ScriptedLLM):
    """A model that is known to take so many tokens."""

    window: int | None = 100

    @property
    def metadata(self) -> LLMMetadata:
        known = super().metadata
        return replace(known, capabilities=replace(known.capabilities, context_window=self.window))


def test_status() -> None:
    llm = Windowed("hello")
    session = Session(Engine(llm, history=[user("x" * 59)]))
    assert session.status == SessionStatus("idle", "scripted", "scripted", 20, 100, "ok", 0)  # estimated
    session.run("go")
    assert session.status == SessionStatus("idle", "scripted", "scripted", 15, 100, "ok", 1)  # as the service counted
    assert session.status.token_percent == 15
    levels = []
    for llm.window in (19, 18, 17):
        levels.append(session.status.token_state)
    assert levels == ["ok", "warning", "critical"]
    llm.window = None
    assert (session.status.token_percent, session.status.token_state) == (None, "ok")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_send_and_asend_may_be_mixed(backend: str) -> None:
    session = Session(scripted("one", "two", "three", "four"))
    texts = [session.run("go").text]

    async def more() -> None:
        texts.append((await session.arun("go")).text)
        session.send("go")
        texts.append((await session.aresult()).text)

    anyio.run(more, backend=backend)
    texts.append(session.run("go").text)
    assert texts == ["one", "two", "three", "four"]


async def test_a_block_closes_the_session() -> None:
    async with Session(scripted("hello")) as session:
        assert (await session.arun("go")).text == "hello"
    assert session.state == "closed"
    with Session(scripted("hello")) as session:
        assert session.run("go").text == "hello"
    assert session.state == "closed"


# A store that fails.


class Failing(MemoryStore):
    """A store some of whose appends fail."""

    def __init__(self, *failing: int) -> None:
        super().__init__()
        self.batches: list[Sequence[Any]] = []
        self._failing = failing

    def append(self, id: str, records: Sequence[Any], /) -> None:
        self.batches.append(records)
        if len(self.batches) in self._failing:
            raise OSError("the disk is full")
        super().append(id, records)


def test_no_tool_runs_where_the_store_fails(session_api: SessionAPI) -> None:
    ran: list[str] = []

    def write() -> str:
        """Write."""
        ran.append("write")
        return "written"

    def begun(id: str, store: MemoryStore) -> Session:
        llm = ScriptedLLM(call("c1", "write"), "done", "again", "again")
        return Session(Engine(llm, [write]), id=id, store=store)

    whole = Failing()
    begun("whole", whole).run("go")
    starts = next(n for n, records in enumerate(whole.batches, 1) if records[0]["kind"] == "started")
    for failing in range(1, len(whole.batches) + 1):
        ran.clear()
        store = Failing(failing)
        session = begun("mine", store)
        with pytest.raises(OSError, match="the disk is full"):
            session_api.run(session, "go")
        assert ran == (["write"] if failing > starts else [])
        assert session.state == "idle"
        if not session.unfinished:
            check_history(session.engine)
        assert session_api.run(session, "go on").text in ("done", "again")
        check_history(session.engine)
        history = session.engine.history
        session_api.close(session)
        assert Session.resume("mine", scripted(), store).engine.history == history


@pytest.mark.parametrize("later", [True, False])
def test_an_approval_outlives_a_store_that_fails_once(session_api: SessionAPI, later: bool) -> None:
    """`send()` goes on where the turn could not be saved: nothing is asked again, and every call runs once."""
    ran: list[str] = []
    asked: list[str] = []

    def write(text: str) -> str:
        """Write."""
        ran.append(text)
        return "written"

    def approve(request: PermissionRequest) -> ApprovalDecision:
        asked.append(request.call_id)
        return request.allow() if request.call_id == "c1" else request.edit({"text": "edited"})

    def attempt(store: Failing) -> Failing:
        """Run a turn, and go on with it until the store has saved it."""
        ran.clear()
        asked.clear()
        calls = [call("c1", "write", '{"text": "a"}'), call("c2", "write", '{"text": "b"}')]
        permissions = Permissions(approve="later" if later else approve)
        engine = Engine(ScriptedLLM(calls, "done", "done"), [write], permissions=permissions)
        session = Session(engine, id="mine", store=store)
        with suppress(OSError):
            session_api.run(session, "go")
        while session.unfinished:
            with suppress(OSError):
                session_api.run(session, answers=[approve(request) for request in session.pending])
        check_history(engine)
        session_api.close(session)
        return store

    for failing in range(len(attempt(Failing()).batches) + 1):
        attempt(Failing(failing))
        # Before the answer was complete there was nothing to go on with: the message can be sent again.
        assert (ran, asked) == (([], []) if failing in (1, 2) else (["a", "edited"], ["c1", "c2"]))


def test_a_store_that_fails_for_good(session_api: SessionAPI, caplog: pytest.LogCaptureFixture) -> None:
    store = Failing(*range(10))
    session = Session(scripted("hello"), id="mine", store=store)
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is full"):
            session_api.run(session, "go")
        assert session.state == "idle"
    assert "the end of a turn could not be saved in session mine: the disk is full" in caplog.text
    with pytest.raises(OSError, match="the disk is full"):
        session_api.close(session)
    assert session.state == "closed"
    store.claim("mine").release()


def test_what_ended_the_turn_counts_more_than_that_it_is_not_saved(session_api: SessionAPI) -> None:
    session = Session(scripted(RateLimited("slower")), store=Failing(2))
    with pytest.raises(RateLimited):
        session_api.run(session, "go")
    assert session.state == "idle"


def test_the_end_of_a_turn_is_not_saved(session_api: SessionAPI) -> None:
    store = Failing(4)
    session = Session(scripted("hello", "again"), id="mine", store=store)
    with pytest.raises(OSError, match="the disk is full"):
        session_api.run(session, "go")
    assert session.engine.history == (user("go"), assistant("hello"))
    session_api.run(session, "go")
    session_api.close(session)
    assert len(Session.resume("mine", scripted(), store).engine.history) == 4


def test_what_could_not_be_written_is_written_by_close(session_api: SessionAPI) -> None:
    store = Failing(4)
    session = Session(scripted("hello"), id="mine", store=store)
    with pytest.raises(OSError, match="the disk is full"):
        session_api.run(session, "go")
    session_api.close(session)
    assert Session.resume("mine", scripted(), store).engine.history == (user("go"), assistant("hello"))


# What it takes up.


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark of idle sessions."""
    path = Path(__file__).parents[3] / "benchmarks" / "idle_sessions.py"
    monkeypatch.syspath_prepend(str(path.parent))
    spec = spec_from_file_location("benchmark_of_sessions", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_an_idle_session_takes_little_room(benchmark: ModuleType) -> None:
    new, used = benchmark.idle_sessions(count=100, rounds=3).values()
    assert 500 < new < 5_000
    assert new < used < 20_000
    assert "KB each" in benchmark.report(10)


def test_the_time_that_a_turn_has_to_end_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in `run` waits for a tool that does not end; `close`, right behind it, does not begin again."""
    times = iter([100.0, 103.0, 200.0])
    monkeypatch.setattr(session_turns, "monotonic", lambda: next(times))
    session = Session(scripted("Hello."))
    session.run("Hi.")
    assert session._turn is not None
    assert [session._turn.grace for _ in range(3)] == [5.0, 2.0, 0.0]
