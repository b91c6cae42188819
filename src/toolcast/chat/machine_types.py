"""The events and the context of the chat machine as TypeScript types, for front ends.

They are made of the Python types, and describe the JSON of `ChatChange.to_dict` and `ChatMachine.snapshot`. `_FORMS`
has the fields whose JSON differs from their declarations.

The table of the chat machine as the configuration of an XState machine, for front ends.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from ..events import Event, Finish, StopReason
from ..messages import AudioPart, CacheTTL, DocumentPart, ImagePart, Message, Part, Role, TextPart
from ..values.answer_details import SafetyRating, TokenLogprob
from ..values.approvals import Action
from ..values.citations import Citation, Grounding
from ..values.usage import Usage
from ..values.usage_details import UsageDetails
from .chat_context import SELDOM_USED, ChatContext, ChatMark, ChatState, MarkKind, Stage, Streamed
from .events import USER_EVENTS, USER_PARTS, ChatEvent, Restored, WorkEvent
from .guards import is_late
from .transitions import ACTIONS, ALWAYS, GUARDS, TABLE, Row


def chat_machine_config() -> dict[str, Any]:
    """Return the table of `ChatMachine` as JSON-compatible data, which `createMachine` of XState 5 takes.

    It has the states, the events, and the guards and actions by their names, with the context of a new chat. Of several
    transitions for an event, the first whose guard is true is taken, as in the table. Events of abandoned work are
    ignored by a first transition, with the guard `is_late`, that does nothing.
    """
    states: dict[str, Any] = {}
    for state, rows in TABLE.items():
        on = {event.type: _transitions(choices, event) for event, choices in rows.items()}
        states[state] = {"on": on}
        if state in ALWAYS:
            states[state]["always"] = _transitions(ALWAYS[state])
    return {"id": "chat", "initial": next(iter(TABLE)), "context": ChatContext().to_dict(), "states": states}


def _transitions(rows: tuple[Row, ...], event: type | None = None) -> list[dict[str, Any]]:
    late = [{"guard": is_late.__name__}] if event is not None and issubclass(event, WorkEvent) else []
    return [*late, *map(_transition, rows)]


def _transition(row: Row) -> dict[str, Any]:
    guard = {} if row.guard is None else {"guard": row.guard.__name__}
    return {"target": row.target, **guard, "actions": [action.__name__ for action in row.actions]}


def chat_machine_types() -> str:
    """Return the TypeScript types of the events, the changes and the context of `ChatMachine`.

    They describe its JSON: `ChatChange` is that of `ChatChange.to_dict`, `ChatSnapshot` that of `ChatMachine.snapshot`,
    and `ChatUserEvent` is what `ChatMachine.dispatch` takes. `ChatGuard` and `ChatAction` are the names of guards and
    actions in `chat_machine_config()`.
    """
    types = _Types()
    types.declare("ChatEvent", "An event, as a `ChatChange` has it.", map(types.of, _events()))
    types.of(ChatContext)
    types.of(ChatState)
    types.declare("UserPart", "A part of a message that a user sends.", map(types.user_part, USER_PARTS))
    types.declare("ChatUserEvent", "An event of a user.", map(types.user_event, USER_EVENTS.values()))
    types.declare("ChatGuard", "The names of the guards.", map(json.dumps, [is_late.__name__, *GUARDS]))
    types.declare("ChatAction", "The names of the actions.", map(json.dumps, ACTIONS))
    return _HEAD + "".join(types.declarations.values()) + _CHANGES


def _events() -> Iterable[type[ChatEvent]]:
    """Return the types of all events: those of users, those of work, and the one of `restore`."""
    return dict.fromkeys([*USER_EVENTS.values(), *(event for rows in TABLE.values() for event in rows), Restored])


class _Form(NamedTuple):
    """The differences between the fields of a class and their JSON.

    `absent` fields are left out where they are not set, `hidden` ones always. `own` are the types of fields that have
    another one in JSON, or are only there. `docs` is the description, in place of the first line of that in Python.
    """

    absent: Collection[str] = ()
    hidden: Collection[str] = ()
    own: Mapping[str, str] = MappingProxyType({})
    docs: str = ""


_OPAQUE: Final = "JsonObject | null"

_FORMS: Final[Mapping[type, _Form]] = {
    ChatContext: _Form(absent=SELDOM_USED, own={"mode?": "string | null"}),
    ChatMark: _Form(
        hidden=("at",),
        own={"index": "number"},
        docs="The trace of a turn that ended early. `index` is that of the message before it.",
    ),
    Message: _Form(absent=("response_id",)),
    TextPart: _Form(absent=("citations",)),
    DocumentPart: _Form(absent=("citations",)),
    ImagePart: _Form(absent=("opaque",), own={"opaque?": _OPAQUE}),
    AudioPart: _Form(absent=("transcript", "opaque"), own={"transcript?": "string | null", "opaque?": _OPAQUE}),
    Citation: _Form(absent=[name for name in Citation.__match_args__ if name != "kind"]),
    Grounding: _Form(absent=Grounding.__match_args__),
    TokenLogprob: _Form(absent=("bytes", "top"), own={"bytes?": "ReadonlyArray<number>"}),
    SafetyRating: _Form(absent=("level", "blocked", "provider", "raw")),
    Usage: _Form(
        absent=("reasoning_tokens", "audio_tokens", "details"),
        hidden=("pricing",),
        own={"cost?": "string", "known_cost?": "string"},
    ),
    UsageDetails: _Form(absent=[field.name for field in fields(UsageDetails)]),
    Finish: _Form(hidden=("response_id", "body")),
}

_NAMED: Final[Mapping[str, tuple[Any, str]]] = {
    "ChatState": (ChatState, "A state of the chat."),
    "Stage": (Stage, "A stage that can fail and be retried."),
    "MarkKind": (MarkKind, "A way in which a turn ends early."),
    "StopReason": (StopReason, "The reason of the end of a response."),
    "Role": (Role, "The role of a message."),
    "CacheTTL": (CacheTTL, "The time for which a prompt is cached."),
    "ApprovalAction": (Action, "A decision about a tool call."),
    "Part": (Part, "A part of a message."),
    "StreamEvent": (Event, "An event of a streamed response."),
}
"""The types that are declared under a name, and not written out where they are used, with their descriptions."""

_SIMPLE: Final[Mapping[Any, str]] = {
    str: "string",
    bytes: "Base64",
    int: "number",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    Any: "Json",
}

_LONGEST: Final = 80
_UNIONS: Final = (Union, UnionType)

_HEAD: Final = """\
// The events, the changes and the context of toolcast's chat machine, as they are in JSON.
// Made by toolcast.chat.chat_machine_types().

