"""Prompt templates with named variables: `PromptTemplate` and `ChatPromptTemplate`.

A template is compiled once, into alternating literal text and variable names; filling it is a join. The grammar has
three elements: `{identifier}` is a variable, `{{` and `}}` are braces, and any other brace is a `PromptError` when the
template is made. There is no attribute or index access and no format specification. Values are not searched for
variables, and neither is the text of a `Message`, which is data.

Inside text a value becomes text: `str(value)`, a Pydantic model its JSON, an image or another part a part of its own. A
message that consists of one variable also accepts values that are not text: a message, a list of messages, or, for an
assistant, an object, which becomes the tool call that the model would have made, and its result. `None` is not a value:
pass `""` for nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from functools import partial
from itertools import count
from operator import getitem
from typing import Any, TypeAlias, TypeGuard, cast, get_args

from pydantic_core import PydanticSerializationError

from .errors import PromptError
from .lazy.lazy_dataclasses import dataclass
from .messages import (
    TAKEN,
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    MediaPart,
    Message,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    VideoPart,
    tool_result,
)
from .text.json_text import json_text
from .values.message_dicts import is_message_dict, message_from_dict
from .values.tool_spec import legal_name

AsCalls: TypeAlias = Callable[[object], Sequence[ToolCallPart]]
"""Converts a few-shot object to the tool calls that make it; none: it is text. The calls' ids are set later."""

RESERVED = frozenset({"self", "stream"})
"""Reserved names: `self` and the keyword argument `stream` of a call."""

_no_text = re.compile(r"<.+ at 0x[0-9a-fA-F]+>", re.DOTALL)
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_VALUES = (TextPart, ImagePart, AudioPart, VideoPart, DocumentPart, FileRef, CachePoint)
_Value: TypeAlias = MediaPart | FileRef | TextPart | CachePoint
_PARTS = get_args(Part)
_ROLES: tuple[str, ...] = get_args(Role)


@dataclass(frozen=True)
class PromptTemplate:
    """A user message with named variables: `PromptTemplate("Create an album about {topic}")`.

    Attributes:
        template: The text.
        variables: The names of the variables, each once, in the order in which they first appear.

    Raises:
        PromptError: If a brace is neither part of a variable nor doubled.
    """

    template: str
    variables: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _text: _TextTemplate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = _TextTemplate(self.template)
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "variables", tuple(dict.fromkeys(text.variables)))

    def format(self, /, **values: Any) -> str:
        """Return the text with every variable filled.

        Raises:
            PromptError: If a value is missing, unknown, or cannot be text.
        """
        _check(self.variables, values)
        return self._text.joined(values)

    def format_messages(self, /, **values: Any) -> list[Message]:
        """Return the messages: one user message, or the value of the template's only variable."""
        return self.fill(values)

    def fill(self, values: Mapping[str, Any], as_calls: AsCalls | None = None) -> list[Message]:
        """Return the messages for a mapping of values; `as_calls` makes the tool calls of a few-shot object."""
        _check(self.variables, values)
        if self._text.only is None:
            return [Message("user", self._text.parts(values))]
        return _with_examples(self._text.render("user", values), as_calls)


PromptMessage: TypeAlias = "str | Message | Mapping[str, Any] | tuple[str, Any] | PromptTemplate | ChatPromptTemplate"
"""One message of a `ChatPromptTemplate`. A tuple is a role and its text, parts, or few-shot object."""


@dataclass(frozen=True)
class ChatPromptTemplate:
    """Messages with named variables in their text.

    Attributes:
        messages: Templates and messages: `(role, text)` tuples and strings (user messages) are templates; `Message`s
            and dicts with `role` and `content` are data and sent unchanged. An assistant may have an object instead of
            text, which becomes the tool call that the model would have made.
        variables: The names of the variables, each once, in the order in which they first appear.

    Raises:
        PromptError: If a message has another form, or a brace is neither part of a variable nor doubled.
    """

    messages: Sequence[PromptMessage]
    variables: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _message_templates: tuple[_MessageTemplate, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        messages: object = self.messages
        if not isinstance(messages, (list, tuple)) or not messages:
            raise PromptError(f"a ChatPromptTemplate is made of a list of messages, not {_describe(self.messages)}")
        templates = tuple(template for message in self.messages for template in _message_templates(message))
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "_message_templates", templates)
        object.__setattr__(
            self,
            "variables",
            tuple(dict.fromkeys(variable for template in templates for variable in template.variables)),
        )

    @classmethod
    def from_messages(cls, messages: Sequence[PromptMessage]) -> ChatPromptTemplate:
        """Return the template made of `messages`."""
        return cls(messages)

    def format_messages(self, /, **values: Any) -> list[Message]:
        """Return the messages with every variable filled.

        Raises:
            PromptError: If a value is missing, unknown, or does not fit its place.
        """
        return self.fill(values)

    def fill(self, values: Mapping[str, Any], as_calls: AsCalls | None = None) -> list[Message]:
        """Return the messages for a mapping of values; `as_calls` makes the tool calls of a few-shot object."""
        _check(self.variables, values)
        return _with_examples(
            (draft for template in self._message_templates for draft in template.render(values)), as_calls
        )


