"""`PlainScreen`: what goes to which stream, and how input is read."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, strategies as st

from toolcast.apps.approval_preview import CommandPreview, DiffPreview
from toolcast.apps.diff_rows import diff_texts
from toolcast.apps.repl.activity import TurnActivity
from toolcast.apps.repl.choices import Answer, Choice
from toolcast.apps.repl.screen import ConversationStatus, PlainScreen, Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CHANGE = DiffPreview("a.txt", "edit", 1, 1, diff_texts("the cat sat\n", "the dog sat\n").rows)


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


def test_details_are_the_calls_of_the_last_turn_in_full() -> None:
    streams = Streams()
    screen = streams.screen
    screen.call_complete("c1", "look", '{"at": 1}')
    screen.call_result("c1", "look", "x" * 400, is_error=False)
    screen.call_result("c2", "other", "y", is_error=False)
    screen.show_activity(None)
    before = len(streams.err)
    screen.show_details()
    assert streams.err[before:] == f"look\n  at: 1\n  ⎿ {'x' * 400}\n\nother\n  ⎿ y\n"
    screen.show_activity(TurnActivity())
    screen.refresh()
    screen.show_status(ConversationStatus("m", "auto"))
    screen.hold_typed()
    screen.show_details()
    assert streams.err.endswith("y\nThe last answer called no tools.\n")


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


# Approvals.

CHOICES = [Choice("y", "yes"), Choice("n", "no (and why)", takes_text=True)]


def test_a_preview_is_text() -> None:
    streams = Streams()
    streams.screen.preview("shell", CommandPreview("ls"), number=1)
    assert streams.err == "1. shell\n  $ ls\n"


def test_a_question_is_answered_by_a_line() -> None:
    streams = Streams("maybe\nn too far\n", person=True)
    assert streams.screen.choose("Run it?", CHOICES) == Answer("n", "too far")
    assert streams.err == "Run it? [y]es, [n]o (and why): " * 2
    assert streams.screen.choose("Run it?", CHOICES) is None


@pytest.mark.parametrize(
    ("typed", "text", "edited"),
    [("one\n\ntwo\n.\n", "x\n", "one\n\ntwo\n"), ("ls\n.\n", "x", "ls"), (".\n", "x", ""), ("one\n", "x", None)],
)
def test_without_an_editor_lines_are_read_up_to_a_dot(
    typed: str, text: str, edited: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    streams = Streams(typed, person=True)
    assert streams.screen.edit(text, ".txt") == edited
    assert streams.err.startswith("x\n")


def test_an_editor_opens_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "true")
    assert Streams(person=True).screen.edit("text", ".txt") == "text"


def test_a_denied_call_has_no_other_line_than_the_decision() -> None:
    streams = Streams()
    for id, is_allowed in (("c1", True), ("c2", False)):
        streams.screen.call_decided(id, "f", "{}", f"{id} was decided", is_allowed)
    for id in ("c1", "c2"):
        streams.screen.call_complete(id, "f", "{}")
        streams.screen.call_result(id, "f", "done", False, CHANGE)
    assert streams.err == "> c1 was decided\n✗ c2 was decided\n< f: done\n"


def test_a_change_that_needed_no_question_is_shown() -> None:
    streams = Streams()
    streams.screen.call_complete("c1", "edit_file", "{}")
    streams.screen.call_result("c1", "edit_file", "edited", False, CHANGE)
    diff = "edit_file a.txt +1 −1\n  1 - the cat sat\n  1 + the dog sat\n"
    assert streams.err == f"> edit_file {{}}\n{diff}< edit_file: edited\n"
