"""session.py and saved_session.py: what a store has of a session is enough to go on with it, wherever it was left."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support import session_program as program, warm_python
from support.sessions import BlockingTool, SessionAPI, call, check_history
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.session_state import fold
from toolcast.agents.permissions.permissions import Permissions
from toolcast.agents.sessions.session import Session
from toolcast.errors import IllegalState, SessionLocked, ToolcastError
from toolcast.messages import Message, ToolResultPart, assistant, user
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.memory_store import MemoryStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.stores.store import Store
from toolcast.testing import ScriptedLLM, VirtualClock
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.approvals import ApprovalDecision, PermissionRequest
from user.session import environment

Batch = Sequence[Any]


class Sum(BaseModel):
    """A sum."""

    total: int


@pytest.fixture(params=["memory", "sqlite", "jsonl"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Makes empty stores of each kind in turn."""
    made: list[Any] = []

    def make() -> Store:
        path = tmp_path / f"store{len(made)}"
        kinds = {"memory": MemoryStore, "sqlite": lambda: SQLiteStore(path), "jsonl": lambda: JSONLStore(path)}
        made.append(kinds[request.param]())
        return made[-1]

    yield make
    for store in made:
        if isinstance(store, SQLiteStore):
            store.close()


# What is kept.


def test_a_session_is_found_again(new_store: Callable[[], Store]) -> None:
    store = new_store()
    with Session(Engine(ScriptedLLM("hello")), id="mine", store=store) as session:
        session.run("Hi.")
    with Session.resume("mine", Engine(llm := ScriptedLLM("again")), store) as session:
        assert session.engine.history == (user("Hi."), assistant("hello"))
        assert session.engine.usage.total_tokens == 15
        assert (session.status.turn_count, session.unfinished, session.pending) == (1, False, ())
        assert session.run("And?").text == "again"
    assert llm.requests[0].messages == (user("Hi."), assistant("hello"), user("And?"))
    with Session.resume("mine", Engine(ScriptedLLM()), store) as session:
        assert (len(session.engine.history), session.status.turn_count) == (4, 2)


def test_only_what_is_new_is_written() -> None:
    class Counting(MemoryStore):
        written = 0

        def append(self, id: str, records: Batch, /) -> None:
            self.written += len(records)
            super().append(id, records)

    store = Counting()
    session = Session(Engine(ScriptedLLM(*["hello"] * 50)), id="mine", store=store)
    costs = []
    for _ in range(50):
        before = store.written
        session.run("Hi.")
        costs.append(store.written - before)
    assert set(costs[1:]) == {costs[1]}
    assert costs[0] == costs[1] + 1  # the first record has the format


def test_a_session_begins_at_the_time_of_its_clock() -> None:
    store = MemoryStore()
    llm = ScriptedLLM("hello", "again")
    llm.clock = VirtualClock(wall=1_800_000_000.0)
    with Session(Engine(llm), id="mine", store=store) as session:
        session.run("Hi.")
    llm.clock.advance(60)
    with Session.resume("mine", Engine(llm), store) as session:
        session.run("And?")
    opened, *others = store.read("mine")
    assert (opened["kind"], opened["time"]) == ("opened", 1_800_000_000.0)
    assert "opened" not in [record["kind"] for record in others]


def test_an_id_is_made_where_none_is_given() -> None:
    store = MemoryStore()
    ids = []
    for _ in range(2):
        with Session(Engine(ScriptedLLM("hello")), store=store) as session:
            session.run("Hi.")
            ids.append(session.id)
    assert store.ids() == ids
    assert ids[0] != ids[1]


def test_a_session_that_was_never_used_leaves_nothing() -> None:
    store = MemoryStore()
    Session(Engine(ScriptedLLM()), id="mine", store=store).close()
    assert store.ids() == []


def test_an_engine_brings_its_history_along() -> None:
    store = MemoryStore()
    with Session(Engine(ScriptedLLM("hello"), history=[user("a"), assistant("b")]), id="mine", store=store) as session:
        session.run("c")
    with Session.resume("mine", Engine(ScriptedLLM()), store) as session:
        assert [message.text for message in session.engine.history] == ["a", "b", "c", "hello"]


# Whose it is.


def test_no_one_else_may_have_it_open(new_store: Callable[[], Store]) -> None:
    store = new_store()
    with Session(Engine(ScriptedLLM("hello")), id="mine", store=store) as session:
        session.run("Hi.")
        with pytest.raises(SessionLocked, match="open already"):
            Session.resume("mine", Engine(ScriptedLLM()), store)
        with pytest.raises(SessionLocked):
            Session(Engine(ScriptedLLM()), id="mine", store=store)
    Session.resume("mine", Engine(ScriptedLLM()), store).close()


