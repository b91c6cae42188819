"""Inspection of Pydantic core schemas and annotations.

A core schema is a tree of dicts, documented by `pydantic_core.core_schema`. Everything toolcast relies on about its
form is in this module and in the wrappers that a `FieldPlan` strips (`type_plan`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NewType, NotRequired, Required, Union, cast, get_args, get_origin

import pydantic
from pydantic_core import SchemaValidator, core_schema
from typing_extensions import ReadOnly, get_type_hints

Schema = Mapping[str, Any]
Path = tuple[Any, ...]
_Place = tuple[Schema, bool, bool]  # a schema, its strictness, and that of the configuration around it

FUNCTIONS = frozenset({"function-after", "function-before", "function-wrap", "function-plain"})
"""The schema types that call a validator of the user or of a library type."""
OBJECTS: Mapping[str, str] = {"model": "model-fields", "dataclass": "dataclass-args", "typed-dict": "typed-dict"}
"""The schema types of objects with named fields, and the type of the inner schema that lists the fields."""
WRAPPERS = FUNCTIONS | {"nullable", "default", "json-or-python"}
"""The schema types that wrap another schema for the same value."""
LISTS: Any = (list, tuple)
MAPPINGS: Any = Mapping
"""For `isinstance` only. Typed as Any, so that a checker does not narrow the items of a value typed Any."""
_SCALAR_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": {"true": True, "false": False}.__getitem__,
}
# Scalars that Pydantic validates from their own text alone.
_PLAIN_SCALARS = frozenset({"date", "time", "datetime", "timedelta", "decimal", "uuid", "url", "literal"})
# Schema keys that neither change nor limit a value.
_HARMLESS = {"type", "strict", "ref", "metadata", "serialization", "coerce_numbers_to_str"}
_UNCONSTRAINED = {*_HARMLESS, "schema", "items_schema", "keys_schema", "values_schema"}
_NO_SCHEMAS = {"serialization", "metadata", "config", "expected", "default", "cls", "computed_fields", "function"}
_NO_VALIDATION = {"serialization", "metadata", "config", "expected", "default", "cls", "computed_fields"}

_NAMED: Final = ("fields", "properties", "choices", "$defs")

_SECRETS: Final = (pydantic.SecretStr, pydantic.SecretBytes)


def has_serializer(field: Schema) -> bool:
    """Return True if a field is not dumped as the value that it has: it has a serializer, or is excluded."""
    if field.get("serialization_exclude") or "serialization_exclude_if" in field:
        return True
    schema: Schema = field["schema"]
    while schema["type"] in WRAPPERS and "serialization" not in schema and "schema" in schema:
        schema = schema["schema"]
    return "serialization" in schema


def hides_input(schema: Any) -> bool:
    """Return whether the type, or any type in it, is secret or sets `hide_input_in_errors`.

    One is enough: the input of an error may be the whole object around the invalid value.
    """
    ahead, seen = [schema], set[int]()
    while ahead:
        part = ahead.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, MAPPINGS) and _is_hidden(part):
            return True
        ahead.extend(_inner(part, _NO_VALIDATION))
    return False


def visible_names(schema: Any) -> frozenset[str]:
    """Return the names of fields and types in a schema of Pydantic or a JSON Schema.

    Other names in the location of an error are those that the input has: keys, and fields that are forbidden.
    """
    ahead, seen, names = [schema], set[int](), set[str]()
    while ahead:
        part = ahead.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, MAPPINGS):
            for key in _NAMED:
                named: Any = part.get(key)
                names.update(map(str, named if isinstance(named, MAPPINGS) else ()))
            given: list[Any] = [part.get("name"), getattr(part.get("cls"), "__name__", None)]
            alias: Any = part.get("validation_alias")
            for path in alias if isinstance(alias, LISTS) else [alias]:
                given += path if isinstance(path, LISTS) else [path]
            names.update(each for each in given if isinstance(each, str))
        ahead.extend(_inner(part, ()))
    return frozenset(names)


def _inner(schema: Any, skipped: Collection[str]) -> Any:
    """Return the parts of a schema. Fields may have any name, also one that a schema has for its own parts."""
    if isinstance(schema, LISTS):
        return schema
    if not isinstance(schema, MAPPINGS):
        return ()
    is_schema = isinstance(schema.get("type"), str)
    return [part for key, part in schema.items() if not (is_schema and key in skipped)]


def _is_hidden(schema: Schema) -> bool:
    config: Any = schema.get("config")
    cls: Any = schema.get("cls")
    # `Secret[int]` compiles to a schema of `int` inside functions of the class.
    name = getattr(schema.get("function"), "__qualname__", "")
    return (
        (isinstance(config, dict) and cast("Schema", config).get("hide_input_in_errors") is True)
        or (isinstance(cls, type) and issubclass(cls, _SECRETS))
        or name.startswith("Secret.__get_pydantic_core_schema__.")
    )


class _Marker(enum.Enum):
    DONE = "Done"
    NOT_NULL = "NotNull"

    def __repr__(self) -> str:
        return self.value


Done: Final = _Marker.DONE
"""`Annotated[str, Done]`: show the value only when it is complete."""

NotNull: Final = _Marker.NOT_NULL
"""`Annotated[T, NotNull]`: show the object only after this field has arrived and is not null."""


class SchemaSource:
    """The context of a schema: the definitions it refers to and the configuration in force.

    `inside_raw` is True inside a container whose validators receive its raw data. `listed` is True if generators were
    replaced by lists, so that the schemas are not those that the model classes were compiled from.
    """

    def __init__(
        self, definitions: Mapping[str, Schema], config: Any = None, *, inside_raw: bool = False, listed: bool = False
    ) -> None:
        self.definitions = definitions
        self.config = config
        self.inside_raw = inside_raw
        self.listed = listed  # generators were replaced, so prebuilt validators do not apply
        self.container_plans: dict[Any, Any] = {}  # cache of `type_plan`, by schema reference

    def nested(self, config: Any, inside_raw: bool) -> SchemaSource:
        """Return the source of a schema inside this one."""
        inside = SchemaSource(self.definitions, config, inside_raw=inside_raw, listed=self.listed)
        inside.container_plans = self.container_plans
        return inside

    def resolve(self, schema: Schema) -> Schema:
        """Return the schema that a chain of references ends in."""
        while schema["type"] == "definition-ref":
            schema = self.definitions[schema["schema_ref"]]
        return schema

    def validator(self, schema: Any, *, changed: bool = False) -> SchemaValidator:
        """Compile a validator for a schema found here.

        Args:
            schema: A core schema, which may refer to the definitions of this source.
            changed: True if the schema differs from the ones the model classes in it were compiled from.
        """
        if self.definitions:
            definitions: Any = list(self.definitions.values())
            schema = core_schema.definitions_schema(schema, definitions)
        make: Any = without_prebuilt if changed or self.listed else SchemaValidator
        validator: SchemaValidator = make(schema, self.config)
        return validator


CAN_SKIP_PREBUILT: Final = tuple(map(int, pydantic.VERSION.split(".")[:2])) >= (2, 13)
"""True if pydantic-core can compile a schema without the prebuilt validators of its model classes (2.13)."""


def without_prebuilt(schema: Any, config: Any) -> SchemaValidator:
    """Compile a changed schema without the prebuilt validators of its model classes.

    Before pydantic 2.13 a prebuilt validator of the original schema may be used instead. The change then has no effect,
    the value does not validate, and the caller falls back on the whole text.
    """
    make: Any = SchemaValidator
    validator: SchemaValidator = make(schema, config, **({"_use_prebuilt": False} if CAN_SKIP_PREBUILT else {}))
    return validator


def inner_key(schema: Schema) -> str:
    """Return the key under which a wrapper schema has its inner schema; `json-or-python` has one per mode."""
    return "json_schema" if schema["type"] == "json-or-python" else "schema"


def split_definitions(schema: Any, *, listed: bool = False) -> tuple[Any, SchemaSource]:
    """Return a core schema without its definitions, and the `SchemaSource` that contains them."""
    definitions: dict[str, Any] = {}
    while schema["type"] == "definitions":
        definitions.update({definition["ref"]: definition for definition in schema["definitions"]})
        schema = schema["schema"]
    return schema, SchemaSource(definitions, listed=listed)


def generators_to_lists(schema: Any) -> Any:
    """Return `schema` with a list in place of each generator, which would only be validated when iterated.

    A schema without generators is returned itself.
    """
    if isinstance(schema, LISTS):
        items = [generators_to_lists(part) for part in schema]
        return items if any(new is not old for new, old in zip(items, schema, strict=True)) else schema
    if not isinstance(schema, MAPPINGS):
        return schema
    is_schema = isinstance(schema.get("type"), str)  # else a field may have any of these names
    own = _NO_SCHEMAS if is_schema else ()
    parts = {key: generators_to_lists(part) for key, part in schema.items() if key not in own}
    if schema.get("type") == "generator":
        parts["type"] = "list"
    elif all(part is schema[key] for key, part in parts.items()):
        return schema
    return {**schema, **parts}


class Strictness:
    """The strict places of a schema: `Strict()`, `Field(strict=True)` and `ConfigDict(strict=True)`."""

    def __init__(self, schema: Schema, source: SchemaSource) -> None:
        config = _strict_config({"config": source.config})
        self._root: _Place = schema, config, config
        self._source = source

    @cached_property
    def _possible(self) -> bool:
        return self._root[1] or _has_strict([self._root[0], *self._source.definitions.values()])

    def at(self, loc: Path) -> bool:
        """Return whether the value at `loc` is strict, if only in one member of a union."""
        if not self._possible:
            return False
        places = [self._root]
        for part in loc:
            # A part may also name a function or a union member, which indexes nothing.
            found = [child for place in places for child in self._inside(place, part)]
            places = [*found, *(place for place in places if not found or len(list(self._members(*place))) > 1)]
        return any(strict for place in places for _, strict, _ in self._members(*place))

    def _members(self, schema: Schema, strict: bool, config: bool) -> Iterator[_Place]:
        """Yield the schemas that a value may match, without the wrappers around them."""
        schema = self._source.resolve(schema)
        strict = schema.get("strict", strict)
        inner: list[Any] = []
        if schema["type"] in ("union", "tagged-union"):
            choices = schema["choices"]
            inner = list(choices.values()) if isinstance(choices, MAPPINGS) else choices
        elif schema.get("root_model"):
            config = _strict_config(schema)
            inner, strict = [schema["schema"]], strict or config
        elif schema["type"] in WRAPPERS and (key := inner_key(schema)) in schema:
            inner = [schema[key]]
        else:
            yield schema, strict, config
        for choice in inner:  # a choice may be a tuple of schema and label
            yield from self._members(choice[0] if isinstance(choice, LISTS) else choice, strict, config)

    def _inside(self, place: _Place, part: Any) -> Iterator[_Place]:
        """Yield the schemas that the part `part` of a location leads to."""
        for schema, _, config in self._members(*place):
            if schema["type"] in OBJECTS:
                own = _strict_config(schema)
                for name, field in object_fields(self._source, schema) or ():
                    paths = key_paths(name, field, schema.get("config") or {})
                    if part == name or any(part == path[0] for path in paths):
                        yield field["schema"], own, own
                continue
            items: Any = schema.get("values_schema", [])
            if isinstance(part, int) and "items_schema" in schema:
                items = schema["items_schema"]
            for item in items if isinstance(items, LISTS) else [items]:
                yield item, config, config


def _strict_config(schema: Schema) -> bool:
    config: Any = schema.get("config") or {}
    return bool(config.get("strict"))


def _has_strict(schema: Any) -> bool:
    own = isinstance(schema, MAPPINGS) and (schema.get("strict") is True or _strict_config(schema))
    return own or any(map(_has_strict, _inner(schema, _NO_SCHEMAS)))


def is_unconstrained(core: Schema) -> bool:
    """Return whether a schema neither limits nor changes the values of its type."""
    return not set(core) - _UNCONSTRAINED


def scalar_parser(core: Schema) -> Callable[[str], Any] | None:
    """Return a parser for the JSON text of a plain scalar, faster than its validator; None for other types.

    The parser raises `ValueError` or `KeyError` for text of another type.
    """
    return _SCALAR_PARSERS.get(core["type"]) if is_unconstrained(core) else None


def is_plain_scalar(core: Schema) -> bool:
    """Return whether a scalar can be validated alone, without calling the user's code."""
    if core["type"] == "enum":
        method: Any = core["cls"]._missing_  # may be overridden by the user
        default: Any = enum.Enum._missing_
        return method.__func__ is default.__func__
    return core["type"] in _PLAIN_SCALARS


