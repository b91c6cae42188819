"""What a chat sends as JSON: changes and snapshots of chats, and each kind of event, part and value by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from toolcast import Engine, Permissions, Prices, ToolCallPart
from toolcast.agents.permissions.rules import Rule
from toolcast.chat import ChatMachine
from toolcast.chat.chat_context import STATES, ChatContext, ChatError
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    EditQueued,
    GenerationFailure,
    GenerationSuccess,
    HoldQueue,
    Interrupt,
    LoadModel,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    QueueMessage,
    Regenerate,
    RejectToolCall,
    ReleaseQueue,
    RemoveQueued,
    Restored,
    RetryGeneration,
    RetryToolCall,
    RetryToolSearch,
    SetMode,
    Stop,
    StreamChunk,
    StreamComplete,
    StreamError,
    SwitchBranch,
    ToolCallFailure,
    ToolCallProgress,
    ToolCallSuccess,
    ToolSearchFailure,
    ToolSearchSuccess,
    event_to_dict,
)
from toolcast.errors import ServerError
from toolcast.events import (
    AudioOutput,
    Event,
    Failover,
    Finish,
    GroundingReport,
    ImageOutput,
    LogprobsDelta,
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
    UsageReport,
)
from toolcast.messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    VideoPart,
    assistant,
    user,
)
from toolcast.testing import ScriptedLLM
from toolcast.values.answer_details import SafetyRating, TokenLogprob
from toolcast.values.approvals import PermissionRequest
from toolcast.values.citations import Citation, Grounding
from toolcast.values.usage import Usage
from toolcast.values.usage_details import UsageDetails

RAW = {"kind": "of a service", "list": [1, None, {"deep": True}]}
CITATION = Citation(
    *("page_location", 0, 4, "https://example.com", "Title", "cited", 0, "file", "source", (1, 2), (3, 4), (5, 6)),
    *("anthropic", RAW),
)
IMAGE = ImagePart(data=b"\xff\xfb\xfe", media_type="image/png", detail="low", opaque=RAW)
USAGE = Usage(5, 4, 3, 2, 1, 1, details=UsageDetails(*range(1, 19), service_tier="flex"))
PARTS: list[Part] = [
    TextPart("Text."),
    TextPart("Text.", (CITATION, Citation("url_citation"))),
    ImagePart(url="https://example.com/image.png"),
    IMAGE,
    AudioPart(url="https://example.com/audio.wav"),
    AudioPart(data=b"\xff\xfb", media_type="audio/wav", transcript="Hello.", opaque=RAW),
    VideoPart(url="https://example.com/video.mp4"),
    VideoPart(data=b"video", media_type="video/mp4", start=0.5, end=2.0, fps=1),
    DocumentPart(url="https://example.com/document.pdf"),
    DocumentPart(data=b"%PDF", media_type="application/pdf", name="A document", citations=True),
    FileRef("openai", "file-1"),
    FileRef("google", "file-2", "https://example.com/file", "image/png", "image.png", 3, 1.5),
    ThinkingPart(),
    ThinkingPart("Hm.", "signature", "redacted", RAW),
    ToolCallPart("1", "look"),
    ToolCallPart("2", "look", '{"city": "Oslo"}', truncated=True, opaque=RAW),
    ToolResultPart("1", "sunny"),
    ToolResultPart("2", "sunny", "look", is_error=True, images=(IMAGE, ImagePart(url="https://example.com/i.png"))),
    ServerToolPart("web_search"),
    ServerToolPart("web_search", "3", {"query": "Oslo"}, ["found", 1], "failed", "openai", RAW),
    CachePoint(),
    CachePoint("1h"),
]
"""Each part as short as it can be, and with all that it can have."""

STREAM: list[Event | str] = [
    "text",
    TextDelta("Text."),
    ThinkingDelta(),
    ThinkingDelta("Hm.", "signature", "redacted", RAW),
    ToolCallStart("1", "look"),
    ToolCallDelta("1", "{"),
    ToolCallReset("1"),
    ToolCallDone("1", "look", "{}"),
    ToolCallDone("1", "look", "{", truncated=True, opaque=RAW),
    ServerToolUse("web_search"),
    ServerToolUse("web_search", "3", {"query": "Oslo"}, ["found"], "failed", "openai", RAW),
    TextCitation(CITATION),
    GroundingReport(Grounding()),
    GroundingReport(Grounding(("query",), (CITATION,), "<b>suggestions</b>", "google", RAW)),
    ImageOutput(ImagePart(url="https://example.com/image.png")),
    ImageOutput(IMAGE, partial=0),
    AudioOutput(b"\xff\xfb", "audio/wav"),
    AudioOutput(b"\xff\xfb", "audio/wav", "Hello.", RAW),
    LogprobsDelta(()),
    LogprobsDelta((TokenLogprob("a", -0.5), TokenLogprob("b", -1.0, b"b", (TokenLogprob("c", -2.0),)))),
    SafetyReport((SafetyRating("jailbreak"), SafetyRating("violence", "prompt", "HIGH", True, "google", RAW))),
    UsageReport(Usage()),
    UsageReport(USAGE.with_cost("0.5")),
    UsageReport(USAGE.with_cost("0.5") + Usage(1)),
    Restarted(1, "the connection was lost"),
    Routing("openai", "gpt"),
    Failover("openai", "gpt", ServerError("It is down.")),
    RawEvent(RAW),
    RawEvent("damaged", damaged=True),
    Finish("end_turn"),
    Finish("other", "gpt", "strange", "response-1", RAW),
]
REQUEST = PermissionRequest("1", "look", "{}", "no rule allows it")
RULE = Rule("look", "allow").to_dict()
GREETING = user("Hello.")
EVENTS: list[ChatEvent] = [
    LoadModel(),
    LoadModel("openai:gpt"),
    QueueMessage("Hello."),
    QueueMessage(user("Look.", IMAGE)),
    EditQueued(0, "Hello."),
    RemoveQueued(0),
    HoldQueue(),
    ReleaseQueue(),
    EditMessage(1, "Hello."),
    Regenerate(1),
    SwitchBranch(1, 2),
    SetMode("plan"),
    Interrupt(),
    Stop(),
    ApproveToolCall(),
    ApproveToolCall("1", "{}", False, REQUEST.fingerprint, (REQUEST.fingerprint,)),
    RejectToolCall(),
    RejectToolCall("1", "no", REQUEST.fingerprint, (REQUEST.fingerprint,)),
    RetryToolSearch(),
    RetryGeneration(),
    RetryToolCall(),
    Restored(),
    ModelLoadProgress(50.0, run=1),
    ModelLoadSuccess(),
    ModelLoadFailure("no such model", False),
    ToolSearchSuccess(("look",), run=2),
    ToolSearchFailure("broken"),
    GenerationSuccess(run=3),
    GenerationFailure("broken"),
    *(StreamChunk(chunk, run=3) for chunk in STREAM),
    StreamComplete(),
    StreamComplete(assistant("Hi."), (REQUEST,), "tool_use", USAGE),
    StreamError("broken"),
    ToolCallProgress("1", {"done": 0.5, "at": [None, True]}),
    ToolCallProgress("1", GREETING),
    ToolCallProgress("1"),
    ToolCallSuccess("sunny"),
    *(
        ToolCallSuccess(part, (Rule("look", "allow").to_dict(),), (REQUEST,))
        for part in PARTS
        if isinstance(part, ToolResultPart)
    ),
    ToolCallFailure("broken"),
]
"""Each event with and without what it can have."""

MESSAGES = [Message("assistant", tuple(PARTS), response_id="response-1"), Message("system"), GREETING]


def look(city: str) -> str:
    """Look at a city."""
    if city == "Rome":
        raise OSError("no view of Rome")
    return f"{city}: sunny"


def recorded_chat() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the changes and the snapshots of a chat in which users do all that they can."""
    calls = [ToolCallPart("1", "look", '{"city": "Oslo"}'), ToolCallPart("2", "look", '{"city": "Bergen"}')]
    answers = [calls, "Both are sunny.", ServerError("It is down."), "Yes.", "Again.", "Edited."]
    model = ScriptedLLM(*answers, ToolCallPart("3", "look", '{"city": "Rome"}'), prices=Prices(1, 2))
    engine = Engine(model, [look], permissions=Permissions())
    changes, snapshots = list[dict[str, Any]](), list[dict[str, Any]]()
    with ChatMachine(engine, configure=lambda llm, mode: engine) as chat:

        def record(change: Any) -> None:
            changes.append(json.loads(json.dumps(change.to_dict())))
            snapshots.append(json.loads(json.dumps(chat.snapshot())))

        def turn(*events: dict[str, Any] | str) -> None:
            for event in events:
                chat.dispatch(event)
            chat.run_until()

        chat.subscribe(record)
        turn({"type": "QUEUE_MESSAGE", "message": "How are Oslo and Bergen?"}, "LOAD_MODEL")
        turn({"type": "SET_MODE", "mode": "plan"}, {"type": "REJECT_TOOL_CALL", "call_id": "2", "reason": "no"})
        turn({"type": "APPROVE_TOOL_CALL", "call_id": "1", "for_session": True})
        turn({"type": "QUEUE_MESSAGE", "message": "Sure?"})
        turn("RETRY_GENERATION")
        turn({"type": "REGENERATE", "index": len(chat.context.messages) - 1})
        turn({"type": "EDIT_MESSAGE", "index": 0, "message": "And Oslo?"})
        turn({"type": "SWITCH_BRANCH", "index": 0, "branch": 0})
        turn({"type": "QUEUE_MESSAGE", "message": "And Rome?"})
        turn("RETRY_TOOL_CALL")
        chat.restore(snapshots[3])
    return changes, snapshots