def test_an_id_that_is_there_already() -> None:
    store = MemoryStore()
    with Session(Engine(ScriptedLLM("hello")), id="mine", store=store) as session:
        session.run("Hi.")
    with pytest.raises(ValueError, match=r"there is a session 'mine' already; Session.resume\('mine', ...\) goes on"):
        Session(Engine(ScriptedLLM()), id="mine", store=store)
    Session.resume("mine", Engine(ScriptedLLM()), store).close()  # nothing is held


def test_an_id_that_is_not_there() -> None:
    store = MemoryStore()
    with pytest.raises(LookupError, match=r"there is no session 'other' in the store: store.ids\(\) has"):
        Session.resume("other", Engine(ScriptedLLM()), store)
    with Session(Engine(ScriptedLLM("hello")), id="mine", store=store) as session:
        session.run("Hi.")
    with pytest.raises(LookupError) as caught:
        Session.resume("other", Engine(ScriptedLLM()), store)
    assert "mine" not in str(caught.value)  # the text may be shown to another user
    store.claim("other").release()  # nothing is held


def test_an_engine_that_is_busy_takes_over_no_session() -> None:
    store = MemoryStore()
    with Session(Engine(ScriptedLLM("hello")), id="mine", store=store) as session:
        session.run("Hi.")
    engine = Engine(ScriptedLLM("hello"))
    with engine.stream("go") as stream:
        next(stream)
        with pytest.raises(IllegalState, match="cannot restore while it is streaming"):
            Session.resume("mine", engine, store)
    Session.resume("mine", engine, store).close()


def test_records_that_cannot_be_read_are_held_by_no_one() -> None:
    store = MemoryStore()
    store.append("mine", [{"kind": "what"}])
    for _ in range(2):
        with pytest.raises(ToolcastError, match="record 1"):
            Session.resume("mine", Engine(ScriptedLLM()), store)


def test_a_session_that_is_closed_in_a_turn_is_saved_and_free(
    new_store: Callable[[], Store], session_api: SessionAPI, blocking_tool: BlockingTool
) -> None:
    store = new_store()
    session = Session(Engine(ScriptedLLM(call("c1", "wait")), [blocking_tool.wait]), id="mine", store=store)
    session_api.send(session, "go")
    blocking_tool.wait_until_started()
    session_api.close(session)
    with Session.resume("mine", Engine(ScriptedLLM("done")), store) as resumed:
        assert resumed.engine.history == session.engine.history
        assert resumed.engine.conversation.end == "cancelled"
        check_history(resumed.engine)
        assert resumed.run().text == "done"


