"""The table of the chat machine as the configuration of an XState machine, for front ends."""

from __future__ import annotations

from typing import Any

from .context import ChatContext
from .events import WorkEvent
from .guards import is_late
from .transitions import ALWAYS, TABLE, Row


def chat_machine_config() -> dict[str, Any]:
    """Return the table of `ChatMachine` as JSON-compatible data, which `createMachine` of XState 5 takes.

    It has the states, the events, and the guards and actions by their names, with the context of a new chat. Of several
    transitions for an event, the first whose guard is true is taken, as in the table. Events of abandoned work are
    ignored by a first transition, with the guard `is_late`, that does nothing.
    """
    states: dict[str, Any] = {}
    for state, rows in TABLE.items():
        on = {event.type: _transitions(choices, event) for event, choices in rows.items()}
        states[state] = {"on": on}
        if state in ALWAYS:
            states[state]["always"] = _transitions(ALWAYS[state])
    return {"id": "chat", "initial": next(iter(TABLE)), "context": ChatContext().to_dict(), "states": states}


def _transitions(rows: tuple[Row, ...], event: type | None = None) -> list[dict[str, Any]]:
    late = [{"guard": is_late.__name__}] if event is not None and issubclass(event, WorkEvent) else []
    return [*late, *map(_transition, rows)]


def _transition(row: Row) -> dict[str, Any]:
    guard = {} if row.guard is None else {"guard": row.guard.__name__}
    return {"target": row.target, **guard, "actions": [action.__name__ for action in row.actions]}
