"""What is typed at the prompt of a terminal, key by key."""

from __future__ import annotations

import asyncio
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.output.vt100 import Vt100_Output

from support.terminal_emulator import Emulated
from toolcast.apps.repl import prompt_input
from toolcast.apps.repl.prompt_input import History, Prompt, ReplCompleter
from toolcast.apps.repl.slash_commands import COMMANDS, completions

ENTER, NEWLINE, ESCAPE, CTRL_C, CTRL_D, CTRL_J, CTRL_O, UP, TAB = (
    "\r",
    "\n",
    "\x1b",
    "\x03",
    "\x04",
    "\n",
    "\x0f",
    "\x1b[A",
    "\t",
)


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


def words() -> ReplCompleter:
    return ReplCompleter({name: command.summary for name, command in COMMANDS.items()}, completions)


def prompt(keys: PipeInput, history: Path | None = None) -> Prompt:
    return Prompt(history, words(), input=keys, output=DummyOutput())


def typed(keys: PipeInput, *pressed: str, text: str = "", at: str = "> ", history: Path | None = None) -> str | None:
    """What is read when all of this is typed."""
    keys.send_text("".join(pressed))
    return prompt(keys, history).read(at, text)


def test_enter_sends(keys: PipeInput) -> None:
    assert typed(keys, "héllo 漢", ENTER) == "héllo 漢"
    assert typed(keys, ENTER) == ""


def test_a_text_may_stand_there_already(keys: PipeInput) -> None:
    assert typed(keys, "!", ENTER, text="one\ntwo", at="arguments: ") == "one\ntwo!"


