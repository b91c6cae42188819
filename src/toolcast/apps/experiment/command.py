"""`toolcast experiment`: experiments with autonomous agents. Each sub-command is a row of `COMMANDS` and a module here.

A module has `add_arguments(parser)` and `run(arguments)`, as those of cli.py; only that of the sub-command which is
called is imported. An error is printed to stderr as `Error: ...`, with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

from ...errors import ToolcastError
from ...terminal_text import visible
from ..output import command_line_text


class CommandRow(NamedTuple):
    """A sub-command: its module, and its summary for `--help`."""

    module: str
    summary: str


COMMANDS: Final[Mapping[str, CommandRow]] = {
    "run": CommandRow(".run_command", "Run the experiment of a configuration file, or resume it."),
    "pei": CommandRow(".pei_command", "Let models rate the log of a run on the PEI scale."),
    "report": CommandRow(".report_command", "Create a page of tables and charts from the logs of runs."),
}


class _CommandModule(Protocol):
    """The interface of a sub-command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...
    def run(self, arguments: argparse.Namespace, /) -> int: ...


class _LazyParser(argparse.ArgumentParser):
    """The parser of a sub-command, which imports the sub-command's module when there is something to parse."""

    module: str = ""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # its overloads are one function
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Import the sub-command's module and return the namespace and the unrecognized arguments."""
        command = cast("_CommandModule", import_module(self.module, __package__))
        command.add_arguments(self)
        self.set_defaults(experiment_run=command.run)
        return super().parse_known_args(args, namespace)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands of `toolcast experiment`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_LazyParser)
    for name, row in COMMANDS.items():
        own = commands.add_parser(name, help=row.summary, description=row.summary, allow_abbrev=False)
        own.module = row.module


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command and return its exit code."""
    command: Callable[[argparse.Namespace], int] = arguments.experiment_run
    try:
        return command(arguments)
    except BrokenPipeError:
        raise  # the reader of stdout has gone: cli.py handles it
    except (ToolcastError, OSError, ImportError) as error:
        notes: list[str] = getattr(error, "__notes__", [])
        lines = [
            line
            for text in (command_line_text(error), *map(command_line_text, notes))
            for line in text.splitlines()
            if line.strip()
        ]
        print("Error:", visible("\n".join(lines)), file=sys.stderr)
        return 1
