"""A service's error, however it is written -> one error of the tree. Shared by all wires.

Three steps. `read_fault` finds the words in a body of any of the shapes in use: `{"error": {...}}`,
`{"error": "..."}`, `[{"error": ...}]`, `{"response": {"error": ...}}`, `{"detail": ...}`, `{"message": ...}`,
`{"object": "error", ...}`, one of these in a line of an event stream, HTML, plain text, nothing. `_kind` decides
which error that is, by three tables: words that say more than the status (no credit left, context too long,
content blocked), then the service's own names for the fault, then the status. Inside a stream there is no status
but the one the body may name. `_advice` adds one thing to try. Keys are masked before anything is cut to length,
so that not even half of one can show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ..credentials import Secret, mask
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
from ..retries import should_retry, wait_in_text

BODY_LIMIT = 64 * 1024
"""So many bytes of an error body are read, and no more."""

_LONGEST = 200
_TELLING_LENGTH = 4000  # an error's own words come first; what follows may be the request, echoed


@dataclass(frozen=True, slots=True)
class ServiceError:
    """What a service says about a failure: `message`, and its own `type` and `code`; `""` where absent.

    `details` is what else it says for programs: reasons, quotas, filters, waits; `status` the HTTP status, where
    the body names one; `written` a tool call of the model that the service cannot read; `advice` what to try, where
    that does not follow from the error.
    """

    message: str = ""
    type: str = ""
    code: str = ""
    request_id: str | None = None
    details: str = ""
    status: int | None = None
    written: str = ""
    advice: str = ""

    @property
    def names(self) -> str:
        """The service's own names for the fault, in lower case."""
        return f"{self.type} {self.code}".lower()[:_TELLING_LENGTH]

    @property
    def words(self) -> str:
        """All of it, in lower case."""
        return f"{self.names} {self.details[:_TELLING_LENGTH]} {self.message[:_TELLING_LENGTH]}".lower()


@dataclass(frozen=True, slots=True)
class ErrorSource:
    """Who failed, for the error's text, and the `secrets` that must not be in it."""

    provider: str
    model: str | None = None
    key_env: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = field(default=(), repr=False)

    def mask(self, text: str) -> str:
        """`text` without the secrets."""
        return mask(text, self.secrets)


def http_error(status: int, headers: Mapping[str, str], body: bytes, source: ErrorSource) -> LLMError:
    """The error that an HTTP answer with `status` stands for. Header names are in lower case."""
    text = _decoded(body[:BODY_LIMIT], headers.get("content-type", ""))
    fault = read_fault(text)
    if 300 <= status < 400:
        where = headers.get("location", "elsewhere")
        fault = ServiceError(f"redirected to {where}, which is not followed", advice="Set base_url to that address.")
    elif not fault.message:
        fault = ServiceError(
            _page(text, headers.get("content-type", ""), source), fault.type, fault.code, fault.request_id
        )
    error = _error(fault, status, source, request_id(headers))
    told = should_retry(headers)
    error.retryable = error.retryable if told is None else told
    error.rate_limits = {name: source.mask(value) for name, value in headers.items() if "ratelimit" in name}
    return error


def stream_error(body: object, source: ErrorSource) -> LLMError:
    """The error that arrived inside an answer with status 200; `body` is the decoded JSON that holds it."""
    fault = read_fault(body)
    return _error(fault, fault.status, source, None)


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


# -- the words in a body


def read_fault(body: object) -> ServiceError:
    """The fault in an error body: text, or JSON already decoded. Empty where it holds none."""
    if isinstance(body, str):
        body = _json(body)
    if isinstance(body, list):
        body = _first(cast("list[object]", body))
    if not isinstance(body, dict):
        return ServiceError()
    outer = cast("dict[str, Any]", body)
    if not outer.get("error") and isinstance(response := outer.get("response"), dict):
        outer = cast("dict[str, Any]", response)
    found = _innermost(outer)
    status = found.get("status")
    return ServiceError(
        _message(found, outer),
        _words(found.get("type") or (status if isinstance(status, str) else None)),
        _words(found.get("code")),
        _words(found.get("request_id") or outer.get("request_id")) or None,
        "".join(_words(found[name]) for name in ("details", "innererror") if name in found),
        _status(found) or _status(outer),
        _words(found.get("failed_generation")),
    )


def _innermost(outer: dict[str, Any]) -> dict[str, Any]:
    """The object that holds the message."""
    error = outer.get("error")
    for held in (error, _first(outer.get("errors")), outer.get("detail")):
        if held and isinstance(held, dict):
            return cast("dict[str, Any]", held)
    if isinstance(error, str) and isinstance(more := outer.get("message"), str) and more:
        return {**outer, "message": f"{error}: {more}"}
    return outer if not error or error is True else {**outer, "message": error}


