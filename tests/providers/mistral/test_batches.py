"""Mistral's batch jobs: states, errors of jobs and of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.batch_client import BatchClient
from support.mistral_batches import KEY, MistralBatches, form_of
from support.service_double import Received
from toolcast import Mistral
from toolcast.errors import BadRequest, LLMError, MalformedEvent, RateLimited, ServerError
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.providers.mistral.batches import MistralBatches as Codec
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPResponse

CODEC = Codec(MistralAdapter(api_key=Secret(KEY), base_url="https://service.example/v1"))


def status_of(**job: Any) -> Any:
    return CODEC.read_status(HTTPResponse(200, {}, json.dumps({"id": "job-1", **job}).encode()))


def test_the_job() -> None:
    with MistralBatches() as server:
        client = BatchClient(Mistral("mistral-small-latest", base_url=f"{server.base}/v1", api_key=KEY))
        client.submit("toolcast-t", client.lines({"a": "A", "b": "B"}))
        upload, create = server.requests
        form = form_of(Received("POST", "", {}, upload.headers, upload.body))
        assert form["purpose"] == ("", b"batch")
        name, content = form["file"]
        assert name == "toolcast-t.jsonl"
        lines = [json.loads(line) for line in content.splitlines()]
        assert [each["custom_id"] for each in lines] == ["a", "b"]
        assert lines[0]["body"]["messages"] == [{"role": "user", "content": "A"}]
        assert json.loads(create.body) == {
            "input_files": [next(iter(server.files))],
            "endpoint": "/v1/chat/completions",
            "model": "mistral-small-latest",
            "metadata": {"toolcast": "toolcast-t"},
            "timeout_hours": 24,
        }


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("QUEUED", "running"),
        ("RUNNING", "running"),
        ("SUCCESS", "ended"),
        ("FAILED", "failed"),
        ("TIMEOUT_EXCEEDED", "ended"),
        ("CANCELLATION_REQUESTED", "running"),
        ("CANCELLED", "ended"),
        ("A_NEW_ONE", "running"),
    ],
)
def test_states(raw: str, state: str) -> None:
    found = status_of(status=raw)
    assert (found.state, found.raw, found.input_file, found.files, found.tag) == (state, raw, None, (), None)


def test_a_failed_job() -> None:
    found = status_of(status="FAILED", errors=[{"message": f"line 1 is no JSON, {KEY}", "count": 1}, {}])
    assert isinstance(found.error, BadRequest)
    assert "line 1 is no JSON" in str(found.error)
    assert KEY not in str(found.error)
    assert "no reason given" in str(status_of(status="FAILED", errors=None).error)


def test_a_failed_job_whose_requests_have_errors() -> None:
    found = status_of(status="FAILED", error_file="file-1")
    assert (found.state, found.error, found.files) == ("ended", None, ("file-1",))


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        ({"response": {"status_code": 400, "body": {"message": f"bad {KEY}"}}}, BadRequest, "bad"),
        ({"response": {"status_code": 429, "body": {"message": "slow"}}, "error": "slow"}, RateLimited, "slow"),
        ({"error": {"message": f"lost {KEY}"}}, ServerError, "lost"),
        ({"error": "lost", "response": None}, ServerError, "lost"),
        ({"response": {"status_code": 200, "body": {}}, "error": "lost"}, ServerError, "lost"),
        ({}, MalformedEvent, "neither"),
    ],
)
def test_errors_of_requests(line: dict[str, Any], kind: type[LLMError], text: str) -> None:
    [found] = CODEC.result_decoder().feed(json.dumps({"custom_id": "a", **line}).encode() + b"\n")
    assert isinstance(found.error, kind)
    assert text in str(found.error)
    assert KEY not in str(found.error)
    assert (found.body, found.unprocessed) == (None, False)


def test_the_file_of_requests_is_deleted() -> None:
    found = status_of(status="SUCCESS", input_files=["in"], output_file="out", error_file="err")
    urls = [request.url.rpartition("/")[2] for request in CODEC.delete_files(found)]
    assert urls == ["in", "out", "err"]
    assert CODEC.delete_file("in").method == "DELETE"
