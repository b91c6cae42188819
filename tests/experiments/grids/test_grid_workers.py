"""Worker processes: their events, and that each ends by itself, however it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support import fake_runs
from support.experiments import config_in
from support.process import Process
from toolcast.experiments.grids import grid_workers
from toolcast.experiments.grids.grid_workers import Ending, GridJob, RunFunction, cores, run_jobs
from toolcast.experiments.log_events import LogEvent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the runs have their logs."""
    (tmp_path / "logs").mkdir()
    return tmp_path


def job(folder: Path, run: RunFunction, run_id: str = "first", **fields: Any) -> GridJob:
    return GridJob(config_in(folder, run_id=run_id, cycle_count=2), run=run, **fields)


def endings(received: Sequence[LogEvent | Ending]) -> dict[str, Ending]:
    return {each.run_id: each for each in received if isinstance(each, Ending)}


def only(jobs: GridJob) -> Ending:
    """Return how it ended; there must be no other event."""
    (ending,) = run_jobs([jobs])
    assert isinstance(ending, Ending)
    return ending


def is_gone(process: int) -> bool:
    """Whether a process that is no child of this one has ended, or does so soon."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 20)[0])
    finally:
        os.close(handle)


def test_events_are_received_without_messages(folder: Path) -> None:
    *events, ending = run_jobs([job(folder, fake_runs.cycles)])
    assert [(event.event_type, event.cycle_number, event.payload) for event in events] == [
        ("CYCLE_START", 1, {}),
        ("CYCLE_END", 1, {}),
        ("CYCLE_START", 2, {}),
        ("CYCLE_END", 2, {}),
        ("RUN_END", 0, {"status": "completed"}),
    ]
    assert events[1].measures == {"seconds": 0.5}
    assert {event.run_id for event in events} == {"first"}
    assert events[4].measures["process"] != os.getpid()
    assert isinstance(ending, Ending)
    assert (ending.run_id, ending.status, ending.error) == ("first", "completed", "")
    assert ending.seconds > 0
    assert {path.name for path in (folder / "logs").iterdir()} == {"first.done"}


def test_a_worker_knows_whether_to_resume(folder: Path) -> None:
    list(run_jobs([job(folder, fake_runs.cycles, resume=True)]))
    assert (folder / "logs" / "first.done").read_text() == "resumed: True"


def test_one_worker_does_one_job_after_the_other(folder: Path) -> None:
    received = list(run_jobs([job(folder, fake_runs.cycles, name) for name in ("a", "b", "c")], 1))
    assert [each.run_id for each in received] == ["a"] * 6 + ["b"] * 6 + ["c"] * 6


def test_workers_work_at_once(folder: Path) -> None:
    received = list(run_jobs([job(folder, fake_runs.meets, name) for name in ("a", "b")], 2))
    assert {each.status for each in endings(received).values()} == {"completed"}


def test_one_worker_for_each_core_by_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
    monkeypatch.setattr(grid_workers, "cores", lambda: 1)
    received = list(run_jobs([job(folder, fake_runs.cycles, name) for name in ("a", "b")]))
    assert [each.run_id for each in received] == ["a"] * 6 + ["b"] * 6


def test_no_jobs_are_soon_done() -> None:
    assert list(run_jobs([], 2)) == []


def test_what_a_run_prints_goes_to_a_file_and_no_one_answers_it(folder: Path) -> None:
    assert only(job(folder, fake_runs.prints)).status == "completed"
    assert (folder / "logs" / "first.stderr.txt").read_text().splitlines() == ["typed: ''", "an error"]


def test_relative_paths_begin_in_the_folder_of_the_job(folder: Path) -> None:
    only(GridJob(config_in(folder), run=fake_runs.report_place, folder=folder))
    assert (folder / "here").read_text() == str(folder)


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (fake_runs.fails, "no model \\x1b[31m for first"),
        (fake_runs.breaks, "KeyError: 'seed'"),
        (fake_runs.leaves, "its worker process ended with the status 3 in the middle of the run"),
        (fake_runs.has_an_alarm, "its worker process was killed (signal 35) in the middle of the run"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_went_wrong_is_reported(folder: Path, run: RunFunction, error: str) -> None:
    ending = only(job(folder, run))
    assert (ending.status, ending.error) == ("failed", error)


def test_a_job_that_no_worker_can_read_is_one_that_failed(folder: Path, process: Process) -> None:
    here = sys.path
    process.path([each for each in here if not each.endswith("tests")])
    ending = only(job(folder, fake_runs.cycles))
    assert ending.status == "failed"
    assert "No module named 'support'" in ending.error


def test_a_worker_that_dies_is_the_end_of_its_run_alone(folder: Path) -> None:
    runs = {"a": fake_runs.is_killed, "b": fake_runs.cycles, "c": fake_runs.cycles}
    received = list(run_jobs([job(folder, run, name) for name, run in runs.items()], 2))
    ended = endings(received)
    assert {name: ending.status for name, ending in ended.items()} == {
        "a": "failed",
        "b": "completed",
        "c": "completed",
    }
    assert ended["a"].error == ("its worker process was killed (SIGKILL) in the middle of the run. It printed: memory")
    assert [each for each in received if each.run_id == "a"][:-1] == [LogEvent("CYCLE_START", 1, {}, {}, "a")]


def test_a_worker_that_dies_before_it_has_its_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_workers, "_BEGIN", "raise SystemExit(5)")
    large = config_in(folder, system_prompt="x" * 2_000_000)
    ending = only(GridJob(large, run=fake_runs.cycles))
    assert (ending.status, ending.error) == (
        "failed",
        "its worker process ended with the status 5 in the middle of the run",
    )


def test_a_worker_that_cannot_be_started_is_a_run_that_failed(folder: Path) -> None:
    nowhere = job(folder / "nowhere", fake_runs.cycles, "a")
    received = endings(list(run_jobs([nowhere, job(folder, fake_runs.cycles, "b")], 1)))
    assert received["b"].status == "completed"
    assert received["a"].status == "failed"
    assert "no worker could be started for it" in received["a"].error
    assert "No such file" in received["a"].error


def test_what_a_worker_printed_is_reported_if_it_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "logs").rmdir()
    assert grid_workers._last_line(folder / "logs" / "first.stderr.txt") == ""


@pytest.fixture(params=[False, True], ids=["", "SIGINT blocked"])
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Processes inherit the signals that their parent ignores."""
    if request.param:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@pytest.mark.usefixtures("mask")
