"""`FunctionCallingLLM`: the base class of all LLMs.

It builds every call on one stream of events: chat, chat with tools, predict and call, each complete or streamed, sync
or async. A custom LLM implements `metadata` and one async iterator, `_events`; the classes of the providers send a
provider's HTTP requests instead.

Each public method builds one frozen `ChatRequest` (request.py). The rest is written once, in async syntax; the sync
methods run it without an event loop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, overload

from typing_extensions import Unpack

from ..async_support import sync_driver
from ..call_report import Account
from ..capabilities import LLMMetadata, Progress
from ..closing import AsyncClosing, Closing
from ..errors import BadRequest, MissingOutputError, NoToolCallError, UnsupportedLLMError
from ..events import ChatResponse, Event
from ..hook_protocol import CallHooks, Hooks, Operation, as_hooks, begin_operation, collect_hooks
from ..http_request import HTTPRequest
from ..lazy_dataclasses import dataclass
from ..messages import Message, ToolCallPart, system as system_message
from ..option_suggestions import refuse_attributes, refuse_unknown
from ..option_types import require_optional, require_text
from ..output_mode import OutputMode
from ..prices import ModelPricing, Prices, has_price_list, has_prices
from ..providers.base import ResponseDecoder
from ..server_tools import split_tools
from ..settings import NOTHING_SET, Settings
from ..tool_spec import ToolChoice
from ..tools.callable_tool import CallableTool, ToolOutput, as_tools
from ..tools.execution import run_tools
from ..transport.network import AsyncBackend, Clock, IOBackend, Network, SyncBackend, SystemClock
from ..transport.network_choice import NetworkChoice, resolve_network
from ..usage import Usage
from .concurrency_limiter import ConcurrencyLimiter, LimitedEvents
from .defaults import Configs, replacement
from .event_streams import AsyncEventStream, EventStream
from .file_methods import FileMethods
from .hooked_events import HookedEvents, request_info
from .request import ChatRequest, Messages, Tools, as_messages, resolve_tool_choice
from .request_gate import GateRequest, RequestOrigin
from .request_state import IteratorEvents, RequestState, ResponseEvents, read_response, start_call

if TYPE_CHECKING:
    from .token_counts import CountMethod, TokenCount


class ChatOptions(TypedDict, total=False):
    """Options of one request.

    Attributes:
        tool_choice: The tool that the model has to call, or "auto", "required", "none"; by default the model chooses.
        settings: Settings that take precedence over those of the LLM.
    """

    tool_choice: ToolChoice
    settings: Settings | None


class ToolCallOptions(ChatOptions, total=False):
    """Options of one request with tools.

    Attributes:
        allow_parallel_tool_calls: Accept more than one tool call in the answer. Default: False.
    """

    allow_parallel_tool_calls: bool


@dataclass(frozen=True, slots=True)
class AgentChatResponse:
    """A response, and one `ToolOutput` for each tool call in it, in call order."""

    response: ChatResponse
    sources: tuple[ToolOutput, ...] = ()

    def parse_tool_outputs(self, allow_parallel_tool_calls: bool = False) -> Any:
        """Return the first tool's raw output, or the list of all raw outputs.

        Args:
            allow_parallel_tool_calls: Return a list, even of one output.

        Raises:
            MissingOutputError: The model called no tool, and one output is asked for.
        """
        if allow_parallel_tool_calls:
            return [source.raw_output for source in self.sources]
        if not self.sources:
            raise MissingOutputError("the model called no tool, so there is no output; read response.text")
        return self.sources[0].raw_output


@refuse_attributes("FunctionCallingLLM")
class FunctionCallingLLM(FileMethods, Closing, AsyncClosing):
    """An LLM that can call tools. A custom LLM subclasses it with `metadata` and `_events`.

    `modes` are the ways in which it can be held to them. The options of a request are those of `ChatOptions`, or, with
    tools, of `ToolCallOptions`.
    """

    modes: ClassVar[tuple[OutputMode, ...]] = ("tool_call", "prompted")
    has_service: ClassVar[bool] = False
    """True for an LLM of one service behind HTTP, which may have files, batches and embeddings."""
    takes_server_tools: ClassVar[bool] = False
    """True if `_events` answers requests with tools that the provider runs, which it does not get."""

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        system_prompt: str | None = None,
        network: NetworkChoice | None = None,
        max_concurrency: int | None = None,
        hooks: Sequence[Hooks] | Hooks | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.hooks: tuple[Hooks, ...] = as_hooks(hooks)
        require_optional("settings", settings, Settings, "Settings")
        require_text("system_prompt", system_prompt)
        require_optional("prices", prices, Prices, "Prices")
        self.settings = settings
        self.system_prompt = system_prompt
        self.prices: Prices | None = prices
        self.clock: Clock = SystemClock()
        self._network_name: Literal["aiohttp", "auto"] | None = network if isinstance(network, str) else None
        self._network = resolve_network(network)
        self.max_concurrency: int | None = max_concurrency
        self._limiter: ConcurrencyLimiter | None = (
            None if max_concurrency is None else ConcurrencyLimiter(max_concurrency)
        )

    def __repr__(self) -> str:
        try:
            name = repr(self.metadata.model_name)
        except Exception:  # a traceback may show an LLM whose constructor has failed, or a user's with an error
            name = ""
        return f"{type(self).__name__}({name})"

    @property
    @abstractmethod
    def metadata(self) -> LLMMetadata:
        """The name, provider and capabilities of the model."""

    def load(self, progress: Progress | None = None) -> None:
        """Download the weights of a local model and start it; `progress(done, total)` is in bytes."""

    @abstractmethod
    def _events(
        self,
        messages: Sequence[Message],
        tools: Sequence[CallableTool],
        tool_choice: ToolChoice,
        settings: Settings,
    ) -> AsyncIterator[Event]:
        """Yield the events of one response, `Finish` last. If it suspends, only the async methods work."""

    @refuse_attributes("FunctionCallingLLM.chat")
    def chat(self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]) -> ChatResponse:
        """Return the complete response. The tool calls in it are not run."""
        request = self._chat_request("chat", messages, tools, options)
        return sync_driver.run(self.answer(request, self.sync_backend()))

    async def achat(self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]) -> ChatResponse:
        """Return the complete response. The tool calls in it are not run."""
        request = self._chat_request("achat", messages, tools, options)
        return await self.answer(request, self.async_backend())

    def stream_chat(self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]) -> EventStream:
        """Return a stream of the events of one response. The request is sent when the first event is read."""
        request = self._chat_request("stream_chat", messages, tools, options)
        return self._event_stream(replace(request, stream=True))

    def astream_chat(
        self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]
    ) -> AsyncEventStream:
        """Return a stream of the events of one response. The request is sent when the first event is awaited."""
        request = self._chat_request("astream_chat", messages, tools, options)
        return self._async_event_stream(replace(request, stream=True))

    @overload
    def chat_with_tools(
        self,
        tools: Tools,
        messages: Messages,
        *,
        stream: Literal[False] = False,
        **options: Unpack[ToolCallOptions],
    ) -> ChatResponse: ...
    @overload
    def chat_with_tools(
        self,
        tools: Tools,
        messages: Messages,
        *,
        stream: Literal[True],
        **options: Unpack[ToolCallOptions],
    ) -> EventStream: ...
    def chat_with_tools(
        self,
        tools: Tools,
        messages: Messages,
        *,
        stream: bool = False,
        **options: Unpack[ToolCallOptions],
    ) -> ChatResponse | EventStream:
        """Return a response that may have tool calls: at most one, unless `allow_parallel_tool_calls`."""
        request = self._tool_request("chat_with_tools", messages, tools, options)
        if stream:
            return self._event_stream(replace(request, stream=True))
        return sync_driver.run(self.answer(request, self.sync_backend()))

    @overload
    async def achat_with_tools(
        self,
        tools: Tools,
        messages: Messages,
        *,
        stream: Literal[False] = False,
        **options: Unpack[ToolCallOptions],
    ) -> ChatResponse: ...
    @overload
    async def achat_with_tools(
        self,
        tools: Tools,
        messages: Messages,
        *,
        stream: Literal[True],
        **options: Unpack[ToolCallOptions],
    ) -> AsyncEventStream: ...
    async def achat_with_tools(
        self,
        tools: Tools,
        messages: Messages,
        *,
        stream: bool = False,
        **options: Unpack[ToolCallOptions],
    ) -> ChatResponse | AsyncEventStream:
        """Return a response that may have tool calls: at most one, unless `allow_parallel_tool_calls`."""
        request = self._tool_request("achat_with_tools", messages, tools, options)
        if stream:
            return self._async_event_stream(replace(request, stream=True))
        return await self.answer(request, self.async_backend())

    def predict_and_call(
        self,
        tools: Tools,
        messages: Messages,
        *,
        error_on_no_tool_call: bool = True,
        **options: Unpack[ToolCallOptions],
    ) -> AgentChatResponse:
        """Return the response, and the outputs of the tools that it called."""
        request = self._tool_request("predict_and_call", messages, tools, options)
        return sync_driver.run(self._predict(request, self.sync_backend(), error_on_no_tool_call))

    async def apredict_and_call(
        self,
        tools: Tools,
        messages: Messages,
        *,
        error_on_no_tool_call: bool = True,
        **options: Unpack[ToolCallOptions],
    ) -> AgentChatResponse:
        """Return the response, and the outputs of the tools that it called."""
        request = self._tool_request("apredict_and_call", messages, tools, options)
        return await self._predict(request, self.async_backend(), error_on_no_tool_call)

    def count_tokens(
        self, messages: Messages, tools: Tools = (), *, method: CountMethod = "provider", **options: Unpack[ChatOptions]
    ) -> TokenCount:
        """Return the number of input tokens of a request: messages, system prompt and tools.

        Args:
            messages: The messages.
            tools: The tools.
            method: `"provider"` sends the request to the provider's endpoint for counting, if it has one, and estimates
                the tokens otherwise; `"estimate"` never sends anything.
            **options: Options of the request.

        Raises:
            LLMError: The provider refused the request, or the connection failed: no estimate takes its place.
        """
        request = self._count_request("count_tokens", messages, tools, method, options)
        return sync_driver.run(self._count(request, method, self.sync_backend()))

    async def acount_tokens(
        self, messages: Messages, tools: Tools = (), *, method: CountMethod = "provider", **options: Unpack[ChatOptions]
    ) -> TokenCount:
        """Return the number of input tokens of a request; see `count_tokens`."""
        request = self._count_request("acount_tokens", messages, tools, method, options)
        return await self._count(request, method, self.async_backend())

    def _count_request(
        self, name: str, messages: Messages, tools: Tools, method: CountMethod, options: ChatOptions
    ) -> ChatRequest:
        from .token_counts import check_method

        check_method(method)
        refuse_unknown(name, options, ("messages", "tools", "method", *ChatOptions.__annotations__))
        return self._chat_request(name, messages, tools, options)

    async def _count(self, request: ChatRequest, method: CountMethod, backend: IOBackend) -> TokenCount:
        from .token_counts import estimated_count

        llm = replacement() or self
        count = await llm.count_request(request, backend) if method == "provider" else None
        return estimated_count(request) if count is None else count

    async def count_request(self, request: ChatRequest, backend: IOBackend) -> TokenCount | None:
        """Return the input tokens of `request` as the provider counts them; None if it has no endpoint for that."""
        return None

    def get_tool_calls_from_response(
        self, response: ChatResponse, *, error_on_no_tool_call: bool = True
    ) -> list[ToolCallPart]:
        """Return the tool calls of `response`, in call order. Raise `NoToolCallError` without one."""
        calls = list(response.message.tool_calls)
        if not calls and error_on_no_tool_call:
            error = NoToolCallError(
                f"Expected at least one tool call, but got 0 tool calls. The model wrote: {response.text!r}",
                provider=response.provider,
                model=response.model,
                request_id=response.request_id,
                response=response,
            )
            error.advice = 'Ask again with tool_choice="required", or try another model.'
            raise error
        return calls

    def _chat_request(self, method: str, messages: Messages, tools: Tools, options: ChatOptions) -> ChatRequest:
        refuse_unknown(method, options, ("messages", "tools", *ChatOptions.__annotations__))
        return self.build_request(messages, tools, options.get("tool_choice"), options.get("settings"), parallel=True)

    def _tool_request(self, method: str, messages: Messages, tools: Tools, options: ToolCallOptions) -> ChatRequest:
        refuse_unknown(method, options, ("tools", "messages", *ToolCallOptions.__annotations__))
        parallel = options.get("allow_parallel_tool_calls", False)
        return self.build_request(
            messages, tools, options.get("tool_choice"), options.get("settings"), parallel=parallel
        )

    # For the packages above: structured, agents, experiments.

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

    @property
    def passed_credentials(self) -> tuple[str, ...]:
        """The credentials that were passed to the constructor, as text without their values: no pickle has them."""
        return ()

    def price(self, usage: Usage, model: str | None = None) -> Usage:
        """Return the usage of one request with its prices: this LLM's own, or those of the price list.

        Args:
            usage: The usage. A cost that the service has reported is used unless the LLM has prices of its own.
            model: The model that the response names, if it does.
        """
        if usage.pricing is not None and self.prices is None:
            return usage
        metadata = self.metadata
        own = metadata.base_model or metadata.model_name
        models = (model, own) if model else (own,)
        return usage.with_pricing(ModelPricing(metadata.provider, models, self.prices))

    def require_prices(self) -> None:
        """Raise `UnsupportedLLMError` if the cost of requests is unknown, for a budget in US dollars."""
        metadata = self.metadata
        if self.prices is not None or has_prices(metadata.provider, metadata.base_model or metadata.model_name):
            return
        name = f"{metadata.provider} {metadata.model_name}"
        install = "" if has_price_list() else "pip install 'toolcast[prices]', or "
        unlisted = ", which are not listed" if has_price_list() else ""
        raise UnsupportedLLMError(
            f"a budget in usd needs the prices of {name}{unlisted}: {install}pass your own, "
            "prices=Prices(input=3, output=15), to the LLM or to Budget. Nothing was sent."
        )

    def with_system_prompt(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return `messages` with the system prompt, if there is one, in front."""
        if not self.system_prompt:
            return tuple(messages)
        return (system_message(self.system_prompt), *messages)

    def merge_settings(self, settings: Settings | None) -> Settings:
        """Return `settings` over this LLM's over `Configs.settings`."""
        found: Settings | None = Configs.settings
        for nearer in (self.settings, settings):
            found = found if nearer is None else nearer.over(found)
        return NOTHING_SET if found is None else found

    def source(self, request: ChatRequest, backend: IOBackend, call: RequestState) -> ResponseEvents:
        """Return the events of one response of this LLM, or of its replacement (`use_llm`), in the latter's mode."""
        other = replacement()
        if other is None:
            events = self.open_events(request, backend, call)
        else:
            events = other.open_events(replace(request, mode=None), backend, call)
        if call.hooks is None:
            return events
        return HookedEvents(
            events, call.hooks, call, backend.now, lambda: (other or self).origin, stream=request.stream
        )

    def open_events(self, request: ChatRequest, backend: IOBackend, call: RequestState) -> ResponseEvents:
        """Return the events of one response of this LLM, limited to `max_concurrency`."""
        source = self._open(request, backend, call)
        return source if self._limiter is None else LimitedEvents(source, self._limiter, backend, call, self.origin)

    async def answer(self, request: ChatRequest, backend: IOBackend, call: RequestState | None = None) -> ChatResponse:
        """Return the complete response. Where `call` is passed, its owner accepts or rejects the response."""
        if call is not None:
            return await read_response(self.source(request, backend, call), self.origin)
        with self.reported_call("chat", request.settings, backend) as call:
            response = await read_response(self.source(request, backend, call), self.origin)
            await call.accept()
            return response

    @contextmanager
    def reported_call(self, name: str, settings: Settings, backend: IOBackend) -> Generator[RequestState]:
        """Begin a call, and report its end: the account in the log and the hooks' `error` and `end`.

        A response that the block has not accepted is rejected.
        """
        call = self.start_call(settings, backend)
        account = Account(name, lambda: self.origin, backend.now, hooks=call.hooks)
        try:
            yield call
        except BaseException as error:
            account.end(call.usage, call.attempts, error)
            raise
        finally:
            call.reject()
        account.end(call.usage, call.attempts, output=None)

    def start_call(self, settings: Settings, backend: IOBackend) -> RequestState:
        """Return the state of a call of this LLM that begins now, with its hooks."""
        return start_call(settings, backend, self.begin_operation("chat"))

    def begin_operation(self, operation: Operation, *more: tuple[Hooks, ...], **info: str) -> CallHooks | None:
        """Return the hooks of an operation that uses this LLM: its own, and `more`. None if there are none."""
        found = collect_hooks(*more, self.hooks)
        if not (found or self.has_hooks_below):  # those of an LLM below need the `CallInfo` of this operation
            return None
        return begin_operation(operation, self.origin, found, **info)

    @property
    def has_hooks_below(self) -> bool:
        """True if an LLM that this one calls has hooks of its own."""
        return False

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the JSON-compatible data that a cached answer to `request` is found by, without credentials."""
        metadata = self.metadata
        return [metadata.provider, None, metadata.model_name, *request.cache_data()]

    def preview(self, request: ChatRequest) -> HTTPRequest | None:
        """Return the HTTP request for `request` without sending it; None for an LLM without HTTP."""
        return None

    def decoder(self, request: ChatRequest, body: bytes = b"") -> ResponseDecoder:
        """Return the decoder for the body of a response to `request`: for `body`, if it is there already."""
        raise TypeError(f"{type(self).__name__} has no HTTP bodies to parse; pass its ChatResponse to parse()")

    def mode(self, request: ChatRequest) -> OutputMode:
        """Return the output mode of `request`: the one that it requires, or else the most reliable one of the model.

        Raises:
            UnsupportedLLMError: This LLM does not have the required mode.
        """
        if request.mode is None:
            return self._best_mode(request)
        self._require_mode(request.mode)
        return request.mode

    def check_mode(self, mode: OutputMode | None) -> None:
        """Raise `UnsupportedLLMError` if typed output is impossible in `mode`; None is the mode decided per request."""
        if mode is not None:
            self._require_mode(mode)
        if mode in (None, "tool_call") and not self.metadata.is_function_calling_model:
            raise UnsupportedLLMError(
                f"Model name {self.metadata.model_name} does not support function calling API. Choose another model, "
                "or ask it in words with mode='prompted'."
            )

    def sync_backend(self) -> IOBackend:
        """Return the I/O of sync calls."""
        return SyncBackend(self._network, self.clock)

    def async_backend(self) -> IOBackend:
        """Return the I/O of async calls."""
        return AsyncBackend(self._network, self.clock)

    @property
    def network(self) -> Network:
        """The network of the requests: the one that was passed, or the LLM's own."""
        return self._network

    @property
    def prefers_event_loop(self) -> bool:
        """True if async calls over its network are faster than sync ones, or the only ones: that of aiohttp."""
        return getattr(self._network, "prefers_event_loop", False)

    @property
    def calls_in_progress(self) -> int:
        """The number of calls that have a slot of `max_concurrency` or wait for one, in this process.

        It is 0 without a limit.
        """
        return 0 if self._limiter is None else self._limiter.here().in_progress

    @property
    def origin(self) -> Mapping[str, Any]:
        """The provider and model of the responses."""
        metadata = self.metadata
        return {"provider": metadata.provider, "model": metadata.model_name}

    @property
    def request_origin(self) -> RequestOrigin:
        """The service, the model and the credentials of its requests, for a `RequestGate`."""
        metadata = self.metadata
        return RequestOrigin(metadata.provider, metadata.model_name)

    def close(self) -> None:
        """Close the connections of sync calls. The LLM can still be used; it opens new ones."""
        self._network.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and those of sync calls."""
        await self._network.aclose()
        self._network.close()

    def _require_mode(self, mode: OutputMode) -> None:
        if mode not in self.modes:
            can = ", ".join(map(repr, self.modes))
            raise UnsupportedLLMError(
                f"{type(self).__name__} has no mode {mode!r}; for {self.metadata.model_name} there are: {can}"
            )

    def _best_mode(self, request: ChatRequest) -> OutputMode:
        """Return the output mode for a request that requires none."""
        return "prompted" if request.forces and not self.metadata.is_function_calling_model else "tool_call"

    def _open(self, request: ChatRequest, backend: IOBackend, call: RequestState) -> ResponseEvents:
        """Return the events of one response. The output mode is decided here, and passed down."""
        mode = self.mode(request) if request.tools else "tool_call"
        if mode != "prompted":
            return self._send(request, mode, backend, call)
        from .prompted import PromptedEvents, to_prompted  # few LLMs need it

        prompted, calls = to_prompted(request)
        source = self._send(prompted, mode, backend, call)
        return source if calls is None else PromptedEvents(source, calls, call, accept_damaged=request.accept_damaged)

    def _send(self, request: ChatRequest, mode: OutputMode, backend: IOBackend, call: RequestState) -> ResponseEvents:
        """Return the events of the response to `request`, which is sent as it is."""
        if request.server_tools and not self.takes_server_tools:
            label = request.server_tools[0].label
            raise BadRequest(
                f"{type(self).__name__} runs no tools of a provider, and the request has {label}: leave it out of "
                "tools=, or use the LLM of a provider that has it",
                **self.origin,
            )

        def begin(began: float) -> None:
            call.begin_request(self.hooks, began).emit("request", request_info(request))

        def send() -> AsyncIterator[Event]:
            return self._events(request.messages, request.tools, request.choice_in(mode), request.settings)

        observed = None if call.hooks is None else begin
        gated = None
        if call.gate is not None:
            tools = tuple([tool.spec for tool in request.tools])
            limit, most = request.settings.max_tokens, self.metadata.capabilities.max_output
            asked = GateRequest(self.request_origin, request.messages, tools, limit, self.price, most)
            gated = call.gate, asked, send
        return IteratorEvents(
            send(), backend, call, parallel=request.parallel, begin=observed, price=self.price, gated=gated
        )

    async def _predict(
        self, request: ChatRequest, backend: IOBackend, error_on_no_tool_call: bool
    ) -> AgentChatResponse:
        with self.reported_call("chat", request.settings, backend) as call:
            response = await read_response(self.source(request, backend, call), self.origin)
            calls = self.get_tool_calls_from_response(response, error_on_no_tool_call=error_on_no_tool_call)
            hooks = None if call.hooks is None else call.hooks.for_last_request()
            outputs = await run_tools(request.tools, calls, concurrent=backend.concurrent, hooks=hooks)
            await call.accept()
            return AgentChatResponse(response, tuple(outputs))

    def _event_stream(self, request: ChatRequest) -> EventStream:
        backend = self.sync_backend()
        call = self.start_call(request.settings, backend)
        return EventStream(self.source(request, backend, call), self.origin, backend.now, call)

    def _async_event_stream(self, request: ChatRequest) -> AsyncEventStream:
        backend = self.async_backend()
        call = self.start_call(request.settings, backend)
        return AsyncEventStream(self.source(request, backend, call), self.origin, backend.now, call)
