"""`toolcast models`: the capabilities of models, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict

from ..capabilities import Capabilities
from ..llms.local.weights import WEIGHTS
from ..llms.provider_llms import LlamaCpp
from ..providers.model_features import all_capabilities
from .output import format_table

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
"""The columns of the table, and the field of `Capabilities` in each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast models`."""
    providers = sorted({"local", *(provider for provider, _, _ in all_capabilities())})
    parser.add_argument(
        "provider", nargs="?", choices=providers, metavar="PROVIDER", help=f"one of: {', '.join(providers)}"
    )
    parser.add_argument("--json", action="store_true", help="print all capabilities as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the models and return the exit code."""
    wanted = [row for row in _models() if arguments.provider in (None, row[0])]
    if arguments.json:
        rows = [
            {"provider": provider, "models": models} | asdict(capabilities) for provider, models, capabilities in wanted
        ]
        print(json.dumps(rows, indent=2))
    else:
        cells = (
            (provider, models, *(_cell(getattr(capabilities, name)) for name in _COLUMNS.values()))
            for provider, models, capabilities in wanted
        )
        print(*format_table([("PROVIDER", "MODELS", *_COLUMNS), *cells]), sep="\n")
    return 0


def _models() -> Iterator[tuple[str, str, Capabilities]]:
    """Yield every row of the table of capabilities, and the weights that run in this process."""
    yield from all_capabilities()
    for name in sorted(WEIGHTS):
        yield "local", name, LlamaCpp(name).metadata.capabilities


def _cell(value: bool | int | None) -> str:
    return {None: "?", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else f"{value:,}"
