"""Many inputs at a shell: `toolcast map` in pipes, at a terminal, interrupted, and resumed."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import pytest

from support.driven_repl import CTRL_C, PROGRAM, Driven
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, reply
from user.commands import command, needs_a_shell, shell
from user.session import PATIENCE, command_environment, finish

pytestmark = needs_a_shell

ROWS = 12


def text_of(number: int) -> str:
    return f"Person{number} is {number}"


class People:
    """Extracts the person of each text. From row `hold` on it waits until `go`."""

    def __init__(self) -> None:
        self.hold = ROWS
        self.go = Event()
        self.asked: Queue[str] = Queue()

    def __call__(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        text = messages[-1]["content"].rpartition("\n")[2]
        self.asked.put(text)
        name, _, age = text.split(" ")
        if int(age) >= self.hold:
            assert self.go.wait(PATIENCE)
        return reply(json.dumps({"name": name, "age": int(age)}))


@pytest.fixture
def people() -> People:
    return People()


@pytest.fixture
def server(people: People) -> Iterator[OllamaByRule]:
    with OllamaByRule(people) as server:
        yield server
        people.go.set()


@pytest.fixture
def env(server: OllamaByRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    with Path("people.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [("id", "text"), *((number, text_of(number)) for number in range(ROWS))]
        )
    return command_environment(OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, PYTHON=sys.executable)


def results(file: str = "people.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


COLOUR = re.compile("\x1b\\[(?:\\d+;)*[39]\\d")
"""A code that sets a colour of the text."""

MAP = ("map", "name, age int", "--input", "people.csv", "--output", "people.jsonl", "--concurrency", "3")


def test_pipes(env: dict[str, str]) -> None:
    screen = shell("grep '[13]$' people.csv | cut -d, -f2 | toolcast map 'name, age int'", env)
    assert [json.loads(line)["output"] for line in screen.lines] == [
        {"name": f"Person{age}", "age": age} for age in (1, 3, 11)
    ]
    assert screen.code == 0
    assert screen.err == "3 results, 0 failed; 330 tokens\n"
    assert shell("cut -d, -f2 people.csv | toolcast map 'name, age int' --quiet", env).code == 1  # the header fails
    first = shell("toolcast map 'name, age int' --input people.csv --quiet | head -1", env).went_well()
    assert json.loads(first[0])["output"] == {"name": "Person0", "age": 0}


def test_a_run_that_is_killed_is_resumed(env: dict[str, str], people: People, server: OllamaByRule) -> None:
    """After kill -9 rows with a result are not asked again, none is lost, none is there twice."""
    people.hold = 5
    running = command(*MAP, env=env)
    for _ in range(6):
        people.asked.get(timeout=PATIENCE)
    running.kill()
    finish(running)
    assert not Path("people.jsonl").exists()
    status = shell("toolcast map --status people.jsonl", env).went_well()
    assert "people.jsonl.checkpoint: not running, started 1 time, last at 20" in status[0]
    done = int(status[1].split()[1])
    assert done >= 3  # as many as had to end before the sixth began
    before = len(server.requests)
    people.go.set()
    assert shell("toolcast map 'name, age int' --input people.csv --output people.jsonl --resume", env).code == 0
    assert [each["output"]["age"] for each in results()] == list(range(ROWS))
    assert len(server.requests) - before == ROWS - done


@contextmanager
def at_terminal(words: Sequence[str], env: dict[str, str]) -> Iterator[Driven]:
    """The command in a terminal of its own."""
    program = [sys.executable, "-W", "error", "-c", PROGRAM, *words]
    terminal = Driven(program, {"TERM": "xterm-256color", **env}, 120, 24)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("colour", [{}, {"NO_COLOR": "1"}], ids=["colours", "NO_COLOR"])
def test_ctrl_c_once_finishes_the_rows_that_run(
    colour: dict[str, str], env: dict[str, str], people: People, server: OllamaByRule
) -> None:
    people.hold = 5
    env.pop("NO_COLOR", None)
    with at_terminal(MAP, env | colour) as terminal:
        for _ in range(8):
            people.asked.get(timeout=PATIENCE)
        terminal.until("5/12", "3 of 3 running")
        terminal.type(CTRL_C)
        terminal.until("finishing 3 running items; press Ctrl-C again to stop now. A run with the checkpoint")
        people.go.set()
        assert terminal.ends() == 130
        assert "toolcast: interrupted. Resume with: toolcast map 'name, age int' --input people.csv" in terminal.text
        assert bool(COLOUR.search(terminal.raw)) is not bool(colour)
    assert len(server.requests) == 8
    with at_terminal((*MAP, "--resume"), env) as terminal:
        assert terminal.ends() == 0
        assert "12 results, 0 failed; 1,320 tokens" in terminal.text
    assert len(server.requests) == ROWS
    assert [each["output"]["age"] for each in results()] == list(range(ROWS))
