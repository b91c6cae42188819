"""The adapter's interface: provider-independent request input <-> a provider's HTTP requests and response bytes.

An adapter does no I/O. It encodes a `RequestInput` as an `HTTPRequest`, makes a fresh `ResponseDecoder` for the
bytes of the response, and maps the provider's error bodies to exceptions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, Protocol

from ..errors import LLMError
from ..events import Event
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, ToolCallPart
from ..values.http_request import HTTPRequest, HTTPResponse
from ..values.output_mode import OutputMode
from ..values.server_tools import ServerTool
from ..values.settings import Settings
from ..values.tool_spec import ToolCachePoint, ToolChoice, ToolSpec


@dataclass(frozen=True, slots=True)
class RequestInput:
    """The input of one request, independent of any provider.

    Args:
        parallel: The response may contain several tool calls.
        stream: The response is to be streamed.
        mode: The output mode for a required tool call; None: the adapter's default.
        accept_damaged: A response with a damaged event is read as if the event were missing.
        server_tools: The tools that the provider runs.
        cache_points: The points of the provider's cache among the tools.
        answers: The number of tools at the end whose call is the answer; others may be called before it.
        answer_now: Only these may be called.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = None
    parallel: bool = False
    stream: bool = True
    mode: OutputMode | None = None
    accept_damaged: bool = False
    server_tools: tuple[ServerTool, ...] = ()
    cache_points: tuple[ToolCachePoint, ...] = ()
    answers: int = 0
    answer_now: bool = False

    @property
    def calls_before(self) -> int:
        """The number of tool calls in the messages. Generated ids continue from it."""
        count = 0
        for message in self.messages:
            for part in message.parts:
                count += isinstance(part, ToolCallPart)
        return count

    @property
    def options(self) -> RequestOptions:
        """Everything but the messages."""
        return RequestOptions(
            self.model,
            self.tools,
            self.tool_choice,
            self.parallel,
            self.stream,
            self.mode,
            self.server_tools,
            self.cache_points,
            self.answers,
            self.answer_now,
        )


class RequestOptions(NamedTuple):
    """A `RequestInput` without its messages: the common part of the requests of one program."""

    model: str
    tools: tuple[ToolSpec, ...]
    tool_choice: ToolChoice
    parallel: bool
    stream: bool
    mode: OutputMode | None = None
    server_tools: tuple[ServerTool, ...] = ()
    cache_points: tuple[ToolCachePoint, ...] = ()
    answers: int = 0
    answer_now: bool = False


class PartEnd(NamedTuple):
    """The last event of a body, in place of `Finish`, if the response goes on in the body of another request.

    That is the same request with these further `fields`. It is not passed on to the callers of LLMs.
    """

    fields: Mapping[str, Any]


class ResponseDecoder(Protocol):
    """A decoder of one response: bytes, cut anywhere, to events."""

    @property
    def failed(self) -> bool:
        """True if `close` will raise, whatever else arrives: the provider has reported an error."""
        ...

    @property
    def model(self) -> str | None:
        """The model that the response names, once it has."""
        ...

    @property
    def open_call(self) -> str | None:
        """The id of the tool call that the last event continued, if `more_text` can recognize the next such event."""
        ...

    def more_text(self, data: bytes) -> str | None:
        """Return the text of an event that differs from the last one in its text alone; None for any other data.

        The text is read then. Any other data must be passed to `feed`.
        """
        ...

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes."""
        ...

    def close(self) -> list[Event]:
        """Return the last events after the end of the body. Raise `StreamTruncated` if its end marker is missing."""
        ...

    def expect_body(self) -> None:
        """Read another body from now on, from its first byte: the response goes on in it, after a `PartEnd`."""
        ...


class DecoderWrapper(ResponseDecoder):
    """A decoder whose events are those of `inner`, changed. Each of them is read: `more_text` recognizes none."""

    def __init__(self, inner: ResponseDecoder) -> None:
        self._inner = inner

    @property
    def failed(self) -> bool:
        """True if `close` will raise."""
        return self._inner.failed

    @property
    def model(self) -> str | None:
        """The model that the response names, once it has."""
        return self._inner.model

    @property
    def open_call(self) -> str | None:
        """None: all events are read."""
        return None

    def more_text(self, data: bytes) -> str | None:
        """Return None: all events are read."""
        return None

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes."""
        return self._changed(self._inner.feed(data))

    def close(self) -> list[Event]:
        """Return the last events after the end of the body."""
        return self._changed(self._inner.close())

    def expect_body(self) -> None:
        """Read another body from now on, in which the response goes on."""
        self._inner.expect_body()

    @abstractmethod
    def _changed(self, events: list[Event]) -> list[Event]:
        """Return the events in place of those of `inner`."""


class ProviderAdapter(Protocol):
    """One provider's protocol: the encoding of requests and the decoding of responses and errors."""

    @property
    def provider(self) -> str:
        """The name of the provider in errors and responses."""
        ...

    @property
    def base_url(self) -> str:
        """The URL of the endpoint, with `***` in place of credentials."""
        ...

    def for_request(self, request_input: RequestInput, settings: Settings) -> ProviderAdapter:
        """Return the adapter of the protocol that this request takes. Raise `BadRequest` if there is none."""
        return self

    def adapt_to(self, refusal: LLMError, request_input: RequestInput, settings: Settings) -> bool:
        """Leave out of all requests what the service has refused, if nothing depends on it. Return True for that."""
        return False

    def take_back(self, request_input: RequestInput) -> None:
        """Undo what `adapt_to` has left out of these messages, as the service refused them without it too."""
        return

    def request(self, request_input: RequestInput, settings: Settings) -> HTTPRequest:
        """Return the request to send. Raise `BadRequest` for input that the provider does not support."""
        ...

    def decoder(self, request_input: RequestInput) -> ResponseDecoder:
        """Return a fresh decoder for one response to this request, streamed or not."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with an HTTP status of 300 or more; header names are in lower case."""
        ...

    def count_tokens(
        self, request_input: RequestInput, settings: Settings
    ) -> Generator[HTTPRequest, HTTPResponse, int] | None:
        """Return the requests that count the input tokens of a request; None if the provider does not count them."""
        ...
