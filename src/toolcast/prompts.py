"""Named variables in text and messages: `PromptTemplate` and `ChatPromptTemplate`.

A template is compiled once, when it is made, into literal text and the names of variables, in turn; filling it is
a join. The grammar is three things: `{identifier}` is a variable, `{{` and `}}` are braces, every other brace is
a `PromptError` there and then. There is no attribute or index access and no format specification. Values are not
searched for variables, and neither is the text of a `Message`, which is data.

Among words a value becomes text: `str(value)`, a Pydantic model its JSON, an image a part of its own. A
message that is nothing but a hole also takes what words cannot say: a message, a list of messages, or, for an
assistant, an object, which becomes the tool call that the model would have made, and its result. `None` is no
value: pass `""` for nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeAlias, TypeGuard, cast, get_args

from pydantic_core import PydanticSerializationError

from .errors import PromptError
from .json_text import json_text
from .message_dicts import is_message_dict, message_from_dict
from .messages import (
    TAKEN,
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    tool_result,
)
from .tool_spec import legal_name

AsCalls: TypeAlias = Callable[[object], Sequence[ToolCallPart]]
"""Turns a few-shot object into the calls that make it; none: it is text. The calls' ids are set later."""

RESERVED = frozenset({"self", "stream"})
"""Names that no variable can have: `self` and the keyword `stream` of a call."""

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_MEDIA = (ImagePart, AudioPart, DocumentPart)
_Media: TypeAlias = ImagePart | AudioPart | DocumentPart
_PARTS = get_args(Part)
_ROLES: tuple[str, ...] = get_args(Role)


@dataclass(frozen=True)
class PromptTemplate:
    """A user message with named holes: `PromptTemplate("Create an album about {topic}")`.

    `holes` are their names, each once, in the order in which they first appear. Raises `PromptError` for a
    brace that is neither part of a hole nor doubled.
    """

    template: str
    holes: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _text: _Text = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = _Text(self.template)
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "holes", tuple(dict.fromkeys(text.holes)))

    def format(self, /, **values: Any) -> str:
        """The text, every hole filled. Raises `PromptError` for a missing, unknown or unfit value."""
        _check(self.holes, values)
        return self._text.joined(values)

    def format_messages(self, /, **values: Any) -> list[Message]:
        """The messages: one user message, or what the template's only hole was given."""
        return self.fill(values)

    def fill(self, values: Mapping[str, Any], as_calls: AsCalls | None = None) -> list[Message]:
        """`format_messages` for values in a mapping; `as_calls` makes the tool calls of a few-shot object."""
        _check(self.holes, values)
        return _with_examples(self._text.drafts("user", values), as_calls)


PromptMessage: TypeAlias = "str | Message | Mapping[str, Any] | tuple[str, Any] | PromptTemplate | ChatPromptTemplate"
"""What a `ChatPromptTemplate` is made of. A tuple is a role and its text, parts, or few-shot object."""


@dataclass(frozen=True)
class ChatPromptTemplate:
    """Messages with named variables in their text.

    `messages` holds `(role, text)` tuples and strings (user messages), which are templates, other templates, and
    `Message`s and dicts with `role` and `content`, which are data and are sent as they are. Instead of text an
    assistant may have an object, which becomes the tool call that the model would have made.
    `holes` are the names in order. Raises `PromptError` for anything else, and as `PromptTemplate` does.
    """

    messages: Sequence[PromptMessage]
    holes: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _lines: tuple[_Line, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        messages: object = self.messages
        if not isinstance(messages, (list, tuple)) or not messages:
            raise PromptError(f"a ChatPromptTemplate is made of a list of messages, not {_a(self.messages)}")
        lines = tuple(line for message in self.messages for line in _lines(message))
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "_lines", lines)
        object.__setattr__(self, "holes", tuple(dict.fromkeys(hole for line in lines for hole in line.holes)))

    @classmethod
    def from_messages(cls, messages: Sequence[PromptMessage]) -> ChatPromptTemplate:
        """The template made of `messages`."""
        return cls(messages)

    def format_messages(self, /, **values: Any) -> list[Message]:
        """The messages, every hole filled. Raises `PromptError` for a missing, unknown or unfit value."""
        return self.fill(values)

    def fill(self, values: Mapping[str, Any], as_calls: AsCalls | None = None) -> list[Message]:
        """`format_messages` for values in a mapping; `as_calls` makes the tool calls of a few-shot object."""
        _check(self.holes, values)
        return _with_examples((draft for line in self._lines for draft in line.drafts(values)), as_calls)


