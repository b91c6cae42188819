"""Every protocol that llmock serves, an independent server that breaks on order and grades its client.

Every test ends with its verdict on toolcast: no fault mishandled, no warning. What broke after the caller had seen
some of it is the caller's to ask for again, and so do these tests; toolcast never emits an event twice.

The waits are real ones, so they are short: the dice of the backoff lie still, and low.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import BaseModel

from servers.llmock_protocols import ANTHROPIC, CHAT, MISTRAL, PROTOCOLS, RESPONSES, Protocol, findings
from support.albums import SEA, Album, Apology
from support.sync_and_async import API, APIS, StreamRecord
from toolcast import LLMError, Settings, Timeouts, ToolOrchestratingLLM, ValidationError, is_partial, user
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    ContentBlocked,
    ContextTooLong,
    NotFound,
    NoToolCallError,
    OutputTruncated,
    Overloaded,
    RateLimited,
    Refused,
    ServerError,
    StreamInterrupted,
    StreamTruncated,
    Timeout,
    UnknownToolError,
)
from toolcast.events import TextDelta
from toolcast.llms.http_llm import ServiceLLM

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = [pytest.mark.networked, pytest.mark.usefixtures("low_dice")]

TEXT = "Let me look at the sea"
SYNC, ASYNCIO, *OTHER_APIS = APIS
# An API differs in the same way under every protocol.
WAYS = [(protocol, api) for protocol in PROTOCOLS for api in (SYNC, ASYNCIO)] + [(CHAT, api) for api in OTHER_APIS]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1].name}")
def way(request: pytest.FixtureRequest) -> tuple[Protocol, API]:
    """Each protocol in turn, sync and async."""
    chosen: tuple[Protocol, API] = request.param
    return chosen


@pytest.fixture
def api(way: tuple[Protocol, API]) -> API:
    return way[1]


def about(llm: ServiceLLM, output: Any = Album, **options: Any) -> ToolOrchestratingLLM[Any]:
    return ToolOrchestratingLLM(output, "about {topic}", llm, **options)


def asked_again(plainly: httpx.Client, server: LLMock) -> Any:
    """What the server answers the last request when nothing but httpx asks."""
    last = server.last_request
    return plainly.post(f"{server.url}{last.path}", json=last.body).json()


def answer_sea(server: LLMock, times: int | None = 1, text: str | None = None) -> None:
    server.call_tool("Album", SEA.model_dump(mode="json"), text=text, times=times)


def calls(server: LLMock, *values: BaseModel, times: int = 1) -> None:
    """The next answer calls a tool for each of these."""
    from llmock.scenarios import Reply, ToolCall

    made = tuple(ToolCall(type(value).__name__, value.model_dump(mode="json")) for value in values)
    server.add(Reply(tool_calls=made, times=times))


# -- the way it goes ------------------------------------------------------------------------------------------


def test_text(server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API, plainly: httpx.Client) -> None:
    server.reply("Good morning to you", times=3)
    response = api.chat(llm, "hello")
    plain = asked_again(plainly, server)
    assert response.text == protocol.text(plain) == "Good morning to you"
    assert (response.stop_reason, response.provider) == ("end_turn", llm.provider)
    assert (response.usage.input_tokens, response.usage.output_tokens) == protocol.usage(plain)
    deltas = [event.text for event in api.events(llm, [user("hello")]) if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == response.text


def test_an_object(server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API, plainly: httpx.Client) -> None:
    answer_sea(server, times=3)
    make = about(llm)
    result = api.run(make, topic="x")
    plain = asked_again(plainly, server)
    assert result.output == Album.model_validate(protocol.arguments(plain)) == SEA
    assert result.repairs == ()
    assert result.response.stop_reason == "tool_use"
    assert result.usage.output_tokens == protocol.usage(plain)[1]
    seen = api.stream(make, topic="x")
    assert seen.final == SEA
    assert all(is_partial(item) for item in seen.items[:-1])
    if protocol.streams_fragments:
        assert len(seen.items) > 3


def test_an_object_after_some_words(server: LLMock, llm: ServiceLLM, api: API) -> None:
    answer_sea(server, times=2, text=TEXT)
    result = api.run(about(llm), topic="x")
    assert (result.output, result.response.text) == (SEA, TEXT)
    assert api.stream(about(llm), topic="x").final == SEA


class Everything(BaseModel):
    """llmock fills in what fits the schema."""

    name: str
    count: int
    ratio: float
    flag: bool
    tags: list[str]
    nested: dict[str, int]


def test_the_schema_is_one_that_others_can_read(server: LLMock, llm: ServiceLLM, api: API) -> None:
    """llmock makes arguments from the JSON Schema it is sent; they must be valid."""
    make = about(llm, Everything)
    assert isinstance(api.call(make, topic="x"), Everything)
    assert isinstance(api.stream(make, topic="x").final, Everything)


def test_one_of_several_tools(server: LLMock, llm: ServiceLLM, api: API) -> None:
    no = Apology(reason="no sea here")
    calls(server, no, times=2)
    make = about(llm, Album | Apology)
    assert api.call(make, topic="x") == no
    assert api.stream(make, topic="x").final == no


def test_the_choice_is_left_to_the_model(server: LLMock, llm: ServiceLLM, api: API) -> None:
    """llmock calls of the tools it is offered the one that the prompt speaks of."""
    make = ToolOrchestratingLLM(Album | Apology, "an apology, please", llm)
    assert isinstance(api.call(make), Apology)
    assert isinstance(api.stream(make).final, Apology)


def test_several_calls_of_several_tools(server: LLMock, llm: ServiceLLM, api: API) -> None:
    wanted = [SEA, Apology(reason="no more"), SEA.model_copy(update={"title": "Another"})]
    calls(server, *wanted, times=2)
    make = about(llm, Album | Apology, allow_parallel_tool_calls=True)
    assert api.call(make, topic="x") == wanted
    assert api.stream(make, topic="x").final == wanted


def test_a_function_is_run_once(server: LLMock, llm: ServiceLLM, api: API) -> None:
    server.call_tool("multiply", {"a": 17, "b": 23})
    ran: list[tuple[int, int]] = []

    def multiply(a: int, b: int) -> int:
        ran.append((a, b))
        return a * b

    assert api.call(about(llm, multiply), topic="x") == 391
    assert ran == [(17, 23)]


def test_a_conversation_with_results(server: LLMock, llm: ServiceLLM, api: API) -> None:
    """Tool results go back in a form that the server takes for an answered call."""
    server.call_tool("Album", {"title": "Sea"})
    answer_sea(server)
    result = api.run(about(llm, max_attempts=2), topic="x")
    assert result.output == SEA
    assert [type(attempt.error).__name__ for attempt in result.attempts] == ["ValidationError", "NoneType"]


# -- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, BadRequest), (401, AuthFailed), (403, AuthFailed), (404, NotFound), (413, LLMError), (422, BadRequest)],
)
def test_what_is_never_retried(server: LLMock, llm: ServiceLLM, api: API, status: int, kind: type[LLMError]) -> None:
    server.fail(status, message="because of the weather")
    with pytest.raises(kind, match="because of the weather") as caught:
        api.call(about(llm), topic="x")
    assert (caught.value.status, len(caught.value.attempts)) == (status, 1)
    assert len(server.requests) == 1


@pytest.mark.gate("G9")
@pytest.mark.parametrize(
    ("status", "kind"), [(429, RateLimited), (500, ServerError), (503, Overloaded), (529, Overloaded)]
)
def test_what_passes_is_retried(server: LLMock, llm: ServiceLLM, api: API, status: int, kind: type[LLMError]) -> None:
    server.fail(status, retry_after=0.05)
    answer_sea(server)
    result = api.run(about(llm), topic="x")
    assert result.output == SEA
    assert [type(attempt.error) for attempt in result.attempts] == [kind, type(None)]


@pytest.mark.gate("G9")
def test_a_wait_that_the_service_asks_for_is_waited(server: LLMock, llm: ServiceLLM, api: API) -> None:
    """The verdict would be `retry_after_ignored`: this is far more than toolcast's own first wait."""
    server.rate_limit(retry_after=0.3)
    answer_sea(server)
    assert api.stream(about(llm), topic="x").final == SEA
    assert len(server.requests) == 2


