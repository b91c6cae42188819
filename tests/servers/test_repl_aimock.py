"""The REPL in a terminal, on aimock's Ollama: R1 to R8 as a person sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.aimock_server import Aimock
from support.driven_repl import CTRL_C, CTRL_D, ENTER, Driven, driven

pytestmark = pytest.mark.networked


@pytest.fixture
def terminal(aimock: Aimock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    """`toolcast chat` on aimock, at its first prompt, in a folder with one file."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("the tide is at noon\n")
    monkeypatch.chdir(tmp_path / "work")
    with driven(tmp_path / "home", OLLAMA_HOST=aimock.url, OLLAMA_MODEL="llama3.2") as running:
        running.at_prompt()
        yield running


def messages(aimock: Aimock, request: int = -1) -> list[dict[str, Any]]:
    """The messages of a request, as aimock understood them."""
    found: list[dict[str, Any]] = aimock.requests()[request]["body"]["messages"]
    return found


def test_an_answer_in_markdown_and_the_next_question_sees_it(aimock: Aimock, terminal: Driven) -> None:
    """R1, R2, R8."""
    aimock.reply("hello", "# Greetings\n\nHow *are* you?\n\n- well\n- not so well\n\n```python\nprint('hi')\n```\n")
    aimock.reply("well", "Good.")
    terminal.submit("hello")
    shown = terminal.lines[terminal.lines.index("> hello") :]
    assert [line for line in shown if line] == [
        "> hello", "Greetings", "How are you?", " • well", " • not so well", "```python", "print('hi')", "```", ">",
    ]  # fmt: skip
    terminal.submit("well, well")
    assert "Good." in terminal.lines
    assert [message["role"] for message in messages(aimock)] == ["system", "user", "assistant", "user"]
    assert "# Greetings" in messages(aimock)[2]["content"]
    asked = len(aimock.requests())
    terminal.type("exit" + ENTER)
    assert terminal.ends() == 0
    assert len(aimock.requests()) == asked


def test_a_turn_with_a_tool(aimock: Aimock, terminal: Driven) -> None:
    """R3, R5."""
    read = {"name": "read_file", "arguments": {"path": "notes.txt"}}
    aimock.answer({"userMessage": "noon", "sequenceIndex": 0}, {"content": "I look.", "toolCalls": [read]})
    aimock.answer({"userMessage": "noon"}, {"content": "The **tide** is."})
    terminal.submit("what is at noon?")
    shown = [line for line in terminal.lines[terminal.lines.index("> what is at noon?") + 1 :] if line]
    assert shown[:2] == ["I look.", '● read_file(path="notes.txt")']
    assert "the tide is at noon" in shown[2]
    assert shown[3:] == ["The tide is.", ">"]
    assert [message["role"] for message in messages(aimock)][-3:] == ["user", "assistant", "tool"]
    assert "the tide is at noon" in json.dumps(messages(aimock)[-1])


def test_what_is_refused_is_not_done(aimock: Aimock, terminal: Driven) -> None:
    write = {"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}}
    aimock.answer({"userMessage": "write", "sequenceIndex": 0}, {"toolCalls": [write]})
    aimock.answer({"userMessage": "write"}, {"content": "Then not."})
    terminal.type("write it" + ENTER)
    terminal.until("Esc no")
    terminal.type("n" + ENTER)
    terminal.until("Then not.")
    assert not Path("new.txt").exists()
    assert "denied" in json.dumps(messages(aimock)[-1])


def test_an_error_and_a_tool_that_no_one_has(aimock: Aimock, terminal: Driven) -> None:
    """R6."""
    aimock.answer({"userMessage": "break"}, {"error": {"message": "out of order"}, "status": 500})
    unknown = {"name": "no_such_tool", "arguments": {}}
    aimock.answer({"userMessage": "call", "sequenceIndex": 0}, {"toolCalls": [unknown]})
    aimock.answer({"userMessage": "call"}, {"content": "All is well."})
    terminal.submit("break")
    assert "✗" in terminal.text and "out of order" in terminal.text
    terminal.submit("call")
    assert "no_such_tool()" in terminal.text
    assert "All is well." in terminal.lines


def test_ctrl_c(aimock: Aimock, terminal: Driven) -> None:
    """R7: aimock takes its time between the pieces."""
    slowly = {"content": "word " * 2000}
    aimock._post("fixtures", {"fixtures": [{"match": {"userMessage": "tell"}, "response": slowly, "latency": 50}]})
    aimock.reply("again", "Here I am.")
    terminal.type("tell" + ENTER)
    terminal.until("word word")
    terminal.type(CTRL_C)
    terminal.until("(cancelled)")
    terminal.at_prompt()
    terminal.submit("again")
    assert "Here I am." in terminal.lines
    terminal.type(CTRL_D)
    assert terminal.ends() == 0
