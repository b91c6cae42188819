"""Runs on Ray, as far as that needs no Ray: a stand-in of it runs the tasks here. See ray/ for the real one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import fake_runs
from support.experiments import config_in
from support.process import Process
from toolcast.errors import ToolcastError
from toolcast.experiments.grids.grid import run_grid
from toolcast.experiments.grids.grid_workers import Ending, GridJob, RunFunction
from toolcast.experiments.grids.ray_workers import run_jobs
from toolcast.experiments.log_events import LogEvent


class Stream:
    """What a task yields, as Ray hands it out: references, which are values here."""

    def __init__(self, yields: Iterator[object], crash: Exception | None) -> None:
        self.yields, self.crash = yields, crash

    def __next__(self) -> Callable[[], object]:
        if self.crash:
            crash = self.crash

            def raises() -> object:
                raise crash

            return raises
        value = next(self.yields)
        return lambda: value

    def completed(self) -> Stream:
        return self


class FakeRay:
    """As much of Ray as is used. `crashes` are the runs whose tasks crash, `refuses` what connecting raises."""

    def __init__(self) -> None:
        self.inits: list[dict[str, Any]] = []
        self.options: dict[str, Any] = {}
        self.crashes: set[str] = set()
        self.refuses: Exception | None = None
        self.connected = False
        self.started = self.most = self.at_work = self.shutdowns = 0
        self.waited: list[float | None] = []

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, **options: Any) -> None:
        self.inits.append(options)
        if self.refuses:
            raise self.refuses
        self.connected = True

    def shutdown(self) -> None:
        self.connected = False
        self.shutdowns += 1

    def remote(self, **options: Any) -> Callable[[Callable[[GridJob], Iterator[object]]], Any]:
        self.options = options

        def decorated(task: Callable[[GridJob], Iterator[object]]) -> Any:
            def begun(job: GridJob) -> Stream:
                self.started += 1
                return Stream(task(job), ChildProcessError("the node is gone") if job.run_id in self.crashes else None)

            return SimpleNamespace(remote=begun)

        return decorated

    def wait(
        self, waitables: Sequence[Stream], *, num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Stream], list[Stream]]:
        self.waited.append(timeout)
        self.most = max(self.most, len(waitables))
        return list(waitables[:num_returns]), list(waitables[num_returns:])

    def get(self, reference: Callable[[], object]) -> object:
        return reference()

    def cancel(self, stream: Stream) -> None:
        stream.yields.close()  # type: ignore[attr-defined]  # the task is a generator


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, process: Process) -> FakeRay:
    fake = FakeRay()
    process.module("ray", fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    return fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


def jobs(folder: Path, run: RunFunction, *names: str) -> list[GridJob]:
    return [GridJob(config_in(folder, run_id=name, cycle_count=1), run=run) for name in names]


def endings(received: Sequence[LogEvent | Ending]) -> dict[str, str]:
    return {each.run_id: each.status for each in received if isinstance(each, Ending)}


def test_each_run_is_a_task_in_a_cluster_of_its_own(ray: FakeRay, folder: Path) -> None:
    received = list(run_jobs(jobs(folder, fake_runs.cycles, "a", "b", "c"), 2))
    assert endings(received) == {"a": "completed", "b": "completed", "c": "completed"}
    assert [each.event_type for each in received if isinstance(each, LogEvent) and each.run_id == "b"] == [
        "CYCLE_START",
        "CYCLE_END",
        "RUN_END",
    ]
    assert (ray.options["num_cpus"], ray.options["max_retries"]) == (1, 0)
    assert (ray.most, ray.shutdowns, ray.connected) == (2, 1, False)
    (cluster,) = ray.inits
    assert (cluster["address"], cluster["num_cpus"]) == ("local", 2)
    assert not cluster["include_dashboard"]
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_cluster_that_is_named_is_joined(ray: FakeRay, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    received = list(run_jobs(jobs(folder, fake_runs.cycles, "a", "b", "c")))
    assert set(endings(received)) == {"a", "b", "c"}
    assert ray.most == 3, "the cluster limits how many run at once"
    (cluster,) = ray.inits
    assert cluster["address"] == "10.0.0.1:6379"
    assert "num_cpus" not in cluster
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ


def test_a_cluster_that_the_program_has_joined_is_used_and_kept(ray: FakeRay, folder: Path) -> None:
    ray.connected = True
    assert endings(list(run_jobs(jobs(folder, fake_runs.cycles, "a"), 1))) == {"a": "completed"}
    assert (ray.inits, ray.shutdowns, ray.connected) == ([], 0, True)


def test_a_cluster_that_is_not_there_is_reported(ray: FakeRay, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    ray.refuses = ConnectionError("timed out")
    with pytest.raises(ToolcastError, match=r"no Ray cluster at RAY_ADDRESS='10.0.0.1:6379'.*timed out.*ray start"):
        list(run_jobs(jobs(folder, fake_runs.cycles, "a")))


def test_a_task_that_crashes_is_one_run_that_failed(ray: FakeRay, folder: Path) -> None:
    ray.crashes.add("a")
    received = list(run_jobs(jobs(folder, fake_runs.cycles, "a", "b"), 1))
    assert endings(received) == {"a": "failed", "b": "completed"}
    assert received[0] == Ending("a", "failed", "its Ray task failed: ChildProcessError: the node is gone")


def test_closing_cancels_the_tasks(ray: FakeRay, folder: Path) -> None:
    with closing(run_jobs(jobs(folder, fake_runs.waits, "a", "b"), 1)) as happening:
        next(happening)
    assert {path.name for path in (folder / "logs").iterdir()} == {"a.interrupted"}
    assert ray.started == 1
    assert ray.waited[-1] is not None and ray.waited[-1] > 10
    assert not ray.connected


def test_without_ray_the_error_names_what_to_install(folder: Path, process: Process) -> None:
    process.without("ray")
    config = config_in(folder, grid={"history": ["full"]})
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[ray\]'"):
        run_grid(config, executor="ray")
