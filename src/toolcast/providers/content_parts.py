"""Message parts as requests need them.

The bytes of a part as base64, system messages, the arguments and ids of tool calls, and unsupported parts.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeGuard

from ..errors import BadRequest
from ..messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    MediaPart,
    Message,
    Part,
    ResultImage,
    Role,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from ..parsing.tool_arguments import portable_object

MEDIA = (ImagePart, AudioPart, VideoPart, DocumentPart, FileRef)
_OLD_MEDIA: dict[Role, tuple[type[MediaPart | FileRef], ...]] = {"user": MEDIA, "assistant": (ImagePart, AudioPart)}
FAILED = "The tool failed."
"""In place of an error without a text, which several services refuse."""

POINT = "cache_point"
"""The type of the block that an encoder puts where a message has a `CachePoint`; cache_marks.py takes it out again."""


def point_block(part: CachePoint) -> dict[str, Any]:
    """Return the block in place of a `CachePoint`."""
    return {"type": POINT, "ttl": part.ttl}


def has_cache_point(messages: Sequence[Message]) -> bool:
    """Return True if one of the messages has a `CachePoint`."""
    for message in messages:
        for part in message.parts:
            if type(part) is CachePoint:
                return True
    return False


def base64_of(part: MediaPart) -> str:
    """Return the bytes of `part` as base64 text."""
    return base64.b64encode(part.data or b"").decode()


def data_url(part: MediaPart) -> str:
    """Return the bytes of `part` as a `data:` URL."""
    return f"data:{part.media_type};base64,{base64_of(part)}"


def inline_data(part: MediaPart) -> tuple[str, str] | None:
    """Return the media type and base64 text of a part with bytes or a `data:` URL; None for any other URL."""
    if part.data is not None:
        return part.media_type or "application/octet-stream", base64_of(part)
    head, mark, data = (part.url or "").partition(";base64,")
    return (head.removeprefix("data:"), data) if mark and head.startswith("data:") else None


def check_section(provider: str, part: VideoPart, *taken: str) -> None:
    """Raise `BadRequest` if one of `start`, `end` and `fps` is set that is not in `taken`."""
    for name in ("start", "end", "fps"):
        if getattr(part, name) is not None and name not in taken:
            raise BadRequest(f"{provider} has no option {name} of VideoPart: leave it out, or cut the video before")


def unsupported_part(provider: str, part: Part, where: str = "in a user message") -> BadRequest:
    """Return the exception for a part that the provider does not support."""
    given = "by url" if getattr(part, "url", None) else getattr(part, "media_type", None)
    shown = f"{type(part).__name__} ({given})" if given else type(part).__name__
    return BadRequest(f"{provider} cannot take {shown} {where}")


def with_described_media(messages: Sequence[Message], takes: Callable[[Role, Part], bool]) -> Sequence[Message]:
    """Return `messages` with a line of text for what a service does not take of media that it may be without.

    These are images in the results of tools, and media of earlier turns: a model can call a tool whose images its
    service refuses, a file can expire, and another model can be chosen. Without the line the conversation would end
    there. `takes` gets the role of a message and one of its parts, a result with one image. Without such media, the
    same messages are returned.
    """
    described = list(messages)
    now = this_turn(messages)
    for at, message in enumerate(messages):
        parts = [_with_description(message.role, part, takes, is_old=at < now) for part in message.parts]
        if any(new is not old for new, old in zip(parts, message.parts, strict=True)):
            described[at] = replace(message, parts=tuple(parts))
    changed = any(new is not old for new, old in zip(described, messages, strict=True))
    return tuple(described) if changed else messages


def this_turn(messages: Sequence[Message]) -> int:
    """Return the place behind the last answer that something follows."""
    return next((at for at in range(len(messages) - 1, 0, -1) if messages[at - 1].role == "assistant"), 0)


def _with_description(role: Role, part: Part, takes: Callable[[Role, Part], bool], *, is_old: bool) -> Part:
    if isinstance(part, ResultImage) or (is_old and isinstance(part, _OLD_MEDIA.get(role, ()))):
        return part if takes(role, part) else TextPart(media_line(part))
    if not (isinstance(part, ToolResultPart) and part.images):
        return part
    kept = tuple([image for image in part.images if takes(role, replace(part, images=(image,)))])
    lines = [media_line(image) for image in part.images if image not in kept]
    return replace(part, images=kept, content="\n".join([part.content, *lines]).strip()) if lines else part


def media_line(part: MediaPart | FileRef) -> str:
    """Return the line of text that stands for `part` where a service does not take it."""
    if isinstance(part, FileRef):
        return f"[file: {', '.join(filter(None, (part.name or part.id, part.media_type)))}]"
    size = "by url" if part.data is None else f"{len(part.data) / 1000:.0f} kB"
    return f"[{part.type}: {', '.join(filter(None, (part.media_type, size)))}]"


def uncited(provider: str, part: DocumentPart) -> DocumentPart:
    """Return a document for a provider that cites none. Raise `BadRequest` if it is to be cited."""
    if part.citations:
        raise BadRequest(
            f"{provider} cannot take DocumentPart(citations=True): it does not cite documents of a message. "
            "Leave out citations=True, or use Anthropic or Bedrock"
        )
    return part


def result_text(result: ToolResultPart) -> str:
    """Return the text of a tool result, for protocols without a field for errors."""
    if result.is_error:
        return f"The tool failed: {result.content}" if result.content.strip() else FAILED
    return result.content


def count_system_messages(messages: Sequence[Message]) -> int:
    """Return the number of system messages at the start."""
    return next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))


def check_parts(provider: str, parts: Sequence[Part], kinds: tuple[type, ...], why: str) -> None:
    """Raise `BadRequest` if one of `parts` is of none of the types in `kinds`."""
    for part in parts:
        if not isinstance(part, kinds):
            raise BadRequest(f"{provider} cannot take {type(part).__name__} here: {why}")


def arguments_object(call: ToolCallPart) -> dict[str, Any]:
    """Return the arguments of an earlier tool call as an object; empty if the model wrote none.

    What is not an object that every service can read is `{"malformed": text}`.
    """
    if not call.arguments.strip():
        return {}
    found = portable_object(call.arguments)
    return {"malformed": call.arguments} if found is None else found


def valid_arguments(call: ToolCallPart) -> str:
    """Return the JSON text of `arguments_object`: that of the model, unchanged, if it is one."""
    found = arguments_object(call)
    legal = call.arguments.strip() and found != {"malformed": call.arguments}
    return call.arguments if legal else json.dumps(found, ensure_ascii=False)


def add_turn(turns: list[dict[str, Any]], role: str, content: list[dict[str, Any]]) -> None:
    """Add blocks to the last turn, if they are of its role, or as another turn.

    A late system message has to be followed by an answer, or by nothing: otherwise it becomes a part of the user turn
    before it.
    """
    if role == "user" and turns and turns[-1]["role"] == "system":
        late = turns.pop()
        turns[-1]["content"] += late["content"]
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += content
    else:
        turns.append({"role": role, "content": content})


def called_tools(messages: Sequence[Message]) -> list[str]:
    """Return the names of the tools that were called in the messages."""
    return list(dict.fromkeys([call.name for message in messages for call in message.tool_calls]))


class CallIds:
    """The ids of the calls in a history, and unique ids for new calls.

    Some services number the calls of each response from the start.
    """

    __slots__ = ("_taken",)

    def __init__(self, history: Iterable[Message] = ()) -> None:
        # With each id the last number appended to it, so that the next is found without a search.
        self._taken: dict[str, int] = {call.id: 1 for message in history for call in message.tool_calls}

    def unique(self, id: str) -> str:
        """Return `id` if no other call has it, otherwise `id` with a number appended."""
        name = id = id or "call"
        number = self._taken.get(id, 0)
        while name in self._taken:
            number += 1
            name = f"{id}-{number}"
        self._taken[name] = 1
        if number:
            self._taken[id] = number
        return name


def unique_ids(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield `messages` with a different id for each tool call: some providers number the calls of each response from 1.

    A result belongs to the last call with its id.
    """
    calls = [call.id for message in messages for call in message.tool_calls]
    if len(set(calls)) == len(calls):
        yield from messages
        return
    ids, now = CallIds(), dict[str, str]()
    for message in messages:
        yield Message(message.role, tuple([_renamed(part, now, ids) for part in message.parts]))


