"""The Wire protocol: what is said <-> one service's bytes.

A wire does no I/O. It turns a `Conversation` into an `HTTPRequest`, gives a fresh `Decoder` for the bytes that
come back, and reads the service's error bodies. Everything that stands on it works for every service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from re import compile as regex
from typing import Any, Protocol, TypeAlias

from ..errors import LLMError
from ..events import Event
from ..messages import Message
from ..settings import Settings


class Secret:
    """A key that never shows: `repr`, `str`, logs and pickles hold no trace of it."""

    __slots__ = ("_reveal",)
    _reveal: Callable[[], str]

    def __init__(self, value: str) -> None:
        # A closure, not an attribute: tools that dump an object's fields find no text here.
        self._reveal = lambda: value

    def reveal(self) -> str:
        """The key itself; for the door to the network, and nothing else."""
        return self._reveal()

    def __repr__(self) -> str:
        return "Secret('**********')"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._reveal())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._reveal() == other._reveal()

    def __hash__(self) -> int:
        return hash(self._reveal())

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("an API key is not pickled; let the other process read it from its environment")


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request, ready to be sent. `notes` names settings that the service cannot take and that were left out."""

    method: str
    url: str
    headers: Mapping[str, str | Secret]
    body: bytes = field(repr=False)
    notes: tuple[str, ...] = ()

    def masked(self, text: str) -> str:
        """`text` without the keys in the headers, with or without the word that goes before them."""
        for value in self.headers.values():
            if isinstance(value, Secret) and value:
                for shown in (value.reveal(), value.reveal().rpartition(" ")[2]):
                    text = text.replace(shown, "**********") if len(shown) > 3 else text
        return text


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a service sees it: a name, a description, and the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The tool choice that forces this one tool."""

    name: str


ToolChoice: TypeAlias = str | NamedTool | Mapping[str, Any] | None
"""`"auto"`, `"required"`, `"none"`, a `NamedTool`, a dialect's own dict, or None: the service's default."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that one request is made of, in no service's dialect. `stream`: answer in pieces."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = None
    parallel: bool = False
    stream: bool = True


class Decoder(Protocol):
    """Bytes in, events out, cut anywhere."""

    @property
    def failed(self) -> bool:
        """Whether `close` will raise, whatever else may come: the service has reported an error."""
        ...

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        ...

    def close(self) -> list[Event]:
        """The last events, once the body has ended. Raises `StreamTruncated` where its end marker is missing."""
        ...


class Wire(Protocol):
    """One service's dialect."""

    @property
    def provider(self) -> str:
        """The name of the service, as errors and responses give it."""
        ...

    def request(self, conversation: Conversation, settings: Settings) -> HTTPRequest:
        """The request to send. Raises `BadRequest` for what the service cannot take."""
        ...

    def decoder(self, conversation: Conversation) -> Decoder:
        """A fresh decoder for one answer to `conversation`, streamed or whole."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """The error that an HTTP status of 300 or more stands for; header names are in lower case."""
        ...


_ILLEGAL = regex(r"[^a-zA-Z0-9_-]")


def legal_name(name: str, limit: int = 64) -> str:
    """`name` as every service takes it: letters, digits, `_` and `-`, at most `limit` of them.

    A name that had to be changed ends in a hash of the original, so that two names never become one.
    """
    legal = _ILLEGAL.sub("_", name) or "tool"
    if legal == name and len(name) <= limit:
        return name
    mark = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{legal[: limit - 9]}_{mark}"


class ToolNames:
    """The names of one request's tools, there and back: `wire[name]` is sent, `own(wire_name)` came back."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.wire: dict[str, str] = {tool.name: legal_name(tool.name) for tool in tools}
        self._own = {wire: name for name, wire in self.wire.items()}

    def own(self, name: str) -> str:
        """The tool's own name for `name` as the model wrote it; an unknown name stays as it is."""
        return self._own.get(name, name)
