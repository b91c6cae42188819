"""`ModelRequest`: one request of a turn to the model, and its streamed response."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...errors import Attempt
from ...events import (
    AgentEvent,
    ChatResponse,
    Event,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
)
from ...llms.call_report import Account
from ...llms.call_state import CallState
from ...llms.request import ChatRequest, StoredResponse
from ...messages import Message
from ...parsing.missing import MISSING
from ...parsing.partial_value import PartialValue, plan_for
from ...transport.network import IOBackend
from ...values.accumulator import Accumulator
from ...values.hooks import CallHooks
from ...values.usage import Usage
from .conversation import Conversation
from .engine_config import EngineConfig
from .instructions import SentInstructions
from .typed_output import TypedOutput

_CALL_EVENTS = (ToolCallStart, ToolCallDelta, ToolCallReset, ToolCallDone)


class ModelRequest:
    """A request, sent by the first `next_events`, and its response so far."""

    def __init__(
        self,
        config: EngineConfig,
        conversation: Conversation,
        typed: TypedOutput | None,
        backend: IOBackend,
        hooks: CallHooks | None = None,
        *,
        instructions: SentInstructions | tuple[Message, ...],
        last: bool = False,
        left: float | None = None,
    ) -> None:
        """Prepare a request.

        `hooks` are those of the turn that the request is part of. `instructions`: the system messages before the
        history, if no thoughts are bound to those of an earlier request. `last`: no other follows, so a typed result
        must be given now. `left`: the seconds that a budget leaves; `of_budget` is True if they end before the call's
        own timeout.
        """
        self.accumulated: Accumulator = Accumulator()
        self.instructions: SentInstructions | tuple[Message, ...] = instructions
        self._config = config
        self._ids = conversation.ids
        self._typed = typed
        self._unique_ids: dict[str, str] = {}  # unique ids by those of the service
        self._partial: dict[str, PartialValue] = {}  # parsed only for calls whose arguments were requested
        sent = (
            (*instructions.first, *conversation.history, *instructions.late)
            if isinstance(instructions, SentInstructions)
            else (*instructions, *conversation.history)
        )
        messages = config.client.with_system_prompt(sent)
        request = conversation.continued(_chat_request(config, messages, typed, last))
        if typed is not None:
            typed.begin_response()
        client = config.client
        if hooks is None:
            hooks = client.begin_operation("chat", config.hooks)
        else:
            hooks = hooks.child("chat", client.origin, client.llm.hooks)
        self._call = call = CallState(hooks).begin(
            request.settings, backend.now, lambda: Account("round", client.origin)
        )
        self.attempts: list[Attempt] = call.attempts  # grows
        until = None if left is None else backend.now() + left
        self.of_budget: bool = until is not None and (call.deadline is None or until < call.deadline)
        if self.of_budget:
            call.deadline = until
        self._source = client.source(request, backend, self._call)

    async def next_events(self) -> list[AgentEvent]:
        """Return the next events of the response; an empty list at its end."""
        typed, output = self._typed, list[AgentEvent]()
        try:
            events = await self._source.next_events()
        except BaseException as error:
            self._call.end(error, usage=self.cost)
            raise
        if not events:
            self._call.end(output=None, usage=self.cost)
        for event in events:
            if isinstance(event, _CALL_EVENTS):
                event = self._with_unique_id(event)
            self.accumulated.apply(event)
            output += [event] if typed is None else typed.with_output_delta(event)
        return output

    async def close(self) -> None:
        """Release the connection."""
        self._call.end(usage=self.cost)
        await self._source.close()

    def abandon(self) -> None:
        """End the account without awaiting: the connection is closed when it is garbage-collected."""
        self._call.end(usage=self.cost)

    @property
    def cost(self) -> Usage:
        """The usage so far, failed attempts included."""
        return self._call.usage if self._call.attempts else self.accumulated.usage

    @property
    def context_tokens(self) -> int:
        """The tokens of the last request and its answer: of a response in several parts, the whole is in the last."""
        attempts = self._call.attempts
        last = attempts[-1].usage if len(attempts) > 1 else None
        return (last or self.accumulated.usage).total_tokens

    async def accept(self) -> None:
        """Accept the complete response: its calls are valid, or it is the answer."""
        await self._call.accept()

    def reject(self) -> None:
        """Reject the response, if it was not accepted."""
        self._call.reject()

    def interrupt(self) -> None:
        """Stop a thread that waits for more events. From any thread."""
        self._source.break_off()

    @property
    def response(self) -> ChatResponse:
        """The response so far."""
        return self.accumulated.response(request_id=self._source.request_id, **self._config.client.origin)

    @property
    def stored(self) -> StoredResponse | None:
        """The complete response, if the service stores it; None if it has other ids of its calls than the history."""
        renamed = any(id != unique for id, unique in self._unique_ids.items())
        return None if renamed else self._call.stored

    def partial_arguments(self, id: str) -> Any:
        """Return the typed arguments received so far of the call `id`; None before the first."""
        partial = self._partial.get(id)
        if partial is None:
            call = self.accumulated.call(id)
            if call is None:
                return None
            tool = self._config.by_name.get(call.name)
            plan = plan_for(dict[str, Any] if tool is None else tool.arguments_type)
            wrapped, context = tool is not None and tool.wrapped, self._config.validation_context
            partial = self._partial[id] = PartialValue(plan, wrapped=wrapped, fail_fast=False, context=context)
            partial.feed(call.arguments)
        return None if partial.value is MISSING else partial.value

    def _with_unique_id(self, event: ToolCallStart | ToolCallDelta | ToolCallReset | ToolCallDone) -> Event:
        """Return `event` with a unique call id, if the history has a call of its id already."""
        if type(event) is ToolCallStart or event.id not in self._unique_ids:
            self._unique_ids[event.id] = self._ids.unique(event.id)
        if self._unique_ids[event.id] != event.id:
            event = replace(event, id=self._unique_ids[event.id])
        partial = self._partial.get(event.id)
        if partial is not None and type(event) is ToolCallDelta:
            partial.feed(event.arguments)
        elif partial is not None and type(event) is ToolCallReset:
            del self._partial[event.id]
        return event


def _chat_request(
    config: EngineConfig, messages: tuple[Message, ...], typed: TypedOutput | None, last: bool
) -> ChatRequest:
    """Return the request: the messages, and the tools.

    A typed result is required, but other tools may be called before. A model without function calling is offered no
    tools; a typed result is then requested without them.
    """
    settings = config.client.merge_settings(config.settings)
    metadata = config.llm.metadata
    can_call = metadata.is_function_calling_model and metadata.capabilities.tools is not False
    run = config.server_tools
    if typed is None:
        own = config.tools if can_call else ()
        points = config.cache_points if own or run else ()
        return ChatRequest(
            messages, own, None, settings, parallel=True, stream=True, server_tools=run, cache_points=points
        )
    others = config.tools if can_call else ()  # if it cannot call, the LLM decides the output mode
    # After an answer without the result, and in the last request, the model is not free to search any more.
    now = last or (bool(run) and typed.was_missing)
    request = ChatRequest(
        messages,
        (*others, *typed.tools),
        "required" if others and not last else typed.choice,
        settings,
        parallel=True,
        stream=True,
        server_tools=run,
        forces_now=now,
        cache_points=config.cache_points if others or run else (),
        answers=len(typed.tools),
    )
    if not (last and others) or config.client.mode(request) == "json_schema":
        return request
    return replace(request, tools=typed.tools, cache_points=config.cache_points if run else ())
