"""Error answers of all shapes -> one error of the tree, with something to try and without the key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from toolcast.providers.http_errors import Fault, Source, http_error, read_fault, request_id, shortened, stream_error
from toolcast.providers.wire import Secret

SOURCE = Source("acme", "m-1", ("ACME_KEY", "OTHER_KEY"), (Secret("sk-secret"),))


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
def test_words_that_say_more_than_the_status(status: int, body: Any, kind: type[LLMError]) -> None:
    assert type(error(status, body)) is kind


BODIES = [
    ({"error": {"message": "boom", "type": "t", "code": "c"}}, Fault("boom", "t", "c")),
    ({"error": {"message": "boom", "code": 400}}, Fault("boom", "", "400")),
    ({"error": "boom", "code": "c"}, Fault("boom", "", "c")),
    ([{"error": {"message": "boom"}}], Fault("boom")),
    ([], Fault()),
    ({"detail": "boom"}, Fault("boom")),
    ({"detail": [{"loc": ["x"]}]}, Fault('[{"loc": ["x"]}]')),
    ({"message": "boom", "request_id": "r"}, Fault("boom", request_id="r")),
    ({"object": "error", "message": {"a": "é"}, "type": "t"}, Fault('{"a": "é"}', "t")),
    ({"type": "error", "error": {"type": "t", "message": "boom"}, "request_id": "r"}, Fault("boom", "t", "", "r")),
    ({"error": {"status": "DOWN", "message": "boom"}}, Fault("boom", "DOWN")),
    ({"error": {"type": "t"}}, Fault('{"type": "t"}', "t")),
    ({"error": {}, "message": "boom"}, Fault("boom")),
    ({}, Fault()),
    (None, Fault()),
    (7, Fault()),
    ("boom", Fault()),
]


@pytest.mark.parametrize(("body", "fault"), BODIES)
def test_bodies(body: Any, fault: Fault) -> None:
    assert read_fault(body) == fault
    assert read_fault(json.dumps(body)) == fault


@pytest.mark.parametrize("text", ["", "<html>", "{", "[" * 100_000])
def test_bodies_that_are_no_json(text: str) -> None:
    assert read_fault(text) == Fault()


def test_html_is_shown_escaped_and_short() -> None:
    found = error(502, b"<h1>Bad\x1b[0m</h1>" + b"x" * 500, content_type="text/html; charset=utf-8")
    assert "(502): text/html: &lt;h1&gt;Bad [0m&lt;/h1&gt;" in found.message
    assert len(found.message) < 320
    assert error(502, b" ").message.startswith("the service failed (502): no further words.")


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


@pytest.mark.parametrize(
    "body", [b"sk-secret", b'{"error":"Bearer sk-secret"}', b"<p>sk-secret</p>", b"x" * 196 + b"sk-secret"]
)
def test_the_key_is_masked(body: bytes) -> None:
    message = error(401, body).message
    assert "sk-s" not in message
    assert "secret" not in message
    assert "sk-secret" not in repr(SOURCE)


def test_short_secrets_do_not_eat_the_text() -> None:
    assert Source("a", secrets=(Secret("a"), Secret(""))).mask("a key") == "a key"


def test_what_to_try() -> None:
    assert "ACME_KEY or OTHER_KEY" in error(401).message
    assert "'m-1'" in error(404).message
    assert "Check the model's name and base_url=" in http_error(404, {}, b"", Source("a")).message
    assert "Pass a valid api_key=" in http_error(401, {}, b"", Source("a")).message
    assert "https://elsewhere/" in error(307, location="https://elsewhere/").message


@pytest.mark.parametrize(
    ("word", "status", "retryable"), [("true", 400, True), ("False", 500, False), ("x", 500, True)]
)
def test_the_service_may_say_whether_to_retry(word: str, status: int, retryable: bool) -> None:
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


def test_shortened() -> None:
    assert shortened("a\n b\x00c\u2028d.") == "a b c d"
    assert len(shortened("x" * 500)) == 200
    assert shortened("x" * 500).endswith("…")


@given(
    status=st.integers(300, 599),
    headers=st.dictionaries(st.sampled_from(["content-type", "location", "x-should-retry"]), st.text(max_size=20)),
    body=st.binary(max_size=60) | st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "type", "code", "status"]), inner, max_size=3
        ),
    ).map(lambda value: json.dumps(value).encode()),
)  # fmt: skip
def test_any_answer_is_one_error(status: int, headers: dict[str, str], body: bytes) -> None:
    found = http_error(status, headers, body, SOURCE)
    assert isinstance(found, LLMError)
    assert len(found.message) < 450
