"""`CallableTool`: a type or a function that a model can call.

A tool is what a service sees of it (`spec`), how the arguments a model wrote are read (`read`, validated
once), and what is then done with them (`run`, `arun`): nothing for an output type, whose arguments are the
result, and one call for a function. Either kind of function works from either face. Under the sync face an
async function runs in a thread with an event loop of its own; under the async face a sync function runs in a
worker thread. Context variables are copied both times. A caller who is cancelled waits until the thread has
returned; one who gave a `ToolContext` does not, because that has told the function. What a model reads of the result
is made where the function ran, because a result may take its time too: what gives its items one by one is read there,
and its items are the result.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import pydantic
from pydantic_core import SchemaValidator, core_schema
from typing_extensions import Unpack

from ..async_support.callbacks import is_async
from ..async_support.exception_groups import collapse_groups
from ..async_support.thread_bridge import await_in_thread, run_in_thread
from ..errors import OutputTypeError, ValidationError
from ..json_text import json_text
from ..messages import ImagePart, ToolResultPart
from ..parsing import arguments as parsing
from ..parsing.path_changes import relocate_error
from ..tool_spec import ToolSpec, legal_name
from .context import ToolContext
from .options import ToolChanges, check, path_arguments
from .results import cut, gathered, gathered_later, is_quick, pictured, text_of, unfit
from .schema import ALLOWED, Schema, description_of, is_type_form, name_of, shape_of, union_members
from .signature import BoundCall, Signature, name_of_function

Function = Callable[..., Any]
Fill: TypeAlias = Callable[[BoundCall, ToolContext[Any]], BoundCall]
Then: TypeAlias = Callable[[Any], Any]


def _as_it_is(result: Any) -> Any:
    return result


class ParsedArguments(NamedTuple):
    """Arguments, read: the validated `value`, and what had to be repaired for it."""

    value: Any
    repairs: tuple[str, ...] = ()


class ToolInvocation(NamedTuple):
    """A call that was read: its `arguments` as they came, and with at most how many characters it is answered."""

    arguments: str | Mapping[str, Any]
    read: ParsedArguments
    limit: int | None = None
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What one tool call gave: `content` is text for the model, `raw_output` the object itself.

    A function may return one itself, to choose its text, to show `images`, or to say that it failed. Of a call
    that failed, `is_error` is true, `content` says why, and `error` is the exception.
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
        """The message part that answers the call."""
        return ToolResultPart(self.call_id, self.content, self.tool_name, self.is_error, self.images)


class ArgumentReader(Protocol):
    """Where a tool's arguments come from and what they are."""

    @property
    def hides_input(self) -> bool:
        """Whether the arguments are to stay out of errors."""
        ...

    def read(self, text: str, context: Any) -> tuple[Any, tuple[str, ...]]:
        """The value of the arguments `text`, and its repairs; raises Pydantic's `ValidationError`."""
        ...

    def dump(self, value: Any) -> str:
        """The arguments that would be read as `value`; raises Pydantic's `ValidationError`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CallableTool:
    """A tool a model can call. Made by `from_model`, `from_type`, `from_function` or `as_tool`.

    `parameters` is the JSON Schema of its arguments. `output_type` is the type that the arguments are, None
    for a function; `wrapped`: they are it under the key `value`. `spec` is the tool as a service sees it. The
    options are those of `ToolChanges`; `path_parameters` has all arguments that are paths. `fill` puts a
    `ToolContext` into a call of the function.
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
    spec: ToolSpec = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", ToolSpec(self.name, self.description, self.parameters))
        object.__setattr__(self, "path_parameters", path_arguments(self.parameters).union(self.path_parameters))
        check(self)

    @classmethod
    def from_model(cls, model: Any, name: str | None = None, description: str | None = None) -> CallableTool:
        """A tool whose arguments make an instance of `model`: a Pydantic model, dataclass or TypedDict."""
        return cls.from_type(model, name, description)

    @classmethod
    def from_type(cls, type_form: Any, name: str | None = None, description: str | None = None) -> CallableTool:
        """A tool whose arguments are a `type_form`. Raises `OutputTypeError` for what no model can write.

        The name is the type's, the description its docstring or `Create an instance of ...`.
        """
        shape = shape_of(type_form)
        name = name or name_of(shape.type_form)
        written = description or description_of(type_form) or f"Create an instance of {name}."
        return cls(name, written, shape.parameters, shape, output_type=shape.type_form, wrapped=shape.wrapped)

    @classmethod
    def from_function(cls, function: Function, name: str | None = None, description: str | None = None) -> CallableTool:
        """A tool that calls `function`: sync or async, a method, `partial`, lambda or callable object.

        The schema is the signature: annotations, `Annotated[..., Field(...)]`, defaults, and what the
        docstring says of each parameter. Raises `OutputTypeError` for a signature no model can be offered.
        """
        if not callable(function):
            raise OutputTypeError(f"{function!r:.100} cannot be called, so it is no tool")
        signature = Signature(function)
        name = name or legal_name(name_of_function(function))
        written = description or signature.doc.description or f"Call {name}."
        sync, other = (None, function) if is_async(function) else (function, None)
        fill = signature.filled if signature.takes_context else None
        return cls(name, written, signature.parameters, signature, sync, other, fill=fill)

    @classmethod
    def from_call(
        cls, call: Any, holes: Iterable[str], name: str | None, description: str | None, result: CallableTool
    ) -> CallableTool:
        """A tool that makes a structured call: `call(**values)` or `call.acall(**values)`, one text per hole.

        `result` is the tool of what comes out; it lends its name and description.
        """
        values = _Values(holes)
        name = name or legal_name(f"make_{result.name}")
        return cls(name, description or result.description, values.parameters, values, call, call.acall)

    def with_(self, **changes: Unpack[ToolChanges]) -> CallableTool:
        """A changed copy. Raises `ValueError` for what no tool can keep to."""
        return replace(self, **cast("dict[str, Any]", changes))

    @property
    def takes_context(self) -> bool:
        """Whether the function has a parameter for the `ToolContext`."""
        return self.fill is not None

    @property
    def hides_input(self) -> bool:
        """Whether a type in the arguments says `hide_input_in_errors` or is secret: then no error shows them."""
        return self.source.hides_input

    @property
    def runs_in_parallel(self) -> bool:
        """Whether it may run beside others: as `parallel` says, otherwise where it is read-only."""
        return self.read_only if self.parallel is None else self.parallel

    def read(self, arguments: str | Mapping[str, Any], context: Any = None) -> ParsedArguments:
        """The value that `arguments`, JSON text or its data, hold. Raises `toolcast.ValidationError`.

        `context` reaches Pydantic's validators. No arguments at all are an empty object.
        """
        text = arguments if isinstance(arguments, str) else json_text(arguments)
        read = self._read("{}" if text.strip() in ("", "null") else text, context)
        if isinstance(read, ParsedArguments):
            return read
        # Outside of the `except`: what led to it would be its context, with an input that may have to stay hidden.
        raise self.unfit(read, text)

    def _read(self, text: str, context: Any) -> ParsedArguments | pydantic.ValidationError:
        try:
            return ParsedArguments(*self.source.read(text, context))
        except pydantic.ValidationError as error:
            return error

    def unfit(self, error: pydantic.ValidationError, text: str, note: str = "") -> ValidationError:
        """Return the error for the arguments `text`, which do not fit; `note` is put at the end of its message."""
        if self.hides_input:
            error = relocate_error(error, (), error.title, hide_input=True)
        words = unfit(self.name, error, hide_input=self.hides_input)
        failure = ValidationError(words + note, tool_name=self.name, arguments=text)
        failure.__cause__ = error
        return failure

    def arguments_for(self, value: Any) -> str | None:
        """The JSON text that a model would have written to get `value`; None if that does not fit."""
        try:
            return self.source.dump(value)
        except pydantic.ValidationError:
            return None

    @property
    def arguments_type(self) -> Any:
        """The type of the arguments: the output type, or of a function a `TypedDict` of its parameters."""
        if self.output_type is not None:
            return self.output_type
        return self.source.typed_dict if isinstance(self.source, Signature) else dict[str, Any]

    def named(self, value: Any) -> Any:
        """The arguments behind a `value` that `read` gave, by the names that the model knows."""
        if isinstance(self.source, Signature):
            return self.source.named(value)
        if isinstance(value, BoundCall):
            return value.kwargs
        return {"value": value} if self.wrapped else value

    def run(self, value: Any, context: ToolContext[Any] | None = None, then: Then = _as_it_is) -> Any:
        """What the tool makes of a `value` that `read` gave. Its exceptions get a note naming the tool.

        `then` makes something else of the result at once: in the same thread, and as a part of the tool.
        """
        function = self.function or self.async_function
        if function is None:
            return then(value)
        bound = self._filled(value, context)
        with _Noting(self.name):
            result = then(function(*bound.args, **bound.kwargs))
            if not inspect.isawaitable(result):
                return result
            return await_in_thread(result, context.cancellation if context is not None else None)

    async def arun(self, value: Any, context: ToolContext[Any] | None = None, then: Then = _as_it_is) -> Any:
        """What the tool makes of a `value` that `read` gave. See `run`."""
        function = self.async_function or self.function
        if function is None:
            return then(value)
        bound = self._filled(value, context)
        call = partial(function, *bound.args, **bound.kwargs)
        with _Noting(self.name):
            if function is self.async_function:
                result = then(call())
            else:
                result = await run_in_thread(lambda: then(call()), abandon=context is not None)
            return await collapse_groups(lambda: result) if inspect.isawaitable(result) else result

    def _filled(self, value: Any, context: ToolContext[Any] | None) -> BoundCall:
        bound = cast("BoundCall", value)
        return bound if self.fill is None else self.fill(bound, context or ToolContext(tool=self.name))

    def call(self, arguments: str | Mapping[str, Any], *, context: Any = None) -> ToolOutput:
        """The output of one call, the arguments validated and the tool run once; raises what it raises."""
        return self.answer(ToolInvocation(arguments, self.read(arguments, context)))

    async def acall(self, arguments: str | Mapping[str, Any], *, context: Any = None) -> ToolOutput:
        """The output of one call, the arguments validated and the tool run once; raises what it raises."""
        return await self.aanswer(ToolInvocation(arguments, self.read(arguments, context)))

    def answer(self, asked: ToolInvocation, context: ToolContext[Any] | None = None) -> ToolOutput:
        """The output of one call that was read, the tool run once; raises what it raises."""
        output: ToolOutput = self.run(asked.read.value, context, partial(self._output, asked))
        return output

    async def aanswer(self, asked: ToolInvocation, context: ToolContext[Any] | None = None) -> ToolOutput:
        """The output of one call that was read, the tool run once; raises what it raises."""
        output: ToolOutput = await self.arun(asked.read.value, context, partial(self._output, asked))
        return output

    def _output(self, asked: ToolInvocation, result: Any) -> ToolOutput | Awaitable[ToolOutput]:
        """The output of a run that gave `result`, or what to await for it in an event loop."""
        if self.output_type is not None or isinstance(result, str):  # most are
            return self._output_now(asked, result)
        if inspect.isawaitable(result) or isinstance(result, AsyncIterable):
            return self._output_later(asked, cast("Any", result))
        return self._output_now(asked, result)

    async def _output_later(self, asked: ToolInvocation, result: Any) -> ToolOutput:
        while inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncIterable):
            result = await gathered_later(cast("Any", result), self.output_limit or asked.limit)
        if is_quick(result):
            return self._output_now(asked, result)
        output: ToolOutput = await run_in_thread(partial(self._output_now, asked, result), abandon=True)
        return output

    def _output_now(self, asked: ToolInvocation, result: Any) -> ToolOutput:
        arguments, read, limit, call_id = asked
        limit = self.output_limit or limit
        if self.output_type is not None:
            return ToolOutput(text_of(result, limit), self.name, arguments, result, False, call_id, read.repairs)
        if isinstance(result, ToolOutput):
            content = cut(result.content, limit)
            return replace(result, content=content, tool_name=self.name, raw_input=arguments, call_id=call_id)
        if isinstance(result, Iterator):
            result = gathered(cast("Any", result), limit)
        text, images = pictured(result) or (result, ())
        return ToolOutput(
            text_of(text, limit), self.name, arguments, result, False, call_id, read.repairs, images=images
        )


