"""OpenAI's protocol against llmock, an independent server that breaks on order and grades its client.

Every test ends with its verdict on toolcast, strict: no fault mishandled, no warning. What broke after the caller
had seen some of it is the caller's to ask for again, and so do these tests; toolcast never tells a thing twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import BaseModel

from albums import SEA, Album
from faces import Face, Seen
from toolcast import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    LLMError,
    MalformedEvent,
    NotFound,
    OpenAI,
    Overloaded,
    RateLimited,
    ServerError,
    Settings,
    StreamInterrupted,
    StreamTruncated,
    TextDelta,
    Timeout,
    Timeouts,
    ToolOrchestratingLLM,
    UnknownToolError,
    ValidationError,
    is_partial,
    user,
)

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = pytest.mark.networked


@pytest.fixture
def server(llmock: LLMock) -> Iterator[LLMock]:
    """llmock, which at the end has nothing to say against toolcast."""
    yield llmock
    llmock.assert_resilient(strict=True)


@pytest.fixture
def llm(server: LLMock) -> Iterator[OpenAI]:
    with OpenAI("gpt-4o", base_url=server.base_url("openai")) as made:
        yield made


def about(llm: OpenAI, output: Any = Album, **options: Any) -> ToolOrchestratingLLM[Any]:
    return ToolOrchestratingLLM(output, "about {topic}", llm, **options)


def asked_plainly(server: LLMock, body: Any) -> Any:
    """What the server answers the same request when nothing but httpx asks."""
    headers = {"authorization": "Bearer any"}
    url = f"{server.base_url('openai')}/chat/completions"
    return httpx.post(url, json={**body, "stream": False}, headers=headers).json()


def says_sea(server: LLMock, times: int | None = 1) -> None:
    server.call_tool("Album", SEA.model_dump(mode="json"), times=times)


# -- the way it goes ------------------------------------------------------------------------------------------


def test_text(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.reply("Good morning to you", times=3)
    plain = asked_plainly(server, {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]})
    response = face.chat(llm, "hello")
    assert response.text == plain["choices"][0]["message"]["content"] == "Good morning to you"
    assert (response.stop_reason, response.provider, response.model) == ("end_turn", "openai", "gpt-4o")
    assert response.usage.input_tokens == plain["usage"]["prompt_tokens"]
    assert response.usage.output_tokens == plain["usage"]["completion_tokens"]
    deltas = [event.text for event in face.events(llm, [user("hello")]) if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == response.text


def test_an_object(server: LLMock, llm: OpenAI, face: Face) -> None:
    says_sea(server, times=3)
    make = about(llm)
    plain = asked_plainly(server, make.preview(topic="x").body)
    arguments = plain["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    result = face.run(make, topic="x")
    assert result.output == Album.model_validate_json(arguments) == SEA
    assert result.usage.output_tokens == plain["usage"]["completion_tokens"]
    seen = face.stream(make, topic="x")
    assert seen.final == SEA
    assert len(seen.items) > 3
    assert all(is_partial(item) for item in seen.items[:-1])


class Everything(BaseModel):
    """llmock fills in what fits the schema."""

    name: str
    count: int
    ratio: float
    flag: bool
    tags: list[str]
    nested: dict[str, int]


def test_the_schema_is_one_that_others_can_read(server: LLMock, llm: OpenAI, face: Face) -> None:
    """llmock makes arguments from the JSON Schema it is sent; they must be valid."""
    make = about(llm, Everything)
    assert isinstance(face.call(make, topic="x"), Everything)
    assert isinstance(face.stream(make, topic="x").final, Everything)


def test_parallel_calls(server: LLMock, llm: OpenAI, face: Face) -> None:
    from llmock.scenarios import Reply, ToolCall

    calls = tuple(ToolCall("Album", {"title": name, "artist": "x", "songs": []}) for name in ("One", "Two", "Three"))
    server.add(Reply(tool_calls=calls, times=2))
    make = about(llm, allow_parallel_tool_calls=True)
    titles = [album.title for album in face.call(make, topic="x")]
    assert titles == ["One", "Two", "Three"]
    assert [album.title for album in face.stream(make, topic="x").final] == titles


def test_a_function_is_run_once(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.call_tool("multiply", {"a": 17, "b": 23})
    ran: list[tuple[int, int]] = []

    def multiply(a: int, b: int) -> int:
        ran.append((a, b))
        return a * b

    assert face.call(about(llm, multiply), topic="x") == 391
    assert ran == [(17, 23)]


def test_a_conversation_with_results(server: LLMock, llm: OpenAI, face: Face) -> None:
    """Tool results go back in a form that the server takes for an answered call."""
    server.call_tool("Album", {"title": "Sea"})
    says_sea(server)
    result = face.run(about(llm, max_attempts=2), topic="x")
    assert result.output == SEA
    assert [type(attempt.error).__name__ for attempt in result.attempts] == ["ValidationError", "NoneType"]


# -- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, BadRequest), (401, AuthFailed), (403, AuthFailed), (404, NotFound), (413, LLMError), (422, BadRequest)],
)
def test_what_is_never_retried(server: LLMock, llm: OpenAI, face: Face, status: int, kind: type[LLMError]) -> None:
    server.fail(status, message="because of the weather")
    with pytest.raises(kind, match="because of the weather") as caught:
        face.call(about(llm), topic="x")
    assert (caught.value.status, len(caught.value.attempts)) == (status, 1)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind"), [(429, RateLimited), (500, ServerError), (503, Overloaded), (529, Overloaded)]
)
def test_what_passes_is_retried(server: LLMock, llm: OpenAI, face: Face, status: int, kind: type[LLMError]) -> None:
    server.fail(status, retry_after=0.05)
    says_sea(server)
    result = face.run(about(llm), topic="x")
    assert result.output == SEA
    assert [type(attempt.error) for attempt in result.attempts] == [kind, type(None)]


def test_a_stream_is_retried_before_it_begins(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.rate_limit(times=2, retry_after=0.05)
    says_sea(server)
    assert face.stream(about(llm), topic="x").final == SEA
    assert len(server.requests) == 3


def test_an_outage_is_given_up(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.fail(503, times=None, retry_after=0.01)
    with pytest.raises(Overloaded) as caught:
        face.call(about(llm), topic="x")
    assert len(caught.value.attempts) == len(server.requests) == 3


def test_a_wait_that_is_too_long_is_not_begun(llmock: LLMock, face: Face) -> None:
    llmock.rate_limit(retry_after=3600)
    with OpenAI("gpt-4o", base_url=llmock.base_url("openai")) as llm, pytest.raises(RateLimited) as caught:
        face.call(about(llm), topic="x")
    assert caught.value.retry_after == 3600
    # llmock would have an hour waited for; the contract leaves that to the caller.
    assert [finding.code for finding in llmock.verdict().findings] == ["gave_up"]


def test_a_prompt_that_is_too_long(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.context_overflow()
    with pytest.raises(ContextTooLong):
        face.call(about(llm), topic="x")


# -- broken streams -------------------------------------------------------------------------------------------


def broken(llm: OpenAI, face: Face, output: Any = Album, **options: Any) -> Seen:
    """What a consumer saw of a stream that broke; the same call again goes well."""
    make = about(llm, output, **options)
    seen = face.stream(make, topic="x")
    assert face.stream(make, topic="x").error is None
    return seen


@pytest.mark.parametrize("after", [2, 5])
def test_a_disconnected_stream(server: LLMock, llm: OpenAI, face: Face, after: int) -> None:
    says_sea(server, times=2)
    server.disconnect(after_chunks=after)
    seen = broken(llm, face)
    assert type(seen.error) is StreamInterrupted
    assert len(server.requests) == 2


def test_a_stream_that_breaks_before_it_shows_anything_is_retried(server: LLMock, llm: OpenAI, face: Face) -> None:
    says_sea(server, times=2)
    server.disconnect(after_chunks=0)
    assert face.stream(about(llm), topic="x").final == SEA
    assert len(server.requests) == 2


@pytest.mark.parametrize("after", [2, 5])
def test_a_truncated_stream_is_never_taken_for_a_whole_one(server: LLMock, llm: OpenAI, face: Face, after: int) -> None:
    says_sea(server, times=2)
    server.truncate(after_chunks=after)
    seen = broken(llm, face)
    assert type(seen.error) is StreamTruncated
    assert all(is_partial(item) for item in seen.items)


def test_a_truncated_stream_runs_no_function(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.call_tool("pay", {"amount": 100000, "to": "somebody with a long name"}, times=2)
    server.truncate(after_chunks=3)
    ran: list[str] = []

    def pay(amount: int, to: str = "me") -> int:
        ran.append(to)
        return amount

    assert type(broken(llm, face, pay).error) is StreamTruncated
    assert ran == ["somebody with a long name"]  # by the second call


def test_a_stalled_stream(server: LLMock, llm: OpenAI, face: Face) -> None:
    says_sea(server, times=2)
    server.stall(after_chunks=3, seconds=2)
    limits = Settings(timeout=Timeouts(first_token=5, idle=0.2, total=10))
    seen = broken(llm, face, settings=limits)
    assert type(seen.error) is Timeout
    assert seen.error.phase == "idle"


def test_a_stream_that_never_begins(server: LLMock, face: Face) -> None:
    says_sea(server, times=2)
    server.slow_first_token(2)
    limits = Settings(timeout=Timeouts(first_token=0.1))
    with OpenAI("gpt-4o", base_url=server.base_url("openai"), max_retries=0) as llm:
        seen = face.stream(about(llm, settings=limits), topic="x")
    assert type(seen.error) is Timeout
    assert (seen.error.phase, seen.items) == ("first_token", [])


def test_a_stream_that_begins_late_is_retried(server: LLMock, llm: OpenAI, face: Face) -> None:
    says_sea(server, times=2)
    server.slow_first_token(2)
    limits = Settings(timeout=Timeouts(first_token=0.5))
    assert face.stream(about(llm, settings=limits), topic="x").final == SEA
    assert len(server.requests) == 2


def test_a_malformed_chunk(llmock: LLMock, face: Face) -> None:
    says_sea(llmock)
    llmock.corrupt(after_chunks=3)
    with OpenAI("gpt-4o", base_url=llmock.base_url("openai")) as llm:
        seen = face.stream(about(llm), topic="x")
    assert type(seen.error) is MalformedEvent
    assert all(is_partial(item) for item in seen.items)
    # llmock sees only that the answer was read to its end, which it was: partials go on. It was not accepted.
    assert [finding.code for finding in llmock.verdict().findings] == ["malformed_chunk_ignored"]


# -- broken calls ---------------------------------------------------------------------------------------------


def test_malformed_arguments(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.break_tool_call("malformed_arguments")
    says_sea(server)
    with pytest.raises(ValidationError) as caught:
        face.call(about(llm), topic="x")
    with pytest.raises(json.JSONDecodeError):
        json.loads(caught.value.arguments)


def test_malformed_arguments_are_told_and_asked_again(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.break_tool_call("malformed_arguments")
    says_sea(server, times=2)
    assert face.call(about(llm, max_attempts=2), topic="x") == SEA
    assert len(server.requests) == 2


def test_an_unknown_tool(server: LLMock, llm: OpenAI, face: Face) -> None:
    server.break_tool_call("unknown_tool")
    with pytest.raises(UnknownToolError, match="Album"):
        face.call(about(llm), topic="x")
