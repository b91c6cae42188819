"""Waiting before another try: never too long, never too soon, and no header can break it."""

from __future__ import annotations

import math
from email.utils import formatdate

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import AuthFailed, LLMError, Overloaded, RateLimited
from toolcast.values.retries import RetryPolicy, next_wait, retry_after, should_retry, wait_in_text

NOW = 1_700_000_000.0
chances = st.floats(0, 1)
policies = st.builds(RetryPolicy, max_retries=st.integers(0, 10), initial=st.floats(0, 100), maximum=st.floats(0, 100))


def wait(failure: LLMError, chance: float = 1.0, used: int = 0, deadline: float | None = None) -> float | None:
    return next_wait(RetryPolicy(), failure, retries_used=used, now=100.0, deadline=deadline, chance=chance)


@pytest.mark.parametrize(
    ("failure", "options", "expected"),
    [
        (Overloaded(), {}, 0.5),
        (Overloaded(), {"used": 1}, 1.0),
        (Overloaded(), {"used": 1, "chance": 0.25}, 0.25),
        (Overloaded(), {"chance": 0.0}, 0.0),
        (Overloaded(), {"used": 2}, None),
        (AuthFailed(), {}, None),
        (Overloaded(retryable=False), {}, None),
        (AuthFailed(retryable=True), {}, 0.5),
        (RateLimited(retry_after=7.0), {"chance": 0.0}, 7.0),
        (RateLimited(retry_after=7.0), {"chance": 1.0}, 7.5),
        (RateLimited(retry_after=60.0), {"chance": 1.0}, 60.0),
        (RateLimited(retry_after=60.1), {}, None),
        (RateLimited(retry_after=7.0), {"deadline": 107.0, "chance": 0.0}, None),
        (RateLimited(retry_after=7.0), {"deadline": 107.1, "chance": 0.0}, 7.0),
        (Overloaded(), {"deadline": 100.5}, None),
    ],
)
def test_the_rules(failure: LLMError, options: dict[str, float], expected: float | None) -> None:
    assert wait(failure, **options) == expected  # type: ignore[arg-type]  # mixed option values


@pytest.mark.fault(25)
def test_the_bound_doubles_up_to_the_maximum() -> None:
    assert [RetryPolicy().bound(used) for used in (0, 1, 2, 3, 4, 5, 10_000)] == [0.5, 1, 2, 4, 8, 8, 8]


@given(policies, chances, st.integers(0, 2000), st.none() | st.floats(0, 1e9), st.none() | st.floats(0, 1e9))
def test_a_wait_stays_within_every_limit(
    policy: RetryPolicy, chance: float, used: int, asked: float | None, deadline: float | None
) -> None:
    failure = RateLimited(retry_after=asked)
    found = next_wait(policy, failure, retries_used=used, now=50.0, deadline=deadline, chance=chance)
    if found is None:
        return
    assert used < policy.max_retries
    assert 0 <= found <= max(policy.maximum, policy.longest_retry_after)
    assert deadline is None or 50.0 + found < deadline
    assert asked is None or asked <= found <= policy.longest_retry_after


@pytest.mark.fault(21, 22, 23, 24, 114)
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1e3"}, 1000.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "NaN"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": formatdate(NOW + 20, usegmt=True)}, 20.0),
        ({"retry-after": formatdate(NOW, usegmt=True)}, 0.0),
        ({"retry-after": formatdate(NOW - 20, usegmt=True)}, None),
        # The service's clock is an hour ahead of ours: only the difference counts.
        ({"retry-after": formatdate(NOW + 3620, usegmt=True), "date": formatdate(NOW + 3600, usegmt=True)}, 20.0),
        ({"retry-after": formatdate(NOW + 20, usegmt=True), "date": "yesterday"}, 20.0),
        ({"retry-after": "Wed, 99 Foo 20x5 07:28:00 GMT"}, None),
    ],
)
def test_what_a_service_asks_for(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, NOW) == expected


texts = st.text(max_size=40) | st.sampled_from(["1e999", "-0", "0x10", "9" * 5000, "Mon, 1 Jan 99999999999 0:0:0"])


@pytest.mark.fault(24)
@pytest.mark.gate("G1")
@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date", "x-should-retry"]), texts))
def test_no_header_breaks_it(headers: dict[str, str]) -> None:
    found = retry_after(headers, NOW)
    assert found is None or (found >= 0 and math.isfinite(found))
    assert should_retry(headers) in (True, False, None)


def test_the_service_may_say_itself_whether_to_retry() -> None:
    message = [should_retry({"x-should-retry": text}) for text in ("true", " False ", "maybe")]
    assert message == [True, False, None]
    assert should_retry({}) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ('[{"@type": "x/google.rpc.retryinfo", "retrydelay": "34.4s"}]', 34.4),
        ('{"retrydelay":"0s"}', 0.0),
        ("rate limit reached. please try again in 250ms.", 0.25),
        ("please try again in 11.054s. visit", 11.054),
        ("please try again in 7m12s", 432.0),
        ("try again in 6m0s", 360.0),
        ("try again in 1 hour 5 minutes", 3900.0),
        ("please retry after 20 seconds", 20.0),
        ("please retry in 34.074824224s.", 34.074824224),
        ("retry after 1 min or 2 h", 60.0),
        ("try again later", None),
        ("try again in 3 months", None),
        ("try again in 12", None),
        ("wait 3 s", None),
        ("", None),
    ],
)
def test_what_an_error_asks_for_in_words(words: str, expected: float | None) -> None:
    assert wait_in_text(words) == expected


@given(st.text(alphabet='0123456789. smhinuteor"{', max_size=60))
def test_no_words_break_it(words: str) -> None:
    found = wait_in_text(f"try again in {words}")
    assert found is None or (found >= 0 and math.isfinite(found))
