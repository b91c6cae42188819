"""Ray executor of a grid: each run is a task for one CPU, in a process of its own.

The process is the one of grid_workers.py, so that a run is the same on a cluster and here: a task only forwards the
messages, as a stream. With RAY_ADDRESS set, that cluster is used; otherwise one is started here for this grid. All
machines must have the same folders, packages and keys: only the configuration is sent.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Protocol, cast

from ...errors import ToolcastError
from ..log_events import LogEvent
from .grid_workers import Ending, GridJob, cores, error_line, run_jobs as run_locally

_OBJECT_STORE: Final = 80 * 1024 * 1024  # little more than Ray's least: events are small
_LATE: Final = 5.0


class _Stream(Protocol):
    """The references to the values that a task yields."""

    def __next__(self) -> object: ...

    def completed(self) -> object: ...


class _Ray(Protocol):
    """The part of Ray's interface that is used."""

    init: Callable[..., object]
    remote: Callable[..., Callable[[Callable[..., object]], Any]]

    def is_initialized(self) -> bool: ...

    def wait(
        self, waitables: Sequence[object], *, num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Any], list[Any]]: ...

    def get(self, reference: object) -> Any: ...

    def cancel(self, stream: object) -> None: ...

    def shutdown(self) -> None: ...


def run_jobs(jobs: Sequence[GridJob], workers: int | None = None) -> Generator[LogEvent | Ending]:
    """Run `jobs` and yield their events as they happen, and the ending of each; see grid_workers.py.

    `workers` is None for as many as the cluster has capacity for, or one for each core of a cluster that is started
    here. Raises `ImportError` without Ray, and `ToolcastError` if the cluster of RAY_ADDRESS cannot be reached.
    """
    ray = _ray()
    with _cluster(ray, workers or cores()):
        task = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_run)
        waiting, streams = deque(jobs), dict[_Stream, GridJob]()
        try:
            while waiting or streams:
                while waiting and len(streams) < (workers or len(jobs)):
                    job = waiting.popleft()
                    streams[task.remote(job)] = job
                for stream in ray.wait(list(streams))[0]:
                    message = _next(ray, stream, streams[stream])
                    if isinstance(message, Ending):
                        del streams[stream]
                    yield message
        finally:
            _cancel(ray, streams)


def _run(job: GridJob) -> Iterator[LogEvent | Ending]:
    """Run one job in a process of its own, as a Ray task."""
    yield from run_locally([job], 1)


def _next(ray: _Ray, stream: _Stream, job: GridJob) -> LogEvent | Ending:
    try:
        return cast("LogEvent | Ending", ray.get(next(stream)))
    except Exception as error:  # Ray: an error of a task becomes the result of its run
        return Ending(job.run_id, "failed", f"its Ray task failed: {error_line(error)}")


def _cancel(ray: _Ray, streams: dict[_Stream, GridJob]) -> None:
    """Interrupt unfinished runs, and wait until they have ended."""
    for stream in streams:
        ray.cancel(stream)
    if streams:
        timeout = max(job.grace for job in streams.values()) + _LATE
        ray.wait([stream.completed() for stream in streams], num_returns=len(streams), timeout=timeout)


@contextmanager
def _cluster(ray: _Ray, cpus: int) -> Generator[None]:
    """Connect to the caller's cluster, to that of RAY_ADDRESS, or to one that is started for this grid."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS", "")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address:
            _join(ray, address, quiet)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(
                address="local", num_cpus=cpus, include_dashboard=False, object_store_memory=_OBJECT_STORE, **quiet
            )
        yield
    finally:
        ray.shutdown()


def _join(ray: _Ray, address: str, quiet: dict[str, Any]) -> None:
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ToolcastError(
            f"there is no Ray cluster at RAY_ADDRESS={address!r}: {error_line(error)}. "
            "Start one (ray start --head), or unset the variable to have one started here."
        ) from error


def _ray() -> _Ray:
    try:
        return cast("_Ray", import_module("ray"))
    except ImportError as error:
        raise ImportError("runs on Ray need Ray: pip install 'toolcast[ray]'", name="ray") from error