def as_prompt(prompt: object) -> PromptTemplate | ChatPromptTemplate:
    """Return the template that `prompt` is, or that its text or list of messages makes.

    Raises:
        PromptError: If `prompt` has another type.
    """
    if isinstance(prompt, (PromptTemplate, ChatPromptTemplate)):
        return prompt
    if isinstance(prompt, str):
        return PromptTemplate(prompt)
    if isinstance(prompt, list):
        return ChatPromptTemplate(cast("list[PromptMessage]", prompt))
    allowed = "a str, a PromptTemplate, a ChatPromptTemplate or a list of messages"
    raise PromptError(f"prompt must be {allowed}, not {_describe(prompt)}")


def input_values(input: Any, variables: Sequence[str]) -> dict[str, Any]:
    """Return the values of `variables` in one input: its fields or, for a single variable, the input itself.

    Raises:
        PromptError: If the input lacks one of them.
    """
    is_mapping = _is_mapping(input)
    names = field_names(input)
    missing = [name for name in variables if name not in names]
    if not missing:
        read: Callable[[str], Any] = partial(getitem if is_mapping else getattr, input)
        return {name: read(name) for name in variables}
    if len(variables) == 1 and not is_mapping:
        return {variables[0]: input}
    has = f"it has: {', '.join(map(str, names))}" if names else f"it is a {type(input).__name__} without fields"
    lacks = ", ".join(map(repr, missing))
    raise PromptError(f"no value for {lacks} in the input; {has}. The variables are: {', '.join(variables)}")


def field_names(input: Any) -> Collection[str]:
    """Return the names of the fields of an input: the keys of a mapping; none for a value without fields."""
    if _is_mapping(input):
        return cast("Mapping[str, Any]", input).keys()
    kind = cast("type[object]", type(input))
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]  # neither class variables nor what only the constructor gets
    for attribute in ("__pydantic_fields__", "_fields"):  # the last is of named tuples
        if (names := getattr(kind, attribute, None)) is not None:
            return cast("Collection[str]", names)
    return ()


def _is_mapping(input: object) -> bool:
    return isinstance(input, Mapping)


class _TextTemplate:
    """A compiled text: `pieces` alternates literal text and variable names, with text first and last.

    `only` is the variable, if the text consists of one variable.
    """

    __slots__ = ("only", "pieces", "variables")

    def __init__(self, template: object) -> None:
        if not isinstance(template, str):
            raise PromptError(f"a template is a str, not {_describe(template)}")
        self.pieces: tuple[str, ...] = tuple(_compile(template))
        self.variables: tuple[str, ...] = self.pieces[1::2]
        alone = len(self.variables) == 1 and not (self.pieces[0] + self.pieces[2]).strip()
        self.only: str | None = self.variables[0] if alone else None

    def joined(self, values: Mapping[str, Any]) -> str:
        pieces = list(self.pieces)
        pieces[1::2] = [_text(values[variable], variable) for variable in self.variables]
        return "".join(pieces)

    def render(self, role: Role, values: Mapping[str, Any]) -> Iterator[Message]:
        """Yield the filled message, or the messages of its only variable; few-shot objects are not converted yet."""
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
        """Return the filled text as one part, or the images in it and the text between them."""
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
class _MessageTemplate:
    """One message of a chat template: its role and its pieces, with compiled texts."""

    role: Role
    pieces: tuple[object, ...]

    @property
    def variables(self) -> Iterator[str]:
        return (variable for piece in self.pieces if isinstance(piece, _TextTemplate) for variable in piece.variables)

    def render(self, values: Mapping[str, Any]) -> Iterator[Message]:
        match self.pieces:
            case (_TextTemplate() as only,):
                yield from only.render(self.role, values)
            case pieces:
                parts = (piece.parts(values) if isinstance(piece, _TextTemplate) else (piece,) for piece in pieces)
                yield _message(self.role, tuple(part for group in parts for part in group))


