"""`toolcast experiment`: experiments with agents that are left alone. Each sub-command is a row and a module here.

A module has `arguments(parser)` and `run(arguments)`, as the modules of cli.py have, and only that of the sub-command
which is called is loaded. What goes wrong is told on stderr as `Error: ...`, with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

from ...errors import ToolcastError
from ...terminal_text import visible
from ..cli_errors import command_words


class CommandRow(NamedTuple):
    """A sub-command: its module, and what it is for."""

    module: str
    summary: str


COMMANDS: Final[Mapping[str, CommandRow]] = {
    "run": CommandRow(".run_command", "Run the experiment of a configuration, or go on with it."),
    "pei": CommandRow(".pei", "Have models rate, by the log of a run, how it was for the agent (PEI scale)."),
    "report": CommandRow(".report", "Make a page of tables and pictures from the logs of runs."),
}


class _Command(Protocol):
    """What the module of a sub-command has."""

    def arguments(self, parser: argparse.ArgumentParser, /) -> None: ...
    def run(self, arguments: argparse.Namespace, /) -> int: ...


class _LazyParser(argparse.ArgumentParser):
    """The parser of a sub-command, whose module is loaded when there is something to parse."""

    module: str = ""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # its overloads are one function
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """What was parsed, and the words that nobody knows."""
        command = cast("_Command", import_module(self.module, __package__))
        command.arguments(self)
        self.set_defaults(experiment_run=command.run)
        return super().parse_known_args(args, namespace)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_LazyParser)
    for name, row in COMMANDS.items():
        own = commands.add_parser(name, help=row.summary, description=row.summary, allow_abbrev=False)
        own.module = row.module


def run(arguments: argparse.Namespace) -> int:
    """The exit code of the sub-command that was called."""
    command: Callable[[argparse.Namespace], int] = arguments.experiment_run
    try:
        return command(arguments)
    except BrokenPipeError:
        raise  # whoever read stdout has gone: cli.py knows what to do
    except (ToolcastError, OSError, ImportError) as error:
        notes: list[str] = getattr(error, "__notes__", [])
        lines = [
            line
            for text in (command_words(error), *map(command_words, notes))
            for line in text.splitlines()
            if line.strip()
        ]
        print("Error:", visible("\n".join(lines)), file=sys.stderr)
        return 1
