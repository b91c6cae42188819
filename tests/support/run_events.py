"""Sequences of the events of a run, likely ones and unlikely ones, for the encoders of protocols."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from toolcast.events import (
    AgentEvent,
    AudioOutput,
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
from toolcast.messages import ImagePart, assistant
from toolcast.values.approvals import PermissionRequest
from toolcast.values.citations import Citation, Grounding
from toolcast.values.turn import Turn
from toolcast.values.usage import Usage

IDS = st.sampled_from(["call-1", "call-2", "call-3"])
TEXTS = st.text(max_size=5) | st.sampled_from(["\n\n", "data: x\r\n", "\u2028", '"', "\ud800"])
ARGUMENTS = st.sampled_from(
    ["{}", '{"path": "notes.txt"}', '{"pa', "", "NaN", '{"x": 1e999}', "[" * 3000, '{"a": "\\ud800"}']
)
VALUES: st.SearchStrategy[Any] = st.sampled_from([None, {}, {"x": [1, float("nan")]}, "text", float("inf"), object])
CITATIONS = st.sampled_from(
    [
        Citation("url_citation", url="https://example.com/a", title="A"),
        Citation("url_citation", url="https://example.com/b"),
        Citation("url_citation", url="javascript:alert(1)", title="C"),
        Citation("page_location", title="A document"),
    ]
)
IMAGES = st.sampled_from(
    [ImagePart(data=b"\x89PNG", media_type="image/png"), ImagePart(url="https://example.com/image.png")]
)
EVENTS: st.SearchStrategy[AgentEvent] = st.one_of(
    st.builds(TextDelta, TEXTS),
    st.builds(ThinkingDelta, TEXTS),
    st.just(ThinkingDelta(signature="signed")),
    st.builds(ToolCallStart, IDS, st.just("delete_file")),
    st.builds(ToolCallDelta, IDS, TEXTS),
    st.builds(ToolCallReset, IDS),
    st.builds(ToolCallDone, IDS, st.just("delete_file"), ARGUMENTS, st.booleans()),
    st.builds(ToolStarted, IDS, st.just("delete_file")),
    st.builds(ToolProgress, IDS, st.just("delete_file"), VALUES),
    st.builds(ToolResult, IDS, st.just("delete_file"), ARGUMENTS | TEXTS, st.booleans()),
    st.builds(PermissionRequest, IDS, st.just("delete_file"), ARGUMENTS, TEXTS),
    st.builds(
        ServerToolUse, st.just("web_search"), IDS | st.just(""), VALUES, VALUES, st.none() | st.just("unavailable")
    ),
    st.builds(TextCitation, CITATIONS),
    st.builds(GroundingReport, st.builds(Grounding, sources=st.lists(CITATIONS, max_size=3).map(tuple))),
    st.builds(ImageOutput, IMAGES, st.none() | st.just(0)),
    st.builds(AudioOutput, st.binary(max_size=4), st.sampled_from(["audio/wav", "audio/mpeg"]), TEXTS),
    st.builds(Restarted, st.just(2), TEXTS),
    st.sampled_from(
        [
            LogprobsDelta(()),
            SafetyReport(()),
            UsageReport(Usage(1, 2)),
            Routing("openai", "gpt"),
            RawEvent({"secret": True}),
            OutputDelta({"x": 1}),
            Finish("tool_use"),
            Finish("end_turn"),
        ]
    ),
)
RUNS = st.lists(EVENTS, max_size=14)
TURNS: st.SearchStrategy[Turn[Any]] = st.builds(
    Turn,
    st.lists(st.builds(assistant, TEXTS), max_size=2).map(tuple),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    end=st.sampled_from(["end_turn", "max_tokens", "refusal", "content_filter", "approval", "other", "error"]),
    pending=st.lists(
        st.builds(PermissionRequest, IDS, st.just("delete_file"), ARGUMENTS),
        max_size=2,
        unique_by=lambda request: request.call_id,
    ).map(tuple),
    typed_output=st.none() | st.just({"title": "The sea"}),
)
