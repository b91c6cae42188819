"""The REPL in a real terminal: what a person sees and types, from the first banner to the exit code."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driven_repl import CTRL_C, CTRL_D, CTRL_O, ENTER, ESCAPE, TAB, Driven, driven
from support.loopback import HOLD
from support.ollama_server import DONE, MODEL, OllamaServer, call, delta

COLOUR = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def terminal(server: OllamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    """`toolcast chat` on the server, at its first prompt, in an empty folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with driven(tmp_path / "home", OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as running:
        running.at_prompt()
        yield running


def test_thinking_markdown_and_calls_have_looks_of_their_own(server: OllamaServer, terminal: Driven) -> None:
    """R2, R3, R5: all three in one chunk, and the result of the tool goes back to the model."""
    server.streams(delta(thinking="Let me see.", content="I **look**.", tool_calls=[call("list_files")]), DONE)
    server.streams(
        delta(content="- no"), delta(content="thing\n- there\n\n```python\nx = 1"), delta(content="\n```"), DONE
    )
    terminal.submit("what is here?")
    shown = terminal.lines[terminal.lines.index("> what is here?") :]
    assert [line for line in shown if line and "⎿" not in line and not line.startswith("    ")] == [
        "> what is here?", "Let me see.", "I look.", "● list_files()", " • nothing", " • there",
        "```python", "x = 1", "```", ">",
    ]  # fmt: skip
    assert "\x1b[2;3mLet me see." in terminal.raw
    assert terminal.look("look.").bold
    assert terminal.look("list_files").fg == "magenta"
    assert b'"role":"tool"' in server.requests[1].body.replace(b": ", b":")
    assert COLOUR.search(terminal.raw)


def test_the_next_question_sees_the_answer_and_the_history_its_inputs(
    server: OllamaServer, terminal: Driven, tmp_path: Path
) -> None:
    """R1, R8."""
    server.replies("It is *blue*.")
    server.replies("Yes.")
    terminal.submit("colour of the sky?")
    terminal.type(f"really\\{ENTER}blue?{ENTER}")
    terminal.until("Yes.")
    terminal.at_prompt()
    assert b"It is *blue*." in server.requests[1].body
    assert rb"really\nblue?" in server.requests[1].body
    terminal.type("exit" + ENTER)
    assert terminal.ends() == 0
    history = (tmp_path / "home" / "prompt_history").read_text()
    assert [line for line in history.splitlines() if line.startswith("+")] == [
        "+colour of the sky?", "+really", "+blue?", "+exit",
    ]  # fmt: skip


def test_ctrl_c_in_an_answer_gives_the_prompt_back_and_at_the_prompt_leaves(
    server: OllamaServer, terminal: Driven
) -> None:
    """R7."""
    server.breaks_off(delta(content="Once upon a time"), HOLD)
    server.replies("Again.")
    terminal.type("a story" + ENTER)
    terminal.until("Once upon a time")
    terminal.type(CTRL_C)
    terminal.until("(cancelled)")
    server.wait_open(0)
    before = terminal.at_prompt()
    terminal.submit("again")
    assert "Again." in terminal.lines[before:]
    assert "^C" not in terminal.text
    terminal.type(CTRL_C)
    assert terminal.ends() == 130


def test_ctrl_d_leaves(terminal: Driven) -> None:
    terminal.type(CTRL_D)
    assert terminal.ends() == 0


def test_what_is_typed_during_an_answer_is_there_at_the_next_prompt(server: OllamaServer, terminal: Driven) -> None:
    gate = threading.Event()
    server.streams(delta(content="The first\n\nans"), gate, delta(content="wer."), DONE)
    server.replies("The second.")
    terminal.type("one" + ENTER)
    terminal.until("ans")
    terminal.type("two" + ENTER)
    gate.set()
    terminal.until("The second.")
    terminal.at_prompt()
    assert [line for line in terminal.lines if line][-6:-1] == ["> one", "The first", "answer.", "> two", "The second."]


def test_what_is_typed_during_an_answer_is_there_after_ctrl_c(server: OllamaServer, terminal: Driven) -> None:
    server.breaks_off(delta(content="Once upon a time"), HOLD)
    terminal.type("a story" + ENTER)
    terminal.until("Once upon a time")
    terminal.type("and then" + CTRL_C)
    terminal.until("(cancelled)", "> and then")


@pytest.mark.parametrize("stop", [CTRL_C, ESCAPE])
def test_queued_lines_are_not_sent_after_a_stop(server: OllamaServer, terminal: Driven, stop: str) -> None:
    server.breaks_off(delta(content="Once upon a time"), HOLD)
    terminal.type("a story" + ENTER)
    terminal.until("Once upon a time")
    for line in ("second wish", "!touch file"):
        terminal.type(line + ENTER)
        terminal.until(f"> {line}")
    terminal.type(stop)
    terminal.until("(cancelled)", "> second wish\n  !touch file")
    assert len(server.requests) == 1
    assert not Path("file").exists()


@pytest.mark.parametrize("marks", [("\x1b[200~", "\x1b[201~"), ("", "")])
def test_a_paste_during_an_answer_is_one_input(server: OllamaServer, terminal: Driven, marks: tuple[str, str]) -> None:
    gate = threading.Event()
    server.streams(delta(content="The first ans"), gate, delta(content="wer."), DONE)
    server.replies("The second.")
    terminal.type("one" + ENTER)
    terminal.until("ans")
    assert terminal.raw.rindex("\x1b[?2004h") > terminal.raw.rindex("\x1b[?2004l")
    begin, end = marks
    terminal.type(f"{begin}!touch file{ENTER}/clear{ENTER}end{end}")
    terminal.until("> !touch file\n  /clear\n  end▏")
    gate.set()
    terminal.until("answer.\n\n> !touch file\n  /clear\n  end\n")
    assert len(server.requests) == 1
    terminal.type(ENTER)
    terminal.until("The second.")
    assert rb"!touch file\n/clear\nend" in server.requests[1].body
    assert not Path("file").exists()


def test_lines_that_arrive_with_an_enter_are_sent_in_their_order(server: OllamaServer, terminal: Driven) -> None:
    gate = threading.Event()
    server.streams(delta(content="The first ans"), gate, delta(content="wer."), DONE)
    server.replies("The second.")
    server.replies("The third.")
    terminal.type(f"one{ENTER}two{ENTER}")
    terminal.until("ans", "> two\n")
    terminal.type(f"three{ENTER}")
    terminal.until("> three")
    gate.set()
    terminal.until("The third.")
    terminal.at_prompt()
    shown = [line for line in terminal.lines if line]
    assert shown[-7:-1] == ["> one", "The first answer.", "> two", "The second.", "> three", "The third."]


def test_escape_stops_an_answer_and_eats_no_key(server: OllamaServer, terminal: Driven) -> None:
    server.breaks_off(delta(content="Once upon a time"), HOLD)
    terminal.type("a story" + ENTER)
    terminal.until("Once upon a time")
    terminal.type(ESCAPE)
    terminal.until("(cancelled)")
    before = terminal.at_prompt()
    terminal.type("/cost" + ENTER)
    terminal.until("tokens in", lines=before)
    assert len(server.requests) == 1


def test_what_is_typed_during_an_answer_is_shown_and_can_be_taken_back(server: OllamaServer, terminal: Driven) -> None:
    gate = threading.Event()
    server.streams(delta(content="The first ans"), gate, delta(content="wer."), DONE)
    server.replies("The second.")
    terminal.type("one" + ENTER)
    terminal.until("ans")
    terminal.type("two" + ENTER)
    terminal.until("> two")
    terminal.type("thre")
    terminal.until("> thre▏")
    terminal.type("\x7f" * 5)
    terminal.until("> two▏")
    terminal.type("!" + ENTER)
    terminal.until("> two!")
    gate.set()
    terminal.until("The second.")
    terminal.at_prompt()
    assert [line for line in terminal.lines if line][-5:-1] == ["> one", "The first answer.", "> two!", "The second."]


def test_a_call_is_approved_by_yes_and_denied_by_no(server: OllamaServer, terminal: Driven) -> None:
    """R10."""
    for path in ("one.txt", "two.txt"):
        server.calls(call("write_file", path=path, content="text\n" * 30))
        server.replies(f"That was {path}.")
    before = terminal.at_prompt()
    terminal.type("write" + ENTER)
    terminal.until("Run it?", "Esc no", lines=before)
    terminal.type("mb1 ?")  # which are no answers
    terminal.type("Y" + ENTER)
    terminal.until("That was one.txt.")
    assert Path("one.txt").read_text() == "text\n" * 30
    before = terminal.at_prompt()
    terminal.type("again" + ENTER)
    terminal.until("Esc no", lines=before)
    terminal.type("n I like it as it is" + ENTER)
    terminal.until("That was two.txt.")
    assert not Path("two.txt").exists()
    assert b"I like it as it is" in server.requests[-1].body
    before = terminal.at_prompt()
    terminal.type(CTRL_O)
    terminal.until("path: two.txt", "I like it as it is", lines=before - 1)


def test_a_question_of_the_model(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("ask_user", question="Which one?", choices=["red", "blue"]))
    server.replies("So be it.")
    terminal.type("paint it" + ENTER)
    terminal.until("Which one?", "2  blue", "answer:")
    terminal.type("2" + ENTER)
    terminal.until("So be it.")
    assert b"blue" in server.requests[-1].body.rpartition(b'"tool"')[2]


def test_a_command_is_run_and_ctrl_c_ends_it(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("run_command", command="echo $((40 + 2)); exec sleep 600"))
    server.replies("Well.")
    terminal.submit("/mode auto")
    terminal.type("run it" + ENTER)
    terminal.until("Esc no")
    terminal.type("y")
    terminal.until("    42")
    terminal.type(CTRL_C)
    terminal.until("(cancelled)")
    before = terminal.at_prompt()
    terminal.submit("and now?")
    assert "Well." in terminal.lines[before:]


def test_errors_are_reported_and_the_prompt_comes_back(server: OllamaServer, terminal: Driven) -> None:
    """R6."""
    server.streams(delta(content="half"), b"{not json}\n", delta(content=" whole"), DONE)
    for _ in range(3):  # it is tried again twice
        server.fails(500, "out of order")
    server.calls(call("no_such_tool"))
    server.replies("All is well.")
    terminal.submit("one")
    before = terminal.submit("two")
    assert "out of order" in terminal.text
    assert terminal.look("✗").fg == "red"
    terminal.submit("three")
    assert "All is well." in terminal.lines[before:]


def test_tab_completes(terminal: Driven) -> None:
    Path("north.txt").write_text("[]")
    terminal.type("/mod" + TAB)
    terminal.until("/model")
    terminal.type(TAB + ENTER)
    terminal.until("> /mode")
    terminal.type(" ver")
    terminal.until("> /mode ver")
    terminal.type(TAB)
    terminal.until("> /mode verify")
    terminal.type(ENTER)
    terminal.until("* verify")
    terminal.at_prompt()
    terminal.type("/load n")
    terminal.until("> /load n")
    terminal.type(TAB)
    terminal.until("> /load north.txt")


def test_a_long_answer_stands_there_once(server: OllamaServer, terminal: Driven) -> None:
    parts = [f"## Part {n}\n\nThis is *part* {n} of it, 漢字 🎉, " + "which goes on " * 12 for n in range(30)]
    table = "| n | word |\n|---|---|\n" + "\n".join(f"| row {n} | **x** |" for n in range(60))
    text = "\n\n".join([*parts, table, "The end."])
    server.streams(*(delta(content=text[at : at + 11]) for at in range(0, len(text), 11)), DONE)
    terminal.submit("tell me all")
    for n in range(30):
        assert terminal.lines.count(f"Part {n}") == 1
        assert sum(f"part {n} of it, 漢字 🎉" in line.replace("漢字 🎉", "漢字 🎉") for line in terminal.lines) == 1
    assert [line.split()[1] for line in terminal.lines if line.startswith(" row ")] == [str(n) for n in range(60)]
    assert terminal.lines.count("The end.") == 1


@pytest.mark.parametrize("columns", [120, 60])
def test_a_terminal_of_another_size_in_the_middle(server: OllamaServer, terminal: Driven, columns: int) -> None:
    gate, more = threading.Event(), "and these words are the rest of the paragraph, which is longer than a row of it. "
    server.streams(
        delta(content="# Head\n\nShort *rows*\n\n- one\n- t"), gate, delta(content=f"wo\n\n{more * 3}"), DONE
    )
    terminal.type("go on" + ENTER)
    terminal.until(" • t")
    terminal.resize(columns, 30)
    gate.set()
    terminal.until("longer than a row of it.")
    terminal.at_prompt()
    shown = terminal.lines[terminal.lines.index("> go on") + 1 :]
    *rest, prompt = [line for line in shown if line]
    assert rest[:4] == ["Head", "Short rows", " • one", " • two"]
    assert " ".join(rest[4:]).split() == (more * 3).split()
    assert max(map(len, rest)) > min(columns, 80) - 15
    assert prompt == ">"


EVIL = "\x1b[2J\x1b]0;owned\x07\x1b[31m\x9b2Jend"


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_no_one_but_the_repl_commands_the_terminal(
    server: OllamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    (tmp_path / "evil.txt").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    server.streams(delta(thinking=EVIL, content=EVIL, tool_calls=[call("read_file", path="evil.txt", x=EVIL)]), DONE)
    server.calls(call(EVIL), call("read_file", path="evil.txt"))
    server.replies(f"That {EVIL} was all.")
    with driven(tmp_path, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, TERM=term) as terminal:
        terminal.until(">")
        terminal.type("go" + ENTER)
        terminal.until("was all.")
        assert "toolcast" in terminal.text
        terminal.at_prompt()
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    assert "\x1b]" not in terminal.raw
    assert "\x9b" not in terminal.raw
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b[31mend" not in terminal.raw
    assert "\\x1b]0;owned" in terminal.text


def test_no_color_takes_colours_and_nothing_else(server: OllamaServer, tmp_path: Path) -> None:
    server.replies("# Title\n\nSome **bold** text.\n\n- item")
    with driven(tmp_path, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, NO_COLOR="1") as terminal:
        terminal.submit("go")
        assert [line for line in terminal.lines if line][-4:-1] == ["Title", "Some bold text.", " • item"]
        terminal.type("/mod" + TAB)
        terminal.until("/model")
        terminal.type(CTRL_C)  # clears the line
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)[;m]", terminal.raw)
    assert "+go" in (tmp_path / "prompt_history").read_text()


def test_a_dumb_terminal_gets_no_code_at_all(server: OllamaServer, tmp_path: Path) -> None:
    """R11."""
    server.streams(delta(thinking="Hm.", content="Some **bold** text.", tool_calls=[call("no_such_tool")]), DONE)
    server.replies("# The end")
    with driven(tmp_path, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, TERM="dumb") as terminal:
        terminal.until(">")
        terminal.type("go\n")
        terminal.until("Some **bold** text.", "# The end")
        terminal.at_prompt()
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    assert "\x1b" not in terminal.raw


def test_a_program_that_types_whole_lines(server: OllamaServer, terminal: Driven) -> None:
    server.replies("Hello, program.")
    terminal.type("hello\n")
    terminal.until("Hello, program.")


SCRIPTED = """
import sys
from toolcast.apps import cli
from toolcast.apps.repl import chat_startup
from toolcast.testing import ScriptedLLM
text = "\\n\\n".join(f"Paragraph {n} of **this** text, " + "with words " * 9 for n in range(800))
chat_startup.choose_chat_llm = lambda *named: ScriptedLLM(text, "Short.", chunk=40)
sys.exit(cli.main())
"""


@pytest.mark.slow
def test_a_hundred_kilobytes(tmp_path: Path) -> None:
    with driven(tmp_path, program=SCRIPTED) as terminal:
        terminal.submit("all of it")
        numbers = [line.split()[1] for line in terminal.lines if line.startswith("Paragraph")]
        assert numbers == [str(n) for n in range(800)]
        before = terminal.at_prompt()
        terminal.submit("once more")
        assert "Short." in terminal.lines[before:]
        assert len(terminal.raw) < 2 * 100_000


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_last_row_shows_what_happens_until_the_answer_is_complete(
    server: OllamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = threading.Event(), threading.Event()
    server.loaded = [{"name": MODEL, "context_length": 8192}]
    command = call("run_command", command="until [ -e go ]; do sleep 0.05; done; seq 1 30; exit 3")
    server.streams(first, delta(thinking="Let me see."), second, delta(tool_calls=[command]), DONE)
    server.replies("It **failed**.")
    with driven(
        tmp_path / "home", "--mode", "auto", columns=columns, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL
    ) as terminal:
        terminal.at_prompt()
        assert terminal.status == "m-1 · mode auto"
        terminal.type("run it" + ENTER)
        terminal.until("Waiting for m-1 · ", "Ctrl-C to stop")
        first.set()
        terminal.until("Thinking · ", "Ctrl-C to stop")
        second.set()
        terminal.until("Esc no")
        assert "Ctrl-C to stop" not in terminal.text
        terminal.type("y")
        terminal.until("Running run", "Ctrl-C to stop")
        assert all(len(line) <= columns for line in terminal.lines)
        (tmp_path / "go").touch()
        terminal.until("It failed.")
        terminal.at_prompt()
        terminal.until(" context")
        shown = [line.strip() for line in terminal.lines]
        assert shown[shown.index("⎿ ✗ exit code 3") :] == [
            *("⎿ ✗ exit code 3", "… 22 lines … (Ctrl-O shows all)", "23", "24", "25", "26", "27", "28", "29", "30"),
            *("", "It failed.", "", ">"),
        ]
        assert terminal.look("exit code 3").fg == "red"
        context = "" if columns < 60 else " of 8.2k"
        assert terminal.status == f"m-1 · mode auto · 0 %{context} context{'' if columns < 60 else ' · 30 tokens'}"
        terminal.submit("/details")
        assert terminal.lines[-33:-31] == ["  ⎿ 1", "    2"]
        assert terminal.lines[-4:] == ["    30", "    [exit code 3]", "", ">"]


TOOLS = """\
import os
from toolcast import Agent, Ollama
from toolcast.agents import ElfManager

agent = Agent(Ollama(os.environ["OLLAMA_MODEL"], base_url="http://" + os.environ["OLLAMA_HOST"]))
tools = [tool.with_(read_only=True) for tool in ElfManager(agent).tools()]
"""


def test_sub_agents_at_work_have_a_row_each(
    server: OllamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    tasks = [{"prompt": f"Review the file {name}.py"} for name in "ab"]
    gate = threading.Event()
    server.calls(call("spawn_elves", tasks=tasks))
    for _ in tasks:
        server.streams(delta(content="A good file, "), gate, delta(content="I think."), DONE)
    server.replies("Both are good.")
    arguments = ("--tools", str(tmp_path / "tools.py"))
    with driven(tmp_path / "home", *arguments, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.at_prompt()
        terminal.type("review" + ENTER)
        terminal.until("Review the file a.py · Answering", "Review the file b.py · Answering", "Running spawn_elves")
        rows = [line for line in terminal.lines if "Review the file" in line and "●" not in line]
        assert [re.sub(r"\W+ (elf-\d) (.*) · \d+ s · \d tokens", r"\2", row) for row in rows] == [
            f"Review the file {name}.py · Answering" for name in "ab"
        ]
        gate.set()
        terminal.until("Both are good.")
        terminal.at_prompt()
        assert "· Answering" not in terminal.text
        assert "  ⎿ Task 1: elf-" in terminal.text
