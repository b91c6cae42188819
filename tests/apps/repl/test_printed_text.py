"""What tools print while a turn runs."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout

import pytest

from toolcast.apps.repl.printed_text import PrintedText


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]  # a property of the base

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def test_between_two_turns_it_goes_to_the_terminal() -> None:
    printed, terminal = PrintedText(), Terminal()
    stream = printed.stream(terminal)
    print("one", file=stream, flush=True)
    assert stream.isatty() and stream.writable() and stream.encoding == "utf-8" and stream.fileno() == 1
    printed.is_collecting = True
    print("two", file=stream, flush=True)
    assert not stream.isatty()
    assert (terminal.getvalue(), printed.take_lines()) == ("one\n", ["two"])


def test_a_file_does_not_disturb_the_screen() -> None:
    file = io.StringIO()
    assert PrintedText().stream(file) is file


@pytest.mark.parametrize(
    ("text", "lines", "last"),
    [
        ("", [], []),
        ("one\ntwo", ["one"], ["two"]),
        ("one\n\n", ["one", ""], []),
        ("one\r\n", ["one"], []),
        ("10 %\r50 %\r100 %\n", ["100 %"], []),
        ("10 %\r", [], ["10 %"]),
        ("\x1b[1;32mgreen\x1b[0m \x1b[2J\n", ["green \x1b[2J"], []),
    ],
)
def test_lines_are_taken_when_they_are_complete(text: str, lines: list[str], last: list[str]) -> None:
    printed = PrintedText()
    printed.add(text)
    assert (printed.take_lines(), printed.take_lines(is_end=True), printed.take_lines()) == (lines, last, [])


def test_threads_and_bytes() -> None:
    printed = PrintedText()
    printed.is_collecting = True
    with redirect_stdout(printed.stream(Terminal())), ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: sys.stdout.write(f"{number}\n"), range(100)))
        assert sys.stdout.buffer.writable()
        sys.stdout.buffer.write("é\n".encode())
        sys.stdout.buffer.flush()
    assert sorted(printed.take_lines()) == sorted([*map(str, range(100)), "é"])
