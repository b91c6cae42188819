"""Error answers of all shapes -> one error of the tree, with something to try and without the key."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from toolcast import OpenAI
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    ContentBlocked,
    ContextTooLong,
    LLMError,
    NotFound,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    ServerError,
)
from toolcast.events import SafetyRating
from toolcast.providers.http_errors import (
    BODY_LIMIT,
    ErrorSource,
    ServiceError,
    http_error,
    read_service_error,
    shortened,
    stream_error,
)
from toolcast.testing import Recorded, ReplayNetwork
from toolcast.values.credentials import Secret
from toolcast.values.http_request import request_id

SOURCE = ErrorSource("acme", "m-1", ("ACME_KEY", "OTHER_KEY"), (Secret("sk-secret"),))


def error(status: int, body: Any = b"", **headers: str) -> LLMError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http_error(status, {name.replace("_", "-"): value for name, value in headers.items()}, data, SOURCE)


STATUSES = [
    (400, BadRequest, False), (401, AuthFailed, False), (402, QuotaExceeded, False), (403, AuthFailed, False),
    (404, NotFound, False), (408, ServerError, True), (409, ServerError, True), (413, BadRequest, False),
    (422, BadRequest, False), (429, RateLimited, True), (500, ServerError, True), (502, ServerError, True),
    (503, Overloaded, True), (504, ServerError, True), (520, ServerError, True), (529, Overloaded, True),
    (302, BadRequest, False),
]  # fmt: skip


@pytest.mark.parametrize(("status", "kind", "retryable"), STATUSES)
def test_statuses(status: int, kind: type[LLMError], retryable: bool) -> None:
    found = error(status)
    assert type(found) is kind
    assert (found.retryable, found.status, found.provider, found.model) == (retryable, status, "acme", "m-1")
    assert str(found).startswith(f"acme m-1: {found.message}")
    assert f"({status})" in found.message


WORDS = [
    (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, QuotaExceeded),
    (429, {"error": {"message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED"}}, RateLimited),
    (429, {"error": {"type": "insufficient_quota"}}, QuotaExceeded),
    (403, {"error": {"code": "billing_hard_limit_reached"}}, QuotaExceeded),
    (400, {"type": "error", "error": {"type": "x", "message": "Your credit balance is too low"}}, QuotaExceeded),
    (400, {"error": {"code": "context_length_exceeded", "message": "x"}}, ContextTooLong),
    (400, {"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 4}}, ContextTooLong),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens."}, ContextTooLong),
    (400, {"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}, ContextTooLong),
    (400, {"error": {"message": "input token count exceeds the maximum number of tokens allowed"}}, ContextTooLong),
    (500, {"error": "the request exceeds the available context size"}, ContextTooLong),
    (400, {"error": {"code": "content_filter", "message": "x"}}, ContentBlocked),
    (403, {"error": {"code": 403, "message": "Your input was flagged"}}, ContentBlocked),
    (400, {"error": {"message": "API key not valid.", "status": "INVALID_ARGUMENT"}}, AuthFailed),
    (400, {"error": {"code": "model_not_found", "message": "x"}}, NotFound),
    (400, {"error": {"type": "overloaded_error", "message": "x"}}, Overloaded),
    (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, Overloaded),
    (502, b"<html>maximum context length</html>", ServerError),
]


@pytest.mark.parametrize(("status", "body", "kind"), WORDS)
def test_messages_more_specific_than_the_status(status: int, body: Any, kind: type[LLMError]) -> None:
    assert type(error(status, body)) is kind


BODIES = [
    ({"error": {"message": "boom", "type": "t", "code": "c"}}, ServiceError("boom", "t", "c")),
    ({"error": {"message": "boom", "code": 400}}, ServiceError("boom", "", "400", status=400)),
    ({"error": "boom", "code": "c"}, ServiceError("boom", "", "c")),
    ({"error": "Down", "message": "boom", "status": 500}, ServiceError("Down: boom", status=500)),
    ({"error": True, "message": "boom"}, ServiceError("boom")),
    ({"error": ["boom", "bang", 7]}, ServiceError("boom; bang")),
    ({"errors": [{"code": 10000, "message": "boom"}], "success": False}, ServiceError("boom", "", "10000")),
    ({"errors": [], "message": "boom"}, ServiceError("boom")),
    ({"Message": "boom", "statusCode": "503"}, ServiceError("boom", status=503)),
    ({"error": {"message": "boom", "code": 9**9, "status": 200}}, ServiceError("boom", "", str(9**9))),
    ({"error": {"message": '{"error": {"message": "boom"}}'}}, ServiceError("boom")),
    ({"error": {"message": "{boom}"}}, ServiceError("{boom}")),
    ({"error": {"message": "boom", "metadata": {"raw": '{"detail": "bang"}'}}}, ServiceError("boom: bang")),
    ({"error": {"message": "boom", "metadata": {"raw": None}}}, ServiceError("boom")),
    ({"error": {"message": "boom", "failed_generation": "f("}}, ServiceError("boom", written="f(")),
    (
        {"error": {"message": "boom", "details": ["d"], "innererror": {"e": 1}}},
        ServiceError("boom", details='["d"]{"e": 1}'),
    ),
    (
        {"type": "response.failed", "response": {"error": {"code": "c", "message": "boom"}}},
        ServiceError("boom", "", "c"),
    ),
    ({"type": "response.failed", "response": {"error": None, "status": "failed"}}, ServiceError("", "failed")),
    ({"type": "error", "code": "c", "message": "boom", "param": None}, ServiceError("boom", "error", "c")),
    ({"type": "error", "error": {"code": "c", "message": "boom"}, "response": {}}, ServiceError("boom", "", "c")),
    ({"detail": {"message": "boom", "code": "c"}}, ServiceError("boom", "", "c")),
    (
        {"detail": [{"loc": ["body", 0], "msg": "boom", "input": "x"}, {"msg": "bang"}]},
        ServiceError("body.0: boom; bang"),
    ),
    ([{"error": {"message": "boom"}}], ServiceError("boom")),
    ([], ServiceError()),
    ({"detail": "boom"}, ServiceError("boom")),
    ({"detail": [{"loc": ["x"]}]}, ServiceError('[{"loc": ["x"]}]')),
    ({"message": "boom", "request_id": "r"}, ServiceError("boom", request_id="r")),
    ({"object": "error", "message": {"a": "é"}, "type": "t"}, ServiceError('{"a": "é"}', "t")),
    (
        {"type": "error", "error": {"type": "t", "message": "boom"}, "request_id": "r"},
        ServiceError("boom", "t", "", "r"),
    ),
    ({"error": {"status": "DOWN", "message": "boom"}}, ServiceError("boom", "DOWN")),
    ({"error": {"type": "t"}}, ServiceError('{"type": "t"}', "t")),
    ({"error": {}, "message": "boom"}, ServiceError("boom")),
    ({}, ServiceError()),
    (None, ServiceError()),
    (7, ServiceError()),
    ("boom", ServiceError()),
]


@pytest.mark.parametrize(("body", "fault"), BODIES)
def test_bodies(body: Any, fault: ServiceError) -> None:
    assert read_service_error(body) == fault
    assert read_service_error(json.dumps(body)) == fault


@pytest.mark.fault(33)
@pytest.mark.parametrize("text", ["event: error\ndata: %s\n\n", "data:%s", ": x\r\n\r\nerror: %s\r\n", "\ufeff%s"])
def test_a_body_that_is_an_event_stream(text: str) -> None:
    assert read_service_error(text % '{"error": {"message": "boom"}}') == ServiceError("boom")


def test_a_number_that_no_text_can_hold() -> None:
    assert read_service_error({"message": "boom", "code": 9**5000}) == ServiceError("boom")


@pytest.mark.parametrize("text", ["", "<html>", "{", "[" * 100_000])
def test_bodies_that_are_no_json(text: str) -> None:
    assert read_service_error(text) == ServiceError()


@pytest.mark.fault(27)
def test_html_is_shown_escaped_and_short() -> None:
    found = error(502, b"<h1>Bad\x1b[0m</h1>" + b"x" * 500, content_type="text/html; charset=utf-8")
    assert "(502): text/html: &lt;h1&gt;Bad [0m&lt;/h1&gt;" in found.message
    assert len(found.message) < 320
    assert error(502, b" ").message.startswith("the service failed (502): no message.")


def test_a_web_page_is_shown_by_its_title() -> None:
    page = b"<!DOCTYPE html>\n<head><style>p{}</style><TITLE lang=en>api.acme | 520: sk-secret &amp; more</TITLE>"
    assert "(520): text/html: api.acme | 520: [key] &amp; more." in error(520, page, content_type="text/html").message


@pytest.mark.fault(35)
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain; charset=latin-1", b"caf\xe9"),
        ("text/plain", b"caf\xe9"),
        ("text/plain; charset=unheard", "café".encode()),
        ("text/plain; charset=ascii", "café".encode()),
    ],
)
def test_charsets(content_type: str, body: bytes) -> None:
    assert "café" in error(500, body, content_type=content_type).message


@pytest.mark.fault(134)
@pytest.mark.parametrize(
    "body", [b"sk-secret", b'{"error":"Bearer sk-secret"}', b"<p>sk-secret</p>", b"x" * 196 + b"sk-secret"]
)
def test_the_key_is_masked(body: bytes) -> None:
    message = error(401, body).message
    assert "sk-s" not in message
    assert "secret" not in message
    assert "sk-secret" not in repr(SOURCE)


def test_short_secrets_do_not_eat_the_text() -> None:
    assert ErrorSource("a", secrets=(Secret("a"), Secret(""))).mask("a key") == "a key"


def test_the_advice() -> None:
    assert "ACME_KEY or OTHER_KEY" in error(401).message
    assert "'m-1'" in error(404).message
    assert "Check the model's name and base_url=" in http_error(404, {}, b"", ErrorSource("a")).message
    assert "Pass a valid api_key=" in http_error(401, {}, b"", ErrorSource("a")).message
    assert "https://elsewhere/" in error(307, location="https://elsewhere/").message


@pytest.mark.parametrize(
    ("word", "status", "retryable"), [("true", 400, True), ("False", 500, False), ("x", 500, True)]
)
def test_the_retry_header_of_the_service(word: str, status: int, retryable: bool) -> None:
    assert error(status, x_should_retry=word).retryable is retryable


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-request-id": "a", "cf-ray": "b"}, "a"),
        ({"request-id": "a"}, "a"),
        ({"x-request-id": "", "apim-request-id": "a"}, "a"),
        ({}, None),
    ],
)
def test_request_ids(headers: dict[str, str], expected: str | None) -> None:
    assert request_id(headers) == expected
    assert http_error(500, headers, b"", SOURCE).request_id == expected


def test_the_body_may_hold_the_request_id() -> None:
    assert error(500, {"message": "x", "request_id": "r"}).request_id == "r"
    assert str(error(500, {"message": "x", "request_id": "r"})).endswith("[request r]")


@pytest.mark.fault(39)
@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"error": {"code": 429, "message": "x"}}, RateLimited, 429),
        ({"error": {"code": "503", "message": "x"}}, Overloaded, 503),
        ({"error": "x", "status": 404}, NotFound, 404),
        ({"error": {"type": "rate_limit_exceeded", "message": "x"}}, RateLimited, None),
        ({"error": {"type": "overloaded_error", "message": "x"}}, Overloaded, None),
        ({"error": {"type": "authentication_error", "message": "x"}}, AuthFailed, None),
        ({"error": {"type": "not_found_error", "message": "x"}}, NotFound, None),
        ({"error": {"type": "invalid_request_error", "message": "x"}}, BadRequest, None),
        ({"error": {"code": "context_length_exceeded", "message": "x"}}, ContextTooLong, None),
        ({"error": {"message": "x"}}, ServerError, None),
        ({"error": {"code": 7, "message": "x"}}, ServerError, None),
        ([{"error": {"message": "x"}}], ServerError, None),
        ("x", ServerError, None),
    ],
)
def test_errors_inside_an_answer(body: Any, kind: type[LLMError], status: int | None) -> None:
    found = stream_error(body, SOURCE)
    assert type(found) is kind
    assert found.status == status


def test_what_azure_filtered_is_named() -> None:
    results = {
        "hate": {"filtered": True, "severity": "high"},
        "jailbreak": {"filtered": True, "detected": True},
        "violence": {"filtered": False, "severity": "low"},
        "custom_blocklists": None,
    }
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": results}
    problem = fault("The response was filtered", code="content_filter", param="prompt", status=400, innererror=inner)
    error = http_error(400, {}, json.dumps(problem).encode(), ErrorSource("azure", "gpt-5.4"))
    assert isinstance(error, ContentBlocked)
    assert "(400): hate (high) of the prompt, jailbreak (detected) of the prompt: The response was" in str(error)
    assert error.safety == (
        SafetyRating("hate", "prompt", "high", True, "azure"),
        SafetyRating("jailbreak", "prompt", "detected", True, "azure"),
        SafetyRating("violence", "prompt", "low", False, "azure"),
    )


@pytest.mark.parametrize("results", [None, [1], "hate", {"hate": "yes"}, {}, {"hate": {"filtered": 1}}])
def test_a_filter_of_another_form_is_left_out(results: Any) -> None:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": results}
    error = stream_error(fault("Filtered", code="content_filter", innererror=inner), ErrorSource("azure"))
    assert isinstance(error, ContentBlocked)
    assert not any(rating.blocked for rating in error.safety)
    assert "blocked the request: Filtered. " in str(error)


def test_a_key_in_the_name_of_a_filter_is_masked() -> None:
    inner = {"content_filter_result": {"sk-0123456789abcdef": {"filtered": True}}}
    source = ErrorSource("azure", secrets=(Secret("sk-0123456789abcdef"),))
    error = stream_error(fault("Filtered", code="content_filter", innererror=inner), source)
    assert "sk-0123456789abcdef" not in str(error)


def test_shortened() -> None:
    assert shortened("a\n b\x00c\u2028d.") == "a b c d"
    assert shortened("x" * 500) == "x" * 199 + "…"


# -- every service's own


class Row(NamedTuple):
    """An error body and what it means; `status` None: it came inside an answer."""

    status: int | None
    body: Any
    kind: type[LLMError]
    wait: float | None = None
    request_id: str | None = None
    words: str = ""
    headers: Mapping[str, str] = MappingProxyType({})


def fault(message: str, **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, **members}}


def gemini(code: int, status: str, message: str = "x", *details: dict[str, Any]) -> dict[str, Any]:
    return fault(message, code=code, status=status, details=list(details))


def limit(quota: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}


WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}
PER_DAY, PER_MINUTE = (limit(f"GenerateRequestsPer{time}PerProjectPerModel-FreeTier") for time in ("Day", "Minute"))
SPENT = fault("You exceeded your current quota", type="insufficient_quota", code="insufficient_quota")
FILTERED = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
WRITTEN = '{"x": 1, ' + "z" * 3000 + " end"
TOOL_USE_FAILED = fault("Failed to call a function.", type="invalid_request_error", code="tool_use_failed",
                        failed_generation="<f>{", status_code=400)  # fmt: skip
RPM = fault("Rate limit reached. Please try again in 1.5s.", type="requests", code="rate_limit_exceeded")
CREDIT = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}
UNPROCESSABLE = {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required", "input": {"a": 1}}]}

SERVICES: dict[str, list[Row]] = {
    "openai": [
        Row(400, fault("x", code="context_length_exceeded"), ContextTooLong),
        Row(400, fault("Invalid 'messages[0].tool_calls[0].id': string too long."), BadRequest),
        Row(400, fault("Your input exceeds the context window of this model."), ContextTooLong),
        Row(401, fault("Incorrect API key provided: sk-secret.", code="invalid_api_key"), AuthFailed, words="[key]"),
        Row(403, fault("Project does not have access to model", code="model_not_found"), NotFound),
        Row(404, fault("The model `m` does not exist", code="model_not_found"), NotFound),
        Row(429, RPM, RateLimited, 1.5, "r-1", headers={"x-request-id": "r-1"}),
        Row(429, SPENT, QuotaExceeded),
        Row(429, fault("Request too large for m: Limit 3, Requested 4.", type="tokens"), ContextTooLong),
        Row(500, fault("The server had an error", type="server_error"), ServerError),
        Row(503, fault("The engine is currently overloaded"), Overloaded),
    ],
    "azure": [
        Row(400, fault("The response was filtered", code="content_filter", innererror=FILTERED), ContentBlocked),
        Row(400, fault("x", innererror=FILTERED), ContentBlocked),
        Row(401, {"statusCode": 401, "message": "Access denied"}, AuthFailed, None, "a-1", "Access denied",
            {"apim-request-id": "a-1"}),
        Row(404, fault("x", code="DeploymentNotFound"), NotFound),
        Row(429, fault("Please retry after 20 seconds.", code="429"), RateLimited, 20.0),
    ],
    "responses, in a stream": [
        Row(None, {"type": "error", "sequence_number": 2, **SPENT}, QuotaExceeded),
        Row(None, {"type": "error", "code": "server_error", "message": "x", "param": None}, ServerError),
        Row(None, {"type": "error", "message": "Try again in 1.054s.", "code": "rate_limit_exceeded"}, RateLimited,
            1.054),
        *(Row(None, {"type": "response.failed", "response": {"error": {"code": code, "message": "x"}}}, kind)
          for code, kind in (
              ("server_error", ServerError), ("rate_limit_exceeded", RateLimited), ("invalid_prompt", BadRequest),
              ("bio_policy", ContentBlocked), ("vector_store_timeout", ServerError), ("image_too_large", BadRequest),
              ("image_file_not_found", BadRequest), ("image_content_policy_violation", ContentBlocked),
              ("unsupported_image_media_type", BadRequest), ("insufficient_quota", QuotaExceeded),
              ("context_length_exceeded", ContextTooLong),
          )),
        Row(None, {"type": "response.failed", "response": {"error": None, "instructions": "was flagged"}}, ServerError),
    ],
    "anthropic": [
        *(Row(status, {"type": "error", "error": {"type": name, "message": "x"}, "request_id": "b"}, kind, None, "h",
              headers={"request-id": "h"})
          for status, name, kind in (
              (400, "invalid_request_error", BadRequest), (401, "authentication_error", AuthFailed),
              (402, "billing_error", QuotaExceeded), (403, "permission_error", AuthFailed),
              (404, "not_found_error", NotFound), (413, "request_too_large", BadRequest),
              (429, "rate_limit_error", RateLimited), (500, "api_error", ServerError),
              (504, "timeout_error", ServerError), (529, "overloaded_error", Overloaded),
          )),
        *(Row(None, {"type": "error", "error": {"type": name, "message": "x"}, "request_id": "b"}, kind, None, "b")
          for name, kind in (
              ("invalid_request_error", BadRequest), ("authentication_error", AuthFailed),
              ("billing_error", QuotaExceeded), ("permission_error", AuthFailed), ("not_found_error", NotFound),
              ("request_too_large", BadRequest), ("rate_limit_error", RateLimited), ("api_error", ServerError),
              ("timeout_error", ServerError), ("overloaded_error", Overloaded),
          )),
        Row(413, b"<html><title>413 Request Entity Too Large</title>", BadRequest, words="413 Request Entity"),
        Row(400, fault("prompt is too long: 9 tokens > 8 maximum"), ContextTooLong),
        Row(400, fault("input length and `max_tokens` exceed context limit: 9 + 1 > 8"), ContextTooLong),
        Row(400, {"type": "error", "error": CREDIT}, QuotaExceeded),
    ],
    "gemini": [
        Row(429, gemini(429, "RESOURCE_EXHAUSTED", "x", PER_DAY, WAIT), QuotaExceeded),
        Row(429, gemini(429, "RESOURCE_EXHAUSTED", "x", PER_MINUTE, WAIT), RateLimited, 34.4),
        Row(429, gemini(429, "RESOURCE_EXHAUSTED", "Please retry in 7.25s."), RateLimited, 7.25),
        Row(429, gemini(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: x/y, limit: 0, m"), QuotaExceeded),
        Row(400, [gemini(400, "INVALID_ARGUMENT", "API key not valid.")], AuthFailed, words="API key not valid"),
        Row(400, gemini(400, "INVALID_ARGUMENT", "x", {"reason": "API_KEY_INVALID"}), AuthFailed),
        Row(400, gemini(400, "INVALID_ARGUMENT", "The input (9) exceeds the maximum number of tokens (8)."),
            ContextTooLong),
        Row(400, gemini(400, "INVALID_ARGUMENT"), BadRequest),
        Row(400, gemini(400, "FAILED_PRECONDITION"), BadRequest),
        Row(403, gemini(403, "PERMISSION_DENIED"), AuthFailed),
        Row(404, gemini(404, "NOT_FOUND"), NotFound),
        Row(500, gemini(500, "INTERNAL"), ServerError),
        Row(503, gemini(503, "UNAVAILABLE"), Overloaded),
        Row(504, gemini(504, "DEADLINE_EXCEEDED"), ServerError),
        Row(None, [gemini(503, "UNAVAILABLE")], Overloaded),
        *(Row(None, fault("x", status=status), kind)
          for status, kind in (
              ("RESOURCE_EXHAUSTED", RateLimited), ("UNAVAILABLE", Overloaded), ("UNAUTHENTICATED", AuthFailed),
              ("PERMISSION_DENIED", AuthFailed), ("NOT_FOUND", NotFound), ("INVALID_ARGUMENT", BadRequest),
              ("FAILED_PRECONDITION", BadRequest), ("DEADLINE_EXCEEDED", ServerError), ("INTERNAL", ServerError),
          )),
    ],
    "mistral": [
        Row(401, {"detail": "Unauthorized"}, AuthFailed, words="Unauthorized"),
        Row(401, {"message": "Unauthorized", "request_id": "b"}, AuthFailed, None, "b"),
        Row(422, UNPROCESSABLE, BadRequest, words="(422): body.model: Field required."),
        Row(422, {"object": "error", "message": UNPROCESSABLE}, BadRequest, words=": body.model: Field required."),
        Row(429, {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"},
            RateLimited, None, "c", headers={"mistral-correlation-id": "c"}),
        Row(400, {"message": "Tool call id was call_abc but must be a-z", "code": "3280"}, BadRequest),
        Row(400, {"object": "error", "message": "Invalid model: m", "code": "1500"}, NotFound),
        Row(400, {"message": "Prompt contains 9 tokens, too large: 8 maximum context length"}, ContextTooLong),
        Row(None, {"object": "error", "message": "x", "type": "rate_limited", "code": "1300"}, RateLimited),
    ],
    "ollama": [
        Row(404, {"error": "model 'm' not found"}, NotFound),
        Row(401, {"error": "unauthorized", "signin_url": "https://x"}, AuthFailed),
        Row(429, {"error": "too many requests"}, RateLimited),
        Row(500, {"error": "llama runner process has terminated"}, ServerError),
        Row(503, {"error": "server busy, please try again. maximum pending requests exceeded"}, Overloaded),
        Row(None, {"error": "model 'm' not found"}, NotFound),
        Row(None, {"error": "an error was encountered while running the model"}, ServerError),
        Row(500, {"error": f"error parsing tool call: raw='{WRITTEN}', err=invalid character 'z'"}, ServerError,
            words=f"error parsing tool call: invalid character 'z'. The model wrote: {WRITTEN}."),
    ],
    "openrouter": [
        Row(402, fault("Insufficient credits", code=402), QuotaExceeded),
        Row(403, fault("m requires moderation. Your input was flagged.", code=403), ContentBlocked),
        Row(429, fault("Rate limit exceeded: free-models-per-day. ", code=429), QuotaExceeded),
        Row(400, fault("m is not a valid model ID", code=400), NotFound),
        Row(400, fault("Provider returned error", code=400, metadata={"raw": '{"message":"prompt is too long"}'}),
            ContextTooLong, words="Provider returned error: prompt is too long"),
        Row(None, {"choices": [{"finish_reason": None}], **fault("Token limit reached", code=400)}, BadRequest),
        Row(None, fault("x", code=429), RateLimited),
        Row(None, fault("x", code=502), ServerError),
    ],
    "groq": [
        Row(400, TOOL_USE_FAILED, BadRequest, words="Failed to call a function. The model wrote: <f>{."),
        Row(None, TOOL_USE_FAILED, BadRequest),
        Row(413, fault("Request too large for model m on TPM", code="rate_limit_exceeded"), ContextTooLong),
        Row(429, fault("Please try again in 7m12s.", code="rate_limit_exceeded"), RateLimited, 432.0),
        Row(498, fault("x"), Overloaded),
    ],
    "llama.cpp": [
        Row(400, fault("x", code=400, type="exceed_context_size_error", n_ctx=8), ContextTooLong),
        Row(500, fault("Failed to parse tool call arguments as JSON", code=500, type="server_error"), BadRequest),
        Row(503, fault("Loading model", code=503, type="unavailable_error"), Overloaded),
        Row(None, fault("x", code=500, type="server_error"), ServerError),
    ],
    "vllm": [
        Row(400, {"object": "error", "message": "This model's maximum context length is 8 tokens."}, ContextTooLong),
        Row(404, {"object": "error", "message": "The model `m` does not exist.", "code": 404}, NotFound),
        Row(None, {"object": "error", "message": "x", "type": "BadRequestError", "code": 400}, BadRequest),
        Row(None, fault("x", type="NotFoundError"), NotFound),
    ],
    "deepseek": [
        Row(400, fault("Content Exists Risk", type="invalid_request_error"), ContentBlocked),
        Row(400, fault("Model Not Exist", type="invalid_request_error"), NotFound),
        Row(402, fault("Insufficient Balance", type="unknown_error", code="invalid_request_error"), QuotaExceeded),
        Row(500, fault("x", code="invalid_request_error"), ServerError),
    ],
    "others": [
        Row(400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided"}, AuthFailed),
        Row(500, {"message": "x", "code": "tool_call_error"}, BadRequest),
        Row(500, fault("x", code="invalid_tool_call"), BadRequest),
        Row(500, fault("x", type="rate_limit_error"), RateLimited),
        Row(429, fault("x", type="exceeded_current_quota_error"), QuotaExceeded),
        *(Row(status, b"<title>Web server is down</title>", ServerError, None, "ray", "is down", {"cf-ray": "ray"})
          for status in (520, 521, 522, 523, 524)),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{name}-{row.kind.__name__}") for name in SERVICES for row in SERVICES[name]]
)
def test_services(row: Row) -> None:
    body = row.body if isinstance(row.body, bytes) else json.dumps(row.body).encode()
    found = stream_error(row.body, SOURCE) if row.status is None else http_error(row.status, row.headers, body, SOURCE)
    assert type(found) is row.kind
    assert found.retryable is row.kind.retryable
    assert (found.retry_after, found.request_id) == (row.wait, row.request_id)
    assert row.words in found.message
    assert "secret" not in str(found)


def test_rate_limits_are_as_the_service_sent_them() -> None:
    sent = {
        "x-ratelimit-remaining-requests": "0",
        "anthropic-ratelimit-tokens-reset": "2026-01-01T00:00:00Z",
        "ratelimitbysize-limit": "9",
        "ratelimit": '"api";r=999;t=295',
    }
    found = http_error(429, {**sent, "x-request-id": "r", "retry-after": "3"}, b"", SOURCE)
    assert found.rate_limits == sent
    assert http_error(429, {"x-ratelimit-key": "Bearer sk-secret"}, b"", SOURCE).rate_limits == {
        "x-ratelimit-key": "Bearer [key]"
    }
    assert error(429).rate_limits == {}
    assert stream_error(RPM, SOURCE).rate_limits == {}


# -- the five places


JSON = {"content-type": "application/json", "x-request-id": "r-1"}
HTML = {"content-type": "text/html", "x-request-id": "r-1"}
SSE = {"content-type": "text/event-stream", "x-request-id": "r-1"}
FULL = json.dumps(fault("x", code=503)).encode()
PLACES = {
    "a status and JSON": (503, JSON, FULL),
    "a status and a web page": (503, HTML, b"<html>Service Unavailable</html>"),
    "a good status and JSON": (200, JSON, FULL),
    "an event named error": (200, SSE, b"event: error\ndata: " + FULL + b"\n\n"),
    "an event of data": (200, SSE, b"data: " + FULL + b"\n\n"),
    "an event of data, beside choices": (200, SSE, b'data: {"choices":[],' + FULL[1:] + b"\n\n"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_is_the_same_in_all_places(place: str, stream: bool) -> None:
    status, headers, body = PLACES[place]
    network = ReplayNetwork(Recorded([body], status, headers))
    llm = OpenAI("m-1", api_key="sk-secret", network=network, max_retries=0)
    with pytest.raises(Overloaded) as caught:
        list(llm.stream_chat("Hi")) if stream else llm.chat("Hi")
    found = caught.value
    assert (found.retryable, found.status, found.request_id) == (True, 503, "r-1")
    assert [attempt.error for attempt in found.attempts] == [found]
    assert network.open_replies == 0


@pytest.mark.parametrize("place", [place for place in PLACES if place != "a status and a web page"])
def test_an_empty_account_is_not_asked_again(place: str) -> None:
    status, headers, body = PLACES[place]
    empty = body.replace(FULL[1:], json.dumps(SPENT).encode()[1:])
    network = ReplayNetwork(Recorded([empty], 429 if status == 503 else status, headers))
    with pytest.raises(QuotaExceeded) as caught:
        OpenAI("m-1", api_key="sk-secret", network=network).chat("Hi")
    assert caught.value.retryable is False
    assert len(network.requests) == 1


@pytest.mark.parametrize(
    ("headers", "wait"), [({}, 34.4), ({"retry-after": "7"}, 7.0), ({"retry-after": "soon"}, 34.4)]
)
def test_a_wait_in_the_headers_beats_one_in_the_body(headers: dict[str, str], wait: float) -> None:
    body = json.dumps(gemini(429, "RESOURCE_EXHAUSTED", "x", WAIT)).encode()
    network = ReplayNetwork(Recorded([body], 429, {**headers, "x-ratelimit-remaining-tokens": "0"}))
    with pytest.raises(RateLimited) as caught:
        OpenAI("m-1", api_key="sk-secret", network=network, max_retries=0).chat("Hi")
    assert caught.value.retry_after == wait
    assert caught.value.rate_limits == {"x-ratelimit-remaining-tokens": "0"}


def test_the_retry_header_overrides_the_status() -> None:
    network = ReplayNetwork(Recorded([b""], 500, {"x-should-retry": "false"}))
    with pytest.raises(ServerError) as caught:
        OpenAI("m-1", api_key="sk-secret", network=network).chat("Hi")
    assert caught.value.retryable is False
    assert len(network.requests) == 1


# -- any bytes


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=4) | st.sampled_from(["sk-secret", "Bearer sk-secret", "a\nb", "{}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(["error", "errors", "message", "detail", "type", "code", "status", "request_id", "details",
                         "metadata", "raw", "response", "failed_generation", "loc", "msg"]), inner, max_size=4
    ),
)  # fmt: skip
bodies = st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()) | st.builds(
    lambda before, after: before + b"sk-secret" + after, st.binary(max_size=300), st.binary(max_size=9)
)  # fmt: skip


def check_text(found: LLMError) -> None:
    assert isinstance(found, LLMError)
    assert "sk-secret" not in str(found)
    assert str(found).isprintable()
    assert len(found.message) < 450
    assert len(str(found)) < 700
    assert found.retry_after is None or math.isfinite(found.retry_after)


@given(
    status=st.integers(300, 599),
    headers=st.dictionaries(
        st.sampled_from(["content-type", "location", "x-should-retry", "x-request-id"]),
        st.text(max_size=20) | st.just("sk-secret"),
    ),
    body=bodies,
)
def test_any_answer_is_one_error(status: int, headers: dict[str, str], body: bytes) -> None:
    check_text(http_error(status, headers, body, SOURCE))


@given(values)
def test_any_error_inside_an_answer_is_one_error(body: object) -> None:
    check_text(stream_error(body, SOURCE))


@pytest.mark.fault(141)
@pytest.mark.parametrize(
    "word",
    [
        "input ",
        "model ",
        "exceeds the max",
        "context window ",
        "data:{",
        "data: {}}",
        "<title>",
        "quota exceeded for metric",
    ],
)
def test_a_hostile_body_costs_no_more_than_its_length(word: str) -> None:
    found = error(400, (word * (BODY_LIMIT // len(word))).encode())
    assert type(found) is BadRequest


def test_deep_bodies() -> None:
    for deep in ('{"error":' * 900 + "1" + "}" * 900, '{"message":[' * 400 + "]}" * 400, '{"response":' * 5000):
        check_text(error(500, deep.encode()))


def _only(one: str, other: str) -> bytes:
    return f'{{"error": {{"message": "This model is only supported in {one} and not in {other}."}}}}'.encode()


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (302, b"", "Set base_url to that address."),
        (403, b'{"error": {"message": "no access to this model"}}', "Check that the key may use this model"),
        (401, b'{"error": {"message": "wrong key"}}', "valid api_key="),
        (413, b'{"error": {"message": "body too big"}}', "Send less in one request."),
        (400, b'{"error": {"message": "no", "failed_generation": "<f>{"}}', "send the request again, or use another"),
        (500, b'{"error": {"message": "Failed to parse tool call"}}', "send the request again, or use another"),
        (400, b'{"error": {"message": "unknown field"}}', "Compare the request, as preview() shows it"),
        (404, _only("v1/responses", "v1/chat/completions"), 'Pass api="responses".'),
        (404, _only("v1/chat/completions", "v1/responses"), 'Pass api="chat".'),
        (
            400,
            b'{"error": {"message": "Function tools with reasoning_effort are not supported for gpt-6-sol in '
            b'/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to none."}}',
            'Pass api="responses".',
        ),
    ],
)
def test_the_advice_fits_the_cause(status: int, body: bytes, advice: str) -> None:
    """One piece of advice each: what helps in one case misleads in another."""
    message = str(http_error(status, {"location": "https://elsewhere/v1"}, body, ErrorSource("p")))
    assert advice in message
    assert sum(other in message for other in ("Compare the request", "api_key=", "again, or use", "Set base_url")) <= 1
