"""Python source and objects on a terminal."""

from __future__ import annotations

import io

import pytest

from support.process import Process
from toolcast.apps import demo_command


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


SOURCE = "def double(number: int) -> int:\n    return number + number  # a comment of several words\n"


def printed(process: Process, stream: io.StringIO, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    process.stream("stdout", stream)
    demo_command.print_source(SOURCE)
    return stream.getvalue()


def test_source_is_coloured_on_a_terminal_only(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    assert "\x1b[" in printed(process, _Terminal(), 80, monkeypatch)
    expected = "".join(f"  {line}\n" for line in SOURCE.splitlines())
    assert printed(process, io.StringIO(), 80, monkeypatch) == expected


def test_source_without_rich_is_plain(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_command, "find_spec", lambda name: None)
    assert "\x1b" not in printed(process, _Terminal(), 80, monkeypatch)


def test_source_is_wrapped_with_its_indentation(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(process, io.StringIO(), 30, monkeypatch).splitlines()
    assert max(map(len, lines)) < 30
    assert "".join("".join(lines).split()) == "".join(SOURCE.split())
    assert [len(line) - len(line.lstrip()) for line in lines][:2] == [2, 4]


def test_no_color_takes_colours_only(monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    process.stream("stdout", _Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in demo_command.coloured("total=9")
    monkeypatch.setenv("NO_COLOR", "1")
    assert demo_command.coloured("total=9") == "total=9"
    assert demo_command.on_terminal()
