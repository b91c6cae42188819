"""The actions of the chat machine's transition table (transitions.py).

An action writes the next context into a `ContextBuilder`, and starts or cancels work there. After every action, each
call of the last answer has its place, and one result, in call order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias, cast

from ..agents.engine.history import CUT_OFF, SUPERSEDED, has_content, unanswered_calls
from ..agents.permissions.call_decisions import denial_text
from ..events import TextDelta
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, Part, TextPart, ToolCallPart, ToolResultPart
from ..providers.content_parts import CallIds, valid_arguments
from ..values.approvals import ApprovalDecision, PermissionRequest
from .branches import begin_branch, switch_branch
from .chat_context import NOTHING_STREAMED, ChatContext, ChatError, ChatMark, MarkKind, Stage
from .events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    EditQueued,
    Failure,
    GenerationFailure,
    HoldQueue,
    LoadModel,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    QueueMessage,
    Regenerate,
    RejectToolCall,
    RemoveQueued,
    SetMode,
    StreamChunk,
    StreamComplete,
    StreamError,
    SwitchBranch,
    ToolCallFailure,
    ToolCallSuccess,
    ToolSearchFailure,
    ToolSearchSuccess,
)
from .guards import final_message, matching_requests, still_pending

Order: TypeAlias = Literal["load_model", "search_tools", "generate", "call_tools", "cancel"]


@dataclass(frozen=True, slots=True)
class Effect:
    """Work to start, with its number; `cancel` ends the work of that number."""

    order: Order
    run: int


class ContextBuilder:
    """The next context and the effects, as the actions of a row write them."""

    __slots__ = ("context", "effects")

    def __init__(self, context: ChatContext) -> None:
        self.context: ChatContext = context
        self.effects: list[Effect] = []

    def start(self, order: Order) -> None:
        """Start work, under a new number."""
        self.context = replace(self.context, run=self.context.run + 1)
        self.effects.append(Effect(order, self.context.run))

    def cancel(self) -> None:
        """Cancel the current work."""
        self.effects.append(Effect("cancel", self.context.run))

    def fail(self, stage: Stage, message: str, retryable: bool = True) -> None:
        """Store an error. Its stage may be retried in any case: that is the user's decision."""
        self.context = replace(self.context, last_error=ChatError(stage, message, retryable))
        if stage != "model_load":  # the interrupted stage can still be retried once the model is loaded
            self.context = replace(self.context, retry=stage)

    def mark(self, kind: MarkKind, text: str) -> None:
        """Mark the end of the messages as that of a turn that ended early."""
        at = len(self.context.messages)
        marks = [mark for mark in self.context.marks if mark.at != at]
        self.context = replace(self.context, marks=(*marks, ChatMark(at, kind, text)))

    def append(self, message: Message) -> None:
        """Append a message."""
        self.context = replace(self.context, messages=(*self.context.messages, message))


def enqueue(builder: ContextBuilder, event: QueueMessage) -> None:
    """Queue a message until the chat is ready."""
    builder.context = replace(builder.context, queue=(*builder.context.queue, event.message))


def replace_queued(builder: ContextBuilder, event: EditQueued) -> None:
    """Replace a message of the queue. One of text alone replaces the text, and keeps what was attached."""
    queue = [*builder.context.queue, *builder.context.held]
    message = event.message
    if all(isinstance(part, TextPart) for part in message.parts):
        attached = [part for part in queue[event.index].parts if not isinstance(part, TextPart)]
        message = replace(message, parts=(*message.parts, *attached))
    queue[event.index] = message
    count = len(builder.context.queue)
    builder.context = replace(builder.context, queue=tuple(queue[:count]), held=tuple(queue[count:]))


def remove_queued(builder: ContextBuilder, event: RemoveQueued) -> None:
    """Remove a message from the queue, or from those held back."""
    queue, held, index = builder.context.queue, builder.context.held, event.index
    if index < len(queue):
        builder.context = replace(builder.context, queue=(*queue[:index], *queue[index + 1 :]))
    else:
        index -= len(queue)
        builder.context = replace(builder.context, held=(*held[:index], *held[index + 1 :]))


def hold_queue(builder: ContextBuilder, event: HoldQueue) -> None:
    """Take the messages from an index on out of the queue, before those that are held back already."""
    queue, held = builder.context.queue, builder.context.held
    builder.context = replace(builder.context, queue=queue[: event.index], held=(*queue[event.index :], *held))


