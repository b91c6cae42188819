"""`WrapperLLM`: an LLM around another one. A subclass implements one method, `respond`, for every way of calling.

`respond` is an async iterator over the events of one response. It gets the rest of the chain as `call_next`, and awaits
nothing else, so the sync methods run it without an event loop. The caller sees one `ResponseEvents` (`WrapperEvents`),
which owns the generator of `respond` and every response that it has opened: closing it closes all of them, whether or
not `respond` does, and aborting it aborts the one that is being read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import TypeVar

from ...async_support.exception_groups import collapse_groups
from ...errors import CallError, StreamInterrupted, Timeout
from ...events import Event
from ...messages import Message
from ...providers.base import ResponseDecoder
from ...text.reprs import safe_repr
from ...transport.network import IOBackend
from ...values.capabilities import LLMMetadata, Progress
from ...values.hooks import CallHooks, Hooks
from ...values.http_request import HTTPRequest
from ...values.output_mode import OutputMode
from ...values.settings import Settings
from ...values.usage import Usage
from ..call_state import CallState, IteratorEvents, ResponseEvents
from ..client import Connections, LLMClient, client_of
from ..function_calling_llm import BuiltInLLM, FunctionCallingLLM
from ..hooked_events import PREAMBLE, add_hooks, request_info
from ..named_llms import as_llm
from ..request import ChatRequest

if TYPE_CHECKING:
    from ...async_support.waiters import Ready, Waiters
    from ..token_counts import TokenCount
    from ..uploads import Upload

T = TypeVar("T")
W = TypeVar("W", bound="WrapperLLM", default="WrapperLLM", covariant=True)


class WrapperClient(LLMClient[W]):
    """A client of a wrapper: what is not about the events of a response is that of the wrapped LLM."""

    @property
    def wrapped(self) -> LLMClient:
        """A client of the wrapped LLM."""
        return client_of(self.llm.llm)

    def sync_backend(self) -> IOBackend:
        """Return the I/O of sync calls of the wrapped LLM."""
        return self.wrapped.sync_backend()

    def async_backend(self) -> IOBackend:
        """Return the I/O of async calls of the wrapped LLM."""
        return self.wrapped.async_backend()

    @property
    def prefers_event_loop(self) -> bool:
        """True if async calls of the wrapped LLM are faster than sync ones, or the only ones."""
        return self.wrapped.prefers_event_loop

    def merge_settings(self, settings: Settings | None) -> Settings:
        """Return `settings` over those of the wrapped LLM."""
        return self.wrapped.merge_settings(settings)

    def with_system_prompt(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return `messages` with the system prompt of the wrapped LLM, if there is one, in front."""
        return self.wrapped.with_system_prompt(messages)

    @property
    def passed_credentials(self) -> tuple[str, ...]:
        """The credentials that were passed to the wrapped LLM, without their values."""
        return self.wrapped.passed_credentials

    def price(self, usage: Usage, model: str | None = None) -> Usage:
        """Return the usage of one request with the prices of the wrapped LLM."""
        return self.wrapped.price(usage, model)

    def require_prices(self) -> None:
        """Raise `UnsupportedLLMError` if the cost of requests is unknown, for a budget in US dollars."""
        self.wrapped.require_prices()

    def mode(self, request: ChatRequest) -> OutputMode:
        """Return the output mode of `request`, which the wrapped LLM decides."""
        return self.wrapped.mode(request)

    def check_mode(self, mode: OutputMode | None) -> None:
        """Raise `UnsupportedLLMError` if typed output is impossible in `mode`."""
        self.wrapped.check_mode(mode)

    @property
    def file_owner(self) -> FunctionCallingLLM:
        """The LLM whose service stores the files: the wrapped one, or that inside of it."""
        return self.wrapped.file_owner

    def prepare_upload(self, request: Upload) -> Upload:
        """Return the upload as the wrapped LLM sends it."""
        return self.wrapped.prepare_upload(request)

    def sent(self, request: ChatRequest) -> ChatRequest | None:
        """Return what `respond` sends for `request`; None if it is not known before."""
        return None

    async def count_request(self, request: ChatRequest, backend: IOBackend) -> TokenCount | None:
        """Return the tokens of what `respond` sends; None, so that they are estimated, if that is not known."""
        sent = self.sent(request)
        return None if sent is None else await self.wrapped.count_request(sent, backend)

    def preview(self, request: ChatRequest) -> HTTPRequest | None:
        """Return the HTTP request of the wrapped LLM for what `respond` sends, or for `request`."""
        return self.wrapped.preview(self.sent(request) or request)

    def decoder(self, request: ChatRequest, body: bytes = b"") -> ResponseDecoder:
        """Return the wrapped LLM's decoder for the body of a response."""
        return self.wrapped.decoder(request, body)

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the data that a `CachedLLM` around the wrapper finds an answer to `request` by."""
        return self.llm.cache_data(request)

    @property
    def has_hooks_below(self) -> bool:
        """True if the wrapped LLM has hooks, or one that it calls."""
        return bool(self.wrapped.llm.hooks) or self.wrapped.has_hooks_below

    def require_mode(self, mode: OutputMode) -> None:
        """Raise `UnsupportedLLMError` if the wrapped LLM does not have this mode."""
        self.wrapped.require_mode(mode)

    def open(self, request: ChatRequest, backend: IOBackend, call: CallState) -> ResponseEvents:
        """Return the events that `respond` yields. The wrapped LLM has its own output mode."""
        call_next = Next(self, backend, call)
        method = f"{type(self.llm).__name__}.respond"
        events: Any = self.llm.respond(request, call_next)
        if not hasattr(events, "__anext__"):
            if hasattr(events, "close"):
                events.close()  # a coroutine, which would warn that it was never awaited
            kind = type(events).__name__
            raise TypeError(f"{method}: expected an async iterator, got {kind}; write `async def` with `yield`")
        return WrapperEvents(events, call_next, method, request, self.llm.hooks)


class UnchangedClient(WrapperClient):
    """A client of a wrapper that sends each request as it is."""

    def sent(self, request: ChatRequest) -> ChatRequest:
        """Return the request."""
        return request


class WrapperLLM(BuiltInLLM):
    """An LLM that passes its requests on to another one. A subclass implements `respond`.

    Metadata, output modes, system prompt, settings, prices and connections are those of the wrapped LLM.

    Args:
        llm: The wrapped LLM, or its name.
        hooks: Hooks of its calls; those of the wrapped LLM observe its own requests and responses.
        max_concurrency: The number of responses at once, besides the limit of the wrapped LLM; None is no limit.

    Example:
        ```python
        class Polite(WrapperLLM):
            async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
                messages = (*request.messages, user("Please."))
                async for event in call_next(replace(request, messages=messages)):
                    yield event
        ```
    """

    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = WrapperClient

    def __init__(
        self,
        llm: FunctionCallingLLM | str,
        *,
        hooks: Sequence[Hooks] | Hooks | None = None,
        max_concurrency: int | None = None,
    ) -> None:
        super().__init__(hooks=hooks, max_concurrency=max_concurrency)
        self.llm: FunctionCallingLLM = as_llm(llm)
        self.__toolcast__: Connections = self.llm.__toolcast__.limited(max_concurrency)

    @abstractmethod
    def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        """Yield the events of one response, `Finish` last.

        Implement it as `async def` with `yield`. A sync call runs it without an event loop, so it must await nothing
        but `call_next`; otherwise only the async methods work, and the sync ones raise `WouldSuspend`.

        Args:
            request: The request, with the system prompt and the merged settings. `dataclasses.replace` changes it.
            call_next: Sends a request to the wrapped LLM: never, once, or several times.
        """

    @property
    def metadata(self) -> LLMMetadata:
        """The name, provider and capabilities of the model."""
        return self.llm.metadata

    def load(self, progress: Progress | None = None) -> None:
        """Download the weights of a local model and start it; `progress(done, total)` is in bytes."""
        self.llm.load(progress)

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the JSON-compatible data that a `CachedLLM` around this LLM finds an answer to `request` by.

        These are the class and the data of the wrapped LLM. Override it where answers also depend on options.
        """
        return [f"{type(self).__module__}.{type(self).__qualname__}", client_of(self.llm).cache_data(request)]

    def close(self) -> None:
        """Close the connections of sync calls of the wrapped LLM."""
        self.llm.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and those of sync calls, of the wrapped LLM."""
        await self.llm.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self).get('llm')!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "__toolcast__": None, "hooks": ()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__toolcast__ = self.llm.__toolcast__.limited(self.max_concurrency)


class Next:
    """The rest of the chain: `call_next(request)` sends a request to the wrapped LLM.

    Each call is a request of its own, with the wrapped LLM's retries, and returns the events of its response. All of
    them share the deadline, the retries and the usage of the caller's call. The methods may be awaited in sync calls
    too.

    Attributes:
        backend: The I/O of the call, with its clock.
        call: The state that all requests of the call share.
        cached: True if the answer is from a cache: its `Attempt` has this mark.
    """

    def __init__(self, owner: WrapperClient, backend: IOBackend, call: CallState) -> None:
        self.backend: IOBackend = backend
        self.call: CallState = call
        self.cached: bool = False
        self._owner = owner
        self._opened: list[_NextEvents] = []
        self._broken = False
        self._waiters: Waiters | None = None

    @safe_repr
    def __repr__(self) -> str:
        return f"Next({self._owner.wrapped.llm!r})"

    def __call__(self, request: ChatRequest) -> AsyncIterator[Event]:
        """Return the events of one response to `request`, which is sent when the first is awaited."""
        wrapped, call, now = self._owner.wrapped, self.call, self.backend.now
        hooks = None if call.hooks is None else call.hooks.with_hooks(self._owner.llm.hooks)
        with _hooks_of(call, hooks):
            source = wrapped.open_events(request, self.backend, call)
            source = add_hooks(source, wrapped.llm.hooks, call, now, lambda: wrapped.origin, stream=request.stream)
        events = _NextEvents(source, call, hooks)
        self._opened.append(events)
        if self._broken:
            source.break_off()
        return events

    async def sleep(self, seconds: float) -> None:
        """Wait: in this thread, or under an event loop in this task."""
        await self.backend.sleep(seconds)

    async def run_sync(self, function: Callable[[], T]) -> T:
        """Return the result of `function`, which may block: under an event loop it runs in a worker thread."""
        if not self.backend.concurrent:
            return function()
        from anyio import to_thread

        return await to_thread.run_sync(function)

    async def wait(self, waiters: Waiters, ready: Ready) -> None:
        """Wait until `ready()`, which is checked when `waiters` are woken.

        Raises:
            Timeout: The total time of the call is over.
            StreamInterrupted: The call was aborted.
        """
        call, now = self.call, self.backend.now
        left = None if call.deadline is None else max(call.deadline - now(), 0)
        self._waiters = waiters
        try:
            if self.backend.concurrent:
                import anyio

                with anyio.move_on_after(left):
                    await waiters.suspend(lambda: self._broken or ready())
            else:
                waiters.block(lambda: self._broken or ready(), left)
        finally:
            self._waiters = None
        if self._broken:
            raise StreamInterrupted("the response was aborted", retryable=False)
        if not ready():
            raise Timeout(
                "another call with the same request did not end in time; "
                "allow more with settings=Settings(timeout=Timeouts(total=...))",
                phase="total",
            )

    @property
    def opened(self) -> bool:
        """True if a request was sent to the wrapped LLM."""
        return bool(self._opened)

    @property
    def request_id(self) -> str | None:
        """The service's id of the last request."""
        return self._opened[-1].source.request_id if self._opened else None

    def break_off(self) -> None:
        """Abort the requests, and a wait. From any thread."""
        self._broken = True
        for events in tuple(self._opened):
            events.source.break_off()
        waiters = self._waiters
        if waiters is not None:
            waiters.wake()

    async def aclose(self) -> None:
        """Close all responses."""
        for events in tuple(self._opened):
            await events.aclose()


