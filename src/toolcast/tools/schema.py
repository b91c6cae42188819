"""A Python type as a model is asked for it: its validator and the JSON Schema of a tool's parameters.

Pydantic makes the schema (mode validation, by alias); here it is brought into the form that every service
takes. The root is an object: a reference at the root is replaced by what it refers to, and a type that is no
JSON object is wrapped as `{"value": ...}`. Titles that only repeat names are dropped, and so is
`discriminator`, which is no JSON Schema. `$defs` stay; a dialect that cannot take them inlines them itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cached_property, partial
from inspect import cleandoc, currentframe
from typing import Annotated, Any, ForwardRef, Literal, NewType, TypeAlias, Union, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic.dataclasses import rebuild_dataclass
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic.types import Discriminator
from pydantic_core import (
    ErrorDetails,
    InitErrorDetails,
    PydanticCustomError,
    PydanticSerializationError,
    SchemaError,
    SchemaValidator,
)
from pydantic_core.core_schema import ErrorType
from typing_extensions import Doc, TypeAliasType, is_typeddict

from ..errors import OutputTypeError
from ..json_text import json_text
from ..parsing import arguments as parsing
from ..parsing.core_schemas import (
    CAN_SKIP_PREBUILT,
    Strictness,
    generators_to_lists,
    hides_input,
    split_definitions,
    without_prebuilt,
)
from ..tool_spec import legal_name
from .list_types import ALIASES, as_lists, explain_lazy

Schema: TypeAlias = dict[str, Any]

_UNIONS: tuple[Any, ...] = (Union, types.UnionType)

ALLOWED = (
    "a Pydantic model, another type that Pydantic can validate "
    "(a dataclass, TypedDict, list[...], int, Literal[...]), a union of such types, or a function"
)
"""What an output type may be, for errors."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """A type, ready to be asked for: what validates it, and the schema of the arguments that hold it.

    `type_form` is the type with lists in place of iterables. `wrapper`, if the type itself is no JSON object:
    validates the `{"value": ...}` that the arguments are.
    """

    type_form: Any
    adapter: TypeAdapter[Any]
    parameters: Schema
    validator: TypeValidator
    wrapper: TypeValidator | None = None

    @property
    def wrapped(self) -> bool:
        """Whether the arguments are `{"value": ...}`."""
        return self.wrapper is not None

    @property
    def hides_input(self) -> bool:
        """Return whether the type asks for its input to stay out of errors."""
        return self.validator.hides_input

    def read(self, text: str, context: Any) -> tuple[Any, tuple[str, ...]]:
        """The value of the arguments `text`, and its repairs. Raises Pydantic's `ValidationError`."""
        if self.wrapper is None:
            return self.validator.read(text, context)
        try:
            outer, repairs = self.wrapper.read(text, context)
        except ValidationError as error:
            if _lacks_wrapper(error):
                with suppress(ValidationError):
                    value, repairs = self.validator.read(text, context)
                    return value, ("took the whole arguments as the value", *repairs)
            raise _inside(error) from None
        return outer.value, repairs

    def dump(self, value: Any) -> str:
        """The arguments that would be read as `value`. Raises Pydantic's `ValidationError`."""
        valid = self.validator.validator.validate_python(value)
        # round_trip leaves out computed fields, which no model would write.
        try:
            text = self.adapter.dump_json(valid, by_alias=True, round_trip=True, warnings=False).decode()
        except PydanticSerializationError:  # half of a surrogate pair
            text = json_text(self.adapter.dump_python(valid, by_alias=True, round_trip=True, warnings=False))
        return f'{{"value":{text}}}' if self.wrapped else text


def shape_of(type_form: Any) -> OutputSchema:
    """The `OutputSchema` of a type. Raises `OutputTypeError` for what no model can be asked for."""
    form = as_lists(type_form)
    adapter = _adapter(form)
    try:
        schema = tidy(adapter.json_schema(schema_generator=ToolSchema))
        explain = partial(explain_lazy, form)
        validator = TypeValidator(adapter.core_schema, adapter.validator, type_form, explain)
        if schema.get("type") == "object":
            return OutputSchema(form, adapter, schema, validator)
        wrapper = create_model(name_of(form), value=(form, ...))
        core, compiled = wrapper.__pydantic_core_schema__, wrapper.__pydantic_validator__
        around = TypeValidator(core, compiled, type_form, explain)
    except (PydanticUserError, RecursionError) as error:
        raise unusable(type_form, error) from error
    return OutputSchema(form, adapter, wrap(schema), validator, around)