def test_a_stream_is_retried_before_it_begins(server: LLMock, llm: ServiceLLM, api: API) -> None:
    server.rate_limit(times=2, retry_after=0.05)
    answer_sea(server)
    assert api.stream(about(llm), topic="x").final == SEA
    assert len(server.requests) == 3


@pytest.mark.gate("G9")
def test_without_a_wish_the_waits_grow(server: LLMock, llm: ServiceLLM, api: API) -> None:
    """The verdict would be `no_backoff`."""
    server.fail(500, times=2)
    answer_sea(server)
    assert api.stream(about(llm), topic="x").final == SEA
    assert len(server.requests) == 3


def test_an_outage_is_given_up(server: LLMock, llm: ServiceLLM, api: API) -> None:
    server.fail(503, times=None, retry_after=0.01)
    with pytest.raises(Overloaded) as caught:
        api.call(about(llm), topic="x")
    assert len(caught.value.attempts) == len(server.requests) == 3


def test_a_wait_that_is_too_long_is_not_begun(
    llmock: LLMock, protocol: Protocol, api: API, plainly: httpx.Client
) -> None:
    llmock.rate_limit(retry_after=3600)
    with protocol.llm(llmock) as llm, pytest.raises(RateLimited) as caught:
        api.call(about(llm), topic="x")
    assert caught.value.retry_after == 3600
    # llmock would have an hour waited for; the contract leaves that to the caller.
    assert findings(llmock, plainly) == ["gave_up"]


