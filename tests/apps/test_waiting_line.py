"""The line that shows that a command waits for the model."""

from __future__ import annotations

import io
import os
import threading

import pytest

from toolcast.apps.waiting_line import WaitingLine


class _Terminal(io.StringIO):
    """A terminal of 80 columns that records what is written."""

    encoding = "utf-8"

    def __init__(self, *, is_terminal: bool = True, fails: bool = False) -> None:
        super().__init__()
        self.drawn = threading.Event()
        self._is_terminal, self._fails = is_terminal, fails

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        if "Waiting" in text:
            self.drawn.set()
        if self._fails:
            raise OSError("gone")
        return super().write(text)


@pytest.fixture(autouse=True)
def term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_the_line_is_drawn_in_place_and_erased() -> None:
    terminal, times = _Terminal(), iter([100.0, *[103.4] * 100])
    with WaitingLine("Waiting for m", terminal, clock=lambda: next(times)) as waiting:
        assert terminal.drawn.wait(10)
        assert list(waiting.until_first(["one", "two"])) == ["one", "two"]
        waiting.stop()
    written = terminal.getvalue()
    assert "Waiting for m · 3 s · Ctrl-C to stop" in written
    assert written.endswith("\r\x1b[K")
    assert "\n" not in written
    assert "toolcast-waiting-line" not in {thread.name for thread in threading.enumerate()}


def test_the_line_ends_where_nothing_comes() -> None:
    terminal = _Terminal()
    with WaitingLine("Waiting", terminal) as waiting:
        assert terminal.drawn.wait(10)
        assert list(waiting.until_first([])) == []
        assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(("kind", "encoding"), [("dumb", "utf-8"), ("xterm", "ascii"), ("xterm", "nonsense")])
def test_a_terminal_that_cannot_draw_it_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: str, encoding: str
) -> None:
    monkeypatch.setenv("TERM", kind)
    terminal = _Terminal()
    terminal.encoding = encoding
    with WaitingLine("Waiting", terminal):
        pass
    assert terminal.getvalue() == ""


def test_a_pipe_shows_nothing() -> None:
    pipe = _Terminal(is_terminal=False)
    with WaitingLine("Waiting", pipe):
        pass
    assert pipe.getvalue() == ""


def test_a_terminal_that_is_gone_ends_the_line() -> None:
    terminal = _Terminal(fails=True)
    with WaitingLine("Waiting", terminal) as waiting:
        assert terminal.drawn.wait(10)
        waiting.stop()
    assert terminal.getvalue() == ""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo terminal")
@pytest.mark.parametrize(("columns", "width"), [(24, 24), (0, 80)])
def test_the_line_is_as_wide_as_the_terminal(columns: int, width: int) -> None:
    termios = pytest.importorskip("termios")
    primary, secondary = os.openpty()
    termios.tcsetwinsize(secondary, (24, columns))
    with os.fdopen(secondary, "w", encoding="utf-8") as terminal:
        with WaitingLine("Waiting for " + "m" * 100, terminal):
            written = os.read(primary, 1000)
        while not written.endswith(b"\x1b[K") or b"Waiting" not in written:
            written += os.read(primary, 1000)
    os.close(primary)
    line = next(part for part in written.decode().split("\r\x1b[K") if part)
    assert len(line) == width - 1
    assert line.endswith("…")