def as_tool(value: Any) -> CallableTool:
    """The tool that `value` is or makes: a tool, a type, a function, or an object with `as_tool()`."""
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
    """The tools that `values` are or make. Raises `OutputTypeError` where two have one name."""
    tools = tuple(as_tool(value) for value in values)
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OutputTypeError(f"several tools are named {', '.join(twice)}; give each a name of its own with name=")
    return tools


def output_tools(output_cls: Any) -> tuple[CallableTool, ...]:
    """The tools that an output type is offered as: one per member of a union of models, otherwise one."""
    members = union_members(output_cls) if is_type_form(output_cls) else None
    if members is not None:
        return as_tools(members)
    usable = is_type_form(output_cls) or isinstance(output_cls, CallableTool) or callable(output_cls)
    return (as_tool(output_cls) if usable else CallableTool.from_type(output_cls),)


def tools_of(holder: object) -> list[CallableTool]:
    """A tool for every public method of an object that has a docstring or an annotation, in their order.

    Inherited methods count, those of Pydantic's models do not. Properties and attributes are not looked at.
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


class _Values:
    """The arguments are the texts of a prompt's holes."""

    hides_input: bool = False

    def __init__(self, holes: Iterable[str]) -> None:
        fields = {hole: core_schema.typed_dict_field(core_schema.str_schema()) for hole in holes}
        self._validator = SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior="forbid"))
        self.parameters: Schema = {
            "type": "object",
            "properties": {hole: {"type": "string"} for hole in fields},
            "required": list(fields),
            "additionalProperties": False,
        }

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        values, repairs = parsing.parse_json(self._validator, text, context=context)
        return BoundCall((), values), repairs

    def dump(self, value: Any) -> str:
        return json_text(self._validator.validate_python(value))


class _Noting:
    """Adds the name of the tool to what a tool raises."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            note = f"raised by the tool {self._name!r}"
            if note not in getattr(error, "__notes__", ()):  # one exception may be raised many times
                with suppress(AttributeError, TypeError):  # an exception that takes no attributes
                    error.add_note(note)
