"""The rate limits in the headers of a response, in the dialects of the services.

| service | headers | source |
|---|---|---|
| OpenAI | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, resets like `6m0s` | platform.openai.com/docs/guides/rate-limits |
| Azure OpenAI | the same; often without a limit or reset; counted in periods of 1 or 10 s | learn.microsoft.com, "Manage Azure OpenAI quota" |
| Groq | the same, where requests are those of a day | console.groq.com/docs/rate-limits |
| Mistral | `x-ratelimit-{limit,remaining}-{req,tokens}-{minute,month}` | github.com/mistralai/client-ts/issues/169 |
| Cerebras | `x-ratelimit-{limit,remaining,reset}-{requests-day,tokens-minute}`, resets in seconds; token buckets | inference-docs.cerebras.ai/support/rate-limits |
| Anthropic | `anthropic-ratelimit-{requests,input-tokens,output-tokens}-{limit,remaining,reset}`, resets in RFC 3339; token buckets | platform.claude.com/docs/en/api/rate-limits |
| OpenRouter | `x-ratelimit-{limit,remaining,reset}` of refusals, resets in milliseconds since 1970 | openrouter.ai/docs/api_reference/limits |
| Together | `x-ratelimit-{limit,remaining,reset}` and `x-tokenlimit-{limit,remaining}` per second, resets in seconds | docs.together.ai/docs/rate-limits |
| IETF draft 8 and later | `ratelimit: "default";r=50;t=30`, `ratelimit-policy: "default";q=100;w=60` | draft-ietf-httpapi-ratelimit-headers |
| IETF drafts to 7 | `ratelimit-{limit,remaining,reset}`, resets in seconds | draft-ietf-httpapi-ratelimit-headers-06 |

Google has no such headers: a refusal contains a `RetryInfo`, which becomes `retry_after` of its error.
"""  # noqa: E501  # the lines of a table cannot be wrapped

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from math import isfinite
from typing import Final, Literal, NamedTuple

from ...lazy.lazy_dataclasses import dataclass
from ...values.retries import http_date

Quantity = Literal["requests", "tokens", "input_tokens", "output_tokens"]
"""What a limit counts: `tokens` are those of input and output."""


class LimitReading(NamedTuple):
    """One limit, as the headers of a response describe it.

    Attributes:
        quantity: What it counts.
        limit: The amount in one period; None if the service does not report it.
        remaining: What was left when the response was sent.
        reset: The seconds until all of it is available again; None if it is unknown.
        period: The seconds of a period; None if it is unknown.
        gradual: True for a bucket that is refilled all the time, False for a window that is filled at its `reset`.
    """

    quantity: Quantity
    limit: float | None
    remaining: float
    reset: float | None = None
    period: float | None = None
    gradual: bool = False


def read_limits(headers: Mapping[str, str], wall_now: float) -> list[LimitReading]:
    """Return the limits in `headers`, whose names are in lower case; none for malformed or unknown ones.

    Args:
        headers: The headers of the response.
        wall_now: The seconds since 1970, for resets that are a time, where the response has no `date`.
    """
    limits = _limits(tuple(headers))
    if not limits:
        return []
    # Of the services with plain names, Together alone has limits of tokens, and counts both per second.
    second = any(series == _TOKENS for series, _ in limits)
    clock = _Clock(headers.get("date"), wall_now)
    readings = [
        reading
        for series, names in limits
        for reading in _read(series, {field: headers[name] for field, name in names.items()}, clock, second)
    ]
    # Anthropic's `tokens` repeat the most restrictive limit of input and output.
    if any(each.quantity == "input_tokens" for each in readings):
        readings = [each for each in readings if each.quantity != "tokens"]
    return readings


@dataclass(frozen=True, slots=True)
class _Series:
    """The headers of one limit."""

    quantity: Quantity
    period: float | None = None
    gradual: bool = False
    draft: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """The field of a limit that one header contains."""

    series: _Series
    field: str


_TOKENS: Final = _Series("tokens", 1.0)
_PERIODS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "month": 30 * 86400.0}
_SHORT_PERIODS: Final = {"1s": 1.0, "1m": 60.0, "1h": 3600.0, "1d": 86400.0}
_QUANTITIES: Final[Mapping[str, Quantity]] = {
    "requests": "requests",
    "req": "requests",
    "tokens": "tokens",
    "input-tokens": "input_tokens",
    "output-tokens": "output_tokens",
}
_OPENAI: Final = re.compile(
    r"x-ratelimit-(limit|remaining|reset)-(requests|req|tokens|input-tokens|output-tokens)(?:-([a-z0-9]+))?"
)
_ANTHROPIC: Final = re.compile(
    r"anthropic-ratelimit-(requests|tokens|input-tokens|output-tokens)-(limit|remaining|reset)"
)
_PLAIN: Final = re.compile(r"(x-ratelimit|ratelimit|x-tokenlimit)-(limit|remaining|reset)")


class _Clock(NamedTuple):
    """The time of a response by the clock of the service, or by the own one if it sends no date.

    Few services need it, and a date takes as long to parse as all limits.
    """

    date: str | None
    own: float

    @property
    def now(self) -> float:
        date = http_date(self.date)
        return self.own if date is None else date


