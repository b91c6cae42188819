"""The schedules of the controller against simulated services, beside the best possible ones. All times are virtual."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from support.simulated_services import LIMITS, Bucket, FixedWindow, Item, Service, best_end, run
from toolcast.batch.pacing.rate_controller import Controller, Permit
from toolcast.batch.pacing.rate_limit_headers import LimitReading


def controller(rpm: float | None = None, tpm: float | None = None, most: int | None = None) -> Controller:
    made = Controller()
    made.set_limits(*([] if limit is None else [limit] for limit in (rpm, tpm)), [] if most is None else [most])
    return made


def items(count: int, seed: int = 1) -> Sequence[Item]:
    """Items whose inputs and outputs have very different sizes, and are estimated wrongly."""
    chance, made = random.Random(seed), list[Item]()
    for _ in range(count):
        tokens = int(chance.lognormvariate(5, 0.8)) + 5
        estimate = max(1, int(tokens * chance.uniform(0.6, 1.2)))
        made.append(Item(tokens, int(chance.lognormvariate(3.5, 0.7)) + 1, estimate))
    return made


@pytest.mark.parametrize("rpm", [60, 600])
@pytest.mark.parametrize("server", LIMITS)
def test_limits_by_hand(server: str, rpm: int) -> None:
    every = [Item()] * (rpm * 10)
    best = best_end(Service([("requests", LIMITS[server](rpm))]), every)
    found = run(Service([("requests", LIMITS[server](rpm))]), controller(rpm), every)
    assert len(found.accepted) == len(every)
    assert found.end < 1.05 * best
    assert found.refused_share < (0.03 if server == "bucket of 10 s" else 0.001)


@pytest.mark.parametrize("rpm", [60, 600])
@pytest.mark.parametrize("server", LIMITS)
def test_limits_of_headers(server: str, rpm: int) -> None:
    every = [Item()] * (rpm * 10)
    best = best_end(Service([("requests", LIMITS[server](rpm))]), every)
    found = run(Service([("requests", LIMITS[server](rpm))], reports=True), controller(), every)
    assert found.end < 1.05 * best
    assert found.refused_share < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("server", LIMITS)
@pytest.mark.parametrize("source", ["hand", "headers"])
def test_limits_of_tokens(server: str, source: str) -> None:
    """Sizes that vary much, and are only estimated before."""

    def service() -> Service:
        limits = [("requests", LIMITS[server](600)), ("tokens", LIMITS[server](90_000))]
        return Service(limits, reports=source == "headers")  # type: ignore[arg-type]  # two of the literals

    every = items(12_000)
    found = run(service(), controller(600, 90_000) if source == "hand" else controller(), every)
    # A sliding window is recognized by its second reset, a minute late.
    slower = 1.07 if (server, source) == ("sliding window", "headers") else 1.05
    assert found.end < slower * best_end(service(), every)
    assert found.refused_share < 0.02


@pytest.mark.parametrize("rpm", [60, 600])
@pytest.mark.parametrize("retry_after", [True, False])
@pytest.mark.parametrize("server", LIMITS)
def test_unknown_limits(server: str, retry_after: bool, rpm: int) -> None:
    service = Service([("requests", LIMITS[server](rpm))], retry_after=retry_after)
    found = run(service, controller(), [Item()] * (rpm * 30), until=900)
    assert found.between(60, 900) > 0.8 * rpm * 14
    assert found.refused_share < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("retry_after", [True, False])
@pytest.mark.parametrize("server", LIMITS)
def test_unknown_limits_of_tokens(server: str, retry_after: bool) -> None:
    service = Service([("tokens", LIMITS[server](90_000))], retry_after=retry_after)
    every = items(12_000)
    mean = sum(item.input_tokens + item.output_tokens for item in every) / len(every)
    found = run(service, controller(), every, until=900)
    assert found.between(60, 900) * mean > 0.8 * 90_000 * 14
    assert found.refused_share < 0.02


def test_a_limit_that_changes_is_found_again() -> None:
    server = Bucket(600, capacity=20)
    service = Service([("requests", server)])

    def latency(chance: random.Random) -> float:
        server.limit = 600 if server.at < 600 else 1800
        return chance.uniform(1, 2)

    service.latency = latency
    found = run(service, controller(), [Item()] * 40_000, until=1500)
    assert found.between(300, 600) > 0.8 * 5 * 600
    assert found.between(1200, 1500) > 0.8 * 5 * 1800
    assert found.refused_share < 0.02


@pytest.mark.parametrize("slots", [4, 32])
def test_a_service_that_queues_is_not_flooded(slots: int) -> None:
    """Its capacity is used, and what waits in it stays in proportion to that."""
    found = run(
        Service(slots=slots, latency=lambda chance: chance.uniform(1, 2)), controller(), [Item()] * 20_000, until=600
    )
    assert found.between(60, 600) > 0.95 * 540 * slots / 1.5
    assert found.most_in_flight < 16 * slots
    assert found.refused == []


def test_a_service_that_refuses_more_at_once() -> None:
    found = run(Service(slots=32, most=64), controller(), [Item()] * 20_000, until=600)
    assert found.refused_share < 0.02
    assert found.between(60, 600) > 0.8 * 540 * 32 / 1.47


def test_without_limits_the_concurrency_doubles_with_each_round() -> None:
    found = run(Service(latency=lambda chance: 1.0), controller(), [Item()] * 3000)
    assert found.most_in_flight == 1000
    assert found.end < 12


@pytest.mark.parametrize("most", [1, 7])
def test_never_more_at_once_than_by_hand(most: int) -> None:
    found = run(Service(latency=lambda chance: 1.0), controller(most=most), [Item()] * 100)
    assert found.most_in_flight == most


@settings(deadline=None, max_examples=15)
@given(
    st.integers(12, 200),
    st.sampled_from([*LIMITS]),
    st.booleans(),
    st.booleans(),
    st.floats(0.01, 20),
    st.integers(0, 1000),
)
def test_every_request_is_accepted_in_the_end(
    rpm: int, server: str, reports: bool, retry_after: bool, latency: float, seed: int
) -> None:
    service = Service(
        [("requests", LIMITS[server](rpm))],
        latency=lambda chance: latency * chance.uniform(0.5, 2),
        reports=reports,
        retry_after=retry_after,
    )
    found = run(service, controller(), [Item()] * (rpm * 2), seed)
    assert len(found.accepted) == rpm * 2
    assert found.end < 600 + 20 * latency


def admitted(control: Controller, now: float, **options: bool) -> Permit:
    found = control.admit(10, None, now, **options)
    assert isinstance(found, Permit)
    return found


def test_what_limits_is_named() -> None:
    control = controller()
    assert control.limited_by(0) is None
    permits = [admitted(control, 0) for _ in range(4)]
    assert control.limited_by(0) == "service"
    assert control.admit(10, None, 0) is None
    control.accepted(permits[0], 1)
    control.accepted(permits[0], 1)
    assert control.concurrency == 5
    control.set_limits([], [], [5])
    permits.append(admitted(control, 1))
    assert control.limited_by(1) == "concurrency"
    control.refused(permits[1], 30.0, 0.5, 1)
    assert control.limited_by(2) == "service"
    assert control.admit(10, None, 2) == pytest.approx(29.25)


def test_a_concurrency_by_hand_is_used_at_once() -> None:
    control = controller(most=50)
    assert control.concurrency == 50
    control.refused(admitted(control, 0), None, 0.5, 1)
    assert control.concurrency < 50
    control.set_limits([], [], [80])  # what the service takes is known by now
    assert control.concurrency < 50


def test_a_known_limit_is_named() -> None:
    control = controller(rpm=1)
    admitted(control, 0)
    assert control.limited_by(1) == "rate limit"
    control.set_limits([], [], [])
    assert control.limited_by(1) is None
    control.set_limits([5], [5], [])
    control.set_limits([5], [5], [])
    assert control.limited_by(1) is None  # a request that is larger than the limit is sent alone
    admitted(control, 1)
    control.set_limits([5], [5], [])
    assert control.limited_by(1) == "rate limit"


def test_the_learned_rate_is_named() -> None:
    control = controller()
    first, second = admitted(control, 0), admitted(control, 0)
    control.accepted(first, 1)
    control.refused(second, 0.0, 0.0, 1)
    control.ended(first, 1)
    control.ended(second, 1)
    admitted(control, 1)
    assert control.limited_by(1.1) == "service"
    assert isinstance(control.admit(10, None, 1.1, nested=True), float)


def test_a_nested_request_does_not_wait_for_the_concurrency() -> None:
    control = controller(most=1)
    admitted(control, 0)
    assert control.admit(10, None, 0) is None
    assert admitted(control, 0, nested=True)
    assert control.in_flight == 2


def test_a_learned_rate_is_forgotten() -> None:
    control = controller()
    first, second = admitted(control, 0), admitted(control, 0)
    control.accepted(first, 1)
    control.refused(second, None, 1.0, 1)
    assert control._rate == 0.95
    for permit in (first, second):
        control.ended(permit, 2)
    admitted(control, 1e6)
    assert control._rate is None


def test_a_service_that_refuses_everything_is_probed() -> None:
    """No rate follows from that. The pauses grow up to half a minute."""
    control, now, waits = controller(), 0.0, list[float]()
    for _ in range(9):
        permit = admitted(control, now)
        control.refused(permit, None, 1.0, now)
        control.ended(permit, now)
        wait = control.admit(10, None, now)
        assert isinstance(wait, float)
        waits.append(wait)
        now += wait
    assert waits == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30, 30])
    assert control._rate is None


def test_tokens_are_corrected_by_what_is_reported() -> None:
    control = controller(tpm=10_000)
    assert control.tokens.expected(100, None) == (100, 500)
    assert control.tokens.expected(100, 50) == (100, 50)
    for now in range(100):
        permit = admitted(control, now * 60)
        control.ended(permit, now * 60, 20, 40)
    inputs, outputs = control.tokens.expected(100, None)
    assert inputs == pytest.approx(200, rel=0.1)
    assert outputs == pytest.approx(40)
    assert control.tokens.error < 5


def test_a_refused_request_used_no_tokens() -> None:
    control = controller(tpm=600)
    permit = admitted(control, 0)
    assert control.limited_by(0) == "rate limit"
    control.refused(permit, 0.0, 0.0, 0)
    control.ended(permit, 0)
    assert control.limited_by(0.1) != "rate limit"


def test_a_reported_limit_explains_a_refusal() -> None:
    control = controller()
    permit = admitted(control, 0)
    for remaining in (1, 0):
        control.read(permit, [LimitReading("requests", 10, remaining, 30, 60)], 0)
    control.refused(permit, None, 0.0, 0)
    assert control._rate is None
    assert control.limited_by(5) == "rate limit"


def test_known_limits_explain_four_refusals_in_a_row() -> None:
    control, rates = controller(tpm=1e6), list[float | None]()
    first = admitted(control, 0)
    control.accepted(first, 0)
    control.ended(first, 0)
    for now in range(1, 6):
        permit = admitted(control, now)
        control.refused(permit, 0.0, 0.0, now)
        control.ended(permit, now)
        rates.append(control._rate)
    assert [rate is None for rate in rates] == [True] * 4 + [False]


@pytest.mark.parametrize(("seconds", "window"), [(25, 20), (35, 16)])
def test_responses_three_times_as_slow_shrink_the_window(seconds: float, window: float) -> None:
    control = controller()
    control._set_window(20)
    for each in [10.0] * 8 + [seconds] * 20:
        control._measure(each)
    assert control._window == window


def test_the_phase_of_a_window_does_not_matter() -> None:
    for phase in (0.0, 1.0, 59.0):
        found = run(Service([("requests", FixedWindow(60, phase=phase))]), controller(60), [Item()] * 300)
        assert found.refused == []