def release_queue(builder: ContextBuilder, event: ChatEvent) -> None:
    """Queue the messages that were held back."""
    builder.context = replace(builder.context, queue=builder.context.queue + builder.context.held, held=())


def edit_message(builder: ContextBuilder, event: EditMessage) -> None:
    """Begin a branch in place of a message of the user, and queue the new message first."""
    _leave_calls(builder)
    context = begin_branch(builder.context, event.index)
    builder.context = replace(context, queue=(event.message, *context.queue))


def regenerate(builder: ContextBuilder, event: Regenerate) -> None:
    """Begin a branch in place of the answer of a turn, which begins again as soon as a model is ready."""
    _leave_calls(builder)
    messages = builder.context.messages
    end = event.index
    while messages[end].role != "user":
        end -= 1
    while end < len(messages) and messages[end].role == "user":
        end += 1
    builder.context = replace(begin_branch(builder.context, end), retry="turn")


def select_branch(builder: ContextBuilder, event: SwitchBranch) -> None:
    """Put another branch in the place of the current one."""
    _leave_calls(builder)
    builder.context = switch_branch(builder.context, event.index, event.branch)


def _leave_calls(builder: ContextBuilder) -> None:
    """Answer the calls without a result: their branch is left."""
    _answer_open_calls(builder, SUPERSEDED, SUPERSEDED)


def set_mode(builder: ContextBuilder, event: SetMode) -> None:
    """Store the selected mode."""
    builder.context = replace(builder.context, mode=event.mode)


def deliver_queue(builder: ContextBuilder, event: ChatEvent) -> None:
    """Move the queue into the messages and begin a turn. Failed calls are not run any more."""
    failed = builder.context.last_error
    _answer_open_calls(builder, f"The tool failed: {failed.message}" if failed else "The tool failed.", SUPERSEDED)
    context = builder.context
    builder.context = replace(
        builder.context, messages=context.messages + context.queue, queue=(), rounds=0, last_error=None, retry=None
    )


def set_model(builder: ContextBuilder, event: LoadModel) -> None:
    """Store the requested model."""
    builder.context = replace(builder.context, model=event.model_id, load_progress=0.0, last_error=None)


def note_progress(builder: ContextBuilder, event: ModelLoadProgress) -> None:
    """Store the progress of loading."""
    builder.context = replace(builder.context, load_progress=event.progress)


def note_loaded(builder: ContextBuilder, event: ModelLoadSuccess) -> None:
    """Store that loading is complete."""
    builder.context = replace(builder.context, load_progress=100.0)


def begin_anew(builder: ContextBuilder, event: ChatEvent) -> None:
    """Clear the error and its mark, and reset the rounds of the turn."""
    context = builder.context
    marks = tuple([mark for mark in context.marks if mark.at < len(context.messages)])
    builder.context = replace(context, last_error=None, retry=None, rounds=0, marks=marks)


def start_loading(builder: ContextBuilder, event: ChatEvent) -> None:
    """Start loading the model."""
    builder.start("load_model")


def start_tool_search(builder: ContextBuilder, event: ChatEvent) -> None:
    """Start the tool search."""
    builder.start("search_tools")


def keep_tools(builder: ContextBuilder, event: ToolSearchSuccess) -> None:
    """Store the tools that were found."""
    builder.context = replace(builder.context, tools=tuple(event.tools))


def start_generating(builder: ContextBuilder, event: ChatEvent) -> None:
    """Start a model request."""
    builder.context = replace(builder.context, streamed=NOTHING_STREAMED, stop_reason=None)
    builder.start("generate")


def drop_interrupted(builder: ContextBuilder, event: ChatEvent) -> None:
    """Remove the partial answer before the answer is requested again."""
    context = builder.context
    last = len(context.messages) - 1
    if last in context.interrupted:
        builder.context = replace(
            builder.context,
            messages=context.messages[:-1],
            interrupted=tuple(at for at in context.interrupted if at != last),
        )


def append_chunk(builder: ContextBuilder, event: StreamChunk) -> None:
    """Add a chunk to the partial answer."""
    piece = TextDelta(event.content) if isinstance(event.content, str) else event.content
    builder.context = replace(builder.context, streamed=builder.context.streamed.with_event(piece))