@lru_cache(64)
def _limits(names: tuple[str, ...]) -> tuple[tuple[_Series, dict[str, str]], ...]:
    """Return the limits in headers of these `names`, and for each the names of the headers of its fields.

    All responses of a service have the same headers, so the names are matched once for all of them.
    """
    found: dict[_Series, dict[str, str]] = {}
    for name in names:
        if (place := _place(name)) is not None:
            found.setdefault(place.series, {})[place.field] = name
    return tuple(found.items())


def _place(name: str) -> _Place | None:
    """Return the limit and its field that a header of this name contains, or None."""
    if "limit" not in name:
        return None
    if match := _OPENAI.fullmatch(name):
        field, quantity, period = match.groups()
        seconds = _PERIODS.get(period or "") or _SHORT_PERIODS.get(period or "")
        if period is not None and seconds is None:
            return None
        return _Place(_Series(_QUANTITIES[quantity], seconds, gradual=True), field)
    if match := _ANTHROPIC.fullmatch(name):
        return _Place(_Series(_QUANTITIES[match[1]], 60.0, gradual=True), match[2])
    if match := _PLAIN.fullmatch(name):
        return _Place(_TOKENS if match[1] == "x-tokenlimit" else _Series("requests"), match[2])
    if name in ("ratelimit", "ratelimit-policy"):
        return _Place(_Series("requests", draft=True), name)
    return None


def _read(series: _Series, fields: Mapping[str, str], clock: _Clock, second: bool) -> Iterable[LimitReading]:
    if series.draft:
        return _read_draft(fields)
    remaining = _number(fields.get("remaining"))
    limit, window = _limit(fields.get("limit", ""))
    reset = _seconds(fields.get("reset", ""), clock)
    # A limit of 0 is that of a proxy that does not enforce one.
    if remaining is None or limit == 0 or (limit is None and reset is None):
        return ()
    period = series.period or window or (1.0 if second else None)
    gradual = series.gradual or reset is None
    if series.gradual and period is None:
        period = 60.0 if series.quantity != "requests" else _period(limit, remaining, reset)
    return (LimitReading(series.quantity, limit, remaining, reset, period, gradual),)


def _period(limit: float | None, remaining: float, reset: float | None) -> float:
    """Return the period of a bucket of requests: OpenAI counts those of a minute, or of a day, Groq those of a day."""
    # It is full after `reset` seconds, in which what was used comes back. A reset in whole seconds may be rounded.
    if limit is None or reset is None or limit - remaining < 1 or (reset == int(reset) and reset < 10):
        return 60.0
    seconds = reset * limit / (limit - remaining)
    for each in (60.0, 86400.0, 1.0, 10.0, 3600.0):
        if each / 2 < seconds < each * 2:
            return each
    return 60.0


def _read_draft(fields: Mapping[str, str]) -> Iterable[LimitReading]:
    policies = _items(fields.get("ratelimit-policy", ""))
    for name, values in _items(fields.get("ratelimit", "")).items():
        policy = policies.get(name, {})
        remaining, limit = _number(values.get("r")), _number(policy.get("q"))
        if remaining is not None and policy.get("qu", "requests") == "requests":
            reset, period = _number(values.get("t")), _number(policy.get("w"))
            if limit is not None or reset is not None:
                yield LimitReading("requests", limit, remaining, reset, period, gradual=reset is None)


def _items(text: str) -> dict[str, dict[str, str]]:
    """Return the parameters of each item of a list of structured fields (RFC 9651), without their quotes."""
    items: dict[str, dict[str, str]] = {}
    for item in text[:4096].split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        items[name.strip('"')] = {key: value.strip('"') for key, _, value in pairs}
    return items


@lru_cache(256)
def _limit(text: str) -> tuple[float | None, float | None]:
    """Return the amount of a limit, and the window of `100, 100;w=60`, the form of a limit in drafts to 7."""
    window = next((w for values in _items(text).values() if (w := _number(values.get("w")))), None)
    return _number(re.split("[,;]", text, maxsplit=1)[0]), window


_PART: Final = r"(?:([0-9]{1,9}(?:\.[0-9]{1,12})?)%s)?"
_DURATION: Final = re.compile("".join([_PART % unit for unit in ("d", "h", "m(?!s)", "s", "ms")]))
_UNITS: Final = (86400.0, 3600.0, 60.0, 1.0, 0.001)


def _seconds(text: str, clock: _Clock) -> float | None:
    """Return the seconds to a reset: `6m0s`, a number of seconds, a time since 1970, or RFC 3339."""
    text = text.strip()
    if text and (match := _DURATION.fullmatch(text)) is not None:
        return sum([float(number) * unit for number, unit in zip(match.groups(), _UNITS, strict=True) if number])
    if (number := _number(text)) is not None:
        return number if number < 1e9 else max((number / 1000 if number > 1e11 else number) - clock.now, 0.0)
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if then.tzinfo is None else max(then.timestamp() - clock.now, 0.0)


def _number(text: str | None) -> float | None:
    if not text:  # a header that is not there: without an exception
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None
