"""Every error toolcast raises, as one tree.

    ToolcastError
    ├── MissingLLMError (AssertionError)      no LLM was given and Configs.llm is not set
    ├── UnsupportedLLMError (ValueError)      the LLM cannot call functions
    ├── PromptError (ValueError)              a template or its values are wrong; nothing was sent
    ├── OutputTypeError (TypeError)           output_cls is nothing a model could be asked for
    ├── MissingOutputError (AttributeError)   there is no tool output to take a result from
    ├── StreamClosed                          a stream was used after it had been closed
    ├── StreamBusy                            a second view was begun on one stream
    ├── WouldSuspend (RuntimeError)           a synchronous call met code that waits for an event loop
    ├── IllegalState                          an engine, a session or an elf cannot do this in the state it is in
    ├── SessionLocked                          the session is open elsewhere
    ├── PermissionDenied                      a tool may not run
    ├── ToolTimeout                           a tool took longer than it may
    ├── MCPError                              an MCP server could not be started, was lost, or is closed
    ├── MCPToolError                          a tool of an MCP server says that it failed
    ├── TurnCancelled                         the turn was cancelled
    ├── TurnStopped                           a limit of the engine ended the turn
    │   └── RoundsExceeded  BudgetExceeded  RepeatedCall
    └── CallError (ValueError)                a call was made and did not end in a result
        ├── LLMError                          the service, or the way to it, failed
        │   ├── ConnectFailed  Timeout  RateLimited  QuotaExceeded  Overloaded  ServerError
        │   ├── AuthFailed  BadRequest  NotFound  ContextTooLong  ContentBlocked  Refused
        │   └── EmptyResponse  StreamInterrupted  StreamTruncated  MalformedEvent  LimitExceeded
        ├── NoToolCallError                   the model answered, but called no tool
        ├── UnknownToolError                  the model called a tool it was not offered
        ├── ValidationError                   the arguments do not fit the output type
        └── OutputTruncated                   max_tokens cut the arguments off

A `CallError` says what happened, what came back, and what to try. It never holds an API key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pydantic
    from pydantic_core import ErrorDetails

    from .events import ChatResponse
    from .turn import Turn
    from .usage import Usage


class ToolcastError(Exception):
    """The base of every error of this library."""


class MissingLLMError(ToolcastError, AssertionError):
    """No LLM: none was passed and `Configs.llm` is not set."""


class UnsupportedLLMError(ToolcastError, ValueError):
    """The LLM's model cannot call functions, which a structured call needs."""


class PromptError(ToolcastError, ValueError):
    """A prompt template or the values for its holes are wrong. Nothing was sent."""


class OutputTypeError(ToolcastError, TypeError):
    """The output type is nothing a model can be asked to fill in."""


class MissingOutputError(ToolcastError, AttributeError):
    """A tool result was asked for where no tool has run."""


class StreamClosed(ToolcastError):
    """The stream was closed before it reached its end."""


class StreamBusy(ToolcastError):
    """Another view of this stream has begun and owns it."""


class WouldSuspend(ToolcastError, RuntimeError):
    """A synchronous call met code that waits for an event loop, such as the `_events` of a custom LLM.

    The async method of the same name (`acall`, `astream`, `achat`, ...) can run it.
    """


class IllegalState(ToolcastError):
    """An engine, a session or an elf cannot do this in the `state` it is in."""

    def __init__(self, message: str = "", *, state: str = "") -> None:
        super().__init__(message)
        self.state = state


class SessionLocked(ToolcastError):
    """The session is open elsewhere: in another process, or in another object of this one."""


class PermissionDenied(ToolcastError):
    """A tool may not run. The model reads why."""


class ToolTimeout(ToolcastError):
    """A tool took longer than it may. What it gives later is discarded."""


class MCPError(ToolcastError):
    """An MCP server could not be started, was lost, did not understand, or is closed."""


class MCPToolError(ToolcastError):
    """A tool of an MCP server says that it failed. The message is what it says."""


class _EndedTurn(ToolcastError):
    """A turn that ended without its answer; `turn` is what there is of it."""

    def __init__(self, message: str = "", *, turn: Turn[Any] | None = None) -> None:
        super().__init__(message)
        self.turn = turn


class TurnCancelled(_EndedTurn):
    """The turn was cancelled. `turn` is what there is of it."""


class TurnStopped(_EndedTurn):
    """A limit of the engine ended the turn. `turn` is what there is of it, and the history can be gone on with."""


class TurnFailed(_EndedTurn):
    """A tool ended the turn: it raised `FailTurn`, or any other error where `tool_errors="raise"`.

    `turn` is what there is of the turn, `tool_name` the tool, and `__cause__` what it raised.
    """

    def __init__(self, message: str = "", *, tool_name: str = "", turn: Turn[Any] | None = None) -> None:
        super().__init__(message, turn=turn)
        self.tool_name = tool_name


class RoundsExceeded(TurnStopped):
    """The model wanted another round, and `max_rounds` were used up."""


class BudgetExceeded(TurnStopped):
    """A budget is used up. `limit` is which: `tokens`, `usd`, `seconds` or `tool_calls`."""

    def __init__(self, message: str = "", *, limit: str = "", turn: Turn[Any] | None = None) -> None:
        super().__init__(message, turn=turn)
        self.limit = limit


class RepeatedCall(TurnStopped):
    """The model made the same call again and again."""


class TryAgain(Exception):
    """Raise in a validator or tool to have the model asked again, with your words as the reason.

    Not a `ToolcastError`: it is a message to the library. Within `max_attempts` it is answered by a new
    request; after that it reaches the caller as the cause of a `ValidationError`.
    """


