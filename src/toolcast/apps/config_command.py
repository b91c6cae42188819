"""`toolcast config`: read and change the config file of all commands, and store API keys.

Comments and the order of the file are preserved: it is changed with tomlkit, and read with the standard library. A key
is read from a prompt that does not show it, or from standard input, and never from the command line, which other users
and the history of the shell have.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ToolcastError, UnsupportedLLMError
from ..llms.model_registry import choose_llm, split_provider
from .api_keys import LONGEST_KEY, KeyStoreError, key_owner, key_variables, known_keys, remove_key, store_key
from .command_parser import CommandParser, suggestion
from .config_file import (
    MODEL_VARIABLE,
    CommandConfig,
    choose_model,
    config_path,
    parse_config,
    read_config,
    replace_file,
)
from .output import format_table

_ALIAS: Final = "aliases."
_ACTIONS: Final = {
    "path": "Print the path of the config file.",
    "list": "Print all keys with their values.",
    "get": "Print the value of a key; the exit code is 1 if it is not set.",
    "set": "Set a key; the file is created if it is missing.",
    "unset": "Remove a key.",
    "show": "Print the config with the API keys, masked, and where each comes from.",
    "set-key": "Store the API key of a provider, from a prompt or standard input, in the system keyring.",
    "remove-key": "Remove the stored API key of a provider.",
}
_ON_KEYS: Final = ("set-key", "remove-key")


def add_arguments(parser: CommandParser) -> None:
    """Add the sub-commands of `toolcast config`."""
    commands = parser.add_subparsers(title="commands; default: show", metavar="COMMAND", dest="action")
    parser.set_defaults(action="show")
    for name, summary in _ACTIONS.items():
        own = commands.add_parser(name, help=summary, description=summary)
        if name in ("get", "set", "unset"):
            own.add_argument("key", metavar="KEY", type=_key, help="model, aliases.NAME, or log")
        if name in _ON_KEYS:
            own.add_argument("provider", metavar="PROVIDER", type=_provider, help="such as openai or anthropic")
            own.add_argument("more", nargs="*", default=(), help=argparse.SUPPRESS)  # a key, which no error may repeat
        if name == "set":
            own.add_argument("value", metavar="VALUE", type=_model_name, help="the name of a model; of log: on or off")


def run(arguments: argparse.Namespace) -> int:
    """Print or change the config and return the exit code."""
    path = config_path()
    if arguments.action == "path":
        print(path)
        return 0
    if arguments.action in _ON_KEYS:
        return _change_key(arguments)
    values = dict(_values(read_config(path)))
    if arguments.action == "show":
        print(*_overview(path, values), sep="\n")
        return 0
    if arguments.action == "list":
        print(*(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()), sep="", end="")
    elif arguments.action == "set":
        if arguments.key == "log" and arguments.value not in ("on", "off"):
            raise ToolcastError(f"log is on or off, not {arguments.value!r}")
        _change(path, arguments.key, arguments.value)
    elif arguments.key not in values:
        raise ToolcastError(f"{arguments.key} is not set in {path}: toolcast config set {arguments.key} MODEL")
    elif arguments.action == "get":
        print(values[arguments.key])
    else:
        _change(path, arguments.key, None)
    return 0


def _change_key(arguments: argparse.Namespace) -> int:
    """Store or remove the API key of a provider."""
    provider: str = arguments.provider
    if arguments.more:
        raise KeyStoreError(
            "an API key is no argument, because other users and the history of the shell would have it: run "
            f"toolcast config {arguments.action} {provider} without it"
        )
    if arguments.action == "remove-key":
        remove_key(provider)
        print(f"Removed the key of {provider}.")
        return 0
    print(f"Stored the key of {provider} in {store_key(provider, _read_key(provider))}.")
    if variable := next((name for name in key_variables()[provider] if os.environ.get(name)), None):
        print(f"{variable} is set, and is used instead while it is.")
    return 0


def _read_key(provider: str) -> str:
    """Return the key that a person types without seeing it, or the first line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline(LONGEST_KEY + 2)
    from getpass import getpass

    return getpass(f"API key of {provider} (it is not shown): ", sys.stderr)


def _overview(path: Path, values: Mapping[str, str]) -> Iterable[str]:
    """Return the lines of `config show`."""
    rows = [("config file", str(path) if path.exists() else f"{path} (not there)")]
    rows += values.items()
    rows.append(("in use", _used_model(path)))
    rows += [(f"API key of {key.provider}", f"{key.masked}  ({key.source})") for key in known_keys()]
    return format_table(rows)


def _used_model(path: Path) -> str:
    """Return the model of a command without `--model`, and where its name comes from."""
    if chosen := choose_model(None):
        return f"{chosen}  ({MODEL_VARIABLE if os.environ.get(MODEL_VARIABLE) else path})"
    llm = choose_llm()
    source = next((name for name in ("OLLAMA_MODEL", "OLLAMA_HOST") if os.environ.get(name)), "the default")
    return f"{llm.metadata.model_name}  ({source})"


def _provider(text: str) -> str:
    """Return the provider whose key is meant; argparse reports the error for any other text."""
    try:
        return key_owner(text)
    except KeyStoreError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _values(config: CommandConfig) -> Iterator[tuple[str, str]]:
    """Yield the keys that are set, and their values."""
    if config.model is not None:
        yield "model", config.model
    if not config.log:
        yield "log", "off"
    for alias, name in config.aliases.items():
        yield f"{_ALIAS}{alias}", name


def _key(text: str) -> str:
    """Return the key `text`; argparse reports the error for an unknown one."""
    if text in ("model", "log") or (text.startswith(_ALIAS) and text != _ALIAS):
        return text
    near = suggestion(text, ("model", "aliases.NAME", "log")) or "; expected model, aliases.NAME, or log"
    raise argparse.ArgumentTypeError(f"unknown key {text!r}{near}")


def _model_name(text: str) -> str:
    """Return the name `text`; argparse reports the error for an unknown provider."""
    try:
        if text.strip() and split_provider(text):
            return text
    except UnsupportedLLMError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    raise argparse.ArgumentTypeError("the name of the model is empty")


def _change(path: Path, key: str, value: str | None) -> None:
    """Set a key of the file, or remove it if `value` is None."""
    try:
        import tomlkit
    except ModuleNotFoundError as error:
        message = f"toolcast config needs tomlkit to change {path}: pip install 'toolcast[cli]', or edit the file"
        raise ImportError(message, name=error.name) from error
    document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
    if key.startswith(_ALIAS) and "aliases" not in document:
        document.add("aliases", tomlkit.table())
    table: Any = document["aliases"] if key.startswith(_ALIAS) else document
    name = key.removeprefix(_ALIAS)
    if value is None:
        del table[name]
    else:
        table[name] = value == "on" if key == "log" else value
    text = document.as_string()
    parse_config(text, path)
    replace_file(path, text)
