"""`toolcast config`: read and change the config file of all commands.

Comments and the order of the file are preserved: it is changed with tomlkit, and read with the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import ToolcastError, UnsupportedLLMError
from ..llms.model_registry import split_provider
from .command_parser import CommandParser, suggestion
from .config_file import CommandConfig, config_path, parse_config, read_config

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_ALIAS: Final = "aliases."
_ACTIONS: Final = {
    "path": "Print the path of the config file.",
    "list": "Print all keys with their values.",
    "get": "Print the value of a key; the exit code is 1 if it is not set.",
    "set": "Set a key; the file is created if it is missing.",
    "unset": "Remove a key.",
}


def add_arguments(parser: CommandParser) -> None:
    """Add the sub-commands of `toolcast config`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="action")
    for name, summary in _ACTIONS.items():
        own = commands.add_parser(name, help=summary, description=summary)
        if name in ("get", "set", "unset"):
            own.add_argument("key", metavar="KEY", type=_key, help="model, or aliases.NAME")
        if name == "set":
            own.add_argument("value", metavar="VALUE", type=_model_name, help="the name of a model")


def run(arguments: argparse.Namespace) -> int:
    """Print or change the config and return the exit code."""
    path = config_path()
    if arguments.action == "path":
        print(path)
        return 0
    values = dict(_values(read_config(path)))
    if arguments.action == "list":
        print(*(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()), sep="", end="")
    elif arguments.action == "set":
        _change(path, arguments.key, arguments.value)
    elif arguments.key not in values:
        raise ToolcastError(f"{arguments.key} is not set in {path}: toolcast config set {arguments.key} MODEL")
    elif arguments.action == "get":
        print(values[arguments.key])
    else:
        _change(path, arguments.key, None)
    return 0


def _values(config: CommandConfig) -> Iterator[tuple[str, str]]:
    """Yield the keys that are set, and their values."""
    if config.model is not None:
        yield "model", config.model
    for alias, name in config.aliases.items():
        yield f"{_ALIAS}{alias}", name


def _key(text: str) -> str:
    """Return the key `text`; argparse reports the error for an unknown one."""
    if text == "model" or (text.startswith(_ALIAS) and text != _ALIAS):
        return text
    near = suggestion(text, ("model", "aliases.NAME")) or "; expected model, or aliases.NAME"
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
        table[name] = value
    _write(path, document)


def _write(path: Path, document: TOMLDocument) -> None:
    """Replace the file in one step, so that no reader and no full disk ever leaves half of it."""
    text = document.as_string()
    parse_config(text, path)
    target = path.resolve()  # of a link, which stays one
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".config-", suffix=".toml")
    written = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if target.exists():
            written.chmod(target.stat().st_mode & 0o777)
        written.replace(target)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