def as_prompt(prompt: object) -> PromptTemplate | ChatPromptTemplate:
    """The template that `prompt` is, or that its text or list of messages makes. Raises `PromptError`."""
    if isinstance(prompt, (PromptTemplate, ChatPromptTemplate)):
        return prompt
    if isinstance(prompt, str):
        return PromptTemplate(prompt)
    if isinstance(prompt, list):
        return ChatPromptTemplate(cast("list[PromptMessage]", prompt))
    allowed = "a str, a PromptTemplate, a ChatPromptTemplate or a list of messages"
    raise PromptError(f"prompt must be {allowed}, not {_a(prompt)}")


class _Text:
    """A compiled text: `pieces` are literal text and the names of holes in turn, text first and last.

    `only`: the hole that is all there is, if it is.
    """

    __slots__ = ("holes", "only", "pieces")

    def __init__(self, template: object) -> None:
        if not isinstance(template, str):
            raise PromptError(f"a template is a str, not {_a(template)}")
        self.pieces: tuple[str, ...] = tuple(_compile(template))
        self.holes: tuple[str, ...] = self.pieces[1::2]
        alone = len(self.holes) == 1 and not (self.pieces[0] + self.pieces[2]).strip()
        self.only: str | None = self.holes[0] if alone else None

    def joined(self, values: Mapping[str, Any]) -> str:
        pieces = list(self.pieces)
        pieces[1::2] = [_text(values[hole], hole) for hole in self.holes]
        return "".join(pieces)

    def drafts(self, role: Role, values: Mapping[str, Any]) -> Iterator[Message]:
        """The filled message, or those its only hole was given; few-shot objects still stand in them."""
        value = "" if self.only is None else values[self.only]
        if isinstance(value, str):
            yield Message(role, self.parts(values))
        elif _is_message(value):
            yield _as_message(value)
        elif _is_history(value):
            yield from map(_as_message, value)
        elif role == "assistant" and not _media(value):
            yield _message(role, (value,))
        else:
            yield Message(role, self.parts(values))

    def parts(self, values: Mapping[str, Any]) -> tuple[Part, ...]:
        """The filled text as one part, or the images in it and the text between them."""
        parts: list[Part] = []
        text: list[str] = []
        for index, piece in enumerate(self.pieces):
            if index % 2 == 0:
                text.append(piece)
            elif isinstance(value := values[piece], str):
                text.append(value)
            elif media := _media(value):
                parts += (TextPart("".join(text)), *media)
                text.clear()
            else:
                text.append(_text(value, piece))
        last = TextPart("".join(text))
        # Services refuse blank text beside an image.
        return tuple(part for part in (*parts, last) if not _is_blank(part)) if parts else (last,)


@dataclass(frozen=True, slots=True)
class _Line:
    """One message of a chat template: its role and its pieces, texts compiled, all else as it is."""

    role: Role
    pieces: tuple[object, ...]

    @property
    def holes(self) -> Iterator[str]:
        return (hole for piece in self.pieces if isinstance(piece, _Text) for hole in piece.holes)

    def drafts(self, values: Mapping[str, Any]) -> Iterator[Message]:
        match self.pieces:
            case (_Text() as only,):
                yield from only.drafts(self.role, values)
            case pieces:
                parts = (piece.parts(values) if isinstance(piece, _Text) else (piece,) for piece in pieces)
                yield _message(self.role, tuple(part for group in parts for part in group))


