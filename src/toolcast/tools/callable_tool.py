"""`CallableTool`: a type or a function that a model can call.

A tool has a `spec` for the service, a parser for the arguments (`read`, validated once), and an execution (`run`,
`arun`): nothing for an output type, whose arguments are the result, and one call for a function. Sync and async
functions work from both APIs. From the sync API an async function runs in a thread with its own event loop; from the
async API a sync function runs in a worker thread. Context variables are copied in both cases. A cancelled caller waits
until the thread has returned, unless it passed a `ToolContext`, through which the function is notified. The text of the
result is made where the function ran, because that may take time too: iterators are consumed there, and their items are
the result.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import field, replace
from functools import partial
from types import FunctionType
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import pydantic
from pydantic_core import SchemaValidator, core_schema
from typing_extensions import Unpack

from ..async_support.callbacks import is_async
from ..async_support.exception_groups import collapse_groups
from ..async_support.thread_bridge import await_in_thread, run_in_thread
from ..errors import OutputTypeError, ValidationError
from ..lazy.lazy_dataclasses import dataclass
from ..messages import ImagePart, ToolResultPart
from ..parsing import tool_arguments as parsing
from ..text.json_text import json_text
from ..values.option_suggestions import refuse_unknown
from ..values.tool_spec import ToolSpec, legal_name
from .function_schema import BoundCall, Signature, name_of_function, signature_of
from .output_schema import ALLOWED, Schema, description_of, is_type_form, name_of, output_schema, union_members
from .tool_context import ToolContext
from .tool_options import NeedsApproval, ToolChanges, ToolErrors, check, path_arguments
from .tool_results import acollect_items, argument_errors, collect_items, is_quick, split_images, text_of, truncate

Function = Callable[..., Any]
Fill: TypeAlias = Callable[[BoundCall, ToolContext[Any]], BoundCall]
Then: TypeAlias = Callable[[Any], Any]
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
D = TypeVar("D")
D_contra = TypeVar("D_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

_OPTIONS: Final = "__toolcast_tool__"
"""The attribute of a function with the options that `tool` declares."""


def _unchanged(result: Any) -> Any:
    return result


class ParsedArguments(NamedTuple):
    """Parsed arguments: the validated `value`, and the repairs that it needed."""

    value: Any
    repairs: tuple[str, ...] = ()


class ToolInvocation(NamedTuple):
    """One call of a tool with parsed arguments: the raw `arguments`, the `limit` of the result's characters."""

    arguments: str | Mapping[str, Any]
    read: ParsedArguments
    limit: int | None = None
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of one tool call: `content` is text for the model, `raw_output` the returned object.

    A function may return one itself, to choose its text, to show `images`, or to report a failure. If the call failed,
    `is_error` is True, `content` has the reason, and `error` is the exception.
    """

    content: str
    tool_name: str
    raw_input: str | Mapping[str, Any] = "{}"
    raw_output: Any = None
    is_error: bool = False
    call_id: str = ""
    repairs: tuple[str, ...] = ()
    error: Exception | None = field(default=None, compare=False)
    images: tuple[ImagePart, ...] = ()

    def part(self) -> ToolResultPart:
        """Return the message part that answers the call."""
        return ToolResultPart(self.call_id, self.content, self.tool_name, self.is_error, self.images)


class ArgumentReader(Protocol):
    """The parser of a tool's arguments."""

    @property
    def hides_input(self) -> bool:
        """True if the arguments must stay out of errors."""
        ...

    def read(self, text: str, context: Any) -> tuple[Any, tuple[str, ...]]:
        """Return the value of the arguments `text`, and its repairs. Raise Pydantic's `ValidationError`."""
        ...

    def dump(self, value: Any) -> str:
        """Return the arguments that parse to `value`. Raise Pydantic's `ValidationError`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CallableTool:
    """A tool that a model can call, made by `from_model`, `from_type`, `from_function` or `as_tool`.

    Attributes:
        name: The name, unique in a request.
        description: The description for the model.
        parameters: The JSON Schema of the arguments.
        output_type: The type that the arguments make; None for a function.
        wrapped: True if the arguments have the value under the key `value`.
        path_parameters: The arguments that are file paths, including those found in the schema.
        fill: Puts a `ToolContext` into the arguments of the function.
        deps_type: The type of the dependencies that the function requires, `Shop` of a `ToolContext[Shop]`; None if it
            works without any.
        try_output: In a turn with output validators, a function that returns the output which the arguments make, as
            text, or raises what refuses them; None elsewhere.
        spec: The tool as it is sent to a service.

    The other attributes are those of `ToolChanges`.
    """

    name: str
    description: str
    parameters: Schema = field(repr=False)
    source: ArgumentReader = field(repr=False)
    function: Function | None = field(default=None, repr=False)
    async_function: Function | None = field(default=None, repr=False)
    output_type: Any = None
    wrapped: bool = False
    fill: Fill | None = field(default=None, repr=False)
    read_only: bool = field(default=False, repr=False)
    destructive: bool = field(default=False, repr=False)
    idempotent: bool = field(default=False, repr=False)
    parallel: bool | None = field(default=None, repr=False)
    timeout: float | None = field(default=None, repr=False)
    output_limit: int | None = field(default=None, repr=False)
    path_parameters: frozenset[str] = field(default=frozenset(), repr=False)
    tool_errors: ToolErrors | None = field(default=None, repr=False)
    approval: NeedsApproval | None = field(default=None, repr=False)
    retries: int | None = field(default=None, repr=False)
    deps_type: Any = field(default=None, repr=False)
    try_output: Callable[[str], Awaitable[Any]] | None = field(default=None, repr=False)
    spec: ToolSpec = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", ToolSpec(self.name, self.description, self.parameters))
        object.__setattr__(self, "path_parameters", path_arguments(self.parameters).union(self.path_parameters))
        check(self)

    @classmethod
    def from_model(cls, model: Any, name: str | None = None, description: str | None = None) -> CallableTool:
        """Return a tool whose arguments make an instance of `model`: a Pydantic model, dataclass or TypedDict."""
        return cls.from_type(model, name, description)

    @classmethod
    def from_type(cls, type_form: Any, name: str | None = None, description: str | None = None) -> CallableTool:
        """Return a tool whose arguments make a value of `type_form`.

        The name is that of the type, the description its docstring or `Create an instance of ...`.

        Raises:
            OutputTypeError: If a model cannot write the type as JSON.
        """
        schema = output_schema(type_form)
        name = name or name_of(schema.type_form)
        description_ = description or description_of(type_form) or f"Create an instance of {name}."
        return cls(name, description_, schema.parameters, schema, output_type=schema.type_form, wrapped=schema.wrapped)

    @classmethod
    def from_function(cls, function: Function, name: str | None = None, description: str | None = None) -> CallableTool:
        """Return a tool that calls `function`: sync or async, a method, `partial`, lambda or callable object.

        The schema comes from the signature: annotations, `Annotated[..., Field(...)]`, defaults, and the descriptions
        of the parameters in the docstring.

        Raises:
            OutputTypeError: If the signature cannot be expressed as JSON Schema.
        """
        if not callable(function):
            raise OutputTypeError(f"{function!r:.100} cannot be called, so it is no tool")
        signature = signature_of(function)
        options: dict[str, Any] = {**getattr(function, _OPTIONS, {})}
        names = name, options.pop("name", None), legal_name(name_of_function(function))
        name = next(filter(None, names))
        texts = description, options.pop("description", None), signature.doc.description, f"Call {name}."
        sync, other = (None, function) if is_async(function) else (function, None)
        fill = signature.with_context if signature.takes_context else None
        options |= {"fill": fill, "deps_type": signature.deps_type}
        parameters = deepcopy(signature.parameters)  # other tools may have the same signature
        return cls(name, next(filter(None, texts)), parameters, signature, sync, other, **options)

    @classmethod
    def from_call(
        cls, call: Any, variables: Iterable[str], name: str | None, description: str | None, result: CallableTool
    ) -> CallableTool:
        """Return a tool that makes a structured call, `call(**values)` or `call.acall(**values)`, with text arguments.

        `result` is the tool of the output type; its name and description are the defaults.
        """
        values = _VariableArguments(variables)
        name = name or legal_name(f"make_{result.name}")
        return cls(name, description or result.description, values.parameters, values, call, call.acall)

    def with_(self, **changes: Unpack[ToolChanges]) -> CallableTool:
        """Return a changed copy. Raise `ValueError` for an invalid option."""
        return replace(self, **cast("dict[str, Any]", changes))

    @property
    def takes_context(self) -> bool:
        """True if the function has a parameter for the `ToolContext`."""
        return self.fill is not None

    @property
    def hides_input(self) -> bool:
        """True if a type in the arguments is secret or sets `hide_input_in_errors`: then no error shows them."""
        return self.source.hides_input

    @property
    def runs_in_parallel(self) -> bool:
        """True if it may run beside others: the option `parallel`, or else `read_only`."""
        return self.read_only if self.parallel is None else self.parallel

    def read(self, arguments: str | Mapping[str, Any], context: Any = None) -> ParsedArguments:
        """Return the validated value of `arguments`, JSON text or its data.

        `context` reaches Pydantic's validators. Empty arguments count as an empty object.

        Raises:
            ValidationError: If the arguments do not validate.
        """
        text = arguments if isinstance(arguments, str) else json_text(arguments)
        try:
            return ParsedArguments(*self.source.read("{}" if text.strip() in ("", "null") else text, context))
        except pydantic.ValidationError as error:
            invalid = error
        # Outside of the `except` block: the original error would become its context, with an input that may be secret.
        raise self.validation_error(invalid, text)

    def validation_error(self, error: pydantic.ValidationError, text: str, note: str = "") -> ValidationError:
        """Return the error for invalid arguments `text`; `note` is appended to its message."""
        if self.hides_input:
            from ..parsing.core_schemas import visible_names
            from ..parsing.path_changes import relocate_error  # with it, all of partial parsing

            error = relocate_error(error, (), error.title, shown=visible_names(self.parameters))
        text_ = argument_errors(self.name, error, hide_input=self.hides_input)
        failure = ValidationError(text_ + note, tool_name=self.name, arguments=text)
        failure.hides_input = self.hides_input
        failure.advice = ""  # a caller that can ask the model again adds it
        failure.__cause__ = error
        return failure

    def arguments_for(self, value: Any) -> str | None:
        """Return the JSON text that a model would write to get `value`; None if `value` does not fit."""
        try:
            return self.source.dump(value)
        except pydantic.ValidationError:
            return None

    @property
    def arguments_type(self) -> Any:
        """The type of the arguments: the output type, or for a function a `TypedDict` of its parameters."""
        if self.output_type is not None:
            return self.output_type
        return self.source.typed_dict if isinstance(self.source, Signature) else dict[str, Any]

    def named(self, value: Any) -> Any:
        """Return the arguments behind a `value` from `read`, by the names of the schema."""
        if isinstance(self.source, Signature):
            return self.source.arguments_by_name(value)
        if isinstance(value, BoundCall):
            return value.kwargs
        return {"value": value} if self.wrapped else value

    def run(self, value: Any, context: ToolContext[Any] | None = None, then: Then = _unchanged) -> Any:
        """Execute the tool on a `value` from `read` and return the result. Exceptions get a note with the tool's name.

        `then` transforms the result at once: in the same thread, and as a part of the tool.
        """
        function = self.function or self.async_function
        if function is None:
            return then(value)
        bound = self._with_context(value, context)
        with _AddToolNote(self.name):
            result = then(function(*bound.args, **bound.kwargs))
            if not inspect.isawaitable(result):
                return result
            return await_in_thread(result, context.cancellation if context is not None else None)

    async def arun(self, value: Any, context: ToolContext[Any] | None = None, then: Then = _unchanged) -> Any:
        """Execute the tool on a `value` from `read` and return the result. See `run`."""
        function = self.async_function or self.function
        if function is None:
            return then(value)
        bound = self._with_context(value, context)
        call = partial(function, *bound.args, **bound.kwargs)
        with _AddToolNote(self.name):
            if function is self.async_function:
                result = then(call())
            else:
                result = await run_in_thread(lambda: then(call()), abandon=context is not None)
            return await collapse_groups(lambda: result) if inspect.isawaitable(result) else result

    def _with_context(self, value: Any, context: ToolContext[Any] | None) -> BoundCall:
        bound = cast("BoundCall", value)
        return bound if self.fill is None else self.fill(bound, context or ToolContext(tool=self.name))

    def call(self, arguments: str | Mapping[str, Any], *, context: Any = None) -> ToolOutput:
        """Validate the arguments, run the tool once and return its output; raise the tool's exception."""
        return self.answer(ToolInvocation(arguments, self.read(arguments, context)))

    async def acall(self, arguments: str | Mapping[str, Any], *, context: Any = None) -> ToolOutput:
        """Validate the arguments, run the tool once and return its output; raise the tool's exception."""
        return await self.aanswer(ToolInvocation(arguments, self.read(arguments, context)))

    def answer(self, invocation: ToolInvocation, context: ToolContext[Any] | None = None) -> ToolOutput:
        """Run the tool once on parsed arguments and return its output; raise the tool's exception."""
        output: ToolOutput = self.run(invocation.read.value, context, partial(self._output, invocation))
        return output

    async def aanswer(self, invocation: ToolInvocation, context: ToolContext[Any] | None = None) -> ToolOutput:
        """Run the tool once on parsed arguments and return its output; raise the tool's exception."""
        output: ToolOutput = await self.arun(invocation.read.value, context, partial(self._output, invocation))
        return output

    def _output(self, invocation: ToolInvocation, result: Any) -> ToolOutput | Awaitable[ToolOutput]:
        """Return the output for `result`, or an awaitable of it for an event loop."""
        if self.output_type is not None or isinstance(result, str):  # the common cases first
            return self._build_output(invocation, result)
        if inspect.isawaitable(result) or isinstance(result, AsyncIterable):
            return self._abuild_output(invocation, cast("Any", result))
        return self._build_output(invocation, result)

    async def _abuild_output(self, invocation: ToolInvocation, result: Any) -> ToolOutput:
        while inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncIterable):
            result = await acollect_items(cast("Any", result), self.output_limit or invocation.limit)
        if is_quick(result):
            return self._build_output(invocation, result)
        output: ToolOutput = await run_in_thread(partial(self._build_output, invocation, result), abandon=True)
        return output

    def _build_output(self, invocation: ToolInvocation, result: Any) -> ToolOutput:
        arguments, read, limit, call_id = invocation
        limit = self.output_limit or limit
        if self.output_type is not None:
            return ToolOutput(text_of(result, limit), self.name, arguments, result, False, call_id, read.repairs)
        if isinstance(result, ToolOutput):
            content = truncate(result.content, limit)
            return replace(result, content=content, tool_name=self.name, raw_input=arguments, call_id=call_id)
        if isinstance(result, Iterator):
            result = collect_items(cast("Any", result), limit)
        text, images = split_images(result) or (result, ())
        return ToolOutput(
            text_of(text, limit), self.name, arguments, result, False, call_id, read.repairs, images=images
        )


