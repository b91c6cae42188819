"""The tools of a request: their specifications, the tool choice, and names that every provider accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from ..lazy.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it: a name, a description, and the JSON Schema of its arguments.

    A schema must not change once it is in use: adapters cache what they derive from it.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash(self.name)  # a schema is not hashable; equality compares it


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The tool choice that requires a call of this one tool."""

    name: str


class ToolCachePoint(NamedTuple):
    """A `CachePoint` among the tools of a request.

    Attributes:
        tools: The number of the caller's own tools before it.
        server_tools: The number of tools that the provider runs before it; they follow the caller's own.
        ttl: The `ttl` of the point.
    """

    tools: int
    server_tools: int = 0
    ttl: str | None = None


ToolChoice: TypeAlias = str | NamedTool | Mapping[str, Any] | None
"""`"auto"`, `"required"`, `"none"`, a `NamedTool`, a provider's own dict, or None: the provider's default."""

_ILLEGAL = r"[^a-zA-Z0-9_-]"


@lru_cache(1024)
def legal_name(name: str, limit: int = 64) -> str:
    """Return `name` as every provider takes it: letters, digits, `_` and `-`, at most `limit` of them.

    A name that had to be changed ends in a hash of the original, so that two names never become one.
    """
    legal = re.sub(_ILLEGAL, "_", name) or "tool"
    if legal == name and len(name) <= limit:
        return name
    suffix = blake2b(name.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{legal[: limit - 9]}_{suffix}"


class ToolNames:
    """The names of one request's tools: `sent[name]` is in the request, `original(name)` translates a response's name.

    Two names may differ because not every provider takes every character. `offered` are those that are sent, `complete`
    those of them that no longer one begins with.
    """

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.sent: dict[str, str] = {tool.name: legal_name(tool.name) for tool in tools}
        self._original = {sent: name for name, sent in self.sent.items()}
        self.offered: frozenset[str] = frozenset(self._original)
        ordered = [*sorted(self.offered), ""]  # a name that begins others comes right before one of them
        self.complete: frozenset[str] = frozenset(
            [name for name, following in pairwise(ordered) if not following.startswith(name)]
        )

    def original(self, name: str) -> str:
        """Return the tool's own name for a name in a response; an unknown name is returned as it is."""
        return self._original.get(name, name)


@lru_cache(64)
def tool_names(tools: tuple[ToolSpec, ...]) -> ToolNames:
    """Return the names of these tools, made once for all requests that offer them."""
    return ToolNames(tools)
