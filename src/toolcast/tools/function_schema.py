"""Function signatures as tool arguments.

The named parameters become the fields of a Pydantic model, which generates the schema and validates once; a field has a
neutral name, and the parameter's name as its alias, so that no parameter name is reserved. `self`, arguments bound by a
`partial`, `*args` and `**kwargs` are not offered. Arguments beyond the schema are refused, as Python would. A function
with nothing but `*args` and `**kwargs` is an `OutputTypeError`: its arguments cannot be described. A parameter
annotated `ToolContext` is not offered either: it is filled in when the function is called.

Docstring parsing: the description, and a text for each parameter.

The three common styles are recognized line by line: Google (`Args:` and an indented list), NumPy (`Parameters`
underlined) and Sphinx (`:param x: ...`, also `@param x: ...`). Text outside of their sections is the description;
sections about results and errors are skipped. Text in none of these styles is all description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property, partial
from inspect import Parameter, cleandoc
from itertools import pairwise
from types import FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, SchemaError
from typing_extensions import Doc, TypedDict

from ..async_support.callbacks import Function, innermost
from ..lazy.lazy_dataclasses import dataclass
from ..text.json_text import json_text
from .list_types import as_lists, explain_lazy
from .output_schema import Schema, ToolSchema, TypeValidator, enclosing_locals, normalize, unusable
from .tool_context import ToolContext

_PARAMETERS = (
    "Args",
    "Arguments",
    "Parameters",
    "Params",
    "Keyword Args",
    "Keyword Arguments",
    "Other Parameters",
)
_OTHERS = ("Attributes", "Examples?", "Raises", "Returns?", "See Also", "Warns", "Yields?")
_SECTION = "|".join((*_PARAMETERS, *_OTHERS))
# Patterns are text, which `re` compiles and caches when it is used: compiling them delays every import.
_GOOGLE: Final = rf"({_SECTION}):$"
_NUMPY: Final = rf"({_SECTION})$"
_UNDERLINE: Final = r"-{3,}$"
_FIELD: Final = r"[:@](\w+)(?:\s+([^:]*))?:\s*(.*)$"
_PARAM_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_GOOGLE_ITEM: Final = r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|)$"
_NUMPY_ITEM: Final = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring: `description` as written, `parameters` each on one line."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def parse(docstring: str | None) -> Docstring:
    """Parse a docstring."""
    lines = cleandoc(docstring or "").splitlines()
    reader = _DocstringParser()
    for line, following in pairwise([*lines, ""]):
        reader.feed(line.rstrip(), following.strip())
    return Docstring("\n".join(reader.description).strip(), dict(reader.finished()))


class _DocstringParser:
    """The state of parsing: in the description, in a list of parameters, or in a skipped section."""

    def __init__(self) -> None:
        self.description: list[str] = []
        self._handle: Callable[[str], None] = self.description.append
        self._indent: int | None = None  # of the items of a Google section
        self._text: list[str] = []  # of the parameters being described
        self._parameters: dict[str, list[str]] = {}

    def feed(self, line: str, following: str) -> None:
        if field := re.match(_FIELD, line):
            self._field(field[1], field[2] or "", field[3])
        elif section := re.match(_GOOGLE, line):
            self._begin_section(section[1], self._google)
        elif (section := re.match(_NUMPY, line)) and re.match(_UNDERLINE, following):
            self._begin_section(section[1], self._numpy)
        else:
            self._handle(line)

    def finished(self) -> Iterator[tuple[str, str]]:
        for name, lines in self._parameters.items():
            if text := " ".join(word for word in lines if word):
                yield name, text

    def _begin_section(self, section: str, feed: Callable[[str], None]) -> None:
        self._handle = feed if section in _PARAMETERS else _skip
        self._indent = None
        self._text = []

    def _field(self, field: str, argument: str, text: str) -> None:
        """`:param int x: text`; its text goes on until the next field or blank line."""
        self._text = []
        self._handle = self._continue_text
        if field in _PARAM_FIELDS and argument:
            self._begin([argument.split()[-1]], text)

    def _continue_text(self, line: str) -> None:
        self._text.append(line.strip())
        if not line:
            self._text = []

    def _google(self, line: str) -> None:
        text = line.lstrip()
        if not text:
            return
        indent = len(line) - len(text)
        self._indent = indent if self._indent is None else self._indent
        if indent < self._indent:
            self._handle = self.description.append
            self._handle(line)
            return
        item = re.match(_GOOGLE_ITEM, text) if indent == self._indent else None
        if item is None:
            self._text.append(text)
        else:
            self._begin([item[1]], item[2] or "")

    def _numpy(self, line: str) -> None:
        item = re.match(_NUMPY_ITEM, line)
        if item is None:
            self._text.append(line.strip())
        else:
            self._begin(re.findall(r"\w+", item[1]), "")

    def _begin(self, names: Iterable[str], text: str) -> None:
        self._text = [text.strip()]
        self._parameters.update(dict.fromkeys((name.lstrip("*") for name in names), self._text))


def _skip(line: str) -> None:
    """Ignore `line`."""


_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_CONSTANT = frozenset({"builtins", "collections.abc", "datetime", "decimal", "pathlib", "types", "typing", "uuid"})
_UNIONS: tuple[Any, ...] = (Union, UnionType)
_MISPLACED = "a ToolContext can only be a parameter by itself, as in `context: ToolContext`"


class BoundCall(NamedTuple):
    """The validated arguments of one call of a function."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Signature:
    """The signature of a function: `model` validates the arguments, `parameters` is their schema.

    Args:
        function: The function.
        parameters: Its named parameters.
        annotations: Their types, by name.

    Raises:
        OutputTypeError: If a parameter's type has no JSON Schema.
    """

    def __init__(self, function: Function, parameters: list[Parameter], annotations: dict[str, Any]) -> None:
        self.doc: Docstring = _docstring(function)
        hints = {name: as_lists(hint) for name, hint in annotations.items()}
        self._hints = hints
        self._context_parameters = _context_parameters(function, parameters, hints)
        offered = [each for index, each in enumerate(parameters) if index not in self._context_parameters]
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
            raise unusable(function, _unsupported_parameter(hints, True) or error) from error
        self.parameters: Schema = normalize(schema)
        self._optional = frozenset(self.parameters["properties"]) - frozenset(self.parameters.get("required", ()))
        self._validator = TypeValidator(
            self.model.__pydantic_core_schema__,
            self.model.__pydantic_validator__,
            function,
            partial(_unsupported_parameter, hints),
        )

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        """Return the arguments in the JSON `text`, and the repairs. Raise Pydantic's `ValidationError`."""
        arguments, repairs = self._validator.read(text, context, self._optional)
        return self.bound(arguments), repairs

    def dump(self, value: object) -> str:
        """Return the JSON text of `value`, a mapping of arguments. Raise Pydantic's `ValidationError`."""
        arguments: BaseModel = self._validator.validator.validate_python(value)
        try:
            return arguments.model_dump_json(by_alias=True, round_trip=True, exclude_unset=True)
        except PydanticSerializationError:  # half of a surrogate pair
            return json_text(arguments.model_dump(by_alias=True, round_trip=True, exclude_unset=True))

    @property
    def hides_input(self) -> bool:
        """True if a parameter's type requires that its input stays out of errors."""
        return self._validator.hides_input

    @cached_property
    def typed_dict(self) -> Any:
        """The arguments as a `TypedDict` without required keys."""
        made: Any = TypedDict
        return made("Arguments", {each.name: self._hints[each.name] for each in self._fields.values()}, total=False)

    @property
    def takes_context(self) -> bool:
        """True if the function has a parameter for the `ToolContext`."""
        return bool(self._context_parameters)

    @property
    def deps_type(self) -> Any:
        """The type of the dependencies that the function requires; None if it works without any."""
        hints = [self._hints[parameter.name] for parameter in self._context_parameters.values()]
        return next((found for hint in hints if (found := _required_deps(hint)) is not None), None)

    def with_context(self, call: BoundCall, context: ToolContext[Any]) -> BoundCall:
        """Return `call` with `context` as the arguments annotated with it."""
        args, kwargs = list(call.args), dict(call.kwargs)
        for place, parameter in self._context_parameters.items():
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                args.insert(place, context)
            else:
                kwargs[parameter.name] = context
        return BoundCall(tuple(args), kwargs)

    def arguments_by_name(self, call: BoundCall) -> dict[str, Any]:
        """Return all arguments of `call` by name, including the function's own defaults."""
        args = iter(call.args)
        return {
            each.name: next(args)
            if each.kind is Parameter.POSITIONAL_ONLY
            else call.kwargs.get(each.name, each.default)
            for each in self._fields.values()
        }

    def bound(self, arguments: BaseModel) -> BoundCall:
        """Return the validated `arguments` in the form in which the function is called."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, parameter in self._fields.items():
            value = getattr(arguments, name)
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                args.append(value)
            elif name in arguments.model_fields_set or not _has_own_default(parameter):
                kwargs[parameter.name] = value
        return BoundCall(tuple(args), kwargs)


_made: WeakKeyDictionary[Any, tuple[Any, Signature]] = WeakKeyDictionary()


def signature_of(function: Function) -> Signature:
    """Return the `Signature` of `function`. It is made once, unless what it is made from can change.

    Reading a function takes a tenth of the time of making the schema and the validator.

    Raises:
        OutputTypeError: If the signature cannot be read, or a parameter's type has no JSON Schema.
    """
    parameters = _parameters(function)
    annotations = _hints(function, parameters)
    read = [(each.name, each.kind, each.default) for each in parameters], annotations, function.__doc__
    constant = (
        type(function) is FunctionType
        and all(isinstance(each.default, (str, int, float, NoneType, type)) for each in parameters)
        and all(map(_is_constant, annotations.values()))
    )
    if constant and (found := _made.get(function)) is not None and found[0] == read:
        return found[1]
    signature = Signature(function, parameters, annotations)
    if constant:
        _made[function] = read, signature
    return signature


def _is_constant(hint: Any) -> bool:
    """Return whether a type has the same schema at any time, as those of the standard library have."""
    kind = get_origin(hint)
    if kind is Annotated:
        inner, *metadata = get_args(hint)
        return _is_constant(inner) and all(isinstance(each, (str, Doc)) for each in metadata)
    own = getattr(kind or hint, "__module__", "") in _CONSTANT
    return own and (kind is Literal or all(map(_is_constant, get_args(hint))))


def _unsupported_parameter(hints: dict[str, Any], unsupported: bool) -> str | None:
    """Return why a parameter that is an iterator cannot be offered; None if none is."""
    for name, hint in hints.items():
        if (why := explain_lazy(hint, unsupported)) is not None:
            return f"in its parameter {name!r} {why}"
    return None


def name_of_function(function: Function) -> str:
    """Return the name of `function`: its own, that of its class, or `lambda`."""
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
    """Return the named parameters that are not bound."""
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
            "it takes only *args and **kwargs, so its arguments cannot be described to a model; "
            "name its parameters, or use functools.wraps in its decorator",
        )
    return named


def _hints(function: Function, parameters: list[Parameter]) -> dict[str, Any]:
    """Return the annotations of the parameters, with names resolved where the function was defined."""

    def annotated() -> None: ...

    given = {each.name: Any if each.annotation is Parameter.empty else each.annotation for each in parameters}
    annotated.__annotations__ = given
    defining = _defining_function(function)
    namespace: dict[str, Any] = getattr(defining, "__globals__", {})
    names = enclosing_locals(getattr(defining, "__qualname__", ""))
    if "ToolContext" not in namespace:  # it may be imported under TYPE_CHECKING only
        names = {"ToolContext": ToolContext, **names}
    try:
        return get_type_hints(annotated, namespace, names, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        raise unusable(function, f"an annotation of it cannot be read ({error})") from error


def _context_parameters(function: Function, parameters: list[Parameter], hints: dict[str, Any]) -> dict[int, Parameter]:
    """Return the parameters for the `ToolContext`, by position."""
    found: dict[int, Parameter] = {}
    for place, parameter in enumerate(parameters):
        hint = hints[parameter.name]
        if _is_context(hint):
            found[place] = parameter
        elif _holds_context(hint):
            raise unusable(function, _MISPLACED)
    return found


def _is_context(hint: Any) -> bool:
    """Return whether an annotation is `ToolContext`, possibly optional."""
    hint = getattr(hint, "__value__", hint)
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_context(get_args(hint)[0])
    if origin in _UNIONS:
        members = [member for member in get_args(hint) if member is not NoneType]
        return len(members) == 1 and _is_context(members[0])
    return (origin or hint) is ToolContext


def _required_deps(hint: Any) -> Any:
    """Return `Shop` of the annotation `ToolContext[Shop]`; None if it has no type, or one that None is a value of."""
    hint = getattr(hint, "__value__", hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _required_deps(arguments[0])
    if origin in _UNIONS:
        return next((found for each in arguments if (found := _required_deps(each)) is not None), None)
    return None if origin is not ToolContext or _allows_none(arguments[0]) else arguments[0]


def _allows_none(hint: Any) -> bool:
    """Return True if None is a value of the type, or may be, as with a type variable."""
    hint = getattr(hint, "__value__", hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _allows_none(arguments[0])
    if origin in _UNIONS:
        return any(map(_allows_none, arguments))
    return hint in (Any, object, None, NoneType) or isinstance(hint, TypeVar)


def _holds_context(hint: Any) -> bool:
    return _is_context(hint) or any(map(_holds_context, get_args(hint)))


def _defining_function(function: Function) -> Any:
    """Return the plain function behind partials, objects, methods and decorators."""
    inner = innermost(function)
    if not inspect.isroutine(inner):
        kind: type[Any] = inner if isinstance(inner, type) else type(inner)
        inner = kind.__dict__.get("__init__", kind) if kind is inner else kind.__call__
    return inspect.unwrap(getattr(inner, "__func__", inner))


def _definition(parameter: Parameter, hint: Any, doc: Docstring) -> Any:
    """Return the model's field, with name and description; the user's own metadata takes precedence."""
    inner, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if parameter.default is None:
        inner = inner | None
    described = Field(alias=parameter.name, description=doc.parameters.get(parameter.name))
    annotated: Any = Annotated
    annotation = annotated[(inner, described, *map(_as_field, metadata))]
    return annotation if parameter.default is Parameter.empty else (annotation, parameter.default)


def _as_field(metadata: object) -> object:
    """Return the description in `Annotated[int, "..."]` or `Doc("...")` as a field; other metadata unchanged."""
    text = metadata.documentation if isinstance(metadata, Doc) else metadata
    return Field(description=text) if isinstance(text, str) else metadata


def _has_own_default(parameter: Parameter) -> bool:
    """Return whether the function itself supplies a missing argument."""
    return parameter.default is not Parameter.empty and not isinstance(parameter.default, FieldInfo)
