"""Reading what Pydantic has compiled of a type, and what its annotations say beside that.

A core schema is a tree of dicts, documented by `pydantic_core.core_schema`; everything toolcast knows of its
form is in this module and in the wrappers that a `Node` strips (plans.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NewType, NotRequired, Required, Union, cast, get_args, get_origin

import pydantic
from pydantic_core import SchemaValidator, core_schema
from typing_extensions import ReadOnly, get_type_hints

Schema = Mapping[str, Any]
Path = tuple[Any, ...]
_Place = tuple[Schema, bool, bool]  # a schema, whether it is strict, and whether the configuration around it is

FUNCTIONS = frozenset({"function-after", "function-before", "function-wrap", "function-plain"})
"""The schemas that call a validator of the user, or of a library type."""
OBJECTS: Mapping[str, str] = {"model": "model-fields", "dataclass": "dataclass-args", "typed-dict": "typed-dict"}
"""The schemas of things with named fields, and the schema that lists the fields."""
WRAPPERS = FUNCTIONS | {"nullable", "default", "json-or-python"}
"""The schemas around another one for the same value."""
LISTS: Any = (list, tuple)
MAPPINGS: Any = Mapping
"""To be used with `isinstance`: typed as Any, so that what is inside of an Any stays one."""
_READERS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": {"true": True, "false": False}.__getitem__,
}
# Scalars that Pydantic validates from their own text and from nothing else.
_LEAVES = frozenset({"date", "time", "datetime", "timedelta", "decimal", "uuid", "url", "literal"})
# What the schema of a plain value may hold: nothing of this changes or limits it.
_HARMLESS = {"type", "strict", "ref", "metadata", "serialization", "coerce_numbers_to_str"}
_SAYS_NOTHING = {*_HARMLESS, "schema", "items_schema", "keys_schema", "values_schema"}
_NO_SCHEMAS = {"serialization", "metadata", "config", "expected", "default", "cls", "computed_fields", "function"}
_NO_VALIDATION = {"serialization", "metadata", "config", "expected", "default", "cls", "computed_fields"}


_SECRETS: Final = (pydantic.SecretStr, pydantic.SecretBytes)


def hides_input(schema: Any) -> bool:
    """Return whether the type, or any type in it, is secret or says `hide_input_in_errors`.

    One is enough: the input of an error may be the whole object around the place of the fault.
    """
    ahead, seen = [schema], set[int]()
    while ahead:
        part = ahead.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, LISTS):
            ahead.extend(part)
        elif isinstance(part, MAPPINGS):
            if _is_hidden(part):
                return True
            ahead.extend(value for key, value in part.items() if key not in _NO_VALIDATION)
    return False


def _is_hidden(schema: Schema) -> bool:
    config: Any = schema.get("config")
    cls: Any = schema.get("cls")
    # `Secret[int]` is a schema of `int` inside of functions of the class.
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
"""`Annotated[T, NotNull]`: hold the object back until this field of it is there, and not null."""


class Source:
    """Where a schema stands: the definitions it refers to, the configuration in force, what lies around it."""

    def __init__(
        self, definitions: Mapping[str, Schema], config: Any = None, *, shadowed: bool = False, listed: bool = False
    ) -> None:
        self.definitions = definitions
        self.config = config
        self.shadowed = shadowed
        self.listed = listed  # the schemas here are not those that the classes in them were compiled from
        self.shapes: dict[Any, Any] = {}  # of plans.py, by reference

    def within(self, config: Any, shadowed: bool) -> Source:
        inside = Source(self.definitions, config, shadowed=shadowed, listed=self.listed)
        inside.shapes = self.shapes
        return inside

    def resolved(self, schema: Schema) -> Schema:
        while schema["type"] == "definition-ref":
            schema = self.definitions[schema["schema_ref"]]
        return schema

    def validator(self, schema: Any, *, changed: bool = False) -> SchemaValidator:
        """A validator for a schema found here. `changed`: it is not what the classes in it say of themselves."""
        if self.definitions:
            definitions: Any = list(self.definitions.values())
            schema = core_schema.definitions_schema(schema, definitions)
        make: Any = without_prebuilt if changed or self.listed else SchemaValidator
        validator: SchemaValidator = make(schema, self.config)
        return validator


CAN_SKIP_PREBUILT: Final = tuple(map(int, pydantic.VERSION.split(".")[:2])) >= (2, 13)
"""Whether a validator can be compiled without those that the model classes in its schema bring along."""


def without_prebuilt(schema: Any, config: Any) -> SchemaValidator:
    """Compile a schema that was changed, without the validators of its model classes, which are of the original.

    Older versions of pydantic-core cannot be told so. There a changed schema may be passed over; what it was
    changed for then does not validate, and the caller falls back on the whole text.
    """
    make: Any = SchemaValidator
    validator: SchemaValidator = make(schema, config, **({"_use_prebuilt": False} if CAN_SKIP_PREBUILT else {}))
    return validator


def inside(schema: Schema) -> str:
    """Return the key of the schema that a wrapper is around. In JSON a `Sequence` is a list, in a wrapper."""
    return "json_schema" if schema["type"] == "json-or-python" else "schema"


def sourced(schema: Any, *, listed: bool = False) -> tuple[Any, Source]:
    """Return a whole core schema without its definitions, and the `Source` that has them."""
    definitions: dict[str, Any] = {}
    while schema["type"] == "definitions":
        definitions.update({definition["ref"]: definition for definition in schema["definitions"]})
        schema = schema["schema"]
    return schema, Source(definitions, listed=listed)


def listed(schema: Any) -> Any:
    """Return `schema` with a list in place of each generator, which would be validated only when it is iterated.

    A schema without generators is returned itself.
    """
    if isinstance(schema, LISTS):
        items = [listed(part) for part in schema]
        return items if any(new is not old for new, old in zip(items, schema, strict=True)) else schema
    if not isinstance(schema, MAPPINGS):
        return schema
    parts = {key: listed(part) for key, part in schema.items() if key not in _NO_SCHEMAS}
    if schema.get("type") == "generator":
        parts["type"] = "list"
    elif all(part is schema[key] for key, part in parts.items()):
        return schema
    return {**schema, **parts}


class Strictness:
    """The places of a schema that are strict: `Strict()`, `Field(strict=True)` and `ConfigDict(strict=True)`."""

    def __init__(self, schema: Schema, source: Source) -> None:
        config = _strict_config({"config": source.config})
        self._root: _Place = schema, config, config
        self._source = source

    @cached_property
    def _possible(self) -> bool:
        return self._root[1] or _has_strict([self._root[0], *self._source.definitions.values()])

    def at(self, loc: Path) -> bool:
        """Return whether the value at `loc` is strict, if only by one member of a union."""
        if not self._possible:
            return False
        places = [self._root]
        for part in loc:
            # A part may also name a function or a member of a union, and so lead nowhere.
            found = [child for place in places for child in self._inside(place, part)]
            places = [*found, *(place for place in places if not found or len(list(self._members(*place))) > 1)]
        return any(strict for place in places for _, strict, _ in self._members(*place))

    def _members(self, schema: Schema, strict: bool, config: bool) -> Iterator[_Place]:
        """Yield the schemas that a value may have, without the wrappers around them."""
        schema = self._source.resolved(schema)
        strict = schema.get("strict", strict)
        inner: list[Any] = []
        if schema["type"] in ("union", "tagged-union"):
            choices = schema["choices"]
            inner = list(choices.values()) if isinstance(choices, MAPPINGS) else choices
        elif schema.get("root_model"):
            config = _strict_config(schema)
            inner, strict = [schema["schema"]], strict or config
        elif schema["type"] in WRAPPERS and (key := inside(schema)) in schema:
            inner = [schema[key]]
        else:
            yield schema, strict, config
        for choice in inner:  # with its label, if it has one
            yield from self._members(choice[0] if isinstance(choice, LISTS) else choice, strict, config)

    def _inside(self, place: _Place, part: Any) -> Iterator[_Place]:
        """Yield what `part` of a location leads to."""
        for schema, _, config in self._members(*place):
            if schema["type"] in OBJECTS:
                own = _strict_config(schema)
                for name, field in fields_of(self._source, schema) or ():
                    paths = paths_of(name, field, schema.get("config") or {})
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
    if isinstance(schema, LISTS):
        return any(map(_has_strict, schema))
    if not isinstance(schema, MAPPINGS):
        return False
    own = schema.get("strict") is True or _strict_config(schema)
    return own or any(_has_strict(part) for key, part in schema.items() if key not in _NO_SCHEMAS)


def says_nothing(core: Schema) -> bool:
    """Whether a schema neither limits nor changes what its type alone lets through."""
    return not set(core) - _SAYS_NOTHING


def reader_of(core: Schema) -> Callable[[str], Any] | None:
    """What reads the JSON text of a plain scalar, faster than its validator; ValueError or KeyError for others."""
    return _READERS.get(core["type"]) if says_nothing(core) else None


def is_leaf(core: Schema) -> bool:
    """Whether this is a scalar that its own validator can be asked about, and that calls nobody."""
    if core["type"] == "enum":
        asked: Any = core["cls"]._missing_  # may be the user's
        nobody: Any = enum.Enum._missing_
        return asked.__func__ is nobody.__func__
    return core["type"] in _LEAVES


def object_of(source: Source, core: Schema) -> Schema:
    """The schema of an object's fields, inside the validators around it."""
    inner = core if core["type"] == "typed-dict" else source.resolved(core["schema"])
    while inner["type"] in FUNCTIONS and "schema" in inner:
        inner = source.resolved(inner["schema"])
    return inner