class TypeValidator:
    """The compiled validator of a type, and the schema that it was compiled from.

    Where the schema has generators, the validator makes lists of them. `explain(unsupported)` tells which iterator or
    generator in `owner`, the type or function, cannot be read; then an `OutputTypeError` is raised.
    """

    def __init__(self, schema: Any, validator: Any, owner: object, explain: Callable[[bool], str | None]) -> None:
        self.validator: SchemaValidator = validator
        self._schema = schema
        changed = generators_to_lists(schema)
        if changed is not schema:
            if (why := explain(not CAN_SKIP_PREBUILT)) is not None:
                raise unusable(owner, why)
            self.validator = without_prebuilt(changed, None)

    @cached_property
    def hides_input(self) -> bool:
        """Return whether the type asks for its input to stay out of errors."""
        return hides_input(self._schema)

    @cached_property
    def _strictness(self) -> Strictness:
        return Strictness(*split_definitions(self._schema))

    def read(self, text: str, context: Any) -> tuple[Any, tuple[str, ...]]:
        """Return the value in the JSON `text`, and its repairs. Raises Pydantic's `ValidationError`."""
        return parsing.parse_json(self.validator, text, context=context, is_strict=lambda loc: self._strictness.at(loc))


def schema_for(type_form: Any) -> Schema:
    """The JSON Schema of the arguments of a tool that makes a `type_form`. Its root is an object."""
    return shape_of(type_form).parameters


def needs_wrapping(type_form: Any) -> bool:
    """Whether a `type_form` is no JSON object, and so has to be asked for as `{"value": ...}`."""
    return shape_of(type_form).wrapped


def wrap(schema: Mapping[str, Any]) -> Schema:
    """The schema of `{"value": ...}` around what `schema` allows."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: Schema = {"type": "object", "properties": {"value": inner}, "required": ["value"]}
    return outer | {"$defs": schema["$defs"]} if "$defs" in schema else outer


def union_members(type_form: Any) -> tuple[Any, ...] | None:
    """The members of a union whose members are all models, dataclasses or TypedDicts; otherwise None.

    A discriminated union is one too. A union with a validator of its own is not: it is validated whole.
    """
    form = _unaliased(type_form)
    if _origin(form) is Annotated:
        form, *metadata = get_args(form)
        if not all(_only_describes(item) for item in metadata):
            return None
    members = tuple(_flattened(form))
    return members if len(members) > 1 and all(_is_record(member) for member in members) else None


def is_type_form(value: object) -> bool:
    """Whether `value` is a type or a typing construct, rather than an instance or a function."""
    return isinstance(value, (type, NewType, *ALIASES)) or get_origin(value) is not None


def name_of(type_form: Any) -> str:
    """A name for the tool that makes a `type_form`, as every service takes it: `Album`, `list_Song`."""
    return legal_name("_".join(_names(type_form)) or "output")


def description_of(type_form: Any) -> str | None:
    """The docstring that the type's own author wrote, or None."""
    form = _bare(type_form)
    if isinstance(form, type) and issubclass(form, BaseModel):
        form = form.__pydantic_generic_metadata__["origin"] or form
    if not isinstance(form, type) or form.__module__ == "builtins":
        return None
    written = form.__dict__.get("__doc__")
    # Dataclasses and named tuples write "Point(x: int)" themselves.
    if not written or written.startswith(f"{form.__name__}("):
        return None
    return cleandoc(written)


def enclosing_locals(qualname: str) -> dict[str, Any]:
    """The local names of the running function inside which something of this qualified name was defined."""
    outer, _, _ = qualname.rpartition(".<locals>.")
    frame = currentframe() if outer else None
    while frame is not None and frame.f_code.co_qualname != outer:
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def unusable(type_form: object, why: object) -> OutputTypeError:
    """The error that says that, and why, `type_form` is no output type."""
    if isinstance(why, Exception):
        why = explain_lazy(type_form, True) or why
    reason = str(why).partition("\n")[0].rstrip(".")
    return OutputTypeError(f"{type_form!r:.100} cannot be an output type: {reason}. An output type is {ALLOWED}")


class ToolSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema without the titles it makes of names, and without its warnings."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 Pydantic's declaration

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No field gets a title that only repeats its name."""
        return False


def tidy(schema: Schema) -> Schema:
    """Pydantic's schema as services take it; the tool carries the description of the root."""
    clean = _tidy(schema)
    definitions: dict[str, Schema] = {
        name: _untitled(definition) for name, definition in clean.pop("$defs", {}).items()
    }
    root = _untitled(_resolved(clean, definitions))
    if root.get("type") == "object":
        root.pop("description", None)
        root.setdefault("properties", {})
    used = _used(root, definitions)
    return root | {"$defs": {name: definitions[name] for name in definitions if name in used}} if used else root


def _tidy(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    given = cast("Schema", schema)
    return {_RENAMED.get(key, key): _tidied(key, value) for key, value in given.items() if key != "discriminator"}


def _tidied(key: str, value: Any) -> Any:
    if key in _NAMED:
        return {name: _tidy(schema) for name, schema in value.items()}
    if key in _SEVERAL:
        return [_tidy(schema) for schema in value]
    return _tidy(value) if key in _ONE else value


_NAMED = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_SEVERAL = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ONE = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})
_RENAMED = {"oneOf": "anyOf"}  # several services refuse oneOf; the difference is Pydantic's to check