def test_a_prompt_that_is_too_long(server: LLMock, llm: ServiceLLM, api: API) -> None:
    server.limits(context_window=1)
    with pytest.raises(ContextTooLong):
        api.call(about(llm), topic="all the seas of the world, one after the other")


def ends(server: LLMock, reason: str, *, whole: bool) -> None:
    """The next two answers end for this reason, in the words of each protocol; with the whole call, or half of it."""
    from llmock.scenarios import Reply, ToolCall

    arguments = SEA.model_dump(mode="json") if whole else {"title": "Sea"}
    server.add(Reply(tool_calls=(ToolCall("Album", arguments),), finish_reason=reason, times=2))


def test_max_tokens_ends_the_answer(server: LLMock, llm: ServiceLLM, api: API) -> None:
    ends(server, "length", whole=False)
    with pytest.raises(OutputTruncated):
        api.call(about(llm), topic="x")
    assert isinstance(api.stream(about(llm), topic="x").error, OutputTruncated)


def test_max_tokens_ends_the_answer_after_the_object(server: LLMock, llm: ServiceLLM, api: API) -> None:
    ends(server, "length", whole=True)
    result = api.run(about(llm), topic="x")
    assert (result.output, result.response.stop_reason) == (SEA, "max_tokens")
    assert api.stream(about(llm), topic="x").final == SEA


def test_the_service_blocks_the_answer(server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API) -> None:
    from llmock.scenarios import Reply

    server.add(Reply(text="I would rather", finish_reason="content_filter", times=2))
    # llmock has no word for it in the Responses protocol: there the model answers with a text.
    kind = {RESPONSES: NoToolCallError, ANTHROPIC: Refused}.get(protocol, ContentBlocked)
    with pytest.raises(kind, match="I would rather"):
        api.call(about(llm), topic="x")
    assert isinstance(api.stream(about(llm), topic="x").error, kind)


# -- broken streams -------------------------------------------------------------------------------------------


def broken(llm: ServiceLLM, api: API, output: Any = Album, **options: Any) -> StreamRecord:
    """What a consumer saw of a stream that broke; the same call again goes well."""
    make = about(llm, output, **options)
    seen = api.stream(make, topic="x")
    assert api.stream(make, topic="x").error is None
    return seen


@pytest.mark.parametrize("early", [True, False])
def test_a_disconnected_stream(server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API, early: bool) -> None:
    answer_sea(server, times=2, text=TEXT)
    server.disconnect(after_chunks=protocol.breaks[not early])
    assert type(broken(llm, api).error) is StreamInterrupted
    assert len(server.requests) == 2


def test_a_stream_that_breaks_before_it_shows_anything_is_retried(server: LLMock, llm: ServiceLLM, api: API) -> None:
    answer_sea(server, times=2)
    server.disconnect(after_chunks=0)
    assert api.stream(about(llm), topic="x").final == SEA
    assert len(server.requests) == 2


@pytest.mark.parametrize("early", [True, False])
def test_a_truncated_stream_is_never_taken_for_a_whole_one(
    server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API, early: bool
) -> None:
    answer_sea(server, times=2, text=TEXT)
    server.truncate(after_chunks=protocol.breaks[not early])
    seen = broken(llm, api)
    assert type(seen.error) is StreamTruncated
    assert all(is_partial(item) for item in seen.items)


def test_a_truncated_stream_runs_no_function(server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API) -> None:
    server.call_tool("pay", {"amount": 100000, "to": "a person with a long name"}, text=TEXT, times=2)
    server.truncate(after_chunks=protocol.breaks[1])
    ran: list[str] = []

    def pay(amount: int, to: str = "me") -> int:
        ran.append(to)
        return amount

    assert type(broken(llm, api, pay).error) is StreamTruncated
    assert ran == ["a person with a long name"]  # by the second call


