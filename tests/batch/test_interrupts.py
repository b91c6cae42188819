"""Tests of the handler of Ctrl-C that jobs share."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Generator
from threading import Thread
from typing import Any

import pytest

from toolcast.batch import job_run


class Job:
    """Counts its interrupts; only the first one has an effect."""

    def __init__(self) -> None:
        self.interrupts = 0

    def interrupt(self) -> bool:
        self.interrupts += 1
        return self.interrupts == 1


@pytest.fixture
def pressed() -> Generator[list[int]]:
    """The signals that reach the handler of the program."""
    found: list[int] = []

    def handler(number: int, frame: Any) -> None:
        found.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield found
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_first_interrupt_is_the_jobs_and_the_second_the_programs(pressed: list[int]) -> None:
    jobs = [Job(), Job()]
    for job in jobs:
        job_run.watch(job.interrupt)
    signal.raise_signal(signal.SIGINT)
    assert [job.interrupts for job in jobs] == [1, 1]
    assert pressed == []
    signal.raise_signal(signal.SIGINT)
    assert pressed == [signal.SIGINT]
    job_run.unwatch(jobs[0].interrupt)
    new = Job()
    job_run.watch(new.interrupt)
    signal.raise_signal(signal.SIGINT)
    assert (new.interrupts, pressed) == (1, [signal.SIGINT])
    job_run.unwatch(jobs[1].interrupt)
    job_run.unwatch(new.interrupt)


def in_thread(function: Any, *arguments: Any) -> None:
    thread = Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def test_a_job_of_another_thread_is_not_interrupted(pressed: list[int]) -> None:
    job = Job()
    in_thread(job_run.watch, job.interrupt)
    signal.raise_signal(signal.SIGINT)
    job_run.unwatch(job.interrupt)
    assert (job.interrupts, pressed) == (0, [signal.SIGINT])


def test_a_job_that_another_thread_ends(pressed: list[int]) -> None:
    """The handler stays until a job ends in the main thread; the program's one is called."""
    job, second = Job(), Job()
    job_run.watch(job.interrupt)
    in_thread(job_run.unwatch, job.interrupt)
    signal.raise_signal(signal.SIGINT)
    assert (job.interrupts, pressed) == (0, [signal.SIGINT])
    job_run.watch(second.interrupt)
    signal.raise_signal(signal.SIGINT)
    assert (second.interrupts, pressed) == (1, [signal.SIGINT])
    job_run.unwatch(second.interrupt)


def test_a_program_that_ignores_interrupts_goes_on_to_do_so() -> None:
    job = Job()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job_run.watch(job.interrupt)
        signal.raise_signal(signal.SIGINT)
        assert job.interrupts == 0
        job_run.unwatch(job.interrupt)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_the_program_sets_during_a_job_stays(pressed: list[int]) -> None:
    job = Job()
    own = signal.getsignal(signal.SIGINT)
    job_run.watch(job.interrupt)
    signal.signal(signal.SIGINT, own)
    signal.raise_signal(signal.SIGINT)
    assert (job.interrupts, pressed) == (0, [signal.SIGINT])
    job_run.unwatch(job.interrupt)
    assert signal.getsignal(signal.SIGINT) is own


def test_a_job_that_outlives_its_event_loop(pressed: list[int]) -> None:
    def interrupt() -> bool:
        return True

    async def begin() -> None:
        job_run.watch(interrupt)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where asyncio sets its own handler
    try:
        asyncio.run(begin())
        job_run.unwatch(interrupt)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_job_that_outlives_one_run_of_an_event_loop(pressed: list[int]) -> None:
    def interrupt() -> bool:
        return True

    async def begin() -> None:
        job_run.watch(interrupt)

    async def end() -> None:
        job_run.unwatch(interrupt)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where asyncio sets its own handler
    try:
        with asyncio.Runner() as runner:
            runner.run(begin())
            runner.run(end())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_job_without_asyncio(pressed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "asyncio")
    job = Job()
    job_run.watch(job.interrupt)
    job_run.unwatch(job.interrupt)
    assert pressed == []
