"""`toolcast chat`: a conversation with a model, at a terminal or in a pipe."""

from __future__ import annotations

import argparse
import io
import os
import sys
from contextlib import nullcontext, redirect_stdout

from ..stores.store import check_id
from .command_parser import add_chat_options
from .config_file import choose_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast chat`."""
    parser.add_argument(
        "prompt",
        nargs="?",
        metavar="PROMPT",
        type=_prompt,
        help="print the answer to this and leave; text on standard input follows it",
    )
    add_chat_options(parser)
    option = parser.add_argument
    option("--host", metavar="HOST", help="the service's address; default: $OLLAMA_HOST")
    option(
        "--token",
        metavar="KEY",
        help="the API key; other users can see it here: prefer a variable such as OLLAMA_API_KEY",
    )
    sessions = parser.add_mutually_exclusive_group().add_argument
    sessions(
        "-c",
        "--continue",
        dest="continues",
        action="store_true",
        help="resume the session that was used last in this directory, or else anywhere",
    )
    sessions("--resume", action="store_true", help="choose the session to resume from a list")
    sessions(
        "--session",
        metavar="ID",
        type=_session,
        help="the session to resume, by its id or the beginning of it, or the id of a new session",
    )
    option(
        "--lines",
        action="store_true",
        help="in a pipe: read each line as a message of its own (default: the whole input is one message)",
    )
    option("--debug", action="store_true", help="log requests, states and tracebacks to stderr")


def run(arguments: argparse.Namespace) -> int:
    """Run the chat and return its exit code: 0, 1 if a turn failed without a person to go on, 130 after Ctrl-C."""
    from .repl.chat_startup import ReplOptions, Terminal, open_repl

    arguments.model = choose_model(arguments.model)
    names = ReplOptions.__dataclass_fields__
    options = ReplOptions(**{name: value for name, value in vars(arguments).items() if name in names})
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # undecodable input or output must not end the chat
    terminal = Terminal(sys.stdin, sys.stdout, sys.stderr, os.environ)
    # In a pipe stdout is for answers only: prints of the user's own tools go to stderr.
    prints = nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr)
    with prints, open_repl(options, terminal) as repl:
        if options.prompt is None:
            return repl.run()
        # What is piped follows the prompt: `git diff | toolcast chat 'Review this'`.
        return repl.run(options.prompt, "" if sys.stdin.isatty() else sys.stdin.read().strip())


def _prompt(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the prompt is empty")
    return text


def _session(id: str) -> str:
    try:
        return check_id(id)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
