"""The REPL in a terminal, on the embedded model: `toolcast chat` without any other model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driven_repl import CTRL_C, CTRL_D, ENTER, Driven, driven
from toolcast import Settings, system, user
from toolcast.events import Finish
from toolcast.llms.local.guided import GuidedLlamaCpp
from toolcast.llms.local.repetition import REPETITION

pytestmark = pytest.mark.networked


@pytest.fixture
def terminal(smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    """`toolcast chat`, whose default is this model; only other weights have to be named."""
    monkeypatch.chdir(tmp_path)
    other = ("--model", f"local:{smollm2}") if "TOOLCAST_TEST_GGUF" in os.environ else ()
    with driven(tmp_path, *other, "--system", "Answer with one short sentence.") as running:
        running.at_prompt()
        yield running


def answer_to(terminal: Driven, question: str) -> str:
    """Send a question; return the answer."""
    terminal.submit(question)
    asked = max(number for number, line in enumerate(terminal.lines) if line == f"> {question}")
    return " ".join(terminal.lines[asked + 1 : -1]).strip()


def test_a_conversation(terminal: Driven, tmp_path: Path) -> None:
    """R1, R8: two answers, of which the second knows the first; and a session that is there when one comes back."""
    assert "smollm2" in terminal.text
    first = answer_to(terminal, "What is the capital of France?")
    assert "Paris" in first
    assert answer_to(terminal, "Name a river there.")
    terminal.submit("/context")
    terminal.until("assistant messages")
    terminal.type("exit" + ENTER)
    assert terminal.ends() == 0
    assert (tmp_path / "sessions.db").is_file()
    assert "+What is the capital of France?" in (tmp_path / "prompt_history").read_text().splitlines()


TOOLS = '''
from toolcast import CallableTool

def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 degrees"

def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b

tools = [CallableTool.from_function(tool).with_(read_only=True) for tool in (weather, multiply)]
'''


@pytest.mark.skipif("TOOLCAST_TEST_GGUF" in os.environ, reason="only the model that `toolcast pull` fetches is guided")
def test_tools_are_called_where_they_are_needed(smollm2: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with driven(tmp_path, "--tools", str(tmp_path / "tools.py")) as terminal:
        assert "weather(city=" in answer_to(terminal, "What is the weather in Oslo?")
        terminal.until('weather(city="Oslo")', "Oslo: sunny, 21 degrees")
        assert "391" in answer_to(terminal, "What is 17 times 23?")
        assert "multiply(" not in answer_to(terminal, "What is the capital of France?")


@pytest.mark.skipif("TOOLCAST_TEST_GGUF" in os.environ, reason="only the model that `toolcast pull` fetches is guided")
def test_an_answer_that_repeats_itself_is_ended(smollm2: Path) -> None:
    exact = Settings(temperature=0, extra={"cache_prompt": False})
    with GuidedLlamaCpp(settings=exact) as llm:
        *_, end = llm.stream_chat([system("You are a helpful assistant."), user(" ".join(["la"] * 16))])
    assert end == Finish("other", raw=REPETITION)


def test_ctrl_c_in_an_answer(terminal: Driven) -> None:
    """R7."""
    before = terminal.at_prompt()
    terminal.type("Write a very long story about a lighthouse, with many chapters." + ENTER)
    terminal.until(".", lines=before + 1)
    terminal.type(CTRL_C)
    terminal.until("(cancelled)")
    terminal.at_prompt(before)
    assert "Paris" in answer_to(terminal, "What is the capital of France?")
    terminal.type(CTRL_D)
    assert terminal.ends() == 0
