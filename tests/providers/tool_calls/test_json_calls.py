"""forced_calls.py: text that spells calls, whole and cut everywhere, and what a tool choice comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcast.errors import BadRequest, MalformedEvent
from toolcast.events import (
    Event,
    Finish,
    RawEvent,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    UsageReport,
)
from toolcast.messages import Message, ToolCallPart
from toolcast.providers.base import RequestInput
from toolcast.providers.tool_calls.json_calls import (
    CallFormat,
    JSONTextCalls,
    JSONTextDecoder,
    call_format,
    instructions,
    response_schema,
    with_object_root,
)
from toolcast.values.accumulator import Accumulator
from toolcast.values.tool_spec import NamedTool, ToolChoice, ToolSpec
from toolcast.values.usage import Usage

ADD = ToolSpec("add", "Adds.", {"type": "object"})
SING = ToolSpec("sing", "Sings.", {"type": "object"})
BARE, ONE_OF, SEVERAL = CallFormat((ADD,)), CallFormat((ADD, SING)), CallFormat((ADD, SING), parallel=True)
REPEATED = CallFormat((ADD,), parallel=True)
FREE = CallFormat((ADD,), forced=False)


def _joined(pieces: list[str], form: CallFormat, *, cut: bool = False) -> list[Event]:
    """The events of the pieces, neighbouring deltas joined."""
    calls = JSONTextCalls(form, before=2)
    out: list[Event] = []
    for event in [*(e for piece in pieces for e in calls.feed(piece)), *calls.finish(cut=cut)]:
        last = out[-1] if out else None
        if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta) and last.id == event.id:
            out[-1] = ToolCallDelta(event.id, last.arguments + event.arguments)
        elif isinstance(event, TextDelta) and isinstance(last, TextDelta):
            out[-1] = TextDelta(last.text + event.text)
        else:
            out.append(event)
    return out


def _events(text: str, form: CallFormat, *, cut: bool = False) -> list[Event]:
    """The events of `text`, the same for every cut in two, character by character, and with empty pieces."""
    whole = _joined([text], form, cut=cut)
    for at in range(len(text) + 1):
        assert _joined([text[:at], "", text[at:]], form, cut=cut) == whole
    assert _joined(list(text), form, cut=cut) == whole
    return whole


def _call(id: str, name: str, arguments: str, *, truncated: bool = False) -> list[Event]:
    delta: list[Event] = [ToolCallDelta(id, arguments)] if arguments else []
    return [ToolCallStart(id, name), *delta, ToolCallDone(id, name, arguments or "{}", truncated)]


FIRST = '{"a": 1, "b": {"c": ["}", "\\u00e9"]}}'
CASES: dict[str, tuple[CallFormat, str, list[Event]]] = {
    "one tool": (BARE, f" \n{FIRST}", _call("call_3", "add", FIRST)),
    "one of several": (ONE_OF, f'{{"name": "add", "arguments": {FIRST}}}', _call("call_3", "add", FIRST)),
    "arguments first": (ONE_OF, f'{{"arguments": {FIRST}, "name": "add"}}', _call("call_3", "add", FIRST)),
    "a call by choice": (FREE, '{"name": "add", "arguments": {}}', _call("call_3", "add", "{}")),
    "none given": (ONE_OF, '{"name": "sing"}', _call("call_3", "sing", "")),
    "written as a string": (
        ONE_OF,
        '{"name": "add", "arguments": "{\\"a\\": 1}"}',
        _call("call_3", "add", '{"a": 1}'),
    ),
    "other members": (
        ONE_OF,
        '{"x": {"name": "no", "arguments": {}}, "name": "add", "y": [1], "arguments": {"a": 2}, "z": "arguments"}',
        _call("call_3", "add", '{"a": 2}'),
    ),
    "several calls": (
        SEVERAL,
        f'{{"calls": [{{"name": "add", "arguments": {FIRST}}}, {{"name": "sing", "arguments": {{}}}}]}}',
        [*_call("call_3", "add", FIRST), *_call("call_4", "sing", "{}")],
    ),
    "several calls of one tool": (
        REPEATED,
        f'{{"calls": [{FIRST}, {{}}]}}',
        [*_call("call_3", "add", FIRST), *_call("call_4", "add", "{}")],
    ),
    "one call in a list": (
        with_object_root(ONE_OF),
        f'{{"calls": [{{"name": "add", "arguments": {FIRST}}}]}}',
        _call("call_3", "add", FIRST),
    ),
    "text": (FREE, "  It is {391}.", [TextDelta("  It is {391}.")]),
    "text where a call was forced": (BARE, "I cannot.", [TextDelta("I cannot.")]),
    "nothing": (BARE, "", []),
    "white space": (BARE, " \n", [TextDelta(" \n")]),
    "no call in it": (ONE_OF, '{"answer": 42}', [TextDelta('{"answer": 42}')]),
    "no JSON": (ONE_OF, "{answer: 42} or so", [TextDelta("{answer: 42} or so")]),
}


@pytest.mark.parametrize("name", CASES)
def test_text_becomes_calls(name: str) -> None:
    form, text, expected = CASES[name]
    assert _events(text, form) == expected


@pytest.mark.parametrize(
    ("form", "text", "arguments", "truncated"),
    [
        (BARE, '{"a": [1, 2', '{"a": [1, 2', True),
        (BARE, '{"a": 1}', '{"a": 1}', False),
        (ONE_OF, '{"name": "add", "arguments": {"a": "x', '{"a": "x', True),
        (ONE_OF, '{"name": "add", "arguments": {"a": 1}', '{"a": 1}', False),
        (ONE_OF, '{"name": "add", "arg', "{}", True),
        (REPEATED, '{"calls": [{"a": 1', '{"a": 1', True),
        (REPEATED, '{"calls": [{"a": 1}', '{"a": 1}', False),
    ],
)
def test_a_limit_cuts_a_call(form: CallFormat, text: str, arguments: str, truncated: bool) -> None:
    assert _events(text, form, cut=True)[-1] == ToolCallDone("call_3", "add", arguments, truncated)


def test_text_that_stops_being_json_ends_the_call_where_it_was() -> None:
    events = _joined(['{"name": "add", "arguments": {"a": 1', "oops", "}}"], ONE_OF)
    assert events[-1] == ToolCallDone("call_3", "add", '{"a": 1')


def test_arguments_grow_as_they_are_written() -> None:
    calls = JSONTextCalls(ONE_OF)
    seen = [calls.feed(piece) for piece in ('{"name": "add", "arguments": {"a"', ': "x', 'yz"}', "}")]
    assert seen == [
        [ToolCallStart("call_1", "add"), ToolCallDelta("call_1", '{"a"')],
        [ToolCallDelta("call_1", ': "x')],
        [ToolCallDelta("call_1", 'yz"}')],
        [ToolCallDone("call_1", "add", '{"a": "xyz"}')],
    ]


OFFERED = (ADD, SING)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, CallFormat(OFFERED, forced=False)),
        ("auto", CallFormat(OFFERED, forced=False)),
        ("none", None),
        ("required", CallFormat(OFFERED)),
        ("any", CallFormat(OFFERED)),
        ("sing", CallFormat((SING,))),
        (NamedTool("add"), BARE),
        ({"type": "function", "function": {"name": "add"}}, BARE),
        ({"type": "tool", "name": "add"}, BARE),
    ],
)
def test_the_format_of_a_tool_choice(choice: ToolChoice, expected: CallFormat | None) -> None:
    assert call_format(RequestInput("m", (), OFFERED, choice)) == expected


@pytest.mark.parametrize(
    ("tools", "choice", "words"),
    [
        (OFFERED, NamedTool("fly"), "'fly', which is not among the tools"),
        ((), "required", "needs tools"),
        (OFFERED, {"mode": "x"}, "is not understood"),
    ],
)
def test_a_choice_that_cannot_be(tools: tuple[ToolSpec, ...], choice: ToolChoice, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        call_format(RequestInput("m", (), tools, choice))


def test_no_tools_and_calls_made_before() -> None:
    assert call_format(RequestInput("m", ())) is None
    made = Message("assistant", (ToolCallPart("1", "add"), ToolCallPart("2", "add")))
    assert RequestInput("m", (made, made)).calls_before == 4


def test_a_choice_at_the_root_becomes_a_list() -> None:
    assert with_object_root(ONE_OF) == CallFormat((ADD, SING), listed=True)
    assert with_object_root(BARE) == BARE
    assert with_object_root(REPEATED) == REPEATED
    assert response_schema(with_object_root(SEVERAL)) == response_schema(SEVERAL)


def _called(name: str) -> dict[str, Any]:
    properties = {"name": {"const": name}, "arguments": {"type": "object"}}
    return {"type": "object", "properties": properties, "required": ["name", "arguments"]}


def _listed(items: dict[str, Any], **bounds: int) -> dict[str, Any]:
    properties = {"calls": {"type": "array", "items": items, **bounds}}
    return {"type": "object", "properties": properties, "required": ["calls"]}


EITHER = {"anyOf": [_called("add"), _called("sing")]}


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (BARE, {"type": "object"}),
        (FREE, _called("add")),
        (ONE_OF, EITHER),
        (with_object_root(ONE_OF), _listed(EITHER, minItems=1, maxItems=1)),
        (SEVERAL, _listed(EITHER, minItems=1)),
        (REPEATED, _listed({"type": "object"}, minItems=1)),
    ],
)
def test_the_schema_of_an_answer(form: CallFormat, schema: dict[str, Any]) -> None:
    assert response_schema(form) == schema
    text = instructions(form)
    assert text.startswith("\n".join(f"{tool.name}: {tool.description}" for tool in form.tools))
    assert text.endswith(json.dumps(schema))


def test_definitions_of_several_tools_have_prefixes() -> None:
    def tool(name: str, kind: str) -> ToolSpec:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {"x": {"anyOf": [{"$ref": "#/$defs/D"}, {"type": "null"}]}},
        }
        schema["$defs"] = {"D": {"enum": [kind]}}
        return ToolSpec(name, "", schema)

    schema = response_schema(CallFormat((tool("one", "a"), tool("two", "b"))))
    assert schema["$defs"] == {"0.D": {"enum": ["a"]}, "1.D": {"enum": ["b"]}}
    held = [call["properties"]["arguments"] for call in schema["anyOf"]]
    assert [each["properties"]["x"]["anyOf"][0] for each in held] == [{"$ref": "#/$defs/0.D"}, {"$ref": "#/$defs/1.D"}]


class _Inner:
    """A decoder that gives out what it was made with."""

    def __init__(self, *events: Event, last: tuple[Event, ...] = ()) -> None:
        self._events, self._last = list(events), list(last)

    def feed(self, data: bytes) -> list[Event]:
        return self._events

    def close(self) -> list[Event]:
        return self._last


@pytest.mark.parametrize(
    ("text", "output", "stop_reason"),
    [
        ('{"a": 1}', "end_turn", "tool_use"),
        ('{"a": 1}', "max_tokens", "max_tokens"),
        ("No.", "end_turn", "end_turn"),
        ('{"a": 1}', "content_filter", "content_filter"),
    ],
)
def test_the_decoder_translates_text_and_the_stop_reason(
    text: str, output: StopReason, stop_reason: StopReason
) -> None:
    usage = UsageReport(Usage(1, 2))
    decoder = JSONTextDecoder(_Inner(TextDelta(text), last=(usage, Finish(output, "m", "raw"))), JSONTextCalls(BARE))
    events = decoder.feed(b"") + decoder.close()
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    assert events[-1] == Finish(stop_reason, "m", "raw")
    assert usage in events
    called: Any = [json.loads(call.arguments) for call in accumulator.message().tool_calls]
    assert called == ([{"a": 1}] if text != "No." else [])


def test_damage_inside_the_response_raises_after_the_events_before_it() -> None:
    damaged = RawEvent('{"message":', damaged=True)
    decoder = JSONTextDecoder(
        _Inner(TextDelta('{"a": '), damaged, TextDelta("1}"), Finish("end_turn")), JSONTextCalls(BARE)
    )
    events = decoder.feed(b"")
    assert damaged in events
    assert not any(isinstance(event, (Finish, ToolCallDone)) for event in events)
    with pytest.raises(MalformedEvent, match="may lack a piece"):
        decoder.close()


@pytest.mark.parametrize("noise", ["noise", '{"message":'])
@pytest.mark.parametrize(("form", "call"), [(BARE, "{}"), (ONE_OF, '{"name": "add", "arguments": {}}')])
def test_noise_after_the_call_costs_nothing(form: CallFormat, call: str, noise: str) -> None:
    inner = _Inner(TextDelta(call), RawEvent(noise, damaged=True), Finish("end_turn"))
    decoder = JSONTextDecoder(inner, JSONTextCalls(form))
    assert decoder.feed(b"")[-1] == Finish("tool_use")
    assert decoder.close() == []


def test_calls_that_came_as_calls_keep_ids_of_their_own() -> None:
    called = _call("call_1", "sing", "{}")
    reset = ToolCallReset("call_1")
    decoder = JSONTextDecoder(
        _Inner(TextDelta('{"a'), called[0], reset, *called[1:], TextDelta('": 1}'), last=(Finish("tool_use"),)),
        JSONTextCalls(BARE),
    )
    assert decoder.feed(b"") + decoder.close() == [
        ToolCallStart("call_1", "add"),
        ToolCallDelta("call_1", '{"a'),
        ToolCallStart("call_1_2", "sing"),
        ToolCallReset("call_1_2"),
        ToolCallDelta("call_1_2", "{}"),
        ToolCallDone("call_1_2", "sing", "{}"),
        ToolCallDelta("call_1", '": 1}'),
        ToolCallDone("call_1", "add", '{"a": 1}'),
        Finish("tool_use"),
    ]
    decoder = JSONTextDecoder(_Inner(*called, TextDelta("{}"), Finish("tool_use")), JSONTextCalls(BARE))
    assert decoder.feed(b"")[3] == ToolCallStart("call_2", "add")
