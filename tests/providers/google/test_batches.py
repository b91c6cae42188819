"""Batches of the Gemini API: inline or from a file, the states of an operation, and errors by their code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from support.batch_client import BatchClient
from support.google_batches import KEY, GoogleBatches
from toolcast import Google
from toolcast.errors import AuthFailed, BadRequest, LLMError, MalformedEvent, NotFound, Overloaded, ServerError
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.google.batches import INLINE_BYTES, GoogleBatches as Codec
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPResponse

CODEC = Codec(GoogleAdapter(api_key=Secret(KEY), base_url="https://service.example"))


def client_of(server: GoogleBatches, model: str = "gemini-2.5-flash") -> BatchClient:
    return BatchClient(Google(model, base_url=server.base, api_key=KEY))


def status_of(operation: Any) -> Any:
    return CODEC.read_status(HTTPResponse(200, {}, json.dumps(operation).encode()))


@pytest.mark.parametrize("size", [1_000, INLINE_BYTES])
def test_large_batches_are_uploaded(size: int) -> None:
    with GoogleBatches() as server:
        client = client_of(server)
        began = client.submit("toolcast-t", client.lines({"a": "A" * size, "b": "B"}))
        ended = client.status(began.id)
        assert ended.tag == "toolcast-t"
        assert sorted(each.id for each in client.results(ended)) == ["a", "b"]
        uploads = server.count("POST /upload")
        assert (uploads, ended.files != (), ended.results == ()) == (
            (0, False, False) if size == 1_000 else (2, True, True)
        )
        uploaded = next(iter(server.files), None)  # the service does not return it
        for request in client.codec.delete_files(replace(ended, input_file=uploaded)):
            client.send(request)
        assert (server.files, server.held) == ({}, {})


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "tunedModels/a-b", "models/m@1"])
def test_the_model_is_in_each_request_and_in_the_path(model: str) -> None:
    client = BatchClient(Google(model, base_url="https://service.example/a/v1beta", api_key=KEY))
    [line] = client.lines({"a": "A"})
    path = model if "/" in model else f"models/{model}"
    assert json.loads(line)["request"]["model"] == path
    assert client.codec.submit("t", [line], None).url == f"https://service.example/a/v1beta/{path}:batchGenerateContent"


def test_batches_of_other_programs_are_listed_without_their_results() -> None:
    with GoogleBatches() as server:
        client = client_of(server)
        client.submit("t", client.lines({"a": "A"}))
        [batch] = server.held.values()
        batch.fields["metadata"] = False
        server.finish()
        [found] = client.list()
        assert (found.tag, found.results) == ("t", ())
        with pytest.raises(MalformedEvent, match="'key'"):
            client.status(found.id)


@pytest.mark.parametrize("prefix", ["BATCH_STATE", "JOB_STATE"])
@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("UNSPECIFIED", "running"),
        ("PENDING", "running"),
        ("RUNNING", "running"),
        ("SUCCEEDED", "ended"),
        ("PARTIALLY_SUCCEEDED", "ended"),
        ("FAILED", "failed"),
        ("CANCELLED", "ended"),
        ("EXPIRED", "ended"),
    ],
)
def test_states(prefix: str, name: str, state: str) -> None:
    assert status_of({"name": "batches/1", "metadata": {"state": f"{prefix}_{name}"}}).state == state


@pytest.mark.parametrize(
    ("operation", "state"),
    [
        ({}, "running"),
        ({"done": False}, "running"),
        ({"done": True, "response": {}}, "ended"),
        ({"done": True, "error": {"code": 3, "message": "bad file"}}, "failed"),
    ],
)
def test_states_without_metadata(operation: dict[str, Any], state: str) -> None:
    found = status_of({"name": "batches/1", **operation})
    assert found.state == state
    assert (found.error is not None) == (state == "failed")


def test_a_failed_batch() -> None:
    with GoogleBatches() as server:
        server.fate = "failed"
        client = client_of(server)
        found = client.status(client.submit("t", client.lines({"a": "A"})).id)
    assert found.state == "failed"
    assert isinstance(found.error, ServerError)
    assert "Internal error" in str(found.error)


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        (3, BadRequest, 400),
        ("3", BadRequest, 400),
        (5, NotFound, 404),
        (7, AuthFailed, 403),
        (13, ServerError, 500),
        (14, Overloaded, 503),
        (400, BadRequest, 400),
        (99, ServerError, 500),
        (None, ServerError, 500),
    ],
)
def test_errors_of_requests(code: int | str | None, kind: type[LLMError], status: int) -> None:
    line = {"key": "a", "error": {"code": code, "message": f"because of {KEY}"}}
    [found] = CODEC.result_decoder().feed(json.dumps(line).encode() + b"\n")
    assert isinstance(found.error, kind)
    assert found.error.status == status
    assert "because of" in str(found.error)
    assert KEY not in str(found.error)


def test_neither_a_response_nor_an_error() -> None:
    [found] = CODEC.result_decoder().feed(b'{"key": "a"}\n')
    assert isinstance(found.error, MalformedEvent)


def test_vertex_has_other_batches_and_files() -> None:
    adapter = GoogleAdapter(base_url="https://aiplatform.example/v1/projects/p/locations/l/publishers/google")
    assert adapter.batches() is None
    assert adapter.files() is None


def test_no_tag_of_another_kind_of_name() -> None:
    with pytest.raises(MalformedEvent, match="expected batches/ID"):
        CODEC.status("operations/1")
    assert CODEC.delete_file("files/a").url == "https://service.example/v1beta/files/a"


def test_the_file_of_requests_where_the_service_returns_it() -> None:
    found = status_of({"name": "batches/1", "metadata": {"inputConfig": {"fileName": "files/1"}}})
    assert found.input_file == "files/1"
