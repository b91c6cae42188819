"""Keys and stored answers: what a key depends on, and answers that come back as they were, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.albums import Album
from toolcast import Settings, Usage, user
from toolcast.events import (
    Citation,
    Event,
    Finish,
    Grounding,
    GroundingReport,
    RawEvent,
    Restarted,
    Routing,
    ServerToolUse,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    UsageReport,
)
from toolcast.llms import ChatRequest
from toolcast.llms.wrappers.cached_llm import STORED_REASONS, cache_key, decode, encode, storable
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.accumulator import Accumulator

texts = st.text(max_size=8)
settings = st.builds(
    Settings,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 9),
    stop=st.none() | st.lists(texts, max_size=2),
    extra=st.none() | st.dictionaries(texts, texts | st.integers(), max_size=2),
)
requests = st.builds(
    ChatRequest,
    messages=st.lists(st.builds(user, texts), min_size=1, max_size=3).map(tuple),
    settings=settings,
    parallel=st.booleans(),
    mode=st.sampled_from([None, "tool_call", "prompted"]),
)


def key(request: ChatRequest, namespace: str = "") -> str | None:
    return cache_key(namespace, ["provider", "url", "model", request.to_dict()])


@given(requests, requests)
def test_keys_are_equal_for_equal_requests_only(one: ChatRequest, other: ChatRequest) -> None:
    assert key(one) == key(replace(one, messages=tuple(one.messages)))
    assert (key(one) == key(other)) == (json.dumps(one.to_dict()) == json.dumps(other.to_dict()))


@given(requests, texts, texts)
def test_namespaces_never_share_a_key(request: ChatRequest, one: str, other: str) -> None:
    assert (key(request, one) == key(request, other)) == (one == other)


@given(requests)
def test_what_changes_no_answer_changes_no_key(request: ChatRequest) -> None:
    other = replace(request, stream=True, accept_damaged=True, settings=request.settings.with_(timeout=3))
    assert key(request) == key(other)
    tools = (CallableTool.from_model(Album),)
    assert key(request) != key(replace(request, tools=tools)) != key(replace(request, tools=tools, tool_choice="auto"))


def test_what_is_no_json_has_no_key() -> None:
    assert key(ChatRequest((user("x"),), settings=Settings(extra={"x": object()}))) is None


opaque = st.none() | st.dictionaries(texts, texts, min_size=1, max_size=2)


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    """Draw the events of a complete answer, with what is not stored among them."""
    events: list[Event] = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["text", "thinking", "call", "server tool"]))
        if kind == "text":
            events += [TextDelta(text) for text in draw(st.lists(texts, min_size=1, max_size=3))]
        elif kind == "thinking":
            signature = draw(st.none() | st.text(min_size=1, max_size=4))
            events.append(ThinkingDelta(draw(texts), signature=signature, opaque=draw(opaque)))
        elif kind == "server tool":
            plain = st.sampled_from([None, 0, False, ""])
            found = draw(plain | st.lists(texts, min_size=1) | texts | st.dictionaries(texts, texts))
            used = ServerToolUse("web_search", draw(texts), draw(opaque), found, draw(st.none() | texts), "openai")
            events.append(replace(used, raw=draw(opaque)))
        else:
            id, arguments = f"call_{number}", json.dumps(draw(st.dictionaries(texts, texts, max_size=2)))
            events.append(ToolCallStart(id, "tool"))
            if draw(st.booleans()):
                events += [ToolCallDelta(id, "{}"), ToolCallReset(id)]
            events += [ToolCallDelta(id, part) for part in arguments]
            events.append(ToolCallDone(id, "tool", arguments, opaque=draw(opaque)))
        if draw(st.booleans()):
            events.append(UsageReport(Usage(number, number)))
    reason = draw(st.sampled_from(sorted(STORED_REASONS)))
    return [*events, Finish(reason, draw(st.none() | texts), draw(st.none() | texts), body={"not": "stored"})]


def message_of(events: list[Event]) -> Any:
    folded = Accumulator()
    for event in events:
        folded.apply(event)
    return folded.message(), folded.finish


@given(answers())
def test_an_answer_comes_back_as_it_was(events: list[Event]) -> None:
    stored = storable(events)
    assert stored is not None
    again, created = decode(encode(stored, 12.5))
    assert (again, created) == (stored, 12.5)
    assert message_of(again) == message_of(events)
    assert all(not isinstance(event, UsageReport) for event in again)
    assert isinstance(again[-1], Finish) and again[-1].body is None


@given(answers(), st.data())
def test_an_answer_that_is_cut_anywhere_is_not_stored(events: list[Event], data: st.DataObject) -> None:
    assert storable(events[: data.draw(st.integers(0, len(events) - 1))]) is None


@given(answers(), st.data())
def test_a_value_with_a_flipped_bit_or_another_key_is_damaged(events: list[Event], data: st.DataObject) -> None:
    stored = storable(events)
    assert stored is not None
    value = bytearray(encode(stored, 1.0, "a"))
    assert decode(bytes(value), "a") == (stored, 1.0)
    with pytest.raises(ValueError, match="its checksum is wrong"):
        decode(bytes(value), "b")
    value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ValueError, match=r"."):
        decode(bytes(value), "a")


@given(answers(), st.data())
def test_a_value_that_is_cut_anywhere_is_damaged(events: list[Event], data: st.DataObject) -> None:
    stored = storable(events)
    assert stored is not None
    value = encode(stored, 1.0)
    with pytest.raises(ValueError, match=r"."):
        decode(value[: data.draw(st.integers(0, len(value) - 1))])


@given(answers(), answers())
def test_events_before_a_restart_are_void(before: list[Event], events: list[Event]) -> None:
    assert storable([Routing("p", "old"), *before[:-1], Restarted(2, "x"), *events]) == storable(events)
    routed = storable([Routing("p", "a"), Routing("p", "b"), *events])
    assert routed is not None and routed[0] == Routing("p", "b") and routed[1:] == storable(events)


GOOD: list[Any] = [["TextDelta", {"text": "x"}], ["Finish", {"stop_reason": "end_turn"}]]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        json.dumps({"version": 2, "created": 1, "events": GOOD}).encode(),
        json.dumps({"version": 1, "created": "1", "events": GOOD}).encode(),
        *(
            json.dumps({"version": 1, "created": 1, "events": events}).encode()
            for events in (
                [],
                GOOD[:1],
                GOOD[1:],
                [["Unknown", {}], GOOD[1]],
                [[[], {}], GOOD[1]],
                [["TextDelta", {"text": 1}], GOOD[1]],
                [["TextDelta", {}], GOOD[1]],
                [["TextDelta", {"text": "x", "more": {}}], GOOD[1]],
                [["ToolCallDelta", {"id": "a", "arguments": "{"}], GOOD[1]],
                [["ToolCallDone", {"id": "a", "name": "t", "arguments": "{", "truncated": True}], GOOD[1]],
                [GOOD[0], ["Finish", {"stop_reason": "refusal"}]],
                [GOOD[0], ["TextCitation", {"kind": "x", "start": "0"}], GOOD[1]],
                [GOOD[0], ["TextCitation", {}], GOOD[1]],
                [GOOD[0], ["TextCitation", 7], GOOD[1]],
                [GOOD[0], ["GroundingReport", {"sources": [{"kind": "x", "end": []}]}], GOOD[1]],
                [GOOD[0], ["GroundingReport", {"sources": [7]}], GOOD[1]],
            )
        ),
    ],
)
def test_damaged_values(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(value)


def test_damaged_events_are_not_stored_unless_they_are_repeated() -> None:
    events: list[Event] = [TextDelta("x"), Finish("end_turn")]
    assert storable([RawEvent("{", damaged=True), *events]) is None
    assert storable([RawEvent("{", damaged=True, repeated=True), *events]) == events
    assert storable([RawEvent("ping"), *events]) == events


def test_citations_and_sources_come_back_as_they_were() -> None:
    cited = Citation("page_location", 0, 1, "https://a.example/", pages=(1, 2), provider="anthropic", raw={"a": [1]})
    source = Citation("web", url="https://a.example/", provider="google", raw={"web": {}})
    grounding = Grounding(("sea",), (source,), "<div>", "google", {"groundingMetadata": {}})
    events = [TextDelta("x"), TextCitation(cited), GroundingReport(grounding), Finish("end_turn")]
    assert decode(encode(events, 1.0)) == (events, 1.0)
