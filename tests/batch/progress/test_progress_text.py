from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from toolcast.batch.progress import progress_text
from toolcast.batch.progress.job_progress import ProgressSnapshot
from toolcast.values.prices import StoredCost
from toolcast.values.usage import Usage

RUNNING = ProgressSnapshot(
    done=1240,
    failed=3,
    running=32,
    total=10_000,
    seconds=36,
    per_second=34.5,
    seconds_left=254,
    usage=Usage(900_000, 310_000),
    cost=Decimal("1.24"),
    projected_cost=Decimal("10.02"),
    concurrency=40,
    limited_by="rate limit",
)


def test_everything_is_shown_where_there_is_room() -> None:
    assert progress_text.one_line(RUNNING, 130) == (
        "1,240/10,000 · 12 % · 4:14 left · 3 failed · 34.5/s · $1.24 of about $10.02 · 1.2M tokens"
        " · 32 of 40 running (rate limit)"
    )


def test_a_narrow_terminal_loses_the_least_important_parts_first() -> None:
    assert (
        progress_text.one_line(RUNNING, 79)
        == "1,240/10,000 · 12 % · 4:14 left · 3 failed · 34.5/s · $1.24 of about $10.02"
    )
    assert progress_text.one_line(RUNNING, 39) == "1,240/10,000 · 4:14 left · 3 failed"
    assert progress_text.one_line(RUNNING, 12) == "1,240/10,000"
    assert progress_text.one_line(RUNNING, 5) == "1,240"
    assert progress_text.one_line(RUNNING, 0) == ""
    assert progress_text.heading(RUNNING, 40) == "1,240/10,000 · 12 % · 4:14 left"
    assert progress_text.details(RUNNING, 40) == "3 failed · $1.24 of about $10.02"


@given(st.integers(0, 300), st.sampled_from([" · ", " | "]))
def test_no_line_is_longer_than_its_width(width: int, separator: str) -> None:
    for line in (progress_text.one_line, progress_text.heading, progress_text.details):
        assert len(line(RUNNING, width, separator)) <= width


def test_the_states_of_a_job() -> None:
    assert progress_text.sentence(RUNNING).startswith("1,240 of 10,000 items, 4:14 left, 3 failed, 34.5/s")
    finishing = replace(RUNNING, state="finishing", seconds_left=None)
    assert "0:36, 3 failed, finishing 32," in progress_text.sentence(finishing)
    assert "running" not in progress_text.sentence(finishing)
    done = replace(RUNNING, state="done", done=10_000, running=0, seconds=290, seconds_left=None, from_checkpoint=200)
    done = replace(done, projected_cost=done.cost)
    assert progress_text.sentence(done) == (
        "10,000 of 10,000 items, in 4:50, 3 failed, 34.5/s, $1.24, 1.2M tokens, 200 from checkpoint"
    )
    unsized = ProgressSnapshot(done=5, running=2, seconds=7)
    assert progress_text.sentence(unsized) == "5 items, 0:07, 2 running"
    assert progress_text.one_line(unsized, 80) == "5 items · 0:07 · 2 running"


def test_percent_reaches_100_only_at_the_end() -> None:
    assert progress_text.percent(replace(RUNNING, done=9_999)) == "99 %"
    assert progress_text.percent(replace(RUNNING, done=10_000)) == "100 %"
    assert progress_text.percent(replace(RUNNING, total=None)) == ""


def test_a_budget_replaces_the_projection() -> None:
    assert "34.5/s, $1.24 of $5.00, 1.2M" in progress_text.sentence(replace(RUNNING, budget="$1.24 of $5.00"))


def test_costs_that_are_partly_known_or_nothing() -> None:
    part = Usage(10, 10) + Usage(1, 1, pricing=StoredCost(Decimal("0.5")))
    assert "at least $0.50" in progress_text.sentence(ProgressSnapshot(usage=part))
    assert "$" not in progress_text.sentence(ProgressSnapshot(usage=Usage(10, 10)))
    assert "$" not in progress_text.sentence(
        ProgressSnapshot(usage=Usage(10, 10), cost=Decimal(0), projected_cost=Decimal(0))
    )
    assert "$1.24," in progress_text.sentence(replace(RUNNING, projected_cost=None))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "0:00"), (59.6, "1:00"), (254, "4:14"), (3723, "1:02:03"), (172_799, "47:59:59"), (273_600, "3 d 4 h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert progress_text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("12.3", "$12.30"),
        ("1234.5", "$1,234.50"),
        ("0.0042", "$0.0042"),
        ("0.000012", "$0.00001200"),
        ("0", "$0.00"),
    ],
)
def test_amounts_of_money(amount: str, shown: str) -> None:
    assert progress_text.money(Decimal(amount)) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(940, "940"), (12_400, "12.4k"), (999_400, "999k"), (1_210_000, "1.2M"), (3_000_000_000, "3.0G")],
)
def test_counts(count: int, shown: str) -> None:
    assert progress_text.number(count) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"), [(1240.4, "1,240/s"), (34.5, "34.5/s"), (0.2, "12.0/min"), (0.005, "18.0/h")]
)
def test_rates(per_second: float, shown: str) -> None:
    assert progress_text.rate(per_second) == shown