def contexts() -> list[dict[str, Any]]:
    """Return contexts: that of a new chat, and one with a value in each field."""
    point = {
        "index": 0,
        "current": 1,
        "branches": [{"messages": [GREETING.to_dict()], "interrupted": [0], "marks": []}],
    }
    point["branches"] += [{"messages": [], "branches": [{"index": 1, "current": 0, "branches": []}]}]
    filled = ChatContext.from_dict({**ChatContext(tuple(MESSAGES)).to_dict(), "branches": [point]})
    filled = replace(
        filled,
        queue=(GREETING,),
        interrupted=(0,),
        model="openai:gpt",
        load_progress=50.0,
        last_error=ChatError("stream", "It is down."),
        retry="stream",
        tools=("look",),
        stop_reason="tool_use",
        pending=(REQUEST,),
        answers=(REQUEST.allow(), REQUEST.deny("no"), REQUEST.edit("{}"), REQUEST.allow_session()),
        running=("1",),
        remembered=(RULE,),
        usage=USAGE,
        mode="plan",
        held=(GREETING,),
    )
    return [ChatContext().to_dict(), filled.to_dict()]


def json_of_everything() -> dict[str, list[Any]]:
    """Return what a chat sends, by the TypeScript type that it has."""
    changes, snapshots = recorded_chat()
    found = {
        "ChatChange": changes,
        "ChatSnapshot": [*snapshots, *({"version": 1, "state": state, "context": contexts()[0]} for state in STATES)],
        "ChatContext": contexts(),
        "ChatEvent": [event_to_dict(event) for event in EVENTS],
        "Message": [message.to_dict() for message in MESSAGES],
        "Part": [part for message in MESSAGES for part in message.to_dict()["parts"]],
    }
    return json.loads(json.dumps(found, allow_nan=False))
