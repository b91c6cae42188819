"""`FallbackLLM`: several LLMs as one, of which the next is called if one fails before its first content.

Each LLM first retries by its own policy (http_exchange.py); a retryable error after that moves on to the next. All
requests share one call: its deadline, its retries and its attempts. The last LLM that answered is called first the next
time. No content is emitted twice: after the first event an error is final.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import CallError
from ..events import Event, Failover, Routing
from ..providers.base import ResponseDecoder
from ..transport.network import IOBackend
from ..values.capabilities import LLMMetadata
from ..values.hooks import Hooks
from ..values.http_request import HTTPRequest
from ..values.output_mode import OutputMode
from ..values.settings import Settings
from .call_state import CallState, DirectReads, ResponseEvents
from .client import LLMClient, client_of
from .function_calling_llm import BuiltInLLM, FunctionCallingLLM
from .hooked_events import PREAMBLE, add_hooks
from .named_llms import as_llm
from .request import ChatRequest

if TYPE_CHECKING:
    from .token_counts import TokenCount


class FallbackClient(LLMClient["FallbackLLM"]):
    """A client of several LLMs, of which each has its own settings and output mode."""

    @property
    def current(self) -> LLMClient:
        """A client of the LLM that is called first."""
        return client_of(self.llm.current)

    @property
    def clients(self) -> list[LLMClient]:
        """Clients of all LLMs."""
        return [client_of(llm) for llm in self.llm.llms]

    @property
    def prefers_event_loop(self) -> bool:
        """True if async calls of the current model are faster than sync ones, or the only ones."""
        return self.current.prefers_event_loop

    def merge_settings(self, settings: Settings | None) -> Settings:
        """Return `settings` over this LLM's. The called LLM adds its own and `Configs.settings` below them."""
        return (settings or Settings()).over(self.llm.settings)

    def preview(self, request: ChatRequest) -> HTTPRequest | None:
        """Return the HTTP request of the current LLM without sending it."""
        return self.current.preview(self.request_for(self.current, request))

    def decoder(self, request: ChatRequest, body: bytes = b"") -> ResponseDecoder:
        """Return the current LLM's decoder for the body of a response."""
        return self.current.decoder(self.request_for(self.current, request), body)

    def mode(self, request: ChatRequest) -> OutputMode:
        """Return the output mode of `request` for the current LLM; each LLM decides its own when it is called."""
        return self.current.mode(self.request_for(self.current, request))

    async def count_request(self, request: ChatRequest, backend: IOBackend) -> TokenCount | None:
        """Return the input tokens of the current LLM's request as its provider counts them."""
        current = self.current
        own = current.backend(backend.concurrent)
        return await current.count_request(self.request_for(current, request), own)

    def request_for(self, one: LLMClient, request: ChatRequest) -> ChatRequest:
        """Return the request for one of the LLMs: with its settings, and its system prompt if this LLM has none."""
        messages = request.messages if self.llm.system_prompt else one.with_system_prompt(request.messages)
        return replace(request, messages=messages, settings=one.merge_settings(request.settings))

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the data of the requests to all LLMs: any of them may have given a cached answer."""
        return [each.cache_data(self.request_for(each, request)) for each in self.clients]

    @property
    def passed_credentials(self) -> tuple[str, ...]:
        """The credentials that were passed to the LLMs, without their values."""
        return tuple(dict.fromkeys([name for each in self.clients for name in each.passed_credentials]))

    @property
    def has_hooks_below(self) -> bool:
        """True if one of the LLMs has hooks of its own."""
        return any(each.llm.hooks or each.has_hooks_below for each in self.clients)

    def require_prices(self) -> None:
        """Raise `UnsupportedLLMError` if the cost of requests to one of the LLMs is unknown."""
        for each in self.clients:
            each.require_prices()

    def require_mode(self, mode: OutputMode) -> None:
        """Raise `UnsupportedLLMError` if one of the LLMs does not have this mode."""
        for each in self.clients:
            each.require_mode(mode)

    def open(self, request: ChatRequest, backend: IOBackend, call: CallState) -> ResponseEvents:
        """Return the events of one response. Each LLM has its own output mode."""
        return _FirstAnswer(self, request, backend, call)


class FallbackLLM(BuiltInLLM):
    """The first of several LLMs that answers, and the same one again until it fails.

    Args:
        llms: LLMs or their names.
        settings: Settings over those of each LLM.
        system_prompt: A system prompt in place of those of the LLMs.
        max_concurrency: The number of responses at once; None is no limit.
        hooks: Hooks of its calls; those of each LLM observe its own requests and responses.
    """

    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = FallbackClient

    def __init__(
        self,
        llms: Sequence[FunctionCallingLLM | str],
        *,
        settings: Settings | None = None,
        system_prompt: str | None = None,
        max_concurrency: int | None = None,
        hooks: Sequence[Hooks] | Hooks | None = None,
    ) -> None:
        super().__init__(settings=settings, system_prompt=system_prompt, max_concurrency=max_concurrency, hooks=hooks)
        if isinstance(llms, str):
            raise TypeError(f"llms: expected a list of LLMs or names, got the single name {llms!r}")
        self.llms: tuple[FunctionCallingLLM, ...] = tuple(map(as_llm, llms))
        if not self.llms:
            raise ValueError("llms: expected at least one LLM, got none")
        self.preferred: int = 0

    @property
    def current(self) -> FunctionCallingLLM:
        """The LLM that is called first: the last one that answered."""
        return self.llms[self.preferred]

    @property
    def metadata(self) -> LLMMetadata:
        """The name, provider and capabilities of the current model."""
        return self.current.metadata

    def close(self) -> None:
        """Close the connections of sync calls, of every LLM."""
        with ExitStack() as stack:
            for llm in self.llms:
                stack.callback(llm.close)

    async def aclose(self) -> None:
        """Close the connections of this event loop and those of sync calls, of every LLM."""
        async with AsyncExitStack() as stack:
            for llm in self.llms:
                stack.push_async_callback(llm.aclose)

    def __repr__(self) -> str:
        return f"FallbackLLM([{', '.join(map(repr, self.llms))}])"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "hooks": ()}


class _FirstAnswer:
    """The events of the first LLM that answers, after `Routing` and `Failover` events.

    A `Routing` comes with the first events of its model, or with the `Failover` before it.
    """

    def __init__(self, owner: FallbackClient, request: ChatRequest, backend: IOBackend, call: CallState) -> None:
        self.request_id: str | None = None
        self._owner = owner
        self._request = request
        self._backend = backend
        self._call = call
        self._deadline = call.deadline
        self._postponed = call.postponed
        self._first = self._number = 0
        self._called = 0
        self._routing = Routing("", "")
        self._source: ResponseEvents | None = None
        self._answered = False
        self._broken = False

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        notices: list[Event] = [] if self._called else [self._call_next()]
        source = self._source
        if source is None:
            return []
        try:
            events = await source.next_events()
        except CallError as error:
            await self.close()
            if self._is_final(error):
                raise
            return [*notices, Failover(self._routing.provider, self._routing.model, error), self._call_next()]
        except BaseException:
            await self.close()
            raise
        if not self._answered and not PREAMBLE.issuperset(map(type, events)):
            self._answered = True
            self.request_id = source.request_id
            if self._number != self._first:
                self._owner.llm.preferred = self._number
        return notices + events if notices else events

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return the direct reads of the LLM that has answered."""
        return self._source.direct_reads(id) if self._answered and self._source is not None else None

    async def close(self) -> None:
        """Stop and release the connection."""
        source, self._source = self._source, None
        self._call.deadline = self._own_deadline
        if source is not None:
            self.request_id = source.request_id
            await source.close()

    def break_off(self) -> None:
        """Abort the `next_events` of another thread; no other LLM is called."""
        self._broken = True
        source = self._source
        if source is not None:
            source.break_off()

    @property
    def _own_deadline(self) -> float | None:
        """The deadline of the whole call, which waits in a gate move."""
        return None if self._deadline is None else self._deadline + self._call.postponed - self._postponed

    def _call_next(self) -> Routing:
        """Call the next LLM. Its own total timeout applies besides the deadline of the whole call."""
        llms = self._owner.llm.llms
        if not self._called:
            self._first = self._owner.llm.preferred
        self._number = (self._first + self._called) % len(llms)
        self._called += 1
        one = client_of(llms[self._number])
        request = self._owner.request_for(one, self._request)
        total = request.settings.timeouts.total
        own = None if total is None else self._backend.now() + total
        self._call.deadline = min((end for end in (self._own_deadline, own) if end is not None), default=None)
        source = one.open_events(request, _Through(one, self._backend), self._call)
        now = self._backend.now
        self._source = add_hooks(source, one.llm.hooks, self._call, now, lambda: one.origin, stream=request.stream)
        if self._broken:
            self._source.break_off()
        self._routing = Routing(**one.origin)
        return self._routing

    def _is_final(self, error: CallError) -> bool:
        error.provider = error.provider or self._routing.provider
        error.model = error.model or self._routing.model
        late = (deadline := self._own_deadline) is not None and self._backend.now() >= deadline
        return (
            self._answered or self._broken or not error.retryable or late or self._called >= len(self._owner.llm.llms)
        )


class _Through:
    """The network of one LLM with the clock of the whole call."""

    def __init__(self, client: LLMClient, backend: IOBackend) -> None:
        own = client.backend(backend.concurrent)
        self.concurrent: bool = backend.concurrent
        self.open = own.open
        self.sleep = backend.sleep
        self.now = backend.now
        self.time = backend.time
