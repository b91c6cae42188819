"""Responses in the background over real HTTP: polls, streams that are cut at every event, and cancelled responses."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support.loopback import CLOSE, HOLD, chunk, head, whole
from support.openai_batches import VirtualClock
from support.responses_service import ResponsesService, function_call, message
from support.service_double import as_json
from support.sync_and_async import API
from toolcast import Engine, OpenAIResponses, Settings, Timeouts, ToolOrchestratingLLM, is_partial
from toolcast.errors import (
    AuthFailed,
    LimitExceeded,
    MalformedEvent,
    NotFound,
    ServerError,
    StreamInterrupted,
    StreamTruncated,
    Timeout,
)
from toolcast.events import Event, TextDelta
from toolcast.llms.http import background_responses
from toolcast.llms.http.service import Service

BACKGROUND = Settings(background=True)


class Album(BaseModel):
    """An album."""

    title: str
    year: int


ALBUM = function_call("Album", {"title": "Blue", "year": 1971})


@pytest.fixture
def service() -> Iterator[ResponsesService]:
    with ResponsesService() as double:
        yield double


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_responses, "_FIRST_WAIT", 0.001)


def gpt(service: ResponsesService, settings: Settings = BACKGROUND, **options: Any) -> OpenAIResponses:
    base = f"{service.base}/v1"
    return OpenAIResponses("gpt-5.4", api_key="k", base_url=base, settings=settings, **{"max_retries": 2, **options})


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_response_is_polled_until_it_has_ended(service: ResponsesService, api: API) -> None:
    service.polls = ["queued", "in_progress", "in_progress"]
    response = api.chat(gpt(service), "Hi")
    assert (response.text, response.response_id) == ("Answer 1.", "resp_1")
    assert service.log == ["POST /v1/responses", *["GET /v1/responses/resp_1"] * 4]
    assert {"background": True, "store": True, "stream": False}.items() <= service.created[0].json.items()
    assert service.cancelled == []


def test_a_structured_call_in_the_background(service: ResponsesService, api: API) -> None:
    service.polls = ["queued"]
    service.script.extend([[ALBUM], [ALBUM]])
    make = ToolOrchestratingLLM(Album, "Invent {what}.", gpt(service))
    result = api.run(make, what="an album")
    assert result.output == Album(title="Blue", year=1971)
    assert len(result.attempts) == 1
    items = api.stream(make, what="an album").items
    assert items[-1] == Album(title="Blue", year=1971)


def test_a_response_that_has_ended_at_once_is_not_polled(service: ResponsesService, api: API) -> None:
    service.fail("POST", *as_json({"id": "r", "status": "completed", "output": [message("Hi.")], "model": "m"}))
    assert api.chat(gpt(service), "Hi").text == "Hi."
    assert len(service.log) == 1


@pytest.mark.parametrize("polls", [[], ["queued"]], ids=["at once", "polled"])
def test_a_response_has_the_limit_of_any_other(
    service: ResponsesService, polls: list[str], api: API, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests beside chat have a smaller one."""
    monkeypatch.setitem(Service.send.__kwdefaults__, "limit", 1000)
    for module in ("http_exchange", "background_responses"):
        monkeypatch.setattr(f"toolcast.llms.http.{module}.MAX_RESPONSE_BYTES", 2000)
    service.polls = polls
    service.script.extend([[message("x" * 1000)], [message("x" * 3000)]])
    assert api.chat(gpt(service), "Hi").text == "x" * 1000
    with pytest.raises(LimitExceeded, match="2000 bytes"):
        api.chat(gpt(service), "Hi")


@pytest.mark.parametrize("item", [message("Hello there, how are you?"), ALBUM], ids=["text", "call"])
def test_a_stream_that_is_cut_at_every_event(service: ResponsesService, item: dict[str, Any], api: API) -> None:
    service.script.append([item])
    expected = api.events(gpt(service), "Hi")
    count = len(service.events("resp_1"))
    service.cuts.extend([1] * (count - 1))
    service.script.append([item])
    assert api.events(gpt(service, max_retries=0), "Hi") == expected
    assert [query["starting_after"] for query in service.queries] == [str(number) for number in range(count - 1)]
    assert service.cancelled == []


def test_partial_objects_of_a_cut_stream(service: ResponsesService, api: API) -> None:
    make = ToolOrchestratingLLM(Album, "Invent {what}.", gpt(service))
    for cuts in ([], [1] * 20):
        service.script.append([ALBUM])
        service.cuts.extend(cuts)
        found = api.stream(make, what="an album").items
        titles = [item.title for item in found if is_partial(item) and getattr(item, "title", None)]
        assert titles == sorted(titles, key=len)
        assert found[-1] == Album(title="Blue", year=1971)
    assert len(service.created) == 2


