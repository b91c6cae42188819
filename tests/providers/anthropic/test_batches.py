"""Message Batches: errors of requests, results that are gone or elsewhere, and the body of the request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.anthropic_batches import KEY, AnthropicBatches, error
from support.batch_client import BatchClient
from support.loopback import Loopback, whole
from toolcast import Anthropic
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    LLMError,
    MalformedEvent,
    NotFound,
    Overloaded,
    RateLimited,
    ServerError,
)
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.anthropic.batches import AnthropicBatches as Codec
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPResponse

CODEC = Codec(AnthropicAdapter(api_key=Secret(KEY), base_url="https://service.example"))
BATCH: dict[str, Any] = {
    "id": "msgbatch_1",
    "type": "message_batch",
    "processing_status": "ended",
    "request_counts": {"processing": 0, "succeeded": 1, "errored": 2, "canceled": 3, "expired": 4},
    "created_at": "2026-08-20T18:37:24.100435Z",
    "results_url": "https://service.example/v1/messages/batches/msgbatch_1/results",
}


def response(document: Any) -> HTTPResponse:
    return HTTPResponse(200, {}, json.dumps(document).encode())


def test_the_body_has_all_requests() -> None:
    with AnthropicBatches() as server:
        client = BatchClient(Anthropic("claude-sonnet-4-6", base_url=server.base, api_key=KEY))
        client.submit("t", client.lines({"a": "A", "b": "B"}))
        requests = json.loads(server.requests[0].body)["requests"]
    assert [each["custom_id"] for each in requests] == ["a", "b"]
    assert [each["params"]["messages"][0]["content"] for each in requests] == [
        [{"type": "text", "text": "A"}],
        [{"type": "text", "text": "B"}],
    ]
    assert all("stream" not in each["params"] for each in requests)


def test_the_largest_batch_has_256_megabytes() -> None:
    lines = [b"x" * 99] * 10
    body = CODEC.submit("t", lines, None).body
    assert len(body) <= 256_000_000 - CODEC.limits.bytes + sum(len(line) + 1 for line in lines)


def test_counts() -> None:
    found = CODEC.read_status(response(BATCH))
    assert (found.total, found.done, found.failed, found.state) == (10, 1, 2, "ended")
    assert found.created == pytest.approx(1787251044.100435)
    assert found.files == (BATCH["results_url"],)


def test_a_batch_without_counts_and_time() -> None:
    found = CODEC.read_status(response({"id": "1", "processing_status": "in_progress", "created_at": "once"}))
    assert (found.total, found.done, found.created, found.state) == (None, None, None, "running")


def test_archived_results() -> None:
    found = CODEC.read_status(response({**BATCH, "results_url": None, "archived_at": "2026-09-20T18:37:24Z"}))
    assert found.state == "failed"
    assert "no longer available" in str(found.error)


@pytest.mark.parametrize(
    ("type", "kind", "status"),
    [
        ("invalid_request_error", BadRequest, 400),
        ("authentication_error", AuthFailed, 401),
        ("not_found_error", NotFound, 404),
        ("rate_limit_error", RateLimited, 429),
        ("overloaded_error", Overloaded, 529),
        ("api_error", ServerError, 500),
        ("a_new_error", ServerError, 500),
    ],
)
def test_errors_of_requests(type: str, kind: type[LLMError], status: int) -> None:
    line = {"custom_id": "a", "result": {"type": "errored", "error": error(type, f"because of {KEY}")}}
    [found] = CODEC.result_decoder().feed(json.dumps(line).encode() + b"\n")
    assert isinstance(found.error, kind)
    assert found.error.status == status
    assert "because of" in str(found.error)
    assert KEY not in str(found.error)
    assert not found.unprocessed


@pytest.mark.parametrize(("type", "text"), [("expired", "24 hours"), ("canceled", "cancelled")])
def test_requests_that_were_not_processed(type: str, text: str) -> None:
    [found] = CODEC.result_decoder().feed(b'{"custom_id": "a", "result": {"type": "%b"}}\n' % type.encode())
    assert found.unprocessed
    assert text in str(found.error)


def test_results_at_another_origin_are_fetched_without_the_key() -> None:
    with Loopback() as elsewhere, AnthropicBatches() as server:
        line = {"custom_id": "a", "result": {"type": "expired"}}
        elsewhere.answer(whole(json.dumps(line).encode(), 200))
        server.results_base = f"http://127.0.0.1:{elsewhere.port}"
        client = BatchClient(Anthropic("claude-sonnet-4-6", base_url=server.base, api_key=KEY))
        ended = client.status(client.submit("t", client.lines({"a": "A"})).id)
        assert [each.id for each in client.results(ended)] == ["a"]
        assert KEY.encode() not in elsewhere.requests[0].raw
        assert "anthropic-version" not in elsewhere.requests[0].headers


def test_results_without_tls_are_refused() -> None:
    status = CODEC.read_status(response({**BATCH, "results_url": "http://service.example/results"}))
    with pytest.raises(MalformedEvent, match="expected an https URL"):
        CODEC.downloads(status)


@pytest.mark.parametrize("base_url", ["https://a.example", "https://a.example/v1/", "https://a.example/v1/messages"])
def test_the_address(base_url: str) -> None:
    codec = AnthropicAdapter(base_url=base_url).batches()
    assert codec.status("b").url == "https://a.example/v1/messages/batches/b"
    assert codec.delete_file("b") is None


def test_the_address_with_a_query() -> None:
    codec = AnthropicAdapter(base_url="https://a.example/v1/messages?beta=true").batches()
    assert codec.list_page("x").target == "https://a.example/v1/messages/batches?beta=true&limit=100&after_id=x"
