"""One timer for all the waits of an answer rings when the wait that is on has been too long, and never else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolcast.async_support.deadlines import Deadline


class Loop:
    """An event loop's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self, when, call))
        return self.timers[-1]

    def until(self, now: float) -> None:
        """Move on, ringing what is due."""
        while due := [timer for timer in self.timers if timer.at <= now]:
            first = min(due, key=Timer.when)
            self.now = max(self.now, first.at)
            first.cancel()
            first.call()
        self.now = now


class Timer:
    def __init__(self, loop: Loop, at: float, call: Callable[[], None]) -> None:
        self.loop = loop
        self.at = at
        self.call = call

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        if self in self.loop.timers:
            self.loop.timers.remove(self)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def alarm_of(loop: Loop) -> Deadline:
    fake: Any = loop
    return Deadline(fake)


def test_a_wait_that_is_too_long(loop: Loop) -> None:
    rung: list[float] = []
    alarm_of(loop).wait(5, lambda: rung.append(loop.now))
    loop.until(104.9)
    assert rung == []
    loop.until(200)
    assert rung == [105]
    assert loop.timers == []


def test_one_timer_serves_a_thousand_waits(loop: Loop) -> None:
    alarm = alarm_of(loop)
    for _ in range(1000):
        alarm.wait(5, pytest.fail)
        assert len(loop.timers) == 1
        loop.until(loop.now + 4)
        alarm.rest()
    loop.until(loop.now + 10)
    assert loop.timers == []


def test_a_shorter_wait_winds_the_timer_back(loop: Loop) -> None:
    rung: list[float] = []
    alarm = alarm_of(loop)
    alarm.wait(50, pytest.fail)
    alarm.wait(5, lambda: rung.append(loop.now))
    assert [timer.at for timer in loop.timers] == [105]
    loop.until(200)
    assert rung == [105]


def test_a_wait_without_a_limit(loop: Loop) -> None:
    alarm = alarm_of(loop)
    alarm.wait(5, pytest.fail)
    alarm.wait(None, pytest.fail)
    loop.until(10_000)
    alarm.stop()
    alarm.wait(5, pytest.fail)
    alarm.stop()
    assert loop.timers == []
