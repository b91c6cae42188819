"""When to try again, and after how long. Pure: the clock and the dice are arguments.

A failure is tried again if it says so itself (`LLMError.retryable`), while retries and time remain. The
service's own wish (`Retry-After`) is a lower bound for the wait; one that is too long is not waited for at
all, so that the caller hears of it at once. Without such a wish the wait is drawn between nothing and a bound
that doubles (full jitter): many clients that failed together do not come back together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite

from .errors import LLMError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a failed request is sent again; the waits in seconds.

    The n-th own wait is drawn from 0 to `initial` x 2^n, at most `maximum`. A service that asks for more than
    `longest_retry_after` is not waited for.
    """

    max_retries: int = 2
    initial: float = 0.5
    maximum: float = 8.0
    longest_retry_after: float = 60.0

    def bound(self, retries_used: int) -> float:
        """The longest own wait before the next request, `retries_used` of them having been made."""
        # 2.0**1024 overflows; long before that the maximum holds.
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
    """The seconds to wait before the request is sent again, or None: give up and raise `failure`.

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
        # Never sooner than asked, and not all at once: jitter on top, as far as the cap leaves room for it.
        wait = min(asked + chance * policy.bound(0), policy.longest_retry_after)
    return None if deadline is not None and now + wait >= deadline else wait


def retry_after(headers: Mapping[str, str], wall_now: float) -> float | None:
    """The seconds that a failed answer's headers ask to wait, or None where they ask nothing sensible.

    Header names are in lower case. Read are `retry-after-ms`, then `retry-after`, in seconds or as an HTTP
    date (RFC 9110, 10.2.3); a date is held against the service's own `date`, and only without one against
    `wall_now`.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if (seconds := _number(text)) is not None:
        return seconds
    if (then := _date(text)) is None:
        return None
    now = _date(headers.get("date"))
    wait = then - (wall_now if now is None else now)
    return wait if wait >= 0 else None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """What the service says in `x-should-retry`: True, False, or None where it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def wait_in_text(text: str) -> float | None:
    """The seconds that an error's words, in lower case, ask to wait; None where they ask nothing.

    Read are Google's `"retrydelay": "34.4s"`, and `try again in 7m12s`, `retry after 20 seconds` and the like.
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


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        # The parser of the standard library is written for well-meant dates.
        return None
