"""Local executor of a grid: worker processes, one for each run, so many of them at once.

A worker is a new interpreter, never a fork: models and threads do not survive a fork. It reads its job from its
standard input, which stays open: when that is closed, because the run is cancelled or the parent process is dead, the
run is interrupted as by Ctrl-C, and its log has that. Events go to its standard output, a line of JSON for each and a
last one with the ending of the run. A worker that exits without that line has crashed; that ends its run and no other.
Other output of the worker goes to a file beside the log.
"""

from __future__ import annotations

import _thread
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, Final, Protocol, TypeAlias, cast

from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import visible
from ...tools.tool_results import truncate
from ..experiment_config import ExperimentConfig
from ..log_events import LogEvent, RunStatus

_POLL: Final = 0.5
_MARGIN: Final = 2.0
_PAYLOAD_KEYS: Final = frozenset(
    ("resumed", "first_cycle", "kind", "limit", "stage", "error_type", "message", "status", "cycles_completed")
)
_BEGINNING: Final = 200  # of a reflection
_TAIL: Final = 2_000
_MAX_ERROR: Final = 2_000
_BEGIN: Final = (
    "import os, pickle, sys; out = os.dup(1); os.dup2(2, 1); sys.path[:], job = pickle.load(sys.stdin.buffer); "
    "from toolcast.experiments.grids.grid_workers import run_worker; run_worker(job, out)"
)

EventCallback: TypeAlias = Callable[[LogEvent], object]


class RunFunction(Protocol):
    """The function that a worker runs: of a module, because the worker imports it by name."""

    def __call__(self, config: ExperimentConfig, resume: bool, on_event: EventCallback, /) -> object: ...


