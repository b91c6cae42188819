"""Conversion of an MCP server's tools and call results to toolcast's, with validation of both.

All of it is untrusted. A description is text for a model, so it is shortened and stripped of invisible characters;
error texts are also put on one line. A schema is sent to services as it is, but one that is nested too deeply or refers
to another document makes no tool. A tool's own claim to be harmless counts only if the server is trusted.

Of the arguments, names and types at the top level are validated, so that the model can read its mistakes and small ones
are repaired. Everything below is validated by the server. A result that the protocol does not allow becomes one that it
allows: the tool has run.
"""

from __future__ import annotations

import unicodedata
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from pydantic_core import CoreSchema, SchemaValidator, core_schema, from_json
from pydantic_core.core_schema import ExtraBehavior

from ...errors import MCPToolError
from ...messages import ImagePart
from ...parsing import tool_arguments as parsing
from ...providers.schemas.normalize import kind_of
from ...text.json_text import json_text
from ...tools.callable_tool import ToolOutput
from ...tools.function_schema import BoundCall
from ...tools.output_schema import Schema
from ...tools.tool_context import ToolContext
from ...tools.tool_results import text_of, truncate

if TYPE_CHECKING:
    from mcp.types import CallToolResult

MAX_DESCRIPTION: Final = 4000
"""Characters that a description may have."""

MAX_TEXT: Final = 1_000_000
"""Characters of a result's text; the rest is cut off."""

MAX_DEPTH: Final = 50
"""Levels that a schema may have."""


class ArgumentValidator:
    """A validator for the arguments of a JSON Schema: an object, validated at its top level."""

    hides_input: bool = False

    def __init__(self, schema: Schema) -> None:
        properties, required = _members(schema)
        fields = {
            name: core_schema.typed_dict_field(
                _argument_schema(properties.get(name), schema), required=name in required
            )
            for name in [*properties, *required]
        }
        self._optional = frozenset(properties) - frozenset(required)
        # A name that is not listed may fit a pattern, which the server validates.
        is_closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
        extra: ExtraBehavior = "forbid" if is_closed else "allow"
        self._validator = SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior=extra))

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        """Return the arguments in the JSON `text`, and its repairs. Raises Pydantic's `ValidationError`."""
        values, repairs = parsing.parse_json(self._validator, text, context=context, optional=self._optional)
        return BoundCall((), values), repairs

    def dump(self, value: Any) -> str:
        """Return the JSON text of `value`, a mapping of arguments. Raises Pydantic's `ValidationError`."""
        return json_text(self._validator.validate_python(value))


def bind_arguments(call: BoundCall, context: ToolContext[Any]) -> BoundCall:
    """Return `call` for a function that takes all arguments in one dict, and the context."""
    return BoundCall((call.kwargs, context), {})


def schema_problem(schema: Schema) -> str | None:
    """Return why a schema from outside makes no tool; None if it does."""
    if schema.get("type", "object") != "object":
        return "its arguments are no object"
    parts = all(isinstance(schema.get(key, kind()), kind) for key, kind in _PARTS.items())
    if not parts or not all(isinstance(name, str) for name in schema.get("required", ())):
        return "its schema is none"
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        if any(map(_refers_elsewhere, level)):
            return "its schema refers to another document"
        level = [below for node in level for below in _children(node)]
        if not level:
            return None
    return f"its schema has more than {MAX_DEPTH} levels"


def clean_text(description: str) -> str:
    """Return `description` without invisible characters, shortened to `MAX_DESCRIPTION`."""
    visible = "".join(
        [character for character in description if character in "\n\t" or unicodedata.category(character)[0] != "C"]
    ).strip()
    return visible if len(visible) <= MAX_DESCRIPTION else f"{visible[: MAX_DESCRIPTION - 1]}…"


def single_line(words: str) -> str:
    """Return `words` on one line, and cleaned, for an error or its log."""
    return clean_text(" ".join(words.split()))


