"""A function's signature as the arguments of a tool.

The named parameters become the fields of a Pydantic model, which gives the schema and validates once; a field
carries a neutral name and the parameter's own as its alias, so that no parameter name is out of bounds. What
is not a named parameter is not offered: `self`, what a `partial` has bound, `*args` and `**kwargs`. Arguments
beyond the schema are refused, as Python would. A function with nothing but `*args` and `**kwargs` is an
`OutputTypeError`: what it takes cannot be told. A parameter annotated `ToolContext` is not offered either: it
is filled in when the function is called.
"""

from __future__ import annotations

import inspect
from functools import cached_property, partial
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, SchemaError
from typing_extensions import Doc, TypedDict

from ..async_support.callbacks import Function, innermost
from ..json_text import json_text
from .context import ToolContext
from .docstring import Docstring, parse
from .list_types import as_lists, explain_lazy
from .schema import Schema, ToolSchema, TypeValidator, enclosing_locals, tidy, unusable

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_UNIONS: tuple[Any, ...] = (Union, UnionType)
_MISPLACED = "a ToolContext can only be a parameter by itself, as in `context: ToolContext`"


class BoundCall(NamedTuple):
    """The validated arguments of one call of a function."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Signature:
    """What a function takes: `model` validates the arguments, `parameters` is their schema.

    Raises `OutputTypeError` where the signature cannot be read or a parameter's type has no JSON Schema.
    """

    def __init__(self, function: Function) -> None:
        self.doc: Docstring = _docstring(function)
        parameters = _parameters(function)
        hints = {name: as_lists(hint) for name, hint in _hints(function, parameters).items()}
        self._hints = hints
        self._contexts = _contexts(function, parameters, hints)
        offered = [each for index, each in enumerate(parameters) if index not in self._contexts]
        self._fields = {f"argument{index}": parameter for index, parameter in enumerate(offered)}
        definitions: dict[str, Any] = {
            field: _definition(parameter, hints[parameter.name], self.doc) for field, parameter in self._fields.items()
        }
        try:
            self.model: type[BaseModel] = create_model(
                "Arguments", __config__=ConfigDict(extra="forbid"), **definitions
            )
            schema = self.model.model_json_schema(schema_generator=ToolSchema)
        except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError) as error:
            raise unusable(function, _unfit_parameter(hints, True) or error) from error
        self.parameters: Schema = tidy(schema)
        self._validator = TypeValidator(
            self.model.__pydantic_core_schema__,
            self.model.__pydantic_validator__,
            function,
            partial(_unfit_parameter, hints),
        )

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        """The arguments in the JSON `text`, and its repairs. Raises Pydantic's `ValidationError`."""
        arguments, repairs = self._validator.read(text, context)
        return self.bound(arguments), repairs

    def dump(self, value: object) -> str:
        """The JSON text of `value`, a mapping of arguments. Raises Pydantic's `ValidationError`."""
        arguments: BaseModel = self._validator.validator.validate_python(value)
        try:
            return arguments.model_dump_json(by_alias=True, round_trip=True, exclude_unset=True)
        except PydanticSerializationError:  # half of a surrogate pair
            return json_text(arguments.model_dump(by_alias=True, round_trip=True, exclude_unset=True))

    @property
    def hides_input(self) -> bool:
        """Whether a parameter's type asks for its input to stay out of errors."""
        return self._validator.hides_input

    @cached_property
    def typed_dict(self) -> Any:
        """The arguments as a `TypedDict`, of which anything may still be missing."""
        made: Any = TypedDict
        return made("Arguments", {each.name: self._hints[each.name] for each in self._fields.values()}, total=False)

    @property
    def takes_context(self) -> bool:
        """Whether the function has a parameter for the `ToolContext`."""
        return bool(self._contexts)

    def filled(self, call: BoundCall, context: ToolContext[Any]) -> BoundCall:
        """`call`, with `context` in the places that are kept for it."""
        args, kwargs = list(call.args), dict(call.kwargs)
        for place, parameter in self._contexts.items():
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                args.insert(place, context)
            else:
                kwargs[parameter.name] = context
        return BoundCall(tuple(args), kwargs)

    def named(self, call: BoundCall) -> dict[str, Any]:
        """All arguments of `call` by their names, those that the function itself will add included."""
        args = iter(call.args)
        return {
            each.name: next(args)
            if each.kind is Parameter.POSITIONAL_ONLY
            else call.kwargs.get(each.name, each.default)
            for each in self._fields.values()
        }

    def bound(self, arguments: BaseModel) -> BoundCall:
        """The validated `arguments` as they are passed to the function."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for field, parameter in self._fields.items():
            value = getattr(arguments, field)
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                args.append(value)
            elif field in arguments.model_fields_set or not _has_own_default(parameter):
                kwargs[parameter.name] = value
        return BoundCall(tuple(args), kwargs)


def _unfit_parameter(hints: dict[str, Any], unsupported: bool) -> str | None:
    """Return why a parameter that is an iterator cannot be offered; None if none is."""
    for name, hint in hints.items():
        if (why := explain_lazy(hint, unsupported)) is not None:
            return f"in its parameter {name!r} {why}"
    return None


def name_of_function(function: Function) -> str:
    """The name of `function`: its own, that of its class, or `lambda`."""
    inner = innermost(function)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return "lambda" if name == "<lambda>" else str(name)


def _docstring(function: Function) -> Docstring:
    inner = innermost(function)
    if inspect.isroutine(inner) or isinstance(inner, type):
        return parse(inspect.getdoc(inner))
    own = parse(type(inner).__call__.__doc__)
    return own if own.description else Docstring(parse(type(inner).__doc__).description, own.parameters)


def _parameters(function: Any) -> list[Parameter]:
    """The named parameters that are still open."""
    try:
        every = list(inspect.signature(function).parameters.values())
    except (ValueError, NameError) as error:
        why = f"its signature cannot be read ({error}); write a function around it"
        raise unusable(function, why) from error
    if any(each.kind in _VARIADIC and "ToolContext" in str(each.annotation) for each in every):
        raise unusable(cast("object", function), _MISPLACED)
    bound: dict[str, Any] = cast("Any", function).keywords if isinstance(function, partial) else {}
    named = [each for each in every if each.kind not in _VARIADIC and each.name not in bound]
    if every and not named and not bound:
        raise unusable(
            cast("object", function),
            "it takes only *args and **kwargs, so a model cannot know what to pass; "
            "name its parameters, or use functools.wraps in its decorator",
        )
    return named


def _hints(function: Function, parameters: list[Parameter]) -> dict[str, Any]:
    """The annotations of the parameters, with names looked up where the function was defined."""

    def annotated() -> None: ...

    given = {each.name: Any if each.annotation is Parameter.empty else each.annotation for each in parameters}
    annotated.__annotations__ = given
    home = _home(function)
    known: dict[str, Any] = getattr(home, "__globals__", {})
    names = enclosing_locals(getattr(home, "__qualname__", ""))
    if "ToolContext" not in known:  # it may have been imported for type checkers alone
        names = {"ToolContext": ToolContext, **names}
    try:
        return get_type_hints(annotated, known, names, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        raise unusable(function, f"an annotation of it cannot be read ({error})") from error


def _contexts(function: Function, parameters: list[Parameter], hints: dict[str, Any]) -> dict[int, Parameter]:
    """The parameters that are for the `ToolContext`, by their places."""
    found: dict[int, Parameter] = {}
    for place, parameter in enumerate(parameters):
        hint = hints[parameter.name]
        if _is_context(hint):
            found[place] = parameter
        elif _holds_context(hint):
            raise unusable(function, _MISPLACED)
    return found


def _is_context(hint: Any) -> bool:
    """Whether what is so annotated is a `ToolContext`, or may be None in its place."""
    hint = getattr(hint, "__value__", hint)
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_context(get_args(hint)[0])
    if origin in _UNIONS:
        members = [member for member in get_args(hint) if member is not NoneType]
        return len(members) == 1 and _is_context(members[0])
    return (origin or hint) is ToolContext


def _holds_context(hint: Any) -> bool:
    return _is_context(hint) or any(map(_holds_context, get_args(hint)))


def _home(function: Function) -> Any:
    """The plain function behind partials, objects, methods and decorators."""
    inner = innermost(function)
    if not inspect.isroutine(inner):
        kind: type[Any] = inner if isinstance(inner, type) else type(inner)
        inner = kind.__dict__.get("__init__", kind) if kind is inner else kind.__call__
    return inspect.unwrap(getattr(inner, "__func__", inner))


def _definition(parameter: Parameter, hint: Any, doc: Docstring) -> Any:
    """The model's field: named and described, what the user wrote having the last word."""
    inner, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if parameter.default is None:
        inner = inner | None
    described = Field(alias=parameter.name, description=doc.parameters.get(parameter.name))
    annotated: Any = Annotated
    annotation = annotated[(inner, described, *map(_as_field, metadata))]
    return annotation if parameter.default is Parameter.empty else (annotation, parameter.default)


def _as_field(metadata: object) -> object:
    """`Annotated[int, "what it is"]` and `Doc("what it is")` describe."""
    text = metadata.documentation if isinstance(metadata, Doc) else metadata
    return Field(description=text) if isinstance(text, str) else metadata


def _has_own_default(parameter: Parameter) -> bool:
    """Whether the function itself knows what an argument is that was not passed."""
    return parameter.default is not Parameter.empty and not isinstance(parameter.default, FieldInfo)
