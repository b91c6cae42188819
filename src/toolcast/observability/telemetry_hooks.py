"""`TelemetryHooks`: hooks that record spans and metrics. Imported by `instrument` alone, as it needs opentelemetry-api.

An operation has one client span, from its first request to its end: its attempts are events, and its tokens, the sum
over all attempts, are recorded once. A turn of an agent has an internal span, and each of its tools one below it.

A span is attached to the context only while a tool runs, in the thread or task that runs it, so that the spans of the
tool's own code are below it. Elsewhere the context belongs to the caller: between two items of a stream its own code
runs. The parent of other spans is found by the id in `CallInfo.parent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from functools import wraps
from importlib.metadata import version
from threading import Lock, local
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from opentelemetry import context as otel
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider, get_meter
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer,
    set_span_in_context,
)

from ..errors import LLMError
from ..events import ChatResponse
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, ToolCallPart
from ..text.json_text import replace_surrogates
from ..values.hooks import CallInfo, HookedTool, Hooks, RequestInfo
from ..values.secret_patterns import mask_secrets
from ..values.settings import Settings
from ..values.usage import NO_USAGE, Usage
from . import conventions as names
from .telemetry_content import Mask, definitions_json, messages_json

if TYPE_CHECKING:
    from ..values.turn import Turn

P = ParamSpec("P")
R = TypeVar("R")

_PART_OF: Final = otel.create_key("toolcast-part-of")
"""The key of a context for the id of the tool call that runs in it, in the form of `CallInfo.parent`."""
_NAME: Final = 100  # characters of a tool's name, which the model writes
_ERROR: Final = 500  # characters of the text of an attempt's error

_made: WeakSet[TelemetryHooks] = WeakSet()
_making = Lock()


def telemetry_hooks(
    tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None, capture_content: bool
) -> TelemetryHooks:
    """Return the hooks with these arguments: those that exist, so that they are called once for each call."""
    arguments = (tracer_provider, meter_provider, capture_content)
    with _making:
        for hooks in _made:
            if hooks.arguments == arguments:
                return hooks
        hooks = TelemetryHooks(*arguments)
        _made.add(hooks)
        return hooks


@dataclass(slots=True, eq=False)
class _Attempt:
    """An attempt of an operation, whose event is added when its end is observed.

    Attributes:
        number: Its number, from 1.
        began: When it began, in seconds.
        time: When it began, in nanoseconds: the time of the event.
        seconds: Its duration, once its response is complete.
        usage: The tokens of its response.
        cached: True for an answer from a cache.
    """

    number: int
    began: float = field(default_factory=monotonic)
    time: int = field(default_factory=time_ns)
    seconds: float | None = None
    usage: Usage = NO_USAGE
    cached: bool = False


@dataclass(slots=True, eq=False)
class _Operation:
    """An operation that has begun: a chat, a structured call or a turn.

    Attributes:
        span: Its span.
        context: The context of spans below it.
        metrics: The attributes that its metrics have in common with its span.
        began: When it began, in seconds.
        tools: Its tools without a result, by the ids of their calls, which a service may repeat.
        tools_run: The number of tools that have run.
        finish: The reason of the end of its last response.
        attempt: The attempt that has no event yet.
        hidden: The tools whose input is hidden.
        mask: Removes the credentials of its requests.
    """

    span: Span
    context: Context
    metrics: dict[str, Any]
    began: float = field(default_factory=monotonic)
    tools: dict[str, list[_RunningTool]] = field(default_factory=dict[str, "list[_RunningTool]"])
    tools_run: int = 0
    first_chunk: bool = False
    finish: str | None = None
    attempt: _Attempt | None = None
    hidden: frozenset[str] = frozenset()
    mask: Mask = mask_secrets


class _RunningTool(AbstractContextManager[None]):
    """A tool that runs: the context manager attaches its span to the context of the thread or task that runs it."""

    def __init__(self, span: Span, context: Context) -> None:
        self.span = span
        self.context = context
        self.ended: int | None = None  # when, in nanoseconds

    def __enter__(self) -> None:
        self._token = otel.attach(self.context)

    def __exit__(self, *exc: object) -> None:
        otel.detach(self._token)
        self.ended = time_ns()


class _Instruments:
    """The instruments of the metrics."""

    def __init__(self, meter: Meter) -> None:
        self.inference = _seconds(meter, names.INFERENCE_SECONDS, "Duration of a client's inference operation.")
        self.first_chunk = _seconds(meter, names.FIRST_CHUNK, "Time to the first chunk of a streamed response.")
        self.agent = meter.create_histogram(
            names.AGENT_SECONDS,
            "s",
            "Duration of a turn of an agent.",
            explicit_bucket_boundaries_advisory=names.AGENT_SECONDS_BUCKETS,
        )
        self.requests = _counts(meter, names.AGENT_REQUESTS, "{inference_call}", "Model requests of a turn.")
        self.tools = _counts(meter, names.AGENT_TOOLS, "{tool_call}", "Tool calls that a turn has run.")
        self.tool = _seconds(meter, names.TOOL_SECONDS, "Duration of a tool.")
        self.counters: dict[str, Counter] = {
            kind: meter.create_counter(name, "{token}", "Tokens used.") for kind, name in names.TOKEN_COUNTERS.items()
        }
        self.histograms: dict[str, Histogram] = {
            kind: meter.create_histogram(
                name,
                "{token}",
                "Tokens used by one operation.",
                explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
            )
            for kind, name in names.TOKEN_HISTOGRAMS.items()
        }

    def record(self, operation: _Operation, usage: Usage, seconds: float, failure: Mapping[str, Any]) -> None:
        """Record an inference operation that has ended."""
        attributes = operation.metrics
        self.inference.record(seconds, {**attributes, **failure})
        for kind, counter in self.counters.items():
            # An operation without tokens counts too, but not a kind of tokens that it has none of.
            if (count := getattr(usage, kind)) or kind in self.histograms:
                counter.add(count, {**attributes, names.TOKEN_MODALITY: names.UNKNOWN_MODALITY})
        for kind, histogram in self.histograms.items():
            histogram.record(getattr(usage, kind), {**attributes, **failure})


def _seconds(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=names.SECONDS_BUCKETS)


def _counts(meter: Meter, name: str, unit: str, description: str) -> Histogram:
    return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=names.COUNT_BUCKETS)


class _Thread(local):
    """The state of a thread: whether it is in a method of the hooks, and the calls that wait until that has ended."""

    busy: bool = False

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []


def _not_nested(
    method: Callable[Concatenate[TelemetryHooks, P], R],
) -> Callable[Concatenate[TelemetryHooks, P], R | None]:
    """Return `method`, which waits where it is called inside of another one.

    A stream that is garbage-collected ends its operation, and the collection may begin while the SDK has a lock.
    """

    @wraps(method)
    def call(self: TelemetryHooks, /, *args: P.args, **options: P.kwargs) -> R | None:
        thread = self.thread
        if thread.busy:
            thread.waiting.append(lambda: method(self, *args, **options))
            return None
        thread.busy = True
        try:
            result = method(self, *args, **options)
            while thread.waiting:
                thread.waiting.pop(0)()
            return result
        finally:
            thread.busy = False

    return call


class TelemetryHooks(Hooks):
    """Hooks that record spans and metrics of all operations."""

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None, capture_content: bool
    ) -> None:
        self.arguments: Final = (tracer_provider, meter_provider, capture_content)
        self._tracer = get_tracer("toolcast", version("toolcast"), tracer_provider)
        self._metrics = _Instruments(get_meter("toolcast", version("toolcast"), meter_provider))
        self._capture = capture_content
        self.thread: Final = _Thread()
        self._operations: dict[str, _Operation] = {}  # those that have begun and not ended, by their ids
        self._errors: dict[str, BaseException] = {}

    # Requests and responses.

    @_not_nested
    def request(self, call: CallInfo, request: RequestInfo) -> None:
        """Begin the span with the first request, and an attempt with each."""
        operation = self._operations.get(call.id)
        if operation is None:
            operation = self._operations[call.id] = self._begin(call, request)
        operation.finish = None
        self._end_attempt(operation)  # of a member of a `FallbackLLM` that failed: it has no `retry`
        operation.attempt = _Attempt(call.attempt, cached=call.cached)
        if call.cached:
            operation.metrics[names.CACHED] = True
        else:
            operation.metrics.pop(names.CACHED, None)
        if self._capture:
            self._capture_request(call, operation, request)

    @_not_nested
    def first_token(self, call: CallInfo, seconds: float) -> None:
        """Record the time to the first chunk, of the first attempt that has one."""
        operation = self._operations[call.id]
        if not operation.first_chunk:
            operation.first_chunk = True
            operation.span.set_attribute(names.FIRST_CHUNK_SECONDS, seconds)
            self._metrics.first_chunk.record(seconds, operation.metrics)

    @_not_nested
    def response(self, call: CallInfo, response: ChatResponse, seconds: float) -> None:
        """Record the response; of several attempts the last one counts."""
        operation = self._operations[call.id]
        operation.finish = names.FINISH.get(response.stop_reason, response.stop_reason)
        attempt = operation.attempt
        assert attempt is not None  # each response follows a request
        attempt.seconds, attempt.usage = monotonic() - attempt.began, response.usage
        for name, value in ((names.RESPONSE_ID, response.response_id), (names.RESPONSE_MODEL, response.model)):
            if value:
                operation.span.set_attribute(name, replace_surrogates(value))
        if response.model:
            operation.metrics[names.RESPONSE_MODEL] = replace_surrogates(response.model)
        if self._capture:
            text = messages_json([response.message], operation.hidden, operation.mask)
            operation.span.set_attribute(names.OUTPUT_MESSAGES, text)

    @_not_nested
    def retry(self, call: CallInfo, error: Exception, wait: float) -> None:
        """Add an event for a failed attempt, and one for its repetition."""
        operation = self._operations[call.id]
        self._end_attempt(operation, error)
        attributes: dict[str, Any] = {names.ERROR_TYPE: _error_type(error), names.RETRY_WAIT: wait}
        operation.span.add_event(names.RETRY_EVENT, attributes)

    def error(self, call: CallInfo, error: BaseException) -> None:
        """Keep the error for the end, which follows."""
        self._errors[call.id] = error

    @_not_nested
    def end(self, call: CallInfo, usage: Usage, seconds: float) -> None:
        """End the span, and record the metrics of the operation."""
        error = self._errors.pop(call.id, None)
        operation = self._operations.pop(call.id, None)
        if operation is None:
            if error is None:
                return  # no request was sent
            operation = self._begin(call, seconds=seconds)
        self._end_tools(operation)
        self._end_attempt(operation, error)
        span = operation.span
        if names.CACHED in operation.metrics:
            span.set_attribute(names.CACHED, True)
        if (cost := usage.cost) is not None:
            span.set_attribute(names.COST, float(cost))
        if usage.total_tokens:
            for kind, name in names.USAGE.items():
                if (count := getattr(usage, kind)) or kind in names.TOKEN_HISTOGRAMS:
                    span.set_attribute(name, count)
        span.set_attribute(names.FINISH_REASONS, [operation.finish or names.ABNORMAL_FINISH])
        failure = self._fail(operation, error)
        span.end()
        self._metrics.record(operation, usage, seconds, failure)

    # Tools.

    @_not_nested
    def tool_start(self, call: CallInfo, tool_call: ToolCallPart) -> AbstractContextManager[object] | None:
        """Begin the span of a tool, which is attached while the tool runs."""
        operation = self._operations.get(call.id)
        if operation is None:
            return None  # its turn was abandoned before the thread of the tool began
        tool = self._begin_tool(call, operation, tool_call)
        operation.tools.setdefault(tool_call.id, []).append(tool)
        return tool

    @_not_nested
    def tool(self, call: CallInfo, tool_call: ToolCallPart, output: HookedTool, seconds: float) -> None:
        """End the span of a tool. One that did not run, as it was denied or is invalid, has a span without a length."""
        operation = self._operations.get(call.id)
        if operation is None:
            return
        running = operation.tools.get(tool_call.id)
        ran = bool(running)
        tool = running.pop(0) if running else self._begin_tool(call, operation, tool_call)
        failure: dict[str, Any] = {}
        if output.is_error:
            failure[names.ERROR_TYPE] = "error" if output.error is None else _error_type(output.error)
            tool.span.set_status(Status(StatusCode.ERROR))
            tool.span.set_attributes(failure)
        if self._capture and tool_call.name not in operation.hidden:
            tool.span.set_attribute(names.TOOL_ARGUMENTS, replace_surrogates(operation.mask(tool_call.arguments)))
            tool.span.set_attribute(names.TOOL_RESULT, replace_surrogates(operation.mask(output.content)))
        tool.span.end(tool.ended)  # without a time it is now: an abandoned tool still runs
        if ran:
            attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: tool_call.name}
            operation.tools_run += 1
            self._metrics.tool.record(seconds, {**attributes, **failure})

    # Turns.

    @_not_nested
    def turn_start(self, call: CallInfo, messages: tuple[Message, ...]) -> None:
        """Begin the span of a turn."""
        operation = self._operations[call.id] = self._begin(call)
        if self._capture:
            operation.span.set_attribute(names.INPUT_MESSAGES, messages_json(messages, (), mask_secrets))

    @_not_nested
    def turn(self, call: CallInfo, turn: Turn[Any]) -> None:
        """End the span of a turn. Its tokens are those of the spans below it, and are not recorded again."""
        error = self._errors.pop(call.id, None)
        operation = self._operations.pop(call.id, None)
        if operation is None:
            return  # it was cancelled before it began
        self._end_tools(operation)
        operation.span.set_attributes({names.TURN_END: turn.end, names.TURN_ROUNDS: turn.rounds})
        if self._capture:
            last = [message for message in turn.messages if message.role == "assistant"][-1:]
            hidden = operation.hidden | turn.hidden_tools
            operation.span.set_attribute(names.OUTPUT_MESSAGES, messages_json(last, hidden, operation.mask))
        failure = self._fail(operation, error)
        operation.span.end()
        self._metrics.agent.record(monotonic() - operation.began, {**operation.metrics, **failure})
        self._metrics.requests.record(turn.rounds, operation.metrics)
        self._metrics.tools.record(operation.tools_run, operation.metrics)

    # Parts.

    def _begin(self, call: CallInfo, request: RequestInfo | None = None, seconds: float | None = None) -> _Operation:
        """Begin the span of an operation: now, or `seconds` ago."""
        attributes: dict[str, Any] = {names.OPERATION: names.INVOKE_AGENT, names.REQUEST_MODEL: call.model}
        kind, name = SpanKind.INTERNAL, names.INVOKE_AGENT
        if call.operation != "turn":
            provider = names.PROVIDERS.get(call.provider, call.provider)
            attributes |= {names.OPERATION: names.CHAT, names.PROVIDER: provider, **_server(request)}
            kind, name = SpanKind.CLIENT, f"{names.CHAT} {call.model}"
        more = {} if request is None else _settings(request.settings, stream=request.stream)
        if call.session:
            more[names.CONVERSATION] = replace_surrogates(call.session)
        if call.operation == "structured":
            more[names.OUTPUT_TYPE] = "json"
        parent = self._parent(call)
        span = self._tracer.start_span(
            name,
            parent,
            kind,
            {**attributes, **more},
            start_time=None if seconds is None else time_ns() - int(seconds * 1e9),
        )
        return _Operation(span, set_span_in_context(span, parent), attributes)

    def _begin_tool(self, call: CallInfo, operation: _Operation, tool_call: ToolCallPart) -> _RunningTool:
        name = replace_surrogates(tool_call.name)[:_NAME]
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: name,
            names.TOOL_CALL_ID: replace_surrogates(tool_call.id),
            names.TOOL_TYPE: names.FUNCTION,
        }
        title = f"{names.EXECUTE_TOOL} {name}"
        span = self._tracer.start_span(title, operation.context, SpanKind.INTERNAL, attributes)
        # The context of the caller with the tool's span: what else is in it stays visible to the tool.
        context = set_span_in_context(span, otel.get_current())
        return _RunningTool(span, otel.set_value(_PART_OF, f"{call.id}/{tool_call.id}", context))

    def _parent(self, call: CallInfo) -> Context:
        """Return the context of the operation or tool that `call` is part of; else the current one."""
        here = otel.get_current()
        # The current context is that of the tool, or of a span that the tool's own code has begun.
        if call.parent is None or otel.get_value(_PART_OF, here) == call.parent:
            return here
        id, _, tool_id = call.parent.partition("/")
        operation = self._operations.get(id)
        if operation is None:
            return here
        running = operation.tools.get(tool_id)
        return running[-1].context if running else operation.context

    def _capture_request(self, call: CallInfo, operation: _Operation, request: RequestInfo) -> None:
        turn = None if call.parent is None else self._operations.get(call.parent)
        for each in (operation, turn):
            if each is not None:
                each.hidden |= request.hidden_tools
                each.mask = request.mask
        text = messages_json(request.messages, operation.hidden, operation.mask)
        operation.span.set_attribute(names.INPUT_MESSAGES, text)
        if request.tools or request.server_tools:
            tools = definitions_json(request.tools, operation.mask, request.server_tools)
            operation.span.set_attribute(names.TOOL_DEFINITIONS, tools)

    def _fail(self, operation: _Operation, error: BaseException | None) -> dict[str, Any]:
        """Set the error on the span; return the attribute for the metrics, which has none without an error."""
        if error is None:
            return {}
        failure = {names.ERROR_TYPE: _error_type(error)}
        operation.span.set_attributes(failure)
        operation.span.set_status(Status(StatusCode.ERROR, self._error_text(operation, error)))
        return failure

    def _error_text(self, operation: _Operation, error: BaseException) -> str | None:
        """Return the text of an error without credentials; None where content is not recorded or is hidden."""
        # The text of an error may quote what the model wrote.
        shown = self._capture and not operation.hidden
        return replace_surrogates(operation.mask(str(error))) if shown else None

    def _end_attempt(self, operation: _Operation, error: BaseException | None = None) -> None:
        """Add the event of the present attempt, which ended with `error` or is complete."""
        attempt, operation.attempt = operation.attempt, None
        if attempt is None:
            return
        seconds = monotonic() - attempt.began if attempt.seconds is None else attempt.seconds
        found: dict[str, Any] = {names.ATTEMPT_NUMBER: attempt.number, names.ATTEMPT_SECONDS: seconds}
        for kind in names.TOKEN_HISTOGRAMS if attempt.usage.total_tokens else ():
            found[names.USAGE[kind]] = getattr(attempt.usage, kind)
        if attempt.cached:
            found[names.CACHED] = True
        if error is not None:
            found[names.ERROR_TYPE] = _error_type(error)
            if isinstance(error, LLMError) and error.status is not None:
                found[names.STATUS_CODE] = error.status
            if (text := self._error_text(operation, error)) is not None:
                found[names.ATTEMPT_ERROR] = text[:_ERROR]
        operation.span.add_event(names.ATTEMPT_EVENT, found, attempt.time)

    def _end_tools(self, operation: _Operation) -> None:
        """End the spans of tools without a result: the program was interrupted."""
        for running in tuple(operation.tools.values()):
            for tool in running:
                tool.span.end(tool.ended)


def _server(request: RequestInfo | None) -> dict[str, Any]:
    """Return the attributes of the server of a request."""
    url = None if request is None else request.url
    if url is None:
        return {}
    parts = urlsplit(url)
    return {
        names.SERVER_ADDRESS: parts.hostname or "",
        names.SERVER_PORT: parts.port or (80 if parts.scheme == "http" else 443),
    }


def _settings(settings: Settings, *, stream: bool) -> dict[str, Any]:
    """Return the attributes of a request's settings, those that are set."""
    found: dict[str, Any] = {name: getattr(settings, key) for key, name in names.SETTINGS.items()}
    if isinstance(settings.thinking, str):
        found[names.REASONING_LEVEL] = settings.thinking
    if stream:
        found[names.REQUEST_STREAM] = True
    return {name: value for name, value in found.items() if value is not None}


def _error_type(error: BaseException) -> str:
    """Return the name of an error's class: toolcast's own and Python's by itself, others with their module."""
    kind = type(error)
    own = kind.__module__ == "builtins" or kind.__module__.partition(".")[0] == "toolcast"
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