def _untitled(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


_REF = "#/$defs/"


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """`schema` without a reference at its root."""
    while str(schema.get("$ref", "")).startswith(_REF):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = definitions[schema["$ref"].removeprefix(_REF)] | beside
    return schema


def _used(root: Schema, definitions: Mapping[str, Schema]) -> set[str]:
    """The names of the definitions that `root` needs, directly or through others."""
    used: set[str] = set()
    waiting = [root]
    while waiting:
        names = {ref.removeprefix(_REF) for ref in _refs(waiting.pop())} & definitions.keys() - used
        used |= names
        waiting += [definitions[name] for name in names]
    return used


def _refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        mapping = cast("Schema", node)
        yield str(mapping.get("$ref", ""))
        node = list(mapping.values())
    if isinstance(node, list):
        for item in cast("Sequence[Any]", node):
            yield from _refs(item)


def _adapter(type_form: Any) -> TypeAdapter[Any]:
    given: object = type_form
    if given is None or given is type(None):
        raise unusable(given, "there is nothing in it for a model to say")
    if isinstance(given, (str, ForwardRef)):
        raise unusable(given, "it is the name of a type; pass the type itself")
    if not is_type_form(given):
        raise unusable(given, f"it is an instance of {type(given).__name__}, not a type")
    _complete(type_form)
    try:
        return TypeAdapter(type_form)
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, RuntimeError) as error:
        raise unusable(type_form, error) from error


def _complete(type_form: Any) -> None:
    """Tell a model of the classes that were defined after it, inside the same function."""
    if not getattr(type_form, "__pydantic_complete__", True):
        names = enclosing_locals(type_form.__qualname__)
        rebuild = getattr(type_form, "model_rebuild", partial(rebuild_dataclass, type_form))
        rebuild(raise_errors=False, _types_namespace=names or None)


def _lacks_wrapper(error: ValidationError) -> bool:
    return all(
        not fault["loc"] or (fault["loc"] == ("value",) and fault["type"] == "missing")
        for fault in error.errors(include_url=False)
    )


def _inside(error: ValidationError) -> ValidationError:
    """`error` with paths that start inside the wrapper."""
    faults: list[InitErrorDetails] = [
        InitErrorDetails(type=_kind(fault), loc=fault["loc"][1:], input=fault["input"], ctx=fault.get("ctx", {}))
        for fault in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, faults, input_type="json")


def _kind(fault: ErrorDetails) -> str | PydanticCustomError:
    """The kind of a fault, as an error is made of it; of one that a validator invented with its words."""
    if fault["type"] in get_args(ErrorType):
        return fault["type"]
    given: Any = fault
    return PydanticCustomError(given["type"], given["msg"], given.get("ctx"))


def _flattened(form: Any) -> Iterator[Any]:
    """The members of a union, those of unions in it too; what is no union is its own only member."""
    union = _unaliased(form)
    if _origin(union) in _UNIONS:
        for member in get_args(union):
            yield from _flattened(member)
    else:
        yield form


def _only_describes(metadata: object) -> bool:
    """Whether metadata of a union leaves validation to its members."""
    if isinstance(metadata, FieldInfo):
        return not metadata.metadata and metadata.default_factory is None
    return isinstance(metadata, (Discriminator, str, Doc))


def _is_record(type_form: Any) -> bool:
    form = _bare(type_form)
    return is_dataclass(form) or is_typeddict(form) or (isinstance(form, type) and issubclass(form, BaseModel))


def _bare(type_form: Any) -> Any:
    """The class under annotations, aliases, new types and parameters; what is none of these as it is."""
    while True:
        form = _unaliased(type_form)
        if isinstance(form, NewType):
            type_form = form.__supertype__
        elif (origin := _origin(form)) is None:
            return form
        else:
            type_form = get_args(form)[0] if origin is Annotated else origin


def _unaliased(form: Any) -> Any:
    while isinstance(form, ALIASES):
        form = cast("TypeAliasType", form).__value__
    return form


def _origin(form: Any) -> Any:
    return get_origin(form)


def _names(type_form: Any) -> Iterator[str]:
    origin = _origin(type_form)
    if origin is None:
        yield "None" if type_form is type(None) else getattr(type_form, "__name__", "")
    elif origin is Literal:
        yield "Literal"
    elif origin is Annotated:
        yield from _names(get_args(type_form)[0])
    elif origin in _UNIONS:
        yield "_or_".join("_".join(_names(member)) for member in get_args(type_form))
    else:
        yield origin.__name__
        for argument in get_args(type_form):
            yield from _names(argument)
