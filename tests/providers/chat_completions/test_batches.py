"""The codec of OpenAI's batch API: the requests of each service, statuses, and downloads cut anywhere."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

import toolcast
from toolcast.errors import BadRequest, MalformedEvent, RateLimited, StreamTruncated
from toolcast.llms.client import client_of
from toolcast.llms.request import ChatRequest
from toolcast.messages import user
from toolcast.providers.batch_codec import BatchCodec, BatchResult
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.values.http_request import HTTPResponse


def llm_of(service: str, **options: Any) -> toolcast.OpenAICompatible:
    options = {"base_url": "https://me.example.com/v1"} | options
    return toolcast.OpenAICompatible("model-1", service=service, api_key="sk-secret-key", **options)


def codec_of(llm: Any) -> BatchCodec:
    codec: BatchCodec | None = llm.adapter.batches()
    assert codec is not None
    return codec


@pytest.fixture
def codec() -> BatchCodec:
    return codec_of(toolcast.OpenAI("gpt-4o-mini", api="chat", api_key="sk-secret-key"))


def reply(document: Any) -> HTTPResponse:
    return HTTPResponse(200, {}, json.dumps(document).encode())


def test_the_services_with_this_api() -> None:
    found = {name for name in SERVICES if llm_of(name).adapter.batches() is not None}  # type: ignore[attr-defined]  # adapters of HTTP have it
    assert found == {
        "openai",
        "azure",
        "azure-v1",
        "groq",
        "moonshot",
        "qwen",
        "litellm",
        "cerebras",
        "openai-compatible",
    }


@pytest.mark.parametrize(
    ("llm", "line", "url"),
    [
        (toolcast.OpenAI("m", api="chat", api_key="k"), "/v1/chat/completions", "https://api.openai.com/v1/batches"),
        (toolcast.OpenAIResponses("m", api_key="k"), "/v1/responses", "https://api.openai.com/v1/batches"),
        (
            toolcast.OpenAICompatible("m", service="groq", api_key="k"),
            "/v1/chat/completions",
            "https://api.groq.com/openai/v1/batches",
        ),
        (
            toolcast.OpenAICompatible("m", service="azure", api_key="k", base_url="https://me.openai.azure.com"),
            "/chat/completions",
            "https://me.openai.azure.com/openai/batches?api-version=2024-10-21",
        ),
        (
            toolcast.OpenAICompatible(
                "m", service="azure-v1", api="chat", api_key="k", base_url="https://me.openai.azure.com"
            ),
            "/chat/completions",
            "https://me.openai.azure.com/openai/v1/batches",
        ),
        (
            toolcast.OpenAIResponses("m", service="azure-v1", api_key="k", base_url="https://me.openai.azure.com"),
            "/v1/responses",
            "https://me.openai.azure.com/openai/v1/batches",
        ),
        (
            toolcast.OpenAICompatible("m", api_key="k", base_url="https://me.example.com/v1/chat/completions?a=b"),
            "/v1/chat/completions",
            "https://me.example.com/v1/batches?a=b",
        ),
    ],
)
def test_the_endpoints(llm: Any, line: str, url: str) -> None:
    codec = codec_of(llm)
    request = client_of(llm).preview(ChatRequest((user("hello"),)))
    encoded = json.loads(codec.encode("t-0", request))
    assert encoded == {"custom_id": "t-0", "method": "POST", "url": line, "body": json.loads(request.body)}
    submitted = codec.submit("t", [], "file-1")
    assert (submitted.method, submitted.target) == ("POST", url)
    assert json.loads(submitted.body) == {
        "input_file_id": "file-1",
        "endpoint": line,
        "completion_window": "24h",
        "metadata": {"toolcast": "t"},
    }


def test_services_without_responses_in_batches() -> None:
    llm = toolcast.OpenAIResponses("m", service="groq", api_key="k")
    assert llm.adapter.batches() is None  # type: ignore[attr-defined]  # adapters of HTTP have it


def test_ids_cannot_change_the_path(codec: BatchCodec) -> None:
    assert codec.status("../files/x").target == "https://api.openai.com/v1/batches/..%2Ffiles%2Fx"
    for id in ("", ".", ".."):
        with pytest.raises(MalformedEvent, match="expected a name"):
            codec.status(id)


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("validating", "running"),
        ("in_progress", "running"),
        ("finalizing", "running"),
        ("cancelling", "running"),
        ("something new", "running"),
        ("completed", "ended"),
        ("expired", "ended"),
        ("cancelled", "ended"),
        ("failed", "failed"),
    ],
)
def test_statuses(codec: BatchCodec, raw: str, state: str) -> None:
    status = codec.read_status(reply({"id": "b", "status": raw, "metadata": None, "request_counts": None}))
    assert (status.id, status.raw, status.state, status.tag) == ("b", raw, state, None)
    assert status.cancelled == (raw == "cancelled")


def test_the_reasons_of_a_refusal(codec: BatchCodec) -> None:
    def refusal(*problems: Any) -> Any:
        errors = {"object": "list", "data": list(problems)} if problems else None
        return codec.read_status(reply({"id": "b", "status": "failed", "errors": errors})).error

    assert isinstance(refusal(), BadRequest)
    assert "no reason given" in str(refusal())
    wrong = refusal({"code": "invalid_json_line", "message": "not sk-secret-key", "line": 3}, {"message": "two"}, 7)
    assert isinstance(wrong, BadRequest)
    assert "invalid_json_line not [key] (line 3); two" in str(wrong)
    assert isinstance(refusal({"code": "token_limit_exceeded", "message": "enqueued"}), RateLimited)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"status": "completed"}', b'{"id": 7}'])
def test_what_is_no_status(codec: BatchCodec, body: bytes) -> None:
    with pytest.raises(MalformedEvent):
        codec.read_status(HTTPResponse(200, {}, body))


def test_pages(codec: BatchCodec) -> None:
    page = {"data": [{"id": "b2", "status": "completed"}, {"id": "b1", "status": "failed"}], "has_more": True}
    assert codec.list_page(None).target == "https://api.openai.com/v1/batches?limit=100"
    batches, cursor = codec.read_page(reply(page), None)
    assert ([batch.id for batch in batches], cursor) == (["b2", "b1"], "b1")
    assert codec.list_page(cursor).target == "https://api.openai.com/v1/batches?limit=100&after=b1"
    for last in (page | {"has_more": False}, {"object": "list", "data": []}, {"object": "list"}):
        assert codec.read_page(reply(last), cursor)[1] is None


LINES = [
    {"custom_id": "t-0", "response": {"status_code": 200, "request_id": "r", "body": {"text": "é\u2028"}}},
    {"custom_id": "t-1", "response": {"status_code": 400, "request_id": "r1", "body": {"error": {"message": "no"}}}},
    {"custom_id": "t-2", "response": None, "error": {"code": "batch_expired", "message": "too late"}},
    {"custom_id": "t-3", "response": None, "error": {"code": "batch_cancelled", "message": "stop"}},
    {"custom_id": "t-4", "response": {}, "error": None},
]
FILE = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in LINES)


def shown(results: list[BatchResult]) -> list[Any]:
    return [(each.id, each.body, type(each.error).__name__, each.unprocessed, each.cancelled) for each in results]


EXPECTED = [
    ("t-0", '{"text": "é\u2028"}'.encode(), "NoneType", False, False),
    ("t-1", None, "BadRequest", False, False),
    ("t-2", None, "ServerError", True, False),
    ("t-3", None, "ServerError", True, True),
    ("t-4", None, "ServerError", False, False),
]


@given(st.lists(st.integers(0, len(FILE)), max_size=8), st.booleans())
def test_results_cut_anywhere(cuts: list[int], ends: bool) -> None:
    codec = codec_of(toolcast.OpenAI("gpt-4o-mini", api="chat", api_key="k"))
    decoder = codec.result_decoder()
    content = FILE if ends else FILE[:-1]
    places = sorted({0, *cuts, len(content)})
    found: list[BatchResult] = []
    for start, end in pairwise(places):
        found += decoder.feed(content[start:end])
    found += decoder.close()
    assert shown(found) == EXPECTED


def test_results_that_break_off(codec: BatchCodec) -> None:
    for length in range(1, len(FILE)):
        decoder = codec.result_decoder()
        found = decoder.feed(FILE[:length])
        if b"\n" in (FILE[length - 1 : length], FILE[length : length + 1]):
            found += decoder.close()
            assert shown(found) == EXPECTED[: len(found)]
        else:
            with pytest.raises(StreamTruncated):
                decoder.close()


@pytest.mark.parametrize("line", [b"[]\n", b"no JSON\n", b"{}\n", b'{"custom_id": 7}\n'])
def test_lines_that_are_no_results(codec: BatchCodec, line: bytes) -> None:
    [result] = codec.result_decoder().feed(line)
    assert (result.id, type(result.error)) == ("", MalformedEvent)