def _renamed(part: Part, now: dict[str, str], ids: CallIds) -> Part:
    """Return the part with the new id of its tool call; `now` maps old ids to new ones."""
    if isinstance(part, ToolResultPart):
        return replace(part, call_id=now.get(part.call_id, part.call_id))
    if not isinstance(part, ToolCallPart):
        return part
    id = now[part.id] = ids.unique(part.id)
    return replace(part, id=id)


_CHECKED = frozenset((ServerToolPart, CachePoint, FileRef))


def drop_foreign_data(
    messages: Sequence[Message],
    model: str,
    provider: str | None,
    recipient: Recipient,
    *,
    cache_points: bool = False,
) -> Sequence[Message]:
    """Return `messages` without the data of other models and providers, which the provider rejects.

    These are signed and encrypted data of other models and services, and blocks of tools that another provider ran, or
    that are not sent back; `provider` is None if none are. A message that had nothing else is left out. So are the
    points of a cache, unless the provider takes `cache_points`.

    Raises:
        BadRequest: A message behind the last answer refers to a file that `recipient` does not store.
    """
    for message in messages:
        for part in message.parts:
            if type(part) is not TextPart and (type(part) in _CHECKED or _is_foreign(part, model, recipient)):
                break
        else:
            continue
        break
    else:
        return messages
    for message in messages[this_turn(messages) :]:
        for part in message.parts:
            if type(part) is FileRef:
                _check_file(part, recipient)
    return list(_own_data(messages, model, provider, recipient, cache_points))