def append_assistant_message(builder: ContextBuilder, event: StreamComplete) -> None:
    """Append the complete answer to the messages."""
    answer = final_message(builder.context, event)
    if has_content(answer):
        builder.append(_with_valid_calls(answer, builder.context.messages))
    usage = builder.context.usage + event.usage
    builder.context = replace(
        builder.context, streamed=NOTHING_STREAMED, stop_reason=event.stop_reason, usage=usage, answers=()
    )
    if not has_content(answer):
        builder.context = replace(builder.context, retry="generation")
        builder.mark("empty", "the model answered nothing")


def refuse_cut_calls(builder: ContextBuilder, event: StreamComplete) -> None:
    """Answer the calls of an incomplete response with an error: they are not run."""
    _answer_open_calls(builder, CUT_OFF, CUT_OFF)


def keep_partial_text(builder: ContextBuilder, event: ChatEvent) -> None:
    """Append the text of an interrupted answer, and mark it."""
    context = builder.context
    text = context.streamed.text if len(context.streamed) else ""
    if text.strip():
        builder.context = replace(builder.context, interrupted=(*context.interrupted, len(context.messages)))
        builder.append(Message("assistant", (TextPart(text),)))
    builder.context = replace(builder.context, streamed=NOTHING_STREAMED)


def await_approval(builder: ContextBuilder, event: StreamComplete) -> None:
    """Store the calls that need an approval: in doubt, all of them."""
    answer, asked = final_message(builder.context, event), event.pending
    calls = _with_valid_calls(answer, builder.context.messages).tool_calls
    ids = [request.call_id for request in asked or ()]
    if asked is None or calls != answer.tool_calls or len(ids) != len({*ids} & {call.id for call in calls}):
        asked = tuple([PermissionRequest(call.id, call.name, call.arguments) for call in calls])
    builder.context = replace(builder.context, pending=asked)


def approve(builder: ContextBuilder, event: ApproveToolCall) -> None:
    """Store which calls may run now, and with which arguments."""
    requests = matching_requests(builder.context, event)
    answers = tuple([_decision(request, event) for request in requests])
    waiting = tuple([request for request in builder.context.pending if request not in requests])
    builder.context = replace(builder.context, answers=(*builder.context.answers, *answers), pending=waiting)


def call_tool(builder: ContextBuilder, event: ChatEvent) -> None:
    """Start the calls that may run."""
    waiting = {request.call_id for request in builder.context.pending}
    builder.context = replace(
        builder.context, running=tuple([call.id for call in _open_calls(builder) if call.id not in waiting])
    )
    builder.start("call_tools")


def count_round(builder: ContextBuilder, event: ChatEvent) -> None:
    """Count a round of tool calls."""
    builder.context = replace(builder.context, rounds=builder.context.rounds + 1)


def append_tool_response_message(builder: ContextBuilder, event: ToolCallSuccess) -> None:
    """Insert the result of a call at its place in call order."""
    context, result = builder.context, event.result
    builder.context = replace(builder.context, pending=still_pending(context, event))
    if isinstance(result, str):
        call = next(call for call in _open_calls(builder) if call.id == context.running[0])
        result = ToolResultPart(call.id, result, call.name)
    _answer_call(builder, result)
    builder.context = replace(
        builder.context, running=tuple([id for id in builder.context.running if id != result.call_id])
    )
    if event.remembered is not None:
        builder.context = replace(builder.context, remembered=event.remembered)


def append_tool_rejection_message(builder: ContextBuilder, event: RejectToolCall) -> None:
    """Answer the rejected calls with the reason."""
    requests = matching_requests(builder.context, event)
    for request in requests:
        text = denial_text(event.reason or "the user denied it")
        _answer_call(builder, ToolResultPart(request.call_id, text, request.tool, is_error=True))
    builder.context = replace(
        builder.context, pending=tuple([request for request in builder.context.pending if request not in requests])
    )


def close_calls(builder: ContextBuilder, event: ChatEvent) -> None:
    """Reject every call without a result; those that are running may have had their effect."""
    _answer_open_calls(builder, INTERRUPTED, denial_text("the user interrupted"))


