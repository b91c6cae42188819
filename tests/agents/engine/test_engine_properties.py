"""An engine under any order of what users, models and tools may do.

Whatever comes: each request is one that a service takes, a history between turns is sound but for calls that wait for
an answer, states follow the table, and usage goes down only with a reset.
"""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.engines import call, check_transitions
from support.example_counts import examples
from toolcast.agents.engine.compaction import Compaction
from toolcast.agents.engine.conversation import Conversation
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems, unanswered_calls
from toolcast.agents.permissions.permissions import Permissions
from toolcast.errors import ContextTooLong, IllegalState, RateLimited, ToolcastError
from toolcast.events import Finish, TextDelta, UsageReport
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import PermissionRequest
from toolcast.values.usage import Usage

ONCE = UsageReport(Usage(10, 5))
IDS = st.sampled_from(["a", "b", "a-2"])
CALLS = st.builds(
    call,
    IDS,
    st.sampled_from(["look", "look", "write", "fail", "stop", "inject", "unknown", "int"]),
    st.sampled_from(['{"value": 1}', '{"value": "1",}', "{", "", "[]"]),
)
ANSWERS = st.one_of(
    st.sampled_from(
        [
            "Hello there.",
            [Finish("end_turn")],
            [TextDelta(" "), ONCE, Finish("end_turn")],
            [TextDelta("Cut"), ONCE, Finish("max_tokens")],
            [TextDelta("Broken"), ONCE],
            RateLimited("slow down"),
            ContextTooLong("too long"),
            call("a", "look", '{"value": ', truncated=True),
        ]
    ),
    st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda made: made.id),
    st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda made: made.id),
)
PLANS = st.lists(ANSWERS, max_size=4)
ACTIONS = st.sampled_from(["allow", "deny", "allow_session", "edit", "forged"])


class Planned(ScriptedLLM):
    """Answers what was planned, then `Done.`; takes no request that a service would not."""

    def __init__(self) -> None:
        super().__init__(chunk=8)
        self.plan: list[Any] = []

    async def _events(self, messages: Any, *rest: Any) -> Any:
        assert find_problems(messages) == []
        answer = self.plan.pop(0) if self.plan else "Done."
        if isinstance(answer, Exception):
            raise answer
        for event in self._events_of(answer, None):
            yield event


def answered(request: PermissionRequest, action: str) -> Any:
    match action:
        case "deny":
            return request.deny("no")
        case "allow_session":
            return request.allow_session()
        case "edit":
            return request.edit({"value": 2})
        case "forged":
            return PermissionRequest(request.call_id, "y", "{}").allow()
        case _:
            return request.allow()


class World:
    """What engines are made of here."""

    def __init__(self) -> None:
        self.llm = Planned()
        self.engine = self.made()

    def made(self) -> Engine:
        def look(value: int) -> int:
            """Look."""
            return value

        def write(value: int) -> int:
            """Write."""
            return value

        def fail(value: int) -> int:
            """Fail."""
            raise LookupError(value)

        def stop(value: int) -> int:
            """Stop the turn."""
            self.engine.cancel()
            return value

        def inject(value: int, context: ToolContext) -> int:
            """Send a message."""
            context.emit(value)
            self.engine.inject("By the way.")
            return value

        tools: list[Any] = [fail, stop, inject, CallableTool.from_function(look).with_(read_only=True)]
        return Engine(
            self.llm,
            [*tools, CallableTool.from_function(write).with_(destructive=True)],
            permissions=Permissions(approve="later"),
            max_rounds=5,
            max_repeats=2,
            max_attempts=2,
            compaction=Compaction(keep=20),
        )


def check_between_turns(engine: Engine) -> None:
    rest = Conversation()
    rest.history = list(engine.history)
    left = unanswered_calls(rest.history)
    rest.answer_open_calls("not run")
    assert find_problems(rest.history) == []
    assert not left or rest.history[-len(left) - 1].role in ("assistant", "tool")


class EngineMachine(RuleBasedStateMachine):
    """One engine, its turns read event by event."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.stream: Any = None
        self.asked: PermissionRequest | None = None
        self.usage = 0

    @property
    def engine(self) -> Engine:
        return self.world.engine

    @property
    def open(self) -> bool:
        return self.stream is not None

    def begin(self, message: str | None, plan: Any, output_cls: Any = None, answers: Any = ()) -> None:
        if message is None and not self.engine.history:
            return
        self.world.llm.plan = list(plan)
        self.stream = self.engine.stream(message, output_cls=output_cls, answers=answers)

    @precondition(lambda self: not self.open)
    @rule(plan=PLANS, message=st.sampled_from(["Go.", None]), output_cls=st.sampled_from([None, None, int]))
    def start(self, plan: Any, message: str | None, output_cls: Any) -> None:
        self.begin(message, plan, output_cls)

    @precondition(lambda self: not self.open and self.engine.pending)
    @rule(plan=PLANS, actions=st.lists(ACTIONS, min_size=1, max_size=3))
    def resume(self, plan: Any, actions: list[str]) -> None:
        answers = [answered(*each) for each in zip(self.engine.pending, actions, strict=False)]
        self.begin(None, plan, answers=answers)

    @precondition(lambda self: self.open)
    @rule(times=st.integers(1, 12), action=st.none() | ACTIONS)
    def read(self, times: int, action: str | None) -> None:
        for _ in range(times):
            event = next(self.stream, None)
            if event is None:
                self.over()
                return
            if isinstance(event, PermissionRequest):
                assert self.engine.state == "permission_wait"
                if action is not None:
                    self.stream.answer(answered(event, action))

    @precondition(lambda self: self.open)
    @rule()
    def finish(self) -> None:
        try:
            turn = self.stream.result()
        except (ToolcastError, LookupError):
            pass
        else:
            assert (turn.end == "approval") == bool(turn.pending)
        self.over()

    @precondition(lambda self: self.open)
    @rule(forgotten=st.booleans())
    def leave(self, forgotten: bool) -> None:
        if not forgotten:
            self.stream.close()
        self.over()

    def over(self) -> None:
        self.stream = None
        gc.collect(0)
        assert self.engine.state == "idle"

    @rule()
    def cancel(self) -> None:
        self.engine.cancel()

    @rule()
    def inject(self) -> None:
        self.engine.inject("By the way.")

    @rule()
    def reset(self) -> None:
        if not self.open or self.stream._turn_loop is None or self.stream._turn_loop.ended:
            self.engine.reset()
            self.usage = 0
            assert self.engine.history == ()
        else:
            with pytest.raises(IllegalState):
                self.engine.reset()

    @precondition(lambda self: not self.open)
    @rule()
    def restart(self) -> None:
        data = json.loads(json.dumps(self.engine.snapshot()))
        before = self.engine
        self.world.engine = self.world.made()
        self.engine.restore(data)
        assert (self.engine.history, self.engine.usage) == (before.history, before.usage)
        assert self.engine.pending == before.pending

    @invariant()
    def the_state_is_legal(self) -> None:
        check_transitions(self.engine)

    @invariant()
    def usage_only_grows(self) -> None:
        assert self.engine.usage.total_tokens >= self.usage
        self.usage = self.engine.usage.total_tokens

    @invariant()
    def the_history_is_sound(self) -> None:
        ids = [made.id for message in self.engine.history for made in message.tool_calls]
        assert len(set(ids)) == len(ids)
        if self.engine.state == "idle" and not self.open:
            check_between_turns(self.engine)

    def teardown(self) -> None:
        if self.open:
            self.stream.close()


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(max_examples=examples(150), stateful_step_count=25)
