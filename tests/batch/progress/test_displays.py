import io
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TextIO, cast

import pytest

from support.notebooks import Notebook
from support.process import Process
from support.terminal_emulator import Emulated
from toolcast.batch.progress.displays import (
    CallbackDisplay,
    LineDisplay,
    LogDisplay,
    NotebookDisplay,
    StreamDisplay,
    choose_display,
)
from toolcast.batch.progress.job_progress import ProgressSnapshot
from toolcast.batch.progress.rich_display import RichDisplay

HALF = ProgressSnapshot(done=50, total=100, failed=2, running=4, seconds=10, per_second=5.0, seconds_left=10.0)
END = replace(HALF, state="done", done=100, running=0, seconds=20.0, seconds_left=None)
XTERM = {"TERM": "xterm-256color"}


class Terminal(Emulated):
    """A terminal as a stream of its own encoding."""

    def __init__(self, columns: int, encoding: str = "utf-8") -> None:
        super().__init__(columns)
        self.encoding = encoding

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation

    def write(self, text: str) -> int:
        text.encode(self.encoding)
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def make(columns: int, encoding: str = "utf-8") -> Any:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        return Terminal(columns, encoding)

    return make


def as_text(terminal: Any) -> TextIO:
    return cast("TextIO", terminal)


def test_a_line_is_drawn_over_itself_and_messages_stay_above(terminal: Callable[..., Any]) -> None:
    screen = terminal(80)
    display = LineDisplay(screen)
    display.draw(ProgressSnapshot(done=1, total=100, seconds=1.0))
    display.draw(HALF)
    assert screen.lines == ["50/100 · 50 % · 0:10 left · 2 failed · 5.0/s · 4 running"]
    display.message("finishing 4 requests")
    display.draw(HALF)
    display.close(END)
    display.message("over")
    assert screen.lines == ["finishing 4 requests", "100/100 · 100 % · in 0:20 · 2 failed · 5.0/s", "over"]


def test_a_line_fits_a_narrow_terminal_and_its_encoding(terminal: Callable[..., Any]) -> None:
    screen = terminal(40, "ascii")
    display = LineDisplay(screen)
    display.draw(HALF)
    display.close(END)
    assert screen.lines == ["100/100 | 100 % | in 0:20 | 2 failed"]


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_rich_draws_two_lines_that_fit(terminal: Callable[..., Any], columns: int, encoding: str) -> None:
    screen = terminal(columns, encoding)
    display = RichDisplay(screen)
    display.draw(ProgressSnapshot(total=100))
    display.draw(HALF)
    display.message("finishing 4 requests [with brackets]")
    display.draw(HALF)
    above, first, second = screen.lines
    assert above == "finishing 4 requests [with brackets]"
    assert first.startswith("50/100 ")
    assert first.endswith("50 % 0:10 left" if columns > 40 else "0:10 left")
    assert ("━" in first) == (encoding == "utf-8" and columns > 40)
    assert second.startswith("2 failed | 5.0/s" if encoding == "ascii" else "2 failed · 5.0/s")
    assert screen.look("2 failed").fg == "red"
    display.close(END)
    assert screen.lines[0] == above
    assert "100 %" in screen.lines[1]
    assert len(screen.lines) == 3


def test_rich_draws_no_bar_without_a_total(terminal: Callable[..., Any]) -> None:
    screen = terminal(80)
    display = RichDisplay(screen)
    display.draw(ProgressSnapshot(done=7, seconds=3.0))
    display.close(ProgressSnapshot(done=7, seconds=3.0))
    assert screen.lines == ["7 items · 0:03"]


