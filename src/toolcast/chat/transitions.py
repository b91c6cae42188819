"""The transition table of the chat machine. Pure: no I/O, no clock.

    idle ──> loading_model ──> ready ──> searching_tools ──> generating_response ──> streaming_response ──> ready
                  │              ^              ^                                            │
                  v              │              │                                            v
             load_failed         └── (INTERRUPT │, failures)                    waiting_for_tool_approval
                                                └──────────── calling_tool <─────────────────┘

`TABLE` is complete, and the diagram in the documentation is drawn from it: for each state and each event its rows, of
which the first whose guard is true is taken. A row has actions, which change the context and start work, and the next
state. An event without a row is ignored. Work has a number, `run`; events of another run are ignored, so late events
have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias

from ..values.states import Table
from .actions import (
    ContextBuilder,
    Effect,
    append_assistant_message,
    append_chunk,
    append_tool_rejection_message,
    append_tool_response_message,
    approve,
    await_approval,
    begin_anew,
    call_tool,
    can_be_loaded_again,
    can_generate_again,
    can_search_again,
    cancel_generation,
    cancel_loading,
    cancel_stream,
    cancel_tool_call,
    cancel_tool_search,
    close_calls,
    count_round,
    deliver_queue,
    drop_interrupted,
    edit_message,
    enqueue,
    hold_queue,
    keep_partial_text,
    keep_tools,
    note_failure,
    note_limit,
    note_loaded,
    note_progress,
    refuse_cut_calls,
    regenerate,
    release_queue,
    remove_queued,
    replace_queued,
    select_branch,
    set_mode,
    set_model,
    start_generating,
    start_loading,
    start_tool_search,
)
from .chat_context import ChatContext, ChatState
from .events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    EditQueued,
    GenerationFailure,
    GenerationSuccess,
    HoldQueue,
    Interrupt,
    LoadModel,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    QueueMessage,
    Regenerate,
    RejectToolCall,
    ReleaseQueue,
    RemoveQueued,
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
    ToolSearchFailure,
    ToolSearchSuccess,
)
from .guards import (
    can_retry_generation,
    can_retry_tool_call,
    can_retry_tool_search,
    has_held_messages,
    has_queued_messages,
    has_rounds,
    has_rounds_after_word,
    has_tool_call,
    is_for_running,
    is_in_queue,
    is_in_turn,
    is_last_before_calls,
    is_last_before_word,
    is_last_with_rounds,
    is_late,
    is_other_branch,
    is_pending,
    is_queued,
    is_running,
    is_turn_requested,
    is_user_message,
    leaves_calls,
    leaves_pending,
    needs_approval,
)


class Transition(NamedTuple):
    """The result of an event: the state, the context, the effects, and all states on the way.

    `delivered` is the number of messages at the end of the context that begin a turn.
    """

    state: ChatState
    context: ChatContext
    effects: tuple[Effect, ...] = ()
    ignored: bool = False
    path: tuple[ChatState, ...] = ()
    delivered: int = 0


# The event is of the type that is the row's key, so each function can annotate its own.
Guard: TypeAlias = Callable[[ChatContext, Any], bool]
Action: TypeAlias = Callable[[ContextBuilder, Any], None]

_NO_ACTIONS: Final[Mapping[str, Action]] = {}


class Row(NamedTuple):
    """A row of the table: if `guard` is true, the `actions` in order, and the state `target`."""

    target: ChatState
    actions: tuple[Action, ...] = ()
    guard: Guard | None = None


def transition(
    state: ChatState, context: ChatContext, event: ChatEvent, actions: Mapping[str, Action] = _NO_ACTIONS
) -> Transition:
    """Apply `event`; one that is impossible in `state` changes nothing and is `ignored`.

    `actions` replace those of the table, by their names.
    """
    if is_late(context, event):
        return Transition(state, context, ignored=True)
    row = _row(TABLE[state].get(type(event), ()), context, event)
    if row is None:
        return Transition(state, context, ignored=True)
    builder, path, delivered = ContextBuilder(context), list[ChatState](), 0
    while row is not None:
        for action in row.actions:
            actions.get(action.__name__, action)(builder, event)
        path.append(row.target)
        row = _row(ALWAYS.get(row.target, ()), builder.context, event)
        if row is not None:
            delivered = _count_delivered(builder.context)
    return Transition(path[-1], builder.context, tuple(builder.effects), path=tuple(path), delivered=delivered)


def _count_delivered(context: ChatContext) -> int:
    again = reversed(context.messages if context.retry == "turn" else ())
    return sum(1 for _ in takewhile(lambda message: message.role == "user", again)) + len(context.queue)


def _row(rows: Iterable[Row], context: ChatContext, event: ChatEvent) -> Row | None:
    return next((row for row in rows if row.guard is None or row.guard(context, event)), None)


Rows: TypeAlias = Mapping[type[ChatEvent], tuple[Row, ...]]


def _common_rows(state: ChatState) -> Rows:
    """Return the rows that every state has: messages are queued or held back, and the mode is set."""
    return {
        QueueMessage: (Row(state, (enqueue,)),),
        EditQueued: (Row(state, (replace_queued,), is_queued),),
        RemoveQueued: (Row(state, (remove_queued,), is_queued),),
        HoldQueue: (Row(state, (hold_queue,), is_in_queue),),
        ReleaseQueue: (Row(state, (release_queue,), has_held_messages),),
        SetMode: (Row(state, (set_mode,)),),
    }


def _branch_rows(state: ChatState, *actions: Action) -> Rows:
    """Return the rows by which another branch is begun or selected, after these actions."""
    return {
        EditMessage: (Row(state, (*actions, edit_message), is_user_message),),
        Regenerate: (Row(state, (*actions, regenerate), is_in_turn),),
        SwitchBranch: (Row(state, (*actions, select_branch), is_other_branch),),
    }


def _stop_rows(*actions: Action) -> Rows:
    """Return the rows that end the work of a state: the turn is stopped, or another model or branch is requested."""
    return {
        Stop: (Row("ready", actions),),
        LoadModel: (Row("loading_model", (*actions, set_model, start_loading)),),
        **_branch_rows("ready", *actions),
    }


_NEXT_ROUND: Final = (Row("searching_tools", (count_round, start_tool_search), has_rounds), Row("ready", (note_limit,)))
"""The rows by which the model reads the results of its calls, if there is a round left."""


def _then_next_round(*actions: Action) -> tuple[Row, ...]:
    return tuple([row._replace(actions=(*actions, *row.actions)) for row in _NEXT_ROUND])


ALWAYS: Final[Mapping[ChatState, tuple[Row, ...]]] = {
    "ready": (
        Row("searching_tools", (deliver_queue, start_tool_search), has_queued_messages),
        Row("searching_tools", (begin_anew, start_tool_search), is_turn_requested),
    ),
}
"""The transitions that follow at once when a state is reached."""

TABLE: Final[Mapping[ChatState, Rows]] = {
    "idle": {
        LoadModel: (Row("loading_model", (set_model, start_loading)),),
        **_branch_rows("idle"),
        **_common_rows("idle"),
    },
    "loading_model": {
        ModelLoadProgress: (Row("loading_model", (note_progress,)),),
        ModelLoadSuccess: (Row("ready", (note_loaded,)),),
        ModelLoadFailure: (Row("load_failed", (note_failure,)),),
        LoadModel: (Row("loading_model", (cancel_loading, set_model, start_loading)),),
        Stop: (Row("load_failed", (cancel_loading, can_be_loaded_again)),),
        **_branch_rows("loading_model"),
        **_common_rows("loading_model"),
    },
    "load_failed": {
        LoadModel: (Row("loading_model", (set_model, start_loading)),),
        **_branch_rows("load_failed"),
        **_common_rows("load_failed"),
    },
    "ready": {
        LoadModel: (Row("loading_model", (set_model, start_loading)),),
        RetryToolSearch: (Row("searching_tools", (begin_anew, start_tool_search), can_retry_tool_search),),
        RetryGeneration: (
            Row("generating_response", (begin_anew, drop_interrupted, start_generating), can_retry_generation),
        ),
        RetryToolCall: (Row("calling_tool", (begin_anew, call_tool), can_retry_tool_call),),
        **_branch_rows("ready"),
        **_common_rows("ready"),
    },
    "searching_tools": {
        ToolSearchSuccess: (Row("generating_response", (keep_tools, start_generating)),),
        ToolSearchFailure: (Row("ready", (note_failure,)),),
        Interrupt: (Row("ready", (cancel_tool_search, can_search_again)),),
        **_stop_rows(cancel_tool_search, can_search_again),
        **_common_rows("searching_tools"),
    },
    "generating_response": {
        GenerationSuccess: (Row("streaming_response"),),
        GenerationFailure: (Row("ready", (note_failure,)),),
        Interrupt: (Row("ready", (cancel_generation, can_generate_again)),),
        **_stop_rows(cancel_generation, can_generate_again),
        **_common_rows("generating_response"),
    },
    "streaming_response": {
        StreamChunk: (Row("streaming_response", (append_chunk,)),),
        StreamComplete: (
            Row("waiting_for_tool_approval", (await_approval, append_assistant_message), needs_approval),
            Row("calling_tool", (append_assistant_message, call_tool), has_tool_call),
            Row("ready", (append_assistant_message, refuse_cut_calls)),
        ),
        StreamError: (Row("ready", (keep_partial_text, note_failure, cancel_stream)),),
        Interrupt: (Row("ready", (cancel_stream, keep_partial_text, can_generate_again)),),
        **_stop_rows(cancel_stream, keep_partial_text, can_generate_again),
        **_common_rows("streaming_response"),
    },
    "waiting_for_tool_approval": {
        ApproveToolCall: (Row("calling_tool", (approve, call_tool), is_pending),),
        RejectToolCall: (
            Row("waiting_for_tool_approval", (append_tool_rejection_message,), leaves_pending),
            Row("calling_tool", (append_tool_rejection_message, call_tool), leaves_calls),
            Row(
                "searching_tools",
                (append_tool_rejection_message, count_round, start_tool_search),
                has_rounds_after_word,
            ),
            Row("ready", (append_tool_rejection_message, note_limit), is_pending),
        ),
        Interrupt: _then_next_round(close_calls),
        **_stop_rows(close_calls, can_search_again),
        **_common_rows("waiting_for_tool_approval"),
    },
    "calling_tool": {
        ToolCallProgress: (Row("calling_tool"),),
        ToolCallSuccess: (
            Row("calling_tool", (append_tool_response_message,), is_for_running),
            Row("calling_tool", (append_tool_response_message, call_tool), is_last_before_calls),
            Row("waiting_for_tool_approval", (append_tool_response_message,), is_last_before_word),
            Row("searching_tools", (append_tool_response_message, count_round, start_tool_search), is_last_with_rounds),
            Row("ready", (append_tool_response_message, note_limit), is_running),
        ),
        ToolCallFailure: (Row("ready", (note_failure,)),),
        ApproveToolCall: (Row("calling_tool", (approve,), is_pending),),
        RejectToolCall: (Row("calling_tool", (append_tool_rejection_message,), is_pending),),
        Interrupt: _then_next_round(cancel_tool_call, close_calls),
        **_stop_rows(cancel_tool_call, close_calls, can_search_again),
        **_common_rows("calling_tool"),
    },
}
"""The rows for each event in each state."""


_CHOICES: Final = [*(choices for rows in TABLE.values() for choices in rows.values()), *ALWAYS.values()]
_ROWS: Final = [row for choices in _CHOICES for row in choices]

ACTIONS: Final[Mapping[str, Action]] = {action.__name__: action for row in _ROWS for action in row.actions}
"""The actions by their names."""

GUARDS: Final[Mapping[str, Guard]] = {row.guard.__name__: row.guard for row in _ROWS if row.guard is not None}
"""The guards by their names."""


def diagram() -> Table:
    """Return the table in the form of states.py, with events and guards as labels."""
    moves: dict[str, dict[str, str]] = {}
    for state, rows in TABLE.items():
        own = moves[state] = {}
        for event, choices in rows.items():
            own |= {_label(event.type, row): row.target for row in choices}
        own |= {_label("", row): row.target for row in ALWAYS.get(state, ())}
    return moves


def _label(event: str, row: Row) -> str:
    guard = "" if row.guard is None else f"[{row.guard.__name__}]"
    return f"{event} {guard}".strip()