def raw_validators(source: Source, core: Schema) -> bool:
    """Whether validators inside of the object want to see the raw data."""
    return object_of(source, core) is not (core if core["type"] == "typed-dict" else core["schema"])


def fields_of(source: Source, core: Schema) -> list[tuple[str, Schema]] | None:
    """The fields of an object; None where its schema is of another form."""
    inner = object_of(source, core)
    if inner["type"] != OBJECTS[core["type"]]:
        return None
    fields: Any = inner["fields"]
    return [(field["name"], field) for field in fields] if isinstance(fields, LISTS) else list(fields.items())


def paths_of(name: str, field: Schema, config: Schema) -> list[Path]:
    """Where in the object the field may stand, the place that wins first."""
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
    """The keys that may hold the tag; none where it is found in another way."""
    if isinstance(discriminator, str):
        return frozenset({discriminator})
    if not isinstance(discriminator, LISTS):
        return frozenset()
    paths = _alias_paths(discriminator)
    return frozenset(str(path[0]) for path in paths) if all(len(path) == 1 for path in paths) else frozenset()


def has_functions(schema: Any, source: Source, seen: frozenset[str] = frozenset()) -> bool:
    """Whether validating calls anything but Pydantic."""
    if isinstance(schema, LISTS):
        return any(has_functions(part, source, seen) for part in schema)
    if not isinstance(schema, MAPPINGS):
        return False
    kind = schema.get("type")
    if kind == "definition-ref":
        ref = schema["schema_ref"]
        return ref not in seen and has_functions(source.definitions[ref], source, seen | {ref})
    if kind in FUNCTIONS or schema.get("custom_init") or schema.get("post_init"):
        return True
    return any(has_functions(part, source, seen) for key, part in schema.items() if key not in _NO_VALIDATION)


def hints_of(cls: Any) -> Mapping[str, Any]:
    """The annotations of a class's fields, with their markers."""
    fields = getattr(cls, "__pydantic_fields__", None)
    if fields is not None:
        return {name: Annotated[(field.annotation, None, *field.metadata)] for name, field in fields.items()}
    try:
        return get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):  # names that only the schema's own namespace knows: strings with validators wait
        return {}


def bare(hint: Any) -> tuple[Any, frozenset[Any]]:
    """The annotation without what is wrapped around it, and the markers found there."""
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
