"""Background responses without I/O: the requests, and the events of a stream that is cut anywhere."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from support.responses_service import ResponsesService, function_call, message
from toolcast.providers.chat_completions.services import AZURE, OPENAI
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.providers.openai.background_requests import BackgroundRequests, NumberedEvents, running_id
from toolcast.values.credentials import Secret

CREATED = b'{"include": ["reasoning.encrypted_content", "web_search_call.action.sources"]}'


def test_the_requests() -> None:
    # developers.openai.com/api/docs/guides/background
    requests = BackgroundRequests(OpenAIResponsesAdapter(OPENAI, api_key=Secret("sk-1")), CREATED)
    url = "https://api.openai.com/v1/responses/resp_1"
    include = "include%5B%5D=reasoning.encrypted_content&include%5B%5D=web_search_call.action.sources"
    assert (requests.poll("resp_1").method, requests.poll("resp_1").target) == ("GET", f"{url}?{include}")
    resumed = requests.resume("resp_1", 42)
    assert (resumed.method, resumed.target) == ("GET", f"{url}?{include}&stream=true&starting_after=42")
    assert resumed.headers["accept"] == "text/event-stream"
    cancelled = requests.cancel("resp_1")
    assert (cancelled.method, cancelled.target, cancelled.body) == ("POST", f"{url}/cancel", b"")


def test_the_requests_of_azure_have_its_version() -> None:
    adapter = OpenAIResponsesAdapter(AZURE, base_url="https://a.azure.com/openai/v1/responses?api-version=preview")
    requests = BackgroundRequests(adapter, b"{}")
    assert requests.poll("resp_1").target == "https://a.azure.com/openai/v1/responses/resp_1?api-version=preview"


def test_an_id_is_a_part_of_the_path() -> None:
    requests = BackgroundRequests(OpenAIResponsesAdapter(OPENAI), b"no JSON")
    assert requests.poll("a/../b").target == "https://api.openai.com/v1/responses/a%2F..%2Fb"


def test_only_a_running_response_is_polled() -> None:
    for status, id in (("queued", "r"), ("in_progress", "r"), ("completed", None), ("failed", None), ("", None)):
        assert running_id(json.dumps({"id": "r", "status": status}).encode()) == id
    assert running_id(b'{"status": "queued"}') is None
    assert running_id(b"<html>") is None


def stream() -> list[bytes]:
    service = object.__new__(ResponsesService)
    output = [message("Hello there, you."), function_call("add", {"a": 1, "b": "\u2028é"})]
    service.responses = {"resp_1": {"id": "resp_1", "status": "completed", "output": output}}
    events = service.events("resp_1")
    return [f"event: {event['type']}\r\ndata: {json.dumps(event)}\r\n\r\n".encode() for event in events]


FRAMES = stream()
WHOLE = [json.loads(frame.partition(b"data: ")[2]) for frame in FRAMES]


def parsed(data: bytes) -> list[object]:
    return [json.loads(each.removeprefix(b"data: ")) for each in data.split(b"\n\n") if each]


@given(st.lists(st.integers(0, 400), max_size=30), st.integers(1, 300), st.booleans())
def test_no_event_is_lost_or_doubled(cuts: list[int], size: int, repeats: bool) -> None:
    events, found = NumberedEvents(), list[object]()
    for cut in [*cuts, None]:
        after = -1 if events.last is None else events.last
        # A service may begin with the last event again.
        body = b"".join(FRAMES[max(after + (not repeats), 0) :])[:cut]
        for start in range(0, len(body), size):
            found += parsed(events.feed(body[start : start + size]))
        found += parsed(events.end())
        events.cut()
    assert found == WHOLE
    assert (events.id, events.over, events.last) == ("resp_1", True, len(WHOLE) - 1)


def test_the_last_event_may_come_without_the_line_behind_it() -> None:
    events = NumberedEvents()
    assert parsed(events.feed(b"".join(FRAMES)[:-4])) == WHOLE[:-1]
    assert not events.over
    assert parsed(events.end()) == WHOLE[-1:]
    assert events.over


def test_what_is_no_json_is_passed_on() -> None:
    events = NumberedEvents()
    assert events.feed(b"data: [DONE]\n\ndata: {broken\ndata: more\n\n") == (
        b"data: [DONE]\n\ndata: {broken\ndata: more\n\n"
    )
    assert (events.last, events.id, events.over) == (None, "", False)


def test_every_end_of_a_response_is_recognized() -> None:
    for kind in ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error"):
        events = NumberedEvents()
        events.feed(f'data: {{"type": "{kind}"}}\n\n'.encode())
        assert events.over
