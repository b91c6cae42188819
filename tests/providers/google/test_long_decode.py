"""Responses of Gemini that go on in further requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support.long_decode import LongDecode
from support.loopback import whole
from support.service_double import as_json
from support.sync_and_async import API
from toolcast import Engine, Google, Session, ToolOrchestratingLLM
from toolcast.errors import LimitExceeded
from toolcast.events import Finish, TextDelta
from toolcast.llms import Capabilities
from toolcast.stores import SQLiteStore


class Album(BaseModel):
    title: str


def look(title: str) -> str:
    """Look at an album."""
    return f"{title} is blue"


@pytest.fixture
def service() -> Iterator[LongDecode]:
    with LongDecode() as double:
        yield double


def gemini(double: LongDecode, **options: Any) -> Google:
    return Google("gemini-4-argon", api_key="k", base_url=double.base, **options)


def test_texts_go_on_until_their_end(service: LongDecode, api: API) -> None:
    used = gemini(service)
    response = api.chat(used, "Tell me")
    assert (response.text, response.stop_reason) == (service.text, "end_turn")
    # Each request reads and counts what was before it.
    assert (response.usage.input_tokens, response.usage.output_tokens) == (10 + 20 + 30, 3 * 7)
    events = api.events(used, "Tell me")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == service.text
    assert [event.stop_reason for event in events if isinstance(event, Finish)] == ["end_turn"]
    assert len(service.sent) == 6


def test_structured_calls(service: LongDecode, api: API) -> None:
    make = ToolOrchestratingLLM(Album, "An album", gemini(service))
    result = api.run(make)
    assert result.output == Album(title="Sea")
    assert [attempt.error for attempt in result.attempts] == [None] * 3
    assert result.usage.output_tokens == 21
    assert api.stream(make).items[-1] == Album(title="Sea")


def test_json_text_that_goes_on(service: LongDecode, api: API) -> None:
    """As a schema of the text, whose parts are no JSON."""
    used = gemini(service, capabilities=Capabilities(forced_tools=False))
    make = ToolOrchestratingLLM(Album, "An album", used)
    assert api.call(make).title == "Sea " * 9
    assert [item.title for item in api.stream(make).items if item.title][-1] == "Sea " * 9
    assert len(service.sent) == 6


def test_turns_and_sessions(service: LongDecode, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "chats.db")
    with Session(Engine(gemini(service), [look]), id="ada", store=store) as session:
        turn = session.run("Look at it")
        assert (turn.rounds, turn.text) == (2, service.text)
    with Session.resume("ada", Engine(gemini(service), [look]), store) as session:
        assert session.run("An album", output_cls=Album).output.title.startswith("Sea")
    store.close()


def test_a_part_that_fails_is_sent_again(service: LongDecode, api: API) -> None:
    """Nothing of it had arrived. What was before it is kept."""
    again = whole(b"{}", 503, "retry-after: 0")
    service.processed = lambda _: service.fail("POST", again) if len(service.sent) == 2 else None
    events = api.events(gemini(service), "Tell me")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == service.text
    assert len(service.log) == 4


def test_a_response_without_an_end(service: LongDecode) -> None:
    service.parts = 100
    with pytest.raises(LimitExceeded, match="goes on after 64 parts"):
        gemini(service).chat("Tell me")


def test_half_an_answer_without_a_token_is_cut_off(service: LongDecode) -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": "Half"}]}, "finishReason": "CONTINUATION"}]}
    service.fail("POST", *as_json(answer))
    response = gemini(service).chat("Tell me")
    assert (response.text, response.stop_reason, response.raw_stop_reason) == ("Half", "max_tokens", "CONTINUATION")


def test_within_the_limits_of_a_job(service: LongDecode) -> None:
    """Each part is a request of its own there."""
    make = ToolOrchestratingLLM(Album, "An album: {text}", gemini(service))
    with make.map(["a"], rpm=600, progress=False) as outcomes:
        (outcome,) = outcomes
    assert (outcome.output, len(service.sent)) == (Album(title="Sea"), 3)