def test_an_image_that_cannot_be_pasted(keys: PipeInput, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(keys, "a", "\x16", "b", ENTER) == "ab"
    assert capsys.readouterr().out == "there is no clipboard\n"


@pytest.mark.parametrize("new_line", [ESCAPE + ENTER, "\\" + ENTER])
def test_new_lines(keys: PipeInput, new_line: str) -> None:
    assert typed(keys, "  one", new_line, "two", ENTER) == "  one\ntwo"


def test_ctrl_j_is_a_new_line_for_a_person(keys: PipeInput) -> None:
    """Who presses it when all that was typed before is worked off."""
    keys.send_text(f"one{CTRL_O}")
    asks = prompt(keys)
    assert asks.read("> ", show_calls=lambda: keys.send_text(f"{CTRL_J}two{ENTER}")) == "one\ntwo"


def test_a_line_feed_sends_for_a_program(keys: PipeInput) -> None:
    """As a program ends the lines it types, in one go."""
    assert typed(keys, "one\n") == "one"


def test_a_line_feed_alone_is_an_empty_line(keys: PipeInput) -> None:
    assert typed(keys, CTRL_J) == ""


def test_a_backslash_elsewhere_is_one(keys: PipeInput) -> None:
    assert typed(keys, "a\\b", ENTER) == "a\\b"
    assert typed(keys, "ab\\", "\x1b[D", ENTER) == "ab\\"  # the cursor stands before it


def test_what_is_pasted_is_one_input(keys: PipeInput) -> None:
    assert typed(keys, "\x1b[200~one\r\ntwo\nthree\x1b[201~", ENTER) == "one\ntwo\nthree"


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def test_a_long_paste_is_folded_and_sent_whole(keys: PipeInput, tmp_path: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(400))
    other = text.upper()
    drawn = Drawn(80)
    keys.send_text(f"see {pasted(text)} {pasted(other)} {pasted(text)}!{ENTER}")
    asks = Prompt(tmp_path / "history", input=keys, output=drawn)
    assert asks.read("> ") == f"see {text} {other} {text}!"
    assert drawn.terminal.lines == ["> see [pasted 400 lines] [pasted 400 lines #2] [pasted 400 lines]!"]
    keys.send_text(f"{UP}?{ENTER}")
    assert Prompt(tmp_path / "history", input=keys, output=DummyOutput()).read("> ") == f"see {text} {other} {text}!?"


def test_backspace_deletes_a_folded_paste_as_a_whole(keys: PipeInput) -> None:
    text = "line\n" * 20
    assert typed(keys, "\x7f", f"see {pasted(text)}", "\x7f" * 2, "!", ENTER) == "see!"
    assert typed(keys, pasted("line\n" * 19), ENTER) == "line\n" * 19
    assert typed(keys, pasted(text), ENTER, at="edit> ") == text


def test_ctrl_c_clears_an_input_and_the_history_keeps_it(keys: PipeInput) -> None:
    keys.send_text(f"half a question{CTRL_C}{CTRL_O}")
    assert prompt(keys).read("> ", show_calls=lambda: keys.send_text(f"{UP}!{ENTER}")) == "half a question!"


def test_ctrl_c_on_an_empty_line_leaves(keys: PipeInput) -> None:
    with pytest.raises(KeyboardInterrupt):
        typed(keys, f"half{CTRL_C}", CTRL_C)


def test_ctrl_c_at_another_prompt_leaves_it(keys: PipeInput) -> None:
    with pytest.raises(KeyboardInterrupt):
        typed(keys, "half", CTRL_C, at="edit> ")


def test_ctrl_d(keys: PipeInput) -> None:
    assert typed(keys, CTRL_D) is None


def test_ctrl_o_unfolds(keys: PipeInput) -> None:
    unfolded: list[bool] = []
    keys.send_text(f"one{CTRL_O}two{ENTER}")
    assert prompt(keys).read("> ", show_calls=lambda: unfolded.append(True)) == "onetwo"
    assert unfolded == [True]


def test_an_editor(keys: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!{sys.executable}\nimport sys\nopen(sys.argv[1], 'a').write(' more\\nlines')\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    assert typed(keys, "text", "\x18\x05") == "text more\nlines"


# What is drawn.


QUESTION = "run it? [y]es, [n]o (and why), [a]lways in this session, [e]dit: "


class Drawn(Vt100_Output):
    """The output of prompt_toolkit on an emulated terminal."""

    def __init__(self, columns: int) -> None:
        self.terminal = Emulated(columns)
        super().__init__(cast("TextIO", self.terminal), lambda: Size(rows=24, columns=columns), "xterm")
        self.enable_cpr = False

    def drawn(self, keys: PipeInput, prompt: str, *pressed: str) -> list[str]:
        """Return what stands there when all of this was typed."""
        keys.send_text(f"{''.join(pressed)}{ENTER}")
        Prompt(input=keys, output=self).read(prompt)
        return self.terminal.lines


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (100, ["run it? [y]es, [n]o (and why), [a]lways in this session, [e]dit: y"]),
        (80, ["run it? [y]es, [n]o (and why), [a]lways in this session, [e]dit: y"]),
        (64, ["run it? [y]es, [n]o (and why), [a]lways in this", "session, [e]dit: y"]),
        (40, ["run it? [y]es, [n]o (and", "why), [a]lways in this", "session, [e]dit: y"]),
    ],
)
def test_a_question_is_drawn_at_every_width(keys: PipeInput, columns: int, shown: list[str]) -> None:
    assert Drawn(columns).drawn(keys, QUESTION, "y") == shown


@pytest.mark.parametrize("columns", [9, 24])
def test_a_question_is_drawn_in_the_narrowest_terminal(keys: PipeInput, columns: int) -> None:
    shown = "".join(Drawn(columns).drawn(keys, QUESTION, "yes"))
    assert shown.replace(" ", "") == f"{QUESTION}yes".replace(" ", "")


@pytest.mark.parametrize("length", [24, 25, 26])
def test_a_question_that_just_fits_is_followed_by_its_answer(keys: PipeInput, length: int) -> None:
    question = f"{'sure ' * 4}".ljust(length - 1, "x")
    assert f"{question[-4:]} y" in Drawn(40).drawn(keys, f"{question} ", "y")[-1]


