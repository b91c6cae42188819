"""Several LLMs as one: where a model fails before it has said anything, the next one is asked.

Each model is first tried again by its own rules (exchange.py); what is left then, if it may pass, is a reason to go
on to the next. All requests share one call: its time, its retries and its record. The LLM stays with the model
that answered last. What a caller has seen is never told twice: after the first event an error is final.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from typing import Any

from ..capabilities import LLMMetadata
from ..errors import CallError
from ..events import Event, Failover, Routing, UsageReport
from ..http_request import HTTPRequest
from ..messages import Message
from ..output_mode import OutputMode
from ..providers.base import ResponseDecoder
from ..settings import Settings
from ..tool_spec import ToolChoice
from ..tools.callable_tool import CallableTool
from ..transport.network import IOBackend
from .base import FunctionCallingLLM
from .http_llm import iterate_response
from .provider_llms import as_llm
from .request import ChatRequest
from .request_state import RequestState, ResponseEvents, deadline_after

_PREAMBLE = frozenset((UsageReport, Routing, Failover))  # nothing of an answer yet


class FallbackLLM(FunctionCallingLLM):
    """The first of several LLMs that answers, and that one again until it fails.

    `llms` are LLMs or their names. `settings` here beat those of each LLM; `system_prompt` replaces theirs.
    """

    def __init__(
        self,
        llms: Sequence[FunctionCallingLLM | str],
        *,
        settings: Settings | None = None,
        system_prompt: str | None = None,
        max_concurrency: int | None = None,
    ) -> None:
        super().__init__(settings=settings, system_prompt=system_prompt, max_concurrency=max_concurrency)
        if isinstance(llms, str):
            raise TypeError(f"FallbackLLM takes a list of LLMs or names, not the one name {llms!r}")
        self.llms: tuple[FunctionCallingLLM, ...] = tuple(map(as_llm, llms))
        if not self.llms:
            raise ValueError("FallbackLLM needs at least one LLM")
        self.preferred: int = 0

    @property
    def current(self) -> FunctionCallingLLM:
        """The LLM that is asked first: the one that answered last."""
        return self.llms[self.preferred]

    @property
    def metadata(self) -> LLMMetadata:
        """What is known about the current model."""
        return self.current.metadata

    def merge_settings(self, settings: Settings | None) -> Settings:
        """`settings` over this LLM's. Those of the model that is asked, and `Configs.settings`, go under them then."""
        return (settings or Settings()).over(self.settings)

    def preview(self, ask: ChatRequest) -> HTTPRequest | None:
        """The request that `ask` would send to the current model."""
        return self.current.preview(self.request_for(self.current, ask))

    def decoder(self, ask: ChatRequest) -> ResponseDecoder:
        """What reads the body of the current model's answer to `ask`."""
        return self.current.decoder(self.request_for(self.current, ask))

    def mode(self, ask: ChatRequest) -> OutputMode:
        """How the current model is held to the tools. Raises where any of them cannot be held as `ask` wants it."""
        modes: list[OutputMode] = [llm.mode(self.request_for(llm, ask)) for llm in self.llms]
        return modes[self.preferred]

    def request_for(self, llm: FunctionCallingLLM, ask: ChatRequest) -> ChatRequest:
        """`ask` as `llm` hears it: with its settings, and its system prompt where there is none here."""
        messages = ask.messages if self.system_prompt else llm.with_system_prompt(ask.messages)
        return replace(ask, messages=messages, settings=llm.merge_settings(ask.settings))

    def close(self) -> None:
        """Close the connections of the sync face, of every LLM."""
        with ExitStack() as stack:
            for llm in self.llms:
                stack.callback(llm.close)

    async def aclose(self) -> None:
        """Close the connections of this event loop, and those of the sync face, of every LLM."""
        async with AsyncExitStack() as stack:
            for llm in self.llms:
                stack.push_async_callback(llm.aclose)

    def __repr__(self) -> str:
        return f"FallbackLLM([{', '.join(map(repr, self.llms))}])"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_network": None, "_limiter": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        super().__init__(settings=self.settings, system_prompt=self.system_prompt, max_concurrency=self.max_concurrency)

    def _open_in_mode(self, ask: ChatRequest, backend: IOBackend, call: RequestState) -> ResponseEvents:
        return _FirstAnswer(self, ask, backend, call)  # in which each model is held to the tools in its own way

    def _events(
        self,
        messages: Sequence[Message],
        tools: Sequence[CallableTool],
        tool_choice: ToolChoice,
        settings: Settings,
    ) -> AsyncIterator[Event]:
        return iterate_response(
            self, ChatRequest(tuple(messages), tuple(tools), tool_choice, settings, parallel=True, stream=True)
        )


