"""session.py as a state machine: send, answer, cancel, close, crash and resume in any order.

Turns go on in threads, and yet nothing is left to chance: a tool and an approver wait until the machine lets them go
on, and after each step the machine waits until the turn has come to the next such place, or to its end.
"""

from __future__ import annotations

from collections import Counter
from queue import Queue
from threading import Event
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.example_counts import examples
from support.sessions import PATIENCE, StateTrace
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems
from toolcast.agents.permissions.permissions import Permissions, Rule
from toolcast.agents.sessions.session import Session
from toolcast.errors import IllegalState, RateLimited, SessionLocked, TurnCancelled
from toolcast.events import ToolResult
from toolcast.messages import Message, ToolCallPart, ToolResultPart
from toolcast.stores.memory_store import MemoryStore
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import PermissionRequest

CALLS = ("hold", "write", "peek", "unknown")
ANSWERS = st.one_of(
    st.sampled_from(["text", "fail", "cut"]), st.lists(st.sampled_from(CALLS), min_size=1, max_size=3).map(tuple)
)
PLANS = st.lists(ANSWERS, max_size=3)


class Place:
    """Where a turn waits for the machine: in a tool, or where a person is asked."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.opened = Event()
        self.word: Any = None

    def wait(self) -> Any:
        assert self.opened.wait(PATIENCE)
        return self.word


class Sessions(RuleBasedStateMachine):
    """One session, and what it must be like."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.ran: Counter[str] = Counter()
        self.places: Queue[Place] = Queue()
        self.at: Place | None = None
        self.number = 0
        self.trace = StateTrace()
        self.session: Session

    @initialize()
    def open(self) -> None:
        self.session = Session(self._engine(), id="mine", store=self.store, observer=self._observe)

    # The world around the session.

    def _engine(self) -> Engine:
        self.llm = ScriptedLLM()

        def hold(context: ToolContext[Any]) -> str:
            """Wait until the machine goes on."""
            self.ran[context.call_id] += 1
            self._arrive("tool", context.cancellation)
            return "held"

        def write(context: ToolContext[Any]) -> str:
            """Write, if allowed."""
            self.ran[context.call_id] += 1
            return "written"

        def peek(context: ToolContext[Any]) -> str:
            """Peek."""
            self.ran[context.call_id] += 1
            return "peeked"

        tools = [hold, write, CallableTool.from_function(peek).with_(read_only=True)]
        rules = [Rule("hold", "allow"), Rule("peek", "allow")]
        return Engine(self.llm, tools, permissions=Permissions(rules=rules, approve=self._approve))

    def _approve(self, request: PermissionRequest) -> Any:
        assert self.session._turn is not None
        action = self._arrive("asked", self.session._turn.turn_loop.cancellation)
        return None if action is None else getattr(request, action)()

    def _arrive(self, kind: str, cancellation: Any) -> Any:
        place = Place(kind)
        cancellation.then(place.opened.set)
        self.places.put(place)
        return place.wait()

    def _observe(self, id: str, state: str) -> None:
        self.trace(id, state)
        if state == "idle":
            self.places.put(Place("end"))

    def _settle(self) -> None:
        """Wait until the turn waits, or has ended."""
        place = self.places.get(timeout=PATIENCE)
        self.at = None if place.kind == "end" else place

    def _script(self, plan: list[Any]) -> None:
        """What the model answers from now on; in the end some text."""
        answers: list[Any] = []
        for answer in [*plan, "text"]:
            if answer == "fail":
                answers.append(RateLimited("slower"))
            elif answer == "cut":
                answers.append([])
            elif isinstance(answer, tuple):
                answers.append([ToolCallPart(self._next(), name, "{}") for name in answer])
            else:
                answers.append(answer)
        self.llm._answers[len(self.llm.requests) :] = answers

    def _next(self) -> str:
        self.number += 1
        return f"c{self.number}"

    @property
    def idle(self) -> bool:
        return self.session.state == "idle"

    @property
    def closed(self) -> bool:
        return self.session.state == "closed"

    def is_at(self, kind: str) -> bool:
        return self.at is not None and self.at.kind == kind

    # What happens.

    @rule(plan=PLANS, message=st.sampled_from(["go", None]))
    def send(self, plan: list[Any], message: str | None) -> None:
        if not self.idle:
            with pytest.raises(IllegalState, match=f"while it is {self.session.state}"):
                self.session.send(message)
        elif message is None and not self.session.engine.history:
            with pytest.raises(ValueError, match="no message, and no history"):
                self.session.send()
        else:
            self._script(plan)
            self.session.send(message)
            self._settle()

    @precondition(lambda self: self.is_at("tool"))
    @rule()
    def let_the_tool_end(self) -> None:
        self._go_on(None)

    @precondition(lambda self: self.is_at("asked"))
    @rule(word=st.sampled_from(["allow", "deny", "allow_session", None]))
    def answer(self, word: str | None) -> None:
        self._go_on(word)

    def _go_on(self, word: str | None) -> None:
        assert self.at is not None
        self.at.word = word
        self.at.opened.set()
        self._settle()

    @rule()
    def cancel(self) -> None:
        was_on = self.session.state == "active"
        self.session.cancel()
        if was_on:
            self._settle()
            assert self.at is None
            with pytest.raises(TurnCancelled):
                self.session.result(PATIENCE)

    @rule()
    def close(self) -> None:
        was_on = self.session.state == "active"
        self.session.close()
        self.at = None
        assert self.closed
        if was_on:
            with pytest.raises(TurnCancelled):
                self.session.result(0)

    @precondition(lambda self: self.closed and self.store.ids())
    @rule()
    def resume(self) -> None:
        before = self.session.engine
        self.trace = StateTrace()
        self.session = Session.resume("mine", self._engine(), self.store, observer=self._observe)
        assert self.session.engine.history == before.history
        assert self.session.engine.usage == before.usage

    @precondition(lambda self: not self.closed and self.store.ids())
    @rule()
    def crash(self) -> None:
        """Simulate the end of the process: only the store is left; the old session ends unobserved."""
        with pytest.raises(SessionLocked):
            Session.resume("mine", Engine(ScriptedLLM()), self.store)
        records, ran, old = self.store.read("mine"), Counter(self.ran), self.session
        old.close()
        self.ran, self.at, self.trace, self.store = ran, None, StateTrace(), MemoryStore()
        self.store.append("mine", records)
        self.session = Session.resume("mine", self._engine(), self.store, observer=self._observe)

    @rule()
    def read(self) -> None:
        early = self.session.events()
        if self.at is not None:
            early.close()
        elif self.session._turn is not None:
            results = [event.call_id for event in early if isinstance(event, ToolResult)]
            assert max(Counter(results).values(), default=1) == 1
            assert set(results) <= set(_results(self.session.engine.history))

    # What is always so.

    @invariant()
    def the_history_is_sound_between_turns(self) -> None:
        if self.at is None and not self.session.unfinished:
            assert find_problems(self.session.engine.history) == []
        elif self.at is None and self.session._turn is not None:
            assert find_problems(self.session.engine.history) == []  # a turn that has ended leaves no call open

    @invariant()
    def every_call_has_one_result_and_ran_once(self) -> None:
        assert max(self.ran.values(), default=1) == 1
        assert max(_results(self.session.engine.history).values(), default=1) == 1

    @invariant()
    def the_state_is_the_one_that_was_walked_to(self) -> None:
        assert self.session.state == self.trace[-1]
        assert (self.session.state == "active") == (self.at is not None)

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.close()


def _results(history: tuple[Message, ...]) -> Counter[str]:
    return Counter(part.call_id for message in history for part in message.parts if isinstance(part, ToolResultPart))


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=examples(60), stateful_step_count=30)
