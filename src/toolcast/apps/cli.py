"""The `toolcast` command. Each sub-command is a row of `_COMMANDS` and a module of this package.

A command's module has `add_arguments(parser)` and `run(arguments)`, which returns the exit code. An error is one line
on stderr and exit code 1; a wrong command line is exit code 2, with the usage of the command. Characters that the
terminal's encoding lacks are written as JSON escapes, so that JSON stays the same in every encoding.
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
from importlib.metadata import version

from ..errors import ToolcastError
from ..text.terminal_text import visible
from .command_parser import CommandParser, CommandRow
from .output import command_line_text

_COMMANDS: Mapping[str, CommandRow] = {
    "chat": CommandRow(".chat_command", "Chat with a model, at a terminal or in a pipe."),
    "web": CommandRow(".web_command", "Chat with a model in the browser; prints the address of the page."),
    "get": CommandRow(".get_command", "Extract JSON from a text, by a schema in one line."),
    "map": CommandRow(".map_command", "Make one structured call for each row of a file, with a budget and resumption."),
    "demo": CommandRow(".demo_command", "See structured calls of a small model in this process, with their code."),
    "config": CommandRow(".config_command", "Show or change the default model, its aliases, and the API keys."),
    "experiment": CommandRow(
        ".experiment.experiment_command", "Experiments with autonomous agents: run, assess, report."
    ),
    "logs": CommandRow(".logs_command", "List saved chats and calls, or show, search or delete them."),
    "mcp": CommandRow(".mcp.mcp_command", "List the MCP servers of chats, and approve those of a project."),
    "models": CommandRow(
        ".models_command", "List models with context, prices and capabilities; '?' is unknown, '*' any other model."
    ),
    "pull": CommandRow(".pull_command", "Get a model that runs in this process: from a URL, a file or Ollama."),
    "completion": CommandRow(".completion_command", "Print the script that completes commands in bash, zsh or fish."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments`, by default that of this process, and return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    try:
        parser = command_parser()
        if not words:
            parser.print_help()
            return 0
        parsed = parser.parse_args(words)
        parsed.words = words
        run: Callable[[argparse.Namespace], int] = parsed.run
        code = run(parsed)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _discard_output()
        return 0
    except (ToolcastError, OSError, ImportError) as error:
        print("toolcast:", " ".join(_message(error).split()), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("toolcast: interrupted", file=sys.stderr)
        return 130


def _message(error: Exception) -> str:
    """Return the text of an error; that of the system has the file first, as those of other commands do."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{visible(os.fsdecode(error.filename))}: {error.strerror}"
    return command_line_text(error)


def command_parser() -> CommandParser:
    """Return the parser of all commands."""
    parser = CommandParser(prog="toolcast", description="Structured, tool-orchestrated LLM calls.")
    parser.add_argument("--version", action="version", version=f"toolcast {version('toolcast')}")
    parser.add_commands(_COMMANDS, "toolcast.apps")
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
