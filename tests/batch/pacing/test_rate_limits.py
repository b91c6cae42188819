"""Limits by hand never let more through than a window has; reported ones follow the service's count."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolcast.batch.pacing.rate_limit_headers import LimitReading
from toolcast.batch.pacing.rate_limits import HandLimit, ReportedLimit


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0.1, 9)), max_size=60))
def test_no_window_has_more_than_the_limit(requests: list[tuple[float, float]]) -> None:
    limit, now, sent = HandLimit(20, 10), 0.0, list[tuple[float, float]]()
    for pause, amount in requests:
        now += pause
        while (wait := limit.wait(amount, now)) > 0:
            now += wait + 1e-9
        limit.add(amount, now)
        sent.append((now, amount))
    for end, _ in sent:
        assert sum(amount for time, amount in sent if end - 10 < time <= end) <= 20 + 1e-6


def test_what_is_larger_than_the_limit_waits_for_an_empty_window() -> None:
    limit = HandLimit(10, 10)
    assert limit.wait(99, 0) == 0
    limit.add(99, 0)
    assert limit.wait(1, 1) == limit.wait(99, 1) == pytest.approx(9.04)
    assert limit.wait(99, 10.05) == 0


def test_settled_amounts_count() -> None:
    limit = HandLimit(10, 10)
    entry = limit.add(9, 0)
    assert limit.wait(5, 1) > 0
    limit.settle(entry, -7)
    assert limit.wait(5, 1) == 0
    limit.add(1, 20)
    assert limit.wait(1, 20) == 0
    limit.settle(entry, 1000)  # its period is over
    assert limit.wait(5, 20) == 0


def test_a_refusal_halves_the_period_at_the_same_rate() -> None:
    limit = HandLimit(15, 60)
    assert limit.refused()
    assert (limit.limit, limit.period) == (7, 28)
    assert limit.refused()
    assert limit.refused()
    assert (limit.limit, limit.period) == (1, 4)
    assert not limit.refused()
    assert limit.given == 15


def reported(**fields: object) -> ReportedLimit:
    values = {"limit": 10, "remaining": 4, "reset": 30, "period": 60, "gradual": False} | fields
    return ReportedLimit(LimitReading("requests", **values), 5, 100, 100)  # type: ignore[arg-type]  # of several types


def test_what_was_sent_since_counts() -> None:
    limit = reported()
    assert limit.wait(1, 8, 100) == 0
    assert limit.wait(1, 9, 100) == pytest.approx(30.1)
    assert limit.wait(1, 9, 130.2) == 0
    assert limit.wait(1, 18, 130.2) == 0
    assert limit.wait(1, 19, 130.2) == 60


def test_a_bucket_is_refilled() -> None:
    limit = reported(gradual=True)
    assert limit.wait(1, 8, 100) == 0
    assert limit.wait(1, 9, 100) == 6
    assert limit.wait(1, 9, 106) == 0
    assert limit.wait(10, 9, 1000) == 0
    assert limit.wait(10, 19, 1000) == 60  # what flowed over is gone
    assert limit.wait(99, 9, 1000) == 0  # no request is larger than the bucket


def test_a_late_reading_is_ignored() -> None:
    limit = reported()
    limit.read(LimitReading("requests", 10, 9, 30, 60), 4, 101, 101)
    assert limit.wait(1, 9, 101) > 0
    limit.read(LimitReading("requests", 10, 9, 30, 60), 6, 101, 101)
    assert limit.wait(1, 9, 101) == 0


def test_without_a_limit_the_reset_counts() -> None:
    limit = reported(limit=None)
    assert limit.wait(1, 8, 100) == 0
    assert limit.wait(1, 9, 100) == pytest.approx(30.1)
    assert limit.wait(1, 99, 131) == 0


def test_without_a_reset_the_limit_comes_back_gradually() -> None:
    limit = reported(reset=None)
    assert limit.wait(1, 8, 100) == 0
    assert limit.wait(1, 9, 100) == 6


def test_a_sliding_window_is_recognized_by_its_reset() -> None:
    """What was sent a minute ago comes back, though the reset moves on with each request."""
    limit = ReportedLimit(LimitReading("requests", 10, 9, 60, 60), 1, 0, 0)
    limit.read(LimitReading("requests", 10, 5, 60, 60), 5, 10, 10)
    assert limit.wait(1, 5, 10) == 0
    limit.read(LimitReading("requests", 10, 0, 60, 60), 10, 20, 20)
    assert limit.wait(1, 10, 20) == pytest.approx(50.24)
    assert limit.wait(1, 10, 70.3) == 0
    assert limit.wait(5, 10, 70.3) == 0
    assert limit.wait(6, 10, 70.3) == pytest.approx(9.8)


@given(st.floats(1, 60), st.lists(st.tuples(st.floats(0, 90), st.floats(0, 20)), max_size=30), st.booleans())
def test_a_fixed_window_is_not_taken_for_a_sliding_one(
    end: float, requests: list[tuple[float, float]], late: bool
) -> None:
    """Its reset is rounded, and written before or after a response of any length."""
    limit: ReportedLimit | None = None
    for mark, (sent_at, seconds) in enumerate(sorted(requests)):
        written = sent_at + seconds * late
        reset = round((end - written) % 60)
        reading = LimitReading("requests", 1000, 500, reset, 60)
        if limit is None:
            limit = ReportedLimit(reading, mark, sent_at, sent_at + seconds)
        else:
            limit.read(reading, mark, sent_at, sent_at + seconds)
        assert not limit._slides
