"""What workers may be given to do in tests, instead of an experiment: each function is a run."""

from __future__ import annotations

import atexit
import os
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event

from toolcast.errors import ToolcastError
from toolcast.experiments.experiment_config import ExperimentConfig
from toolcast.experiments.grids.grid_workers import EventCallback
from toolcast.experiments.log_events import LogEvent


def cycles(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """A run that logs each cycle, and writes a file."""
    for number in range(1, config.cycle_count + 1):
        on_event(LogEvent("CYCLE_START", number, {"text": "much"}, {}, config.run_id))
        on_event(LogEvent("CYCLE_END", number, {"text": "much"}, {"seconds": 0.5}, config.run_id))
    on_event(LogEvent("RUN_END", 0, {"status": "completed"}, {"process": os.getpid()}, config.run_id))
    (config.log_folder / f"{config.run_id}.done").write_text(f"resumed: {resume}")


def meets(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Goes on once there is another run: alone it would wait for ever."""
    (config.log_folder / f"{config.run_id}.here").touch()
    while len(list(config.log_folder.glob("*.here"))) < 2:
        pass


def prints(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Prints, and reads what is typed."""
    print(f"typed: {sys.stdin.read()!r}", flush=True)
    os.write(2, b"an error\n")


def fails(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    raise ToolcastError(f"no model \x1b[31m for {config.run_id}")


def breaks(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    raise KeyError("seed")


def leaves(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    sys.exit(3)


def is_killed(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Die in the middle of the output, as a process does that the OOM killer ends."""
    on_event(LogEvent("CYCLE_START", 1, {}, {}, config.run_id))
    for file in range(3, 20):
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(file).st_mode):
                os.write(file, b'{"event_ty')
    print("out of\nmemory\n\n", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def has_an_alarm(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    os.kill(os.getpid(), signal.SIGRTMIN + 1)


def waits(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Waits for ever, and leaves a file when it is interrupted."""
    try:
        on_event(LogEvent("CYCLE_START", 1, {}, {"process": os.getpid()}, config.run_id))
        Event().wait()
    except KeyboardInterrupt:
        (config.log_folder / f"{config.run_id}.interrupted").touch()
        raise


def interrupts_itself(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    signal.raise_signal(signal.SIGINT)


def goes_on(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Does not end when it is interrupted."""
    on_event(LogEvent("CYCLE_START", 1, {}, {"process": os.getpid()}, config.run_id))
    while True:
        with suppress(KeyboardInterrupt):
            Event().wait()


def stands_still(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Does nothing more at all."""
    on_event(LogEvent("CYCLE_START", 1, {}, {"process": os.getpid()}, config.run_id))
    os.kill(os.getpid(), signal.SIGSTOP)


def cannot_leave(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    """Ends, and its process does not."""
    on_event(LogEvent("CYCLE_START", 1, {}, {"process": os.getpid()}, config.run_id))
    atexit.register(Event().wait)


def report_place(config: ExperimentConfig, resume: bool, on_event: EventCallback) -> None:
    Path("here").write_text(str(Path.cwd()))
