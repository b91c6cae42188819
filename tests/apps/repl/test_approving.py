"""Approvals in a real terminal: what a person sees and types, and what runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.driven_repl import CTRL_C, CTRL_D, ENTER, Driven, driven
from support.ollama_server import DONE, MODEL, OllamaServer, call, delta


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


def editor(folder: Path, script: str) -> str:
    """Make an editor of these lines of Python, in which `file` is the path."""
    program = folder / "editor"
    program.write_text(f"#!{sys.executable}\nimport sys\nfile = sys.argv[-1]\n{script}\n")
    program.chmod(0o700)
    return str(program)


@contextmanager
def asked(
    server: OllamaServer, folder: Path, *calls: Any, columns: int = 80, mode: str = "build", **env: str
) -> Iterator[Driven]:
    """A terminal of 50 rows at the question about these calls, in a folder with one file."""
    server.calls(*calls)
    server.replies("That is all.")
    named = {"OLLAMA_HOST": server.host, "OLLAMA_MODEL": MODEL, "VISUAL": "", "EDITOR": "", **env}
    with driven(folder / "home", "--mode", mode, columns=columns, rows=50, **named) as terminal:
        terminal.at_prompt()
        terminal.type("go" + ENTER)
        terminal.until("Esc no")
        yield terminal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("one\nthe cat sat\n")
    return tmp_path


EDIT = call("edit_file", path="notes.txt", old="the cat sat", new="the dog sat")


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_change_is_shown_once_as_a_diff_and_leaves_one_line(server: OllamaServer, folder: Path, columns: int) -> None:
    with asked(server, folder, EDIT, columns=columns) as terminal:
        shown = terminal.lines
        start = shown.index("edit_file notes.txt +1 −1")
        assert shown[start + 1 : start + 4] == ["  1   one", "  2 - the cat sat", "  2 + the dog sat"]
        assert sum("edit_file" in line for line in shown if "every call" not in line) == 1
        assert "every call of edit_file" in " ".join(terminal.text.split())
        assert terminal.look("dog").reverse and terminal.look("cat").reverse
        terminal.type("y")
        terminal.until("That is all.")
        terminal.at_prompt()
        assert terminal.lines.count("● edit_file notes.txt +1 −1") == 1
        assert "Esc no" not in terminal.text
    assert Path("notes.txt").read_text() == "one\nthe dog sat\n"


@pytest.mark.parametrize("key", ["\x1b", CTRL_C])
def test_keys_that_deny_and_stop(server: OllamaServer, folder: Path, key: str) -> None:
    with asked(server, folder, EDIT) as terminal:
        terminal.type(key)
        terminal.until("✗ edit_file notes.txt +1 −1: stopped", "(cancelled)")
        terminal.at_prompt()
    assert "cat" in Path("notes.txt").read_text()
    assert len(server.requests) == 1


def test_ctrl_d_denies(server: OllamaServer, folder: Path) -> None:
    with asked(server, folder, EDIT) as terminal:
        terminal.type(CTRL_D)
        terminal.until("✗ edit_file notes.txt +1 −1", "That is all.")
        assert "permission denied" not in terminal.text
    assert "cat" in Path("notes.txt").read_text()
    assert b"permission denied" in server.requests[-1].body


def test_keys_that_were_typed_before_the_question_do_not_answer_it(server: OllamaServer, folder: Path) -> None:
    gate = threading.Event()
    server.streams(delta(content="Let me see."), gate, delta(tool_calls=[EDIT]), DONE)
    server.replies("That is all.")
    server.replies("Again.")
    named = {"OLLAMA_HOST": server.host, "OLLAMA_MODEL": MODEL}
    with driven(folder / "home", rows=50, **named) as terminal:
        terminal.at_prompt()
        terminal.type("go" + ENTER)
        terminal.until("Let me see.")
        terminal.type("yes, and")
        gate.set()
        terminal.until("Esc no")
        assert "cat" in Path("notes.txt").read_text()
        terminal.type("y" + ENTER)  # as people who are used to lines
        terminal.until("That is all.", "> yes, and")
        terminal.type(" more" + ENTER)
        terminal.until("Again.")
    assert b"yes, and more" in server.requests[-1].body


def test_an_editor_opens_the_text_itself(server: OllamaServer, folder: Path) -> None:
    script = (
        "import os\nmode = os.stat(file).st_mode & 0o777\n"
        "open('seen', 'w').write(f'{file[-4:]} {mode:o} {open(file).read()}')\n"
        "open(file, 'w').write('the \"bird\"\\nsat')"
    )
    with asked(server, folder, EDIT, VISUAL=editor(folder, script)) as terminal:
        before = len(terminal.lines)
        terminal.type("e")
        terminal.until('  2 + the "bird"', "  3 + sat", "Esc no", lines=before - 6)
        assert "always" not in "\n".join(terminal.lines[-8:])
        terminal.type("y")
        terminal.until("● edit_file notes.txt +2 −1 (edited)", "That is all.")
    assert Path("seen").read_text() == ".txt 600 the dog sat"
    assert Path("notes.txt").read_text() == 'one\nthe "bird"\nsat\n'


def test_an_editor_that_fails_leaves_the_question(server: OllamaServer, folder: Path) -> None:
    with asked(server, folder, EDIT, EDITOR=editor(folder, "sys.exit(2)")) as terminal:
        terminal.type("e")
        terminal.until("exit code 2; the text is unchanged", "Esc no")
        terminal.type("n" + ENTER)
        terminal.until("That is all.")
    assert "cat" in Path("notes.txt").read_text()


def test_without_an_editor_the_text_is_edited_in_place(server: OllamaServer, folder: Path) -> None:
    with asked(server, folder, EDIT) as terminal:
        terminal.type("e")
        terminal.until("edit: the dog sat")
        terminal.type("\x1b" + ENTER)
        terminal.until("Alt-Enter begins a new line")
        terminal.type("down" + ENTER)
        terminal.until("  3 + down", "Esc no")
        terminal.type("y")
        terminal.until("That is all.")
    assert Path("notes.txt").read_text() == "one\nthe dog sat\ndown\n"


def test_several_calls_are_one_list_and_decided_one_by_one(server: OllamaServer, folder: Path) -> None:
    write = call("write_file", path="new.txt", content="new\n")
    with asked(server, folder, EDIT, write) as terminal:
        terminal.until("1. edit_file notes.txt +1 −1", "2. write_file new.txt +1 −0 (new file)", "Run all 2?")
        terminal.type("o")
        terminal.until("1. edit_file notes.txt +1 −1: run it?")
        terminal.type("n")
        terminal.until("why not?")
        terminal.type("keep the cat" + ENTER)
        terminal.until("✗ edit_file notes.txt +1 −1: keep the cat", "2. write_file new.txt +1 −0: run it?")
        terminal.type("y")
        terminal.until("● write_file new.txt +1 −0", "That is all.")
    assert b"keep the cat" in server.requests[-1].body
    assert "cat" in Path("notes.txt").read_text()
    assert Path("new.txt").read_text() == "new\n"


def test_calls_beside_one_that_asks_have_their_row_their_change_and_their_arguments(
    server: OllamaServer, folder: Path
) -> None:
    command = call("run_command", command="touch made")
    with asked(server, folder, EDIT, command, mode="auto") as terminal:
        assert "edit_file" not in terminal.text  # it needs no approval, and waits for the answer
        terminal.type("y")
        terminal.until("That is all.")
        row = terminal.at_prompt()
        shown = terminal.lines
        start = shown.index("● edit_file notes.txt +1 −1")
        assert shown[start + 1 : start + 4] == ["  1   one", "  2 - the cat sat", "  2 + the dog sat"]
        assert shown[start + 4] == "  ⎿ edited notes.txt: replaced 1 occurrence, in line 2"
        assert shown[start + 5 : start + 7] == ["● run_command  touch made", "  ⎿ exit code 0"]
        assert terminal.look("dog").reverse and terminal.look("cat").reverse
        terminal.type("/details" + ENTER)
        terminal.at_prompt(row + 1)
        details = terminal.lines[terminal.lines.index("> /details") + 1 :]
        assert details[:3] == ["edit_file notes.txt +1 −1", "  path: notes.txt", "  1   one"]
        assert {"  2 + the dog sat", "run_command", "  command: touch made", "  ⎿ [exit code 0]"} <= set(details)


def test_each_result_is_below_its_call_and_only_a_failure_has_a_cross(server: OllamaServer, folder: Path) -> None:
    wrong = call("edit_file", path="notes.txt", old="no such line", new="x")
    with asked(server, folder, EDIT, wrong) as terminal:
        terminal.type("y")
        terminal.until("That is all.")
        shown = [line for line in terminal.lines if line.startswith(("●", "✗", "✓", "  ⎿"))]
        assert shown == [
            *("● edit_file notes.txt +1 −1", "  ⎿ edited notes.txt: replaced 1 occurrence, in line 2"),
            *("● edit_file notes.txt +1 −1", "  ⎿ ✗ the old text does not occur in notes.txt; read the file first"),
        ]


@pytest.mark.slow
def test_calls_that_a_killed_program_left_have_their_rows(server: OllamaServer, folder: Path) -> None:
    command = call("run_command", command="touch made")
    with asked(server, folder, EDIT, command, mode="auto") as terminal:
        terminal.kill()
    named = {"OLLAMA_HOST": server.host, "OLLAMA_MODEL": MODEL, "VISUAL": "", "EDITOR": ""}
    with driven(folder / "home", "-c", rows=50, **named) as terminal:
        terminal.until("Esc no")
        terminal.type("y")
        terminal.until("● edit_file notes.txt +1 −1", "● run_command  touch made", "That is all.")


def test_a_long_change_is_folded_and_shown_by_a_key(server: OllamaServer, folder: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(100))
    with asked(server, folder, call("write_file", path="long.txt", content=text)) as terminal:
        terminal.until("… 40 more lines", "d   details")
        assert "line 99" not in terminal.text
        terminal.type("d")
        terminal.until("+ line 99", "Esc no")
        terminal.type("\x1b")
        terminal.until("(cancelled)")


def test_on_a_terminal_without_codes_a_line_answers(server: OllamaServer, folder: Path) -> None:
    named = {"TERM": "dumb", "OLLAMA_HOST": server.host, "OLLAMA_MODEL": MODEL, "VISUAL": "", "EDITOR": ""}
    server.calls(EDIT)
    server.replies("That is all.")
    with driven(folder / "home", rows=50, **named) as terminal:
        terminal.until(">")
        terminal.type("go\n")
        terminal.until("  2 - the cat sat", "  2 + the dog sat", "Run it? [y]es")
        terminal.type("e\n")
        terminal.until("a line with only a dot")
        terminal.type("the bird sat\n.\n")
        terminal.until("  2 + the bird sat")
        terminal.type("yes\n")
        terminal.until("That is all.")
        assert "\x1b" not in terminal.raw
    assert Path("notes.txt").read_text() == "one\nthe bird sat\n"


def test_what_tools_and_their_threads_print_is_above_the_status_row(server: OllamaServer, folder: Path) -> None:
    Path("tools.py").write_text(
        "import sys, threading, time\n\n\ndef slow() -> str:\n    'Be slow.'\n"
        "    for number in range(3):\n        print('out', number)\n"
        "        thread = threading.Thread(target=print, args=('thread', number), kwargs={'file': sys.stderr})\n"
        "        thread.start()\n        thread.join()\n        time.sleep(0.3)\n    return 'waited'\n"
    )
    server.calls(call("slow"))
    server.replies("That is all.")
    named = {"OLLAMA_HOST": server.host, "OLLAMA_MODEL": MODEL}
    with driven(folder / "home", "--tools", "tools.py", rows=50, **named) as terminal:
        terminal.at_prompt()
        terminal.type("go" + ENTER)
        terminal.until("Esc no")
        terminal.type("y")
        terminal.until("That is all.")
        terminal.at_prompt()
        start = terminal.lines.index("● slow")
        printed = [f"    {name} {number}" for number in range(3) for name in ("out", "thread")]
        assert terminal.lines[start + 1 : start + 8] == [*printed, "  ⎿ waited"]
        assert "Ctrl-C to stop" not in terminal.text
