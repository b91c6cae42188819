"""toolcast beside the official SDKs: llmock and aimock answer both alike, in each service's protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sdks import ours
from sdks.addresses import at_llmock
from sdks.decoded import Decoded
from sdks.official import SDKS
from servers.aimock_server import Aimock

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = [pytest.mark.networked, pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])]

OSLO, NESTED = {"city": "Oslo"}, {"places": [{"name": "Ål", "at": [60.6, 8.5]}, {"name": '"', "at": None}], "n": -1e3}
SONG = "Line one\nline \u2028two, “quoted” {not: json} 🎶"

# What llmock answers: text, calls, and its stop reason.
REPLIES: dict[str, tuple[str | None, list[tuple[str, dict[str, Any]]], str | None]] = {
    "text": ("It is four degrees and noon.", [], None),
    "odd text": (SONG, [], None),
    "a call": (None, [("weather", OSLO)], None),
    "a call without arguments": (None, [("clock", {})], None),
    "nested arguments": (None, [("weather", NESTED)], None),
    "several tools": (None, [("weather", OSLO), ("clock", {}), ("weather", NESTED)], None),
    "one call twice": (None, [("weather", OSLO), ("weather", OSLO)], None),
    "text and a call": ("Let me see.", [("weather", OSLO)], None),
    "cut off": ("It is four degr", [], "length"),
}


@pytest.mark.gate("G15")
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("protocol", ["openai", "responses", "anthropic", "gemini", "mistral"])
def test_llmock_answers_both_alike(llmock: LLMock, protocol: str, reply: str, stream: bool) -> None:
    from llmock.scenarios import Reply, ToolCall

    text, calls, stop = REPLIES[reply]
    llmock.add(Reply(text, tuple(ToolCall(*call) for call in calls), stop, times=2))
    url = at_llmock(llmock, protocol)
    theirs = SDKS[protocol].ask(url, stream=stream)
    assert theirs == ours.ask(protocol, url, stream=stream)
    assert (theirs.text, list(theirs.calls)) == (text or "", calls)
    assert theirs.stop_reason == ("max_tokens" if stop else "tool_use" if calls else "end_turn")


def fixture(content: str = "", *calls: tuple[str, str], **more: Any) -> dict[str, Any]:
    """An answer in aimock's words."""
    made = {"toolCalls": [{"name": name, "arguments": text} for name, text in calls]} if calls else {}
    return {"content": content, **made, **more} if content or not calls else {**made, **more}


SIGNED = {"reasoningSignature": "c2lnbmVk", "redactedThinking": ["aGlkZGVu"]}
BLOCKS = [
    {"type": "text", "text": "First "},
    {"type": "toolCall", "name": "weather", "arguments": '{"city": "Oslo"}'},
    {"type": "text", "text": "then."},
]
FIXTURES = {
    "text": fixture("It is four degrees and noon."),
    "odd text": fixture(SONG.replace("\u2028", "")),
    "a call": fixture("", ("weather", '{"city": "Oslo"}')),
    "several tools": fixture("", ("weather", '{"city": "Oslo"}'), ("clock", "{}")),
    "text and a call": fixture("Let me see.", ("weather", '{"city": "Oslo"}')),
    "a thought": fixture("Four degrees.", reasoning="They ask for the weather."),
    "a thought and a call": fixture("", ("weather", '{"city": "Oslo"}'), reasoning="I look.\n\nThen I tell."),
    "signed thoughts": fixture("Four degrees.", reasoning="They ask.", **SIGNED),
    "a call between texts": {"blocks": BLOCKS},
}


def alike(decoded: Decoded) -> Decoded:
    """`decoded` with the beginning of what is kept: aimock encrypts a thought anew each time."""
    return replace(decoded, kept=tuple(kept[:20] for kept in decoded.kept))


@pytest.mark.gate("G15")
@pytest.mark.filterwarnings("ignore:FUNCTION_CALL is not a valid FinishReason")  # aimock's own word
@pytest.mark.parametrize("answer", FIXTURES)
@pytest.mark.parametrize("protocol", ["openai", "responses", "anthropic", "gemini", "ollama", "bedrock"])
def test_aimock_answers_both_alike(aimock: Aimock, protocol: str, answer: str, stream: bool) -> None:
    aimock.answer({}, FIXTURES[answer])
    url = aimock.url + ("/v1" if protocol in ("openai", "responses") else "")
    # aimock begins blocks of text with an empty `start`, which boto3 refuses: AWS sends none for them.
    refused = protocol == "bedrock" and answer not in ("a call", "several tools")
    theirs = SDKS[protocol].ask(url, stream=stream and not refused)
    assert alike(theirs) == alike(ours.ask(protocol, url, stream=stream))
    assert theirs.text or theirs.calls