def _lines(message: object) -> Iterator[_Line]:
    match message:
        case str() | PromptTemplate():
            yield _line("user", message)
        case ChatPromptTemplate():
            yield from (line for inner in message.messages for line in _lines(inner))
        case Message() | Mapping():
            found = _as_message(cast("Message | Mapping[str, Any]", message))
            yield _Line(found.role, found.parts)
        case (str(), object()):
            yield _line(*cast("tuple[str, object]", message))
        case _:
            allowed = "a Message, a dict with 'role' and 'content', a (role, text) tuple, a str or a template"
            raise PromptError(f"a message of a prompt is {allowed}, not {_a(message)}")


def _line(role: str, content: object) -> _Line:
    if role not in _ROLES:
        closest = _closest(role, _ROLES)
        raise PromptError(f"unknown role {role!r}{closest}; the roles are: {', '.join(_ROLES)}")
    pieces = content if _are_parts(content) else (content,)
    return _Line(cast("Role", role), tuple(_piece(piece) for piece in pieces))


def _piece(piece: object) -> object:
    if isinstance(piece, PromptTemplate):
        return _Text(piece.template)
    text = piece.text if isinstance(piece, TextPart) else piece
    return _Text(text) if isinstance(text, str) else piece


def _are_parts(content: object) -> TypeGuard[Sequence[object]]:
    """Whether `content` is what a message is made of. A list without any part is a few-shot object."""
    return _is_sequence(content) and any(isinstance(item, _PARTS) for item in content)


def _message(role: Role, parts: tuple[Any, ...]) -> Message:
    """A message that may, for now, hold objects that are no parts."""
    return Message(role, parts)


def _compile(template: str) -> Iterator[str]:
    """Literal text and names of holes in turn; the first and the last are text."""
    text: list[str] = []
    end = 0
    for brace in _BRACES.finditer(template):
        text.append(template[end : brace.start()])
        end = brace.end()
        if brace[0] in ("{{", "}}"):
            text.append(brace[0][0])
        else:
            yield "".join(text)
            yield _hole(template, brace)
            text.clear()
    yield "".join((*text, template[end:]))


def _hole(template: str, brace: re.Match[str]) -> str:
    # Python normalises the names of keyword arguments in the same way.
    name = unicodedata.normalize("NFKC", brace[1] or "")
    if not name.isidentifier():
        raise _stray(template, brace.start())
    if name in RESERVED:
        raise PromptError(f"no variable can be named {name!r}, because a call has that parameter itself; rename it")
    return name


def _stray(template: str, start: int) -> PromptError:
    before = template[:start]
    line, column = before.count("\n") + 1, start - before.rfind("\n")
    end = template.find("}", start) + 1 or start + 1
    return PromptError(
        f"line {line}, column {column} of the prompt: {template[start : min(end, start + 40)]!r} is no variable. "
        "A variable is {name}, a plain identifier without attributes, indexes or formats. To send a brace as text, "
        "double it: {{ or }}. Or write {text} and pass the text as a value, text=...: its braces are left alone"
    )


def _check(holes: tuple[str, ...], values: Mapping[str, Any]) -> None:
    missing = [hole for hole in holes if values.get(hole) is None]
    if not missing and len(values) == len(holes):
        return
    unknown = [name for name in values if name not in holes]
    faults = [f"no value for the variable {hole!r}{_instead(hole, values, unknown)}" for hole in missing]
    faults += [f"no variable is named {name!r}{_closest(name, missing or holes)}" for name in unknown]
    named = f"the variables are: {', '.join(holes)}" if holes else "the prompt has no variables"
    raise PromptError("; ".join((*faults, named)))