FORK = """
import os, sys, warnings
from toolcast import Engine, Permissions, Session, ToolCallPart
from toolcast.errors import SessionLocked
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.testing import ScriptedLLM

def write() -> str:
    '''Write.'''
    print("written", flush=True)
    return "written"

store = {"sqlite": SQLiteStore, "jsonl": JSONLStore}[sys.argv[1]](sys.argv[2])
model = ScriptedLLM(ToolCallPart("c1", "write", "{}"), "done", "more")
session = Session(Engine(model, [write], permissions=Permissions(approve="later")), id="mine", store=store)
session.run("go")
(request,) = session.pending
warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # Python 3.12 and later
child = os.fork()
if not child:
    with session:
        for options in ({"message": "child"}, {"answers": [request.allow()]}):
            try:
                session.run(**options)
            except SessionLocked as error:
                print(error, flush=True)
        session.engine.inject("child")
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
try:
    store.claim("mine")
except SessionLocked:
    print(session.run(answers=[request.allow()]).text, session.run("parent").text, os.getpid())
session.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_forked_child_has_no_part_in_the_session(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    done = warm_python.run(
        [sys.executable, "-c", FORK, kind, str(path)], text=True, capture_output=True, env=environment(), check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    *text, written, end = done.stdout.splitlines()
    assert (written, end.split()[:2]) == ("written", ["done", "more"])
    assert text == [text[0]] * 2
    assert f"'mine' is open in process {end.split()[2]}, from which this one was forked" in text[0]
    store = program.STORES[kind](path)
    with Session.resume("mine", Engine(ScriptedLLM()), store) as session:
        assert [message.text for message in session.engine.history if message.role == "user"] == ["go", "parent"]
        check_history(session.engine)
    if kind == "sqlite":
        store.close()


# What close still writes.


def test_what_was_injected_can_be_saved_before_close(session_api: SessionAPI) -> None:
    store = MemoryStore()
    session = Session(Engine(ScriptedLLM("Hello.")), id="s", store=store)
    session_api.run(session, "Hi")
    session.engine.inject("By the way.")
    session.save()
    assert [message.text for message in fold(store.read("s")).history] == ["Hi", "Hello.", "By the way."]
    session.close()
    Session(Engine(ScriptedLLM())).save()  # without a store there is nothing to do


def test_what_was_injected_is_there_after_close(new_store: Callable[[], Store], session_api: SessionAPI) -> None:
    store = new_store()
    session = Session(Engine(ScriptedLLM("hello")), id="mine", store=store)
    session_api.run(session, "Hi.")
    session.engine.inject("By the way.")
    session_api.close(session)
    written = store.read("mine")
    session_api.close(session)
    session = Session.resume("mine", Engine(ScriptedLLM()), store)
    assert session.engine.history[-1] == user("By the way.")
    session_api.close(session)
    assert store.read("mine") == written  # nothing was new


# A crash after any append.

SCRIPT = [
    call("c1", "look"),
    [call("c2", "write", '{"text": "a"}'), call("c3", "write", '{"text": "b"}'), call("c4", "look")],
    call("c5", "read"),
    "done",
]


class Recording(MemoryStore):
    """A store that remembers what was appended together, and what had been run before that."""

    def __init__(self, ran: list[str]) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.ran: list[list[str]] = []
        self._ran = ran

    def append(self, id: str, records: Batch, /) -> None:
        self.batches.append(records)
        self.ran.append(list(self._ran))
        super().append(id, records)


def agent(ran: list[str], answers: Sequence[Any], asked: list[str]) -> Engine:
    def look() -> str:
        """Look."""
        ran.append("look")
        return "nothing"

    def write(text: str) -> str:
        """Write."""
        ran.append(f"write {text}")
        return "written"

    def read() -> str:
        """Read."""
        ran.append("read")
        return "ab"

    def approve(request: PermissionRequest) -> ApprovalDecision:
        asked.append(request.call_id)
        return request.allow() if request.tool != "write" else request.allow_session()

    tools = [
        CallableTool.from_function(look).with_(parallel=False),
        write,
        CallableTool.from_function(read).with_(idempotent=True, read_only=True),
    ]
    return Engine(ScriptedLLM(*answers), tools, permissions=Permissions(approve=approve))


def answered(history: Sequence[Message]) -> Counter[str]:
    """How many results each call has."""
    return Counter(part.call_id for message in history for part in message.parts if isinstance(part, ToolResultPart))


def crashed_anywhere(new_store: Callable[[], Store], session_api: SessionAPI) -> None:
    ran: list[str] = []
    whole = Recording(ran)
    with Session(agent(ran, SCRIPT, []), id="mine", store=whole) as session:
        assert session_api.run(session, "go").text == "done"
    assert ran == ["look", "write a", "write b", "look", "read"]
    whole.ran.append(list(ran))
    for cut in range(1, len(whole.batches) + 1):
        store, before, after = new_store(), Counter(whole.ran[cut]), list[str]()
        for batch in whole.batches[:cut]:
            store.append("mine", batch)
        text = [message for batch in whole.batches[:cut] for message in batch if message["kind"] == "message"]
        rounds = sum(message["message"]["role"] == "assistant" for message in text)
        asked: list[str] = []
        session = Session.resume("mine", agent(after, SCRIPT[rounds:], asked), store)
        assert session.state == "idle"
        assert session.unfinished == (rounds < len(SCRIPT))
        if session.unfinished:
            assert session_api.run(session).text == "done"
        check_history(session.engine)
        assert answered(session.engine.history) == Counter(["c1", "c2", "c3", "c4", "c5"])
        for effect, times in (before + Counter(after)).items():
            assert times <= (2 if effect in ("look", "read") else 1), (cut, effect)
        # What had begun is not run again, except the one tool that is declared idempotent.
        assert len([*before.elements(), *after]) <= 5 + ("read" in after and "read" in before)
        assert set(asked) <= {"c1", "c2", "c4", "c5"}  # for c3 there was an answer already
        history = session.engine.history
        session_api.close(session)
        with Session.resume("mine", agent([], [], []), store) as session:
            assert session.engine.history == history
            assert not session.unfinished


@pytest.mark.fault(130)
def test_a_crash_after_any_append(new_store: Callable[[], Store]) -> None:
    crashed_anywhere(new_store, SessionAPI())


def test_a_crash_after_any_append_through_every_api(session_api: SessionAPI) -> None:
    crashed_anywhere(MemoryStore, session_api)


def crashed_in(tool: str, new_store: Callable[[], Store]) -> Store:
    """A store as it is when the process dies in the middle of a tool."""
    whole = Recording([])
    with Session(
        agent([], [call("c1", tool, '{"text": "a"}' if tool == "write" else "{}"), "done"], []), id="mine", store=whole
    ) as session:
        session.run("go")
    store = new_store()
    for batch in whole.batches:
        store.append("mine", batch)
        if batch[0]["kind"] == "started":
            break
    return store


def test_after_a_crash_something_else_is_asked(new_store: Callable[[], Store], session_api: SessionAPI) -> None:
    ran: list[str] = []
    store = crashed_in("write", new_store)
    session = Session.resume("mine", agent(ran, ["no matter"], []), store)
    assert session_api.run(session, "Never mind.").text == "no matter"
    check_history(session.engine)
    (result,) = session.engine.history[2].parts
    assert isinstance(result, ToolResultPart)
    assert "it may have had its effect" in result.content
    assert ran == []
    session_api.close(session)


def test_a_typed_result_is_wanted_again_after_a_crash(new_store: Callable[[], Store], session_api: SessionAPI) -> None:
    ran: list[str] = []
    store = crashed_in("read", new_store)
    session = Session.resume("mine", agent(ran, [Sum(total=3)], []), store)
    turn = session_api.run(session, output_cls=Sum)
    assert (turn.output, turn.end, ran) == (Sum(total=3), "output", ["read"])
    session_api.close(session)
    with Session.resume("mine", agent([], [], []), store) as session:
        assert not session.unfinished


def test_what_waits_for_an_answer_outlives_a_restart(new_store: Callable[[], Store], session_api: SessionAPI) -> None:
    ran: list[str] = []

    def engine(*answers: Any) -> Engine:
        made = agent(ran, answers, [])
        return Engine(made.llm, made.tools, permissions=Permissions(approve="later"))

    store = new_store()
    session = Session(engine(call("c1", "write", '{"text": "a"}')), id="mine", store=store)
    turn = session_api.run(session, "go")
    assert (turn.end, ran) == ("approval", [])
    session_api.close(session)
    session = Session.resume("mine", engine("done"), store)
    assert session.unfinished
    assert session.pending == turn.pending
    assert session_api.run(session, answers=[session.pending[0].allow()]).text == "done"
    assert ran == ["write a"]
    check_history(session.engine)
    session_api.close(session)


# Killed.


@contextmanager
def running(kind: str, path: Path, where: str) -> Iterator[subprocess.Popen[str]]:
    """The program, come to where it waits; killed in the end."""
    command = [sys.executable, "-W", "error", program.__file__, kind, str(path), where]
    with warm_python.Popen(
        command, text=True, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            assert process.stdout.readline() == f"{where}\n", process.stderr.read()
            yield process
        finally:
            process.kill()


@pytest.mark.nightly
@pytest.mark.fault(130)
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("where", ["tool", "asked", "stream"])
def test_a_session_that_was_killed_is_gone_on_with(kind: str, where: str, idempotent: bool, tmp_path: Path) -> None:
    path = tmp_path / "store"
    effects = Path(f"{path}.effects")
    store = program.STORES[kind](path)
    with running(kind, path, where) as process, pytest.raises(SessionLocked, match=f"open in process {process.pid}"):
        Session.resume("tea", Engine(ScriptedLLM()), store)
    assert effects.exists() == (where != "asked")
    engine = program.engine(effects, idempotent=idempotent, answers=program.ANSWERS[2:])
    with Session.resume("tea", engine, store) as session:
        assert session.unfinished
        # Its approval was saved before the tool began.
        assert [request.call_id for request in session.pending] == (["c2"] if where == "asked" else [])
        assert session.run().text == "The tea is on its way."
        assert not session.unfinished
        check_history(engine)
        assert answered(engine.history) == Counter(["c1", "c2"])
        result = engine.history[4].parts[0]
        assert isinstance(result, ToolResultPart)
        assert result.is_error == (where == "tool" and not idempotent)
    assert effects.read_text() == "tea\n" * (2 if idempotent and where == "tool" else 1)
    if kind == "sqlite":
        store.close()


@pytest.mark.slow
def test_who_was_killed_while_a_person_was_asked_can_be_answered_later(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with running("sqlite", path, "asked"):
        pass
    effects = Path(f"{path}.effects")
    with SQLiteStore(path) as store:
        engine = program.engine(effects, answers=program.ANSWERS[2:], later=True)
        with Session.resume("tea", engine, store) as session:
            assert session.run().end == "approval"
            (request,) = session.pending
            assert session.run(answers=[request.edit({"what": "coffee"})]).text == "The tea is on its way."
    assert effects.read_text() == "coffee\n"
