"""chat/events.py: the events of a chat, read from plain data and written as plain data."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.chat import events
from toolcast.chat.events import (
    USER_EVENTS,
    ApproveToolCall,
    ChatEvent,
    Interrupt,
    LoadModel,
    ModelLoadProgress,
    QueueMessage,
    RejectToolCall,
    RetryGeneration,
    RetryToolCall,
    RetryToolSearch,
    Stop,
    StreamChunk,
    StreamComplete,
    ToolCallProgress,
    ToolCallSuccess,
    ToolSearchFailure,
    ToolSearchSuccess,
    WorkEvent,
    event_to_dict,
    parse_event,
)
from toolcast.errors import RateLimited
from toolcast.events import (
    Failover,
    Finish,
    GroundingReport,
    LogprobsDelta,
    SafetyReport,
    TextCitation,
    TextDelta,
    UsageReport,
)
from toolcast.messages import ImagePart, Message, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, assistant, user
from toolcast.values.answer_details import SafetyRating, TokenLogprob
from toolcast.values.approvals import PermissionRequest
from toolcast.values.citations import Citation, Grounding
from toolcast.values.usage import Usage

EVENTS = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, ChatEvent)]


def test_types_are_those_of_the_specification() -> None:
    assert {kind.type for kind in EVENTS} >= {
        *("LOAD_MODEL", "QUEUE_MESSAGE", "INTERRUPT", "STOP", "APPROVE_TOOL_CALL", "REJECT_TOOL_CALL"),
        *("MODEL_LOAD_PROGRESS", "MODEL_LOAD_SUCCESS", "MODEL_LOAD_FAILURE"),
        *("STREAM_CHUNK", "STREAM_COMPLETE", "STREAM_ERROR"),
        *("RETRY_TOOL_SEARCH", "RETRY_GENERATION", "RETRY_TOOL_CALL"),
    }
    assert len({kind.type for kind in EVENTS}) == len(EVENTS)


def test_what_people_say_carries_no_number_of_work() -> None:
    assert not any(issubclass(kind, WorkEvent) for kind in USER_EVENTS.values())
    assert ToolSearchSuccess(("look",), run=3).run == 3


def test_an_event_never_changes() -> None:
    event: Any = LoadModel("a")
    with pytest.raises(FrozenInstanceError):
        event.model_id = "b"


def test_text_is_what_the_user_says() -> None:
    assert QueueMessage("Hello.") == QueueMessage(user("Hello."))


@pytest.mark.parametrize(
    "message",
    [
        assistant("Hello."),
        Message("tool", (ToolResultPart("a", "42"),)),
        Message("user", (TextPart("Hello."), ToolCallPart("a", "look"))),
        Message("user", (TextPart("Hello."), ToolResultPart("a", "42"))),
    ],
)
def test_only_what_a_user_says_is_queued(message: Any) -> None:
    with pytest.raises(ValueError, match="only user messages"):
        QueueMessage(message)


@pytest.mark.parametrize("message", ["", " \n", Message("user"), Message("user", (ThinkingPart("Hm."),))])
def test_nothing_cannot_be_queued(message: Any) -> None:
    with pytest.raises(ValueError, match="an empty message cannot be queued: pass some text"):
        QueueMessage(message)


PICTURE = user("What is this?", ImagePart(data=b"png", media_type="image/png"))


@pytest.mark.parametrize(
    "data, event",
    [
        ("INTERRUPT", Interrupt()),
        ("STOP", Stop()),
        ("LOAD_MODEL", LoadModel()),
        ("RETRY_TOOL_SEARCH", RetryToolSearch()),
        ("RETRY_GENERATION", RetryGeneration()),
        ({"type": "RETRY_TOOL_CALL"}, RetryToolCall()),
        ({"type": "LOAD_MODEL", "model_id": "smollm2"}, LoadModel("smollm2")),
        ({"type": "QUEUE_MESSAGE", "message": "Hello."}, QueueMessage("Hello.")),
        ({"type": "QUEUE_MESSAGE", "message": PICTURE.to_dict()}, QueueMessage(PICTURE)),
        ("APPROVE_TOOL_CALL", ApproveToolCall()),
        ({"type": "APPROVE_TOOL_CALL", "call_id": "a", "arguments": "{}"}, ApproveToolCall("a", "{}")),
        (
            {"type": "APPROVE_TOOL_CALL", "call_id": None, "for_session": True, "fingerprint": "f"},
            ApproveToolCall(None, None, True, "f"),
        ),
        ({"type": "REJECT_TOOL_CALL", "call_id": "a", "reason": "no"}, RejectToolCall("a", "no")),
    ],
)
def test_people_say_events_as_plain_data(data: Any, event: ChatEvent) -> None:
    assert parse_event(data) == event


@pytest.mark.parametrize("kind", [ApproveToolCall, RejectToolCall])
@pytest.mark.parametrize("wrong", [["x", 5], "x", {"x": "y"}, 5])
def test_fingerprints_are_a_list_of_texts(kind: type[ChatEvent], wrong: Any) -> None:
    with pytest.raises(ValueError, match="fingerprints"):
        parse_event({"type": kind.type, "fingerprints": wrong})


@pytest.mark.parametrize("kind", USER_EVENTS.values(), ids=USER_EVENTS)
def test_each_field_that_an_event_has_can_be_sent(kind: type[ChatEvent]) -> None:
    values: dict[str, Any] = {"model_id": "m", "message": "Hello.", "arguments": "{}", "for_session": True}
    values |= {**dict.fromkeys(("call_id", "reason", "fingerprint"), "x"), "fingerprints": ["x", "y"]}
    values |= {"index": 0, "branch": 1, "mode": "plan"}
    own = {field.name: values[field.name] for field in fields(kind)}
    if kind is ApproveToolCall:
        own |= {"for_session": False}
    assert parse_event({"type": kind.type, **own}) == kind(**own)


@pytest.mark.parametrize(
    "data, words",
    [
        ("STREAM_CHUNK", "no event of a user.*LOAD_MODEL, QUEUE_MESSAGE"),
        ({"type": "TOOL_CALL_SUCCESS", "result": "42"}, "no event of a user"),
        ({"type": "WORK_EVENT", "run": 1}, "no event of a user"),
        ("", "no event of a user"),
        ({}, "None is no event"),
        ({"type": ["STOP"]}, "no event of a user"),
        ({"type": "INTERRUPT", "run": 1}, "does not take run=1; it takes: nothing"),
        ({"type": "LOAD_MODEL", "model_id": 5}, "does not take model_id=5"),
        ({"type": "QUEUE_MESSAGE"}, "QUEUE_MESSAGE is not whole; it takes: message"),
        ({"type": "QUEUE_MESSAGE", "message": ["Hello."]}, "does not take"),
        ({"type": "QUEUE_MESSAGE", "message": ""}, "an empty message"),
        ({"type": "QUEUE_MESSAGE", "message": assistant("Hello.").to_dict()}, "only user messages"),
        ({"type": "QUEUE_MESSAGE", "message": {"role": "user", "parts": "Hello"}}, "parts"),
        ({"type": "QUEUE_MESSAGE", "message": {}}, "role"),
        ({"type": "APPROVE_TOOL_CALL", "for_session": 1}, "does not take for_session=1"),
        ({"type": "APPROVE_TOOL_CALL", "arguments": {"a": 1}}, "does not take arguments"),
        ({"type": "REJECT_TOOL_CALL", "reason": None}, "does not take reason=None"),
        ({"type": "REGENERATE", "index": -1}, "index=-1 is no index"),
        ({"type": "REMOVE_QUEUED", "index": True}, "index=True is no index"),
        ({"type": "SWITCH_BRANCH", "index": 0, "branch": -1}, "branch=-1 is no index"),
        ({"type": "EDIT_MESSAGE", "index": -1, "message": "x"}, "index=-1 is no index"),
        ({"type": "EDIT_QUEUED", "index": 0, "message": ""}, "an empty message"),
        ({"type": "EDIT_QUEUED", "index": "0", "message": "x"}, "does not take index='0'"),
    ],
)
def test_anything_else_is_refused_in_words(data: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_event(data)


@given(
    st.dictionaries(
        st.sampled_from(["type", "message", "model_id", "call_id", "arguments", "for_session", "reason", "run"]),
        st.one_of(
            st.none(), st.booleans(), st.text(max_size=3), st.sampled_from([*USER_EVENTS, "STREAM_CHUNK"]), st.just({})
        ),
    )
)
def test_whatever_is_sent_is_an_event_or_refused(data: Any) -> None:
    try:
        event = parse_event(data)
    except ValueError:
        return
    assert type(event) is USER_EVENTS[data["type"]]


@dataclass
class Step:
    at: int
    picture: bytes = b"\xff"


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "event, data",
    [
        (Interrupt(), {"type": "INTERRUPT"}),
        (LoadModel("m"), {"type": "LOAD_MODEL", "model_id": "m"}),
        (QueueMessage("Hello."), {"type": "QUEUE_MESSAGE", "message": user("Hello.").to_dict()}),
        (ModelLoadProgress(50.0, run=2), {"type": "MODEL_LOAD_PROGRESS", "progress": 50.0, "run": 2}),
        (
            ToolSearchFailure("no", retryable=False, run=1),
            {"type": "TOOL_SEARCH_FAILURE", "error": "no", "retryable": False, "run": 1},
        ),
        (ToolSearchSuccess(("a", "b")), {"type": "TOOL_SEARCH_SUCCESS", "tools": ["a", "b"], "run": None}),
        (StreamChunk("Hi"), {"type": "STREAM_CHUNK", "content": "Hi", "run": None}),
        (
            StreamChunk(TextDelta("Hi")),
            {"type": "STREAM_CHUNK", "content": {"type": "TextDelta", "text": "Hi"}, "run": None},
        ),
        (
            StreamChunk(Finish("end_turn")),
            {
                "type": "STREAM_CHUNK",
                "content": {"type": "Finish", "stop_reason": "end_turn", "model": None, "raw": None},
                "run": None,
            },
        ),
        (
            StreamComplete(assistant("Hi"), (PermissionRequest("a", "look", "{}"),), "tool_use", Usage(1, 2)),
            {
                "type": "STREAM_COMPLETE",
                "message": assistant("Hi").to_dict(),
                "pending": [PermissionRequest("a", "look", "{}").to_dict()],
                "stop_reason": "tool_use",
                "usage": Usage(1, 2).to_dict(),
                "run": None,
            },
        ),
        (
            ToolCallSuccess(ToolResultPart("a", "42"), remembered=({"tool": "look"},)),
            {
                "type": "TOOL_CALL_SUCCESS",
                "result": {
                    "type": "tool_result",
                    "call_id": "a",
                    "content": "42",
                    "name": "",
                    "is_error": False,
                    "images": [],
                },
                "remembered": [{"tool": "look"}],
                "pending": None,
                "run": None,
            },
        ),
        (
            ToolCallProgress("a", [Step(1), float("nan")]),
            {
                "type": "TOOL_CALL_PROGRESS",
                "call_id": "a",
                "data": [{"type": "Step", "at": 1, "picture": "_w=="}, None],
                "run": None,
            },
        ),
        (
            ToolCallProgress("a", LookupError("gone")),
            {"type": "TOOL_CALL_PROGRESS", "call_id": "a", "data": "gone", "run": None},
        ),
    ],
)
def test_events_are_reported_as_plain_data(event: ChatEvent, data: Any) -> None:
    assert json.loads(json.dumps(event_to_dict(event), allow_nan=False)) == data


@pytest.mark.parametrize(
    "data", [{"self": CIRCLE}, "\ud800", {1, 2}, object(), b"\xff", user("Hello."), {"a": Usage(1)}]
)
def test_whatever_a_tool_says_of_itself_can_be_reported(data: Any) -> None:
    assert json.dumps(event_to_dict(ToolCallProgress("a", data)), allow_nan=False)


@pytest.mark.parametrize(
    "piece",
    [
        UsageReport(Usage(1, 2)),
        Failover("a", "b", RateLimited("slow down")),
        TextCitation(Citation("url_citation", 0, 4, url="https://a.com")),
        GroundingReport(Grounding(queries=("rain",))),
        LogprobsDelta((TokenLogprob("a", -0.5),)),
        SafetyReport((SafetyRating("hate", "response"),)),
        Finish("end_turn", body={"id": 1}),
    ],
)
def test_whatever_a_model_streams_can_be_reported(piece: Any) -> None:
    content = json.loads(json.dumps(event_to_dict(StreamChunk(piece))))["content"]
    assert content["type"] == type(piece).__name__


def test_other_arguments_are_for_this_call_alone() -> None:
    with pytest.raises(ValueError, match="leave out either"):
        ApproveToolCall("a", arguments="{}", for_session=True)
