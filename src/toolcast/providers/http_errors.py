"""HTTP error responses and error events of any provider, mapped to exceptions.

`read_service_error` finds the message in an error body, whichever of the known formats it has. The exception class
follows from rules: patterns of the message first, then the provider's own error type and code, then the HTTP status. An
error event in a stream has no status but the one in its body. `_advice` adds one thing to try. Secrets are masked
before texts are shortened, because a part of a key would not be recognized.

The results of Azure's content filter, in responses and in errors.

Source: learn.microsoft.com/azure/ai-services/openai/concepts/content-filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias, cast

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
from ..lazy.lazy_dataclasses import dataclass
from ..values.answer_details import SafetyRating, describe_ratings
from ..values.credentials import Secret, mask
from ..values.http_request import request_id
from ..values.retries import should_retry, wait_in_text


def azure_ratings(found: object, source: Literal["prompt", "response"], provider: str) -> tuple[SafetyRating, ...]:
    """Return the ratings in `content_filter_results`: an object for each category."""
    ratings: list[SafetyRating] = []
    for category, value in (cast("dict[str, Any]", found) if isinstance(found, dict) else {}).items():
        if not isinstance(value, dict) or not value:
            continue
        each = cast("dict[str, Any]", value)
        level = each.get("severity") or ("detected" if each.get("detected") is True else None)
        blocked = each.get("filtered") is True
        ratings.append(
            SafetyRating(category, source, level if isinstance(level, str) else None, blocked, provider, each)
        )
    return tuple(ratings)


BODY_LIMIT = 64 * 1024
"""So many bytes of an error body are read, and no more."""

_LONGEST = 200
_RELEVANT_LENGTH = 4000  # an error begins with its own message; the rest may be the request, echoed


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A provider's own description of an error; `""` for absent fields.

    Attributes:
        type: The provider's type of the error.
        code: The provider's code of the error.
        details: Further machine-readable data: reasons, quotas, filters, waits.
        status: The HTTP status in the body, if any.
        written: A tool call of the model that the provider could not parse.
        advice: What to try, if that does not follow from the class of the error.
        filters: The results of Azure's content filter, by category.
    """

    message: str = ""
    type: str = ""
    code: str = ""
    request_id: str | None = None
    details: str = ""
    status: int | None = None
    written: str = ""
    advice: str = ""
    filters: Mapping[str, Any] | None = None

    @property
    def names(self) -> str:
        """The provider's own names for the error, in lower case."""
        return f"{self.type} {self.code}".lower()[:_RELEVANT_LENGTH]

    @property
    def text(self) -> str:
        """The names, details and message, in lower case."""
        return f"{self.names} {self.details[:_RELEVANT_LENGTH]} {self.message[:_RELEVANT_LENGTH]}".lower()


@dataclass(frozen=True, slots=True)
class ErrorSource:
    """The provider and model that failed, and the `secrets` that its error texts must not contain."""

    provider: str
    model: str | None = None
    key_env: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = field(default=(), repr=False)

    def mask(self, text: str) -> str:
        """Return `text` without the secrets."""
        return mask(text, self.secrets)


def http_error(status: int, headers: Mapping[str, str], body: bytes, source: ErrorSource) -> LLMError:
    """Return the exception for an HTTP response with `status`. Header names are in lower case."""
    text = _decoded(body[:BODY_LIMIT], headers.get("content-type", ""))
    problem = read_service_error(text)
    if not problem.type and (named := headers.get("x-amzn-errortype")):
        # AWS: `ThrottlingException:http://internal.amazon.com/coral/...`, or the name alone.
        problem = replace(problem, type=named.partition(":")[0])
    if 300 <= status < 400:
        where = headers.get("location", "elsewhere")
        problem = ServiceError(f"redirected to {where}, which is not followed", advice="Set base_url to that address.")
    elif not problem.message:
        problem = ServiceError(
            _page(text, headers.get("content-type", ""), source), problem.type, problem.code, problem.request_id
        )
    error = _error(problem, status, source, request_id(headers))
    retryable = should_retry(headers)
    error.retryable = error.retryable if retryable is None else retryable
    error.rate_limits = {name: source.mask(value) for name, value in headers.items() if "ratelimit" in name}
    return error


def stream_error(body: object, source: ErrorSource) -> LLMError:
    """Return the exception for an error in a response with status 200; `body` is the decoded JSON that contains it."""
    problem = read_service_error(body)
    return _error(problem, problem.status, source, None)


# -- the message in a body