/** A value of JSON. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject;

/** An object of JSON. */
export interface JsonObject {
  readonly [name: string]: Json;
}

/** Bytes as base64 text, with `-` and `_` in place of `+` and `/`. */
export type Base64 = string;

/** A type of which only the fields `Needed` are needed. */
export type Given<T, Needed extends keyof T> = Pick<T, Needed> & Partial<T>;
"""

_CHANGES: Final = """
/** A message that a user sends. */
export interface UserMessage {
  readonly role: "user";
  readonly parts: ReadonlyArray<UserPart>;
}

/** The changed fields of the context. The messages replace those from the index `from` on. */
export type ChatChanges = Partial<Omit<ChatContext, "messages" | "streamed">> & {
  readonly messages?: { readonly from: number; readonly messages: ReadonlyArray<Message> };
};

/** The effect of an event: the state, the states on the way to it, and the changed fields of the context. */
export interface ChatChange {
  readonly event: ChatEvent;
  readonly state: ChatState;
  readonly path: ReadonlyArray<ChatState>;
  readonly ignored: boolean;
  readonly changes: ChatChanges;
}

/** A whole chat. */
export interface ChatSnapshot {
  readonly version: 1;
  readonly state: ChatState;
  readonly context: ChatContext;
}
"""


class _Types:
    """The declarations of a TypeScript module; the types that one refers to are added with it."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}

    def declare(self, name: str, docs: str, members: Iterable[str]) -> None:
        """Declare a union, on lines of its own if it is long."""
        texts = [*members]
        text = " " + _union(texts)
        if len(text) > _LONGEST:
            text = "".join([f"\n  | {each}" for each in texts])
        self.declarations[name] = f"\n/** {docs} */\nexport type {name} ={text};\n"

    def of(self, hint: Any) -> str:
        """Return a type in TypeScript."""
        if hint in _SIMPLE:
            return _SIMPLE[hint]
        for name, (named, docs) in _NAMED.items():
            if hint == named:
                return self._named(name, hint, docs)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Literal:
            return _union(map(json.dumps, arguments))
        if origin in _UNIONS:
            return self._either(arguments)
        if origin is tuple:
            types = [self.of(argument) for argument in arguments if argument is not ...]
            return f"ReadonlyArray<{types[0]}>" if ... in arguments else f"readonly [{', '.join(types)}]"
        if hint is Streamed:
            return self.of(Message)
        if is_dataclass(hint):
            return self._interface(cast("type[Any]", hint))
        return "JsonObject" if origin is Mapping else "string"

    def user_part(self, part: type) -> str:
        """Return the type of a part that a user sends: fields with a default may be left out."""
        needed = ["type", *(field.name for field in fields(part) if _is_needed(field))]
        return f"Given<{self.of(part)}, {_union(map(json.dumps, needed))}>"

    def user_event(self, event: type[ChatEvent]) -> str:
        """Return the type of an event that a user sends: a message may be text, fields with a default left out."""
        hints = get_type_hints(event)
        members = {"type": json.dumps(event.type)}
        for field in fields(event):
            name = field.name if _is_needed(field) else f"{field.name}?"
            members[name] = "string | UserMessage" if hints[field.name] is Message else self.of(hints[field.name])
        return f"{{ {' '.join(_members(members))} }}"

    def _named(self, name: str, hint: Any, docs: str) -> str:
        if name not in self.declarations:
            self.declarations[name] = ""  # it comes before those that it refers to
            self.declare(name, docs, map(json.dumps if get_origin(hint) is Literal else self.of, get_args(hint)))
        return name

    def _either(self, arguments: Sequence[Any]) -> str:
        """Return a union; one that Python has merged into it is called by its name again."""
        texts = list[str]()
        for hint in (Part, Event):
            if {*get_args(hint)} <= {*arguments}:
                texts.append(self.of(hint))
                arguments = [argument for argument in arguments if argument not in get_args(hint)]
        return _union([*texts, *map(self.of, arguments)])

    def _interface(self, cls: type[Any]) -> str:
        name = cls.__name__
        if name not in self.declarations:
            self.declarations[name] = ""  # it may refer to itself
            members = "".join(f"  {member}\n" for member in _members(self._fields(cls)))
            docs = _FORMS.get(cls, _Form()).docs or (cls.__doc__ or "").partition("\n")[0]
            self.declarations[name] = f"\n/** {docs} */\nexport interface {name} {{\n{members}}}\n"
        return name

    def _fields(self, cls: type[Any]) -> dict[str, str]:
        """Return the types of the fields of a class, as they are in JSON; of one that may be absent with a `?`."""
        form, hints = _FORMS.get(cls, _Form()), get_type_hints(cls)
        found = dict[str, str]()
        if issubclass(cls, ChatEvent):
            found["type"] = json.dumps(cls.type)
        elif cls in get_args(Event):
            found["type"] = json.dumps(cls.__name__)
        for field in fields(cls):
            name, hint = field.name, hints[field.name]
            if name in form.absent:  # and None is not set
                choices = get_args(hint) if get_origin(hint) in _UNIONS else (hint,)
                found[f"{name}?"] = self._either([choice for choice in choices if choice is not NoneType])
            elif name not in form.hidden:
                found[name] = self.of(hint)
        return {**found, **form.own}


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _members(fields: Mapping[str, str]) -> list[str]:
    return [f"readonly {name}: {text};" for name, text in fields.items()]


def _union(texts: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(texts))