def test_an_engine_in_the_background(service: ResponsesService, api: API) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    service.script.extend([[function_call("add", {"a": 1, "b": 2})], [message("It is 3.")]])
    service.cuts.extend([2, 3, 1, 2, 2, 1, 9])
    settings = Settings(background=True, previous_response_id="auto")
    engine: Any = Engine(gpt(service, settings), [add])
    assert api.method(engine, "submit", "1 + 2?").text == "It is 3."
    assert [len(request.json["input"]) for request in service.created] == [1, 1]


def test_a_cut_before_the_first_event_sends_the_request_again(service: ResponsesService, api: API) -> None:
    service.cuts.append(0)
    assert text(api.events(gpt(service), "Hi")) == "Answer 1."
    assert len(service.created) == 2


def test_a_stream_without_numbers_is_not_resumed(service: ResponsesService, api: API) -> None:
    created = {"type": "response.created", "response": {"id": "resp_9", "status": "queued"}}
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
    sent = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in (created, delta))
    service.responses["resp_9"] = {}
    service.fail("POST /v1/responses$", head(200, "transfer-encoding: chunked"), chunk(sent), CLOSE)
    found: list[Event] = []
    with pytest.raises((StreamInterrupted, StreamTruncated)):
        found += api.events(gpt(service), "Hi")
    assert service.cancelled == ["resp_9"]


def test_a_stream_that_cannot_be_resumed_is_an_error(service: ResponsesService, api: API) -> None:
    service.cuts.append(4)
    service.fail("GET", *as_json({"error": {"message": "no such response"}}, 404))
    with pytest.raises(NotFound):
        api.events(gpt(service), "Hi")
    assert service.cancelled == ["resp_1"]


def test_a_failed_resumption_and_a_failed_poll_are_repeated(service: ResponsesService, api: API) -> None:
    busy = whole(b'{"error": {"message": "busy"}}', 503, "content-type: application/json", "retry-after-ms: 1")
    service.cuts.append(4)
    service.fail("GET", busy, times=2)
    assert text(api.events(gpt(service), "Hi")) == "Answer 1."
    service.polls = ["queued"]
    service.fail("GET", busy, times=2)
    assert api.chat(gpt(service), "Hi").text == "Answer 1."
    service.fail("GET", busy, times=3)
    with pytest.raises(Exception, match="busy"):
        api.chat(gpt(service), "Hi")
    assert service.cancelled == ["resp_3"]


def test_a_service_that_only_closes_is_not_asked_for_ever(service: ResponsesService, api: API) -> None:
    service.cuts.extend([4, 0, 0, 0, 0, 0, 0])
    with pytest.raises((StreamInterrupted, StreamTruncated)):
        api.events(gpt(service), "Hi")
    assert service.count("GET") == 3  # the first after an event, and two retries
    assert service.cancelled == ["resp_1"]


def test_a_failed_response_is_an_error_and_is_not_cancelled(service: ResponsesService, api: API) -> None:
    service.polls = ["queued"]
    service.fail(
        "GET", *as_json({"id": "resp_1", "status": "failed", "error": {"code": "server_error", "message": "!"}})
    )
    with pytest.raises(ServerError):
        api.chat(gpt(service, max_retries=0), "Hi")
    assert service.cancelled == []


def test_the_deadline_of_the_call_ends_the_polls(service: ResponsesService, api: API) -> None:
    service.polls = ["in_progress"] * 10_000
    llm = gpt(service, Settings(background=True, timeout=Timeouts(total=60)))
    llm.clock = VirtualClock()
    with pytest.raises(Timeout) as failed:
        api.chat(llm, "Hi")
    assert failed.value.phase == "total"
    assert service.cancelled == ["resp_1"]


@pytest.mark.slow
def test_a_silent_stream_is_opened_again(service: ResponsesService, api: API) -> None:
    created = service_events(service)[0]
    service.fail("POST /v1/responses$", head(200, "transfer-encoding: chunked"), chunk(b"data: %b\n\n" % created), HOLD)
    settings = Settings(background=True, timeout=Timeouts(first_token=3, idle=0.1, total=60))
    assert text(api.events(gpt(service, settings), "Hi")) == "Hello."
    assert service.queries[0]["starting_after"] == "0"


def service_events(service: ResponsesService) -> list[bytes]:
    service.responses["resp_1"] = {"id": "resp_1", "status": "completed", "model": "m", "output": [message("Hello.")]}
    return [json.dumps(event).encode() for event in service.events("resp_1")]


def held(service: ResponsesService) -> None:
    """Answer with the start of a stream, and nothing more."""
    start = b"".join(b"data: %b\n\n" % event for event in service_events(service)[:4])
    service.fail("POST /v1/responses$", head(200, "transfer-encoding: chunked"), chunk(start), HOLD)


