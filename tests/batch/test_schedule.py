"""Tests of `Schedule`: the order of rows and outcomes, and the bounds on both."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from toolcast.batch import schedule as schedules
from toolcast.batch.inputs import InputRow
from toolcast.batch.outcome import Outcome
from toolcast.batch.schedule import WINDOW, Schedule


def row(index: int) -> InputRow:
    return InputRow(index, str(index), {"text": str(index)})


def outcome(index: int) -> Outcome[int]:
    return Outcome(index, str(index), str(index), index)


class ScheduleMachine(RuleBasedStateMachine):
    """Rows in any order of start and end: each has one outcome, in order, and no more is in memory than allowed."""

    @initialize(limit=st.integers(1, 4), ordered=st.booleans())
    def begin(self, limit: int, ordered: bool) -> None:
        self.ordered = ordered
        self.schedule: Schedule[int] = Schedule(limit=limit, ordered=ordered)
        self.read = 0
        self.pending: set[int] = set()
        self.running: list[int] = []
        self.waiting: list[int] = []  # for an equal row
        self.finished: list[int] = []
        self.taken: list[int] = []
        self.input_ended = False
        self.error: BaseException | None = None

    @precondition(lambda self: self.schedule.wanted)
    @rule()
    def add(self) -> None:
        self.schedule.add(row(self.read))
        self.pending.add(self.read)
        self.read += 1

    @precondition(lambda self: self.schedule.wanted)
    @rule()
    def add_finished(self) -> None:
        self.schedule.add_finished(outcome(self.read))
        self.finished.append(self.read)
        self.read += 1

    @precondition(lambda self: self.schedule.wanted and self.running)
    @rule()
    def add_waiting(self) -> None:
        self.schedule.add_waiting()
        self.waiting.append(self.read)
        self.read += 1

    @rule()
    def start(self) -> None:
        startable = self.schedule.startable
        started = self.schedule.start()
        assert (started is not None) == startable
        if started is not None:
            self.pending.remove(started.index)
            self.running.append(started.index)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), copied=st.booleans())
    def finish(self, data: Any, copied: bool) -> None:
        """A row ends; the rows that wait get copies, or the first of them starts."""
        index = data.draw(st.sampled_from(self.running))
        if copied:
            while self.waiting:
                other = self.waiting.pop(0)
                self.schedule.answer(outcome(other))
                self.finished.append(other)
        elif self.waiting:
            other = self.waiting.pop(0)
            self.schedule.resume(row(other))
            self.pending.add(other)
        self.running.remove(index)
        self.schedule.finish(outcome(index))
        self.finished.append(index)

    @precondition(lambda self: self.running and self.schedule.stopped)
    @rule(data=st.data())
    def abandon(self, data: Any) -> None:
        self.running.remove(data.draw(st.sampled_from(self.running)))
        self.schedule.abandon()

    @rule()
    def take(self) -> None:
        ready = self.schedule.ready
        taken = self.schedule.take()
        assert (taken is not None) == (ready > 0)
        if taken is None:
            return
        if not self.ordered:
            assert taken.index == self.finished[0]
        elif not self.schedule.stopped:
            assert taken.index == len(self.taken)
        else:
            assert taken.index > max(self.taken, default=-1)
        self.finished.remove(taken.index)
        self.taken.append(taken.index)

    @rule(fails=st.booleans())
    def end_input(self, fails: bool) -> None:
        error = OSError("disk") if fails else None
        self.schedule.end_input(error)
        self.input_ended = True
        self.error = self.error or error

    @rule(error=st.sampled_from([None, ValueError("x")]))
    @precondition(lambda self: self.read > 5)
    def stop(self, error: BaseException | None) -> None:
        self.schedule.stop(error)
        self.error = self.error or error

    @rule(limit=st.integers(1, 4))
    def limit(self, limit: int) -> None:
        self.schedule.limit = limit

    @invariant()
    def bounds(self) -> None:
        schedule = self.schedule
        assert schedule.running == len(self.running)
        assert 0 <= schedule.ready <= len(self.finished)
        assert self.read - len(self.taken) <= schedules.WINDOW
        assert schedule.error is self.error
        if self.input_ended or schedule.stopped:
            assert schedule.wanted == 0
            assert not schedule.wants_rows_soon
        if schedule.stopped or len(self.running) >= schedule.limit:
            assert not schedule.startable

    @invariant()
    def progress(self) -> None:
        """While something is left, one of the consumer and the workers has something to do."""
        schedule = self.schedule
        left = self.pending or self.waiting or not self.input_ended
        drained = not self.running and (schedule.stopped or not left)
        assert schedule.ended == (drained and not self.finished)
        assert schedule.ended or self.running or schedule.ready or schedule.startable or schedule.wanted

    def teardown(self) -> None:
        """The job runs to its end."""
        if not hasattr(self, "schedule"):
            return
        self.end_input(fails=False)
        for _ in range(10 * self.read + 10):
            if self.schedule.ended:
                break
            self.start()
            if self.running:
                index = self.running.pop()
                for other in self.waiting:
                    self.schedule.answer(outcome(other))
                    self.finished.append(other)
                self.waiting.clear()
                self.schedule.finish(outcome(index))
                self.finished.append(index)
            self.take()
        assert self.schedule.ended
        assert len(set(self.taken)) == len(self.taken)
        if not self.schedule.stopped:
            assert sorted(self.taken) == list(range(self.read))


@pytest.fixture(autouse=True)
def small_window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state machine reaches the end of a small window."""
    if "runTest" in request.node.name:
        monkeypatch.setattr(schedules, "WINDOW", 8)


TestSchedule = ScheduleMachine.TestCase


def test_a_slow_item_bounds_the_rows_that_are_read() -> None:
    schedule: Schedule[int] = Schedule(limit=2, ordered=True)
    index = 0
    while schedule.wanted:
        schedule.add(row(index))
        index += 1
        started = schedule.start()
        if started is not None and started.index:
            schedule.finish(outcome(started.index))
    assert index == WINDOW
    assert schedule.take() is None
    schedule.finish(outcome(0))
    assert [schedule.take() for _ in range(3)] == [outcome(0), outcome(1), outcome(2)]
    assert schedule.wanted > 0


def test_no_item_starts_for_a_consumer_that_lags_behind() -> None:
    schedule: Schedule[int] = Schedule(limit=3, ordered=False)
    for index in range(3):
        schedule.add(row(index))
    while (started := schedule.start()) is not None:
        schedule.add(row(started.index + 3))
        schedule.finish(outcome(started.index))
    assert schedule.ready == 3
    assert not schedule.startable
    schedule.take()
    assert schedule.startable


def test_after_a_stop_the_outcomes_have_gaps_where_rows_did_not_start() -> None:
    schedule: Schedule[int] = Schedule(limit=2, ordered=True)
    schedule.add(row(0))
    schedule.add(row(1))
    schedule.add_finished(outcome(2))
    schedule.add_waiting()
    assert schedule.start() == row(0)
    schedule.stop(ValueError("first"))
    schedule.stop(ValueError("second"))
    assert schedule.take() is None
    schedule.finish(outcome(0))
    assert [schedule.take(), schedule.take(), schedule.take()] == [outcome(0), outcome(2), None]
    assert schedule.ended
    assert str(schedule.error) == "first"
