"""The argument parser of all commands: lazy sub-commands, errors with the usage of the command, and suggestions.

Types of arguments, and options that several commands share.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from ..text.terminal_text import visible

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


class CommandRow(NamedTuple):
    """A command: its module, and its summary for `--help`."""

    module: str
    summary: str


class CommandModule(Protocol):
    """The interface of a command's module; `run` returns the exit code."""

    def add_arguments(self, parser: CommandParser, /) -> None: ...
    def run(self, arguments: argparse.Namespace, /) -> int: ...


class CommandParser(argparse.ArgumentParser):
    """A parser that reports a wrong command line with the usage of the command in question, and the closest name.

    A command's module is imported when there is something to parse, so that no command needs another one's
    dependencies.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False} | options)
        self._module: tuple[str, str, str] | None = None

    def add_commands(self, rows: Mapping[str, CommandRow], package: str, called: str = "run") -> None:
        """Add a sub-command for each row.

        Args:
            rows: The commands by name.
            package: The package of the modules.
            called: The attribute of the namespace that has the `run` of the command which was called.
        """
        commands = self.add_subparsers(title="commands", metavar="COMMAND", required=True)
        for name, row in rows.items():
            own = commands.add_parser(name, help=row.summary, description=row.summary)
            own._module = (row.module, package, called)

    def parse_known_args(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # overloads
        self,
        args: Sequence[str] | None = None,
        namespace: Any = None,
    ) -> tuple[Any, list[str]]:
        """Import the command's module, parse, and report unknown arguments; the list that is returned is empty."""
        self.load_module()
        self._refuse_unknown_options(args or ())
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            words = visible(" ".join(unknown))
            self.error(f"unexpected argument: {words}; put quotes around a text of several words")
        return parsed, []

    def load_module(self) -> None:
        """Import the command's module and add its arguments, unless that has happened."""
        if self._module is not None:
            module, package, called = self._module
            self._module = None
            command = cast("CommandModule", import_module(module, package))
            self.set_defaults(**{called: command.run})
            command.add_arguments(self)

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        """Report unknown options before the rest is parsed.

        Values of options are not shown: that of a misspelled `--token` is a secret, which a positional argument with
        choices would show in its error.
        """
        has_commands = self._subparsers is not None
        for word in words:
            is_option = word.startswith("-") and len(word) > 1 and " " not in word
            if word == "--" or (has_commands and not is_option):
                return
            name = word.partition("=")[0]
            if is_option and name not in self._option_string_actions and not self._is_short_option(word):
                self.error(f"unknown option {visible(name)}{suggestion(name, self._option_string_actions)}")

    def _is_short_option(self, word: str) -> bool:
        """Return whether `word` is a negative number, or a one-letter option with its value attached."""
        return word[1] != "-" and (word[1:].replace(".", "", 1).isdigit() or word[:2] in self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Report a value that is none of the choices, with the closest one."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            kind = "command" if action.metavar == "COMMAND" else "value"
            near = suggestion(str(value), known) or f"; expected one of: {', '.join(known)}"
            raise argparse.ArgumentError(
                None if kind == "command" else action, f"unknown {kind} {visible(str(value))!r}{near}"
            )


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the known name that is closest to `name`, or an empty text."""
    from difflib import get_close_matches  # for errors alone

    names = {each.lstrip("-"): each for each in known}  # equal dashes make no two options alike
    near = get_close_matches(name.lstrip("-"), names, 1)
    return f"; did you mean {names[near[0]]}?" if near else ""
