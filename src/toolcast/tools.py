"""`CallableTool`: a type or a function that a model can call.

A tool is what a service sees of it (`spec`), how the arguments a model wrote are read (`read`, validated
once), and what is then done with them (`run`, `arun`): nothing for an output type, whose arguments are the
result, and one call for a function. Either kind of function works from either face. Under the sync face an
async function runs in a thread with an event loop of its own; under the async face a sync function runs in a
worker thread, and a cancelled caller waits until it has returned. Context variables are copied both times.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

import pydantic
from pydantic_core import SchemaValidator, core_schema, to_json

from .errors import OutputTypeError, ValidationError
from .messages import ToolResultPart
from .parsing import arguments as parsing
from .providers.wire import ToolSpec, legal_name
from .schemas import ALLOWED, Schema, description_of, is_type_form, name_of, shape_of, union_members
from .signatures import BoundCall, Signature, is_async, name_of_function

Function = Callable[..., Any]

_SHOWN_FAULTS = 5
_SHOWN_INPUT = 80


class Read(NamedTuple):
    """Arguments, read: the validated `value`, and what had to be repaired for it."""

    value: Any
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What one tool call gave: `content` is text for the model, `raw_output` the object itself.

    Of a call that failed, `is_error` is true, `content` says why, and `error` is the exception.
    """

    content: str
    tool_name: str
    raw_input: str | Mapping[str, Any] = "{}"
    raw_output: Any = None
    is_error: bool = False
    call_id: str = ""
    repairs: tuple[str, ...] = ()
    error: Exception | None = field(default=None, compare=False)

    def part(self) -> ToolResultPart:
        """The message part that answers the call."""
        return ToolResultPart(self.call_id, self.content, self.tool_name, self.is_error)


class Source(Protocol):
    """Where a tool's arguments come from and what they are."""

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
    for a function; `wrapped`: they are it under the key `value`. `spec` is the tool as a service sees it.
    """

    name: str
    description: str
    parameters: Schema = field(repr=False)
    source: Source = field(repr=False)
    function: Function | None = field(default=None, repr=False)
    async_function: Function | None = field(default=None, repr=False)
    output_type: Any = None
    wrapped: bool = False
    spec: ToolSpec = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", ToolSpec(self.name, self.description, self.parameters))

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
        name = name or name_of(type_form)
        written = description or description_of(type_form) or f"Create an instance of {name}."
        return cls(name, written, shape.parameters, shape, output_type=type_form, wrapped=shape.wrapped)

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
        functions = (None, function) if is_async(function) else (function, None)
        return cls(name, written, signature.parameters, signature, *functions)

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

    def read(self, arguments: str | Mapping[str, Any], context: Any = None) -> Read:
        """The value that `arguments`, JSON text or its data, hold. Raises `toolcast.ValidationError`.

        `context` reaches Pydantic's validators. No arguments at all are an empty object.
        """
        text = arguments if isinstance(arguments, str) else to_json(arguments).decode()
        try:
            return Read(*self.source.read("{}" if text.strip() in ("", "null") else text, context))
        except pydantic.ValidationError as error:
            raise ValidationError(_unfit(self.name, error), tool_name=self.name, arguments=text) from error

    def arguments_for(self, value: Any) -> str | None:
        """The JSON text that a model would have written to get `value`; None if that does not fit."""
        try:
            return self.source.dump(value)
        except pydantic.ValidationError:
            return None

    def run(self, value: Any) -> Any:
        """What the tool makes of a `value` that `read` gave. Its exceptions get a note naming the tool."""
        function = self.function or self.async_function
        if function is None:
            return value
        bound = cast("BoundCall", value)
        with _Noting(self.name):
            result = function(*bound.args, **bound.kwargs)
            return _awaited_in_thread(result) if inspect.isawaitable(result) else result

    async def arun(self, value: Any) -> Any:
        """What the tool makes of a `value` that `read` gave. Its exceptions get a note naming the tool."""
        function = self.async_function or self.function
        if function is None:
            return value
        bound = cast("BoundCall", value)
        with _Noting(self.name):
            if function is self.async_function:
                return await function(*bound.args, **bound.kwargs)
            result = await _called_in_thread(function, bound)
            return await result if inspect.isawaitable(result) else result

    def call(self, arguments: str | Mapping[str, Any], *, context: Any = None) -> ToolOutput:
        """The output of one call, the arguments validated and the tool run once; raises what it raises."""
        read = self.read(arguments, context)
        return self.output(arguments, read, self.run(read.value))

    async def acall(self, arguments: str | Mapping[str, Any], *, context: Any = None) -> ToolOutput:
        """The output of one call, the arguments validated and the tool run once; raises what it raises."""
        read = self.read(arguments, context)
        return self.output(arguments, read, await self.arun(read.value))

    def output(self, arguments: str | Mapping[str, Any], read: Read, result: Any) -> ToolOutput:
        """The `ToolOutput` of a run that gave `result`."""
        return ToolOutput(text_of(result), self.name, arguments, result, repairs=read.repairs)


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


def text_of(result: Any) -> str:
    """`result` as text for a model: a string as it is, all else as JSON."""
    if isinstance(result, str):
        return result
    try:
        return to_json(result, by_alias=True, bytes_mode="base64", fallback=str).decode()
    except ValueError:  # a value that refers to itself
        return str(result)


class _Values:
    """The arguments are the texts of a prompt's holes."""

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
        values, repairs = parsing.read(self._validator, text, context=context)
        return BoundCall((), values), repairs

    def dump(self, value: Any) -> str:
        return to_json(self._validator.validate_python(value)).decode()


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
                error.add_note(note)


async def _called_in_thread(function: Function, bound: BoundCall) -> Any:
    from anyio import to_thread  # slow to import, and of no use to most programs

    # In a tuple, because trio refuses a coroutine from a thread.
    (result,) = await to_thread.run_sync(lambda: (function(*bound.args, **bound.kwargs),))
    return result


def _awaited_in_thread(result: Awaitable[Any]) -> Any:
    from anyio.from_thread import start_blocking_portal  # slow to import, and of no use to most programs

    async def wait() -> Any:
        return await result

    # A portal copies the context, and on Ctrl-C cancels what it is waiting for.
    with start_blocking_portal() as portal:
        return portal.call(wait)


def _unfit(name: str, error: pydantic.ValidationError) -> str:
    faults = error.errors(include_url=False)
    shown = [
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}, got {_shortened(fault['input'])}"
        for fault in faults[:_SHOWN_FAULTS]
    ]
    more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
    count = f"{len(faults)} error{'s' if len(faults) > 1 else ''}"
    return (
        f"the arguments for {name} do not fit, {count}: {'; '.join(shown)}{more}. "
        "max_attempts=2 lets the model correct itself"
    )


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_INPUT else f"{text[: _SHOWN_INPUT - 1]}…"
