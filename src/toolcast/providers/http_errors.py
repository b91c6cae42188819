"""A service's error, however it is written -> one error of the tree. Shared by all wires.

Three steps. `read_fault` finds the words in a body of any of the shapes in use: `{"error": {...}}`,
`{"error": "..."}`, `[{"error": ...}]`, `{"detail": ...}`, `{"message": ...}`, `{"object": "error", ...}`,
HTML, plain text, nothing. `_kind` decides which error that is: first by words that beat the status (no credit
left, context too long, content blocked), then by the status, and inside a stream, where there is none, by the
error's type. `_advice` adds one thing to try. Keys are masked before anything is cut to length, so that not
even half of one can show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..errors import (
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
from .wire import Secret

BODY_LIMIT = 64 * 1024
"""So many bytes of an error body are read, and no more."""

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """What a service says about a failure: `message`, and its own `type` and `code`; `""` where absent."""

    message: str = ""
    type: str = ""
    code: str = ""
    request_id: str | None = None

    @property
    def words(self) -> str:
        """All of it, in lower case."""
        return f"{self.type} {self.code} {self.message}".lower()


@dataclass(frozen=True, slots=True)
class Source:
    """Who failed, for the error's text, and the `secrets` that must not be in it."""

    provider: str
    model: str | None = None
    key_env: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = field(default=(), repr=False)

    def mask(self, text: str) -> str:
        """`text` without the secrets."""
        for secret in self.secrets:
            for shown in (secret.reveal(), secret.reveal().removeprefix("Bearer ")):
                if len(shown) > 3:
                    text = text.replace(shown, "[key]")
        return text


def http_error(status: int, headers: Mapping[str, str], body: bytes, source: Source) -> LLMError:
    """The error that an HTTP answer with `status` stands for. Header names are in lower case."""
    text = _decoded(body[:BODY_LIMIT], headers.get("content-type", ""))
    fault = read_fault(text)
    if 300 <= status < 400:
        where = headers.get("location", "elsewhere")
        fault = Fault(f"redirected to {where}, which is not followed: base_url should name that address")
    elif not fault.message:
        kind = headers.get("content-type", "a body without a type").partition(";")[0]
        from html import escape  # slow to import, and only for answers that are no JSON

        fault = Fault(f"{kind}: {escape(source.mask(text.strip())[:_LONGEST], quote=False)}" if text.strip() else "")
    retry = {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())
    return _error(fault, status, source, retry, request_id(headers))


def stream_error(body: object, source: Source) -> LLMError:
    """The error that arrived inside an answer with status 200; `body` is the decoded JSON that holds it."""
    fault = read_fault(body)
    code = fault.code or str(cast("dict[str, Any]", body).get("status", "")) if isinstance(body, dict) else fault.code
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else None
    return _error(fault, status, source, None, None)


def request_id(headers: Mapping[str, str]) -> str | None:
    """The service's own number for a request, from whichever header it uses."""
    for name in _REQUEST_ID:
        if found := headers.get(name):
            return found
    return None


_REQUEST_ID = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "mistral-correlation-id",
    "x-generation-id",
    "cf-ray",
)


def read_fault(body: object) -> Fault:
    """The fault in an error body: text, or JSON already decoded. Empty where it holds none."""
    if isinstance(body, str):
        body = _json(body)
    if isinstance(body, list):
        body = next(iter(cast("list[object]", body)), None)
    if not isinstance(body, dict):
        return Fault()
    outer = cast("dict[str, Any]", body)
    inner = outer.get("error") or outer
    if not isinstance(inner, dict):
        return Fault(_words(inner), _words(outer.get("type")), _words(outer.get("code")))
    found = cast("dict[str, Any]", inner)
    message = found.get("message") or found.get("detail") or found.get("error") or outer.get("message")
    return Fault(
        _words(message) or _nested(found),
        _words(found.get("type") or found.get("status")),
        _words(found.get("code")),
        _words(outer.get("request_id")) or None,
    )


def _nested(found: dict[str, Any]) -> str:
    return _words(found) if found.keys() & {"type", "code"} else ""


