"""The state machines of calls, turns, sessions and elves, as transition tables, and the `Trace` of one call.

Each table maps a state and an event to the next state; its first state is the initial one. The diagrams of the
documentation are generated from the tables. A trace without an observer costs one attribute per item.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, TypeAlias

logger: Final = logging.getLogger("toolcast")

State: TypeAlias = str
Table: TypeAlias = Mapping[State, Mapping[str, State]]
Observer: TypeAlias = Callable[[str, State], object]

_ENDS = {"failed": "error", "closed": "closed"}

ORCHESTRATOR: Table = {
    "uninitialized": {"init_called": "validating"},
    "validating": {"validated": "ready", "failed": "error"},
    "ready": {"prompt_set": "updating_prompt"},
    "updating_prompt": {"prompt_updated": "ready", "failed": "ready"},
    "error": {},
}
"""A `ToolOrchestratingLLM` itself. Each of its concurrent calls has its own states."""

CALL: Table = {
    "ready": {"called": "creating_tool"},
    "creating_tool": {"tool_created": "formatting_prompt", **_ENDS},
    "formatting_prompt": {"prompt_formatted": "extending_messages", **_ENDS},
    "extending_messages": {"messages_extended": "calling_llm", **_ENDS},
    "calling_llm": {"answered": "parsing_tool_calls", **_ENDS},
    "parsing_tool_calls": {"calls_parsed": "executing_tools", "asked_again": "calling_llm", **_ENDS},
    "executing_tools": {"tools_executed": "creating_response", "asked_again": "calling_llm", **_ENDS},
    "creating_response": {"response_created": "extracting_output", **_ENDS},
    "extracting_output": {"returned": "ready", **_ENDS},
    "error": {},
    "closed": {},
}
"""A call without streaming: `make_album(...)` and `acall`."""

TOOL_CALL: Table = {
    "executing_tools": {"forked": "execute_tool"},
    "execute_tool": {"executed": "validate_tool", **_ENDS},
    "validate_tool": {"validated": "create_model", **_ENDS},
    "create_model": {"created": "wrap_output", **_ENDS},
    "wrap_output": {"wrapped": "collect_outputs", **_ENDS},
    "collect_outputs": {"joined": "executing_tools", **_ENDS},
    "error": {},
    "closed": {},
}
"""One of several tool calls of a response (`allow_parallel_tool_calls`), forked from the call and joined again."""

STREAM: Table = {
    "ready": {"called": "creating_tool"},
    "creating_tool": {"tool_created": "formatting_prompt", **_ENDS},
    "formatting_prompt": {"prompt_formatted": "extending_messages", **_ENDS},
    "extending_messages": {"messages_extended": "initiating_stream", **_ENDS},
    "initiating_stream": {"opened": "receiving_chunk", **_ENDS},
    "receiving_chunk": {"received": "processing_chunk", "asked_again": "initiating_stream", **_ENDS}
    | {"exhausted": "ready"},
    "processing_chunk": {"unreadable": "skipping_chunk", "readable": "parsing_partial_tool_calls", **_ENDS},
    "parsing_partial_tool_calls": {"parsed": "updating_objects", **_ENDS} | {"asked_again": "initiating_stream"},
    "updating_objects": {"changed": "yielding_partial", "unchanged": "more_chunks", **_ENDS},
    "yielding_partial": {"yielded": "more_chunks", **_ENDS},
    "skipping_chunk": {"skipped": "more_chunks", **_ENDS},
    "more_chunks": {"more": "receiving_chunk", **_ENDS},
    "error": {},
    "closed": {},
}
"""A streamed call: `make_album.stream(...)` and `astream`."""

_BREAKS = {"failed": "error", "cancelled": "cancelled"}

TURN: Table = {
    "idle": {"submitted": "streaming", "resumed": "tool_exec", **_BREAKS},
    "streaming": {"exhausted": "accumulating", "compacted": "streaming", **_BREAKS},
    "accumulating": {"tools_called": "tool_exec", "answered": "complete", "asked_again": "streaming", **_BREAKS},
    "tool_exec": {"approval_needed": "permission_wait", "tools_executed": "streaming"}
    | {"answered": "complete", **_BREAKS},
    "permission_wait": {"decided": "tool_exec", "suspended": "idle", **_BREAKS},
    "complete": {"returned": "idle", **_BREAKS},
    "cancelled": {"returned": "idle"},
    "error": {"returned": "idle"},
}
"""A turn of an engine: `submit`, `asubmit`, `stream` and `astream`."""

SESSION: Table = {
    "idle": {"sent": "active", "closed": "closed"},
    "active": {"ended": "idle", "cancelled": "cancelling", "closed": "closed"},
    "cancelling": {"ended": "idle", "closed": "closed"},
    "closed": {},
}
"""A session around one engine."""

ELF: Table = {
    "pending": {"started": "running", "cancelled": "cancelled"},
    "running": {"completed": "completed", "failed": "failed", "cancelled": "cancelled"},
    "completed": {"sent": "running"},
    "failed": {"sent": "running"},
    "cancelled": {"sent": "running"},
}
"""A sub-agent."""

_LIMITED = {"limited": "finalize_cycle"}

CYCLE: Table = {
    "load_state": {"loaded": "assemble_prompt", "calls_left": "dispatch_tool", "reflection_left": "finalize_cycle"}
    | _BREAKS,
    "assemble_prompt": {"assembled": "invoke_llm", **_LIMITED, **_BREAKS},
    "invoke_llm": {"answered": "parse_response", "unreadable": "assemble_prompt", **_LIMITED, **_BREAKS},
    "parse_response": {"tools_called": "dispatch_tool", "reflected": "finalize_cycle", **_BREAKS},
    "dispatch_tool": {"results_appended": "assemble_prompt", **_BREAKS},
    "finalize_cycle": {"finalized": "terminate_or_continue", **_BREAKS},
    "terminate_or_continue": {"more_cycles": "load_state", "completed": "complete", **_BREAKS},
    "complete": {},
    "cancelled": {},
    "error": {},
}
"""The cycles of an experiment: ContReAct."""

_LEAVES = {"left": "terminated"}
_STOPS = {"cancelled": "idle", "failed": "error", **_LEAVES}
_ROUTED = {"routed": "streaming_response", **_STOPS}

REPL: Table = {
    "init": {"opened": "idle", **_LEAVES},
    "idle": {"entered": "processing_input", "went_on": "streaming_response", **_LEAVES},
    "processing_input": {"asked": "streaming_response", "done": "idle", **_LEAVES},
    "streaming_response": {"received": "routing", "approval_needed": "tool_execution", "ended": "idle", **_STOPS},
    "routing": {"thought": "thinking", "called": "tool_execution", "spoke": "content_output"}
    | {"unreadable": "error", **_ROUTED},
    "thinking": _ROUTED,
    "tool_execution": _ROUTED,
    "content_output": _ROUTED,
    "error": {"recovered": "idle", "skipped": "streaming_response", **_STOPS},
    "terminated": {},
}
"""The loop of `toolcast chat`. An approval prompt is part of `tool_execution`."""

_numbers = count(1)


class Trace:
    """The current state of one call. `observer(call_id, state)` is called for every state."""

    __slots__ = ("_observer", "_table", "call_id", "observed", "state")

    def __init__(self, table: Table, observer: Observer | None = None, call_id: str | None = None) -> None:
        self.call_id: str = f"call-{next(_numbers)}" if call_id is None else call_id
        self.state: State = next(iter(table))
        self.observed: bool = observer is not None
        self._table = table
        self._observer = observer

    def add_observer(self, observer: Observer) -> None:
        """Call `observer` too, after the first one."""
        first = self._observer

        def both(call_id: str, state: State) -> None:
            if first is not None:
                first(call_id, state)
            observer(call_id, state)

        self._observer, self.observed = both, True

    def step(self, *events: str) -> None:
        """Apply `events` in order. Raise `KeyError` for one that the table does not allow in the current state."""
        for event in events:
            self.state = self._table[self.state][event]
            if self._observer is not None:
                notify(self._observer, self.call_id, self.state)

    def fork(self, count: int) -> tuple[Trace, ...]:
        """Return the traces of `count` tool calls, `call-1.1`, `call-1.2`, ..., or none without an observer."""
        if self._observer is None:
            return ()
        return tuple([Trace(TOOL_CALL, self._observer, f"{self.call_id}.{n}") for n in range(1, count + 1)])


def notify(observer: Observer, id: str, state: State) -> None:
    """Call an observer, which is the user's own code: its errors are logged and end nothing."""
    try:
        observer(id, state)
    except Exception:  # the user's observer: logged, none of the call's business
        logger.exception("the observer failed in state %s of %s", state, id)


def mermaid(table: Table) -> str:
    """Return the state diagram of `table` as Mermaid text."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(table))}"]
    for state, moves in table.items():
        lines += [f"    {state} --> {target}: {event}" for event, target in moves.items()]
    return "\n".join(lines) + "\n"
