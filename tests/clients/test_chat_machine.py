"""The exported chat machine, loaded by XState: it goes where the table of `ChatMachine` goes, by the same actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clients.node import run_node
from toolcast import Engine, Permissions, ToolCallPart
from toolcast.chat import ChatChange, ChatMachine, chat_machine_config
from toolcast.chat.chat_context import ChatState
from toolcast.chat.events import ChatEvent, WorkEvent, event_to_dict
from toolcast.chat.guards import is_late
from toolcast.chat.transitions import ACTIONS, ALWAYS, GUARDS, TABLE, Action, Row, transition
from toolcast.testing import ScriptedLLM

UNASKED = {row.guard.__name__: False for rows in ALWAYS.values() for row in rows if row.guard is not None}
"""The guards of the transitions that need no event."""


def walk(*walks: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return what XState does at each step of each walk."""
    names = {"guards": [is_late.__name__, *GUARDS], "actions": [*ACTIONS]}
    return run_node("chat_walk.mjs", config=chat_machine_config(), walks=walks, always=UNASKED, **names)


def names(actions: Sequence[Action]) -> list[str]:
    return [action.__name__ for action in actions]


def asked(rows: Sequence[Row], taken: int) -> dict[str, bool]:
    """Return the guards that are asked, up to that of the row that is taken."""
    return {row.guard.__name__: at == taken for at, row in enumerate(rows[: taken + 1]) if row.guard is not None}


def cases(state: ChatState, event: type[ChatEvent], rows: Sequence[Row]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return a step for each row that the event may take, and for each way in which it is ignored; and what follows."""
    sent, late = {"type": event.type}, {is_late.__name__: False} if issubclass(event, WorkEvent) else {}
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for at, row in enumerate(rows):
        guards = {**late, **asked(rows, at)}
        own = {"state": row.target, "actions": names(row.actions), "taken": True}
        found.append(({"event": sent, "guards": {**guards, **UNASKED}}, own))
        for place, following in enumerate(always := ALWAYS.get(row.target, ())):
            then = {"state": following.target, "actions": [*own["actions"], *names(following.actions)], "taken": True}
            found.append(({"event": sent, "guards": {**guards, **asked(always, place)}}, then))
    ignored = {"state": state, "actions": [], "taken": False}
    if rows[-1].guard is not None:
        found.append(({"event": sent, "guards": {**late, **asked(rows, len(rows)), **UNASKED}}, ignored))
    if late:
        found.append(({"event": sent, "guards": {is_late.__name__: True, **UNASKED}}, ignored))
    return found


def test_each_row_of_the_table_is_taken_by_xstate() -> None:
    walks, expected = list[dict[str, Any]](), list[list[dict[str, Any]]]()
    for state, on in TABLE.items():
        for event, rows in on.items():
            for step, follows in cases(state, event, rows):
                walks.append({"state": state, "steps": [step]})
                expected.append([follows])
    assert len(walks) > sum(len(rows) for on in TABLE.values() for rows in on.values())
    assert walk(*walks) == expected


def test_an_event_without_a_row_is_ignored_by_xstate() -> None:
    types = {event.type for on in TABLE.values() for event in on}
    left = [(state, type) for state, on in TABLE.items() for type in sorted(types - {event.type for event in on})]
    found = walk(*({"state": state, "steps": [{"event": {"type": type}, "guards": UNASKED}]} for state, type in left))
    assert found == [[{"state": state, "actions": [], "taken": False}] for state, _ in left]


def look(city: str) -> str:
    """Look at a city."""
    return f"{city}: sunny"


def changes() -> list[ChatChange]:
    """Return the changes of a chat: a call that a user approves, its result, an answer, and a message queued before."""
    call = ToolCallPart("1", "look", '{"city": "Oslo"}')
    engine = Engine(ScriptedLLM(call, "Oslo is sunny.", "You are welcome."), [look], permissions=Permissions())
    found = list[ChatChange]()
    with ChatMachine(engine) as chat:
        chat.subscribe(found.append)
        chat.dispatch("LOAD_MODEL")
        chat.run_until("ready")
        chat.dispatch({"type": "QUEUE_MESSAGE", "message": "How is Oslo?"})
        chat.run_until("waiting_for_tool_approval")
        chat.dispatch({"type": "QUEUE_MESSAGE", "message": "Thank you!"})
        chat.dispatch("RETRY_GENERATION")
        chat.dispatch("APPROVE_TOOL_CALL")
        chat.run_until()
    return found


def recorded(state: ChatState, change: ChatChange) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an event with the values of its guards, and what the Python machine does at it."""
    done = list[str]()

    def note(name: str) -> Action:
        def noted(builder: Any, event: Any) -> None:
            done.append(name)
            ACTIONS[name](builder, event)

        return noted

    outcome = transition(state, change.before, change.event, {name: note(name) for name in ACTIONS})
    assert (outcome.state, outcome.ignored) == (change.state, change.ignored)
    guards = {is_late.__name__: is_late(change.before, change.event)}
    always = UNASKED | asked(ALWAYS[outcome.path[0]], 0) if len(outcome.path) > 1 else UNASKED
    for row in TABLE[state].get(type(change.event), ()):
        if row.guard is not None:
            guards[row.guard.__name__] = row.guard(change.before, change.event)
    step = {"event": event_to_dict(change.event), "guards": {**guards, **always}}
    return step, {"state": change.state, "actions": done, "taken": not change.ignored}


def test_the_happy_path_is_the_same_in_xstate() -> None:
    """The happy path of the seed: loading, ready, search, generation, stream, approval, call, and the next round."""
    state: ChatState = "idle"
    steps, expected, path = list[dict[str, Any]](), list[dict[str, Any]](), list[str]()
    for change in changes():
        step, follows = recorded(state, change)
        steps.append(step)
        expected.append(follows)
        path += [reached for reached in change.path if reached != (path[-1] if path else "idle")]
        state = change.state
    round_of_model = ["searching_tools", "generating_response", "streaming_response"]
    assert path == [
        *("loading_model", "ready"),
        *(*round_of_model, "waiting_for_tool_approval", "calling_tool"),
        *(*round_of_model, "ready"),
        *(*round_of_model, "ready"),
    ]
    assert walk({"state": "idle", "steps": steps}) == [expected]
