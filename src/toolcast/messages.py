"""Messages and their parts: text, media, reasoning, tool calls and tool results.

A message is a role and a tuple of parts. Parts are frozen values. Data that a service must get back byte for byte
(signatures, encrypted reasoning) is in `signature`, `redacted` and `opaque`.
"""

from __future__ import annotations

import json
import mimetypes
import stat
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, get_args

from .lazy.lazy_dataclasses import dataclass
from .text.json_text import json_text
from .values.citations import Citation, shifted
from .values.option_types import require

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "AudioPart",
    "CachePoint",
    "DocumentPart",
    "FileRef",
    "ImagePart",
    "ServerToolPart",
    "TextPart",
    "ThinkingPart",
    "ToolResultPart",
    "VideoPart",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

FILE_LIMIT: Final = 50 * 1024 * 1024
"""The default size limit of a file that becomes a part of a message, in bytes. Larger ones are to be uploaded."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text part.

    Attributes:
        text: The text.
        citations: The sources that the service names for stretches of the text, with their places in it.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class _Media:
    """Media by `url` (passed to the service, never fetched here) or by its bytes, `data`."""

    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None
    __pydantic_config__: ClassVar[dict[str, str]] = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

    def __post_init__(self) -> None:
        if (self.url is None) == (self.data is None):
            raise ValueError(f"{type(self).__name__}: expected exactly one of url= and data=")
        if self.data is not None and self.media_type is None:
            raise ValueError(f"{type(self).__name__}(data=...) needs media_type=, for example 'image/png'")


@dataclass(frozen=True, slots=True)
class ImagePart(_Media):
    """An image of the user, or one that the model has made.

    Attributes:
        detail: The detail in which the model reads it (`low`, `high`, `auto`), for services that support it.
        opaque: Data of the service with an image of the model, which it is sent back with.
    """

    detail: str | None = None
    opaque: Mapping[str, Any] | None = None
    type: Literal["image"] = "image"

    @classmethod
    def from_file(cls, path: str | Path, *, limit: int = FILE_LIMIT) -> ImagePart:
        """Return the image in the file at `path`; see `DocumentPart.from_file`."""
        return cls(media_type=_media_type(path), data=_content(path, limit))


@dataclass(frozen=True, slots=True)
class ResultImage(ImagePart):
    """An image in the result of a tool, where that is sent as text, and so as a message of the user."""


@dataclass(frozen=True, slots=True)
class AudioPart(_Media):
    """An audio recording of the user, or one that the model has made.

    Attributes:
        transcript: The text of a recording of the model, if the service reports it.
        opaque: Data of the service with a recording of the model, such as the id that it is sent back by.
    """

    transcript: str | None = None
    opaque: Mapping[str, Any] | None = None
    type: Literal["audio"] = "audio"

    @classmethod
    def from_file(cls, path: str | Path, *, limit: int = FILE_LIMIT) -> AudioPart:
        """Return the recording in the file at `path`; see `DocumentPart.from_file`."""
        return cls(media_type=_media_type(path), data=_content(path, limit))


@dataclass(frozen=True, slots=True)
class VideoPart(_Media):
    """A video.

    Attributes:
        start: The beginning of the section to look at, in seconds. Google alone.
        end: The end of the section to look at, in seconds. Google alone.
        fps: The number of frames to look at in each second. Google and Qwen alone.
    """

    start: float | None = None
    end: float | None = None
    fps: float | None = None
    type: Literal["video"] = "video"

    @classmethod
    def from_file(cls, path: str | Path, *, limit: int = FILE_LIMIT) -> VideoPart:
        """Return the video in the file at `path`; see `DocumentPart.from_file`."""
        return cls(media_type=_media_type(path), data=_content(path, limit))


@dataclass(frozen=True, slots=True)
class DocumentPart(_Media):
    """A document, for example a PDF.

    Attributes:
        name: Its name or title.
        citations: Whether the model is to cite it: `TextPart.citations` of the response then has the passages.
            Anthropic and Bedrock have this; for other providers it is an error before sending.
    """

    name: str | None = None
    citations: bool = False
    type: Literal["document"] = "document"

    @classmethod
    def from_file(cls, path: str | Path, *, limit: int = FILE_LIMIT) -> DocumentPart:
        """Return the document in the file at `path`, its media type by the file extension.

        Args:
            path: The path of a regular file.
            limit: The size limit in bytes, which is checked before the file is read. Default: 50 MB.

        Raises:
            ValueError: The file is larger than the limit, no regular file, or its extension has no known media type.
        """
        path = Path(path)
        return cls(media_type=_media_type(path), data=_content(path, limit), name=path.name)


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file that a provider stores, from `llm.upload`; elsewhere than at this provider, it is a `BadRequest`.

    Attributes:
        provider: The name of the provider that stores the file.
        id: The provider's id of the file.
        uri: The URL that requests refer to the file by, where that is not the id (Google, Mistral). Mistral's is
            signed: with it, the file can be read until it expires.
        media_type: The media type.
        name: The name of the file.
        size: The size in bytes.
        expires_at: When the reference expires, in seconds since 1970; None: never, or unknown.
    """

    provider: str
    id: str
    uri: str | None = None
    media_type: str | None = None
    name: str | None = None
    size: int | None = None
    expires_at: float | None = None
    type: Literal["file"] = "file"