def _instead(hole: str, values: Mapping[str, Any], unknown: Iterable[str]) -> str:
    if hole in values:
        return " (None is no value: pass '' for nothing)"
    if found := _like(hole, unknown):
        return f" (you passed {found[0]!r})"
    return "" if unknown else f" (to send the braces as text, write {{{{{hole}}}}})"


def _closest(name: str, names: Iterable[str]) -> str:
    found = _like(name, names)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _like(name: str, names: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # only for those who mistype

    return get_close_matches(name, tuple(names), n=1, cutoff=0.5)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def _is_message(value: object) -> TypeGuard[Message | Mapping[str, Any]]:
    return isinstance(value, Message) or is_message_dict(value)


def _is_history(value: object) -> TypeGuard[Sequence[Message | Mapping[str, Any]]]:
    return _is_sequence(value) and all(map(_is_message, value))


def _as_message(message: Message | Mapping[str, Any]) -> Message:
    """Return a `Message`, or the one that a dict is. Raises `PromptError`."""
    if isinstance(message, Message):
        return message
    try:
        return message_from_dict(message)
    except ValueError as error:
        raise PromptError(str(error)) from error


def _media(value: object) -> tuple[_Media, ...]:
    """The images, sounds and documents that `value` is; none, if it is anything else."""
    items = value if _is_sequence(value) else (value,)
    media = tuple(item for item in items if isinstance(item, _MEDIA))
    return media if len(media) == len(items) else ()


def _is_blank(part: Part) -> bool:
    return isinstance(part, TextPart) and not part.text.strip()


def _text(value: object, hole: str) -> str:
    """`value` as text. Raises `PromptError` for one that has to be a message or a part."""
    if isinstance(value, str):
        return value
    if _is_message(value) or (value and _is_history(value)):
        raise PromptError(f"the variable {hole!r} has {_a(value)}: it must be all that its message consists of")
    if _media(value):
        raise PromptError(f"the variable {hole!r} has {_a(value)}, which no text can: use format_messages()")
    return _words(value)


def _words(value: object) -> str:
    as_json = getattr(type(value), "model_dump_json", None)
    try:
        return str(value) if as_json is None else str(as_json(value))
    except PydanticSerializationError:
        return json_text(value, by_alias=False)


def _with_examples(drafts: Iterable[Message], as_calls: AsCalls | None) -> list[Message]:
    """`drafts` with every object among their parts turned into tool calls, answered in the next messages."""
    messages = list(drafts)
    if all(isinstance(part, _PARTS) for message in messages for part in message.parts):
        return messages
    taken = {call.id for message in messages for call in message.tool_calls}
    ids = (id for number in count(1) if (id := f"example{number:02}") not in taken)
    finished: list[Message] = []
    for message in messages:
        parts: list[Part] = []
        made: list[ToolCallPart] = []
        for part in message.parts:
            example = _example(part, message.role, as_calls or _own_call)
            made += (calls := [replace(call, id=next(ids)) for call in example])
            parts += calls or [part if isinstance(part, _PARTS) else TextPart(_words(part))]
        finished += (replace(message, parts=tuple(parts)), *(tool_result(call, TAKEN) for call in made))
    return finished


def _example(part: object, role: Role, as_calls: AsCalls) -> Sequence[ToolCallPart]:
    return as_calls(part) if role == "assistant" and not isinstance(part, _PARTS) else ()


def _own_call(value: object) -> Sequence[ToolCallPart]:
    """The call of a tool named as the class of `value`; none if that is no object and no list in JSON."""
    try:
        # round_trip leaves out computed fields, which no model would write.
        text = json_text(value, by_alias=True, round_trip=True)
    except PydanticSerializationError:
        return ()
    if text[0] not in "{[":
        return ()
    arguments = text if text[0] == "{" else f'{{"value":{text}}}'
    return (ToolCallPart("", legal_name(type(value).__name__), arguments),)


def _a(value: object) -> str:
    return f"{type(value).__name__} ({value!r:.60})"