def test_a_connection_that_ends_without_an_error_is_resumed(service: ResponsesService, api: API) -> None:
    events = service_events(service)
    start = b"".join(b"data: %b\n\n" % event for event in events[:3])
    # The second is whole JSON without the line behind it.
    service.fail("POST /v1/responses$", head(200, "connection: close") + start, CLOSE)
    service.fail("GET", head(200, "connection: close") + b"data: " + events[3], CLOSE)
    assert text(api.events(gpt(service), "Hi")) == "Hello."
    assert [query["starting_after"] for query in service.queries] == ["3"]


def test_an_error_after_the_end_is_none(service: ResponsesService, api: API) -> None:
    events = b"".join(b"data: %b\n\n" % event for event in service_events(service))
    service.fail("POST /v1/responses$", head(200, "transfer-encoding: chunked"), chunk(events), CLOSE)
    assert text(api.events(gpt(service), "Hi")) == "Hello."
    assert len(service.log) == 1


def test_without_a_deadline_only_the_response_ends_the_polls(service: ResponsesService, api: API) -> None:
    service.polls = ["queued"]
    settings = Settings(background=True, timeout=Timeouts(total=None))
    assert api.chat(gpt(service, settings), "Hi").text == "Answer 1."


def test_a_poll_that_does_not_answer_is_repeated(service: ResponsesService, api: API) -> None:
    running = json.dumps({"id": "resp_1", "status": "in_progress"}).encode()
    service.fail("GET", head(200, f"content-length: {len(running)}"), HOLD)
    service.polls = ["queued"]
    settings = Settings(background=True, timeout=Timeouts(first_token=1))
    assert api.chat(gpt(service, settings), "Hi").text == "Answer 1."


def test_a_response_is_cancelled_with_a_token(service: ResponsesService) -> None:
    held(service)
    llm = OpenAIResponses("m", base_url=f"{service.base}/v1", settings=BACKGROUND, auth=lambda: {"x-api-key": "t-1"})
    with llm.stream_chat("Hi") as stream:
        next(iter(stream))
    assert [request.headers["x-api-key"] for request in service.requests] == ["t-1", "t-1"]
    assert service.cancelled == ["resp_1"]


def test_a_closed_stream_cancels_the_response(service: ResponsesService) -> None:
    held(service)
    with gpt(service).stream_chat("Hi") as stream:
        assert next(iter(stream)) == TextDelta("Hello.")
    assert service.cancelled == ["resp_1"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_task_cancels_the_response(service: ResponsesService, backend: str) -> None:
    service.polls = ["in_progress"] * 10_000
    polled = threading.Event()
    service.processed = lambda line: polled.set() if line.startswith("GET") else None

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(gpt(service).achat, "Hi")
            await anyio.to_thread.run_sync(polled.wait)
            group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert service.cancelled == ["resp_1"]


def test_an_interrupt_of_the_keyboard_cancels_the_response(service: ResponsesService) -> None:
    class Clock:
        """A clock whose first wait is interrupted."""

        def now(self) -> float:
            return 0.0

        time = now

        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    service.polls = ["in_progress"]
    llm = gpt(service)
    llm.clock = Clock()  # type: ignore[assignment] # it has what a sync call uses
    with pytest.raises(KeyboardInterrupt):
        llm.chat("Hi")
    assert service.cancelled == ["resp_1"]


def test_a_response_that_cannot_be_cancelled_is_logged(
    service: ResponsesService, caplog: pytest.LogCaptureFixture
) -> None:
    for pieces in (as_json({"error": {"message": "no"}}, 500), (CLOSE,)):
        held(service)
        service.fail("POST .*/cancel", *pieces)
        with caplog.at_level(logging.WARNING), gpt(service).stream_chat("Hi") as stream:
            next(iter(stream))
        assert "the background response resp_1 could not be cancelled" in caplog.text
        caplog.clear()


def test_each_request_has_a_new_token(service: ResponsesService, api: API) -> None:
    service.polls = ["queued"]
    tokens = iter(f"token-{number}-0123456789" for number in range(9))
    llm = OpenAIResponses(
        "m",
        base_url=f"{service.base}/v1",
        settings=BACKGROUND,
        auth=lambda: {"authorization": f"Bearer {next(tokens)}"},
    )
    assert api.chat(llm, "Hi").text == "Answer 1."
    sent = [request.headers["authorization"] for request in service.requests]
    assert sent == [f"Bearer token-{number}-0123456789" for number in range(3)]


def test_a_refused_request_is_the_usual_error(service: ResponsesService, api: API) -> None:
    service.fail("POST", *as_json({"error": {"message": "no"}}, 401))
    with pytest.raises(AuthFailed):
        api.chat(gpt(service), "Hi")
    service.fail("POST", whole(b"<html>", 200))
    with pytest.raises((MalformedEvent, StreamTruncated)):
        api.chat(gpt(service, max_retries=0), "Hi")
