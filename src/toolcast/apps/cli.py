"""The `toolcast` command. Each sub-command is a row in `_COMMANDS` and a module of this room.

A module has `arguments(parser)`, which says what may stand on the command line, and `run(arguments)`, which gives
the exit code. Only the module of the command that is called is loaded, so that no command needs what another does.
What goes wrong is one line on stderr and exit code 1; a wrong command line is argparse's exit code 2. Characters that
the terminal's encoding has not are written as JSON escapes them, so that JSON is the same JSON in any encoding.
"""

from __future__ import annotations

import argparse
import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import NamedTuple, Protocol, cast

from ..errors import ToolcastError
from ..terminal_text import visible
from .cli_errors import command_words


class _Row(NamedTuple):
    module: str
    summary: str


_COMMANDS: Mapping[str, _Row] = {
    "chat": _Row(".chat_command", "Chat with a model, at a terminal or in a pipe."),
    "web": _Row(".web_command", "Chat with a model in the browser: this prints the address of the page."),
    "get": _Row(".extract_command", "Extract JSON from a text, by a schema in one line."),
    "experiment": _Row(".experiment.command", "Experiments with agents that are left alone: run, assess, report."),
    "logs": _Row(".sessions_command", "List the saved sessions, or show one."),
    "models": _Row(".models_command", "List what is known of models: '?' is not known, '*' any other."),
    "pull": _Row(".pull_command", "Fetch the weights of the embedded model, and print where they are."),
}


class _Command(Protocol):
    """What the module of a command has."""

    def arguments(self, parser: argparse.ArgumentParser, /) -> None: ...
    def run(self, arguments: argparse.Namespace, /) -> int: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command line `arguments`, or of this process's own."""
    words = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    try:
        if not words:
            _parser(words).print_help()
            return 0
        parser = _parser(words)
        parsed, unknown = parser.parse_known_args(words)
        if unknown:
            parser.error(f"unrecognized arguments: {_named(unknown)}")
        run: Callable[[argparse.Namespace], int] = parsed.run
        code = run(parsed)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _leave_the_pipe()
        return 0
    except (ToolcastError, OSError, ImportError) as error:
        print("toolcast:", " ".join(command_words(error).split()), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("toolcast: interrupted", file=sys.stderr)
        return 130


def _named(unknown: Sequence[str]) -> str:
    """The arguments without the values of options: one that is misspelled may be given a key."""
    shown = [
        word.partition("=")[0] if word.startswith("-") else "***" if before.startswith("-") else word
        for before, word in zip(("", *unknown), unknown, strict=False)
    ]
    return visible(" ".join(shown))


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that `words` call; of the others it only knows that they are there."""
    parser = argparse.ArgumentParser(
        prog="toolcast", description="Structured, tool-orchestrated LLM calls.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"toolcast {version('toolcast')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    called = next((word for word in words if not word.startswith("-")), None)
    for name, row in _COMMANDS.items():
        own = commands.add_parser(name, help=row.summary, description=row.summary, allow_abbrev=False)
        if name == called:
            command = cast("_Command", import_module(row.module, __package__))
            command.arguments(own)
            own.set_defaults(run=command.run)
    return parser


def _prepare_streams() -> None:
    """Have all three streams, and have anything written to them. One that was closed (`<&-`) is the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the number of the one that was closed, which no other file gets then.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPING)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What is written for what cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ESCAPING = "toolcast.json"
codecs.register_error(_ESCAPING, _escaped)


def _leave_the_pipe() -> None:
    """Have nothing written any more to a pipe whose reader has gone (`| head -1`): it has what it wanted."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
