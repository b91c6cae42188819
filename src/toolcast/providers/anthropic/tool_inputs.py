"""The inputs of tools as Anthropic takes them: no union at the root of a schema, and keys of few characters.

Other keys are sent under another name, and renamed back in the arguments of calls, as they stream. Sources are the
refusals of the service: "input_schema does not support oneOf, allOf, or anyOf at the top level" and "Property keys
should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from ...events import Event, ToolCallDelta, ToolCallDone, ToolCallStart
from ...values.tool_spec import ToolSpec, legal_name
from ..base import DecoderWrapper, ResponseDecoder
from ..response_decoder import as_dict, as_list, as_str
from ..schemas.normalize import Schema, target, with_description

_UNIONS = ("anyOf", "oneOf", "allOf")
_MAPS = frozenset(("$defs", "definitions", "patternProperties", "dependentSchemas"))
_DATA = frozenset(("default", "const", "enum", "examples"))


class ToolInput(NamedTuple):
    """The schema of a tool to send, and the tool's own keys by those that are sent in their place."""

    schema: Mapping[str, Any]
    keys: Mapping[str, str]


@lru_cache(1024)
def tool_input(tool: ToolSpec) -> ToolInput:
    """Return the input of a tool. Its schema is the tool's own if Anthropic takes that."""
    schema, keys = tool.parameters, dict[str, str]()
    if not schema.keys().isdisjoint(_UNIONS):
        schema = _merged(schema)
    renamed = _with_legal_keys(schema, keys)
    return ToolInput(renamed if keys else schema, keys)


def _merged(schema: Mapping[str, Any]) -> Schema:
    """Return a schema whose root is one object, with the properties of all parts of a union at the root."""
    properties: dict[str, Any] = {}
    required = set[str]()
    choices: list[str] = []
    for union in _UNIONS:
        branches = [_resolved(branch, schema) for branch in schema.get(union, ())]
        for branch in branches:
            for name, each in branch.get("properties", {}).items():
                before = properties.get(name, each)
                properties[name] = each if before == each else {"anyOf": [*before.get("anyOf", [before]), each]}
        needed = [set[str](branch.get("required", ())) for branch in branches]
        if needed:
            required |= needed[0].union(*needed) if union == "allOf" else needed[0].intersection(*needed)
        if union != "allOf" and len(branches) > 1:
            kinds = [", ".join(branch.get("properties", ())) or "none" for branch in branches]
            choices.append(f"The properties are those of one of these: {'; or '.join(kinds)}.")
    required |= set(schema.get("required", ()))
    properties |= schema.get("properties", {})
    rest = {name: value for name, value in schema.items() if name not in _UNIONS}
    named = [name for name in properties if name in required]
    return with_description({**rest, "type": "object", "properties": properties, "required": named}, *choices)


def _resolved(branch: object, schema: Mapping[str, Any]) -> Schema:
    """Return a part of the union, where it is a reference what it refers to; a part that is no object has nothing."""
    found, definitions = as_dict(branch), as_dict(schema.get("$defs"))
    for _ in definitions:
        if ref := as_str(found.get("$ref")):
            found = as_dict(definitions.get(target(ref)))
    return found


def _renamed(value: Any, keys: dict[str, str]) -> Any:
    """Return a schema, or a list of such, with legal keys. Add to `keys` those that had to be renamed."""
    if isinstance(value, list):
        return [_renamed(part, keys) for part in as_list(value)]
    return _with_legal_keys(as_dict(value), keys) if isinstance(value, dict) else value


def _with_legal_keys(schema: Mapping[str, Any], keys: dict[str, str]) -> Schema:
    made: Schema = {}
    for name, value in schema.items():
        if name == "properties":
            made[name] = {_legal(key, keys): _property(key, part, keys) for key, part in as_dict(value).items()}
        elif name == "required":
            made[name] = [_legal(str(key), keys) for key in as_list(value)]
        elif name in _MAPS:
            made[name] = {key: _renamed(part, keys) for key, part in as_dict(value).items()}
        else:
            made[name] = value if name in _DATA else _renamed(value, keys)
    return made


def _property(key: str, schema: Any, keys: dict[str, str]) -> Any:
    made: Any = _renamed(schema, keys)
    return made if isinstance(made, bool) or _legal(key, keys) == key else with_description(made, f"This is {key!r}.")


def _legal(key: str, keys: dict[str, str]) -> str:
    if re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
        return key
    legal = legal_name(key)
    keys[legal] = key
    return legal


class RenamedKeys:
    """JSON text with other keys, as it grows. A key is withheld until it is complete."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = keys
        self._objects: list[bool] = []  # for each open value: it is an object
        self._key_next = False
        self._key: list[str] | None = None  # the characters of the key that is open
        self._in_text = False
        self._escaped = False

    def more(self, text: str) -> str:
        """Return the text that `text` adds."""
        out: list[str] = []
        for char in text:
            if self._key is None and not self._in_text:
                self._outside(char)
            elif self._escaped or char == "\\":
                self._escaped = not self._escaped
            elif char == '"':
                self._in_text = False
                if self._key is not None:
                    out.append(self._renamed("".join(self._key) + char))
                    self._key = None
                    continue
            (out if self._key is None else self._key).append(char)
        return "".join(out)

    def rest(self) -> str:
        """Return what is withheld at the end of a text that was cut off."""
        return "".join(self._key or ())

    def _outside(self, char: str) -> None:
        """Read a character outside of texts and keys."""
        if char == '"':
            self._key, self._in_text = ([], False) if self._key_next else (None, True)
        elif char in "{[":
            self._objects.append(char == "{")
        elif char in "}]" and self._objects:
            self._objects.pop()
        if char in "{,":
            self._key_next = bool(self._objects) and self._objects[-1]
        elif char in ":[":
            self._key_next = False

    def _renamed(self, key: str) -> str:
        try:
            own = self._keys.get(json.loads(key))
        except ValueError:  # of a text that is no JSON
            own = None
        return key if own is None else json.dumps(own, ensure_ascii=False)


def with_own_keys(keys: Mapping[str, str], arguments: str) -> str:
    """Return complete arguments with the tool's own keys."""
    renamed = RenamedKeys(keys)
    return renamed.more(arguments) + renamed.rest()


class RenamingDecoder(DecoderWrapper):
    """A decoder of a response whose calls have other keys than their tools.

    Args:
        inner: The decoder of the protocol.
        keys: The tools' own keys by those that were sent, by the names of the tools.
    """

    def __init__(self, inner: ResponseDecoder, keys: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(inner)
        self._keys = keys
        self._renamed: dict[str, tuple[Mapping[str, str], RenamedKeys]] = {}  # by the ids of calls

    def _changed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if isinstance(event, ToolCallStart) and (keys := self._keys.get(event.name)):
                self._renamed[event.id] = keys, RenamedKeys(keys)
            elif isinstance(event, (ToolCallDelta, ToolCallDone)) and event.id in self._renamed:
                keys, renamed = self._renamed[event.id]
                if isinstance(event, ToolCallDone):
                    out.append(replace(event, arguments=with_own_keys(keys, event.arguments)))
                elif text := renamed.more(event.arguments):  # else a part of a key
                    out.append(ToolCallDelta(event.id, text))
                continue
            out.append(event)
        return out
