"""The exceptions of toolcast, as one tree.

    ToolcastError
    ├── MissingLLMError (AssertionError)      no LLM was given and Configs.llm is not set
    ├── UnsupportedLLMError (ValueError)      the LLM cannot call functions
    ├── PromptError (ValueError)              a template or its values are wrong; nothing was sent
    ├── OutputTypeError (TypeError)           output_cls has no JSON Schema that a model can fill in
    ├── MissingOutputError (AttributeError)   there is no tool output to take a result from
    ├── StreamClosed                          a stream was used after it was closed
    ├── StreamBusy                            a second view was begun on one stream
    ├── WouldSuspend (RuntimeError)           a sync call awaited code that needs an event loop
    ├── IllegalState                          an engine, a session or an elf cannot do this in the state it is in
    ├── SessionLocked                          the session is open elsewhere
    ├── PermissionDenied                      a tool may not run
    ├── ToolTimeout                           a tool took longer than it may
    ├── MCPError                              an MCP server did not start, lost its connection, or is closed
    ├── MCPToolError                          a tool of an MCP server returned an error
    ├── TurnCancelled                         the turn was cancelled
    ├── TurnStopped                           a limit of the engine ended the turn
    │   └── RoundsExceeded  BudgetExceeded  RepeatedCall
    └── CallError (ValueError)                a call was sent and has no result
        ├── LLMError                          the service or the connection to it failed
        │   ├── ConnectFailed  Timeout  RateLimited  QuotaExceeded  Overloaded  ServerError
        │   ├── AuthFailed  BadRequest  NotFound  ContextTooLong  ContentBlocked  Refused
        │   └── EmptyResponse  StreamInterrupted  StreamTruncated  MalformedEvent  LimitExceeded
        ├── NoToolCallError                   the model answered, but called no tool
        ├── UnknownToolError                  the model called a tool it was not offered
        ├── ValidationError                   the arguments do not fit the output type
        └── OutputTruncated                   max_tokens cut the arguments off

The message of a `CallError` names the problem, the response and a next step. It never contains an API key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Self, cast

from .lazy.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    import pydantic
    from pydantic_core import ErrorDetails

    from .events import ChatResponse
    from .values.answer_details import SafetyRating
    from .values.turn import Turn
    from .values.usage import Usage

__all__ = [
    "Attempt",
    "AuthFailed",
    "BadRequest",
    "BudgetExceeded",
    "ConnectFailed",
    "ContentBlocked",
    "ContextTooLong",
    "EmptyResponse",
    "IllegalState",
    "LimitExceeded",
    "MCPError",
    "MCPToolError",
    "MalformedEvent",
    "MissingLLMError",
    "MissingOutputError",
    "NoToolCallError",
    "NotFound",
    "OutputTruncated",
    "OutputTypeError",
    "Overloaded",
    "PermissionDenied",
    "PromptError",
    "QuotaExceeded",
    "RateLimited",
    "Refused",
    "RepeatedCall",
    "RoundsExceeded",
    "ServerError",
    "SessionLocked",
    "StreamBusy",
    "StreamClosed",
    "StreamInterrupted",
    "StreamTruncated",
    "Timeout",
    "ToolTimeout",
    "TurnCancelled",
    "TurnFailed",
    "TurnStopped",
    "UnknownToolError",
    "UnsupportedLLMError",
    "WouldSuspend",
]


class ToolcastError(Exception):
    """The base class of all exceptions of toolcast."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickles and deep copies are made from: the attributes, and the cause, which `errors()` reads.

        What cannot be pickled, such as an object of a local class, is replaced by its data or its text.
        """
        foreign = {"__cause__": self.__cause__, "partial": self.__dict__.get("partial")}
        portable = {name: _portable(value) for name, value in foreign.items() if value is not None}
        return type(self), self.args, {**self.__dict__, "__cause__": None, **portable}

    def __copy__(self) -> Self:
        made = type(self)(*self.args)
        made.__dict__.update(self.__dict__)
        made.__cause__ = self.__cause__
        return made

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        from .values.html_repr import table

        return table(type(self).__name__, self._html_rows())

    def _html_rows(self) -> list[tuple[str, Any]]:
        return [("message", str(self))]

    def _render_traceback_(self) -> list[str]:
        """Return what IPython prints in place of a traceback: the message, and the caller's own frames."""
        from .text.short_tracebacks import render

        return render(self, self._traceback_head(), self._traceback_hints())

    def _traceback_head(self) -> list[str]:
        return f"{type(self).__name__}: {self}".split("\n")

    def _traceback_hints(self) -> list[str]:
        return []


