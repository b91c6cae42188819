"""live_screen.py: what is on the terminal while runs are watched, and what is left there."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from support.run_logs import LogWriter
from toolcast.apps.experiment.live_screen import watch_runs
from toolcast.apps.experiment.watch_command import WatchedFolder, WatchedLog
from toolcast.experiments.log_reading import LogError


class Terminal(io.StringIO):
    """A terminal of 60 columns and 14 lines; `screens` are the pictures that were drawn on it."""

    def isatty(self) -> bool:
        return True

    @property
    def screens(self) -> list[str]:
        """What was written from one return of the cursor to the next."""
        return self.getvalue().split("\x1b[H")

    @property
    def left(self) -> str:
        """What was written after the second screen was left."""
        return self.getvalue().rpartition("\x1b[?1049l")[2]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in {"COLUMNS": "60", "LINES": "14", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    return Terminal()


def test_the_screen_is_drawn_until_the_run_has_ended(tmp_path: Path, terminal: Terminal) -> None:
    path, waited = tmp_path / "sea.jsonl", list[float]()

    def goes_on(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 1:
            LogWriter(path, "sea").start().begin().log.close()
        elif len(waited) == 2:
            writer = LogWriter(path, "sea", cycle=1)
            writer.event("CYCLE_END", {"final_reflection": "I saw the sea."})
            writer.event("RUN_END", {"status": "completed"})

    assert watch_runs(WatchedLog(path), terminal, goes_on) == 0
    assert len(waited) == 2
    *_, waiting, running, ended = terminal.screens
    assert "Waiting: the log" in waiting and "Ctrl-C leaves the view" in waiting
    assert "invoke_llm" in running and "1/3" in running and "Ctrl-C leaves the view" in running
    assert "completed" in ended and "I saw the sea." in ended
    assert "I saw the sea." in terminal.left and "Ctrl-C" not in terminal.left


def test_ctrl_c_leaves_the_last_picture(tmp_path: Path, terminal: Terminal) -> None:
    LogWriter(tmp_path / "sea.jsonl", "sea").start().begin()

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch_runs(WatchedLog(tmp_path / "sea.jsonl"), terminal, interrupted)
    assert "invoke_llm" in terminal.left
    with pytest.raises(KeyboardInterrupt):
        watch_runs(WatchedLog(tmp_path / "none.jsonl"), terminal, interrupted)
    assert "none" not in terminal.left


def test_a_log_that_cannot_be_read_leaves_the_second_screen(tmp_path: Path, terminal: Terminal) -> None:
    (tmp_path / "sea.jsonl").write_text("nonsense\n")
    with pytest.raises(LogError):
        watch_runs(WatchedLog(tmp_path / "sea.jsonl"), terminal)
    assert terminal.getvalue().count("\x1b[?1049h") == terminal.getvalue().count("\x1b[?1049l") == 1


def test_where_there_is_no_room_there_is_no_hint(tmp_path: Path, terminal: Terminal) -> None:
    for number in range(20):
        LogWriter(tmp_path / f"sea-{number}.jsonl", f"sea-{number}").start().event("RUN_END", {"status": "completed"})
    assert watch_runs(WatchedFolder(tmp_path), terminal) == 0
    assert "and 11 more" in terminal.screens[-1] and "Ctrl-C" not in terminal.getvalue()
