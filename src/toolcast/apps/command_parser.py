"""The argument parser of all commands: lazy sub-commands, errors with the usage of the command, and suggestions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

from ..terminal_text import visible


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