def test_a_long_input_is_indented_below_a_short_prompt_and_not_below_a_long_one(keys: PipeInput) -> None:
    assert Drawn(12).drawn(keys, "> ", "one two three") == ["> one two th", "  ree"]
    assert Drawn(40).drawn(keys, "arguments of the call: ", "0123456789" * 2) == [
        "arguments of the call: 01234567890123456",
        "789",
    ]


def test_the_status_is_below_the_input_until_it_is_sent(keys: PipeInput) -> None:
    output, seen, pressed = Drawn(40), list[list[str]](), iter(["one", ENTER])

    def status(columns: int) -> str:
        seen.append(output.terminal.lines)  # as it was drawn before
        asyncio.get_running_loop().call_soon(keys.send_text, next(pressed, ""))
        return f"m in {columns}"

    assert Prompt(input=keys, output=output).read("> ", status=status) == "one"
    assert [">", "m in 40"] in seen
    assert output.terminal.lines == ["> one"]


# The history.


@pytest.mark.fault(144)
def test_the_history_is_a_file_of_its_owner(keys: PipeInput, tmp_path: Path) -> None:
    path = tmp_path / "home" / "prompt_history"
    asks = prompt(keys, path)
    for text in ("one", " secret", "two\nlines", "two\nlines", "\ttab"):
        keys.send_text(f"\x1b[200~{text}\x1b[201~{ENTER}")
        assert asks.read("> ") == text
    keys.send_text(f"yes{ENTER}")
    assert asks.read("run it? ") == "yes"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(History(path).load_history_strings()) == ["two\nlines", "one"]
    assert typed(keys, UP, UP, UP, ENTER, history=path) == "one"


def test_a_history_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "prompt_history"
    path.write_bytes(b"\n# then\n+caf\xe9\n")
    path.chmod(0o640)
    history = History(path)
    history.store_string("half \ud83d")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(history.load_history_strings()) == ["half ?", "caf\ufffd"]


def test_without_a_place_the_history_lasts_as_long_as_the_session(keys: PipeInput, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    asks = prompt(keys, tmp_path / "file" / "prompt_history")
    for pressed in (f"one{ENTER}", f"{UP}{ENTER}"):
        keys.send_text(pressed)
        assert asks.read("> ") == "one"
    unreadable = tmp_path / "folder"
    unreadable.mkdir()
    assert list(History(unreadable).load_history_strings()) == []


# Completion.


def complete(text: str, *, asked: bool = False) -> list[str]:
    """What the text before the cursor may become."""
    event = CompleteEvent(text_inserted=not asked, completion_requested=asked)
    found = words().get_completions(Document(text), event)
    return [text[: len(text) + each.start_position] + each.text for each in found]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("notes.txt", "north.md", "other"):
        (tmp_path / name).touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands() -> None:
    assert complete("/") == list(COMMANDS)
    assert complete("/mo") == ["/mode", "/model"]
    assert complete("/nothing") == complete("x /mo") == []


def test_arguments_of_commands(folder: Path) -> None:
    assert complete("/mode ") == ["/mode plan", "/mode build", "/mode verify", "/mode auto"]
    assert complete("/mode v") == ["/mode verify"]
    assert complete("/load no") == ["/load north.md", "/load notes.txt"]
    assert complete("/undo x") == complete("/what x") == []


def test_files(folder: Path) -> None:
    assert complete("look at @no") == ["look at @north.md", "look at @notes.txt"]
    assert complete("@src/") == ["@src/main.py"]
    assert complete("one\n@ot") == ["one\n@other"]
    assert complete("look at no") == complete("me@ex") == []
    assert complete("look at no", asked=True) == ["look at north.md", "look at notes.txt"]
    assert complete("", asked=True)[-1] == "src"


def test_the_terminal_is_not_asked_where_its_cursor_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_input, "create_output", lambda: Vt100_Output.from_pty(sys.__stdout__))
    output: Any = Prompt()._output
    assert output.enable_cpr is False
    monkeypatch.setattr(prompt_input, "create_output", DummyOutput)
    assert isinstance(Prompt()._output, DummyOutput)