class _FirstAnswer:
    """The events of the first model that answers, and before them how it was found.

    A `Routing` comes with the first events of its model, or with the `Failover` that led to it.
    """

    def __init__(self, owner: FallbackLLM, ask: ChatRequest, backend: IOBackend, call: RequestState) -> None:
        self.request_id: str | None = None
        self._owner = owner
        self._ask = ask
        self._backend = backend
        self._call = call
        self._deadline = call.deadline
        self._first = self._number = 0
        self._asked = 0
        self._told = Routing("", "")
        self._source: ResponseEvents | None = None
        self._answered = False
        self._broken = False

    async def next_events(self) -> list[Event]:
        """The next events; an empty list at the end."""
        news: list[Event] = [] if self._asked else [self._ask_next()]
        source = self._source
        if source is None:
            return []
        try:
            events = await source.next_events()
        except CallError as error:
            await self.close()
            if self._is_final(error):
                raise
            return [*news, Failover(self._told.provider, self._told.model, error), self._ask_next()]
        except BaseException:
            await self.close()
            raise
        if not self._answered and not _PREAMBLE.issuperset(map(type, events)):
            self._answered = True
            self.request_id = source.request_id
            if self._number != self._first:
                self._owner.preferred = self._number
        return news + events if news else events

    async def close(self) -> None:
        """Stop, and give the connection back."""
        source, self._source = self._source, None
        self._call.deadline = self._deadline
        if source is not None:
            self.request_id = source.request_id
            await source.close()

    def break_off(self) -> None:
        """End what a thread waits for in `pull`; no other model is asked."""
        self._broken = True
        source = self._source
        if source is not None:
            source.break_off()

    def _ask_next(self) -> Routing:
        """Turn to the next model. Its own time limit holds beside that of the whole call."""
        llms = self._owner.llms
        if not self._asked:
            self._first = self._owner.preferred
        self._number = (self._first + self._asked) % len(llms)
        self._asked += 1
        llm = llms[self._number]
        ask = self._owner.request_for(llm, self._ask)
        own = deadline_after(self._backend.now(), ask.settings.timeouts.total)
        self._call.deadline = min((end for end in (self._deadline, own) if end is not None), default=None)
        self._source = llm.open_events(ask, _Through(llm, self._backend), self._call)
        if self._broken:
            self._source.break_off()
        self._told = Routing(**llm.origin)
        return self._told

    def _is_final(self, error: CallError) -> bool:
        error.provider = error.provider or self._told.provider
        error.model = error.model or self._told.model
        late = self._deadline is not None and self._backend.now() >= self._deadline
        return self._answered or self._broken or not error.retryable or late or self._asked >= len(self._owner.llms)


class _Through:
    """A model's own network, by the clock of the whole call."""

    def __init__(self, llm: FunctionCallingLLM, backend: IOBackend) -> None:
        own = llm.async_backend() if backend.concurrent else llm.sync_backend()
        self.concurrent: bool = backend.concurrent
        self.open = own.open
        self.sleep = backend.sleep
        self.now = backend.now
        self.time = backend.time
