"""What an MCP server says of its tools, and what it answers to calls, as tools and outputs of ours.

All of it comes from outside. A description is text that a model will read, so it is cut to a length and freed of
characters that nobody sees; the words of an error stand in one line besides. A schema reaches services as it is, but
what is nested too deeply or refers to another document makes no tool. What a tool says of its own harmlessness counts
only where the server is trusted.

Of the arguments, names and types at the top are checked, so that a model can read what it did wrong and small slips
are put right. In everything below, the server has the last word.
"""

from __future__ import annotations

import unicodedata
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import CoreSchema, SchemaValidator, core_schema
from pydantic_core.core_schema import ExtraBehavior

from ...errors import MCPToolError
from ...json_text import json_text
from ...messages import ImagePart
from ...parsing import arguments as parsing
from ...tools.callable_tool import ToolOutput
from ...tools.context import ToolContext
from ...tools.results import text_of, truncate
from ...tools.schema import Schema
from ...tools.signature import BoundCall

if TYPE_CHECKING:
    from mcp.types import CallToolResult

DESCRIPTION: Final = 4000
"""Characters that a description may have."""

TEXT: Final = 1_000_000
"""Characters of an answer's text that are kept."""

DEPTH: Final = 50
"""Levels that a schema may have."""


class Arguments:
    """The arguments that a JSON Schema describes: an object, checked at its top."""

    hides_input: bool = False

    def __init__(self, schema: Schema) -> None:
        properties: Schema = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        fields = {
            name: core_schema.typed_dict_field(_core(properties.get(name)), required=name in required)
            for name in [*properties, *required]
        }
        extra: ExtraBehavior = "forbid" if schema.get("additionalProperties") is False else "allow"
        self._validator = SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior=extra))

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        """The arguments in the JSON `text`, and its repairs. Raises Pydantic's `ValidationError`."""
        values, repairs = parsing.parse_json(self._validator, text, context=context)
        return BoundCall((), values), repairs

    def dump(self, value: Any) -> str:
        """The JSON text of `value`, a mapping of arguments. Raises Pydantic's `ValidationError`."""
        return json_text(self._validator.validate_python(value))


def passed(call: BoundCall, context: ToolContext[Any]) -> BoundCall:
    """`call` as a function takes it that is given all arguments in one dict, and the context."""
    return BoundCall((call.kwargs, context), {})


def fault_of(schema: Schema) -> str | None:
    """Why no tool can be made of a schema from outside; None if one can."""
    if schema.get("type", "object") != "object":
        return "its arguments are no object"
    parts = all(isinstance(schema.get(key, kind()), kind) for key, kind in _PARTS.items())
    if not parts or not all(isinstance(name, str) for name in schema.get("required", ())):
        return "its schema is none"
    level: list[Any] = [schema]
    for _ in range(DEPTH):
        if any(map(_refers_elsewhere, level)):
            return "its schema refers to another document"
        level = [below for node in level for below in _below(node)]
        if not level:
            return None
    return f"its schema has more than {DEPTH} levels"


def clean(description: str) -> str:
    """`description` without characters that nobody sees, and not too long."""
    seen = "".join([sign for sign in description if sign in "\n\t" or unicodedata.category(sign)[0] != "C"]).strip()
    return seen if len(seen) <= DESCRIPTION else f"{seen[: DESCRIPTION - 1]}…"


def in_a_line(words: str) -> str:
    """`words` as they may stand in an error and its log: in one line, and `clean`."""
    return clean(" ".join(words.split()))


def output_of(result: CallToolResult, tool: str) -> ToolOutput:
    """What a server answered to a call of `tool`."""
    shown = [_SHOWN.get(block.type, _of_unknown_kind)(block) for block in result.content]
    images = tuple([each for each in shown if isinstance(each, ImagePart)])
    structured = result.structured_content
    content = truncate("\n".join([each for each in shown if isinstance(each, str)]), TEXT)
    if not shown and structured is not None:
        content = text_of(structured)
    raw = content if structured is None else structured
    error = MCPToolError(in_a_line(content[: 2 * DESCRIPTION]) or "it gives no reason") if result.is_error else None
    return ToolOutput(content, tool, raw_output=raw, is_error=result.is_error, error=error, images=images)


# The parts of a schema that are looked into, and what they are. The words for types that are known, and what
# Pydantic calls them: an integer stays one where any number will do.
_PARTS: Final[dict[str, type[Any]]] = {"properties": dict, "required": list, "$defs": dict}
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_TYPES: Final[dict[Any, CoreSchema]] = {
    "string": core_schema.str_schema(),
    "integer": core_schema.int_schema(),
    "number": core_schema.union_schema([core_schema.int_schema(strict=True), core_schema.float_schema()]),
    "boolean": core_schema.bool_schema(),
    "array": core_schema.list_schema(),
    "object": core_schema.dict_schema(),
    "null": core_schema.none_schema(),
}


def _core(schema: Any) -> CoreSchema:
    """What validates one argument: its type, where that is known."""
    kinds: Any = cast("Schema", schema).get("type") if isinstance(schema, dict) else None
    names = cast("list[object]", kinds if isinstance(kinds, list) else [kinds])
    known = [_TYPES[name] for name in names if isinstance(name, str) and name in _TYPES]
    if not known or len(known) < len(names):
        return core_schema.any_schema()
    return core_schema.union_schema([*known]) if len(known) > 1 else known[0]


def _refers_elsewhere(node: Any) -> bool:
    if not isinstance(node, dict):
        return False
    targets = [cast("Schema", node).get(key) for key in _REFERENCES]
    return any(isinstance(target, str) and not target.startswith("#") for target in targets)


def _below(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return cast("Schema", node).values()
    return cast("list[object]", node) if isinstance(node, list) else ()


def _image(block: Any) -> ImagePart | str:
    try:
        return ImagePart(data=b64decode(block.data, validate=True), media_type=block.mime_type)
    except NotBase64:
        return "[an image that cannot be read]"


def _resource(block: Any) -> str:
    held = block.resource
    text = getattr(held, "text", None)
    return text if isinstance(text, str) else f"[{held.uri}: {held.mime_type or 'bytes'}]"


def _of_unknown_kind(block: Any) -> str:
    return f"[{block.type}]"


_SHOWN: Final[dict[str, Callable[[Any], ImagePart | str]]] = {
    "text": lambda block: block.text,
    "image": _image,
    "audio": lambda block: f"[sound: {block.mime_type}]",
    "resource": _resource,
    "resource_link": lambda block: f"[{block.name}: {block.uri}]",
}