def _first(values: object) -> object:
    return next(iter(cast("list[object]", values)), None) if isinstance(values, list) else None


_MESSAGE = ("message", "Message", "detail", "error", "msg")


def _message(found: dict[str, Any], outer: dict[str, Any]) -> str:
    said = _said(found if _named(found) else outer.get("message"))
    if not said and found.keys() & {"type", "code"}:
        said = _words(found)
    metadata = found.get("metadata")
    behind = cast("dict[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    return f"{said}: {_said(behind)}" if behind else said  # OpenRouter: what the service behind it said


def _named(value: dict[str, Any]) -> object:
    return next((value[name] for name in _MESSAGE if value.get(name)), None)


def _said(value: object) -> str:
    """The words for a human in what stands in a message's place: text, an object, or a list of faults."""
    while isinstance(value, dict) and (inner := _named(cast("dict[str, Any]", value))):
        value = inner
    if isinstance(value, str) and value.lstrip().startswith("{"):  # one service's error, inside another's
        return read_fault(value).message or value
    faults = cast("list[object]", value) if isinstance(value, list) else []
    return "; ".join(filter(None, map(_place, faults))) or _words(value)


def _place(fault: object) -> str:
    """One fault of a list as `where: what`, without the input that it quotes."""
    if not isinstance(fault, dict):
        return fault if isinstance(fault, str) else ""
    found = cast("dict[str, Any]", fault)
    where, what = found.get("loc"), found.get("msg") or found.get("message")
    parts = cast("list[object]", where) if isinstance(where, list) else []
    return ": ".join(filter(None, (".".join(map(_words, parts)), _words(what)))) if what else ""


def _status(found: dict[str, Any]) -> int | None:
    """The HTTP status that a body names."""
    for name in ("code", "status", "status_code", "statusCode", "http_code"):
        if re.fullmatch(r"[45]\d\d", text := _words(found.get(name)), re.ASCII):
            return int(text)
    return None


def _words(value: Any) -> str:
    if value is None:
        return ""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # a number of thousands of digits; very deep
        return ""


def _json(text: str) -> object:
    line = re.search(r"^(?:data|error):[ \t]*(\{.*\})\s*$", text, re.MULTILINE)  # an event stream
    try:
        return json.loads(line.group(1) if line else text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def _decoded(body: bytes, content_type: str) -> str:
    named = re.search(r"charset=\"?([\w-]+)", content_type)
    for charset in (named.group(1) if named else "utf-8", "utf-8"):
        try:
            return body.decode(charset)
        except (LookupError, UnicodeError):
            continue
    return body.decode("latin-1")


def _page(text: str, content_type: str, source: ErrorSource) -> str:
    """What a body that is no JSON says: a web page's title, or how it begins."""
    from html import escape, unescape  # slow to import, and only for answers that are no JSON

    titled = re.search(r"<title[^>]{0,100}>([^<]{1,500})</title>", text, re.IGNORECASE)
    start = source.mask(unescape(titled.group(1) if titled else text).strip())[:_LONGEST]
    kind = content_type.partition(";")[0] or "a body without a type"
    return f"{kind}: {escape(start, quote=False)}" if start else ""


def shortened(text: str) -> str:
    """`text` on one line of at most 200 printable characters, without a full stop at its end."""
    line = "".join(c if c.isprintable() else " " for c in text[:_TELLING_LENGTH])
    line = " ".join(line.split())
    return (line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…").rstrip(".")


# -- which error it is


_Statuses: TypeAlias = frozenset[int | None]
_Rule: TypeAlias = tuple[type[LLMError], _Statuses, str]  # the error, where it is looked for, what tells it

_STREAM: _Statuses = frozenset({None})
_VAGUE = _STREAM | {400, 403, 413, 422, 500}  # statuses that say little of what is wrong

_BAD_CALL = r"failed to parse tool call|tool_call_error|invalid_tool_call"

# Words that say more than the status does, in the order in which they are tried. They are compiled when the first
# error comes. Gaps are bounded: a hostile body must not cost more time than its length.
_BY_WORDS: tuple[_Rule, ...] = (
    (BadRequest, _STREAM | {500}, _BAD_CALL),
    (
        QuotaExceeded,
        _VAGUE | {429},
        r"insufficient_quota|exceeded_current_quota|servicequotaexceeded|billing_(hard_limit|error|not_active)"
        r"|insufficient[_ ](balance|credits)|credit balance is too low|used all available credits|arrearage"
        r"|reached your specified api usage limits|key limit exceeded|free-models-per-day"
        r'|quotaid"?: ?"[^"]{0,200}perday|quota exceeded for metric[^,]{0,200}, limit: 0\b',
    ),
    (
        ContextTooLong,
        _VAGUE,
        r"context_length_exceeded|exceed_context_size|model_max_prompt_tokens|prompt is too long"
        r"|maximum (context|prompt|model) length|\b(input|request|prompt)[a-z ]{0,40} too long"
        r"|exceeds? the (maximum|max|available|model's)[^.]{0,80}(context|tokens)|exceeds? (the )?context"
        r"|context (window|length|size)[^.]{0,80}exceed|exceeded model token limit|prompt exceeds max"
        r"|reduce the length of the|greater than the context length|range of input length should be",
    ),
    # More than a minute's tokens in one request: to wait does not help.
    (ContextTooLong, frozenset({413, 429}), r"request (body )?too large for|tokens_limit_reached|context_length_e"),
    (
        ContentBlocked,
        _VAGUE,
        r"content_?filter|content filtering policy|content_policy|content management policy|responsibleai"
        r"|bio_policy|cyber_policy|data_inspection_failed|content exists risk|violates usage guidelines|guardrail"
        r"|requires moderation|moderation_|\b(was|were|been|content|input|prompt) flagged|flagged (as|for|by)\b",
    ),
    (AuthFailed, _STREAM | {400}, r"api_key_invalid|invalid_api_key|api key (not valid|expired)|incorrect api key"),
    (
        NotFound,
        _VAGUE,
        r"model_not_found|is not a valid model id|invalid model: |model not exist|model identifier is invalid"
        r"|\bmodel \S{1,100} (does not exist|not found)",
    ),
)

# The service's own names for a fault, its `type` and `code`.
_BY_NAME: tuple[_Rule, ...] = (
    (RateLimited, _STREAM | {400, 403, 500}, r"rate_?limit|too_?many_?requests|resource_exhausted|throttl"),
    (Overloaded, _STREAM | {400, 500}, r"overloaded|unavailable|engine_busy|no_capacity|notready"),
    (AuthFailed, _STREAM | {400}, r"authentication|permission|unauthorized|unauthenticated|forbidden|access_?denied"),
    (BadRequest, _STREAM, r"image"),  # before `image_file_not_found` is taken for a model
    (NotFound, _STREAM, r"not_?found"),
    (
        BadRequest,
        _STREAM,
        r"invalid|bad_?request|unsupported|unimplemented|unprocessable|validation|too_large|tool_use_failed"
        r"|failed_precondition|out_of_range",
    ),
)

_BY_STATUS: dict[int | None, type[LLMError]] = {
    None: ServerError,
    401: AuthFailed,
    402: QuotaExceeded,
    403: AuthFailed,
    404: NotFound,
    408: ServerError,
    409: ServerError,
    429: RateLimited,
    498: Overloaded,  # Groq: no capacity for this tier
    503: Overloaded,
    529: Overloaded,
}


def _kind(fault: ServiceError, status: int | None) -> type[LLMError]:
    for rules, text in ((_BY_WORDS, fault.words), (_BY_NAME, fault.names)):
        for kind, statuses, telling in rules:
            if status in statuses and re.search(telling, text):
                return kind
    return _BY_STATUS.get(status) or (ServerError if status and status >= 500 else BadRequest)


# -- what is said of it


def _error(fault: ServiceError, status: int | None, source: ErrorSource, request: str | None) -> LLMError:
    kind = _kind(fault, status)
    said = f"{fault.message} The model wrote: {fault.written}" if fault.written else fault.message
    what = shortened(source.mask(said)) or "no further words"
    at = f" ({status})" if status else ""
    return kind(
        f"{_SAID[kind]}{at}: {what}. {fault.advice or _advice(kind, fault, status, source)}",
        status=status,
        retry_after=wait_in_text(fault.words) if kind.retryable else None,
        provider=source.provider,
        model=source.model,
        request_id=shortened(source.mask(request or fault.request_id or "")) or None,
    )


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


def _advice(kind: type[LLMError], fault: ServiceError, status: int | None, source: ErrorSource) -> str:
    if kind is AuthFailed and status == 403:
        return "Check that the key may use this model, and that the service is offered where you are."
    if kind is AuthFailed:
        where = " or ".join(source.key_env)
        return f"Set {where} to a valid key, or pass api_key=." if where else "Pass a valid api_key=."
    if kind is NotFound:
        model = f"the model's name, {source.model!r}," if source.model else "the model's name"
        return f"Check {model} and base_url=."
    if kind is BadRequest and (fault.written or re.search(_BAD_CALL, fault.words)):
        return "The model wrote a tool call that the service cannot read: send the request again, or use another model."
    if kind is BadRequest and status == 413:
        return "Send less in one request."
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