def legal_result(result: dict[str, Any], is_legal: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the result of a call as the protocol allows it: what it does not know becomes text.

    Args:
        result: The result as it was sent.
        is_legal: Whether the protocol allows a result.
    """
    if is_legal(result):
        return result
    content = result.get("content")
    blocks = cast("list[object]", content) if isinstance(content, list) else [] if content is None else [content]
    legal: dict[str, Any] = {
        "content": [block if is_legal({"content": [block]}) else _text_block(block) for block in blocks],
        "isError": result.get("isError") in (True, "true"),
    }
    structured = result.get("structuredContent")
    if structured is not None:
        kept = {**legal, "structuredContent": structured}
        return kept if is_legal(kept) else {**legal, "content": [*legal["content"], _text_block(structured)]}
    return legal


def to_tool_output(result: CallToolResult, tool: str) -> ToolOutput:
    """Convert the result of a call of `tool`. Its structured content is shown unless its text says the same."""
    shown = [_BLOCKS.get(block.type, _other_block)(block) for block in result.content]
    images = tuple([each for each in shown if isinstance(each, ImagePart)])
    structured = result.structured_content
    texts = [each for each in shown if isinstance(each, str)]
    if structured not in (None, {}) and not _repeats(texts, structured):
        texts.append(text_of(structured))
    content = truncate("\n".join(texts), MAX_TEXT)
    if result.is_error and not content.strip():
        content = "it gives no reason"
    raw = content if structured is None else structured
    error = MCPToolError(single_line(content[: 2 * MAX_DESCRIPTION])) if result.is_error else None
    return ToolOutput(content, tool, raw_output=raw, is_error=result.is_error, error=error, images=images)


# The checked keywords of a schema with their Python types, and the validators of the standard types: an integer stays
# an int where any number is valid.
_PARTS: Final[dict[str, type[Any]]] = {"properties": dict, "required": list, "$defs": dict}
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_TYPES: Final[dict[Any, CoreSchema]] = {
    "string": core_schema.str_schema(),
    "integer": core_schema.int_schema(),
    "number": core_schema.union_schema(
        [core_schema.int_schema(strict=True), core_schema.float_schema(allow_inf_nan=False)]  # JSON has no infinity
    ),
    "boolean": core_schema.bool_schema(),
    "array": core_schema.list_schema(),
    "object": core_schema.dict_schema(),
    "null": core_schema.none_schema(),
}


def _argument_schema(schema: Any, root: Schema) -> CoreSchema:
    """Return the validator of one argument of the schema `root`: its types, if they are standard ones."""
    names = _type_names(schema, root, {})
    known = [_TYPES[name] for name in dict.fromkeys(names or ())]
    if not known:
        return core_schema.any_schema()
    return core_schema.union_schema([*known]) if len(known) > 1 else known[0]


def _members(schema: Schema) -> tuple[Schema, list[str]]:
    """Return the properties of an object, and the names of the required ones, also by references and `allOf`."""
    properties: Schema = {}
    required: list[str] = []
    nodes: list[Any] = [schema]
    for node in islice(nodes, MAX_DEPTH):  # of a list that grows, as a reference may lead back
        if not isinstance(node, dict):
            continue
        part = cast("Schema", node)
        own = part.get("properties")
        properties = {**own, **properties} if isinstance(own, dict) else properties
        required += [name for name in _parts(part, "required") if isinstance(name, str) and name not in required]
        nodes += _parts(part, "allOf")
        if isinstance(reference := part.get("$ref"), str):
            nodes.append(_target(reference, schema))
    return properties, required


def _type_names(schema: Any, root: Schema, referred: dict[str, list[str] | None]) -> list[str] | None:
    """Return the standard types that `schema` allows, also by a reference or a choice; None if any other may fit.

    Each reference is followed once; `referred` has what was found.
    """
    if not isinstance(schema, dict):
        return None
    node = cast("Schema", schema)
    names: list[str] | None = None
    if "type" in node:
        kinds: Any = node["type"]
        listed = cast("list[object]", kinds if isinstance(kinds, list) else [kinds])
        names = [name for name in listed if isinstance(name, str) and name in _TYPES]
        names = names if len(names) == len(listed) else None
    elif isinstance(reference := node.get("$ref"), str):
        if reference not in referred and len(referred) < MAX_DEPTH:
            referred[reference] = None  # of a reference to itself
            referred[reference] = _type_names(_target(reference, root), root, referred)
        names = referred.get(reference)
    elif values := _parts(node, "enum") or ([node["const"]] if "const" in node else []):
        kinds = map(kind_of, values)  # of which 2 and 2.0 are equal in JSON
        names = [*dict.fromkeys("number" if kind == "integer" else kind for kind in kinds)]
    elif options := _parts(node, "anyOf") or _parts(node, "oneOf"):
        allowed = [_type_names(option, root, referred) for option in options]
        names = None if None in allowed else [*dict.fromkeys(name for each in allowed for name in each or ())]
    else:
        known = (_type_names(part, root, referred) for part in _parts(node, "allOf"))
        names = next((each for each in known if each is not None), None)
    return [*names, "null"] if names and node.get("nullable") is True else names


def _parts(node: Schema, key: str) -> list[object]:
    parts = node.get(key)
    return cast("list[object]", parts) if isinstance(parts, list) else []


def _target(reference: str, root: Schema) -> Any:
    """Return what the JSON pointer of `reference` finds in `root`; None if it finds nothing, or is an anchor."""
    start, *steps = unquote(reference).split("/")
    node: Any = root if start == "#" else None
    for step in steps:
        members: dict[Any, Any] = {}
        if isinstance(node, list):
            members = {str(at): item for at, item in enumerate(cast("list[object]", node))}
        elif isinstance(node, dict):
            members = cast("Schema", node)
        node = members.get(step.replace("~1", "/").replace("~0", "~"))
    return node


def _repeats(texts: list[str], structured: object) -> bool:
    """Return whether the texts contain the value: as itself or as JSON, in one text or item by item.

    A value that is not an object is sent as the only member `result` of one.
    """
    members = cast("dict[str, object]", structured) if isinstance(structured, dict) else {}
    forms: list[object] = [structured, members["result"]] if members.keys() == {"result"} else [structured]
    if any(_is_text_of(text, form) for text in texts for form in forms):
        return True
    items = cast("list[object]", forms[-1]) if isinstance(forms[-1], list) else []
    return 0 < len(items) == len(texts) and all(map(_is_text_of, texts, items))


def _is_text_of(text: str, value: object) -> bool:
    try:
        return text == value or parsing.is_same(from_json(text), value)
    except ValueError:
        return False


def _text_block(block: Any) -> dict[str, Any]:
    text = cast("Schema", block).get("text") if isinstance(block, dict) else block
    return {"type": "text", "text": text if isinstance(text, str) else text_of(block, MAX_DESCRIPTION)}


def _refers_elsewhere(node: Any) -> bool:
    if not isinstance(node, dict):
        return False
    targets = [cast("Schema", node).get(key) for key in _REFERENCES]
    return any(isinstance(target, str) and not target.startswith("#") for target in targets)


def _children(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return cast("Schema", node).values()
    return cast("list[object]", node) if isinstance(node, list) else ()


def _image(block: Any) -> ImagePart | str:
    try:
        return ImagePart(data=b64decode(block.data, validate=True), media_type=block.mime_type)
    except NotBase64:
        return "[an image that cannot be read]"


def _resource(block: Any) -> str:
    resource = block.resource
    text = getattr(resource, "text", None)
    return text if isinstance(text, str) else f"[{resource.uri}: {resource.mime_type or 'bytes'}]"


def _other_block(block: Any) -> str:
    return f"[{block.type}]"


_BLOCKS: Final[dict[str, Callable[[Any], ImagePart | str]]] = {
    "text": lambda block: block.text,
    "image": _image,
    "audio": lambda block: f"[sound: {block.mime_type}]",
    "resource": _resource,
    "resource_link": lambda block: f"[{block.name}: {block.uri}]",
}
