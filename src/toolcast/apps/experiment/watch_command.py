"""`toolcast experiment watch`: a live view of runs whose logs another process writes.

    toolcast experiment watch logs/first-run.jsonl
    toolcast experiment watch logs/temperatures

The screen is drawn in place until the runs have ended; its last picture stays. A log that does not exist yet is waited
for. `--once`, and a stdout that is no terminal, get one snapshot as text. The exit code is 0 if all runs completed, 1
if one did not, and 130 after Ctrl-C. Nothing is written to the logs, and no lock is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO, cast

from ...experiments.log_reading import LogError, LogFollower, LogMissing
from ...experiments.run_progress import RunProgress
from ...text.live_display import can_redraw
from .run_screen import Line, encodable, grid_view, plain, run_view

if TYPE_CHECKING:
    from .live_screen import WatchedRuns

_SCAN: Final = 8
"""The polls from one search for new logs in a folder to the next."""

_INTERRUPTED: Final = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast experiment watch`."""
    parser.add_argument("log", metavar="LOG", help="the log of a run, or a folder with the logs of a grid")
    parser.add_argument("--once", action="store_true", help="print how the runs are now, as text, and end")


def run(arguments: argparse.Namespace) -> int:
    """Show the runs until they have ended, and return the exit code."""
    path = Path(arguments.log)
    watched: WatchedRuns = WatchedFolder(path) if path.is_dir() or not path.suffix else WatchedLog(path)
    if arguments.once or not can_redraw(sys.stdout):
        return print_once(watched, sys.stdout)
    try:
        return _watch(watched, sys.stdout)
    except KeyboardInterrupt:
        return _INTERRUPTED


class FollowedRun:
    """The progress of one run, by its log. `cycle_count` is used until the log has it."""

    def __init__(self, path: Path, cycle_count: int | None = None) -> None:
        self.progress: RunProgress = RunProgress(path.stem, cycle_count)
        self.follower: LogFollower = LogFollower(path)
        self._restarts = 0

    def poll(self) -> None:
        """Add what was written to the log since the last call. Raises `LogError` for a line that is no event."""
        for event in self.follower.new_events():
            if self._restarts != self.follower.restarts:
                self._restarts = self.follower.restarts
                self.progress = RunProgress(self.follower.path.stem)
            self.progress.apply(event)


class WatchedLog:
    """The run of one log."""

    def __init__(self, path: Path) -> None:
        self._run = FollowedRun(path)

    def poll(self) -> None:
        """Read what was added."""
        self._run.poll()

    @property
    def missing(self) -> LogMissing | None:
        """The error that the log does not exist, or has no event yet."""
        if self._run.progress.has_begun:
            return None
        path = self._run.follower.path
        found = "has no event yet" if self._run.follower.exists else "does not exist"
        return LogMissing(f"the log {path} {found}. Is its path right, and has its run begun?", path=path)

    @property
    def exit_code(self) -> int | None:
        """None while the run goes on, or else 0 if it is completed, and 1."""
        return _exit_code([self._run.progress])

    def lines(self, width: int, height: int, now: float) -> list[Line]:
        """Return the lines that show the run."""
        return run_view(self._run.progress, width, now)[:height]


class WatchedFolder:
    """The runs of a folder: its logs, and the runs of a grid that have not begun, by their `config.json`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs: dict[Path, FollowedRun] = {}
        self._foreign: set[Path] = set()
        self._polls = 0

    def poll(self) -> None:
        """Read what was added to the logs, and from time to time look for new ones. A file that is no log is skipped.

        Raises:
            LogError: For a log that has been damaged.
        """
        if self._polls % _SCAN == 0:
            for path in _logs_below(self._path):
                if path not in self._foreign and path not in self._runs:
                    self._runs[path] = FollowedRun(path, _cycle_count(path.with_name("config.json")))
        self._polls += 1
        for path, run in [*self._runs.items()]:
            try:
                run.poll()
            except LogError as error:
                if run.progress.has_begun or isinstance(error.__cause__, OSError):
                    raise
                del self._runs[path]
                self._foreign.add(path)

    @property
    def missing(self) -> LogMissing | None:
        """The error that the folder has no log."""
        if any(run.progress.has_begun for run in self._runs.values()):
            return None
        return LogMissing(f"no log of a run in {self._path}. Is its path right, and has a run begun?", path=self._path)

    @property
    def exit_code(self) -> int | None:
        """None while a run goes on, or else 0 if all are completed, and 1."""
        return _exit_code([run.progress for run in self._runs.values()])

    def lines(self, width: int, height: int, now: float) -> list[Line]:
        """Return the lines that show the runs; those of a single one show it in detail."""
        runs = [run.progress for run in self._runs.values()]
        return run_view(runs[0], width, now)[:height] if len(runs) == 1 else grid_view(runs, width, height, now)


def print_once(watched: WatchedRuns, stream: TextIO) -> int:
    """Print the runs as they are now, and return 0.

    Raises:
        LogError: There is no log, or it cannot be read.
    """
    watched.poll()
    if (missing := watched.missing) is not None:
        raise missing
    width = get_terminal_size((80, 24)).columns if stream.isatty() or "COLUMNS" in os.environ else 100
    lines = watched.lines(width, sys.maxsize, time.time())
    print(plain(encodable(lines, stream.encoding)), file=stream)
    return 0


def _logs_below(folder: Path) -> Iterator[Path]:
    """Yield the paths of the logs below the folder, by their names, those to be written to by a grid included."""
    for place, folders, names in os.walk(folder):
        folders.sort(key=_counted)
        here = Path(place)
        if "config.json" in names:
            yield here / f"{here.name}.jsonl"
        yield from (here / name for name in sorted(names, key=_counted) if name.endswith(".jsonl"))


def _counted(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts a name by the numbers in it: `run-2` before `run-10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _cycle_count(config: Path) -> int | None:
    """Return the number of cycles in the configuration of a run, as a grid writes it; None if there is none."""
    with suppress(OSError, ValueError):
        found: Any = json.loads(config.read_bytes())
        count: object = cast("Mapping[str, Any]", found).get("cycle_count") if isinstance(found, dict) else None
        return count if type(count) is int else None
    return None


def _exit_code(runs: Sequence[RunProgress]) -> int | None:
    if not runs or any(run.status is None for run in runs):
        return None
    return 0 if all(run.status == "completed" for run in runs) else 1


def _watch(watched: WatchedRuns, stream: TextIO) -> int:
    if find_spec("rich") is None:
        raise ImportError(
            "the live view needs rich: pip install 'toolcast[experiments]'; --once prints how the runs are now",
            name="rich",
        )
    from .live_screen import watch_runs

    previous = signal.signal(signal.SIGTERM, _leave)
    try:
        return watch_runs(watched, stream)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _leave(signum: int, frame: object) -> NoReturn:
    """End the program as SIGTERM does, after the terminal has been restored."""
    raise SystemExit(128 + signum)
