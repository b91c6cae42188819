"""`JobIdentity`: everything beside the inputs that determines the answers of a job.

A checkpoint stores it, so that answers to one prompt are never mixed with answers to another. Each part is stored as a
hash, which decides, and as a text for people, which names what changed. Time limits, hooks and the number of attempts
are not parts: they do not change an answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final, cast

from ..json_text import replace_surrogates
from ..lazy_dataclasses import dataclass
from ..llms.client import client_of
from ..prompts import ChatPromptTemplate, PromptTemplate
from ..settings import Settings
from ..structured.orchestrator import ToolOrchestratingLLM
from .item_keys import UnstableInput, stable_digest

_SCHEMA: Final = "schema"
_LONGEST: Final = 60  # characters of a text on each side of a change
_MOST_PATHS: Final = 4


@dataclass(frozen=True, slots=True)
class IdentityPart:
    """One part of a job's identity: its hash, in hexadecimal digits, and a text for people."""

    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The prompt, schema, model and settings of a job, as parts by name."""

    parts: Mapping[str, IdentityPart]

    @classmethod
    def of(cls, call: ToolOrchestratingLLM[Any]) -> JobIdentity:
        """Return the identity of the job that makes this call for each of its inputs."""
        return cls({name: IdentityPart(_hashed(name, value), text) for name, value, text in _parts(call)})

    def changes(self, stored: JobIdentity) -> dict[str, str]:
        """Return the parts that differ from those of a stored identity, each with a description of the change."""
        names = dict.fromkeys([*stored.parts, *self.parts])
        found: dict[str, str] = {}
        for name in names:
            before, now = stored.parts.get(name), self.parts.get(name)
            if before is None or now is None or before.digest != now.digest:
                found[name] = _change(name, before, now)
        return found


def _parts(call: ToolOrchestratingLLM[Any]) -> Iterator[tuple[str, Any, str]]:
    """Provide the name, the value and the text of each part."""
    yield "prompt", call.prompt, _prompt_text(call.prompt)
    if call.llm.system_prompt:
        yield "system_prompt", call.llm.system_prompt, call.llm.system_prompt
    schema = [[tool.name, tool.description, tool.parameters] for tool in call.tools]
    yield _SCHEMA, schema, json.dumps(schema, default=str)
    origin = dict(client_of(call.llm).origin)
    yield "model", origin, " ".join(dict.fromkeys([str(name) for name in origin.values() if name]))
    if call.server_tools:
        tools = [tool.to_dict() for tool in call.server_tools]
        # Other credentials are the same job: a token may have been renewed.
        yield "tools", tools, json.dumps(tools, default=str)
    for name in ("mode", "tool_choice", "allow_parallel_tool_calls"):
        if option := getattr(call, name):
            yield name, option, str(option)
    settings = client_of(call.llm).merge_settings(call.settings)
    for field in fields(Settings):
        value: Any = settings.cached_content_name if field.name == "cached_content" else getattr(settings, field.name)
        if field.name == "timeout" or value is None:
            continue
        # The values of `extra` may be credentials of a gateway: its keys alone are written.
        yield field.name, value, ", ".join(map(str, value)) if field.name == "extra" else str(value)


def _prompt_text(prompt: PromptTemplate | ChatPromptTemplate) -> str:
    if isinstance(prompt, PromptTemplate):
        return prompt.template
    return "\n".join([str(message) for message in prompt.messages])


def _hashed(name: str, value: Any) -> str:
    try:
        return stable_digest(value).hex()
    except UnstableInput as error:
        raise UnstableInput(f"the {name} of the job: {error}. Without a checkpoint it can be used as it is") from error


def _change(name: str, before: IdentityPart | None, now: IdentityPart | None) -> str:
    if name == _SCHEMA and before is not None and now is not None:
        with suppress(ValueError):  # the text of a damaged file
            return _schema_change(before.text, now.text)
    if before is not None and now is not None and before.text == now.text:
        return "changed"
    old, new = (None if part is None else replace_surrogates(part.text) for part in (before, now))
    start = 0
    if old is not None and new is not None:
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
    return f"was {_excerpt(old, start)}, is now {_excerpt(new, start)}"


def _excerpt(text: str | None, at: int) -> str:
    """Return the part of a text around the position `at`, quoted."""
    if text is None:
        return "not set"
    begin, end = max(0, at - _LONGEST // 2), at + _LONGEST
    return f"{'...' if begin else ''}{text[begin:end]!r}{'...' if end < len(text) else ''}"


def _schema_change(before: str, now: str) -> str:
    """Return the paths that were added, removed and changed, as `added Person.city`."""
    old, new = dict(_leaves(json.loads(before))), dict(_leaves(json.loads(now)))
    kinds = {
        "added": [path for path in new if path not in old],
        "removed": [path for path in old if path not in new],
        "changed": [path for path in new if path in old and old[path] != new[path]],
    }
    found = {
        kind: dict.fromkeys([_field(path) for path in paths if path[-1] != "required"]) for kind, paths in kinds.items()
    }
    parts = [f"{kind} {_some(paths)}" for kind, paths in found.items() if paths]
    return "; ".join(parts) or "changed"


def _some(paths: Mapping[str, None]) -> str:
    shown = [*paths][:_MOST_PATHS]
    more = len(paths) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _field(path: tuple[str, ...]) -> str:
    return ".".join([name for name in path if name not in _STRUCTURE])


_STRUCTURE: Final = frozenset(("properties", "$defs", "type", "title"))
"""The keywords of JSON Schema that are left out of a path for people."""


def _leaves(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Provide the leaves of the schemas of all tools by their paths, which begin with the name of the tool."""
    if not path:
        for name, description, parameters in schema:
            yield (name, "description"), description
            yield from _leaves(parameters, (name,))
    elif isinstance(schema, dict) and schema:
        for key, value in cast("dict[str, Any]", schema).items():
            yield from _leaves(value, (*path, key))
    else:
        yield path, schema
