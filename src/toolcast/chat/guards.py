"""The guards of the chat machine's transition table: conditions on context and event; which events arrive late."""

from __future__ import annotations

from ..agents.engine.history import unanswered_calls
from ..messages import Message
from ..values.approvals import PermissionRequest
from .branches import branch_count
from .chat_context import ChatContext
from .events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    EditQueued,
    HoldQueue,
    Regenerate,
    RejectToolCall,
    RemoveQueued,
    StreamComplete,
    SwitchBranch,
    ToolCallSuccess,
    WorkEvent,
)


def is_late(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if `event` reports work of another run than the present one, which was cancelled or superseded."""
    return isinstance(event, WorkEvent) and event.run not in (None, context.run)


def has_queued_messages(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if messages are queued."""
    return bool(context.queue)


def is_turn_requested(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if another answer was requested, and its turn has not begun."""
    return context.retry == "turn"


def is_queued(context: ChatContext, event: EditQueued | RemoveQueued) -> bool:
    """Return True if there is a message at the index, in the queue or held back after it."""
    return event.index < len(context.queue) + len(context.held)


def is_in_queue(context: ChatContext, event: HoldQueue) -> bool:
    """Return True if the queue has a message at the index."""
    return event.index < len(context.queue)


def has_held_messages(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if messages are held back."""
    return bool(context.held)


def is_user_message(context: ChatContext, event: EditMessage) -> bool:
    """Return True if the message at the index is the user's."""
    return event.index < len(context.messages) and context.messages[event.index].role == "user"


def is_in_turn(context: ChatContext, event: Regenerate) -> bool:
    """Return True if the message at the index belongs to a turn: it, or one before it, is the user's."""
    until = context.messages[: event.index + 1]
    return len(until) > event.index and any(message.role == "user" for message in until)


def is_other_branch(context: ChatContext, event: SwitchBranch) -> bool:
    """Return True if there is such a branch, and it is not the current one."""
    current = next((point.current for point in context.branches if point.index == event.index), 0)
    return event.branch != current and event.branch < branch_count(context, event.index)


def needs_approval(context: ChatContext, event: StreamComplete) -> bool:
    """Return True if a call of the answer needs an approval."""
    return has_tool_call(context, event) and (event.pending is None or bool(event.pending))


def has_tool_call(context: ChatContext, event: StreamComplete) -> bool:
    """Return True if the answer has complete tool calls."""
    return bool(final_message(context, event).tool_calls) and event.stop_reason in (None, "tool_use")


def can_retry_tool_search(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if the tool search has failed or was stopped."""
    return context.retry == "tool_search"


def can_retry_generation(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if the answer has failed or was stopped."""
    return context.retry in ("generation", "stream")


def can_retry_tool_call(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if calls have failed and still have no result."""
    return context.retry == "tool_call" and bool(context.running)


def is_pending(context: ChatContext, event: ApproveToolCall | RejectToolCall) -> bool:
    """Return True if the decision is about pending calls; edited arguments are for one call."""
    edits = isinstance(event, ApproveToolCall) and event.arguments is not None
    count = len(matching_requests(context, event))
    return count == 1 if edits else count > 0


def leaves_pending(context: ChatContext, event: RejectToolCall) -> bool:
    """Return True if calls besides those of the decision are pending."""
    return is_pending(context, event) and len(matching_requests(context, event)) < len(context.pending)


def leaves_calls(context: ChatContext, event: RejectToolCall) -> bool:
    """Return True if calls that need no approval can run now."""
    return is_pending(context, event) and len(unanswered_calls(context.messages)) > len(context.pending)


def has_rounds_after_word(context: ChatContext, event: RejectToolCall) -> bool:
    """Return True if the decision is about pending calls, and the turn has a round left."""
    return is_pending(context, event) and has_rounds(context, event)


def has_rounds(context: ChatContext, event: ChatEvent) -> bool:
    """Return True if the turn has a round left."""
    return context.rounds < context.max_rounds


def is_for_running(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Return True if the result is that of a running call, and others are running too."""
    return is_running(context, event) and len(context.running) > 1


def is_last_before_word(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Return True if the last running call has its result, and others wait for a decision."""
    return is_running(context, event) and bool(still_pending(context, event))


def is_last_before_calls(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Return True if the last running call has its result, and others can run now."""
    left = len(unanswered_calls(context.messages)) - 1
    return is_running(context, event) and left > len(still_pending(context, event))


def is_last_with_rounds(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Return True if the last running call has its result, and the turn has a round left."""
    return is_running(context, event) and has_rounds(context, event)


def is_running(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Return True if the result is that of a running call."""
    return bool(context.running) and (isinstance(event.result, str) or event.result.call_id in context.running)


def final_message(context: ChatContext, event: StreamComplete) -> Message:
    """Return the answer of the event, or the one that its chunks make."""
    return context.streamed.message if event.message is None else event.message


def still_pending(context: ChatContext, event: ToolCallSuccess) -> tuple[PermissionRequest, ...]:
    """Return the calls that wait for a decision after this result.

    Running calls, and those with a result or a decision, do not wait.
    """
    if event.pending is None:
        return context.pending
    settled = {*context.running, *(answer.call_id for answer in context.answers)}
    waiting = {call.id for call in unanswered_calls(context.messages)} - settled
    return tuple({request.call_id: request for request in event.pending if request.call_id in waiting}.values())


def matching_requests(context: ChatContext, event: ApproveToolCall | RejectToolCall) -> tuple[PermissionRequest, ...]:
    """Return the pending requests that a decision is about: none if it was given to other arguments."""
    wanted = (event.call_id, event.fingerprint)
    given = [(request, (request.call_id, request.fingerprint)) for request in context.pending]
    fits = [
        request
        for request, own in given
        if all(expected in (None, actual) for expected, actual in zip(wanted, own, strict=True))
        and (event.fingerprints is None or request.fingerprint in event.fingerprints)
    ]
    return tuple(fits)
