"""What the rows of the chat machine (chat_transitions.py) do: its actions.

An action writes the next context into a `ContextBuilder`, and orders work there.
Whatever is done, each call of the last answer keeps its place, and gets one result, in call order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, cast

from ..agents.engine.history import CUT_OFF, GONE_ON, Ids, denied, says_something, unanswered
from ..approvals import ApprovalDecision, PermissionRequest
from ..events import TextDelta
from ..messages import Message, Part, TextPart, ToolCallPart, ToolResultPart
from ..providers.content_parts import valid_arguments
from .context import NOTHING_STREAMED, ChatContext, ChatError, Stage
from .events import (
    ApproveToolCall,
    ChatEvent,
    Failure,
    GenerationFailure,
    LoadModel,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    QueueMessage,
    RejectToolCall,
    StreamChunk,
    StreamComplete,
    StreamError,
    ToolCallFailure,
    ToolCallSuccess,
    ToolSearchFailure,
    ToolSearchSuccess,
)
from .guards import answer_of, meant, still_pending

Order: TypeAlias = Literal["load_model", "search_tools", "generate", "call_tools", "cancel"]


@dataclass(frozen=True, slots=True)
class Effect:
    """Work that is to begin, with its number; `cancel`: the work of that number is to end."""

    order: Order
    run: int


class ContextBuilder:
    """The context that comes out in the end, while the actions of a row write it."""

    __slots__ = ("context", "effects")

    def __init__(self, context: ChatContext) -> None:
        self.context: ChatContext = context
        self.effects: list[Effect] = []

    def start(self, order: Order) -> None:
        """Order work, under a new number."""
        self.context = replace(self.context, run=self.context.run + 1)
        self.effects.append(Effect(order, self.context.run))

    def cancel(self) -> None:
        """Order that the work that goes on ends."""
        self.effects.append(Effect("cancel", self.context.run))

    def fail(self, stage: Stage, message: str, retryable: bool = True) -> None:
        """Note what failed. It may be tried again in any case: that is for a person to say."""
        self.context = replace(self.context, last_error=ChatError(stage, message, retryable))
        if stage != "model_load":  # what was to be done with a model is still to be done when it is there
            self.context = replace(self.context, retry=stage)

    def say(self, message: Message) -> None:
        """Put a message at the end."""
        self.context = replace(self.context, messages=(*self.context.messages, message))


def enqueue(draft: ContextBuilder, event: QueueMessage) -> None:
    """Keep what is said until the chat is ready."""
    draft.context = replace(draft.context, queue=(*draft.context.queue, event.message))


def deliver_queue(draft: ContextBuilder, event: ChatEvent) -> None:
    """Say all that waited, and begin a turn. Calls that failed are not run any more."""
    failed = draft.context.last_error
    _close(draft, f"The tool failed: {failed.message}" if failed else "The tool failed.", GONE_ON)
    context = draft.context
    draft.context = replace(
        draft.context, messages=context.messages + context.queue, queue=(), rounds=0, last_error=None, retry=None
    )


def set_model(draft: ContextBuilder, event: LoadModel) -> None:
    """Note which model is wanted."""
    draft.context = replace(draft.context, model=event.model_id, load_progress=0.0, last_error=None)


def note_progress(draft: ContextBuilder, event: ModelLoadProgress) -> None:
    """Note how much of the model is there."""
    draft.context = replace(draft.context, load_progress=event.progress)


def note_loaded(draft: ContextBuilder, event: ModelLoadSuccess) -> None:
    """Note that all of the model is there."""
    draft.context = replace(draft.context, load_progress=100.0)


def begin_anew(draft: ContextBuilder, event: ChatEvent) -> None:
    """Forget the failure, and give the turn as many rounds as it had at first."""
    draft.context = replace(draft.context, last_error=None, retry=None, rounds=0)


def start_loading(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the model is loaded."""
    draft.start("load_model")


