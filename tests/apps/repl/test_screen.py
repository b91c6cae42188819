"""`PlainScreen`: what goes to which stream, and how input is read."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, strategies as st

from toolcast.apps.repl.screen import PlainScreen, Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Streams:
    """A plain screen, and what shows on its streams. `person`: stdin is a terminal; `seen`: so is stdout."""

    def __init__(self, typed: str = "", *, person: bool = False, seen: bool = False, by_line: bool = False) -> None:
        self.stdout = Terminal() if seen else io.StringIO()
        self.stderr = self.stdout if seen else io.StringIO()
        stdin = Terminal(typed) if person else io.StringIO(typed)
        self.screen = PlainScreen(stdin, self.stdout, self.stderr, by_line=by_line)

    @property
    def out(self) -> str:
        return self.stdout.getvalue()

    @property
    def err(self) -> str:
        return self.stderr.getvalue()


def test_it_is_a_screen() -> None:
    screen: Screen = Streams().screen
    assert not screen.is_interactive
    assert Streams(person=True).screen.is_interactive


@pytest.mark.parametrize(
    ("typed", "by_line", "inputs"),
    [
        ("one\ntwo\n", False, ["one\ntwo", None]),
        ("one\ntwo\n", True, ["one", "two", None]),
        ("one", True, ["one", None]),
        ("one\n\ntwo\n", True, ["one", "", "two", None]),
        ("\n", False, ["", None]),
        ("", False, [None]),
        ("", True, [None]),
    ],
)
def test_a_pipe(typed: str, by_line: bool, inputs: list[str | None]) -> None:
    streams = Streams(typed, by_line=by_line)
    assert [streams.screen.read("> ") for _ in inputs] == inputs
    assert streams.out == streams.err == ""


def test_a_person() -> None:
    streams = Streams("one\n\n\n", person=True)
    assert streams.screen.read("> ") == "one"
    assert streams.screen.read("> ") == ""
    assert streams.screen.read("edit> ", "two\x1b") == "two\x1b"
    assert streams.screen.read("> ") is None
    assert (streams.out, streams.err) == ("", "> > two\\x1b\nedit> > ")


def test_the_answer_goes_to_stdout_and_all_else_to_stderr() -> None:
    streams = Streams()
    screen = streams.screen
    screen.thinking("Hm")
    screen.thinking(".")
    screen.content("Let ")
    screen.content("me")
    screen.call_begins("c1", "look")
    screen.call_arguments("c1", "{")
    screen.call_complete("c1", "look", "{}")
    screen.content(" see.")
    screen.end_answer()
    screen.end_answer()
    screen.call_progress("c1", "look", "50 %")
    screen.call_result("c1", "look", "nothing\n there", is_error=False)
    screen.call_result("c2", "look", "x" * 400, is_error=True)
    screen.content("Nothing.\n")
    screen.end_answer()
    screen.error("failed", "try again")
    screen.error("failed")
    screen.note("bye")
    assert streams.out == "Let me see.\nNothing.\n"
    assert streams.err.splitlines() == [
        *("Hm.", "> look {}", "50 %", "< look: nothing there", f"! look: {'x' * 300} ..."),
        *("error: failed (try again)", "error: failed", "bye"),
    ]


def test_on_one_terminal_every_kind_has_lines_of_its_own() -> None:
    streams = Streams(person=True, seen=True)
    screen = streams.screen
    screen.content("One")
    screen.note("two")
    screen.content("three")
    screen.thinking("four")
    screen.content("five")
    screen.content("")
    screen.read("> ")
    screen.thinking("six")
    screen.end_answer()
    assert streams.out == "One\ntwo\nthree\nfour\nfive\n> six\n"


@given(st.lists(st.text(st.characters(exclude_characters="\r"))))
def test_in_a_pipe_the_answer_is_exact(pieces: list[str]) -> None:
    streams = Streams()
    for piece in pieces:
        streams.screen.content(piece)
    assert streams.out == "".join(pieces)


@pytest.mark.fault(143)
@given(st.text())
def test_nothing_on_stderr_controls_a_terminal(text: str) -> None:
    streams = Streams()
    streams.screen.thinking(text)
    streams.screen.note(text)
    streams.screen.call_complete("c1", text, text)
    streams.screen.call_result("c1", text, text, is_error=False)
    streams.screen.error(text, text)
    assert not set(streams.err) & {*map(chr, (*range(9), *range(11, 32), *range(127, 160)))}


def test_on_a_terminal_an_answer_controls_nothing() -> None:
    streams = Streams(seen=True)
    streams.screen.content("\x1b[2J")
    assert streams.out == "\\x1b[2J"


def test_what_cannot_be_seen_of_a_call_is_spelt_out() -> None:
    streams = Streams()
    streams.screen.call_complete("c1", "send\u200b", '{"to": "bob\u2060"}')
    streams.screen.call_result("c1", "send\u200b", "sent", False)
    assert streams.err == '> send\\u200b {"to": "bob\\u2060"}\n< send\\u200b: sent\n'
