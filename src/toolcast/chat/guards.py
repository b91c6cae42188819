"""What the rows of the chat machine (chat_transitions.py) ask: its guards. They look at the context and the event."""

from __future__ import annotations

from ..agents.engine.history import unanswered
from ..approvals import PermissionRequest
from ..messages import Message
from .context import ChatContext
from .events import ApproveToolCall, ChatEvent, RejectToolCall, StreamComplete, ToolCallSuccess


def has_queued_messages(context: ChatContext, event: ChatEvent) -> bool:
    """Whether something waits to be said."""
    return bool(context.queue)


def needs_approval(context: ChatContext, event: StreamComplete) -> bool:
    """Whether the answer has a call that somebody must be asked about."""
    return has_tool_call(context, event) and (event.pending is None or bool(event.pending))


def has_tool_call(context: ChatContext, event: StreamComplete) -> bool:
    """Whether the answer has a call, and all of it."""
    return bool(answer_of(context, event).tool_calls) and event.stop_reason in (None, "tool_use")


def can_retry_tool_search(context: ChatContext, event: ChatEvent) -> bool:
    """Whether the tool search has failed, or was stopped."""
    return context.retry == "tool_search"


def can_retry_generation(context: ChatContext, event: ChatEvent) -> bool:
    """Whether the answer has failed, or was stopped."""
    return context.retry in ("generation", "stream")


def can_retry_tool_call(context: ChatContext, event: ChatEvent) -> bool:
    """Whether calls have failed, and still have no result."""
    return context.retry == "tool_call" and bool(context.running)


def is_pending(context: ChatContext, event: ApproveToolCall | RejectToolCall) -> bool:
    """Whether the word is about calls that wait for one; other arguments are for one call."""
    edits = isinstance(event, ApproveToolCall) and event.arguments is not None
    count = len(meant(context, event))
    return count == 1 if edits else count > 0


def leaves_pending(context: ChatContext, event: RejectToolCall) -> bool:
    """Whether others wait besides those that the word is about."""
    return is_pending(context, event) and len(meant(context, event)) < len(context.pending)


def leaves_calls(context: ChatContext, event: RejectToolCall) -> bool:
    """Whether there are calls that nobody had to be asked about, and that now can run."""
    return is_pending(context, event) and len(unanswered(context.messages)) > len(context.pending)


def has_rounds_after_word(context: ChatContext, event: RejectToolCall) -> bool:
    """Whether the word is about calls that wait, and the model may be asked once more in this turn."""
    return is_pending(context, event) and has_rounds(context, event)


def has_rounds(context: ChatContext, event: ChatEvent) -> bool:
    """Whether the model may be asked once more in this turn."""
    return context.rounds < context.max_rounds


def is_for_running(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Whether the result is one of a call that runs, and others run besides it."""
    return is_running(context, event) and len(context.running) > 1


def is_last_before_word(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Whether this was the last that ran, and others wait for a word."""
    return is_running(context, event) and bool(still_pending(context, event))


def is_last_before_calls(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Whether this was the last that ran, and others can run now: nobody must be asked, or the word was yes."""
    left = len(unanswered(context.messages)) - 1
    return is_running(context, event) and left > len(still_pending(context, event))


def is_last_with_rounds(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Whether this was the last, and the model may be asked once more in this turn."""
    return is_running(context, event) and has_rounds(context, event)


def is_running(context: ChatContext, event: ToolCallSuccess) -> bool:
    """Whether the result is one of a call that runs."""
    return bool(context.running) and (isinstance(event.result, str) or event.result.call_id in context.running)


def answer_of(context: ChatContext, event: StreamComplete) -> Message:
    """The answer as the event gives it, or as its pieces make it."""
    return context.streamed.message if event.message is None else event.message


def still_pending(context: ChatContext, event: ToolCallSuccess) -> tuple[PermissionRequest, ...]:
    """The calls that wait for a word after a result; one that runs, or has its own or its word, does not."""
    if event.pending is None:
        return context.pending
    settled = {*context.running, *(answer.call_id for answer in context.answers)}
    waiting = {call.id for call in unanswered(context.messages)} - settled
    return tuple({request.call_id: request for request in event.pending if request.call_id in waiting}.values())


def meant(context: ChatContext, event: ApproveToolCall | RejectToolCall) -> tuple[PermissionRequest, ...]:
    """The calls that a word is about: none if it was given to other arguments."""
    wanted = (event.call_id, event.fingerprint)
    given = [(request, (request.call_id, request.fingerprint)) for request in context.pending]
    fits = [
        request for request, own in given if all(said in (None, its) for said, its in zip(wanted, own, strict=True))
    ]
    return tuple(fits)
