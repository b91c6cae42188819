"""Where each event goes, and through which states."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import pytest

from support.scripted_screen import ScriptedScreen
from toolcast.apps.approval_preview import DiffPreview
from toolcast.apps.diff_rows import diff_texts
from toolcast.apps.repl.event_router import EventRouter
from toolcast.errors import RateLimited
from toolcast.events import (
    AgentEvent,
    AudioOutput,
    ErrorEvent,
    Failover,
    Finish,
    GroundingReport,
    ImageOutput,
    LogprobsDelta,
    OutputDelta,
    RawEvent,
    Restarted,
    Routing,
    SafetyReport,
    ServerToolUse,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
    UsageReport,
)
from toolcast.messages import ImagePart, ToolCallPart
from toolcast.values.answer_details import SafetyRating, TokenLogprob
from toolcast.values.approvals import PermissionRequest
from toolcast.values.citations import Citation, Grounding
from toolcast.values.states import REPL, Trace
from toolcast.values.usage import Usage

THINKING, TOOL, CONTENT, ERROR = ("thinking",), ("tool_execution",), ("content_output",), ("error",)

IMAGE = ImagePart(data=b"png", media_type="image/png")
SEA = Citation("url_citation", 4, 7, "https://sea.example/", "The sea")

CASES: list[tuple[AgentEvent, tuple[str, ...], list[tuple[Any, ...]]]] = [
    (ThinkingDelta("Hm."), THINKING, [("thinking", "Hm.")]),
    (ThinkingDelta(signature="s"), THINKING, []),
    (TextDelta("Yes."), CONTENT, [("content", "Yes.")]),
    (TextDelta(""), CONTENT, []),
    (ToolCallStart("c1", "look"), TOOL, [("call_begins", "c1", "look")]),
    (ToolCallDelta("c1", "{"), TOOL, [("call_arguments", "c1", "{")]),
    (ToolCallReset("c1"), TOOL, [("call_begins", "c1", "")]),
    (ToolCallDone("c1", "look", "{}"), TOOL, []),
    (ToolResult("c1", "look", "no", is_error=True), TOOL, [("call_result", "c1", "look", "no", True)]),
    (
        ServerToolUse("web_search", "s1", {"query": "sea"}),
        TOOL,
        [("call_begins", "s1", "web_search"), ("call_complete", "s1", "web_search", '{"query":"sea"}')],
    ),
    (
        ServerToolUse("web_search", "s1", output=["https://a.com"]),
        TOOL,
        [("call_result", "s1", "web_search", '["https://a.com"]', False)],
    ),
    (
        ServerToolUse("code_execution", "", {"code": "1"}, "1\n"),
        TOOL,
        [
            ("call_begins", "code_execution", "code_execution"),
            ("call_complete", "code_execution", "code_execution", '{"code":"1"}'),
            ("call_result", "code_execution", "code_execution", "1\n", False),
        ],
    ),
    (
        ServerToolUse("url_context", "s2", error="blocked"),
        TOOL,
        [("call_result", "s2", "url_context", "blocked", True)],
    ),
    (RawEvent("{", damaged=True), ERROR, [("error", "cannot decode a part of the answer: {", "it was skipped")]),
    (RawEvent({"ping": 1}), (), []),
    (TextCitation(SEA), (), []),
    (ImageOutput(IMAGE), TOOL, [("note", "[image/png, 3 bytes]")]),
    (ImageOutput(IMAGE, partial=0), TOOL, []),
    (AudioOutput(b"mp3", "audio/mp3", "Yes."), CONTENT, [("content", "Yes.")]),
    (AudioOutput(b"mp3", "audio/mp3"), CONTENT, []),
    (LogprobsDelta((TokenLogprob("Yes", -0.1),)), (), []),
    (SafetyReport((SafetyRating("violence"),)), (), []),
    (GroundingReport(Grounding(("sea",), (SEA,))), (), []),
    (ToolStarted("c1", "look"), (), []),
    (PermissionRequest("c1", "look", "{}"), (), []),
    (UsageReport(Usage(1, 2)), (), []),
    (Routing("openai", "m-1"), (), []),
    (OutputDelta(1), (), []),
    (ErrorEvent(ValueError()), (), []),
    (Finish("end_turn"), (), [("end_answer",)]),
    (
        Finish("other", raw="repetition"),
        (),
        [("end_answer",), ("note", "The answer was ended because it repeated itself.")],
    ),
    (Finish("other", raw="odd"), (), [("end_answer",)]),
    (Finish("refusal"), (), [("end_answer",), ("note", "The model declined to answer.")]),
    (
        Restarted(2, "why"),
        (),
        [("end_answer",), ("note", "Sending the request again, the answer so far is discarded: why")],
    ),
    (
        Failover("openai", "m-1", RateLimited("slow down")),
        (),
        [("note", "openai m-1 failed, trying another model: slow down")],
    ),
]


@pytest.mark.parametrize(("event", "between", "shown"), CASES, ids=lambda value: type(value).__name__)
def test_a_route(event: AgentEvent, between: tuple[str, ...], shown: list[tuple[Any, ...]]) -> None:
    states: list[str] = []
    trace = Trace(REPL, lambda id, state: states.append(state))
    trace.step("opened", "went_on")
    screen = ScriptedScreen()
    EventRouter(screen, trace.step, lambda message: None).route(event)
    assert screen.shown == shown
    assert states[2:] == ["routing", *between, "streaming_response"]


@pytest.mark.parametrize("next_event", [ToolStarted("c1", "look"), ToolResult("c1", "look", "no")])
def test_a_call_is_shown_when_it_starts_or_ends_without_that(next_event: AgentEvent) -> None:
    screen = ScriptedScreen()
    router = EventRouter(screen, lambda event: None, lambda message: None)
    for event in (ToolCallDone("c1", "look", "{}"), next_event, ToolResult("c1", "look", "no")):
        router.route(event)
    assert screen.of("call_complete") == [("c1", "look", "{}")]
    assert screen.order[0] == "call_complete"


def test_a_discarded_answer_has_no_calls() -> None:
    screen = ScriptedScreen()
    router = EventRouter(screen, lambda event: None, lambda message: None)
    for event in (ToolCallDone("c1", "look", "{}"), Restarted(2, "why"), ToolStarted("c1", "look")):
        router.route(event)
    assert screen.of("call_complete") == []


def test_calls_of_an_earlier_run_are_shown_when_they_start() -> None:
    screen = ScriptedScreen()
    router = EventRouter(screen, lambda event: None, lambda message: None)
    router.expect_calls([ToolCallPart("c1", "look", '{"at": 1}')])
    router.route(ToolStarted("c1", "look"))
    assert screen.of("call_complete") == [("c1", "look", '{"at": 1}')]


@pytest.mark.parametrize("is_error", [False, True])
def test_a_result_has_the_change_that_the_call_made(is_error: bool) -> None:
    change = DiffPreview("a.txt", "edit", 1, 1, diff_texts("cat\n", "dog\n").rows)
    screen, changes = ScriptedScreen(), {"c1": change}
    router = EventRouter(screen, lambda event: None, lambda message: None, lambda id: changes.pop(id, None))
    router.route(ToolResult("c1", "edit_file", "edited", is_error))
    shown = [] if is_error else [("c1", "edit_file a.txt +1 −1\n  1 - cat\n  1 + dog")]
    assert (screen.changes, changes) == (shown, {})


def test_every_kind_of_event_has_a_case() -> None:
    known = {get_origin(kind) or kind for kind in get_args(AgentEvent)}
    assert {type(event) for event, _, _ in CASES} | {ToolProgress} == known


def test_progress_of_a_tool_is_received() -> None:
    received: list[ToolProgress] = []
    message = ToolProgress("c1", "look", {"done": 1})
    EventRouter(ScriptedScreen(), lambda event: None, received.append).route(message)
    assert received == [message]


def test_the_sources_follow_the_answer_each_once() -> None:
    screen = ScriptedScreen()
    routes = EventRouter(screen, lambda event: None, lambda message: None)
    mean = Citation("url_citation", title="Report\n  2. https://bank.example/", url="javascript:alert(1)")
    for cited in (mean, SEA, SEA):
        routes.route(TextCitation(cited))
    routes.route(Restarted(2, "why"))
    for cited in (SEA, mean, SEA):
        routes.route(TextCitation(cited))
    routes.route(Finish("end_turn"))
    routes.route(Finish("end_turn"))
    notes = screen.of("note")
    assert notes[1:] == [("Sources:\n  1. The sea, https://sea.example/\n  2. Report 2. https://bank.example/",)], notes


def test_a_search_and_recordings_are_a_line_each_after_the_answer() -> None:
    screen = ScriptedScreen()
    routes = EventRouter(screen, lambda event: None, lambda message: None)
    other = Citation("url_citation", title="Waves", url="https://waves.example/")
    for event in (
        AudioOutput(b"lost", "audio/mp3"),
        Restarted(2, "why"),
        AudioOutput(b"mp3", "audio/mp3", "Yes"),
        AudioOutput(b"mp3", "audio/mp3", "."),
        TextCitation(SEA),
        GroundingReport(Grounding(("sea\n", "salt"), (other, SEA))),
        Finish("end_turn"),
        Finish("end_turn"),
    ):
        routes.route(event)
    assert screen.of("note")[1:] == [
        ("[audio/mp3, 6 bytes]",),
        ("Searched for: sea ; salt",),
        ("Sources:\n  1. Waves, https://waves.example/\n  2. The sea, https://sea.example/",),
    ]


def test_a_call_that_begins_anew_keeps_its_name() -> None:
    screen = ScriptedScreen()
    routes = EventRouter(screen, lambda event: None, lambda message: None)
    for event in (ToolCallStart("c1", "look"), ToolCallDelta("c1", "{"), ToolCallReset("c1")):
        routes.route(event)
    assert screen.of("call_begins") == [("c1", "look"), ("c1", "look")]
