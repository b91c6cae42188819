"""Where an answer ends before its end, and other places at which the official SDKs are wrong.

Each test has what the SDK gives today: should that change, the test fails. A stream that ends cleanly but
too early is taken for an answer by every SDK; toolcast raises `StreamTruncated`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sdks import ours
from sdks.addresses import at_llmock, streamed_twice
from sdks.answers import ANSWERS, CLOCK, FAR, USED, WEATHER, message, ollama, use
from sdks.decoded import Decoded
from sdks.official import SDKS, StreamErrorEvent
from sdks.written import Written
from support.loopback import Loopback
from toolcast.errors import StreamTruncated

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = pytest.mark.networked

# What llmock sends before it ends: so many events of an answer with this text or a call. What the SDK makes of them.
CUT_BY_LLMOCK = {
    "openai, a call": ("openai", 4, None, Decoded(calls=(("weather", '{"city": "Longyearbyen o'),))),
    "anthropic, a call": ("anthropic", 3, None, Decoded(calls=(("weather", {}),), usage=(11, 1))),
    "mistral, a call": ("mistral", 2, None, Decoded(calls=(("weather", FAR),))),
    "openai, a text": ("openai", 3, "Four degrees.", Decoded("Four degrees.")),
    "anthropic, a text": ("anthropic", 4, "Four degrees.", Decoded("Four ", usage=(11, 1))),
    "gemini, a text": ("gemini", 1, "Four degrees.", Decoded("Four ")),
    "mistral, a text": ("mistral", 2, "Four degrees.", Decoded("Four ")),
}
# How many events an answer lacks at its end, and what the SDK makes of the others.
CUT_AT_THE_END = {
    "chat: text and calls": (3, Decoded("Let me see.", (WEATHER, CLOCK))),
    "anthropic: thoughts and a call": (
        2,
        Decoded("Let me see.", (WEATHER,), (9, 1), "", "They ask for Oslo.", ("RXFRQkNr", "RW13S0Fo")),
    ),
    "gemini: text and a call": (1, Decoded("Let me see.", (WEATHER,))),
    "mistral: a thought and calls": (2, Decoded(thinking="They ask.")),
    "cohere: a plan and calls": (1, Decoded("", (WEATHER, CLOCK), thinking="I will look.")),
    "cohere: a thought and text": (2, Decoded("Cold.", thinking="They ask for Oslo.")),
    "ollama: a thought and calls": (1, Decoded(calls=(WEATHER, WEATHER), thinking="They ask.")),
    "ollama: a thought and text": (2, Decoded(thinking="They ask.")),
}


@pytest.mark.gate("G10", "G15")
@pytest.mark.parametrize("case", CUT_BY_LLMOCK)
def test_the_sdk_accepts_half_an_answer(llmock: LLMock, case: str) -> None:
    protocol, events, text, decoded = CUT_BY_LLMOCK[case]
    cut(llmock, events, text)
    url = at_llmock(llmock, protocol)
    assert SDKS[protocol].ask(url, stream=True) == decoded
    assert type(ours.failure(protocol, url, stream=True)) is StreamTruncated


@pytest.mark.parametrize("name", CUT_AT_THE_END)
def test_the_sdk_accepts_an_answer_without_its_end(name: str) -> None:
    lacks, decoded = CUT_AT_THE_END[name]
    written = ANSWERS[name]
    with Loopback() as server:
        url = streamed_twice(server, written, written.events()[:-lacks])
        assert SDKS[written.at].ask(url, stream=True) == decoded
        assert type(ours.failure(written.at, url, stream=True)) is StreamTruncated


@pytest.mark.parametrize("events", [3, 5])
def test_a_response_without_its_last_event(llmock: LLMock, events: int) -> None:
    """The SDK hands over events; that the last is missing the caller has to see."""
    cut(llmock, events, None)
    url = at_llmock(llmock, "responses")
    theirs = SDKS["responses"].failure(url, stream=True)
    assert (type(theirs), str(theirs)) == (StreamErrorEvent, "no last event")
    assert type(ours.failure("responses", url, stream=True)) is StreamTruncated


def test_a_call_that_max_tokens_cuts() -> None:
    """Anthropic's SDK gives the call without its arguments; toolcast the text that came, marked as cut."""
    written = Written("anthropic", message(use(), stop="max_tokens"), Decoded())
    with Loopback() as server:
        url = streamed_twice(server, written, written.events()[:5] + written.events()[-2:])
        assert SDKS["anthropic"].ask(url, stream=True) == Decoded("", (("weather", {}),), USED, "max_tokens")
        assert ours.ask("anthropic", url, stream=True) == Decoded("", (("weather", '{"city": "'),), USED, "max_tokens")


def test_two_calls_with_one_number() -> None:
    """Some services number every call 0: OpenAI's SDK merges them into one that the model never made."""
    written = ANSWERS["chat: text and calls"]
    events = [found.replace(b'"index": 1', b'"index": 0') for found in written.events()]
    with Loopback() as server:
        url = streamed_twice(server, written, events)
        assert SDKS["openai"].ask(url, stream=True).calls == (("weatherclock", WEATHER[1]),)
        assert ours.ask("openai", url, stream=True) == written.decoded


def test_a_line_separator_in_a_text() -> None:
    """It may stand in JSON as it is; Ollama's SDK takes it for the end of a line."""
    written = Written("ollama", ollama({"content": "One\u2028two"}), Decoded("One\u2028two", (), USED, "end_turn"))
    lines = [line.replace(b"\\u2028", "\u2028".encode()) for line in written.events()]
    with Loopback() as server:
        url = streamed_twice(server, written, lines)
        assert type(SDKS["ollama"].failure(url, stream=True)) is json.JSONDecodeError
        assert ours.ask("ollama", url, stream=True) == written.decoded


def cut(llmock: LLMock, events: int, text: str | None) -> None:
    """Two answers, of this text or with a call, that end after so many events."""
    if text is None:
        llmock.call_tool("weather", FAR, times=2)
    else:
        llmock.reply(text, times=2)
    llmock.truncate(after_chunks=events, times=2)
