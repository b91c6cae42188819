"""`toolcast experiment`: experiments with autonomous agents. Each sub-command is a row of `COMMANDS` and a module here.

A module has `add_arguments(parser)` and `run(arguments)`, as those of cli.py; only that of the sub-command which is
called is imported. An error is printed to stderr as `Error: ...`, with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final

from ...errors import ToolcastError
from ...text.terminal_text import visible
from ..command_parser import CommandParser, CommandRow
from ..output import command_line_text

COMMANDS: Final[Mapping[str, CommandRow]] = {
    "run": CommandRow(".run_command", "Run the experiment of a configuration file, or resume it."),
    "watch": CommandRow(".watch_command", "Show a run, or a grid of runs, while another process runs it."),
    "pei": CommandRow(".pei_command", "Let models rate the log of a run on the PEI scale."),
    "report": CommandRow(".report_command", "Create a page of tables and charts from the logs of runs."),
}


def add_arguments(parser: CommandParser) -> None:
    """Add the sub-commands of `toolcast experiment`."""
    parser.add_commands(COMMANDS, "toolcast.apps.experiment", called="experiment_run")


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