def fields_schema(source: SchemaSource, core: Schema) -> Schema:
    """Return the schema of an object's fields, inside the validators around it."""
    inner = core if core["type"] == "typed-dict" else source.resolve(core["schema"])
    while inner["type"] in FUNCTIONS and "schema" in inner:
        inner = source.resolve(inner["schema"])
    return inner


def has_raw_validators(source: SchemaSource, core: Schema) -> bool:
    """Return whether validators inside an object schema receive the raw data."""
    return fields_schema(source, core) is not (core if core["type"] == "typed-dict" else core["schema"])


def object_fields(source: SchemaSource, core: Schema) -> list[tuple[str, Schema]] | None:
    """Return the names and schemas of an object's fields; None if its schema has another form."""
    inner = fields_schema(source, core)
    if inner["type"] != OBJECTS[core["type"]]:
        return None
    fields: Any = inner["fields"]
    return [(field["name"], field) for field in fields] if isinstance(fields, LISTS) else list(fields.items())


def key_paths(name: str, field: Schema, config: Schema) -> list[Path]:
    """Return the paths in the object at which a field may be found, in order of precedence."""
    alias = field.get("validation_alias")
    if alias is None or config.get("validate_by_alias") is False:
        return [(name,)]
    paths: list[Path] = [(alias,)] if isinstance(alias, str) else _alias_paths(alias)
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    return [*paths, (name,)] if by_name and (name,) not in paths else paths


