"""Arrow types of outputs: the columns of Parquet files, Ray datasets and data frames, derived from the output type.

The type is read from the JSON Schema that Pydantic generates for serialization, and values are converted from what
Pydantic serializes: aliases, computed fields, custom serializers and masked secrets are as in `model_dump`. pyarrow is
imported on first use.

| Python | Arrow |
|---|---|
| `str`, URLs, UUIDs, paths, `SecretStr` (masked), `bytes` (as in JSON) | `string` |
| `bool`, `int`, `float` | `bool`, `int64`, `double`; `int | float` is `double` |
| `Enum`, `Literal` | the type of its values |
| `date`, `time`, `timedelta` | `date32`, `time64[us]`, `duration[us]` |
| `AwareDatetime`, `datetime` | `timestamp[us, UTC]`; a `datetime` without a zone counts as UTC |
| `NaiveDatetime` | `timestamp[us]` |
| `Decimal` | `decimal128(38, 18)`, or with `max_digits` and `decimal_places` these |
| a model, dataclass, `TypedDict` | `struct`, with computed fields |
| `list`, `set`, `tuple[X, ...]` | `list` |
| `X | None` | the type of `X` |
| other unions, `dict`, `Any`, recursive types, other tuples, models without fields | `string`: JSON text |

Every column can be null: the output of an item that failed is.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, Final, cast, get_origin

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from ..lazy.lazy_dataclasses import dataclass
from .stored_outputs import return_type

_PRECISION: Final = 38  # the most digits of a decimal128
_SCALE: Final = 18


def import_pyarrow() -> Any:
    """Return the module pyarrow. Raise `ImportError` with the command that installs it."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError("Arrow and Parquet need pyarrow: pip install 'toolcast[parquet]'", name="pyarrow") from error


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """An Arrow type, and the conversion of a value in JSON form to what pyarrow accepts for the type.

    Attributes:
        type: The `pyarrow.DataType`.
        convert: The conversion; None if the value stays as it is.
        json_text: True if the column has JSON text because Arrow has no type for the values.
    """

    type: Any
    convert: Callable[[Any], Any] | None = None
    json_text: bool = False


class ArrowOutput:
    """The Arrow column of the outputs of one type.

    Args:
        output_type: The output type of a call, or its function, whose return type counts.
        many: True if the output is a list, one item for each tool call.

    Attributes:
        column: The Arrow type with its conversion.
    """

    def __init__(self, output_type: Any, *, many: bool = False) -> None:
        if inspect.isroutine(output_type) or (callable(output_type) and not _is_type(output_type)):
            found = return_type(output_type)
            output_type = Any if found is inspect.Signature.empty else found
        self._adapter = _adapter(list[output_type] if many else output_type)
        self.column: ArrowColumn = _json_text() if self._adapter is None else _column_of(self._adapter)

    @property
    def type(self) -> Any:
        """The `pyarrow.DataType` of the column."""
        return self.column.type

    def encode(self, value: Any) -> Any:
        """Return `value` as pyarrow accepts it for the type of the column; None stays None.

        Raises:
            ValueError: The value does not fit the type, for example a decimal with too many digits.
        """
        if value is None:
            return None
        if self._adapter is None:
            from ..values.plain_data import to_plain

            return _to_json_text(to_plain(value))
        plain = self._adapter.dump_python(value, mode="json", by_alias=False, warnings=False, fallback=str)
        converted = plain if self.column.convert is None else self.column.convert(plain)
        _require_fit(converted, self.column.type)
        return converted


def _is_type(value: object) -> bool:
    return isinstance(value, type) or get_origin(value) is not None or hasattr(value, "__value__")


def _adapter(output_type: Any) -> TypeAdapter[Any] | None:
    """Return the adapter of a type; None where Pydantic has no schema for it."""
    try:
        return TypeAdapter(output_type)
    except PydanticSchemaGenerationError:
        return None


def _require_fit(value: Any, arrow_type: Any) -> None:
    """Raise `ValueError` if pyarrow cannot store a converted value: one bad value would fail a whole table."""
    pyarrow = import_pyarrow()
    try:
        pyarrow.scalar(value, type=arrow_type)
    except (pyarrow.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"the output does not fit its Arrow type, {arrow_type}: {error}") from error


class _Schema(GenerateJsonSchema):
    """JSON Schema with what Arrow distinguishes beyond it: decimals, and timestamps without a zone."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """Return the schema of a decimal, with its number of digits."""
        return {
            "type": "string",
            "format": "decimal",
            "digits": schema.get("max_digits"),
            "places": schema.get("decimal_places"),
        }

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """Return the schema of a date with a time, which may be without a zone."""
        return {"type": "string", "format": "naive" if schema.get("tz_constraint") == "naive" else "date-time"}

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        """Return the schema of what a serializer returns: unknown, where it has no return annotation."""
        found = super().ser_schema(schema)
        if found is None and schema["type"] in ("function-plain", "function-wrap") and not _is_pydantic(schema):
            return {}  # with None, it would be the schema of the field, which is not what the function returns
        return found


def _is_pydantic(schema: Mapping[str, Any]) -> bool:
    """Return True for a serializer of Pydantic's own types, which return text: URLs, paths, addresses, secrets."""
    return str(getattr(schema["function"], "__module__", "")).startswith("pydantic")