def read_service_error(body: object) -> ServiceError:
    """Return the error in an error body, which is text or decoded JSON. Empty if it contains none."""
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
    status, message, written = found.get("status"), _message(found, outer), _as_text(found.get("failed_generation"))
    if cited := _cited(message):  # Ollama
        message, written = "".join(cited.group(1, 3)), cited[2]
    return ServiceError(
        message,
        _as_text(found.get("type") or found.get("__type") or (status if isinstance(status, str) else None)),
        _as_text(found.get("code")),
        _as_text(found.get("request_id") or outer.get("request_id")) or None,
        "".join(_as_text(found[name]) for name in ("details", "innererror") if name in found),
        _status(found) or _status(outer),
        written,
        filters=_filters(found.get("innererror")),
    )


_cited = re.compile(r"(error parsing tool call: )raw='(.*)', err=(.*)", re.DOTALL).fullmatch


def _filters(inner: object) -> Mapping[str, Any] | None:
    """Return the results of a content filter (learn.microsoft.com/azure/ai-services/openai/concepts/content-filter)."""
    found = cast("dict[str, Any]", inner).get("content_filter_result") if isinstance(inner, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _innermost(outer: dict[str, Any]) -> dict[str, Any]:
    """Return the object that contains the message."""
    error = outer.get("error")
    for inner in (error, _first(outer.get("errors")), outer.get("detail")):
        if inner and isinstance(inner, dict):
            return cast("dict[str, Any]", inner)
    if isinstance(error, str) and isinstance(more := outer.get("message"), str) and more:
        return {**outer, "message": f"{error}: {more}"}
    return outer if not error or error is True else {**outer, "message": error}


def _first(values: object) -> object:
    return next(iter(cast("list[object]", values)), None) if isinstance(values, list) else None


_MESSAGE = ("message", "Message", "detail", "error", "msg")


def _message(found: dict[str, Any], outer: dict[str, Any]) -> str:
    message = _message_text(found if _named(found) else outer.get("message"))
    if not message and found.keys() & {"type", "code"}:
        message = _as_text(found)
    metadata = found.get("metadata")
    behind = cast("dict[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    return (
        f"{message}: {_message_text(behind)}" if behind else message
    )  # OpenRouter: the message of the provider behind it


def _named(value: dict[str, Any]) -> object:
    return next((value[name] for name in _MESSAGE if value.get(name)), None)


def _message_text(value: object) -> str:
    """Return the message in a value that is a string, an object, or a list of errors."""
    while isinstance(value, dict) and (inner := _named(cast("dict[str, Any]", value))):
        value = inner
    if isinstance(value, str) and value.lstrip().startswith("{"):  # one service's error, inside another's
        return read_service_error(value).message or value
    problems = cast("list[object]", value) if isinstance(value, list) else []
    return "; ".join(filter(None, map(_place, problems))) or _as_text(value)


def _place(problem: object) -> str:
    """Return one error of a list as `location: message`, without the input that it quotes."""
    if not isinstance(problem, dict):
        return problem if isinstance(problem, str) else ""
    found = cast("dict[str, Any]", problem)
    location, message = found.get("loc"), found.get("msg") or found.get("message")
    parts = cast("list[object]", location) if isinstance(location, list) else []
    return ": ".join(filter(None, (".".join(map(_as_text, parts)), _as_text(message)))) if message else ""


def _status(found: dict[str, Any]) -> int | None:
    """Return the HTTP status in a body."""
    for name in ("code", "status", "status_code", "statusCode", "http_code"):
        if re.fullmatch(r"[45]\d\d", text := _as_text(found.get(name)), re.ASCII):
            return int(text)
    return None


def _as_text(value: Any) -> str:
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
    """Return a description of a body that is no JSON: a web page's title, or its first characters."""
    from html import escape, unescape  # slow to import, and only for answers that are no JSON

    titled = re.search(r"<title[^>]{0,100}>([^<]{1,500})</title>", text, re.IGNORECASE)
    start = source.mask(unescape(titled.group(1) if titled else text).strip())[:_LONGEST]
    kind = content_type.partition(";")[0] or "a body without a type"
    return f"{kind}: {escape(start, quote=False)}" if start else ""


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return `text` on one line of at most so many printable characters, without a full stop at its end."""
    line = "".join(c if c.isprintable() else " " for c in text[:_RELEVANT_LENGTH])
    line = " ".join(line.split())
    return (line if len(line) <= longest else line[: longest - 1] + "…").rstrip(".")


# -- the exception class


_Statuses: TypeAlias = frozenset[int | None]
_Rule: TypeAlias = tuple[type[LLMError], _Statuses, str]  # the exception class, the statuses it applies to, the pattern

_STREAM: _Statuses = frozenset({None})
_VAGUE = _STREAM | {400, 403, 413, 422, 500}  # statuses too general to name the problem

_OTHER_API = (
    r"(?:\buse|only (?:supported|available) (?:in|on|with|through)) (?:the )?/?v1/(responses|chat/completions)\b"
)
_BAD_CALL = r"failed to parse tool call|tool_call_error|invalid_tool_call"

# Patterns of messages that are more specific than the status, in order of precedence. They are compiled when the first
# error arrives. Gaps are bounded: a hostile body must not take more than linear time.
_BY_MESSAGE: tuple[_Rule, ...] = (
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
    # More than a minute's tokens in one request: waiting does not help.
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

# Patterns of the provider's own `type` and `code` of an error.
_BY_NAME: tuple[_Rule, ...] = (
    (RateLimited, _STREAM | {400, 403, 500}, r"rate_?limit|too_?many_?requests|resource_exhausted|throttl"),
    (Overloaded, _STREAM | {400, 500}, r"overloaded|unavailable|engine_busy|no_capacity|notready"),
    (Overloaded, frozenset({429}), r"modelnotready"),  # Bedrock: the model is still being loaded
    (
        AuthFailed,
        _STREAM | {400},
        r"authentication|permission|unauthorized|unauthenticated|forbidden|access_?denied|expired_?token"
        r"|unrecognizedclient|(invalid|incomplete)signature",
    ),
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
    424: ServerError,  # Bedrock: the model failed
    429: RateLimited,
    498: Overloaded,  # Groq: no capacity for this tier
    503: Overloaded,
    529: Overloaded,
}


def _kind(problem: ServiceError, status: int | None) -> type[LLMError]:
    for rules, text in ((_BY_MESSAGE, problem.text), (_BY_NAME, problem.names)):
        for kind, statuses, telling in rules:
            if status in statuses and re.search(telling, text):
                return kind
    return _BY_STATUS.get(status) or (ServerError if status and status >= 500 else BadRequest)


# -- the message and the advice


def _error(problem: ServiceError, status: int | None, source: ErrorSource, request: str | None) -> LLMError:
    kind = _kind(problem, status)
    summary = shortened(source.mask(problem.message)) or "no message"
    if problem.written:  # nothing else has it
        summary += f". The model wrote: {shortened(source.mask(problem.written), _RELEVANT_LENGTH)}"
    at = f" ({status})" if status else ""
    safety: tuple[SafetyRating, ...] = ()
    if problem.filters is not None and kind is ContentBlocked:
        safety = azure_ratings(problem.filters, "prompt", source.provider)
        if blocked := shortened(source.mask(describe_ratings(safety))):
            summary = f"{blocked}: {summary}"
    error = kind(
        f"{_SUMMARY[kind]}{at}: {summary}. {problem.advice or _advice(kind, problem, status, source)}",
        status=status,
        retry_after=wait_in_text(problem.text) if kind.retryable else None,
        provider=source.provider,
        model=source.model,
        request_id=shortened(source.mask(request or problem.request_id or "")) or None,
    )
    if isinstance(error, ContentBlocked):
        error.safety = safety
    return error


_SUMMARY: dict[type[LLMError], str] = {
    AuthFailed: "the service refused the key",
    BadRequest: "the service refused the request",
    ContentBlocked: "the service's content filter blocked the request",
    ContextTooLong: "the messages are too long for the model",
    NotFound: "the service has no such model, URL or stored object",
    Overloaded: "the service is overloaded or still starting",
    QuotaExceeded: "the account has no quota or credit left",
    RateLimited: "too many requests",
    ServerError: "the service failed",
}


def _advice(kind: type[LLMError], problem: ServiceError, status: int | None, source: ErrorSource) -> str:
    if (other := re.search(_OTHER_API, problem.text)) is not None:
        return f'Pass api="{other[1].partition("/")[0]}".'
    if kind is AuthFailed and status == 403:
        return "Check that the key may use this model, and that the service is offered in your region."
    if kind is AuthFailed:
        where = " or ".join(source.key_env)
        return f"Set {where} to a valid key, or pass api_key=." if where else "Pass a valid api_key=."
    if kind is NotFound:
        model = f"the model's name, {source.model!r}," if source.model else "the model's name"
        return f"Check {model} and base_url=."
    if problem.written or (kind is BadRequest and re.search(_BAD_CALL, problem.text)):
        return "The model wrote a tool call that the service cannot read: send the request again, or use another model."
    if kind is BadRequest and "encrypted content is not supported" in problem.text:
        return "Pass base_model= with the name of the model, such as base_model='gpt-4.1' for a deployment of it."
    if kind is BadRequest and status == 413:
        return "Send less in one request."
    return _TRY[kind]


_TRY: dict[type[LLMError], str] = {
    BadRequest: "Compare the request, as preview() shows it, with the API reference.",
    ContentBlocked: "Rephrase the prompt, or change the filter's settings at the service.",
    ContextTooLong: "Send fewer or shorter messages, or use a model with a larger context window.",
    Overloaded: "Try again in a while.",
    QuotaExceeded: "Add credit at the service, or use another key; waiting does not help.",
    RateLimited: "Wait, or send fewer requests at once.",
    ServerError: "Try again; if it persists, report the request's id to the service.",
}
