"""`LLMClient`: the calls of an LLM, as the library makes them. `client_of(llm)` returns one, for each use.

`FunctionCallingLLM` (function_calling_llm.py) has what its users call, and its subclasses may have any names of their
own. All else that the library does with an LLM is here: its requests, with settings and prices; the output mode; the
events of a response; the state and the report of a call. A custom LLM implements `metadata` and `_events` for it. The
library's own LLMs have clients of their own, where they differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ..errors import BadRequest, UnsupportedLLMError
from ..events import ChatResponse, Event
from ..messages import Message, system as system_message
from ..providers.base import ResponseDecoder
from ..tools.callable_tool import as_tools
from ..transport.network import AsyncBackend, Clock, IOBackend, Network, SyncBackend, SystemClock
from ..transport.network_choice import NetworkChoice, resolve_network
from ..values.hooks import CallHooks, Hooks, Operation, begin_operation, collect_hooks
from ..values.http_request import HTTPRequest
from ..values.output_mode import OutputMode
from ..values.prices import ModelPricing, has_price_list, has_prices
from ..values.server_tools import split_tools
from ..values.settings import NOTHING_SET, Settings
from ..values.tool_spec import ToolChoice
from ..values.usage import Usage
from .call_report import Account
from .call_state import CallState, IteratorEvents, ResponseEvents, read_response
from .concurrency_limiter import ConcurrencyLimiter, LimitedEvents
from .defaults import Configs, replacement
from .hooked_events import HookedEvents, request_info
from .request import ChatRequest, Messages, Tools, as_messages, resolve_tool_choice
from .request_gate import GateRequest, RequestOrigin

if TYPE_CHECKING:
    from .function_calling_llm import FunctionCallingLLM
    from .token_counts import TokenCount
    from .uploads import Upload

L = TypeVar("L", bound="FunctionCallingLLM", default="FunctionCallingLLM", covariant=True)


def client_of(llm: FunctionCallingLLM) -> LLMClient:
    """Return a client of `llm`. It refers to the LLM, and the LLM does not refer to it."""
    return llm.__toolcast_client__(llm)


class Connections:
    """The network, the clock and the limit of an LLM. A pickle has the network that was passed, and no other."""

    __slots__ = ("chosen", "clock", "limiter", "network")

    def __init__(self, chosen: NetworkChoice | None = None, max_concurrency: int | None = None) -> None:
        self.chosen: NetworkChoice | None = chosen
        self.network: Network = resolve_network(chosen)
        self.clock: Clock = SystemClock()
        self.limiter: ConcurrencyLimiter | None = (
            None if max_concurrency is None else ConcurrencyLimiter(max_concurrency)
        )

    def limited(self, max_concurrency: int | None) -> Connections:
        """Return these connections with another limit."""
        found = Connections(self.chosen, max_concurrency)
        found.network, found.clock = self.network, self.clock
        return found

    def named(self) -> Connections:
        """Return connections of the same kind, over a network of their own."""
        return Connections(self.chosen if isinstance(self.chosen, str) else None, self._limit)

    def __reduce__(self) -> tuple[Any, ...]:
        return Connections, (self.chosen, self._limit)

    @property
    def _limit(self) -> int | None:
        return None if self.limiter is None else self.limiter.limit


class LLMClient(Generic[L]):
    """A client of one LLM.

    Attributes:
        llm: The LLM.
        connections: Its network, clock and limit.
    """

    __slots__ = ("connections", "llm")

    def __init__(self, llm: L) -> None:
        self.llm: L = llm
        self.connections: Connections = llm.__toolcast__

    def build_request(
        self,
        messages: Messages,
        tools: Tools,
        tool_choice: ToolChoice,
        settings: Settings | None,
        *,
        parallel: bool,
    ) -> ChatRequest:
        """Return the request: messages with the system prompt, tools, and the merged settings."""
        own, server_tools, cache_points = split_tools(tools)
        made = as_tools(own)
        return ChatRequest(
            self.with_system_prompt(as_messages(messages)),
            tuple(made),
            resolve_tool_choice(tool_choice, [tool.name for tool in made]),
            self.merge_settings(settings),
            parallel,
            server_tools=server_tools,
            # The caller of these methods has chosen.
            forces_now=bool(server_tools),
            cache_points=cache_points,
        )

    def with_system_prompt(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return `messages` with the system prompt, if there is one, in front."""
        if not self.llm.system_prompt:
            return tuple(messages)
        return (system_message(self.llm.system_prompt), *messages)

    def merge_settings(self, settings: Settings | None) -> Settings:
        """Return `settings` over this LLM's over `Configs.settings`."""
        found: Settings | None = Configs.settings
        for nearer in (self.llm.settings, settings):
            found = found if nearer is None else nearer.over(found)
        return NOTHING_SET if found is None else found

    def price(self, usage: Usage, model: str | None = None) -> Usage:
        """Return the usage of one request with its prices: this LLM's own, or those of the price list.

        Args:
            usage: The usage. A cost that the service has reported is used unless the LLM has prices of its own.
            model: The model that the response names, if it does.
        """
        if usage.pricing is not None and self.llm.prices is None:
            return usage
        metadata = self.llm.metadata
        own = metadata.base_model or metadata.model_name
        models = (model, own) if model else (own,)
        return usage.with_pricing(ModelPricing(metadata.provider, models, self.llm.prices))

    def require_prices(self) -> None:
        """Raise `UnsupportedLLMError` if the cost of requests is unknown, for a budget in US dollars."""
        metadata = self.llm.metadata
        if self.llm.prices is not None or has_prices(metadata.provider, metadata.base_model or metadata.model_name):
            return
        name = f"{metadata.provider} {metadata.model_name}"
        install = "" if has_price_list() else "pip install 'toolcast[prices]', or "
        unlisted = ", which are not listed" if has_price_list() else ""
        raise UnsupportedLLMError(
            f"a budget in usd needs the prices of {name}{unlisted}: {install}pass your own, "
            "prices=Prices(input=3, output=15), to the LLM or to Budget. Nothing was sent."
        )

    def mode(self, request: ChatRequest) -> OutputMode:
        """Return the output mode of `request`: the one that it requires, or else the most reliable one of the model.

        Raises:
            UnsupportedLLMError: This LLM does not have the required mode.
        """
        if request.mode is None:
            return self.best_mode(request)
        self.require_mode(request.mode)
        return request.mode

    def check_mode(self, mode: OutputMode | None) -> None:
        """Raise `UnsupportedLLMError` if typed output is impossible in `mode`; None is the mode decided per request."""
        if mode is not None:
            self.require_mode(mode)
        metadata = self.llm.metadata
        if mode in (None, "tool_call") and not metadata.is_function_calling_model:
            raise UnsupportedLLMError(
                f"Model name {metadata.model_name} does not support function calling API. Choose another model, "
                "or ask it in words with mode='prompted'."
            )

    def require_mode(self, mode: OutputMode) -> None:
        """Raise `UnsupportedLLMError` if the LLM does not have this mode."""
        if mode not in self.llm.modes:
            can = ", ".join(map(repr, self.llm.modes))
            raise UnsupportedLLMError(
                f"{type(self.llm).__name__} has no mode {mode!r}; for {self.llm.metadata.model_name} there are: {can}"
            )

    def best_mode(self, request: ChatRequest) -> OutputMode:
        """Return the output mode for a request that requires none."""
        return "prompted" if request.forces and not self.llm.metadata.is_function_calling_model else "tool_call"

    def source(self, request: ChatRequest, backend: IOBackend, call: CallState) -> ResponseEvents:
        """Return the events of one response of this LLM, or of its replacement (`use_llm`), in the latter's mode."""
        other = replacement()
        client: LLMClient = self if other is None else client_of(other)
        if other is not None:
            request = replace(request, mode=None)
        events = client.open_events(request, backend, call)
        if call.hooks is None:
            return events
        return HookedEvents(events, call.hooks, call, backend.now, lambda: client.origin, stream=request.stream)

    def open_events(self, request: ChatRequest, backend: IOBackend, call: CallState) -> ResponseEvents:
        """Return the events of one response of this LLM, limited to `max_concurrency`."""
        source, limiter = self.open(request, backend, call), self.connections.limiter
        return source if limiter is None else LimitedEvents(source, limiter, backend, call, self.origin)

    def open(self, request: ChatRequest, backend: IOBackend, call: CallState) -> ResponseEvents:
        """Return the events of one response. The output mode is decided here, and passed down."""
        mode = self.mode(request) if request.tools else "tool_call"
        if mode != "prompted":
            return self.send(request, mode, backend, call)
        from .prompted_tools import PromptedEvents, to_prompted  # few LLMs need it

        prompted, calls = to_prompted(request)
        source = self.send(prompted, mode, backend, call)
        return source if calls is None else PromptedEvents(source, calls, call, accept_damaged=request.accept_damaged)

    def send(self, request: ChatRequest, mode: OutputMode, backend: IOBackend, call: CallState) -> ResponseEvents:
        """Return the events of the response to `request`, which is sent as it is."""
        if request.server_tools and not self.llm.takes_server_tools:
            label = request.server_tools[0].label
            raise BadRequest(
                f"{type(self.llm).__name__} runs no tools of a provider, and the request has {label}: leave it out of "
                "tools=, or use the LLM of a provider that has it",
                **self.origin,
            )

        def begin(began: float) -> None:
            call.begin_request(self.llm.hooks, began).emit("request", request_info(request))

        def begin_events() -> AsyncIterator[Event]:
            events = self.llm._events  # pyright: ignore[reportPrivateUsage]  # what a custom LLM implements
            return events(request.messages, request.tools, request.choice_in(mode), request.settings)

        observed = None if call.hooks is None else begin
        gated = None
        if call.gate is not None:
            tools = tuple([tool.spec for tool in request.tools])
            limit, most = request.settings.max_tokens, self.llm.metadata.capabilities.max_output
            asked = GateRequest(self.request_origin, request.messages, tools, limit, self.price, most)
            gated = call.gate, asked, begin_events
        return IteratorEvents(
            begin_events(), backend, call, parallel=request.parallel, begin=observed, price=self.price, gated=gated
        )

    async def answer(self, request: ChatRequest, backend: IOBackend, call: CallState | None = None) -> ChatResponse:
        """Return the complete response. Where `call` is passed, its owner accepts or rejects the response."""
        if call is not None:
            return await read_response(self.source(request, backend, call), self.origin)
        with self.reported_call("chat", request.settings, backend) as call:
            response = await read_response(self.source(request, backend, call), self.origin)
            await call.accept()
            return response

    @contextmanager
    def reported_call(self, name: str, settings: Settings, backend: IOBackend) -> Generator[CallState]:
        """Begin a call, and report its end: the account in the log and the hooks' `error` and `end`.

        A response that the block has not accepted is rejected.
        """
        call = self.begin_call(settings, backend, name)
        try:
            yield call
        except BaseException as error:
            call.end(error)
            raise
        finally:
            call.reject()
        call.end(output=None)

    def begin_call(self, settings: Settings, backend: IOBackend, name: str = "chat") -> CallState:
        """Return the state of a call of this LLM that begins now, with its hooks."""
        call = CallState(self.begin_operation("chat"))
        return call.begin(settings, backend.now, lambda: Account(name, self.origin))

    def begin_operation(self, operation: Operation, *more: tuple[Hooks, ...], **info: str) -> CallHooks | None:
        """Return the hooks of an operation that uses this LLM: its own, and `more`. None if there are none."""
        found = collect_hooks(*more, self.llm.hooks)
        if not (found or self.has_hooks_below):  # those of an LLM below need the `CallInfo` of this operation
            return None
        return begin_operation(operation, self.origin, found, **info)

    @property
    def has_hooks_below(self) -> bool:
        """True if an LLM that this one calls has hooks of its own."""
        return False

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the JSON-compatible data that a cached answer to `request` is found by, without credentials."""
        metadata = self.llm.metadata
        return [metadata.provider, None, metadata.model_name, *request.cache_data()]

    def preview(self, request: ChatRequest) -> HTTPRequest | None:
        """Return the HTTP request for `request` without sending it; None for an LLM without HTTP."""
        return None

    def decoder(self, request: ChatRequest, body: bytes = b"") -> ResponseDecoder:
        """Return the decoder for the body of a response to `request`: for `body`, if it is there already."""
        raise TypeError(f"{type(self.llm).__name__} has no HTTP bodies to parse; pass its ChatResponse to parse()")

    async def count_request(self, request: ChatRequest, backend: IOBackend) -> TokenCount | None:
        """Return the input tokens of `request` as the provider counts them; None if it has no endpoint for that."""
        return None

    @property
    def passed_credentials(self) -> tuple[str, ...]:
        """The credentials that were passed to the constructor, as text without their values: no pickle has them."""
        return ()

    def sync_backend(self) -> IOBackend:
        """Return the I/O of sync calls."""
        return SyncBackend(self.connections.network, self.connections.clock)

    def async_backend(self) -> IOBackend:
        """Return the I/O of async calls."""
        return AsyncBackend(self.connections.network, self.connections.clock)

    def backend(self, concurrent: bool) -> IOBackend:
        """Return the I/O of async calls, or of sync ones."""
        return self.async_backend() if concurrent else self.sync_backend()

    @property
    def prefers_event_loop(self) -> bool:
        """True if async calls over its network are faster than sync ones, or the only ones: that of aiohttp."""
        return getattr(self.connections.network, "prefers_event_loop", False)

    @property
    def origin(self) -> Mapping[str, Any]:
        """The provider and model of the responses."""
        metadata = self.llm.metadata
        return {"provider": metadata.provider, "model": metadata.model_name}

    @property
    def request_origin(self) -> RequestOrigin:
        """The service, the model and the credentials of its requests, for a `RequestGate`."""
        metadata = self.llm.metadata
        return RequestOrigin(metadata.provider, metadata.model_name)

    @property
    def file_owner(self) -> FunctionCallingLLM:
        """The LLM whose service stores the files: that inside of wrappers."""
        return self.llm

    def prepare_upload(self, request: Upload) -> Upload:
        """Return the upload as it is sent. A wrapper that changes messages changes it likewise."""
        return request