def _words(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _decoded(body: bytes, content_type: str) -> str:
    named = re.search(r"charset=\"?([\w-]+)", content_type)
    for charset in (named.group(1) if named else "utf-8", "utf-8"):
        try:
            return body.decode(charset)
        except (LookupError, UnicodeDecodeError):
            continue
    return body.decode("latin-1")


def _error(fault: Fault, status: int | None, source: Source, retry: bool | None, request: str | None) -> LLMError:
    kind = _kind(fault, status)
    what = shortened(source.mask(fault.message)) or "no further words"
    at = f" ({status})" if status else ""
    return kind(
        f"{_SAID[kind]}{at}: {what}. {_advice(kind, source)}",
        status=status,
        retryable=retry,
        provider=source.provider,
        model=source.model,
        request_id=request or fault.request_id,
    )


def shortened(text: str) -> str:
    """`text` on one line of at most 200 printable characters, without a full stop at its end."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    return (line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…").rstrip(".")


# Words that say more than the status does, in the order in which they are tried.
_TELLING: tuple[tuple[type[LLMError], re.Pattern[str]], ...] = (
    (
        QuotaExceeded,
        re.compile(
            r"insufficient_quota|billing_hard_limit|billing_error|billing_not_active|insufficient_credits"
            r"|insufficient.balance|credit balance is too low|insufficient credits|quotaid[^,]*perday"
        ),
    ),
    (
        ContextTooLong,
        re.compile(
            r"context_length_exceeded|exceed_context_size|model_max_prompt_tokens|maximum context length"
            r"|prompt is too long|exceeds? the (maximum|max|available|model's)[^.]*(context|tokens)"
            r"|exceeds? (the )?context|(input|request|prompt)[^.]* too long|reduce the length of the"
            r"|context (window|length|size)[^.]*exceed"
        ),
    ),
    (
        ContentBlocked,
        re.compile(r"content_filter|content_policy|responsibleai|data_inspection_failed|moderation|flagged"),
    ),
)

_BY_TYPE: tuple[tuple[type[LLMError], re.Pattern[str]], ...] = (
    (RateLimited, re.compile(r"rate_?limit|too_many_requests|resource_exhausted|throttl")),
    (Overloaded, re.compile(r"overloaded|unavailable|engine_busy|no_capacity")),
    (
        AuthFailed,
        re.compile(r"authentication|invalid_api_key|permission|unauthorized|unauthenticated|forbidden"),
    ),
    (NotFound, re.compile(r"model_not_found|not_found")),
    (BadRequest, re.compile(r"invalid_request|invalid_argument|bad_?request|unsupported|tool_use_failed")),
)

_BY_STATUS: dict[int, type[LLMError]] = {
    401: AuthFailed,
    402: QuotaExceeded,
    403: AuthFailed,
    404: NotFound,
    408: ServerError,
    409: ServerError,
    429: RateLimited,
    503: Overloaded,
    529: Overloaded,
}


def _kind(fault: Fault, status: int | None) -> type[LLMError]:
    words = fault.words
    if status is None or status < 500 or status == 500:
        for kind, telling in _TELLING:
            if telling.search(words):
                return kind
    named = f"{fault.type} {fault.code}".lower()
    if status is None:
        return next((kind for kind, telling in _BY_TYPE if telling.search(named)), ServerError)
    if status == 400 and re.search(r"api_key_invalid|api key not valid|invalid_api_key|incorrect api key", words):
        return AuthFailed
    if "model_not_found" in named or (status == 400 and "overloaded" in named):
        return NotFound if "model_not_found" in named else Overloaded
    return _BY_STATUS.get(status) or (BadRequest if status < 500 else ServerError)


_SAID: dict[type[LLMError], str] = {
    AuthFailed: "the service refused the key",
    BadRequest: "the service refused the request",
    ContentBlocked: "a content filter of the service stepped in",
    ContextTooLong: "the messages are too long for the model",
    NotFound: "the service knows no such model or address",
    Overloaded: "the service is overloaded or still starting",
    QuotaExceeded: "the account has no quota or credit left",
    RateLimited: "too many requests just now",
    ServerError: "the service failed",
}


def _advice(kind: type[LLMError], source: Source) -> str:
    if kind is AuthFailed:
        where = " or ".join(source.key_env)
        return f"Set {where} to a valid key, or pass api_key=." if where else "Pass a valid api_key=."
    if kind is NotFound:
        model = f"the model's name, {source.model!r}," if source.model else "the model's name"
        return f"Check {model} and base_url=."
    return _TRY[kind]


_TRY: dict[type[LLMError], str] = {
    BadRequest: "Compare the request, as preview() shows it, with what the service takes.",
    ContentBlocked: "Rephrase the prompt, or change the filter's settings at the service.",
    ContextTooLong: "Send fewer or shorter messages, or use a model with a larger context window.",
    Overloaded: "Try again in a while.",
    QuotaExceeded: "Add credit at the service, or use another key; waiting does not help.",
    RateLimited: "Wait, or send fewer requests at once.",
    ServerError: "Try again; if it stays, tell the service the request's id.",
}
