"""The config file of all commands, `~/.config/toolcast/config.toml`: model, aliases of models, and the log.

    model = "openai:gpt-4.1"
    log = false

    [aliases]
    fast = "groq:llama-3.3-70b-versatile"

The model is that of the option, else of `TOOLCAST_MODEL`, else of the config file. `toolcast get` logs its calls unless
`log` is false. Unknown keys are errors, as are values of another type, with the file and the line.

The data directory: sessions and prompt history of the commands.

Nothing is created here: a store creates its file at the first write.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, cast

from ..errors import ToolcastError, UnsupportedLLMError
from ..lazy.lazy_dataclasses import dataclass
from .command_parser import suggestion


def data_dir(chosen: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return `chosen`, or `$TOOLCAST_HOME`, `$XDG_DATA_HOME/toolcast`, `~/.local/share/toolcast`, in this order."""
    if named := chosen or environ.get("TOOLCAST_HOME"):
        return Path(os.path.expanduser(named))
    shared = environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    folder = Path(shared) if Path(shared).is_absolute() else Path.home() / ".local" / "share"
    return folder / "toolcast"


def sessions_file(home: Path) -> Path:
    """Return the path of the `SQLiteStore` that has all sessions."""
    return home / "sessions.db"


def prompt_history_file(home: Path) -> Path:
    """Return the path of the prompt history of `toolcast chat`."""
    return home / "prompt_history"


MODEL_VARIABLE: Final = "TOOLCAST_MODEL"
_PLACE: Final = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


class ConfigFileError(ToolcastError):
    """A config file that cannot be used; the message names the file, the line and the reason."""


@dataclass(frozen=True, slots=True)
class CommandConfig:
    """The content of the config file. `log`: whether `toolcast get` logs its calls."""

    model: str | None = None
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    log: bool = True


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$TOOLCAST_CONFIG`, `$XDG_CONFIG_HOME/toolcast/config.toml` or `~/.config/toolcast/config.toml`."""
    if named := environ.get("TOOLCAST_CONFIG"):
        return Path(os.path.expanduser(named))
    shared = Path(environ.get("XDG_CONFIG_HOME", ""))
    # The XDG specification has relative paths ignored.
    folder = shared if shared.is_absolute() else Path.home() / ".config"
    return folder / "toolcast" / "config.toml"


def read_config(path: Path) -> CommandConfig:
    """Return the content of the config file; a missing file is an empty one.

    Raises:
        ConfigFileError: The file is no TOML, or has an unknown key or a value of another type.
        OSError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return CommandConfig()
    except UnicodeDecodeError as error:
        raise ConfigFileError(f"{path}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from error
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> CommandConfig:
    """Return the config in `text`; `path` is for messages.

    Raises:
        ConfigFileError: See `read_config`.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line = found["line"] if found and found["line"] else str(max(1, len(text.splitlines())))
        raise ConfigFileError(f"{path}, line {line}: {_PLACE.sub('', str(error))}") from error

    def refuse(key: str, reason: str) -> ConfigFileError:
        line = _line_of(key, text)
        return ConfigFileError(f"{path}{f', line {line}' if line else ''}: {reason}")

    known = tuple(CommandConfig.__dataclass_fields__)
    for key in content:
        if key not in known:
            near = suggestion(key, known) or f"; expected {', '.join(known)}"
            raise refuse(key, f"unknown key {key!r}{near}")
    model = content.get("model")
    if model is not None and not _is_name(model):
        raise refuse("model", f"model: expected a name such as 'openai:gpt-4.1', got {model!r}")
    log = content.get("log", True)
    if not isinstance(log, bool):
        raise refuse("log", f"log: expected true or false, got {log!r}")
    aliases: Any = content.get("aliases", {})
    if not isinstance(aliases, dict):
        raise refuse("aliases", f"aliases: expected a table, got {aliases!r}")
    for alias, name in cast("dict[str, Any]", aliases).items():
        if not _is_name(name):
            raise refuse(alias, f"aliases.{alias}: expected the name of a model, got {name!r}")
        if name in aliases:
            raise refuse(alias, f"aliases.{alias}: {name!r} is an alias itself; expected the name of a model")
    return CommandConfig(model, cast("dict[str, str]", aliases), log)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _line_of(key: str, text: str) -> int | None:
    """Return the number of the line that sets `key`; None if it is written in another way (a quoted key)."""
    pattern = re.compile(rf"\s*(?:\[+\s*{re.escape(key)}\s*[].]|(?:[\w-]+\s*\.\s*)*{re.escape(key)}\s*[.=])")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)


def resolve_alias(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the model that the config file's alias `name` stands for; any other name is returned unchanged."""
    return read_config(config_path(environ)).aliases.get(name, name)


def choose_model(option: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of the model: the option, else `TOOLCAST_MODEL`, else that of the config file, without alias.

    Raises:
        ConfigFileError: The config file is damaged.
        ToolcastError: The option is empty.
        UnsupportedLLMError: The variable or the file names an unknown provider; the message names the source.
    """
    if option is not None and not option.strip():
        raise ToolcastError("the name of the model is empty: leave out --model for the default model")
    path = config_path(environ)
    config = read_config(path)
    for source, name in (("", option), (MODEL_VARIABLE, environ.get(MODEL_VARIABLE)), (str(path), config.model)):
        if name:
            chosen = config.aliases.get(name, name)
            if source or chosen != name:
                _check_provider(chosen, source or f"an alias in {path}")
            return chosen
    return None


def _check_provider(name: str, source: str) -> None:
    """Raise `UnsupportedLLMError` for an unknown provider, with the place where the name was set."""
    from ..llms.model_registry import split_provider  # only where a name is not from the command line

    try:
        split_provider(name)
    except UnsupportedLLMError as error:
        raise UnsupportedLLMError(f"{error} (set by {source})") from error


def replace_file(path: Path, text: str, mode: int | None = None) -> None:
    """Replace the file in one step, so that no reader and no full disk ever leaves half of it.

    `mode`: its permissions; None preserves those of an existing file. A new file is for its owner alone.
    """
    target = path.resolve()  # of a link, which stays one
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
    written = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if mode is not None:
            written.chmod(mode)
        elif target.exists():
            written.chmod(target.stat().st_mode & 0o777)
        written.replace(target)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
