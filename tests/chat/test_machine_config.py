"""The XState configuration of the chat machine: it has the table, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, strategies as st

from support.chats import CALL, ROADS
from toolcast.chat.actions import ContextBuilder
from toolcast.chat.chat_context import STATES, ChatContext, ChatState
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    EditQueued,
    GenerationSuccess,
    HoldQueue,
    Interrupt,
    QueueMessage,
    Regenerate,
    RejectToolCall,
    ReleaseQueue,
    RemoveQueued,
    Restored,
    RetryGeneration,
    RetryToolCall,
    RetryToolSearch,
    SetMode,
    Stop,
    StreamChunk,
    StreamComplete,
    StreamError,
    SwitchBranch,
    ToolCallFailure,
    ToolCallProgress,
    ToolCallSuccess,
    ToolSearchSuccess,
    WorkEvent,
)
from toolcast.chat.guards import is_late
from toolcast.chat.machine_types import chat_machine_config
from toolcast.chat.transitions import ACTIONS, ALWAYS, GUARDS, TABLE, Row, transition
from toolcast.messages import assistant
from toolcast.values.approvals import PermissionRequest

CONFIG = json.loads(json.dumps(chat_machine_config()))
LATE = {"guard": "is_late"}


def exported() -> Iterator[tuple[str, str, Any]]:
    """Yield the transitions of each state and event; those that follow at once have no event."""
    for state, own in CONFIG["states"].items():
        assert own.keys() == ({"on", "always"} if state == "ready" else {"on"})
        for event, transitions in own["on"].items():
            yield state, event, transitions
        if "always" in own:
            yield state, "", own["always"]


def expected() -> Iterator[tuple[str, str, Any]]:
    """Yield the same from the table."""
    for state, on in TABLE.items():
        for event, rows in on.items():
            late = [LATE] if issubclass(event, WorkEvent) else []
            yield state, event.type, [*late, *map(plain, rows)]
        if state in ALWAYS:
            yield state, "", [*map(plain, ALWAYS[state])]


def plain(row: Row) -> dict[str, Any]:
    actions = {"target": row.target, "actions": [action.__name__ for action in row.actions]}
    return actions if row.guard is None else {**actions, "guard": row.guard.__name__}


def test_each_transition_of_the_table_is_exported_in_its_order_and_no_other() -> None:
    assert [*exported()] == [*expected()]


def test_the_rest_is_what_xstate_begins_with() -> None:
    assert CONFIG.keys() == {"id", "initial", "context", "states"}
    assert (CONFIG["id"], CONFIG["initial"], [*CONFIG["states"]]) == ("chat", "idle", [*STATES])
    assert ChatContext.from_dict(CONFIG["context"]) == ChatContext()


def test_the_names_are_those_of_functions() -> None:
    transitions = [each for _, _, choices in exported() for each in choices]
    assert {name for each in transitions for name in each.get("actions", ())} == {*ACTIONS}
    assert {each["guard"] for each in transitions if "guard" in each} == {*GUARDS, "is_late"}


def follow(state: ChatState, context: ChatContext, event: ChatEvent) -> tuple[ChatState, ChatContext]:
    """Apply an event as XState does: the first transition whose guard is true, then those without an event."""
    choices = CONFIG["states"][state]["on"].get(event.type, ())
    while (taken := next((each for each in choices if holds(each, context, event)), None)) is not None:
        builder = ContextBuilder(context)
        for name in taken.get("actions", ()):
            ACTIONS[name](builder, event)
        state, context = taken.get("target", state), builder.context
        choices = CONFIG["states"][state].get("always", ())
    return state, context


def holds(transition: dict[str, Any], context: ChatContext, event: ChatEvent) -> bool:
    name = transition.get("guard")
    return name is None or {**GUARDS, "is_late": is_late}[name](context, event)


REQUEST = PermissionRequest(CALL.id, CALL.name, CALL.arguments)
EVENTS: list[ChatEvent] = [
    *(event for road in ROADS.values() for event in road),
    *(EditQueued(at, "Edited.") for at in (0, 1)),
    *(kind(at) for at in (0, 1, 2) for kind in (RemoveQueued, HoldQueue, Regenerate)),
    *(EditMessage(at, "Edited.") for at in (0, 2)),
    *(SwitchBranch(0, branch) for branch in (0, 1)),
    *(QueueMessage("And?"), ReleaseQueue(), SetMode("plan"), Interrupt(), Stop(), Restored()),
    *(RetryToolSearch(), RetryGeneration(), RetryToolCall()),
    *(ApproveToolCall(), ApproveToolCall("other"), RejectToolCall(), RejectToolCall(CALL.id)),
    *(ToolSearchSuccess(), ToolSearchSuccess(run=0), GenerationSuccess(run=-1)),
    *(StreamChunk("Hi."), StreamComplete(), StreamError("broken"), StreamComplete(assistant(CALL), ())),
    StreamComplete(assistant(CALL, "Two."), (REQUEST,), "tool_use"),
    *(ToolCallProgress(CALL.id), ToolCallSuccess("42"), ToolCallFailure("broken")),
]


@given(st.sampled_from(STATES), st.integers(1, 2), st.lists(st.sampled_from(EVENTS), max_size=30))
def test_the_configuration_leads_where_the_machine_goes(state: ChatState, rounds: int, events: list[ChatEvent]) -> None:
    now: ChatState = "idle"
    context = ChatContext(max_rounds=rounds)
    for event in [*ROADS[state], *events]:
        step = transition(now, context, event)
        assert follow(now, context, event) == (step.state, step.context)
        now, context = step.state, step.context
