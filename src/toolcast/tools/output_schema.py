"""Output types: validators, and JSON Schemas of the tool parameters.

Pydantic generates the schema (validation mode, by alias); here it is converted to the form that every service accepts.
The root is an object: a reference at the root is resolved, and a type that is not a JSON object is wrapped as
`{"value": ...}`. Titles that only repeat names are dropped, and so is `discriminator`, which is not JSON Schema.
`$defs` stay; a provider that does not accept them inlines them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
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
    to_jsonable_python,
)
from pydantic_core.core_schema import ErrorType
from typing_extensions import Doc, TypeAliasType, is_typeddict

from ..errors import OutputTypeError
from ..lazy.lazy_dataclasses import dataclass
from ..parsing import tool_arguments as parsing
from ..parsing.core_schemas import (
    CAN_SKIP_PREBUILT,
    Strictness,
    generators_to_lists,
    has_functions,
    hides_input,
    split_definitions,
    without_prebuilt,
)
from ..text.json_text import finite, json_text
from ..values.tool_spec import legal_name
from .list_types import ALIASES, as_lists, explain_lazy

Schema: TypeAlias = dict[str, Any]

_UNIONS: tuple[Any, ...] = (Union, types.UnionType)

ALLOWED = (
    "a Pydantic model, another type that Pydantic can validate "
    "(a dataclass, TypedDict, list[...], int, Literal[...]), a union of such types, or a function"
)
"""The types that an output type may be, for error messages."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """An output type: its validator, and the schema of the arguments that contain it.

    `type_form` is the type with lists in place of iterables. `wrapper` validates `{"value": ...}` if the type itself is
    not a JSON object.
    """

    type_form: Any
    adapter: TypeAdapter[Any]
    parameters: Schema
    validator: TypeValidator
    wrapper: TypeValidator | None = None

    @property
    def wrapped(self) -> bool:
        """True if the arguments are `{"value": ...}`."""
        return self.wrapper is not None

    @property
    def hides_input(self) -> bool:
        """True if the type requires that its input stays out of errors."""
        return self.validator.hides_input

    def read(self, text: str, context: Any) -> tuple[Any, tuple[str, ...]]:
        """Return the value of the arguments `text`, and its repairs. Raise Pydantic's `ValidationError`."""
        if self.wrapper is None:
            return self.validator.read(text, context)
        try:
            outer, repairs = self.wrapper.read(text, context)
        except ValidationError as error:
            if _lacks_wrapper(error):
                with suppress(ValidationError):
                    value, repairs = self.validator.read(text, context)
                    return value, ("took the whole arguments as the value", *repairs)
            raise _unwrapped_error(error) from None
        if parsing.ONE_OF_SEVERAL in repairs and self._has_another(outer.value, text, context):
            raise parsing.ambiguous(self.validator.validator, text, 2)
        return outer.value, repairs

    def _has_another(self, value: Any, text: str, context: Any) -> bool:
        """Return True if another value of the text is one without its wrapper."""
        with suppress(ValidationError):
            bare, _ = self.validator.read(text, context)
            return bool(bare != value)
        return False

    def dump(self, value: Any) -> str:
        """Return the arguments that parse to `value`. Raise Pydantic's `ValidationError`."""
        valid = self.validator.validator.validate_python(value)
        # round_trip leaves out computed fields, which no model would write.
        try:
            text = self.adapter.dump_json(valid, by_alias=True, round_trip=True, warnings=False).decode()
        except PydanticSerializationError:  # half of a surrogate pair
            text = json_text(self.adapter.dump_python(valid, by_alias=True, round_trip=True, warnings=False))
        return f'{{"value":{text}}}' if self.wrapped else text


def output_schema(type_form: Any) -> OutputSchema:
    """Return the `OutputSchema` of a type. Raise `OutputTypeError` if it cannot be an output type."""
    form = as_lists(type_form)
    adapter = _adapter(form)
    try:
        schema = normalize(adapter.json_schema(schema_generator=ToolSchema))
        explain = partial(explain_lazy, form)
        validator = TypeValidator(adapter.core_schema, adapter.validator, type_form, explain)
        if schema.get("type") == "object":
            return OutputSchema(form, adapter, schema, validator)
        wrapper = create_model(name_of(form), value=(form, ...))
        core, compiled = wrapper.__pydantic_core_schema__, wrapper.__pydantic_validator__
        wrapper_validator = TypeValidator(core, compiled, type_form, explain)
    except (PydanticUserError, RecursionError) as error:
        raise unusable(type_form, error) from error
    return OutputSchema(form, adapter, wrap(schema), validator, wrapper_validator)


