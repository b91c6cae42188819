"""JSON of `toolcast get` on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, model_serializer

from support.driven_repl import driven
from support.ollama_server import DONE, MODEL, OllamaServer, delta
from support.terminal_emulator import Emulated
from toolcast import ToolOrchestratingLLM
from toolcast.apps.get_command import print_growing, print_json
from toolcast.testing import ScriptedLLM

PROGRAM = "import sys; from toolcast.apps.cli import main; sys.exit(main(sys.argv[2:]))"
BOOK = '{"title": "Emma", "year": 1815, "tags": ["novel", "wit"]}'
SHOWN = ["{", '  "title": "Emma",', '  "year": 1815,', '  "tags": [', '    "novel",', '    "wit"', "  ]", "}"]


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("columns", [20, 40, 120])
def test_the_object_grows_in_place(server: OllamaServer, tmp_path: Path, columns: int) -> None:
    server.streams(*[delta(content=BOOK[at : at + 6]) for at in range(0, len(BOOK), 6)], DONE)
    words = ("get", "title, year int, tags list", "Emma, 1815", "-m", f"ollama:{MODEL}")
    env = {"OLLAMA_HOST": server.host}
    with driven(tmp_path, *words, program=PROGRAM, columns=columns, rows=10, **env) as terminal:
        assert terminal.ends() == 0
        assert terminal.lines == SHOWN
        assert terminal.raw.count('"title"') > 2  # drawn several times, and left once
        assert terminal.look('"title"').fg != "default"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_without_colours(server: OllamaServer, tmp_path: Path) -> None:
    server.streams(delta(content=BOOK), DONE)
    words = ("get", "title, year int, tags list", "Emma, 1815", "-m", f"ollama:{MODEL}")
    with driven(tmp_path, *words, program=PROGRAM, OLLAMA_HOST=server.host, NO_COLOR="1") as terminal:
        assert terminal.ends() == 0
        assert terminal.lines == SHOWN
        assert terminal.look('"title"').fg == "default"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {}])
def test_many_objects_at_a_terminal_are_indented(server: OllamaServer, tmp_path: Path, more: dict[str, str]) -> None:
    server.streams(delta(content='{"value": [{"name": "A"}, {"name": "B"}]}'), DONE)
    words = ("get", "--many", "name", "A and B", "-m", f"ollama:{MODEL}")
    with driven(tmp_path, *words, program=PROGRAM, OLLAMA_HOST=server.host, **more) as terminal:
        assert terminal.ends() == 0
        assert terminal.lines == ["{", '  "name": "A"', "}", "{", '  "name": "B"', "}"]


def test_a_long_object_shows_its_end_while_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "6")
    adapter: TypeAdapter[Any] = TypeAdapter(list[int])
    terminal = TerminalOutput()
    seen = []

    def growing() -> Iterator[list[int]]:
        for count in range(20):
            yield [*range(count)]
            seen.append(terminal.emulated.screen.display)

    print_growing(growing(), adapter, terminal)  # type: ignore[arg-type]  # what rich needs of a stream
    assert max(len([line for line in screen if line.strip()]) for screen in seen) <= 6
    assert "18" in "".join(seen[-1])
    assert terminal.emulated.lines == ["[", *(f"  {number}," for number in range(18)), "  18", "]"]


class TerminalOutput:
    """A stream that is a terminal of 30 columns and 6 rows."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.emulated = Emulated(30, 6)

    def write(self, text: str) -> int:
        return self.emulated.write(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


class Strict(BaseModel):
    """A type that serializes complete objects only."""

    name: str
    age: int

    @model_serializer
    def both(self) -> str:
        return f"{self.name} {self.age}"


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("output", "data", "shown"),
    [(Strict, {"name": "A", "age": 3}, '"A 3"'), (Point, {"x": 1, "y": 2}, '{\n  "x": 1,\n  "y": 2\n}')],
)
def test_types_of_the_users(output: Any, data: dict[str, Any], shown: str) -> None:
    stream = StringIO()
    call = ToolOrchestratingLLM(output, "x", ScriptedLLM(data, chunk=3))
    print_growing(call.stream(), TypeAdapter(output), stream)
    assert stream.getvalue().strip() == shown


def test_states_that_cannot_be_serialized_are_not_drawn() -> None:
    class Unfinished:
        """A value that pydantic cannot serialize."""

    stream = StringIO()
    print_growing(iter([Unfinished(), {"a": 1}]), TypeAdapter(Any), stream)
    assert stream.getvalue().strip() == '{\n  "a": 1\n}'


def test_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcast.apps.get_command.find_spec", lambda name: None)
    stream = StringIO()
    print_growing(iter([{}, {"a": 1}]), TypeAdapter(dict[str, int]), stream)
    print_json("{}", stream)
    assert stream.getvalue() == '{\n  "a": 1\n}\n{}\n'
