"""Types of arguments, and options that several commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _ArgumentGroup  # pyright: ignore[reportPrivateUsage]  # a group has no other

_MODES = ("plan", "build", "verify", "auto")


def positive_int(text: str) -> int:
    """Return the whole number in `text`; argparse reports the error for any other text, and for numbers below 1."""
    if not (text.isdecimal() and text.isascii() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def positive_number(text: str) -> float:
    """Return the number in `text`; argparse reports the error for any other text, and for numbers up to 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number


def add_model_options(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Add the options that choose a model: see `toolcast.llms.model_registry`."""
    _add_model(parser)
    parser.add_argument("--host", metavar="HOST", help="the service's address; default: $OLLAMA_HOST for Ollama")
    parser.add_argument("--token", metavar="TOKEN", help="the service's API key; default: its environment variable")


def add_chat_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a chat: its model, tools, mode and instructions."""
    option = parser.add_argument
    _add_model(parser)
    option("--tools", metavar="FILE", help="a Python file that is run, and whose functions the model may call")
    option("--mode", choices=_MODES, help="the tools and permissions of the model; default: build")
    option("--no-mcp", action="store_true", help="start none of the MCP servers that mcp.json files name")
    option("--system", metavar="TEXT", default="", help="instructions that the model gets before the conversation")


def _add_model(parser: ArgumentParser | _ArgumentGroup) -> None:
    parser.add_argument(
        "-m",
        "--model",
        metavar="MODEL",
        help="provider:model, a model of Ollama, the name of a pulled model, or an alias of the config file; default: "
        "$TOOLCAST_MODEL, that of the config file, $OLLAMA_MODEL, or 'local', the embedded one",
    )