class Recipient(Protocol):
    """The properties of an adapter that decide which files and which data of models its messages can have."""

    @property
    def provider(self) -> str: ...
    @property
    def takes_files(self) -> bool: ...
    def cannot_read(self, data: Mapping[str, Any]) -> bool: ...


def _check_file(part: FileRef, recipient: Recipient) -> None:
    shown = f"the file {part.id!r:.100}"
    if part.provider != recipient.provider:
        raise BadRequest(
            f"{shown} is stored by {part.provider}, and {recipient.provider} has no access to it: upload it to that, "
            "or pass its content as a part such as DocumentPart"
        )
    if not recipient.takes_files:
        raise BadRequest(
            f"{recipient.provider} takes no uploaded files in these messages, such as {shown}: pass its content as a "
            "part such as DocumentPart, or use another API of the provider"
        )


def _own_data(
    messages: Sequence[Message], model: str, provider: str | None, recipient: Recipient, cache_points: bool
) -> Iterator[Message]:
    for message in messages:
        sent = [part for part in message.parts if cache_points or not isinstance(part, CachePoint)]
        parts = tuple([_stripped(part, model, recipient) for part in sent if not _is_not_sent(part, provider)])
        if len(parts) == len(message.parts) or any(map(_is_an_answer, parts)):
            yield replace(message, parts=parts)


def _is_an_answer(part: Part) -> bool:
    """Return True if a message with this part is not empty."""
    return bool(part.text.strip()) if isinstance(part, TextPart) else not isinstance(part, (ThinkingPart, CachePoint))


def _is_not_sent(part: Part, provider: str | None) -> bool:
    """Return True for a block of a tool that is not sent to this provider."""
    return isinstance(part, ServerToolPart) and (part.raw is None or part.provider != provider)


def _is_foreign(part: Part, model: str, recipient: Recipient) -> TypeGuard[ThinkingPart | ToolCallPart]:
    if not isinstance(part, (ThinkingPart, ToolCallPart)) or part.opaque is None:
        return False
    return part.opaque.get("model", model) != model or recipient.cannot_read(part.opaque)


def _stripped(part: Part, model: str, recipient: Recipient) -> Part:
    return replace(part, opaque=None) if _is_foreign(part, model, recipient) else part
