"""Whether a terminal shows what is typed, on a terminal of the test's own."""

from __future__ import annotations

import io
import os
import pty
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from toolcast.apps.repl import terminal_input
from toolcast.apps.repl.terminal_input import TerminalEcho


@pytest.fixture
def terminal() -> Iterator[Any]:
    outer, inner = pty.openpty()
    with os.fdopen(inner) as stdin:
        yield stdin
    os.close(outer)


def shows(terminal: Any) -> bool:
    """Whether it shows what is typed."""
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def test_silent_and_as_it_was(terminal: Any) -> None:
    before = termios.tcgetattr(terminal)
    written = io.StringIO()
    keys = TerminalEcho(terminal, written)
    keys.restore()
    for _ in range(2):
        keys.disable()
        keys.disable()
        assert not shows(terminal)
        assert not termios.tcgetattr(terminal)[3] & termios.ICANON  # keys arrive one by one
        assert termios.tcgetattr(terminal)[3] & termios.ISIG  # Ctrl-C is one
        assert termios.tcgetattr(terminal)[3] & termios.NOFLSH  # and throws nothing away
        keys.restore()
        assert termios.tcgetattr(terminal) == before
    assert written.getvalue() == "\x1b[?2004h\x1b[?2004l" * 2


def test_what_is_no_terminal_is_left_alone(terminal: Any) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w"):
        TerminalEcho(stdin, terminal).disable()


def test_a_system_without_terminals(terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_input, "termios", None)
    TerminalEcho(terminal, terminal).disable()
    assert shows(terminal)