def _message_templates(message: object) -> Iterator[_MessageTemplate]:
    match message:
        case str() | PromptTemplate():
            yield _message_template("user", message)
        case ChatPromptTemplate():
            yield from (template for inner in message.messages for template in _message_templates(inner))
        case Message() | Mapping():
            found = _as_message(cast("Message | Mapping[str, Any]", message))
            yield _MessageTemplate(found.role, found.parts)
        case (str(), object()):
            yield _message_template(*cast("tuple[str, object]", message))
        case _:
            allowed = "a Message, a dict with 'role' and 'content', a (role, text) tuple, a str or a template"
            raise PromptError(f"a message of a prompt is {allowed}, not {_describe(message)}")


def _message_template(role: str, content: object) -> _MessageTemplate:
    if role not in _ROLES:
        closest = _closest(role, _ROLES)
        raise PromptError(f"unknown role {role!r}{closest}; the roles are: {', '.join(_ROLES)}")
    pieces = content if _are_parts(content) else (content,)
    return _MessageTemplate(cast("Role", role), tuple(_piece(piece) for piece in pieces))


def _piece(piece: object) -> object:
    if isinstance(piece, PromptTemplate):
        return _TextTemplate(piece.template)
    text = piece.text if isinstance(piece, TextPart) else piece
    return _TextTemplate(text) if isinstance(text, str) else piece


def _are_parts(content: object) -> TypeGuard[Sequence[object]]:
    """Return whether `content` is a list of message parts. A list without any part is a few-shot object."""
    return _is_sequence(content) and any(isinstance(item, _PARTS) for item in content)


def _message(role: Role, parts: tuple[Any, ...]) -> Message:
    """Return a message that may temporarily contain objects that are not parts."""
    return Message(role, parts)


def _compile(template: str) -> Iterator[str]:
    """Yield literal text and variable names in turn; the first and the last are text."""
    text: list[str] = []
    end = 0
    for brace in _BRACES.finditer(template):
        text.append(template[end : brace.start()])
        end = brace.end()
        if brace[0] in ("{{", "}}"):
            text.append(brace[0][0])
        else:
            yield "".join(text)
            yield _variable(template, brace)
            text.clear()
    yield "".join((*text, template[end:]))


def _variable(template: str, brace: re.Match[str]) -> str:
    # Python normalises the names of keyword arguments in the same way.
    name = unicodedata.normalize("NFKC", brace[1] or "")
    if not name.isidentifier():
        raise _brace_error(template, brace.start())
    if name in RESERVED:
        raise PromptError(f"no variable can be named {name!r}, because a call has that parameter itself; rename it")
    return name


def _brace_error(template: str, start: int) -> PromptError:
    before = template[:start]
    line, column = before.count("\n") + 1, start - before.rfind("\n")
    end = template.find("}", start) + 1 or start + 1
    return PromptError(
        f"line {line}, column {column} of the prompt: {template[start : min(end, start + 40)]!r} is no variable. "
        "A variable is {name}, a plain identifier without attributes, indexes or formats. To send a brace as text, "
        "double it: {{ or }}. Or write {text} and pass the text as a value, text=...: its braces are left alone"
    )


def _check(variables: tuple[str, ...], values: Mapping[str, Any]) -> None:
    if len(values) == len(variables):
        for variable in variables:
            if values.get(variable) is None:
                break
        else:
            return
    missing = [variable for variable in variables if values.get(variable) is None]
    unknown = [name for name in values if name not in variables]
    problems = [f"no value for the variable {variable!r}{_instead(variable, values, unknown)}" for variable in missing]
    problems += [f"no variable is named {name!r}{_closest(name, missing or variables)}" for name in unknown]
    named = f"the variables are: {', '.join(variables)}" if variables else "the prompt has no variables"
    raise PromptError("; ".join((*problems, named)))