class ToolFunction(Protocol[D_contra, P, R_co]):
    """The type of a function that `tool` has declared, `D_contra` that of the dependencies in its `ToolContext`.

    It is found where the context is the first parameter or, as in methods, the second. An `Agent[Shop]` does not take
    a tool of other dependencies. At run time the function is the same as before.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def __get__(
        self: ToolFunction[D, Concatenate[Any, Q], R], instance: Any, owner: Any = None, /
    ) -> ToolFunction[D, Q, R]: ...
    def __toolcast_deps__(self, deps: D_contra, /) -> None: ...  # for type checkers: no function has it


class _ToolDecorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[D], P], R], /
    ) -> ToolFunction[D, Concatenate[ToolContext[D], P], R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[S, ToolContext[D], P], R], /
    ) -> ToolFunction[D, Concatenate[S, ToolContext[D], P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> ToolFunction[Any, P, R]: ...


@overload
def tool(
    function: Callable[Concatenate[ToolContext[D], P], R], /
) -> ToolFunction[D, Concatenate[ToolContext[D], P], R]: ...
@overload
def tool(
    function: Callable[Concatenate[S, ToolContext[D], P], R], /
) -> ToolFunction[D, Concatenate[S, ToolContext[D], P], R]: ...
@overload
def tool(function: Callable[P, R], /) -> ToolFunction[Any, P, R]: ...
@overload
def tool(**options: Unpack[ToolChanges]) -> _ToolDecorator: ...
def tool(function: Any = None, /, **options: Unpack[ToolChanges]) -> Any:
    """Declare the options of a function as a tool, by a decorator: `@tool` or `@tool(read_only=True, timeout=5)`.

    The function stays what it is, and can be called and typed as before. An agent, an engine or an orchestrator takes
    it like any other function. The options are those of `ToolChanges`.

    Raises:
        TypeError: An option is unknown, or the decorated object cannot be called.

    Example:
        `@toolcast.tool(approval="always")`
    """
    refuse_unknown("tool", options, tuple(ToolChanges.__annotations__))

    def declare(function: Any) -> Any:
        if not callable(function):
            raise TypeError(f"@tool is for functions, and got {function!r:.100}: write @tool(read_only=True)")
        setattr(function, _OPTIONS, options)
        return function

    return declare if function is None else declare(function)


def as_tool(value: Any) -> CallableTool:
    """Return the tool that `value` is or makes: a tool, a type, a function, or an object with `as_tool()`."""
    if isinstance(value, CallableTool):
        return value
    if is_type_form(value):
        return CallableTool.from_type(value)
    made = getattr(value, "as_tool", None)
    if made is not None:
        return cast("CallableTool", made())
    if callable(value):
        return CallableTool.from_function(value)
    raise OutputTypeError(f"{value!r:.100} is no tool. A tool is {ALLOWED}")


def as_tools(values: Iterable[Any]) -> tuple[CallableTool, ...]:
    """Return the tools that `values` are or make. Raise `OutputTypeError` if two have the same name."""
    tools = tuple(as_tool(value) for value in values)
    names = [tool.name for tool in tools]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise OutputTypeError(f"several tools are named {', '.join(repeated)}; give each a name of its own with name=")
    return tools


def output_tools(output_cls: Any) -> tuple[CallableTool, ...]:
    """Return the tools that an output type is offered as: one per member of a union of models, otherwise one."""
    members = union_members(output_cls) if is_type_form(output_cls) else None
    if members is not None:
        return as_tools(members)
    is_tool = is_type_form(output_cls) or isinstance(output_cls, CallableTool) or callable(output_cls)
    return (as_tool(output_cls) if is_tool else CallableTool.from_type(output_cls),)


def tools_of(holder: object) -> list[CallableTool]:
    """Return a tool for every public method of an object that has a docstring or an annotation, in their order.

    Inherited methods count, those of Pydantic's models do not. Properties and attributes are not evaluated.
    """
    if isinstance(holder, type):
        raise OutputTypeError(f"{holder.__name__} is a class; tools_of takes an object of it")
    kinds = [kind for kind in reversed(type(holder).__mro__) if kind not in pydantic.BaseModel.__mro__]
    names = {name: None for kind in kinds for name in vars(kind) if not name.startswith("_")}
    methods = [getattr(holder, name) for name in names if _is_method(holder, name)]
    tools = [CallableTool.from_function(each) for each in methods if inspect.getdoc(each) or _is_annotated(each)]
    if not tools:
        raise OutputTypeError(f"{type(holder).__name__} has no public method with a docstring or an annotation")
    return tools


def _is_method(holder: object, name: str) -> bool:
    return isinstance(inspect.getattr_static(holder, name), (FunctionType, classmethod, staticmethod))


def _is_annotated(method: Function) -> bool:
    return bool(inspect.unwrap(method).__annotations__)


class _VariableArguments:
    """The parser of arguments that are the texts of a prompt's variables."""

    hides_input: bool = False

    def __init__(self, variables: Iterable[str]) -> None:
        fields = {variable: core_schema.typed_dict_field(core_schema.str_schema()) for variable in variables}
        self._validator = SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior="forbid"))
        self.parameters: Schema = {
            "type": "object",
            "properties": {variable: {"type": "string"} for variable in fields},
            "required": list(fields),
            "additionalProperties": False,
        }

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        values, repairs = parsing.parse_json(self._validator, text, context=context)
        return BoundCall((), values), repairs

    def dump(self, value: Any) -> str:
        return json_text(self._validator.validate_python(value))


class _AddToolNote:
    """A context manager that adds the name of the tool to exceptions."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            note = f"raised by the tool {self._name!r}"
            if note not in getattr(error, "__notes__", ()):  # the same exception object may be raised many times
                with suppress(AttributeError, TypeError):  # an exception that takes no attributes
                    error.add_note(note)