def _content(path: str | Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    path = Path(path)
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
        raise ValueError(f"{str(path)!r} is no regular file: pass its content as data=, with media_type=")
    size = found.st_size
    if size <= limit:
        with path.open("rb") as file:
            data = file.read(limit + 1)  # it may have grown since
        if len(data) <= limit:
            return data
        size = len(data)
    raise ValueError(
        f"{str(path)!r} has {size:,} bytes or more, and the limit is {limit:,}: upload it with llm.upload(path), or "
        "pass a larger limit="
    )


def describe_media(part: ImagePart | AudioPart) -> str:
    """Return a line of text in place of an image or a recording: `[image/png, 1,234 bytes]`, and its transcript."""
    size = "by URL" if part.data is None else f"{len(part.data):,} bytes"
    transcript = part.transcript if isinstance(part, AudioPart) else None
    return f"[{part.media_type or part.type}, {size}]{f' {transcript}' if transcript else ''}"


def _media_type(path: str | Path) -> str:
    guessed, _ = mimetypes.guess_type(str(path))
    if guessed is None:
        raise ValueError(f"{str(path)!r}: the file extension has no known media type; pass data= and media_type=")
    return guessed


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Reasoning of the model. `signature`, `redacted` and `opaque` are the service's, and are returned unchanged.

    Where `opaque` names a `model`, it is sent to that one alone: it is signed or encrypted, and others reject it. With
    a `prefix`, it is sent only after the same prompt, tools and messages (Claude since Fable 5.1).
    """

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    opaque: Mapping[str, Any] | None = None
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A tool call of the model. `arguments` is its JSON text, unchanged; `truncated` marks one that was cut off."""

    id: str
    name: str
    arguments: str = "{}"
    truncated: bool = False
    opaque: Mapping[str, Any] | None = None
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The result of the tool call `call_id`."""

    call_id: str
    content: str
    name: str = ""
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()
    type: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True)
class ServerToolPart:
    """A block of a tool that the provider ran: its call, its result, or both, as the service's block has them.

    Attributes:
        name: The name of the tool, as `ServerTool.kind` has it, or as the service names another one.
        call_id: The service's id of the call, which a call and its result share; empty if it has none.
        input: The input of the call, JSON-compatible; None for a result alone.
        output: The result, JSON-compatible; None for a call alone. Untrusted text of web pages may be in it.
        error: The service's name or text of the error, if the tool failed.
        provider: The provider that ran the tool. The part is sent to that provider alone.
        raw: The service's block. It is sent back unchanged; None: there is nothing to send back.
    """

    name: str
    call_id: str = ""
    input: Any = None
    output: Any = None
    error: str | None = None
    provider: str = ""
    raw: Mapping[str, Any] | None = None
    type: Literal["server_tool"] = "server_tool"


CacheTTL: TypeAlias = Literal["5m", "1h"]


@dataclass(frozen=True, slots=True)
class CachePoint:
    """The end of the part of a prompt that the provider is to cache: all of the request before this point.

    It stands in a message, after a tool in `tools=[...]`, or among the `instructions` of an `Engine`. Requests are
    cached in the order of tools, system messages, other messages. Providers that cache by themselves, or not at all, do
    not get it; one that has marks gets four of them at most.

    Attributes:
        ttl: The time for which the provider keeps what it has cached after its last use: 5 minutes (the default of
            providers) or an hour. OpenAI keeps it for 30 minutes, or 12 hours in place of one.
    """

    ttl: CacheTTL | None = None
    type: Literal["cache_point"] = "cache_point"

    def __post_init__(self) -> None:
        if self.ttl not in (None, "5m", "1h"):
            raise ValueError(f"CachePoint(ttl={self.ttl!r:.50}): expected '5m', '1h' or None")


Part: TypeAlias = (
    TextPart
    | ImagePart
    | AudioPart
    | VideoPart
    | DocumentPart
    | FileRef
    | ThinkingPart
    | ToolCallPart
    | ToolResultPart
    | ServerToolPart
    | CachePoint
)
MediaPart: TypeAlias = ImagePart | AudioPart | VideoPart | DocumentPart
_PARTS: Final = get_args(Part)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation: a role and its parts.

    Attributes:
        role: The role.
        parts: The parts.
        response_id: The service's id of the response that the message is from, in the history of an engine. It is not
            compared, and not sent.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    response_id: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.role not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"role={self.role!r}: expected system, user, assistant or tool")
        if type(self.parts) is tuple:  # nearly always: there is nothing to convert
            for part in self.parts:
                if isinstance(part, str):
                    break
            else:
                return
        parts = (self.parts,) if isinstance(self.parts, str) else self.parts
        object.__setattr__(self, "parts", tuple([TextPart(p) if isinstance(p, str) else p for p in parts]))

    @property
    def text(self) -> str:
        """The text parts, joined without a separator."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations of the text parts, with their places in `text`."""
        found: list[Citation] = []
        offset = 0
        for part in self.parts:
            if isinstance(part, TextPart):
                found += [shifted(citation, offset) for citation in part.citations]
                offset += len(part.text)
        return tuple(found)

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls, in the order in which they were made; not those of tools that the provider runs."""
        return tuple([part for part in self.parts if isinstance(part, ToolCallPart)])

    @property
    def server_tools(self) -> tuple[ServerToolPart, ...]:
        """The blocks of the tools that the provider ran, in their order."""
        return tuple([part for part in self.parts if isinstance(part, ServerToolPart)])

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The images, in their order."""
        return tuple([part for part in self.parts if isinstance(part, ImagePart)])

    @property
    def audio(self) -> tuple[AudioPart, ...]:
        """The audio recordings, in their order."""
        return tuple([part for part in self.parts if isinstance(part, AudioPart)])

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, with bytes as base64 text."""
        plain: dict[str, Any] = _adapter().dump_python(self, mode="json")
        for part, dumped in zip(self.parts, plain["parts"], strict=True):
            if isinstance(part, (ImagePart, AudioPart)):  # those of users have none
                for name in ("opaque", "transcript"):
                    if name in dumped and dumped[name] is None:
                        del dumped[name]
            elif isinstance(part, ToolResultPart):
                for image in dumped["images"]:
                    del image["opaque"]
            # Most parts have none: left out, stored messages and the keys of caches are those of other versions.
            if (given := getattr(part, "citations", None)) is None:
                continue
            if not given:
                del dumped["citations"]
            elif isinstance(part, TextPart):
                dumped["citations"] = [citation.to_dict() for citation in part.citations]
        if plain["response_id"] is None:  # most messages are from no response
            del plain["response_id"]
        return plain

    def to_json(self) -> str:
        """Return the data of `to_dict` as JSON."""
        return json_text(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Return the message from the data of `to_dict`."""
        return _adapter().validate_json(json.dumps(data))


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Message]:
    from pydantic import TypeAdapter

    return TypeAdapter(Message)


def system(*parts: Part | str) -> Message:
    """Return a system message."""
    return Message("system", _parts(parts))


def user(*parts: Part | str) -> Message:
    """Return a user message of text and media."""
    return Message("user", _parts(parts))


def assistant(*parts: Part | str) -> Message:
    """Return an assistant message."""
    return Message("assistant", _parts(parts))


TAKEN = "OK"
"""The tool result for a call whose arguments are the output themselves."""


def tool_result(call: ToolCallPart | str, content: str, *, name: str = "", is_error: bool = False) -> Message:
    """Return the message with the result of `call`, a tool call or its id."""
    id, named = (call.id, call.name) if isinstance(call, ToolCallPart) else (call, "")
    return Message("tool", (ToolResultPart(id, content, name or named, is_error),))


def _parts(parts: Sequence[Part | str]) -> tuple[Part, ...]:
    for part in parts:
        require("a part of a message", part, (str, *_PARTS), "str or a part such as TextPart or ImagePart")
    return tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
