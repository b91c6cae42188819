"""The TypeScript types of the chat machine, checked by the compiler against what is really sent."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from clients.chat_json import EVENTS, PARTS, STREAM, json_of_everything
from clients.typescript import compile_errors, run_typescript
from toolcast.chat import chat_machine_types
from toolcast.chat.events import USER_EVENTS, Restored, parse_event
from toolcast.chat.transitions import TABLE
from toolcast.events import Event
from toolcast.messages import Part

TYPES = {*USER_EVENTS.values(), *(each for on in TABLE.values() for each in on), Restored}

TYPE_TEXTS = sorted(json.dumps(each.type) for each in TYPES)


def errors(program: str) -> list[str]:
    """Return the errors of a program that has all names of the exported module as `chat`."""
    files = {
        "chat-machine.ts": chat_machine_types(),
        "program.ts": f'import * as chat from "./chat-machine.js";\n{program}',
    }
    return compile_errors(files)


def test_what_is_sent_has_the_types() -> None:
    sent = json_of_everything()
    lines = [
        f"export const {name}{at}: chat.{name} = {json.dumps(value)};"
        for name, values in sent.items()
        for at, value in enumerate(values)
    ]
    assert errors("\n".join(lines)) == []


def test_each_kind_of_event_and_part_is_sent() -> None:
    assert {type(event) for event in EVENTS} == TYPES
    assert {type(part) for part in PARTS} == {*get_args(Part)}
    assert {type(event) for event in STREAM} == {*get_args(Event), str}


def test_a_switch_over_the_type_of_an_event_is_complete() -> None:
    cases = "\n".join(f"    case {type}: return {type} satisfies typeof event.type;" for type in TYPE_TEXTS)
    program = f"""
export function named(event: chat.ChatEvent): string {{
  switch (event.type) {{
{cases}
  }}
}}
export function next(event: chat.ChatEvent): never {{
  if (event.type === "STREAM_CHUNK") throw event.content;
  // @ts-expect-error: other events are left
  return event;
}}
export function text(chunk: chat.StreamChunk): string | undefined {{
  if (typeof chunk.content === "string") return chunk.content;
  return chunk.content.type === "TextDelta" ? chunk.content.text : undefined;
}}
"""
    assert errors(program) == []


RIGHT = """
export const events: readonly chat.ChatUserEvent[] = [
  { type: "LOAD_MODEL" },
  { type: "LOAD_MODEL", model_id: "openai:gpt" },
  { type: "QUEUE_MESSAGE", message: "Hello." },
  { type: "QUEUE_MESSAGE", message: { role: "user", parts: [
    { type: "text", text: "Look." },
    { type: "image", url: "https://example.com/image.png" },
    { type: "document", data: "JVBERg==", media_type: "application/pdf" },
    { type: "file", provider: "openai", id: "file-1" },
  ] } },
  { type: "EDIT_MESSAGE", index: 0, message: "Hello!" },
  { type: "APPROVE_TOOL_CALL", call_id: "1", arguments: "{}" },
  { type: "REJECT_TOOL_CALL", reason: "no" },
  { type: "INTERRUPT" },
];
"""
WRONG = {
    "no such event": 'const event: chat.ChatUserEvent = { type: "SHOUT" };',
    "an event of work": 'const event: chat.ChatUserEvent = { type: "MODEL_LOAD_SUCCESS" };',
    "a message that is missing": 'const event: chat.ChatUserEvent = { type: "QUEUE_MESSAGE" };',
    "a field of another event": 'const event: chat.ChatUserEvent = { type: "INTERRUPT", index: 1 };',
    "a number as text": 'const event: chat.ChatUserEvent = { type: "HOLD_QUEUE", index: "1" };',
    "a call as a part of a user": 'const part: chat.UserPart = { type: "tool_call", id: "1", name: "look" };',
    "a role": 'const message: chat.UserMessage = { role: "assistant", parts: [] };',
    "no such state": 'const state: chat.ChatState = "asleep";',
    "no such guard": 'const guard: chat.ChatGuard = "is_nice";',
    "no such action": 'const action: chat.ChatAction = "shout";',
    "a change of the context": "export const f = (context: chat.ChatContext) => { context.rounds = 1; };",
    "a change of the messages": "export const f = (context: chat.ChatContext) => context.messages.push();",
    "a field that may be absent": "export const f = (context: chat.ChatContext): number => context.held.length;",
    "a model that may be null": "export const f = (context: chat.ChatContext): string => context.model;",
    "a field of some parts": "export const f = (part: chat.Part): string => part.text;",
    "no such field": "export const f = (context: chat.ChatContext) => context.mood;",
    "messages that may be absent": "export const f = (changes: chat.ChatChanges): number => changes.messages.from;",
}
"""Programs that the compiler must refuse, by what is wrong with them."""


def test_right_programs_compile_and_wrong_ones_do_not() -> None:
    lines = [f"{{ // @ts-expect-error: {name}\n{text.removeprefix('export ')} }}" for name, text in WRONG.items()]
    assert errors(RIGHT + "\n".join(lines)) == []


@pytest.mark.parametrize("name", ["no such event", "a change of the context"])
def test_the_error_names_the_wrong_program(name: str) -> None:
    (error,) = errors(WRONG[name])
    assert error.startswith("program.ts(2,")


def test_events_of_users_are_what_dispatch_takes() -> None:
    program = f'import type * as chat from "./chat-machine.js";\n{RIGHT}\nconsole.log(JSON.stringify(events));'
    files = {"chat-machine.ts": chat_machine_types(), "program.ts": program}
    (sent,) = run_typescript(files, "program.js")
    assert [parse_event(event).type for event in sent] == [event["type"] for event in sent]
    assert len(sent) == RIGHT.count("\n  { type:")
