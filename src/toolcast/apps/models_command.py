"""`toolcast models`: what is known of models, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict

from ..capabilities import Capabilities
from ..llms.local.weights import WEIGHTS
from ..llms.provider_llms import LlamaCpp
from ..providers.model_features import all_capabilities
from .tables import aligned

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


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    providers = sorted({"local", *(provider for provider, _, _ in all_capabilities())})
    parser.add_argument(
        "provider", nargs="?", choices=providers, metavar="PROVIDER", help=f"one of: {', '.join(providers)}"
    )
    parser.add_argument("--json", action="store_true", help="everything that is known, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """The exit code; the models are printed."""
    wanted = [row for row in _known_models() if arguments.provider in (None, row[0])]
    if arguments.json:
        rows = [{"provider": provider, "models": models} | asdict(known) for provider, models, known in wanted]
        print(json.dumps(rows, indent=2))
    else:
        cells = (
            (provider, models, *(_cell(getattr(known, name)) for name in _COLUMNS.values()))
            for provider, models, known in wanted
        )
        print(*aligned([("PROVIDER", "MODELS", *_COLUMNS), *cells]), sep="\n")
    return 0


def _known_models() -> Iterator[tuple[str, str, Capabilities]]:
    """Every row of the table of models, and the weights that run in this process."""
    yield from all_capabilities()
    for name in sorted(WEIGHTS):
        yield "local", name, LlamaCpp(name).metadata.capabilities


def _cell(fact: bool | int | None) -> str:
    return {None: "?", True: "yes", False: "no"}[fact] if fact is None or isinstance(fact, bool) else f"{fact:,}"