class _NextEvents:
    """The events of one response of the wrapped LLM, one by one.

    It is no generator: one that `respond` abandons would be closed by the event loop, in a later task.
    """

    def __init__(self, source: ResponseEvents, call: CallState, hooks: CallHooks | None) -> None:
        self.source = source
        self._call = call
        self._hooks = hooks
        self._queue: deque[Event] = deque()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if not self._queue:
            try:
                with _hooks_of(self._call, self._hooks):
                    self._queue.extend(await self.source.next_events())
            except CallError:
                await self.aclose()
                raise
            if not self._queue:
                await self.aclose()
                raise StopAsyncIteration
        return self._queue.popleft()

    async def aclose(self) -> None:
        """Close the response. Idempotent."""
        self._queue.clear()
        await self.source.close()


@contextmanager
def _hooks_of(call: CallState, hooks: CallHooks | None) -> Generator[None]:
    """Set the hooks that observe the requests sent in the block: those of the wrapper are among them."""
    before, call.hooks = call.hooks, hooks
    try:
        yield
    finally:
        call.hooks = before


class WrapperEvents(IteratorEvents):
    """The events that `respond` yields."""

    request_id: str | None = None

    def __init__(
        self,
        events: AsyncIterator[Event],
        call_next: Next,
        method: str,
        request: ChatRequest,
        hooks: tuple[Hooks, ...],
    ) -> None:
        super().__init__(events, call_next.backend, call_next.call, parallel=request.parallel, method=method)
        self._next = call_next
        self._request: ChatRequest | None = None if call_next.call.hooks is None else request  # until it was observed
        self._hooks = hooks
        self._attempts_before = len(call_next.call.attempts)
        self._answered = False

    async def next_events(self) -> list[Event]:
        """Return a list of the next event, or an empty list at the end."""
        try:
            events = await super().next_events()
        finally:
            self.request_id = self._next.request_id
        self._answered = self._answered or bool(events)
        if self._request is not None and events and type(events[0]) not in PREAMBLE:
            request, self._request = self._request, None
            # Each response that hooks observe follows a request.
            if not self._next.opened:
                hooks = self._call.begin_request(self._hooks, self._began, cached=self._next.cached)
                hooks.emit("request", request_info(request))
        return events

    async def close(self) -> None:
        """Close the generator of `respond`, and then the responses that it left open."""
        self._loop = None
        try:
            aclose = getattr(self._events, "aclose", None)
            if aclose is not None:
                await collapse_groups(aclose)
        finally:
            await self._next.aclose()
            self._record(None)

    def break_off(self) -> None:
        """Abort the `next_events` of another thread."""
        self._next.break_off()

    def _record(self, error: Exception | None) -> None:
        # The wrapped LLM records its requests. An answer without one is an attempt too: it can be found invalid.
        if self._answered and len(self._call.attempts) == self._attempts_before:
            super()._record(error)
            if self._next.cached and self._call.attempts:
                self._call.attempts[-1] = replace(self._call.attempts[-1], cached=True)
        self._recorded = True