def run_experiment(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Run the experiment of `config` to its end."""
    from ..runner import ExperimentRunner

    runner = ExperimentRunner(config, resume=resume)
    runner.prepare()
    runner.run(listener=on_event)


@dataclass(frozen=True, slots=True)
class GridJob:
    """One run for a worker.

    `folder` is the base of relative paths; `grace` is the time in seconds for an interrupted run to end.
    """

    config: ExperimentConfig
    resume: bool = False
    run: RunFunction = run_experiment
    folder: Path = field(default_factory=Path.cwd)
    grace: float = 10.0

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.config.run_id

    @property
    def stderr_path(self) -> Path:
        """The file of the worker's other output, if there is any."""
        return self.folder / self.config.log_path.with_suffix(".stderr.txt")


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a job's run. `error` is the reason if it failed."""

    run_id: str
    status: RunStatus
    error: str = ""
    seconds: float = 0.0


class Executor(Protocol):
    """The interface of executors: `workers` jobs at once, or as many as there is capacity for."""

    def __call__(self, jobs: Sequence[GridJob], workers: int | None, /) -> Generator[LogEvent | Ending]: ...


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def run_jobs(jobs: Sequence[GridJob], workers: int | None = None) -> Generator[LogEvent | Ending]:
    """Run `jobs` and yield their events as they happen, and the ending of each. `workers`: None for one a core.

    Closing the generator interrupts unfinished runs. Payloads are reduced to the keys that are needed to report an end.
    """
    waiting, running, messages = deque(jobs), set[_Worker](), SimpleQueue["_WorkerMessage"]()
    try:
        while waiting or running:
            while waiting and len(running) < (workers or cores()):
                job = waiting.popleft()
                try:
                    running.add(_Worker(job, messages))
                except OSError as error:
                    yield Ending(job.run_id, "failed", f"no worker could be started for it: {error}")
            for worker, message in _next(messages) if running else ():
                if isinstance(message, Ending):
                    running.discard(worker)
                yield message
    finally:
        _interrupt_all(running)


def without_messages(on_event: EventCallback) -> EventCallback:
    """Return a callback for `hear` with reduced payloads, for transfer between processes: messages stay in the log."""

    def reduced(event: LogEvent) -> None:
        payload = {key: value for key, value in event.payload.items() if key in _PAYLOAD_KEYS}
        if "final_reflection" in event.payload:
            payload["final_reflection"] = event.payload["final_reflection"].strip()[:_BEGINNING]
        on_event(replace(event, payload=payload))

    return reduced


class _Worker:
    """A process with one job, and the thread that reads its output and ends with it."""

    def __init__(self, job: GridJob, messages: SimpleQueue[_WorkerMessage]) -> None:
        self.job: GridJob = job
        self._messages = messages
        self._began = time.monotonic()
        with job.stderr_path.open("wb") as printed:
            # A session of its own: Ctrl-C at the terminal is for this process, which then tells its workers.
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-c", _BEGIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                cwd=job.folder,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self._line = cast("BinaryIO", self.process.stdin)
        with suppress(BrokenPipeError):  # it is dead already, as the thread will find
            self._line.write(pickle.dumps((sys.path, pickle.dumps(job))))
            self._line.flush()
        self._thread = threading.Thread(target=self._read_output, daemon=True)
        self._thread.start()

    def dismiss(self) -> None:
        """Interrupt the run."""
        with suppress(BrokenPipeError):
            self._line.close()

    def join(self, seconds: float) -> None:
        """Wait for the process to end, and kill it after that time."""
        try:
            self._thread.join(seconds)
        finally:
            if self._thread.is_alive():
                self.process.kill()
                self._thread.join()

    def _read_output(self) -> None:
        ending: Ending | None = None
        for line in cast("BinaryIO", self.process.stdout):
            if line.endswith(b"\n"):  # else it died while it wrote
                message = _read(json.loads(line), self.job)
                if isinstance(message, Ending):
                    ending = message
                else:
                    self._messages.put((self, message))
        self._finish()
        seconds = time.monotonic() - self._began
        self._messages.put((self, replace(ending or self._crashed(), seconds=seconds)))

    def _finish(self) -> None:
        """Wait for the process, which has closed its output, and kill it if it does not end."""
        self.dismiss()
        try:
            self.process.wait(self.job.grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        cast("BinaryIO", self.process.stdout).close()
        with suppress(OSError):
            if not self.job.stderr_path.stat().st_size:
                self.job.stderr_path.unlink()

    def _crashed(self) -> Ending:
        code = self.process.returncode
        how = f"was killed ({_signal_name(-code)})" if code < 0 else f"ended with the status {code}"
        printed = f". It printed: {last}" if (last := _last_line(self.job.stderr_path)) else ""
        return Ending(self.job.run_id, "failed", f"its worker process {how} in the middle of the run{printed}")


_WorkerMessage: TypeAlias = tuple[_Worker, "LogEvent | Ending"]


def _next(messages: SimpleQueue[_WorkerMessage]) -> Iterator[_WorkerMessage]:
    """Yield the next message, or nothing after a timeout. Some interrupts (Ray's) do not wake an endless wait."""
    with suppress(Empty):
        yield messages.get(timeout=_POLL)


def _interrupt_all(running: Iterable[_Worker]) -> None:
    """Interrupt all running workers, and wait until they have ended. A second Ctrl-C kills them at once."""
    try:
        for worker in running:
            worker.dismiss()
        asked = time.monotonic()
        for worker in running:
            worker.join(max(0.0, asked + worker.job.grace + _MARGIN - time.monotonic()))
    finally:
        for worker in running:
            worker.join(0)


def _read(line: Any, job: GridJob) -> LogEvent | Ending:
    """Parse a message of a worker."""
    return LogEvent.from_dict(line) if "event_type" in line else Ending(job.run_id, line["status"], line["error"])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(path: Path) -> str:
    """Return the last line of a file that is not blank, escaped for a terminal."""
    try:
        text = path.read_bytes()[-_TAIL:].decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    return visible(lines[-1].strip()) if lines else ""


# In the worker.


def run_worker(pickled: bytes, out: int) -> None:
    """Run the job in the worker process, and report its ending. `out` is the descriptor for the messages."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(AttributeError):  # Windows has none of these masks
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent process may have blocked it
    line = os.dup(0)
    with Path(os.devnull).open("rb") as nothing:  # code that reads the standard input finds its end
        os.dup2(nothing.fileno(), 0)
    with suppress(OSError), os.fdopen(out, "wb") as listener:
        emit = partial(_write_message, listener)
        emit(_run_job(pickled, line, emit))


def _run_job(pickled: bytes, line: int, emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run the job until `line` is closed, and return its ending."""
    status: RunStatus = "failed"
    error = ""
    try:
        job: GridJob = pickle.loads(pickled)
        threading.Thread(target=_watch, args=(line, job.grace), daemon=True).start()
        job.run(job.config, job.resume, without_messages(lambda event: emit(event.to_dict())))
        status = "completed"
    except KeyboardInterrupt:
        status = "interrupted"
    except Exception as raised:  # an error of the run is reported to the parent process
        error = error_line(raised)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return {"status": status, "error": error}


def _write_message(listener: BinaryIO, line: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the parent process has ended, and `_watch` interrupts the run
        listener.write(json.dumps(line).encode() + b"\n")
        listener.flush()


def _watch(line: int, grace: float) -> None:
    """Interrupt the run when `line` is closed; nothing is ever written to it."""
    os.read(line, 1)
    _interrupt()
    threading.Event().wait(grace)
    os._exit(1)


def _interrupt() -> None:
    """Raise `KeyboardInterrupt` in the main thread, also while it waits in a system call."""
    main = cast("int", threading.main_thread().ident)
    _thread.interrupt_main() if sys.platform == "win32" else signal.pthread_kill(main, signal.SIGINT)


def error_line(error: Exception) -> str:
    """Describe an error in one line for a terminal."""
    kind = "" if isinstance(error, ToolcastError) and str(error) else f"{type(error).__name__}: "
    return visible(truncate(f"{kind}{error}", _MAX_ERROR))
