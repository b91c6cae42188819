"""The options that choose a model, for the commands that ask one."""

from __future__ import annotations

import argparse


def model_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that choose a model: see `toolcast.llms.model_registry`."""
    parser.add_argument(
        "--model",
        metavar="PROVIDER:MODEL",
        help="'local' is the embedded one; default: $OLLAMA_MODEL where a variable of Ollama is set, else 'local'",
    )
    parser.add_argument("--host", metavar="HOST", help="the service's address; default: $OLLAMA_HOST for Ollama")
    parser.add_argument("--token", metavar="TOKEN", help="the service's key; default: its own variable")
