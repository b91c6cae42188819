"""`toolcast chat`: a conversation with a model, at a terminal or in a pipe."""

from __future__ import annotations

import argparse
import io
import os
import sys
from contextlib import nullcontext, redirect_stdout

from ..stores.store import check_id

_MODES = ("plan", "build", "verify", "auto")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    option = parser.add_argument
    option("--model", metavar="NAME", help="provider:model, or a model of Ollama; default: OLLAMA_MODEL, or embedded")
    option("--host", metavar="HOST", help="where the service is; default: OLLAMA_HOST")
    option("--token", metavar="KEY", help="the key; others can see it here, a variable (OLLAMA_API_KEY) is better")
    option("--tools", metavar="FILE", help="a Python file: the model is offered its functions")
    option("--mode", choices=_MODES, help="what the model may do; default: build")
    option("--system", metavar="TEXT", default="", help="what the model is told first")
    option(
        "--session",
        metavar="ID",
        type=_session,
        help="the session to go on with, by its id or how that begins, or the id of a new one",
    )
    option("--lines", action="store_true", help="in a pipe: each line is a question (default: all of it is one)")
    option("--debug", action="store_true", help="log requests, states and tracebacks to stderr")


def run(arguments: argparse.Namespace) -> int:
    """The exit code. 0: all was answered; 1: a turn failed, in a pipe; 130: Ctrl-C."""
    from .repl.startup import ReplOptions, Terminal, opened

    names = ReplOptions.__dataclass_fields__
    options = ReplOptions(**{name: value for name, value in vars(arguments).items() if name in names})
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what cannot be read or shown is no reason to stop
    terminal = Terminal(sys.stdin, sys.stdout, sys.stderr, os.environ)
    # In a pipe the answers are all that may go there: what the user's own tools print must not.
    prints = nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr)
    with prints, opened(options, terminal) as repl:
        return repl.run()


def _session(id: str) -> str:
    try:
        return check_id(id)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