def test_closing_interrupts_what_still_runs(folder: Path) -> None:
    names = ["a", "b", "c"]
    with closing(run_jobs([job(folder, fake_runs.waits, name) for name in names], 2)) as happening:
        events = [next(happening), next(happening)]
    assert {event.run_id for event in events} == {"a", "b"}
    assert {path.name for path in (folder / "logs").iterdir()} == {"a.interrupted", "b.interrupted"}
    assert all(is_gone(event.measures["process"]) for event in events if isinstance(event, LogEvent))


def test_an_interrupt_from_elsewhere_is_reported(folder: Path) -> None:
    ending = only(job(folder, fake_runs.interrupts_itself))
    assert (ending.status, ending.error) == ("interrupted", "")


@pytest.mark.parametrize("run", [fake_runs.goes_on, fake_runs.stands_still])
def test_a_run_that_does_not_end_is_ended(folder: Path, run: RunFunction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_workers, "_MARGIN", 0.5)
    with closing(run_jobs([job(folder, run, grace=0.05)])) as happening:
        event = next(happening)
    assert isinstance(event, LogEvent)
    assert is_gone(event.measures["process"])


def test_a_process_that_cannot_leave_is_ended(folder: Path) -> None:
    event, ending = run_jobs([job(folder, fake_runs.cannot_leave, grace=0.05)])
    assert isinstance(event, LogEvent)
    assert isinstance(ending, Ending)
    assert ending.status == "completed"
    assert is_gone(event.measures["process"])


def test_ctrl_c_a_second_time_ends_all_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[float | None] = []
    join = threading.Thread.join

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        joined.append(timeout)
        if len(joined) == 1:
            raise KeyboardInterrupt
        join(thread, timeout)

    happening = run_jobs([job(folder, fake_runs.goes_on, name) for name in ("a", "b")], 2)
    events = [next(happening), next(happening)]
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        happening.close()
    assert all(is_gone(event.measures["process"]) for event in events if isinstance(event, LogEvent))


COORDINATOR = """
import pickle, sys
from toolcast.experiments.grids.grid_workers import run_jobs

for event in run_jobs(pickle.load(sys.stdin.buffer), 2):
    print(event.measures["process"], flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open")
def test_workers_whose_coordinator_is_killed_end(folder: Path) -> None:
    import pickle

    jobs = [job(folder, fake_runs.waits, name) for name in ("a", "b", "c")]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", COORDINATOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=path
    ) as coordinator:
        assert coordinator.stdin is not None and coordinator.stdout is not None
        coordinator.stdin.write(pickle.dumps(jobs))
        coordinator.stdin.close()
        processes = [int(coordinator.stdout.readline()) for _ in range(2)]
        coordinator.kill()
    assert all(map(is_gone, processes))
    assert {path.name for path in (folder / "logs").glob("*.interrupted")} == {"a.interrupted", "b.interrupted"}


def test_a_worker_that_is_not_wanted_leaves_by_itself(monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    done: list[object] = []
    monkeypatch.setattr(grid_workers, "_interrupt", lambda: done.append("interrupted"))
    process.call("_exit", done.append)
    line, parent = os.pipe()
    os.close(parent)
    grid_workers._watch(line, 0)
    os.close(line)
    assert done == ["interrupted", 1]