def note_failure(builder: ContextBuilder, event: Failure) -> None:
    """Store the stage and message of a failure."""
    stage = _STAGES[type(event)]
    builder.fail(stage, event.error, event.retryable)
    if stage != "model_load":
        builder.mark("failed", event.error)


def note_limit(builder: ContextBuilder, event: ChatEvent) -> None:
    """Store that the limit of rounds is reached."""
    builder.fail("tool_search", limit_text(builder.context))
    builder.mark("limit", limit_text(builder.context))


def limit_text(context: ChatContext) -> str:
    """Return the message about a turn that has reached the limit of rounds."""
    return f"tools were used {context.max_rounds} times in this turn; RETRY_TOOL_SEARCH goes on with it"


def can_be_loaded_again(builder: ContextBuilder, event: ChatEvent) -> None:
    """Store that loading was stopped and can be repeated."""
    builder.fail("model_load", "loading was stopped; LOAD_MODEL begins it again")


def can_search_again(builder: ContextBuilder, event: ChatEvent) -> None:
    """Store that the turn was stopped, and can continue with the tool search."""
    builder.context = replace(builder.context, retry="tool_search")
    builder.mark("stopped", _STOPPED)


def can_generate_again(builder: ContextBuilder, event: ChatEvent) -> None:
    """Store that the turn was stopped, and can continue with the answer."""
    builder.context = replace(builder.context, retry="generation")
    builder.mark("stopped", _STOPPED)


def cancel_loading(builder: ContextBuilder, event: ChatEvent) -> None:
    """Cancel loading."""
    builder.cancel()


def cancel_tool_search(builder: ContextBuilder, event: ChatEvent) -> None:
    """Cancel the tool search."""
    builder.cancel()


def cancel_generation(builder: ContextBuilder, event: ChatEvent) -> None:
    """Cancel the model request."""
    builder.cancel()


def cancel_stream(builder: ContextBuilder, event: ChatEvent) -> None:
    """Cancel the stream of the answer."""
    builder.cancel()


def cancel_tool_call(builder: ContextBuilder, event: ChatEvent) -> None:
    """Cancel the running tools."""
    builder.cancel()


_STOPPED: Final = "The turn was stopped."

INTERRUPTED: Final = (
    "This call had begun when the user interrupted it; it may have had its effect. "
    "Look at what is there before you call it once more."
)


def _open_calls(builder: ContextBuilder) -> tuple[ToolCallPart, ...]:
    return unanswered_calls(builder.context.messages)


def _with_valid_calls(answer: Message, history: Sequence[Message]) -> Message:
    """Return `answer` with unique call ids and with JSON objects as arguments."""
    ids, parts = CallIds(history), list[Part]()
    for part in answer.parts:
        if isinstance(part, ToolCallPart):
            part = replace(part, id=ids.unique(part.id), arguments=valid_arguments(part))
        parts.append(part)
    return Message("assistant", tuple(parts))


def _decision(request: PermissionRequest, event: ApproveToolCall) -> ApprovalDecision:
    if event.arguments is not None:
        return request.edit(event.arguments)
    return request.allow_session() if event.for_session else request.allow()


def _answer_open_calls(builder: ContextBuilder, begun: str, others: str) -> None:
    """Answer the calls without a result: those that are running with `begun`, the rest with `others`."""
    running = builder.context.running
    for call in _open_calls(builder):
        text = begun if call.id in running else others
        _answer_call(builder, ToolResultPart(call.id, text, call.name, is_error=True))
    builder.context = replace(builder.context, running=(), pending=(), answers=())


def _answer_call(builder: ContextBuilder, result: ToolResultPart) -> None:
    """Insert a result behind the response with its call, in the order of the calls."""
    messages = builder.context.messages
    end = len(messages)
    while messages[end - 1].role == "tool":
        end -= 1
    order = {call.id: at for at, call in enumerate(messages[end - 1].tool_calls)}
    results = [*messages[end:], Message("tool", (result,))]
    results.sort(key=lambda message: order[cast("ToolResultPart", message.parts[0]).call_id])
    builder.context = replace(builder.context, messages=(*messages[:end], *results))


_STAGES: Final[Mapping[type[Failure], Stage]] = {
    ModelLoadFailure: "model_load",
    ToolSearchFailure: "tool_search",
    GenerationFailure: "generation",
    StreamError: "stream",
    ToolCallFailure: "tool_call",
}
