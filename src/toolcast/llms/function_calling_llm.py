"""`FunctionCallingLLM`: the base class of all LLMs.

It builds every call on one stream of events: chat, chat with tools, predict and call, each complete or streamed, sync
or async. A custom LLM implements `metadata` and one async iterator, `_events`; the classes of the providers send a
provider's HTTP requests instead.

Each public method builds one frozen `ChatRequest` (request.py). The rest is written once, in async syntax; the sync
methods run it without an event loop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, overload

from typing_extensions import Unpack

from ..async_support import sync_driver
from ..async_support.closing import AsyncClosing, Closing
from ..errors import MissingOutputError, NoToolCallError
from ..events import ChatResponse, Event
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, ToolCallPart
from ..tools.callable_tool import CallableTool, ToolOutput
from ..tools.execution import run_tools
from ..transport.network import Clock, IOBackend, Network
from ..transport.network_choice import NetworkChoice
from ..values.capabilities import LLMMetadata, Progress
from ..values.hooks import Hooks, as_hooks
from ..values.http_request import HTTPRequest
from ..values.option_suggestions import refuse_attributes, refuse_unknown
from ..values.option_types import require_optional, require_text
from ..values.output_mode import OutputMode
from ..values.prices import Prices
from ..values.settings import Settings
from ..values.tool_spec import ToolChoice
from .call_state import CallState, ResponseEvents, iterate_events
from .client import Connections, LLMClient, client_of
from .defaults import replacement
from .event_streams import AsyncEventStream, EventStream
from .file_methods import FileMethods
from .request import ChatRequest, Messages, Tools

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
    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = LLMClient
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
        self.max_concurrency: int | None = max_concurrency
        self.__toolcast__: Connections = Connections(network, max_concurrency)

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
        client = client_of(self)
        request = _request(client, "chat", messages, tools, options)
        return sync_driver.run(client.answer(request, client.sync_backend()))

    async def achat(self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]) -> ChatResponse:
        """Return the complete response. The tool calls in it are not run."""
        client = client_of(self)
        request = _request(client, "achat", messages, tools, options)
        return await client.answer(request, client.async_backend())

    def stream_chat(self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]) -> EventStream:
        """Return a stream of the events of one response. The request is sent when the first event is read."""
        client = client_of(self)
        request = _request(client, "stream_chat", messages, tools, options)
        return EventStream(*_streamed(client, request, client.sync_backend()))

    def astream_chat(
        self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]
    ) -> AsyncEventStream:
        """Return a stream of the events of one response. The request is sent when the first event is awaited."""
        client = client_of(self)
        request = _request(client, "astream_chat", messages, tools, options)
        return AsyncEventStream(*_streamed(client, request, client.async_backend()))

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
        client = client_of(self)
        request = _request(client, "chat_with_tools", messages, tools, options, ToolCallOptions)
        if stream:
            return EventStream(*_streamed(client, request, client.sync_backend()))
        return sync_driver.run(client.answer(request, client.sync_backend()))

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
        client = client_of(self)
        request = _request(client, "achat_with_tools", messages, tools, options, ToolCallOptions)
        if stream:
            return AsyncEventStream(*_streamed(client, request, client.async_backend()))
        return await client.answer(request, client.async_backend())

    def predict_and_call(
        self,
        tools: Tools,
        messages: Messages,
        *,
        error_on_no_tool_call: bool = True,
        **options: Unpack[ToolCallOptions],
    ) -> AgentChatResponse:
        """Return the response, and the outputs of the tools that it called."""
        client = client_of(self)
        request = _request(client, "predict_and_call", messages, tools, options, ToolCallOptions)
        return sync_driver.run(_predict(client, request, client.sync_backend(), error_on_no_tool_call))

    async def apredict_and_call(
        self,
        tools: Tools,
        messages: Messages,
        *,
        error_on_no_tool_call: bool = True,
        **options: Unpack[ToolCallOptions],
    ) -> AgentChatResponse:
        """Return the response, and the outputs of the tools that it called."""
        client = client_of(self)
        request = _request(client, "apredict_and_call", messages, tools, options, ToolCallOptions)
        return await _predict(client, request, client.async_backend(), error_on_no_tool_call)

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
        client = client_of(self)
        request = _request(client, "count_tokens", messages, tools, options)
        return sync_driver.run(_count(client, request, method, client.sync_backend()))

    async def acount_tokens(
        self, messages: Messages, tools: Tools = (), *, method: CountMethod = "provider", **options: Unpack[ChatOptions]
    ) -> TokenCount:
        """Return the number of input tokens of a request; see `count_tokens`."""
        client = client_of(self)
        request = _request(client, "acount_tokens", messages, tools, options)
        return await _count(client, request, method, client.async_backend())

    def preview(self, messages: Messages, *, tools: Tools = (), **options: Unpack[ChatOptions]) -> HTTPRequest | None:
        """Return the HTTP request of `chat` without sending it; None for an LLM without HTTP."""
        client = client_of(self)
        return client.preview(_request(client, "preview", messages, tools, options))

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

    def close(self) -> None:
        """Close the connections of sync calls. The LLM can still be used; it opens new ones."""
        self.__toolcast__.network.close()

    @property
    def network(self) -> Network:
        """The network of its requests: the one that was passed, or its own."""
        return self.__toolcast__.network

    @property
    def clock(self) -> Clock:
        """The clock of its time limits and waits; `VirtualClock` (toolcast.testing) is one for tests."""
        return self.__toolcast__.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self.__toolcast__.clock = clock

    @property
    def calls_in_progress(self) -> int:
        """The number of calls that have a slot of `max_concurrency` or wait for one, in this process.

        It is 0 without a limit.
        """
        limiter = self.__toolcast__.limiter
        return 0 if limiter is None else limiter.here().in_progress

    async def aclose(self) -> None:
        """Close the connections of this event loop and those of sync calls."""
        await self.__toolcast__.network.aclose()
        self.__toolcast__.network.close()


class BuiltInLLM(FunctionCallingLLM):
    """An LLM of the library, whose client does not need `_events`."""

    def _events(
        self,
        messages: Sequence[Message],
        tools: Sequence[CallableTool],
        tool_choice: ToolChoice,
        settings: Settings,
    ) -> AsyncIterator[Event]:
        """Yield the events of one response under an event loop, for an LLM of a user that passes its requests on."""
        client = client_of(self)
        backend, request = (
            client.async_backend(),
            ChatRequest(tuple(messages), tuple(tools), tool_choice, settings, parallel=True, stream=True),
        )
        call = client.begin_call(request.settings, backend)
        return iterate_events(client.open_events(request, backend, call), call)


def _request(
    client: LLMClient,
    method: str,
    messages: Messages,
    tools: Tools,
    options: ChatOptions | ToolCallOptions,
    known: type[ChatOptions] = ChatOptions,
) -> ChatRequest:
    names = ("messages", "tools", "method") if method.endswith("count_tokens") else ("messages", "tools")
    refuse_unknown(method, options, (*(names if known is ChatOptions else names[::-1]), *known.__annotations__))
    parallel = known is ChatOptions or options.get("allow_parallel_tool_calls", False)
    settings = options.get("settings")
    return client.build_request(messages, tools, options.get("tool_choice"), settings, parallel=bool(parallel))


def _streamed(
    client: LLMClient, request: ChatRequest, backend: IOBackend
) -> tuple[ResponseEvents, Mapping[str, Any], CallState]:
    """Return what a stream of the events of a response needs."""
    call = client.begin_call(request.settings, backend)
    return client.source(replace(request, stream=True), backend, call), client.origin, call


async def _predict(
    client: LLMClient, request: ChatRequest, backend: IOBackend, error_on_no_tool_call: bool
) -> AgentChatResponse:
    with client.reported_call("chat", request.settings, backend) as call:
        response = await client.answer(request, backend, call)
        calls = client.llm.get_tool_calls_from_response(response, error_on_no_tool_call=error_on_no_tool_call)
        outputs = await run_tools(request.tools, calls, concurrent=backend.concurrent, hooks=call.last_hooks)
        await call.accept()
        return AgentChatResponse(response, tuple(outputs))


async def _count(client: LLMClient, request: ChatRequest, method: CountMethod, backend: IOBackend) -> TokenCount:
    from .token_counts import check_method, estimated_count

    check_method(method)
    other = replacement()
    client = client if other is None else client_of(other)
    count = await client.count_request(request, backend) if method == "provider" else None
    return estimated_count(request) if count is None else count
