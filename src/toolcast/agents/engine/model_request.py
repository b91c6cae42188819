"""One round of a turn: a request, and the answer to it as it is heard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...accumulator import Accumulator
from ...call_report import Account
from ...events import (
    AgentEvent,
    ChatResponse,
    Event,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
)
from ...llms.request import ChatRequest
from ...llms.request_state import deadline_after, start_call
from ...output_mode import OutputMode
from ...parsing.partial_value import MISSING, PartialValue, plan_for
from ...transport.network import IOBackend
from ...usage import Usage
from .config import EngineConfig
from .conversation import Conversation
from .typed_output import TypedOutput

_OF_A_CALL = (ToolCallStart, ToolCallDelta, ToolCallReset, ToolCallDone)


class ModelRequest:
    """A request that goes out with the first `pull`, and what has been heard of its answer."""

    def __init__(
        self,
        setup: EngineConfig,
        transcript: Conversation,
        typed: TypedOutput | None,
        backend: IOBackend,
        *,
        last: bool = False,
        left: float | None = None,
    ) -> None:
        """`last`: no other follows, so that a typed result must be given now. `left`: seconds that a budget leaves.

        `of_budget` says that these end before the call's own time.
        """
        self.folded: Accumulator = Accumulator()
        self._setup = setup
        self._ids = transcript.ids
        self._typed = typed
        self._named: dict[str, str] = {}  # the ids of calls, by those that the service gave them
        self._growing: dict[str, PartialValue] = {}  # arguments that somebody looks at
        ask = _ask(setup, transcript, typed, last)
        if typed is not None:
            typed.listen()
        self._call = call = start_call(ask.settings, backend)
        until = deadline_after(backend.now(), left)
        self.of_budget: bool = until is not None and (call.deadline is None or until < call.deadline)
        if self.of_budget:
            call.deadline = until
        self._account = Account("round", lambda: setup.llm.origin, backend.now)
        self._source = setup.llm.source(ask, backend, self._call)

    async def next_events(self) -> list[AgentEvent]:
        """What is heard next; an empty list at the end of the answer."""
        typed, heard = self._typed, list[AgentEvent]()
        try:
            events = await self._source.next_events()
        except BaseException as error:
            self._account.end(self.cost, self._call.attempts, error)
            raise
        if not events:
            self._account.end(self.cost, self._call.attempts, output=None)
        for event in events:
            if isinstance(event, _OF_A_CALL):
                event = self._of_a_call(event)
            self.folded.apply(event)
            heard += [event] if typed is None else typed.shown(event)
        return heard

    async def close(self) -> None:
        """Give the connection back."""
        self._account.end(self.cost, self._call.attempts)
        await self._source.close()

    @property
    def cost(self) -> Usage:
        """What the round has cost so far, failed requests included."""
        return self._call.usage if self._call.attempts else self.folded.usage

    def break_off(self) -> None:
        """Have a thread that waits for more wait no longer. From any thread."""
        self._source.break_off()

    @property
    def response(self) -> ChatResponse:
        """The answer so far."""
        return self.folded.response(request_id=self._source.request_id, **self._setup.llm.origin)

    def arguments(self, id: str) -> Any:
        """The arguments of the call `id`, typed, as far as they have arrived; None before that."""
        growing = self._growing.get(id)
        if growing is None:
            call = self.folded.call(id)
            if call is None:
                return None
            tool = self._setup.by_name.get(call.name)
            plan = plan_for(dict[str, Any] if tool is None else tool.arguments_type)
            growing = self._growing[id] = PartialValue(plan, wrapped=tool is not None and tool.wrapped, fail_fast=False)
            growing.feed(call.arguments)
        return None if growing.value is MISSING else growing.value

    def _of_a_call(self, event: ToolCallStart | ToolCallDelta | ToolCallReset | ToolCallDone) -> Event:
        """`event`, its id a new one where the history has a call of that id already."""
        if type(event) is ToolCallStart or event.id not in self._named:
            self._named[event.id] = self._ids.of(event.id)
        if self._named[event.id] != event.id:
            event = replace(event, id=self._named[event.id])
        growing = self._growing.get(event.id)
        if growing is not None and type(event) is ToolCallDelta:
            growing.feed(event.arguments)
        elif growing is not None and type(event) is ToolCallReset:
            del self._growing[event.id]
        return event


def _ask(setup: EngineConfig, transcript: Conversation, typed: TypedOutput | None, last: bool) -> ChatRequest:
    """The question: the whole history, and the tools. A typed result must be given, other tools may be called before.

    A model that is known to have no tools is offered none; a typed result is then asked for without them.
    """
    llm = setup.llm
    messages = llm.with_system_prompt((*setup.instructions, *transcript.history))
    settings = llm.merge_settings(setup.settings)
    known = llm.metadata
    can_call = known.is_function_calling_model and known.capabilities.tools is not False
    if typed is None:
        return ChatRequest(messages, setup.tools if can_call else (), None, settings, parallel=True, stream=True)
    if not can_call:
        # A model of a service may be held to a schema: its LLM knows.
        mode: OutputMode | None = None if known.is_function_calling_model else "prompted"
        return ChatRequest(messages, typed.tools, typed.choice, settings, parallel=True, stream=True, mode=mode)
    others = () if last else setup.tools
    choice = "required" if others else typed.choice
    return ChatRequest(messages, (*others, *typed.tools), choice, settings, parallel=True, stream=True)