def test_rich_obeys_no_color(terminal: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(80)
    monkeypatch.setenv("NO_COLOR", "1")
    display = RichDisplay(screen)
    display.draw(HALF)
    display.close(END)
    assert screen.look("2 failed").fg == "default"


def test_what_the_program_prints_meanwhile_is_above_the_bar(
    terminal: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = terminal(80)
    monkeypatch.setattr(sys, "stdout", screen)
    display = RichDisplay(screen)
    display.draw(HALF)
    print("an outcome")
    display.draw(HALF)
    display.close(END)
    assert screen.lines[0] == "an outcome"
    assert screen.lines[1].startswith("100/100 ")
    assert sys.stdout is screen


def test_log_lines_and_lines_of_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    display = LogDisplay()
    assert display.every == 30.0
    with caplog.at_level(logging.INFO, "toolcast"):
        display.draw(HALF)
        display.close(END)
        display.message("finishing 4 requests")
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "batch job: 50 of 100 items, 0:10 left, 2 failed, 5.0/s, 4 running"),
        ("INFO", "batch job: 100 of 100 items, in 0:20, 2 failed, 5.0/s"),
        ("WARNING", "batch job: finishing 4 requests"),
    ]
    stream = io.StringIO()
    StreamDisplay(stream).close(END)
    assert stream.getvalue() == "100 of 100 items, in 0:20, 2 failed, 5.0/s\n"


def test_the_display_for_each_place(terminal: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    screen, pipe = as_text(terminal(80)), io.StringIO()
    assert choose_display(False, stream=screen, environ=XTERM) is None
    shown = choose_display(None, stream=screen, environ=XTERM)
    assert isinstance(shown, RichDisplay)
    assert (shown.delay > 0, shown.shows_short_jobs, shown.exclusive) == (True, False, True)
    at_once = choose_display(True, stream=screen, environ=XTERM)
    assert at_once is not None
    assert (at_once.delay, at_once.shows_short_jobs) == (0.0, True)
    for environ in ({"TERM": "dumb"}, {}):
        assert type(choose_display(None, stream=screen, environ=environ)) is LogDisplay
    assert type(choose_display(None, stream=pipe, environ=XTERM)) is LogDisplay
    assert type(choose_display(True, stream=pipe, environ=XTERM)) is StreamDisplay
    monkeypatch.setattr(sys, "stderr", None)
    assert type(choose_display(True)) is LogDisplay


def test_a_terminal_without_rich_has_one_line(terminal: Callable[..., Any], process: Process) -> None:
    process.without("rich")
    assert isinstance(choose_display(None, stream=as_text(terminal(80)), environ=XTERM), LineDisplay)


def test_a_function_gets_snapshots_and_messages_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    seen = list[ProgressSnapshot]()
    display = choose_display(seen.append)
    assert isinstance(display, CallbackDisplay)
    display.draw(HALF)
    display.close(END)
    assert seen == [HALF, END]
    display.message("finishing 4 requests")
    assert "finishing 4 requests" in caplog.text


def test_a_notebook_has_one_output_that_is_updated(notebook: Notebook) -> None:
    display = choose_display(None)
    assert isinstance(display, NotebookDisplay)
    display.draw(ProgressSnapshot(done=3, seconds=1.0))
    assert "progress value" not in notebook.frames[0].html
    display.draw(HALF)
    display.draw(HALF)
    assert len(notebook.frames) == 2  # nothing has changed
    assert notebook.frames[1].text == "50/100 · 50 % · 0:10 left · 2 failed · 5.0/s · 4 running"
    assert '<progress value="0.5000" max="1"' in notebook.frames[1].html
    display.message("resume with checkpoint='<a>'")
    display.close(END)
    assert notebook.frames[-1].text.splitlines()[1] == "resume with checkpoint='<a>'"
    assert "&lt;a&gt;" in notebook.frames[-1].html


def test_a_message_before_the_first_drawing_of_a_notebook(notebook: Notebook) -> None:
    display = choose_display(None)
    assert display is not None
    display.message("stopped")
    assert notebook.frames[0].text == "stopped"


def test_ipython_in_a_terminal_is_no_notebook(notebook: Notebook) -> None:
    notebook.shell.kernel = None
    assert type(choose_display(None, stream=io.StringIO())) is LogDisplay
