"""`ToolOrchestratingLLM`: typed objects from an LLM, a prompt and an output type.

Everything that calls share (tools, schema, template) is prepared once; a call only fills in the prompt. An instance has
no state of a call, so it can be used from any number of threads and tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, cast, get_origin, overload

from typing_extensions import TypeForm, Unpack

from ..async_support import sync_driver
from ..errors import PromptError
from ..events import ChatResponse
from ..lazy.lazy_dataclasses import dataclass
from ..llms.call_state import CallState
from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.named_llms import LATER, chosen_llm, found_llm
from ..llms.request import ChatRequest, resolve_tool_choice
from ..messages import Message, ToolCallPart
from ..prompts import ChatPromptTemplate, PromptTemplate, as_prompt, input_values
from ..tools.callable_tool import CallableTool, output_tools
from ..values.accumulator import Accumulator
from ..values.hooks import Hooks, as_hooks
from ..values.http_request import HTTPRequest
from ..values.option_suggestions import refuse_attributes, refuse_unknown
from ..values.option_types import require, require_callable, require_flag, require_optional
from ..values.output_mode import OutputMode
from ..values.server_tools import ServerTool, split_tools
from ..values.settings import Settings
from ..values.states import CALL, ORCHESTRATOR, STREAM, Observer, Table, Trace, notify
from ..values.tool_spec import ToolChoice
from .call import PreparedCall, Result, run_call, run_parsed_calls
from .response_validation import ResponseValidator

if TYPE_CHECKING:
    from ..batch.inputs import Inputs
    from ..batch.job_options import JobOptions
    from ..batch.outcome_iterators import AsyncOutcomes, Outcomes
    from .object_streams import AsyncObjectStream, ObjectStream

T = TypeVar("T")
S = TypeVar("S")

Prompt = str | PromptTemplate | ChatPromptTemplate | Sequence[Any]


class OrchestratorOptions(TypedDict, total=False):
    """Options of `ToolOrchestratingLLM`.

    Attributes:
        tool_choice: The tool that the model has to call; by default the only one, or any where there are several.
        verbose: Write an account of each call to stderr. Default: False.
        max_attempts: The number of answers that are requested until one is valid. Default: 1.
        settings: Settings that take precedence over those of the LLM.
        observer: A function that is called with the id of a call and each of its states.
        mode: The output mode; by default the LLM chooses it.
        hooks: Hooks of its calls.
        validation_context: The context of Pydantic's validators.
        fail_fast: End a stream once its output cannot become valid any more. Default: True.
        tools: Tools that the provider runs before the model gives its output, such as `WebSearch()`.
    """

    tool_choice: ToolChoice
    verbose: bool
    max_attempts: int
    settings: Settings | None
    observer: Observer | None
    mode: OutputMode | None
    hooks: Sequence[Hooks] | Hooks | None
    validation_context: Any
    fail_fast: bool
    tools: Sequence[ServerTool]


class Changes(OrchestratorOptions, total=False):
    """The options that `ToolOrchestratingLLM.with_` can change."""

    prompt: Prompt
    llm: FunctionCallingLLM | str
    allow_parallel_tool_calls: bool
    accept_damaged: bool


@dataclass(frozen=True, slots=True)
class CallConfig:
    """The options of a call, by their names in the constructor and in `with_`, which are checked alike."""

    prompt: PromptTemplate | ChatPromptTemplate
    llm: FunctionCallingLLM
    allow_parallel_tool_calls: bool = False
    tool_choice: ToolChoice = None
    verbose: bool = False
    max_attempts: int = 1
    settings: Settings | None = None
    observer: Observer | None = None
    mode: OutputMode | None = None
    hooks: tuple[Hooks, ...] = ()
    validation_context: Any = None
    fail_fast: bool = True
    accept_damaged: bool = False
    tools: tuple[ServerTool, ...] = ()

    def __post_init__(self) -> None:
        for name in ("verbose", "allow_parallel_tool_calls", "fail_fast", "accept_damaged"):
            require_flag(name, getattr(self, name))
        require_optional("tool_choice", self.tool_choice, (str, Mapping), "str, a mapping")
        require_optional("settings", self.settings, Settings, "Settings")
        if self.observer is not None:
            require_callable("observer", self.observer, "a function of (call_id, state), or None")
        object.__setattr__(self, "hooks", as_hooks(self.hooks))
        object.__setattr__(self, "tools", _only_server_tools(self.tools))
        object.__setattr__(self, "llm", chosen_llm(self.llm))
        client_of(self.llm).check_mode(self.mode)
        object.__setattr__(self, "prompt", as_prompt(self.prompt))
        require("max_attempts", self.max_attempts, int, "int")
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts={self.max_attempts} must be at least 1")


@dataclass(frozen=True, slots=True)
class Preview:
    """The request that a call would send.

    Attributes:
        messages: The messages.
        tools: JSON Schemas by tool name.
        mode: The output mode: tool calls, the service's JSON Schema output, or the prompt.
        request: The HTTP request; None for an LLM without HTTP.
        notes: Settings that the service does not support and that are not sent.
        family: The row of the table of models that decided what the model takes; None without one.
    """

    messages: tuple[Message, ...]
    tools: Mapping[str, Mapping[str, Any]]
    mode: str
    request: HTTPRequest | None
    notes: tuple[str, ...] = ()
    family: str | None = None

    @property
    def body(self) -> Any:
        """The JSON body of the request, decoded, without the credentials in it."""
        return None if self.request is None else json.loads(self.request.mask(self.request.body.decode()))


@refuse_attributes("ToolOrchestratingLLM")
class ToolOrchestratingLLM(Generic[T]):
    """Typed objects from prompts: call it, await `acall`, or stream.

    Args:
        output_cls: A Pydantic model, another type that Pydantic can validate, a union (one tool per member model), or
            a function, whose signature is the schema and whose return value is the result.
        prompt: Text or messages with `{name}` variables, filled by the keyword arguments of a call.
        llm: An LLM, its name, or None for `Configs.llm`; `LATER` for the LLM that is found at each call.
        allow_parallel_tool_calls: Return a list with one object for each tool call.

    Options:
        tool_choice: The name of a tool, `"auto"`, `"required"`, `"none"`; None: the only tool, or one of several.
        verbose: Print a report of each call to stderr.
        max_attempts: Answers that are validated per call; later requests contain the validation errors. The retries of
            failed HTTP requests come on top.
        settings: Settings that take precedence over those of the LLM.
        observer: A function of `(call_id, state)`.
        mode: How the model is made to follow the schema: `"tool_call"`, `"json_schema"` (the service's own schema
            output) or `"prompted"` (in the prompt, for models that have neither); None: the best of the model.
        hooks: Hooks of its calls, an instance of a subclass of `Hooks` or several.
        validation_context: A value that Pydantic's validators find in `info.context`.
        fail_fast: End a stream with the error once its output cannot become valid any more; False: read an invalid
            response to its end, as mode="prompted" and `CodeExecution` always do. Default: True.
        tools: Tools that the provider runs, such as `[WebSearch()]`: the model is free to use them first. If it then
            answers without the output, this is requested once more, which takes no attempt.
    """

    _state: str = next(iter(ORCHESTRATOR))

    @overload
    def __init__(
        self: ToolOrchestratingLLM[list[S]],
        output_cls: TypeForm[S],
        prompt: Prompt,
        llm: FunctionCallingLLM | str | None = None,
        *,
        allow_parallel_tool_calls: Literal[True],
        **options: Unpack[OrchestratorOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        output_cls: TypeForm[T],
        prompt: Prompt,
        llm: FunctionCallingLLM | str | None = None,
        *,
        allow_parallel_tool_calls: Literal[False] = False,
        **options: Unpack[OrchestratorOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        output_cls: Callable[..., Awaitable[T]],
        prompt: Prompt,
        llm: FunctionCallingLLM | str | None = None,
        *,
        allow_parallel_tool_calls: bool = False,
        **options: Unpack[OrchestratorOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        output_cls: Callable[..., T],
        prompt: Prompt,
        llm: FunctionCallingLLM | str | None = None,
        *,
        allow_parallel_tool_calls: bool = False,
        **options: Unpack[OrchestratorOptions],
    ) -> None: ...
    def __init__(
        self,
        output_cls: Any = ...,  # `...`: missing, after the check of names that may stand for it
        prompt: Any = ...,
        llm: FunctionCallingLLM | str | None = None,
        *,
        allow_parallel_tool_calls: bool = False,
        **options: Unpack[OrchestratorOptions],
    ) -> None:
        refuse_unknown("ToolOrchestratingLLM", options, _OPTIONS)
        missing = [name for name, value in (("output_cls", output_cls), ("prompt", prompt)) if value is ...]
        if missing:
            raise TypeError(
                f"ToolOrchestratingLLM() needs {' and '.join(missing)}: ToolOrchestratingLLM(Album, 'text')"
            )
        with self._lifecycle("init_called", "validated", options.get("observer")):
            given: dict[str, Any] = {**options, "prompt": prompt, "llm": llm}
            self._config = CallConfig(allow_parallel_tool_calls=allow_parallel_tool_calls, **given)
            self._output_cls = output_cls
            self._tools = output_tools(output_cls)
            self._by_name = {tool.name: tool for tool in self._tools}
            self._configure()

    def __repr__(self) -> str:
        made = vars(self)  # a traceback may show an instance whose constructor has failed
        config = made.get("_config")
        prompt = getattr(config, "prompt", None)
        prompt = getattr(prompt, "template", prompt)
        shown = {"prompt": _shorten(repr(prompt), 80), "llm": repr(getattr(config, "llm", None))}
        parallel = ", allow_parallel_tool_calls=True" if getattr(config, "allow_parallel_tool_calls", False) else ""
        options = ", ".join([f"{name}={value}" for name, value in shown.items()])
        return f"ToolOrchestratingLLM({_type_name(made.get('_output_cls'))}, {options}{parallel})"

    @property
    def state(self) -> str:
        """The state of the object itself: `uninitialized`, `validating`, `ready`, `updating_prompt` or `error`.

        It is also `ready` during calls. The states of a call go to the `observer` and to `stream.state`.
        """
        return self._state

    @property
    def output_cls(self) -> Any:
        """The output type that was passed."""
        return self._output_cls

    @property
    def llm(self) -> FunctionCallingLLM:
        """The LLM; for `LATER` the one that it stands for here."""
        given = self._config.llm
        llm = found_llm(given)
        if llm is not given:
            client_of(llm).check_mode(self._config.mode)
        return llm

    @property
    def allow_parallel_tool_calls(self) -> bool:
        """True if the output is a list with one object per tool call."""
        return self._config.allow_parallel_tool_calls

    @property
    def tool_choice(self) -> ToolChoice:
        """The tool choice that was passed."""
        return self._config.tool_choice

    @property
    def tools(self) -> tuple[CallableTool, ...]:
        """The tools that the output type is offered as: one per member of a union of models, otherwise one."""
        return self._tools

    @property
    def server_tools(self) -> tuple[ServerTool, ...]:
        """The tools that the provider runs."""
        return self._config.tools

    @property
    def settings(self) -> Settings | None:
        """The settings that were passed."""
        return self._config.settings

    @property
    def mode(self) -> OutputMode | None:
        """The output mode that was passed."""
        return self._config.mode

    @property
    def validation_context(self) -> Any:
        """The context of Pydantic's validators that was passed."""
        return self._config.validation_context

    @property
    def verbose(self) -> bool:
        """True if a report of each call is printed to stderr."""
        return self._config.verbose

    @property
    def prompt(self) -> PromptTemplate | ChatPromptTemplate:
        """The prompt. An assigned one is checked first; calls in progress keep theirs."""
        return self._config.prompt

    @prompt.setter
    def prompt(self, prompt: Prompt) -> None:
        with _prompt_lock, self._lifecycle("prompt_set", "prompt_updated", self._config.observer):
            self._config = replace(self._config, prompt=as_prompt(prompt))

    @overload
    def __call__(self, value: Any = ..., /, *, stream: Literal[False] = False, **values: Any) -> T: ...
    @overload
    def __call__(self, value: Any = ..., /, *, stream: Literal[True], **values: Any) -> ObjectStream[T]: ...
    def __call__(self, /, *value: Any, stream: bool = False, **values: Any) -> T | ObjectStream[T]:
        """Return the validated output, or with `stream=True` a stream of it. `values` fill the prompt's variables.

        The value of a prompt with one variable can be positional, in all methods: `call("text")`.
        """
        return self.stream(*value, **values) if stream else self.run(*value, **values).output

    @overload
    async def acall(self, value: Any = ..., /, *, stream: Literal[False] = False, **values: Any) -> T: ...
    @overload
    async def acall(self, value: Any = ..., /, *, stream: Literal[True], **values: Any) -> AsyncObjectStream[T]: ...
    async def acall(self, /, *value: Any, stream: bool = False, **values: Any) -> T | AsyncObjectStream[T]:
        """Return the validated output, or with `stream=True` a stream of it. See `__call__`."""
        return self.astream(*value, **values) if stream else (await self._run_call(value, values)).output

    def run(self, *value: Any, **values: Any) -> Result[T]:
        """Make one call; return its output with response, usage, attempts and repairs."""
        if value:
            values = self._with_positional(value, values)
        call = self._begin(CALL)
        prepared = self._prepare(values, call.trace)
        return sync_driver.run(run_call(prepared, prepared.client.sync_backend(), call))

    async def arun(self, *value: Any, **values: Any) -> Result[T]:
        """Make one call; return its output with response, usage, attempts and repairs."""
        return await self._run_call(value, values)

    def stream(self, *value: Any, **values: Any) -> ObjectStream[T]:
        """Return a stream of partial outputs. The request is sent when the first item is read."""
        from .object_streams import ObjectStream  # streams and partial objects: a third of the start-up of a call
        from .stream import StructuredStream

        if value:
            values = self._with_positional(value, values)
        call = self._begin(STREAM)
        prepared = self._prepare(values, call.trace, stream=True)
        return ObjectStream(StructuredStream(prepared, prepared.client.sync_backend(), call))

    def astream(self, *value: Any, **values: Any) -> AsyncObjectStream[T]:
        """Return a stream of partial outputs for `async for`. The request is sent when the first item is read."""
        from .object_streams import AsyncObjectStream  # as in `stream`
        from .stream import StructuredStream

        if value:
            values = self._with_positional(value, values)
        call = self._begin(STREAM)
        prepared = self._prepare(values, call.trace, stream=True)
        return AsyncObjectStream(StructuredStream(prepared, prepared.client.async_backend(), call))

    def map(self, inputs: Inputs, **options: Unpack[JobOptions]) -> Outcomes[T]:
        """Make one call for each input, many at once; return an iterator over their outcomes.

        Args:
            inputs: An iterable of mappings, dataclasses, Pydantic models or single values, a DataFrame, or the path of
                a file. Read as needed: neither the inputs nor the outcomes are all in memory.
            **options: Options of the job.

        Returns:
            An iterator of `Outcome`, also a context manager that aborts what runs.
        """
        from ..batch.job import Job

        return Job(self, inputs, **options).run()

    def amap(self, inputs: Inputs, **options: Unpack[JobOptions]) -> AsyncOutcomes[T]:
        """Make one call for each input, many at once; return an async iterator over their outcomes.

        Args:
            inputs: As for `map`, or an async iterable.
            **options: Options of the job.

        Returns:
            An async iterator of `Outcome`, also an async context manager that cancels what runs.
        """
        from ..batch.job import Job

        return Job(self, inputs, **options).arun()

    def with_(self, **changes: Unpack[Changes]) -> ToolOrchestratingLLM[T]:
        """Return a changed copy.

        Args:
            **changes: Parameters of the constructor, and `accept_damaged=True` (accept a response with a damaged event,
                if the rest validates).
        """
        given: dict[str, Any] = {**changes}
        refuse_unknown("with_", given, _CHANGES)
        other = copy(self)
        del other._state
        with other._lifecycle("init_called", "validated", given.get("observer", self._config.observer)):
            other._config = replace(self._config, **given)
            other._configure()
        return other

    def with_found_llm(self) -> ToolOrchestratingLLM[T]:
        """Return this call with the LLM that `LATER` stands for here."""
        return self.with_(llm=self.llm) if self._config.llm is LATER else self

    def preview(self, *value: Any, **values: Any) -> Preview:
        """Return the request that a call with these values would send, without sending it."""
        if value:
            values = self._with_positional(value, values)
        prepared = self._prepare(values, Trace(CALL, self._config.observer))
        request = prepared.client.preview(prepared.request)
        return Preview(
            prepared.request.messages,
            {tool.name: tool.parameters for tool in prepared.request.tools},
            prepared.client.mode(prepared.request),
            request,
            request.notes if request is not None else (),
            prepared.client.llm.metadata.family,
        )

    def request(self, *value: Any, **values: Any) -> HTTPRequest:
        """Return the HTTP request of one call, to send it yourself; `parse` decodes the response."""
        if value:
            values = self._with_positional(value, values)
        prepared = self._prepare(values, Trace(CALL, self._config.observer))
        request = prepared.client.preview(prepared.request)
        if request is None:
            raise TypeError(f"{type(prepared.client.llm).__name__} makes no HTTP requests of its own")
        return request

    def parse(self, response: bytes | bytearray | memoryview | str | Mapping[str, Any] | ChatResponse) -> T:
        """Return the output in a response that you fetched yourself: a body, its JSON, or a `ChatResponse`."""
        backend = client_of(self.llm).sync_backend()
        if not isinstance(response, ChatResponse):
            response = self._decoded(response)
        calls = self._validator.validate(response)
        values = sync_driver.run(run_parsed_calls(calls, backend))
        output: Any = list(values) if self._config.allow_parallel_tool_calls else values[0]
        return cast("T", output)

    def as_tool(self, name: str | None = None, description: str | None = None) -> CallableTool:
        """Return this call as a tool for a model; its arguments are the variables of the prompt."""
        return CallableTool.from_call(self, self._config.prompt.variables, name, description, self._tools[0])

    @contextmanager
    def _lifecycle(self, begin: str, end: str, observer: Observer | None) -> Generator[None]:
        """Apply the event `begin` to the state table `ORCHESTRATOR`, and then `end` or `failed`."""
        self._enter(begin, observer)
        try:
            yield
        except BaseException:
            self._enter("failed", observer)
            raise
        self._enter(end, observer)

    def _enter(self, event: str, observer: Observer | None) -> None:
        self._state = ORCHESTRATOR[self._state][event]
        if callable(observer):  # it is not checked yet where the state is `validating`
            notify(observer, "orchestrator", self._state)

    # Preparing a call

    def _with_positional(self, given: tuple[Any, ...], values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a call with positional ones, of which a prompt with one variable takes one."""
        variables = self._config.prompt.variables
        if len(given) == len(variables) == 1 and variables[0] not in values:
            return {**values, **input_values(given[0], variables)}
        if not variables:
            raise TypeError("the prompt has no variables: call it without a value")
        wanted = ", ".join(f"{name}=..." for name in variables)
        if len(variables) == 1:
            raise TypeError(f"got two values for {variables[0]!r}: pass one, as call('text') or call({wanted})")
        raise TypeError(f"the prompt has {len(variables)} variables, and a positional value is for one: call({wanted})")

    def _run_call(self, value: tuple[Any, ...], values: dict[str, Any]) -> Coroutine[Any, Any, Result[T]]:
        """Return the coroutine of one call under an event loop."""
        if value:
            values = self._with_positional(value, values)
        call = self._begin(CALL)
        prepared = self._prepare(values, call.trace)
        return run_call(prepared, prepared.client.async_backend(), call)

    def _begin(self, states: Table) -> CallState:
        """Return the state of a call, with the trace and the hooks of one that begins now."""
        trace = Trace(states, self._config.observer)
        hooks = (self._client or client_of(self.llm)).begin_operation(
            "structured", self._config.hooks, id=trace.call_id, name=self._name
        )
        if hooks is not None:
            hooks.observe_states(trace)
        return CallState(hooks, trace)

    def _prepare(self, values: Mapping[str, Any], trace: Trace, *, stream: bool = False) -> PreparedCall:
        config = self._config
        trace.step("called", "tool_created")
        try:
            messages = config.prompt.fill(values, self._as_calls)
        except PromptError:
            trace.step("failed")
            _refuse_options(values, config.prompt.variables)
            raise
        client = self._client or client_of(self.llm)
        request = ChatRequest(
            client.with_system_prompt(messages),
            self._tools,
            self._choice,
            client.merge_settings(config.settings),
            config.allow_parallel_tool_calls,
            stream,
            config.mode,
            config.accept_damaged,
            config.tools,
            # An explicit choice is the caller's.
            forces_now=bool(config.tools) and config.tool_choice is not None,
        )
        trace.step("prompt_formatted", "messages_extended")
        return PreparedCall(client, request, self._validator, config.max_attempts, config.fail_fast, config.verbose)

    def _configure(self) -> None:
        """Compute once everything that all calls share."""
        config, choice = self._config, self._config.tool_choice
        self._client = None if config.llm is LATER else client_of(config.llm)
        if choice is None:
            choice = self._tools[0].name if len(self._tools) == 1 else "required"
        self._choice = resolve_tool_choice(choice, list(self._by_name))
        self._name = ", ".join(self._by_name)
        self._validator = ResponseValidator(self._by_name, config.allow_parallel_tool_calls, config.validation_context)

    def _as_calls(self, value: object) -> list[ToolCallPart]:
        """Return a few-shot object as the tool calls that a model would make, with parallel calls one per item."""
        if self._config.allow_parallel_tool_calls and isinstance(value, (list, tuple)):
            return [self._as_call(item) for item in cast("Sequence[object]", value)]
        return [self._as_call(value)]

    def _as_call(self, value: object) -> ToolCallPart:
        for tool in self._tools:
            arguments = tool.arguments_for(value)
            if arguments is not None:
                return ToolCallPart("", tool.name, arguments)
        raise PromptError(f"an example of type {type(value).__name__} does not fit the output type")

    def _decoded(self, body: bytes | bytearray | memoryview | str | Mapping[str, Any]) -> ChatResponse:
        if isinstance(body, (bytes, bytearray, memoryview)):
            raw = bytes(body)
        else:
            raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        client, config = self._client or client_of(self.llm), self._config
        request = ChatRequest(
            (),
            self._tools,
            self._choice,
            client.merge_settings(config.settings),
            config.allow_parallel_tool_calls,
            mode=config.mode,
            accept_damaged=config.accept_damaged,
            server_tools=config.tools,
        )
        decoder = client.decoder(request, raw)
        accumulator = Accumulator()
        accumulator.extend([*decoder.feed(raw), *decoder.close()])
        return accumulator.response(**client.origin)


def begin_call(make: ToolOrchestratingLLM[Any], values: Mapping[str, Any]) -> tuple[PreparedCall, CallState]:
    """Return one call of `make` that begins now, and its state, for `run_call`."""
    call = make._begin(CALL)  # pyright: ignore[reportPrivateUsage] - the class of this module
    return make._prepare(values, call.trace), call  # pyright: ignore[reportPrivateUsage] - as above


def prepare_call(make: ToolOrchestratingLLM[Any], values: Mapping[str, Any]) -> PreparedCall:
    """Return one call of `make` for a request that a batch of the provider makes: without hooks and observers."""
    return make._prepare(values, Trace(CALL))  # pyright: ignore[reportPrivateUsage] - the class of this module


def _refuse_options(values: Mapping[str, Any], variables: Sequence[str]) -> None:
    """Raise `PromptError` if an option was passed to a call, which takes only values of variables."""
    for name in values:
        if name in variables:
            continue
        if name in _CHANGES:
            way = f"with_({name}=...)"
        elif name in _SETTINGS:
            way = f"with_(settings=Settings({name}=...))"
        else:
            continue
        raise PromptError(
            f"no variable of the prompt is named {name!r}, which is an option: make a copy that has it with {way}, "
            "and call that"
        ) from None


def _type_name(output_cls: Any) -> str:
    """Return the name of an output type, for example `list[Song]`."""
    if get_origin(output_cls) is None and hasattr(output_cls, "__name__"):
        return str(output_cls.__name__)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", repr(output_cls))


def _shorten(text: str, length: int) -> str:
    """Return `text`, with its middle left out if it is longer."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}...{text[-half:]}"


def _only_server_tools(tools: Iterable[Any]) -> tuple[ServerTool, ...]:
    """Return the tools that the provider runs; raise `TypeError` for any other."""
    own, found, points = split_tools(tools)
    if points:
        raise TypeError("tools: a CachePoint stands in the prompt of a typed call, not among its tools")
    if own:
        raise TypeError(
            f"tools: expected tools that the provider runs, such as WebSearch(), got {own[0]!r:.100}. An Engine runs "
            "functions: Engine(llm, tools).submit(..., output_cls=...)"
        )
    return found


_CHANGES = tuple(field.name for field in fields(CallConfig))
_OPTIONS = ("output_cls", "prompt", "llm", "allow_parallel_tool_calls", *OrchestratorOptions.__annotations__)
_prompt_lock = RLock()
"""Serializes the replacement of prompts between threads."""
_SETTINGS = frozenset(field.name for field in fields(Settings))