def _alias_paths(alias: list[Any]) -> list[Path]:
    paths = alias if isinstance(alias[0], list) else [alias]
    return [tuple(path) for path in paths]


def tag_keys(discriminator: Any) -> frozenset[str]:
    """Return the keys that may contain the tag of a union; none if a function determines it."""
    if isinstance(discriminator, str):
        return frozenset({discriminator})
    if not isinstance(discriminator, LISTS):
        return frozenset()
    paths = _alias_paths(discriminator)
    return frozenset(str(path[0]) for path in paths) if all(len(path) == 1 for path in paths) else frozenset()


def has_functions(schema: Any, source: SchemaSource, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether validating calls anything but Pydantic."""
    kind: Any = schema.get("type") if isinstance(schema, MAPPINGS) else None
    if kind == "definition-ref":
        ref = schema["schema_ref"]
        return ref not in seen and has_functions(source.definitions[ref], source, seen | {ref})
    if isinstance(kind, str) and (kind in FUNCTIONS or schema.get("custom_init") or schema.get("post_init")):
        return True
    return any(has_functions(part, source, seen) for part in _inner(schema, _NO_VALIDATION))


def field_hints(cls: Any) -> Mapping[str, Any]:
    """Return the annotations of a class's fields, with their markers."""
    fields = getattr(cls, "__pydantic_fields__", None)
    if fields is not None:
        return {name: Annotated[(field.annotation, None, *field.metadata)] for name, field in fields.items()}
    try:
        return get_type_hints(cls, include_extras=True)
    except (
        NameError,
        TypeError,
    ):  # names defined in the schema's own namespace only: such strings are shown when complete
        return {}


def unwrap_annotation(hint: Any) -> tuple[Any, frozenset[Any]]:
    """Return an annotation without its wrappers, and the markers found in them."""
    markers: set[Any] = set()
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            markers.update(mark for mark in hint.__metadata__ if isinstance(mark, _Marker))
            hint = hint.__origin__
        elif hasattr(hint, "__value__"):  # a type alias, of `typing` or of `typing_extensions`
            hint = hint.__value__
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif origin in (Union, UnionType):
            members = [member for member in get_args(hint) if member is not NoneType]
            if len(members) != 1:
                return hint, frozenset(markers)
            hint = members[0]
        elif origin in (Required, NotRequired, ReadOnly):
            hint = get_args(hint)[0]
        else:
            return hint, frozenset(markers)
