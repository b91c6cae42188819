"""The retry policy of requests: exponential backoff with full jitter, and `Retry-After`.

The functions use no I/O, clock or random generator. An error is retried if it is `retryable`, while retries and time
remain. The service's `Retry-After` is a lower bound of the wait; above `longest_retry_after` the error is raised at
once. Without it the wait is random between 0 and a bound that doubles, so that clients which failed together do not
retry together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite

from ..errors import LLMError
from ..lazy.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries of a failed request and the limits of the waits between them, in seconds.

    The n-th wait is random between 0 and `initial` x 2^n, at most `maximum`. A `Retry-After` above
    `longest_retry_after` is not waited for.
    """

    max_retries: int = 2
    initial: float = 0.5
    maximum: float = 8.0
    longest_retry_after: float = 60.0

    def bound(self, retries_used: int) -> float:
        """Return the upper bound of the wait after `retries_used` retries."""
        # 2.0**1024 overflows; the maximum applies long before that.
        return min(self.initial * 2.0 ** min(retries_used, 64), self.maximum)


def next_wait(
    policy: RetryPolicy,
    failure: LLMError,
    *,
    retries_used: int,
    now: float,
    deadline: float | None,
    chance: float,
) -> float | None:
    """Return the seconds to wait before the next attempt, or None if `failure` is to be raised.

    `now` and `deadline` are readings of one monotonic clock, `chance` is a random number from 0 to 1.
    """
    if not failure.retryable or retries_used >= policy.max_retries:
        return None
    asked = failure.retry_after
    if asked is None:
        wait = chance * policy.bound(retries_used)
    elif asked > policy.longest_retry_after:
        return None
    else:
        # Not before the service's time, and not all clients at once: jitter on top of it, up to the limit.
        wait = min(asked + chance * policy.bound(0), policy.longest_retry_after)
    return None if deadline is not None and now + wait >= deadline else wait


def wait_reason(failure: Exception | None) -> str:
    """Return the reason for the length of the wait after `failure`, for a log."""
    asked = failure.retry_after if isinstance(failure, LLMError) else None
    return "back-off" if asked is None else f"the service asked for {asked:.2f} s"


def retry_after(headers: Mapping[str, str], wall_now: float) -> float | None:
    """Return the seconds that the headers of an error response ask to wait, or None.

    Header names are in lower case. `retry-after-ms` comes before `retry-after`, which is in seconds or an HTTP
    date (RFC 9110, 10.2.3). A date is relative to the service's own `date` header, without one to `wall_now`.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if (seconds := _number(text)) is not None:
        return seconds
    if (then := http_date(text)) is None:
        return None
    now = http_date(headers.get("date"))
    wait = then - (wall_now if now is None else now)
    return wait if wait >= 0 else None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the value of the header `x-should-retry`, or None without it."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def wait_in_text(text: str) -> float | None:
    """Return the seconds that an error message, in lower case, asks to wait, or None.

    It finds Google's `"retrydelay": "34.4s"`, and `try again in 7m12s`, `retry after 20 seconds` and the like.
    """
    asked = re.search(_ASKED, text)  # compiled when the first error comes
    if asked is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_DURATION, asked.group(1)))


_SECONDS = {
    unit: seconds
    for units, seconds in (
        ("ms millisecond milliseconds", 0.001),
        ("s sec second seconds", 1.0),
        ("m min minute minutes", 60.0),
        ("h hour hours", 3600.0),
    )
    for unit in units.split()
}
_DURATION = rf"([0-9]{{1,9}}(?:\.[0-9]{{1,12}})?) ?({'|'.join(_SECONDS)})(?![a-z])"
_ASKED = rf'(?:retrydelay"?: ?"?|(?:try again|retry) (?:in|after) )((?:{_DURATION} ?)+)'


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def http_date(text: str | None) -> float | None:
    """Return the seconds since 1970 of an HTTP date (RFC 9110, 5.6.7); None if there is none, or a malformed one."""
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        # The parser of the standard library raises any of these for malformed dates.
        return None