@pytest.mark.gate("G10")
@pytest.mark.parametrize(("fault", "kind"), [("truncate", StreamTruncated), ("disconnect", StreamInterrupted)])
@pytest.mark.parametrize(
    "way", [(protocol, SYNC) for protocol in PROTOCOLS], ids=lambda way: str(way[0]), indirect=True
)
def test_no_border_before_the_end_passes_for_the_end(
    llmock: LLMock, protocol: Protocol, fault: str, kind: type[LLMError]
) -> None:
    """Cut after one chunk, after two, and so on: an error each time, until what came is whole; then the tool runs."""
    ran: list[str] = []

    def pay(amount: int, to: str = "me") -> int:
        ran.append(to)
        return amount

    llmock.call_tool("pay", {"amount": 100000, "to": "a person"}, text=TEXT, times=None)
    errors: list[type] = []
    with protocol.llm(llmock, max_retries=0) as llm:
        while not ran:
            getattr(llmock, fault)(after_chunks=1 + len(errors))
            errors.append(type(API().stream(about(llm, pay), topic="x").error))
    *cut, last = errors
    assert {*cut} == {kind}
    assert (last, len(cut) >= protocol.breaks[1]) == (type(None), True)


def test_a_stalled_stream(server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API) -> None:
    answer_sea(server, times=2, text=TEXT)
    server.stall(after_chunks=protocol.breaks[0], seconds=1.5)
    limits = Settings(timeout=Timeouts(first_token=5, idle=0.2, total=10))
    seen = broken(llm, api, settings=limits)
    assert type(seen.error) is Timeout
    assert seen.error.phase == "idle"


def test_a_stream_that_never_begins(server: LLMock, protocol: Protocol, api: API) -> None:
    answer_sea(server, times=2)
    server.slow_first_token(1.5)
    limits = Settings(timeout=Timeouts(first_token=0.1))
    with protocol.llm(server, max_retries=0) as llm:
        seen = api.stream(about(llm, settings=limits), topic="x")
    assert type(seen.error) is Timeout
    assert (seen.error.phase, seen.items) == ("first_token", [])


def test_a_stream_that_begins_late_is_retried(server: LLMock, llm: ServiceLLM, api: API) -> None:
    answer_sea(server, times=2)
    server.slow_first_token(1.5)
    limits = Settings(timeout=Timeouts(first_token=0.3))
    assert api.stream(about(llm, settings=limits), topic="x").final == SEA
    assert len(server.requests) == 2


def test_a_malformed_chunk(llmock: LLMock, protocol: Protocol, api: API, plainly: httpx.Client) -> None:
    answer_sea(llmock, text=TEXT)
    llmock.corrupt(after_chunks=protocol.breaks[1])
    with protocol.llm(llmock) as llm:
        seen = api.stream(about(llm), topic="x")
    if protocol.damaged is None:
        assert seen.final == SEA
    else:
        assert type(seen.error) is protocol.damaged
        assert all(is_partial(item) for item in seen.items)
    # llmock sees only that the answer was read to its end, which it was: partials go on. It was not accepted.
    assert findings(llmock, plainly) == ["malformed_chunk_ignored"]


# -- broken calls ---------------------------------------------------------------------------------------------


def test_malformed_arguments(server: LLMock, llm: ServiceLLM, protocol: Protocol, api: API) -> None:
    server.break_tool_call("malformed_arguments", times=2)
    answer_sea(server, times=2)
    with pytest.raises(ValidationError) as caught:
        api.call(about(llm), topic="x")
    if protocol in (CHAT, RESPONSES, MISTRAL):
        with pytest.raises(json.JSONDecodeError):
            json.loads(caught.value.arguments)
    else:  # an object, which cannot be malformed: llmock empties it
        assert json.loads(caught.value.arguments) == {}
    assert isinstance(api.stream(about(llm), topic="x").error, ValidationError)


def test_malformed_arguments_are_reported_and_asked_again(server: LLMock, llm: ServiceLLM, api: API) -> None:
    server.break_tool_call("malformed_arguments")
    answer_sea(server, times=2)
    assert api.call(about(llm, max_attempts=2), topic="x") == SEA
    assert len(server.requests) == 2


def test_an_unknown_tool(server: LLMock, llm: ServiceLLM, api: API) -> None:
    server.break_tool_call("unknown_tool", times=2)
    with pytest.raises(UnknownToolError, match="Album"):
        api.call(about(llm), topic="x")
    assert isinstance(api.stream(about(llm), topic="x").error, UnknownToolError)