class TypeValidator:
    """The compiled validator of a type, and the schema that it was compiled from.

    Generators in the schema become lists in the validator. `explain(unsupported)` describes an iterator or generator in
    `owner`, the type or function, that cannot be parsed; then an `OutputTypeError` is raised.
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
        """True if the type requires that its input stays out of errors."""
        return hides_input(self._schema)

    @cached_property
    def _strictness(self) -> Strictness:
        return Strictness(*split_definitions(self._schema))

    def read(self, text: str, context: Any, optional: Collection[str] = ()) -> tuple[Any, tuple[str, ...]]:
        """Return the value in the JSON `text`, and its repairs. Raise Pydantic's `ValidationError`."""
        return parsing.parse_json(
            self.validator, text, context=context, is_strict=lambda loc: self._strictness.at(loc), optional=optional
        )


def calls_functions(type_form: Any) -> bool:
    """Return whether validating a `type_form` calls functions, such as validators: they may take any time."""
    schema, source = split_definitions(_adapter(type_form).core_schema)
    return has_functions(schema, source)


def wrap(schema: Mapping[str, Any]) -> Schema:
    """Return the schema of `{"value": ...}` around `schema`."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: Schema = {"type": "object", "properties": {"value": inner}, "required": ["value"]}
    return outer | {"$defs": schema["$defs"]} if "$defs" in schema else outer


def union_members(type_form: Any) -> tuple[Any, ...] | None:
    """Return the members of a union of models, dataclasses or TypedDicts; None for any other type.

    A discriminated union counts. A union with its own validator does not: it is validated as a whole.
    """
    form = _resolve_alias(type_form)
    if _origin(form) is Annotated:
        form, *metadata = get_args(form)
        if not all(_only_describes(item) for item in metadata):
            return None
    members = tuple(_flattened(form))
    return members if len(members) > 1 and all(_is_record(member) for member in members) else None


def is_type_form(value: object) -> bool:
    """Return whether `value` is a type or a typing construct, rather than an instance or a function."""
    return isinstance(value, (type, NewType, *ALIASES)) or get_origin(value) is not None


def name_of(type_form: Any) -> str:
    """Return a tool name for a `type_form` that every service accepts: `Album`, `list_Song`."""
    return legal_name("_".join(_names(type_form)) or "output")


def description_of(type_form: Any) -> str | None:
    """Return the docstring of the type, unless it was generated; None if there is none."""
    form = _unwrap(type_form)
    if isinstance(form, type) and issubclass(form, BaseModel):
        form = form.__pydantic_generic_metadata__["origin"] or form
    if not isinstance(form, type) or form.__module__ == "builtins":
        return None
    written = form.__dict__.get("__doc__")
    # Dataclasses and named tuples generate "Point(x: int)".
    if not written or written.startswith(f"{form.__name__}("):
        return None
    return cleandoc(written)


def enclosing_locals(qualname: str) -> dict[str, Any]:
    """Return the local names of the running function in which a class or function was defined."""
    outer, _, _ = qualname.rpartition(".<locals>.")
    frame = currentframe() if outer else None
    while frame is not None and frame.f_code.co_qualname != outer:
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def unusable(type_form: object, why: object) -> OutputTypeError:
    """Return the error for a type that cannot be an output type."""
    if isinstance(why, Exception):
        why = explain_lazy(type_form, True) or why
    reason = str(why).partition("\n")[0].rstrip(".")
    return OutputTypeError(f"{type_form!r:.100} cannot be an output type: {reason}. An output type is {ALLOWED}")


class ToolSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema without generated titles and warnings."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 Pydantic's declaration

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: a title would only repeat the name of the field."""
        return False

    def encode_default(self, dft: Any) -> Any:
        """Return the default as JSON data, with numbers that JSON does not have: Pydantic would write null for them."""
        encoded: object = super().encode_default(dft)
        if not isinstance(encoded, (list, dict)):
            return encoded
        exact = to_jsonable_python(dft, by_alias=self.by_alias, inf_nan_mode="constants")
        return cast("Any", encoded) if _is_json(exact) else exact


def normalize(schema: Schema) -> Schema:
    """Return Pydantic's schema in the form that services accept; the description of the root is dropped."""
    clean = _normalize(schema)
    definitions: dict[str, Schema] = {
        name: _untitled(definition) for name, definition in clean.pop("$defs", {}).items()
    }
    root = _untitled(_resolve_root(clean, definitions))
    if root.get("type") == "object":
        root.pop("description", None)
        root.setdefault("properties", {})
    used = _used_definitions(root, definitions)
    return root | {"$defs": {name: definitions[name] for name in definitions if name in used}} if used else root


