import logging
from queue import Queue
from threading import Event

import pytest

from toolcast.batch.progress.job_progress import JobProgress, ProgressSnapshot
from toolcast.batch.progress.reporter import ProgressReporter


class Recorder:
    """A display that records its calls."""

    delay = 5.0
    every = 1.0

    def __init__(self, *, exclusive: bool = False, shows_short_jobs: bool = False) -> None:
        self.exclusive = exclusive
        self.shows_short_jobs = shows_short_jobs
        self.calls: list[str] = []

    def draw(self, snapshot: ProgressSnapshot) -> None:
        self.calls.append(f"draw {snapshot.done}")

    def close(self, snapshot: ProgressSnapshot) -> None:
        self.calls.append(f"close {snapshot.state}")

    def message(self, text: str) -> None:
        self.calls.append(text)


class Ticks:
    """Waits that end when the test lets them."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._asks: Queue[float] = Queue()
        self._ends: Queue[bool] = Queue()

    def wait(self, seconds: float) -> bool:
        self._asks.put(seconds)
        return self._ends.get(timeout=30)

    def asks(self) -> None:
        """Wait until the thread waits."""
        self.asked.append(self._asks.get(timeout=30))

    def end(self, *, over: bool = False) -> None:
        self._ends.put(over)


def reporter(display: Recorder | None, ticks: Ticks | None = None) -> tuple[JobProgress, ProgressReporter]:
    account = JobProgress()
    account.begin(3, 0.0)
    return account, ProgressReporter(account, display, lambda: 0.0, None if ticks is None else ticks.wait)


def test_progress_is_drawn_after_the_delay_and_at_the_pace_of_the_display() -> None:
    display, ticks = Recorder(), Ticks()
    account, shown = reporter(display, ticks)
    shown.start()
    for _ in range(2):
        ticks.asks()
        ticks.end()
    ticks.asks()
    shown.message("hello")
    ticks.end(over=True)
    account.end(1.0)
    shown.stop()
    shown.stop()
    assert ticks.asked == [5.0, 1.0, 1.0]
    assert display.calls == ["draw 0", "draw 0", "hello", "close done"]


@pytest.mark.parametrize("shows_short_jobs", [False, True])
def test_a_job_that_ends_before_the_delay(shows_short_jobs: bool) -> None:
    display = Recorder(shows_short_jobs=shows_short_jobs)
    _, shown = reporter(display)
    shown.start()
    shown.stop()
    assert display.calls == (["close running"] if shows_short_jobs else [])


def test_messages_without_a_display_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    _, shown = reporter(None)
    shown.start()
    shown.message("finishing")
    shown.stop()
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", "batch job: finishing")]


class Failing(Recorder):
    def draw(self, snapshot: ProgressSnapshot) -> None:
        super().draw(snapshot)
        raise OSError("the terminal is gone")


def test_a_display_that_fails_is_left_out_and_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    display, ticks = Failing(exclusive=True), Ticks()
    _, shown = reporter(display, ticks)
    shown.start()
    ticks.asks()
    ticks.end()
    ticks.asks()
    ticks.end()  # the thread ends by itself
    shown.stop()
    assert display.calls == ["draw 0"]
    assert "its progress is no longer shown (OSError: the terminal is gone)" in caplog.text
    other = Recorder(exclusive=True, shows_short_jobs=True)  # the terminal is free again
    _, second = reporter(other)
    second.start()
    second.stop()
    assert other.calls == ["close running"]


def test_a_second_job_on_a_terminal_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Recorder(exclusive=True), Recorder(exclusive=True, shows_short_jobs=True)
    _, one = reporter(first)
    _, two = reporter(second)
    one.start()
    two.start()
    with caplog.at_level(logging.INFO, "toolcast"):
        two.message("finishing")
        two.stop()
    one.stop()
    assert second.calls == []
    assert "finishing" in caplog.text


def test_a_job_may_end_in_the_thread_that_draws() -> None:
    """The garbage collection that ends an abandoned job runs in any thread."""
    display, ended = Recorder(), Event()
    account = JobProgress()

    def wait(seconds: float) -> bool:
        shown.stop()
        ended.set()
        return True

    shown = ProgressReporter(account, display, lambda: 0.0, wait)
    shown.start()
    assert ended.wait(30)
    assert display.calls == []