def _portable(value: Any) -> Any:
    """Return `value`, or if it cannot be pickled its data, and of an exception its text."""
    import pickle

    try:
        pickle.dumps(value)
    except Exception:  # the attributes of foreign objects may raise anything
        return _portable_data(value)
    return value


def _portable_data(value: Any) -> Any:
    if isinstance(value, list):
        return [_portable(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _portable(each) for name, each in cast("dict[object, object]", value).items()}
    if isinstance(value, BaseException):
        return _portable_faults(value) or Exception(f"{type(value).__name__}: {value}")
    dump = getattr(value, "model_dump", None)
    return _portable(dump()) if callable(dump) else repr(value)


def _portable_faults(error: BaseException) -> Exception | None:
    """Return Pydantic's error with the same faults, without the objects of their contexts; None for another error."""
    from pydantic import ValidationError as PydanticValidationError
    from pydantic_core import InitErrorDetails, PydanticCustomError

    if not isinstance(error, PydanticValidationError):
        return None
    faults = [
        InitErrorDetails(
            type=PydanticCustomError(cast("Any", fault["type"]), cast("Any", fault["msg"])),
            loc=fault["loc"],
            input=_portable(fault["input"]),
        )
        for fault in error.errors(include_url=False, include_context=False)
    ]
    return PydanticValidationError.from_exception_data(error.title, faults)


class MissingLLMError(ToolcastError, AssertionError):
    """The error for a call without an LLM: none was passed and `Configs.llm` is not set."""


class UnsupportedLLMError(ToolcastError, ValueError):
    """The error for an LLM whose model cannot call functions, which a structured call needs."""


class PromptError(ToolcastError, ValueError):
    """The error for a wrong prompt template, or wrong values for its variables. Nothing was sent."""


class OutputTypeError(ToolcastError, TypeError):
    """The error for an output type without a JSON Schema that a model can fill in."""


class MissingOutputError(ToolcastError, AttributeError):
    """The error for reading the output of a response in which no tool was called."""


class StreamClosed(ToolcastError):
    """The error for reading a stream that was closed before its end."""


class StreamBusy(ToolcastError):
    """The error for a second reader of a stream: one view or task reads it already."""


class WouldSuspend(ToolcastError, RuntimeError):
    """The error for code that awaits an event loop in a sync call: `_events` of a custom LLM, `respond` of a wrapper.

    The async method of the same name (`acall`, `astream`, `achat`, ...) can run it. A wrapper may await `call_next`,
    `call_next.sleep(...)` and `call_next.run_sync(...)` in sync calls too.
    """


class IllegalState(ToolcastError):
    """The error for an operation that an engine, a session or an elf does not allow in its current `state`."""

    def __init__(self, message: str = "", *, state: str = "") -> None:
        super().__init__(message)
        self.state = state


class SessionLocked(ToolcastError):
    """The error for opening a session that another process, or another object of this one, has open.

    `owner` is the id of that process, if it is known.
    """

    def __init__(self, message: str = "", *, owner: int | None = None) -> None:
        super().__init__(message)
        self.owner = owner


class PermissionDenied(ToolcastError):
    """The error for a tool call that the permissions deny. The model reads its message."""


class ToolTimeout(ToolcastError):
    """The error for a tool that exceeded its time limit. Its later result is discarded."""


class MCPError(ToolcastError):
    """The error for an MCP server that did not start, lost its connection, broke the protocol, or is closed."""


class MCPToolError(ToolcastError):
    """The error for a tool of an MCP server that returned an error, with the server's message."""


class _EndedTurn(ToolcastError):
    """A turn that ended without a final answer; `turn` is the unfinished turn.

    `attempts`, `provider`, `model`, `request_id` and `response` are those of a `CallError`, of the turn's requests;
    `response` is the last complete one.
    """

    attempts: tuple[Attempt, ...] = ()
    provider: str | None = None
    model: str | None = None
    request_id: str | None = None
    response: ChatResponse | None = None

    def __init__(self, message: str = "", *, turn: Turn[Any] | None = None) -> None:
        super().__init__(message)
        self.turn = turn


class TurnCancelled(_EndedTurn):
    """The error for a cancelled turn; `turn` is the unfinished turn."""


class TurnStopped(_EndedTurn):
    """The error for a turn that a limit of the engine ended; `turn` is the unfinished turn, which can be continued."""


class TurnFailed(_EndedTurn):
    """The error for a turn that a tool ended: by `FailTurn`, or by any error with `tool_errors="raise"`.

    `turn` is the unfinished turn, `tool_name` the tool, and `__cause__` the tool's exception.
    """

    def __init__(self, message: str = "", *, tool_name: str = "", turn: Turn[Any] | None = None) -> None:
        super().__init__(message, turn=turn)
        self.tool_name = tool_name


class RoundsExceeded(TurnStopped):
    """The error for a turn that needs more model requests than `max_rounds`."""


class BudgetExceeded(TurnStopped):
    """The error for an exhausted budget; `limit` is `tokens`, `usd`, `seconds` or `tool_calls`."""

    def __init__(self, message: str = "", *, limit: str = "", turn: Turn[Any] | None = None) -> None:
        super().__init__(message, turn=turn)
        self.limit = limit


class RepeatedCall(TurnStopped):
    """The error for a model that repeats the same tool call."""


class TryAgain(Exception):
    """The exception by which a validator or tool asks the model again, with its message as the reason.

    Not a `ToolcastError`, as it is a message to the library. Within `max_attempts` it leads to another
    request; after that it is the cause of the `ValidationError` that the caller gets.
    """


class FailTurn(Exception):
    """The exception by which a tool ends the turn of an agent as failed, with its message as the reason.

    The model gets no further request, and `Engine.submit` raises `TurnFailed`. Like `TryAgain`, not a `ToolcastError`.
    """


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request of a call.

    Attributes:
        number: Its number, from 1.
        error: The error that ended it; None for a success.
        usage: Its tokens.
        request_id: The service's id of the request.
        seconds: The time from the request to the end of the response, or to the error.
        wait: The seconds between its error and the next request.
        cached: True for an answer from the cache of a `CachedLLM`, for which no request was sent.
    """

    number: int
    error: Exception | None = None
    usage: Usage | None = None
    request_id: str | None = None
    seconds: float = field(default=0.0, compare=False)
    wait: float = field(default=0.0, compare=False)
    cached: bool = field(default=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, with the type and the message of the error."""
        return {
            "number": self.number,
            "error": None if self.error is None else error_to_dict(self.error),
            "usage": None if self.usage is None else self.usage.to_dict(),
            "request_id": self.request_id,
            "seconds": self.seconds,
            "wait": self.wait,
            "cached": self.cached,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attempt:
        """Return the attempt from the data of `to_dict`; its error has its type, message and origin."""
        from .values.usage import Usage

        error, usage = data["error"], data["usage"]
        return cls(
            data["number"],
            None if error is None else error_from_dict(error),
            None if usage is None else Usage.from_dict(usage),
            data["request_id"],
            data.get("seconds", 0.0),
            data.get("wait", 0.0),
            data.get("cached", False),
        )


_ORIGIN = ("provider", "model", "request_id")


def error_to_dict(error: Exception) -> dict[str, Any]:
    """Return the type, the message and the origin of an error as JSON-compatible data."""
    if not isinstance(error, CallError):
        return {"type": type(error).__name__, "message": str(error)}
    origin = {name: getattr(error, name) for name in _ORIGIN}
    return {"type": type(error).__name__, "message": error.message, **origin}


def error_from_dict(data: Mapping[str, Any]) -> Exception:
    """Return the error from the data of `error_to_dict`; one that another module defines becomes a `CallError`."""
    kind = globals().get(str(data["type"]))
    if not (isinstance(kind, type) and issubclass(kind, (CallError, TryAgain))):
        return CallError(f"{data['type']}: {data['message']}")
    if issubclass(kind, TryAgain):
        return kind(data["message"])
    made = kind(data["message"], **{name: data.get(name) for name in _ORIGIN})
    made.advice = ""  # the request was repeated
    return made


def set_requests(
    error: BaseException,
    attempts: Sequence[Attempt],
    origin: Mapping[str, Any],
    response: ChatResponse | None = None,
) -> None:
    """Set the requests of a turn on the error that ends it, unless it has those of another call already.

    Args:
        error: The error.
        attempts: The requests of the turn.
        origin: The provider and the model.
        response: The last complete response of the turn.
    """
    if isinstance(error, CallError):
        last = error.attempts[-1:]
        if last and not any(attempt is last[0] for attempt in attempts):
            return
        response = error.response
    elif isinstance(error, _EndedTurn):
        error.response = response
    else:
        return
    attempts = [replace(attempt, number=number) for number, attempt in enumerate(attempts, 1)]
    if isinstance(error, CallError) and response is not None and attempts and attempts[-1].error is None:
        attempts[-1] = replace(attempts[-1], error=error)
    error.attempts = tuple(attempts)
    error.provider = error.provider or origin.get("provider")
    error.model = error.model or origin.get("model")
    error.request_id = error.request_id or (None if response is None else response.request_id)


def drop_general_advice(error: CallError) -> None:
    """Drop the advice of the class of an error, as it was followed already; one for this failure stays."""
    if _is_general(error):
        error.advice = ""


def add_advice(error: CallError, max_attempts: int) -> None:
    """Add the advice to allow more than `max_attempts`, unless the error has one for this failure."""
    general = type(error).advice
    if max_attempts > 1 and general:
        other = ", or try another model" if isinstance(error, NoToolCallError) else ""
        general = f"max_attempts={max_attempts + 1} allows another attempt{other}"
    if not error.advice or _is_general(error):
        error.advice = general


def _is_general(error: CallError) -> bool:
    return error.advice == type(error).advice


class CallError(ToolcastError, ValueError):
    """The error for a call that was sent and has no result.

    Attributes:
        provider: The provider, as the LLM names it.
        model: The model, as the LLM names it.
        request_id: The service's id of the request.
        attempts: One entry for each request of the call.
        retryable: True if the same call may succeed later.
        partial: As much of the call's result as there is, of the same type: the object, perhaps incomplete, or of
            parallel calls a list of those that are complete and valid; of a chat, the text. None if there is nothing.
        response: The `ChatResponse` that the error was found in, or None.
        turn: The unfinished turn of an agent that it ended, or None: `turn.history` can be continued.
        call_id: The id of the tool call that caused the error, or None.
        tool_name: The name of that tool, or None.
        arguments: The JSON text of that call's arguments.
        others: The errors of further calls of the same response.
        advice: A next step for a person. It is not part of `message`, which models read.
    """

    retryable: bool = False
    advice: str = ""
    call_id: str | None = None
    tool_name: str | None = None
    arguments: str = ""
    others: tuple[CallError, ...] = ()
    turn: Turn[Any] | None = None

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

    def _html_rows(self) -> list[tuple[str, Any]]:
        return [
            ("message", self.message),
            ("model", " ".join([name for name in (self.provider, self.model) if name]) or None),
            ("request", self.request_id),
            ("requests", len(self.attempts) or None),
            ("next step", self._next_step or None),
        ]

    @property
    def _next_step(self) -> str:
        """The advice, unless it is the general one and an earlier attempt failed alike: repeating it did not help."""
        same = [attempt for attempt in self.attempts[:-1] if isinstance(attempt.error, type(self))]
        return "" if same and _is_general(self) else self.advice

    @property
    def _summary(self) -> str:
        """The requests of the call, their time, and the failures of the service before the last one; empty for one."""
        if len(self.attempts) < 2:
            return ""
        seconds = sum([attempt.seconds + attempt.wait for attempt in self.attempts])
        failures = [attempt.error for attempt in self.attempts[:-1] if isinstance(attempt.error, LLMError)]
        kinds = [
            f"answered {each.status}" if each.status else f"failed with {type(each).__name__}" for each in failures
        ]
        counts = {kind: kinds.count(kind) for kind in kinds}
        parts = [f"{'one' if count == 1 else count} of them {kind}" for kind, count in counts.items()]
        return ", ".join([f"after {len(self.attempts)} requests in {seconds:.1f} s", *parts])

    @property
    def message(self) -> str:
        """The error message without the provider, the model and the advice."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        where = " ".join(_printable(part) for part in (self.provider, self.model) if part)
        text = f"{where}: {self.message}" if where else self.message
        if self._next_step:
            text = f"{text}{'' if text.endswith('.') else '.'} {self._next_step}"
        if self._summary:
            text = f"{text} ({self._summary})"
        return f"{text} [request {_printable(self.request_id)}]" if self.request_id else text


def _printable(text: str) -> str:
    """Return `text`, which a service may have sent, with line breaks and control characters as escape sequences."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_INPUT else f"{text[: _LONGEST_INPUT - 1]}…"


class LLMError(CallError):
    """The error for a failure of the service or of the connection to it.

    Attributes:
        status: The HTTP status, or None without a response.
        retry_after: The seconds that the service asks to wait, or None.
        rate_limits: The response headers about rate limits, by name in lower case.
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
    """The error for a connection that was not established: refused, unknown host, or an invalid certificate."""

    retryable = True


class Timeout(LLMError):
    """The error for an exceeded time limit; `phase` is `connect`, `first_token`, `idle` or `total`."""

    retryable = True

    def __init__(self, message: str = "", *, phase: str = "total", **where: Any) -> None:
        super().__init__(message, **where)
        self.phase = phase


class RateLimited(LLMError):
    """The error for too many requests in a time window (HTTP 429)."""

    retryable = True


class QuotaExceeded(LLMError):
    """The error for an account without credit or quota. Waiting does not help."""


class Overloaded(LLMError):
    """The error for an overloaded service (HTTP 503, 529)."""

    retryable = True


class ServerError(LLMError):
    """The error for a failure of the service (HTTP 5xx)."""

    retryable = True


class AuthFailed(LLMError):
    """The error for an API key that is missing, wrong, or without the permission (HTTP 401, 403)."""


class BadRequest(LLMError):
    """The error for a request that the service rejects, or that toolcast rejects before it is sent."""


class NotFound(LLMError):
    """The error for an unknown model or URL (HTTP 404)."""


class ContextTooLong(LLMError):
    """The error for messages that exceed the model's context window.

    Attributes:
        largest: The names of the largest messages and tools with an estimate of their tokens, where toolcast has found
            out before sending; empty for a refusal of the service.
    """

    largest: tuple[tuple[str, int], ...] = ()


class ContentBlocked(LLMError):
    """The error for a request or a response that a content filter of the service stopped.

    Attributes:
        safety: The ratings by the filter, where the service reports them.
    """

    safety: tuple[SafetyRating, ...] = ()


class Refused(LLMError):
    """The error for a model that refuses to answer."""


class EmptyResponse(LLMError):
    """The error for a response without text, thinking or tool calls."""

    retryable = True
    advice = "Send the request again. If it stays empty, check the model's name and base_url."


class StreamInterrupted(LLMError):
    """The error for a connection that was lost during a response."""

    retryable = True


class StreamTruncated(LLMError):
    """The error for a response that ended without the protocol's end marker."""

    retryable = True


class MalformedEvent(LLMError):
    """The error for a response that violates the protocol."""


class LimitExceeded(LLMError):
    """The error for an exceeded limit on the size of an event or a body, or on the calls in one response."""


class NoToolCallError(CallError):
    """The error for a response without a tool call; `response.text` is the model's text."""

    advice = "Ask again with max_attempts=2, or try another model."


class UnknownToolError(CallError):
    """The error for a call of a tool that the request did not offer."""


_MOST_FAULTS = 6
_LONGEST_INPUT = 120


class OutputTruncated(CallError):
    """The error for arguments that `max_tokens` cut off."""


class ValidationError(CallError):
    """The error for arguments that do not match the output type.

    `.errors()` and `.error_count()` are Pydantic's, `.tool_name` the tool, `.arguments` the raw text,
    and `__cause__` the Pydantic error. `.hides_input` is False if the type lets errors show the values that the model
    wrote.
    """

    advice = "max_attempts=2 lets the model correct itself"
    hides_input: bool = True
    _faults: Exception | None = None

    def __init__(self, message: str = "", *, tool_name: str | None = None, arguments: str = "", **where: Any) -> None:
        super().__init__(message, **where)
        self.tool_name = tool_name
        self.arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        kind, args, state = super().__reduce__()
        # A process pool puts another cause in its place.
        return kind, args, {**state, "_faults": _portable(self._pydantic)}

    def errors(self) -> Sequence[ErrorDetails]:
        """Return Pydantic's list of errors, each with `loc`, `msg`, `type` and `input`."""
        cause = self._pydantic
        return cause.errors() if cause is not None else []

    def error_count(self) -> int:
        """Return the number of Pydantic's errors."""
        cause = self._pydantic
        return cause.error_count() if cause is not None else 0

    def _problems(self) -> list[tuple[str, str]]:
        """Return the fields with what was expected and, unless the type hides it, what came."""
        problems: list[tuple[str, str]] = []
        for problem in self.errors():
            got = "" if self.hides_input else f", got {_shortened(repr(problem['input']))}"
            problems.append((".".join(map(str, problem["loc"])) or "(all)", f"{problem['msg']}{got}"))
        return problems

    def _html_rows(self) -> list[tuple[str, Any]]:
        return [*(self._problems() or super()._html_rows()[:1]), *super()._html_rows()[1:]]

    def _traceback_head(self) -> list[str]:
        problems = self._problems()
        if not problems:
            return super()._traceback_head()
        origin = " ".join([name for name in (self.provider, self.model) if name])
        lines = [f"{type(self).__name__}: {self.tool_name or 'the answer'} by {origin or 'the model'} is invalid"]
        lines += [f"  {field}: {problem}" for field, problem in problems[:_MOST_FAULTS]]
        more = len(problems) - _MOST_FAULTS
        return [*map(_printable, lines), *([f"  ... and {more} more"] if more > 0 else [])]

    def _traceback_hints(self) -> list[str]:
        return [_printable(self._next_step)] if self._next_step and self._problems() else []

    @property
    def _pydantic(self) -> pydantic.ValidationError | None:
        from pydantic import ValidationError as PydanticValidationError

        found = (self.__cause__, self._faults)
        return next((error for error in found if isinstance(error, PydanticValidationError)), None)