def _instead(variable: str, values: Mapping[str, Any], unknown: Iterable[str]) -> str:
    if variable in values:
        return " (None is no value: pass '' for nothing)"
    if found := _close_matches(variable, unknown):
        return f" (you passed {found[0]!r})"
    return "" if unknown else f" (to send the braces as text, write {{{{{variable}}}}})"


def _closest(name: str, names: Iterable[str]) -> str:
    found = _close_matches(name, names)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _close_matches(name: str, names: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # needed in an error only

    return get_close_matches(name, tuple(names), n=1, cutoff=0.5)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def _is_message(value: object) -> TypeGuard[Message | Mapping[str, Any]]:
    return isinstance(value, Message) or is_message_dict(value)


def _is_history(value: object) -> TypeGuard[Sequence[Message | Mapping[str, Any]]]:
    return _is_sequence(value) and all(map(_is_message, value))


def _as_message(message: Message | Mapping[str, Any]) -> Message:
    """Return a `Message`, or the one that a dict describes. Raise `PromptError`."""
    if isinstance(message, Message):
        return message
    try:
        return message_from_dict(message)
    except ValueError as error:
        raise PromptError(str(error)) from error


def _media(value: object) -> tuple[_Value, ...]:
    """Return the parts of a user's message in `value`; none if it contains anything else."""
    items = value if _is_sequence(value) else (value,)
    media = tuple(item for item in items if isinstance(item, _VALUES))
    return media if len(media) == len(items) else ()


def _is_blank(part: Part) -> bool:
    return isinstance(part, TextPart) and not part.text.strip()


def _text(value: object, variable: str) -> str:
    """Return `value` as text. Raise `PromptError` for a message or a media part."""
    if isinstance(value, str):
        return value
    if _is_message(value) or (value and _is_history(value)):
        raise PromptError(
            f"the variable {variable!r} has {_describe(value)}: its message must consist of this variable alone"
        )
    if _media(value):
        raise PromptError(
            f"the variable {variable!r} has {_describe(value)}, which cannot be text: use format_messages()"
        )
    text = _to_text(value)
    if _no_text.fullmatch(text):
        raise PromptError(f"the variable {variable!r} has {_describe(value)}, which has no text of its own: pass a str")
    return text


def _to_text(value: object) -> str:
    as_json = getattr(type(value), "model_dump_json", None)
    try:
        return str(value) if as_json is None else str(as_json(value))
    except PydanticSerializationError:
        return json_text(value, by_alias=False)


def _with_examples(render: Iterable[Message], as_calls: AsCalls | None) -> list[Message]:
    """Return `drafts` with every few-shot object converted to tool calls and their results."""
    messages = list(render)
    if not _has_examples(messages):
        return messages
    used = {call.id for message in messages for call in message.tool_calls}
    ids = (id for number in count(1) if (id := f"example{number:02}") not in used)
    finished: list[Message] = []
    for message in messages:
        parts: list[Part] = []
        calls_made: list[ToolCallPart] = []
        for part in message.parts:
            example = _example(part, message.role, as_calls or _own_call)
            calls_made += (calls := [replace(call, id=next(ids)) for call in example])
            parts += calls or [part if isinstance(part, _PARTS) else TextPart(_to_text(part))]
        finished += (replace(message, parts=tuple(parts)), *(tool_result(call, TAKEN) for call in calls_made))
    return finished


def _has_examples(messages: Iterable[Message]) -> bool:
    for message in messages:
        for part in message.parts:
            if not isinstance(part, _PARTS):
                return True
    return False


def _example(part: object, role: Role, as_calls: AsCalls) -> Sequence[ToolCallPart]:
    return as_calls(part) if role == "assistant" and not isinstance(part, _PARTS) else ()


def _own_call(value: object) -> Sequence[ToolCallPart]:
    """Return the call of a tool named like the class of `value`; none if it is not an object or list in JSON."""
    try:
        # round_trip leaves out computed fields, which no model would write.
        text = json_text(value, by_alias=True, round_trip=True)
    except PydanticSerializationError:
        return ()
    if text[0] not in "{[":
        return ()
    arguments = text if text[0] == "{" else f'{{"value":{text}}}'
    return (ToolCallPart("", legal_name(type(value).__name__), arguments),)


def _describe(value: object) -> str:
    return f"{type(value).__name__} ({value!r:.60})"