def _column_of(adapter: TypeAdapter[Any]) -> ArrowColumn:
    mode: JsonSchemaMode = "serialization"
    try:
        schema = adapter.json_schema(mode=mode, by_alias=False, schema_generator=_Schema)
    except PydanticInvalidForJsonSchema:
        return _json_text()
    return _Columns(schema.get("$defs", {})).column(schema)


class _Columns:
    """The columns of the parts of one JSON Schema."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self._arrow = import_pyarrow()

    def column(self, schema: Mapping[str, Any]) -> ArrowColumn:
        """Return the column of values of a schema."""
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]).rpartition("/")[2])
        if "anyOf" in schema or "oneOf" in schema:
            return self._union([*schema.get("anyOf", ()), *schema.get("oneOf", ())])
        if len(schema.get("allOf", ())) == 1:
            return self.column(schema["allOf"][0])
        if "enum" in schema or "const" in schema:
            return self._literal(schema["enum"] if "enum" in schema else [schema["const"]])
        arrow = self._arrow
        match schema.get("type"):
            case "string":
                return self._string(schema)
            case "integer":
                return ArrowColumn(arrow.int64())
            case "number":
                return ArrowColumn(arrow.float64())
            case "boolean":
                return ArrowColumn(arrow.bool_())
            case "array":
                return self._array(schema)
            case "object":
                return self._object(schema)
            case _:
                return _json_text()

    def _reference(self, name: str) -> ArrowColumn:
        if name in self._open:
            return _json_text()  # a recursive type: Arrow's are finite
        self._open.append(name)
        try:
            return self.column(self._definitions[name])
        finally:
            self._open.pop()

    def _union(self, choices: list[Mapping[str, Any]]) -> ArrowColumn:
        columns = [self.column(each) for each in choices if each.get("type") != "null"]
        kinds = {str(each.type) for each in columns}
        if len(columns) == 1:
            return columns[0]
        if kinds == {"int64", "double"} and not any(each.convert for each in columns):
            return ArrowColumn(self._arrow.float64(), _to_float)
        if len(kinds) == 1 and not any(each.convert or each.json_text for each in columns):
            return columns[0]
        return _json_text()

    def _literal(self, values: list[Any]) -> ArrowColumn:
        kinds: set[type[object]] = {type(value) for value in values if value is not None}
        makers = {str: self._arrow.string, bool: self._arrow.bool_, int: self._arrow.int64, float: self._arrow.float64}
        if len(kinds) == 1 and (kind := kinds.pop()) in makers:
            return ArrowColumn(makers[kind]())
        return _json_text()

    def _string(self, schema: Mapping[str, Any]) -> ArrowColumn:
        arrow = self._arrow
        wanted = schema.get("format")
        if wanted == "decimal":
            digits, places = schema["digits"], schema["places"]
            precision = min(digits or _PRECISION, _PRECISION)
            scale = min(_SCALE if places is None else places, precision)
            return ArrowColumn(arrow.decimal128(precision, scale), _optional(Decimal))
        makers: dict[str, tuple[Any, Callable[[str], Any]]] = {
            "date": (arrow.date32(), date.fromisoformat),
            "date-time": (arrow.timestamp("us", "UTC"), _in_utc),
            "naive": (arrow.timestamp("us"), datetime.fromisoformat),
            "time": (arrow.time64("us"), _time_without_zone),
            "duration": (arrow.duration("us"), cast("Callable[[str], Any]", TypeAdapter(timedelta).validate_python)),
        }
        if wanted not in makers:
            return ArrowColumn(arrow.string())
        kind, parse = makers[wanted]
        return ArrowColumn(kind, _optional(parse))

    def _array(self, schema: Mapping[str, Any]) -> ArrowColumn:
        if "prefixItems" in schema or not schema.get("items"):
            return _json_text()
        item = self.column(schema["items"])
        return ArrowColumn(self._arrow.list_(item.type), None if item.convert is None else _each(item.convert))

    def _object(self, schema: Mapping[str, Any]) -> ArrowColumn:
        if not schema.get("properties") or schema.get("additionalProperties"):
            return _json_text()
        columns = {name: self.column(each) for name, each in schema["properties"].items()}
        made = self._arrow.struct([(name, each.type) for name, each in columns.items()])
        conversions = {name: each.convert for name, each in columns.items() if each.convert is not None}
        return ArrowColumn(made, _fields(conversions) if conversions else None)


def _json_text() -> ArrowColumn:
    return ArrowColumn(import_pyarrow().string(), _to_json_text, json_text=True)


def _to_json_text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _to_float(value: Any) -> float | None:
    return None if value is None else float(value)


def _in_utc(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _time_without_zone(text: str) -> time:
    when = time.fromisoformat(text)
    if when.tzinfo is not None:
        raise ValueError(f"{text}: Arrow has no times with a zone; annotate the field with datetime or str")
    return when


def _optional(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else parse(value)


def _each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: None if values is None else [convert(value) for value in values]


def _fields(conversions: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        return {name: conversions[name](each) if name in conversions else each for name, each in value.items()}

    return convert
