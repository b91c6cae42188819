"""Keys that are pressed during an answer."""

from __future__ import annotations

import pytest
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from toolcast.apps.repl.early_keys import EarlyKeys, join_lines


def pressed(text: str) -> list[KeyPress]:
    """The keys that a terminal sends as this text."""
    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    parser.feed_and_flush(text)
    return keys


@pytest.mark.parametrize(
    ("text", "lines", "has_escape"),
    [
        ("", [""], False),
        ("two", ["two"], False),
        ("two\r", ["two", ""], False),
        ("two\nthr", ["two", "thr"], False),
        ("\r\r", [""], False),
        ("one\r\rtwo", ["one", "two"], False),
        ("oq\x7fne", ["one"], False),
        ("\x7f", [""], False),
        ("one\r\x7f!", ["one!"], False),
        ("one\rtwo\x15\x15", ["one", ""], False),
        ("\x15", [""], False),
        ("a\x1b[Db", ["ab"], False),
        ("one\x1b\rtwo", ["one", "two"], False),
        ("one\x1b\r\x7ftwo", ["onetwo"], False),
        ("\x1b", [""], True),
        ("one\x1b", ["one"], True),
        ("\x1b/cost\r", ["/cost", ""], True),
        ("漢字 é", ["漢字 é"], False),
    ],
)
def test_keys_are_lines_and_escape_is_none_of_them(text: str, lines: list[str], has_escape: bool) -> None:
    early = EarlyKeys()
    assert early.add(pressed(text)) is has_escape
    assert early.lines == lines


def test_keys_are_taken_once_and_line_by_line() -> None:
    early = EarlyKeys()
    early.add(pressed("/co"))
    assert not early.add(pressed("st\ro\x1b\rn\\\re\rtw"))
    assert [press.data for press in early.take_line()] == [*"/cost\r"]
    assert early.lines == ["o", "n\\", "e", "tw"]
    assert [press.data for press in early.take_line()] == [*"o\x1b\rn\\\re\r"]
    assert [press.data for press in early.take_line()] == [*"tw"]
    assert early.take_line() == []


def test_held_lines_are_one_text_without_an_enter() -> None:
    early = EarlyKeys()
    early.add(pressed("one\r!two\x1b[D\r"))
    early.hold()
    assert early.lines == ["one\n!two"]
    early.add(pressed("?"))
    assert [press.data for press in early.take_line()] == ["one\n!two", "?"]
    early.hold()
    assert early.take_line() == []


def test_a_paste_is_a_part_of_its_line() -> None:
    early = EarlyKeys()
    early.add(pressed("see: \x1b[200~log:\r\n!rm x\r/clear\x1b[201~!\r"))
    assert early.lines == ["see: log:\n!rm x\n/clear!", ""]
    early.add(pressed("\x7f\x7f\x7f"))
    assert early.lines == ["see: log:\n!rm x\n/clea"]
    assert [press.data for press in early.take_line()] == [*"see: ", "log:\n!rm x\n/clea"]
    early.add(pressed("\x1b[200~a\x1b[201~\x7f\x1b[200~" + "line\r" * 20 + "\x1b[201~"))
    assert early.lines == ["[pasted 20 lines]"]
    early.add(pressed("\x7f"))
    assert early.lines == [""]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("two\r", ["t", "w", "o", "\r"]),
        ("\r\n", ["\r", "\n"]),
        ("a\tb\x7f\r", ["a", "\t", "b", "\x7f", "\r"]),
        ("a\x1b\rb", ["a", "\x1b", "\r", "b"]),
        ("a\r\n\t!b\r", ["a\r\n\t!b\r"]),
        ("a\rb\x1b[D\r!c", ["a\rb", "\x1b[D", "\r!c"]),
    ],
)
def test_several_lines_at_once_are_a_paste(text: str, parts: list[str]) -> None:
    assert [press.data for press in join_lines(pressed(text))] == parts