def _normalize(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    given = cast("Schema", schema)
    normal = {
        _RENAMED.get(key, key): _normalize_value(key, value)
        for key, value in given.items()
        if key != "discriminator" and not _is_infinite_limit(key, value)
    }
    if not _is_json(normal.get("default")):  # infinity, for example
        normal["description"] = f"{normal.get('description', '')}\nDefault: {normal.pop('default')}".strip()
    for key in ("examples", "enum"):
        if not _is_json(normal.get(key)):
            normal[key] = [value for value in normal[key] if _is_json(value)]
    return normal


def _is_json(value: Any) -> bool:
    return isinstance(value, (str, int, types.NoneType)) or finite(value) == value


def _normalize_value(key: str, value: Any) -> Any:
    if key in _NAMED:
        return {name: _normalize(schema) for name, schema in value.items()}
    if key in _SEVERAL:
        return [_normalize(schema) for schema in value]
    if key in _ONE:
        return _normalize(value)
    return value if key in _EXACT else finite(value)


def _is_infinite_limit(key: str, value: Any) -> bool:
    """Return whether it says nothing: a `maximum` of infinity, for example."""
    return key not in _EXACT and isinstance(value, float) and not _is_json(value)


_NAMED = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_SEVERAL = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ONE = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})
_EXACT = frozenset({"default", "examples", "enum"})
_RENAMED = {"oneOf": "anyOf"}  # several services refuse oneOf; Pydantic validates the difference


def _untitled(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


_REF = "#/$defs/"


def _resolve_root(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return `schema` without a reference at its root."""
    while str(schema.get("$ref", "")).startswith(_REF):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = definitions[schema["$ref"].removeprefix(_REF)] | beside
    return schema


def _used_definitions(root: Schema, definitions: Mapping[str, Schema]) -> set[str]:
    """Return the names of the definitions that `root` uses, directly or through others."""
    used: set[str] = set()
    pending = [root]
    while pending:
        names = {ref.removeprefix(_REF) for ref in _refs(pending.pop())} & definitions.keys() - used
        used |= names
        pending += [definitions[name] for name in names]
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
        raise unusable(given, "None has no value that a model could write")
    if isinstance(given, (str, ForwardRef)):
        raise unusable(given, "it is the name of a type; pass the type itself")
    if not is_type_form(given):
        raise unusable(given, f"it is an instance of {type(given).__name__}, not a type")
    _rebuild(type_form)
    try:
        return TypeAdapter(type_form)
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, RuntimeError) as error:
        raise unusable(type_form, error) from error


def _rebuild(type_form: Any) -> None:
    """Complete a model with the classes that were defined after it, inside the same function."""
    if not getattr(type_form, "__pydantic_complete__", True):
        names = enclosing_locals(type_form.__qualname__)
        rebuild = getattr(type_form, "model_rebuild", partial(rebuild_dataclass, type_form))
        rebuild(raise_errors=False, _types_namespace=names or None)


def _lacks_wrapper(error: ValidationError) -> bool:
    return all(
        not problem["loc"] or (problem["loc"] == ("value",) and problem["type"] == "missing")
        for problem in error.errors(include_url=False)
    )


def _unwrapped_error(error: ValidationError) -> ValidationError:
    """Return `error` with locations that start inside the wrapper."""
    problems: list[InitErrorDetails] = [
        InitErrorDetails(
            type=_kind(problem), loc=problem["loc"][1:], input=problem["input"], ctx=problem.get("ctx", {})
        )
        for problem in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, problems, input_type="json")


def _kind(problem: ErrorDetails) -> str | PydanticCustomError:
    """Return the type of an error detail; a custom error for one that a validator defined."""
    if problem["type"] in get_args(ErrorType):
        return problem["type"]
    given: Any = problem
    return PydanticCustomError(given["type"], given["msg"], given.get("ctx"))


def _flattened(form: Any) -> Iterator[Any]:
    """Yield the members of a union and of unions in it; any other type is its own only member."""
    union = _resolve_alias(form)
    if _origin(union) in _UNIONS:
        for member in get_args(union):
            yield from _flattened(member)
    else:
        yield form


def _only_describes(metadata: object) -> bool:
    """Return whether metadata of a union leaves validation to its members."""
    if isinstance(metadata, FieldInfo):
        return not metadata.metadata and metadata.default_factory is None
    return isinstance(metadata, (Discriminator, str, Doc))


def _is_record(type_form: Any) -> bool:
    form = _unwrap(type_form)
    return is_dataclass(form) or is_typeddict(form) or (isinstance(form, type) and issubclass(form, BaseModel))


def _unwrap(type_form: Any) -> Any:
    """Return the class under annotations, aliases, new types and parameters."""
    while True:
        form = _resolve_alias(type_form)
        if isinstance(form, NewType):
            type_form = form.__supertype__
        elif (origin := _origin(form)) is None:
            return form
        else:
            type_form = get_args(form)[0] if origin is Annotated else origin


def _resolve_alias(form: Any) -> Any:
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
