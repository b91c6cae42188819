"""The TypeScript types of the chat machine. `nox -s clients` compiles them beside what is really sent."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from toolcast.chat.chat_context import ChatState
from toolcast.chat.events import USER_EVENTS, Restored
from toolcast.chat.machine_types import chat_machine_types
from toolcast.chat.transitions import ACTIONS, GUARDS, TABLE
from toolcast.events import Event
from toolcast.messages import Part

TEXT = chat_machine_types()
DECLARED = dict(re.findall(r"^export (?:type|interface) (\w+)(.*?)(?=^/\*\*|\Z)", TEXT, re.S | re.M))
ALL_EVENTS = {*USER_EVENTS.values(), *(event for on in TABLE.values() for event in on), Restored}


def members(name: str) -> list[str]:
    """Return the members of a declared union."""
    return [each.strip(" \n;") for each in DECLARED[name].partition("=")[2].split("|") if each.strip()]


def quoted(names: object) -> list[str]:
    return [f'"{name}"' for name in names]  # type: ignore[attr-defined]  # an iterable


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ChatState", quoted(get_args(ChatState))),
        ("ChatGuard", quoted(["is_late", *GUARDS])),
        ("ChatAction", quoted(ACTIONS)),
        ("Part", [part.__name__ for part in get_args(Part)]),
        ("StreamEvent", [event.__name__ for event in get_args(Event)]),
    ],
)
def test_a_union_has_all_members(name: str, expected: list[str]) -> None:
    assert members(name) == expected


def test_events_differ_by_their_type() -> None:
    assert {*members("ChatEvent")} == {event.__name__ for event in ALL_EVENTS}
    for event in ALL_EVENTS:
        assert f'\n  readonly type: "{event.type}";\n' in DECLARED[event.__name__]
    assert re.findall(r'\{ readonly type: "(\w+)";', DECLARED["ChatUserEvent"]) == [*USER_EVENTS]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("ApproveToolCall", ["call_id: string | null", "fingerprints: ReadonlyArray<string> | null"]),
        ("StreamChunk", ["run: number | null", "content: StreamEvent | string"]),
        ("StreamComplete", ["message: Message | null", "stop_reason: StopReason | null", "usage: Usage"]),
        ("ToolCallProgress", ["data: Json"]),
        ("ToolCallSuccess", ["result: ToolResultPart | string", "remembered: ReadonlyArray<JsonObject> | null"]),
        ("ChatContext", ["streamed: Message", "mode?: string | null", "held?: ReadonlyArray<Message>"]),
        ("ChatMark", ["index: number"]),
        ("Message", ["parts: ReadonlyArray<Part>", "response_id?: string"]),
        ("ImagePart", ["data: Base64 | null", 'type: "image"', "opaque?: JsonObject | null"]),
        ("Citation", ["kind: string", "pages?: readonly [number, number]", "raw?: JsonObject"]),
        ("Usage", ["input_tokens: number", "audio_tokens?: number", "details?: UsageDetails", "cost?: string"]),
        ("TokenLogprob", ["bytes?: ReadonlyArray<number>", "top?: ReadonlyArray<TokenLogprob>"]),
        ("Failover", ["error: string"]),
        ("SafetyRating", ['source: "prompt" | "response"', "blocked?: boolean"]),
    ],
)
def test_a_field_has_the_type_of_its_json(name: str, lines: list[str]) -> None:
    found = re.findall(r"^  readonly (.*);$", DECLARED[name], re.M)
    assert [line for line in lines if line not in found] == []


@pytest.mark.parametrize(("name", "field"), [("ChatMark", "at"), ("Usage", "pricing"), ("Finish", "body")])
def test_what_is_not_sent_is_not_declared(name: str, field: str) -> None:
    assert field not in re.findall(r"readonly (\w+)", DECLARED[name])


def test_events_of_users_may_leave_out_what_has_a_default() -> None:
    events = DECLARED["ChatUserEvent"]
    assert '{ readonly type: "HOLD_QUEUE"; readonly index?: number; }' in events
    assert '{ readonly type: "QUEUE_MESSAGE"; readonly message: string | UserMessage; }' in events
    assert 'Given<FileRef, "type" | "provider" | "id">' in DECLARED["UserPart"]


def test_each_name_is_declared_once_and_each_that_is_used_is_declared() -> None:
    assert len(re.findall(r"^export ", TEXT, re.M)) == len(DECLARED)
    code = re.sub(r'/\*\*.*?\*/|//.*|"[^"]*"', "", TEXT)
    known = {*DECLARED, "ReadonlyArray", "Pick", "Partial", "Omit", "T", "Needed"}
    assert {*re.findall(r"\b[A-Z]\w*", code)} == known
