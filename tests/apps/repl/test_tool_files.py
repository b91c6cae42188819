"""The tools of a file: which of its names are tools, and the errors for other files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from support.process import Process
from toolcast.apps.repl.tool_files import load_tools
from toolcast.errors import ToolcastError


@pytest.fixture(autouse=True)
def untouched(process: Process) -> Iterator[None]:
    """The file is a module, and its folder one to import from: here only for a test."""
    process.path(sys.path[:])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("toolcast_tools_") or name == "beside_it":
            del sys.modules[name]


def written(folder: Path, text: str, name: str = "my tools.py") -> Path:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return path


def names(path: Path) -> list[str]:
    return [tool.name for tool in load_tools(path)]


def test_the_functions_that_are_defined_there(tmp_path: Path) -> None:
    written(tmp_path, "def other() -> str:\n    return ''\n", "beside_it.py")
    path = written(
        tmp_path,
        """
        from __future__ import annotations
        from dataclasses import dataclass
        from pathlib import Path
        from beside_it import other
        from toolcast import CallableTool

        @dataclass
        class Place:
            name: str

        LIMIT = 3

        def weather(place: Place) -> str:
            "The weather of a place."
            return other()

        async def later(n: int = LIMIT) -> int:
            return n

        def _hidden(): ...

        made = CallableTool.from_function(lambda x: x, "made", "Made.")
        """,
    )
    assert names(path) == ["weather", "later", "made"]
    assert load_tools(path)[0].call({"place": {"name": "Oslo"}}).content == ""


def test_a_list_has_the_last_word(tmp_path: Path) -> None:
    path = written(tmp_path, "import math\ndef a(): ...\ndef b(): ...\ntools = [b, math.sqrt]\n")
    assert names(path) == ["b", "sqrt"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nx +\n", ":2: SyntaxError: invalid syntax"),
        ("\n\n1 / 0\n", ":3: ZeroDivisionError: division by zero"),
        ("def f():\n    raise ValueError('a\\nb')\nf()\n", ":2: ValueError: a b"),
        ("import nowhere_at_all\n", ":1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise SystemExit\n", ":1: SystemExit: no message"),
        ("tools = [1]\n", ": OutputTypeError: 1 is no tool"),
        ("def f(x: open): ...\n", ": OutputTypeError: "),
        ("def _f(): ...\n", "no tools in "),
        ("", "no tools in "),
    ],
)
def test_what_is_wrong_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ToolcastError) as caught:
        load_tools(path)
    message = str(caught.value)
    assert words in message
    assert str(path) in message
    assert "\n" not in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolcastError, match="no file"):
        load_tools(tmp_path / "nothing.py")


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(ToolcastError, match=r"end in \.py"):
        load_tools(written(tmp_path, "{}", "tools.json"))
