"""A Pydantic type for a JSON Schema: the part of JSON Schema that describes extracted data.

References are resolved within the document, recursive ones to objects too; others are errors, so that no schema makes
the program read a file or an address. A keyword that would change what is valid and is not implemented is an error,
never ignored. An optional property that the model leaves out is null, or the schema's default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Annotated, Any, Final, ForwardRef, Literal, Union, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model

from .one_line_schema import field_name

_ANNOTATIONS: Final = frozenset(
    (
        *("$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly", "format", "discriminator"),
    )
)
"""Keywords that do not change what is valid, and `format`, which does for the formats below."""

_FORMATS: Final[Mapping[str, type]] = {"date": date, "date-time": datetime, "time": time, "uuid": UUID}
_CONSTRAINTS: Final[Mapping[str, str]] = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minItems": "min_length",
    "maxItems": "max_length",
}
_OBJECT: Final = ("properties", "required", "additionalProperties")
_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "boolean": (),
    "null": (),
    "array": ("items", "minItems", "maxItems"),
    "object": _OBJECT,
}
"""The keywords of each type."""

_ALTERNATIVES: Final = ("$ref", "enum", "const", "anyOf", "oneOf", "allOf")


class JSONSchemaError(ValueError):
    """A JSON Schema that cannot become a type; the message has the place, as a JSON pointer."""

    def __init__(self, reason: str, place: str) -> None:
        super().__init__(f"{reason} (at {place})")


def type_from_json_schema(schema: object) -> Any:
    """Return a type that Pydantic validates as `schema` describes; an object becomes a subclass of `BaseModel`.

    Raises:
        JSONSchemaError: The document is not a JSON Schema, refers to another document, or uses a keyword that is not
            implemented.
    """
    return _TypeBuilder(schema).build()


class _TypeBuilder:
    """The conversion of one document."""

    def __init__(self, document: object) -> None:
        self._document = document
        self._by_reference: dict[str, Any] = {}
        self._under_way: dict[str, str] = {}  # references that are being converted, and the names of their types
        self._recursive: set[str] = set()
        self._models: list[type[BaseModel]] = []

    def build(self) -> Any:
        """Return the type of the document."""
        built = self._reference("#", "#")
        for reference in self._recursive:
            if not isinstance(self._by_reference[reference], type):
                raise JSONSchemaError("a schema that contains itself has to be an object with properties", reference)
        names = {name: self._by_reference[reference] for reference, name in self._under_way.items()}
        for model in self._models:
            model.model_rebuild(_types_namespace=names)
        return built

    def _type(self, schema: object, place: str) -> Any:
        if schema is True:
            return Any
        if not isinstance(schema, dict):
            raise JSONSchemaError(f"expected a schema, which is an object, got {schema!r:.50}", place)
        node = cast("dict[str, Any]", schema)
        found = [keyword for keyword in _ALTERNATIVES if keyword in node]
        if not found:
            return self._of_types(node, place)
        keyword = found[0]
        # Beside an alternative, "type" repeats what the values are; anything else would have to be combined with it.
        self._check_keywords(node, (keyword, "type"), place)
        return self._alternative(keyword, node[keyword], f"{place}/{keyword}")

    def _alternative(self, keyword: str, value: Any, place: str) -> Any:
        if keyword == "$ref":
            return self._reference(value, place)
        if keyword in ("enum", "const"):
            return _literal([value] if keyword == "const" else value, place)
        if not isinstance(value, list) or not value:
            raise JSONSchemaError(f"expected a list of schemas, got {value!r:.50}", place)
        members = cast("Sequence[Any]", value)
        if keyword == "allOf" and len(members) > 1:
            raise JSONSchemaError("allOf with several schemas is not implemented: write them as one", place)
        return _union([self._type(each, f"{place}/{number}") for number, each in enumerate(members)])

    def _of_types(self, node: dict[str, Any], place: str) -> Any:
        """Return the type of a schema with the keyword `type`, or without any restriction."""
        named: Any = node.get("type", "object" if "properties" in node else None)
        if named is None:
            self._check_keywords(node, (), place)
            return Any
        names = cast("Sequence[Any]", named) if isinstance(named, list) else [named]
        unknown = [each for each in names if not isinstance(each, str) or each not in _KEYWORDS]
        if unknown or not names:
            raise JSONSchemaError(f"unknown type {named!r:.50}; expected one of {', '.join(_KEYWORDS)}", place)
        self._check_keywords(node, ("type", *(keyword for name in names for keyword in _KEYWORDS[name])), place)
        return _union([self._of_type(name, node, place) for name in names])

    def _of_type(self, name: str, node: dict[str, Any], place: str) -> Any:
        if name == "object":
            return self._object(node, place)
        made: Any
        match name:
            case "string":
                made = _FORMATS.get(str(node.get("format")), str)
            case "array":
                made = list[self._type(node.get("items", True), f"{place}/items")]  # type: ignore[misc]  # made here
            case "null":
                made = None
            case _:
                made = {"integer": int, "number": float, "boolean": bool}[name]
        given = {_CONSTRAINTS[key]: node[key] for key in _KEYWORDS[name] if key in node and key in _CONSTRAINTS}
        for key, value in given.items():
            if isinstance(value, bool) or not isinstance(value, str if key == "pattern" else (int, float)):
                raise JSONSchemaError(f"expected a number, or a text for pattern, got {value!r:.50}", place)
        if given and made in _FORMATS.values():
            raise JSONSchemaError(f"limits on the length of the format {node['format']} are not implemented", place)
        return Annotated[made, Field(**given)] if given else made

    def _object(self, node: dict[str, Any], place: str) -> Any:
        properties: Any = node.get("properties", {})
        further: Any = node.get("additionalProperties", True)
        required: Any = node.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise JSONSchemaError("expected an object in properties and a list in required", place)
        if not properties:
            return dict[str, self._type(further, f"{place}/additionalProperties")]  # type: ignore[misc]  # made here
        if not isinstance(further, bool):
            raise JSONSchemaError("a schema in additionalProperties beside properties is not implemented", place)
        parts, names = cast("dict[str, Any]", properties), cast("Sequence[Any]", required)
        if missing := [each for each in names if each not in parts]:
            raise JSONSchemaError(f"required names {missing[0]!r:.50}, which is not in properties", place)
        fields = {
            field_name(name, parts): self._field(name, part, name in names, f"{place}/properties/{name}")
            for name, part in parts.items()
        }
        title = re.sub(r"\W", "", str(node.get("title", "")) or place.rpartition("/")[2].title()) or "Data"
        config = ConfigDict(extra="ignore" if further else "forbid", title=title, protected_namespaces=())
        given = cast("dict[str, Any]", fields)
        model = create_model(title, __config__=config, __doc__=node.get("description"), **given)
        self._models.append(model)
        return model

    def _field(self, name: str, schema: Any, required: bool, place: str) -> tuple[Any, Any]:
        kind = self._type(schema, place)
        node = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
        default = ... if required else node.get("default")
        if default is None and kind is not Any:
            kind = _union([kind, None])
        return kind, Field(default, alias=name, description=node.get("description"))

    def _reference(self, reference: Any, place: str) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise JSONSchemaError(
                f"$ref {reference!r:.100} is outside of the document: copy the schema into $defs and refer to it as "
                "'#/$defs/NAME'",
                place,
            )
        if reference in self._by_reference:
            return self._by_reference[reference]
        if reference in self._under_way:
            self._recursive.add(reference)
            return ForwardRef(self._under_way[reference])
        self._under_way[reference] = f"Reference{len(self._under_way)}"
        built = self._type(self._pointed_at(reference, place), reference)
        self._by_reference[reference] = built
        return built

    def _pointed_at(self, reference: str, place: str) -> Any:
        found: Any = self._document
        for step in reference.split("/")[1:] if reference != "#" else ():
            key: Any = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal():
                key = int(key)
            try:
                found = cast("Any", found)[key]
            except (KeyError, IndexError, TypeError):
                raise JSONSchemaError(f"$ref {reference!r:.100} leads nowhere", place) from None
        return found

    def _check_keywords(self, node: dict[str, Any], known: Sequence[str], place: str) -> None:
        for keyword in node:
            if keyword not in known and keyword not in _ANNOTATIONS:
                raise JSONSchemaError(f"the keyword {keyword!r:.50} is not implemented here", place)


def _literal(values: Any, place: str) -> Any:
    if not isinstance(values, list) or not values:
        raise JSONSchemaError(f"expected a list of values, got {values!r:.50}", place)
    members = cast("Sequence[Any]", values)
    for value in members:
        if value is not None and not isinstance(value, (str, int, bool)):
            raise JSONSchemaError(f"expected a text, whole number, boolean or null, got {value!r:.50}", place)
    return Literal[tuple(members)]


def _union(members: Sequence[Any]) -> Any:
    """Return the union of the types; a forward reference is no operand of `|`."""
    return members[0] if len(members) == 1 else Union[tuple(members)]  # noqa: UP007  # of types that are known at run time
