"""The `toolcast` command. Each sub-command is a row of `_COMMANDS` and a module of this package.

A command's module has `add_arguments(parser)` and `run(arguments)`, which returns the exit code. Only the module of the
command that is called is imported, so that no command needs another one's dependencies. An error is one line on
stderr and exit code 1; a wrong command line is argparse's exit code 2. Characters that the terminal's encoding lacks
are written as JSON escapes, so that JSON stays the same in every encoding.
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
from .output import command_line_text


class _CommandRow(NamedTuple):
    module: str
    summary: str


_COMMANDS: Mapping[str, _CommandRow] = {
    "chat": _CommandRow(".chat_command", "Chat with a model, at a terminal or in a pipe."),
    "web": _CommandRow(".web_command", "Chat with a model in the browser; prints the address of the page."),
    "get": _CommandRow(".extract_command", "Extract JSON from a text, by a schema in one line."),
    "experiment": _CommandRow(".experiment.command", "Experiments with autonomous agents: run, assess, report."),
    "logs": _CommandRow(".sessions_command", "List the saved sessions, or show one."),
    "models": _CommandRow(
        ".models_command", "List the capabilities of models; '?' is unknown, '*' is any other model."
    ),
    "pull": _CommandRow(".pull_command", "Download the weights of the embedded model and print their path."),
}


class _CommandModule(Protocol):
    """The interface of a command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...
    def run(self, arguments: argparse.Namespace, /) -> int: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments`, by default that of this process, and return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    try:
        if not words:
            _parser(words).print_help()
            return 0
        parser = _parser(words)
        parsed, unknown = parser.parse_known_args(words)
        if unknown:
            parser.error(f"unrecognized arguments: {_redacted(unknown)}")
        run: Callable[[argparse.Namespace], int] = parsed.run
        code = run(parsed)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _discard_output()
        return 0
    except (ToolcastError, OSError, ImportError) as error:
        print("toolcast:", " ".join(command_line_text(error).split()), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("toolcast: interrupted", file=sys.stderr)
        return 130


def _redacted(unknown: Sequence[str]) -> str:
    """Return unrecognized arguments without values of options: the value of a misspelled `--token` is a secret."""
    shown = [
        word.partition("=")[0] if word.startswith("-") else "***" if before.startswith("-") else word
        for before, word in zip(("", *unknown), unknown, strict=False)
    ]
    return visible(" ".join(shown))


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser for the command in `words`; of the other commands it has names and summaries only."""
    parser = argparse.ArgumentParser(
        prog="toolcast", description="Structured, tool-orchestrated LLM calls.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"toolcast {version('toolcast')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    called = next((word for word in words if not word.startswith("-")), None)
    for name, row in _COMMANDS.items():
        own = commands.add_parser(name, help=row.summary, description=row.summary, allow_abbrev=False)
        if name == called:
            command = cast("_CommandModule", import_module(row.module, __package__))
            command.add_arguments(own)
            own.set_defaults(run=command.run)
    return parser


def _prepare_streams() -> None:
    """Replace closed standard streams (`<&-`) by the null device; escape unencodable characters on output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The null device takes the closed descriptor's number, so that no other file gets it.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERROR_HANDLER)


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Return the JSON escapes of the characters that could not be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ERROR_HANDLER = "toolcast.json"
codecs.register_error(_ERROR_HANDLER, _escape)


def _discard_output() -> None:
    """Redirect stdout to the null device: after the end of a pipe (`| head -1`) the final flush must not fail."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