def start_tool_search(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the tools that fit are found."""
    draft.start("search_tools")


def keep_tools(draft: ContextBuilder, event: ToolSearchSuccess) -> None:
    """Note the tools that were found."""
    draft.context = replace(draft.context, tools=tuple(event.tools))


def start_generating(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the model is asked."""
    draft.context = replace(draft.context, streamed=NOTHING_STREAMED, stop_reason=None)
    draft.start("generate")


def drop_interrupted(draft: ContextBuilder, event: ChatEvent) -> None:
    """Take out what was written of the answer that is asked for once more."""
    context = draft.context
    last = len(context.messages) - 1
    if last in context.interrupted:
        draft.context = replace(
            draft.context,
            messages=context.messages[:-1],
            interrupted=tuple(at for at in context.interrupted if at != last),
        )


def append_chunk(draft: ContextBuilder, event: StreamChunk) -> None:
    """Keep a piece of the answer."""
    piece = TextDelta(event.content) if isinstance(event.content, str) else event.content
    draft.context = replace(draft.context, streamed=draft.context.streamed.added(piece))


def append_assistant_message(draft: ContextBuilder, event: StreamComplete) -> None:
    """Put the answer into the messages."""
    answer = answer_of(draft.context, event)
    if says_something(answer):
        draft.say(_sound(answer, draft.context.messages))
    usage = draft.context.usage + event.usage
    draft.context = replace(
        draft.context, streamed=NOTHING_STREAMED, stop_reason=event.stop_reason, usage=usage, answers=()
    )


def refuse_cut_calls(draft: ContextBuilder, event: StreamComplete) -> None:
    """Calls of an answer that was cut off are not run."""
    _close(draft, CUT_OFF, CUT_OFF)


def keep_partial_text(draft: ContextBuilder, event: ChatEvent) -> None:
    """Keep what was written of an answer that broke off, and mark it."""
    context = draft.context
    text = context.streamed.text if len(context.streamed) else ""
    if text.strip():
        draft.context = replace(draft.context, interrupted=(*context.interrupted, len(context.messages)))
        draft.say(Message("assistant", (TextPart(text),)))
    draft.context = replace(draft.context, streamed=NOTHING_STREAMED)


def await_approval(draft: ContextBuilder, event: StreamComplete) -> None:
    """Note the calls that somebody must be asked about: in doubt, all of them."""
    answer, asked = answer_of(draft.context, event), event.pending
    calls = _sound(answer, draft.context.messages).tool_calls
    ids = [request.call_id for request in asked or ()]
    if asked is None or calls != answer.tool_calls or len(ids) != len({*ids} & {call.id for call in calls}):
        asked = tuple([PermissionRequest(call.id, call.name, call.arguments) for call in calls])
    draft.context = replace(draft.context, pending=asked)


def approve(draft: ContextBuilder, event: ApproveToolCall) -> None:
    """Note which calls may run by now, and with which arguments."""
    requests = meant(draft.context, event)
    answers = tuple([_allowed(request, event) for request in requests])
    waiting = tuple([request for request in draft.context.pending if request not in requests])
    draft.context = replace(draft.context, answers=(*draft.context.answers, *answers), pending=waiting)


def call_tool(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the calls run that may."""
    waiting = {request.call_id for request in draft.context.pending}
    draft.context = replace(draft.context, running=tuple([call.id for call in _open(draft) if call.id not in waiting]))
    draft.start("call_tools")


def count_round(draft: ContextBuilder, event: ChatEvent) -> None:
    """Note that tools are used once more in this turn."""
    draft.context = replace(draft.context, rounds=draft.context.rounds + 1)


def append_tool_response_message(draft: ContextBuilder, event: ToolCallSuccess) -> None:
    """Put the result of a call into the messages, at its place in call order."""
    context, result = draft.context, event.result
    draft.context = replace(draft.context, pending=still_pending(context, event))
    if isinstance(result, str):
        call = next(call for call in _open(draft) if call.id == context.running[0])
        result = ToolResultPart(call.id, result, call.name)
    _answer_call(draft, result)
    draft.context = replace(draft.context, running=tuple([id for id in draft.context.running if id != result.call_id]))
    if event.remembered is not None:
        draft.context = replace(draft.context, remembered=event.remembered)


def append_tool_rejection_message(draft: ContextBuilder, event: RejectToolCall) -> None:
    """Have the model read that the calls were not allowed."""
    requests = meant(draft.context, event)
    for request in requests:
        words = denied(event.reason or "the user said no")
        _answer_call(draft, ToolResultPart(request.call_id, words, request.tool, is_error=True))
    draft.context = replace(
        draft.context, pending=tuple([request for request in draft.context.pending if request not in requests])
    )


def close_calls(draft: ContextBuilder, event: ChatEvent) -> None:
    """Reject every call that has no result: those that run have begun, and may have had their effect."""
    _close(draft, BROKEN_OFF, denied("the user interrupted"))


def note_failure(draft: ContextBuilder, event: Failure) -> None:
    """Note what failed, and why."""
    draft.fail(_STAGES[type(event)], event.error, event.retryable)


def note_limit(draft: ContextBuilder, event: ChatEvent) -> None:
    """Note that the turn has used tools as often as it may."""
    rounds = draft.context.max_rounds
    draft.fail("tool_search", f"tools were used {rounds} times in this turn; RETRY_TOOL_SEARCH goes on with it")


def can_be_loaded_again(draft: ContextBuilder, event: ChatEvent) -> None:
    """Note that the model was not loaded because nobody wanted it any more."""
    draft.fail("model_load", "loading was stopped; LOAD_MODEL begins it again")


def can_search_again(draft: ContextBuilder, event: ChatEvent) -> None:
    """Note that the turn can go on with the tool search."""
    draft.context = replace(draft.context, retry="tool_search")


def can_generate_again(draft: ContextBuilder, event: ChatEvent) -> None:
    """Note that the turn can go on with the answer."""
    draft.context = replace(draft.context, retry="generation")


def cancel_loading(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that loading ends."""
    draft.cancel()


def cancel_tool_search(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the search ends."""
    draft.cancel()


def cancel_generation(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the model is not asked any more."""
    draft.cancel()


def cancel_stream(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the answer is not listened to any more."""
    draft.cancel()


def cancel_tool_call(draft: ContextBuilder, event: ChatEvent) -> None:
    """Order that the tools that run end."""
    draft.cancel()


BROKEN_OFF: Final = (
    "This call had begun when the user interrupted it; it may have had its effect. "
    "Look at what is there before you call it once more."
)


def _open(draft: ContextBuilder) -> tuple[ToolCallPart, ...]:
    return unanswered(draft.context.messages)


def _sound(answer: Message, history: Sequence[Message]) -> Message:
    """`answer` as services take it back: the ids of its calls are no other call's, and arguments are objects."""
    ids, parts = Ids(history), list[Part]()
    for part in answer.parts:
        if isinstance(part, ToolCallPart):
            arguments = valid_arguments(part) if part.arguments.strip() else "{}"
            part = replace(part, id=ids.of(part.id), arguments=arguments)
        parts.append(part)
    return Message("assistant", tuple(parts))


def _allowed(request: PermissionRequest, event: ApproveToolCall) -> ApprovalDecision:
    if event.arguments is not None:
        return request.edit(event.arguments)
    return request.allow_session() if event.for_session else request.allow()


def _close(draft: ContextBuilder, begun: str, others: str) -> None:
    """Answer the calls that have no result: those that have `begun`, and the others."""
    running = draft.context.running
    for call in _open(draft):
        words = begun if call.id in running else others
        _answer_call(draft, ToolResultPart(call.id, words, call.name, is_error=True))
    draft.context = replace(draft.context, running=(), pending=(), answers=())


def _answer_call(draft: ContextBuilder, result: ToolResultPart) -> None:
    """Put a result behind the answer that its call stands in, in the order of the calls."""
    messages = draft.context.messages
    end = len(messages)
    while messages[end - 1].role == "tool":
        end -= 1
    order = {call.id: at for at, call in enumerate(messages[end - 1].tool_calls)}
    results = [*messages[end:], Message("tool", (result,))]
    results.sort(key=lambda message: order[cast("ToolResultPart", message.parts[0]).call_id])
    draft.context = replace(draft.context, messages=(*messages[:end], *results))


_STAGES: Final[Mapping[type[Failure], Stage]] = {
    ModelLoadFailure: "model_load",
    ToolSearchFailure: "tool_search",
    GenerationFailure: "generation",
    StreamError: "stream",
    ToolCallFailure: "tool_call",
}
