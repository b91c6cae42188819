"""Questions that one key answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO, cast

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.output.vt100 import Vt100_Output

from support.terminal_emulator import Emulated
from toolcast.apps.repl.choices import Answer, Choice
from toolcast.apps.repl.key_prompt import KeyPrompt, pending_keys
from toolcast.apps.repl.prompt_input import Prompt

CHOICES = [Choice("y", "yes"), Choice("n", "no (and why)", takes_text=True), Choice("a", "always: " + "word " * 12)]


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


class Seen(Vt100_Output):
    """An emulated terminal; `pressed` is typed when something has been drawn on it."""

    def __init__(self, columns: int, keys: PipeInput, pressed: str) -> None:
        self.terminal = Emulated(columns)
        super().__init__(cast("TextIO", self.terminal), lambda: Size(rows=24, columns=columns), "xterm")
        self.enable_cpr = False
        self.drawn: list[str] = []
        self._keys, self._pressed = keys, pressed

    def flush(self) -> None:
        super().flush()
        if self._pressed and "Esc" in self.terminal.text:
            self.drawn = self.terminal.lines
            self._keys.send_text(self._pressed)
            self._pressed = ""


@pytest.mark.parametrize(
    ("pressed", "answer"),
    [
        ("y", Answer("y", "")),
        ("Y", Answer("y", "")),
        ("n", Answer("n", None)),
        ("\x04", None),
        ("q\r\t 1\x1b[A\x1b[200~yes\x1b[201~\x0f\x0cn", Answer("n", None)),
        ("yna", Answer("y", "")),
    ],
)
def test_a_key_answers(keys: PipeInput, pressed: str, answer: Answer | None) -> None:
    keys.send_text(pressed)
    assert KeyPrompt(keys, DummyOutput()).choose("Run it?", CHOICES) == answer
    get_typeahead(keys)


@pytest.mark.parametrize("pressed", ["\x03", "\x1b"])
def test_ctrl_c_and_escape_interrupt(keys: PipeInput, pressed: str) -> None:
    keys.send_text(pressed)
    with pytest.raises(KeyboardInterrupt):
        KeyPrompt(keys, DummyOutput()).choose("Run it?", CHOICES)


def test_ctrl_z_suspends_the_program(keys: PipeInput, monkeypatch: pytest.MonkeyPatch) -> None:
    from prompt_toolkit.application import Application

    suspended: list[bool] = []
    monkeypatch.setattr(Application, "suspend_to_background", lambda self: suspended.append(True))
    keys.send_text("\x1ay")
    assert KeyPrompt(keys, DummyOutput()).choose("Run it?", CHOICES) == Answer("y", "")
    assert suspended == [True]


@pytest.mark.parametrize(
    ("columns", "drawn"),
    [
        (
            80,
            [
                *("", "Run it?", "  y   yes", "  n   no (and why)"),
                *("  a   always: word word word word word word word word word word word word", "  Esc no, and stop"),
            ],
        ),
        (
            30,
            [
                *("", "Run it?", "  y   yes", "  n   no (and why)", "  a   always: word word word"),
                *("      word word word word", "      word word word word", "      word", "  Esc no, and stop"),
            ],
        ),
    ],
)
def test_the_answers_are_listed_and_disappear(keys: PipeInput, columns: int, drawn: list[str]) -> None:
    output = Seen(columns, keys, "y")
    assert KeyPrompt(keys, output).choose("Run it?", CHOICES) == Answer("y", "")
    assert output.drawn == drawn
    assert output.terminal.lines == []


@pytest.mark.parametrize("columns", [5, 12])
def test_the_narrowest_terminal(keys: PipeInput, columns: int) -> None:
    output = Seen(columns, keys, "n")
    assert KeyPrompt(keys, output).choose("Run it?", CHOICES[:2]) == Answer("n", None)


# With the prompt before and after it.


def test_keys_that_were_pressed_before_do_not_answer(keys: PipeInput) -> None:
    asks = Prompt(input=keys, output=Seen(80, keys, "n"))
    keys.send_text("yes, go on")
    assert asks.choose("Run it?", CHOICES) == Answer("n", None)
    keys.send_text("too far\r")
    assert asks.read("why not? ") == "too far"
    keys.send_text("!\r")
    assert asks.read("> ") == "yes, go on!"


def test_an_enter_after_the_key_does_not_send_an_empty_line(keys: PipeInput) -> None:
    asks = Prompt(input=keys, output=Seen(80, keys, "y\r"))
    assert asks.choose("Run it?", CHOICES) == Answer("y", "")
    keys.send_text("hello\r")
    assert asks.read("> ") == "hello"
    keys.send_text("\r")
    assert asks.read("> ") == "", "at the next prompt it is one again"


def test_pending_keys(keys: PipeInput) -> None:
    keys.send_text("ab\x1b")
    assert [press.key for press in pending_keys(keys)] == ["a", "b", "escape"]
    assert pending_keys(keys) == []