class FailTurn(Exception):
    """Raise in a tool to end the turn of an agent as failed, with your words as the reason.

    The model is not asked again, and `Engine.submit` raises `TurnFailed`. Not a `ToolcastError`, as `TryAgain` is none.
    """


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request of a call: its number from 1, and the error that ended it (None: it succeeded)."""

    number: int
    error: Exception | None = None
    usage: Usage | None = None
    request_id: str | None = None


class CallError(ToolcastError, ValueError):
    """A call that was made and ended without a result.

    Attributes: `provider` and `model` as named by the LLM; `request_id` as the service gave it;
    `attempts`, one entry per request; `retryable`, whether the same call may succeed later;
    `partial`, what had arrived, if anything; `response`, the `ChatResponse` it was read from;
    `call_id`, `tool_name` and `arguments` (JSON text) of the tool call that it is about, if it is about one;
    `advice`, what people can try, until it was tried. A model that reads the `message` does not read that.
    """

    retryable: bool = False
    advice: str = ""
    call_id: str | None = None
    tool_name: str | None = None
    arguments: str = ""

    def __init__(
        self,
        message: str = "",
        *,
        provider: str | None = None,
        model: str | None = None,
        request_id: str | None = None,
        partial: Any = None,
        response: ChatResponse | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.request_id = request_id
        self.partial = partial
        self.response = response
        self.attempts: tuple[Attempt, ...] = ()

    @property
    def message(self) -> str:
        """What happened, without the name of the service."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        where = " ".join(_printable(part) for part in (self.provider, self.model) if part)
        text = f"{where}: {self.message}" if where else self.message
        if self.advice and len(self.attempts) < 2:
            text = f"{text}{'' if text.endswith('.') else '.'} {self.advice}"
        return f"{text} [request {_printable(self.request_id)}]" if self.request_id else text


def _printable(text: str) -> str:
    """Return `text`, which a service may have sent, with line breaks and control characters as escape sequences."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class LLMError(CallError):
    """The service, or the way to it, failed.

    `status` is the HTTP status, if there was one; `retry_after` the seconds the service asked to wait;
    `rate_limits` the answer's headers on rate limits, as the service sent them, by their names in lower case.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
        retryable: bool | None = None,
        rate_limits: Mapping[str, str] | None = None,
        **where: Any,
    ) -> None:
        super().__init__(message, **where)
        self.status = status
        self.retry_after = retry_after
        self.rate_limits: Mapping[str, str] = dict(rate_limits or {})
        if retryable is not None:
            self.retryable = retryable


class ConnectFailed(LLMError):
    """No connection: refused, no such host, or a certificate that does not hold."""

    retryable = True


class Timeout(LLMError):
    """A time limit passed. `phase` is `connect`, `first_token`, `idle` or `total`."""

    retryable = True

    def __init__(self, message: str = "", *, phase: str = "total", **where: Any) -> None:
        super().__init__(message, **where)
        self.phase = phase


class RateLimited(LLMError):
    """Too many requests just now (429)."""

    retryable = True


class QuotaExceeded(LLMError):
    """The account has no credit or quota left. Waiting does not help."""


class Overloaded(LLMError):
    """The service has more work than it can take (503, 529)."""

    retryable = True


class ServerError(LLMError):
    """The service failed (5xx)."""

    retryable = True


class AuthFailed(LLMError):
    """The key is missing, wrong, or may not do this (401, 403)."""


class BadRequest(LLMError):
    """The service does not take this request, or toolcast knows that it would not."""


class NotFound(LLMError):
    """No such model or address (404)."""


class ContextTooLong(LLMError):
    """The messages do not fit into the model's context window."""


class ContentBlocked(LLMError):
    """A content filter of the service stopped the answer."""


class Refused(LLMError):
    """The model declined to answer."""


class EmptyResponse(LLMError):
    """An answer without text, thinking or tool calls, where one was expected."""

    retryable = True
    advice = "Send the request again. If it stays empty, check the model's name and base_url."


class StreamInterrupted(LLMError):
    """The connection broke in the middle of an answer."""

    retryable = True


class StreamTruncated(LLMError):
    """The answer ended without the protocol's end marker."""

    retryable = True


class MalformedEvent(LLMError):
    """What came back is not what the protocol allows."""


class LimitExceeded(LLMError):
    """A limit on size or number was passed: of an event, a body, or the calls in one answer."""


class NoToolCallError(CallError):
    """The model answered without calling a tool. `response.message.text` is what it wrote."""

    advice = "Ask again with max_attempts=2, or try another model."


class UnknownToolError(CallError):
    """The model called a tool that it was not offered."""


class OutputTruncated(CallError):
    """The arguments were cut off by `max_tokens`. `partial` is what had arrived."""


class ValidationError(CallError):
    """The arguments do not fit the output type.

    `.errors()` and `.error_count()` are Pydantic's, `.tool_name` the tool, `.arguments` the raw text,
    `__cause__` the Pydantic error. `.partial` holds what did validate.
    """

    advice = "max_attempts=2 lets the model correct itself"

    def __init__(self, message: str = "", *, tool_name: str | None = None, arguments: str = "", **where: Any) -> None:
        super().__init__(message, **where)
        self.tool_name = tool_name
        self.arguments = arguments

    def errors(self) -> Sequence[ErrorDetails]:
        """The single faults, each with `loc`, `msg`, `type` and `input`, as Pydantic lists them."""
        cause = self._pydantic
        return cause.errors() if cause is not None else []

    def error_count(self) -> int:
        """The number of single faults."""
        cause = self._pydantic
        return cause.error_count() if cause is not None else 0

    @property
    def _pydantic(self) -> pydantic.ValidationError | None:
        from pydantic import ValidationError as PydanticValidationError

        return self.__cause__ if isinstance(self.__cause__, PydanticValidationError) else None
