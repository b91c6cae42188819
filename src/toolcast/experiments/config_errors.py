"""Configuration errors: every problem of a configuration, and the error classes.

All problems are found at once. Each is one line: the file and line, the key, the problem, and a valid example. The
first problem decides the class of the error: a missing field, or else the one nearest to the beginning of the file.
Every class is a builtin one as well, for programs that catch only those.

    ConfigError (ToolcastError)
    ├── MissingField (KeyError)
    ├── WrongType (TypeError)
    │   └── UnknownKey
    ├── WrongValue (ValueError)
    ├── ConfigFileNotFound (FileNotFoundError)
    └── yaml_files.BadYAML (yaml.YAMLError)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..errors import ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..text.terminal_text import visible

Place: TypeAlias = tuple[str | int, ...]
"""The path of keys to a value."""

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The source of a configuration: the name of the file, and the line of each key in it, from 1."""

    file: str = ""
    lines: Mapping[Place, int] = field(default_factory=dict[Place, int])

    def line(self, place: Place) -> int:
        """Return the line of `place`, or of the nearest key around it that has one; 0 if none has."""
        nearer = (self.lines.get(place[:length]) for length in range(len(place), 0, -1))
        return next((line for line in nearer if line), 0)

    def suffix(self, line: int) -> str:
        """Return the beginning of a problem's message: the file and the line."""
        where = ", ".join(part for part in (self.file, f"line {line}" if line else "") if part)
        return f"{where}: " if where else ""


NOWHERE: Final = ConfigSource()


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A problem of a configuration. `key` is dotted, `line` counts from 1 and is 0 if there is none."""

    kind: type[ConfigError]
    text: str
    key: str = ""
    line: int = 0


class ConfigError(ToolcastError):
    """The error of an unusable configuration. `faults` has all its problems."""

    def __init__(self, message: str = "", faults: Sequence[ConfigProblem] = ()) -> None:
        super().__init__(message)
        self.faults: tuple[ConfigProblem, ...] = tuple(faults)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # KeyError's own would put it in quotes


class MissingField(ConfigError, KeyError):
    """The error of a missing required field."""


class WrongType(ConfigError, TypeError):
    """The error of a value of the wrong type."""


class UnknownKey(WrongType):
    """The error of a key that does not exist."""


class WrongValue(ConfigError, ValueError):
    """The error of a value of the right type that is out of range or not one of the choices."""


class ConfigFileNotFound(ConfigError, FileNotFoundError):
    """The error of a missing configuration file."""


def error_of(faults: Sequence[ConfigProblem]) -> ConfigError:
    """Return the one error with all of `faults`."""
    ordered = sorted(faults, key=lambda fault: (fault.kind is not MissingField, fault.line))
    return ordered[0].kind("\n".join(fault.text for fault in ordered), ordered)


def problems_of(error: ValidationError, model: type[BaseModel], source: ConfigSource) -> Iterator[ConfigProblem]:
    """Yield the problems that Pydantic found in the input of `model`."""
    for details in error.errors(include_url=False):
        yield _fault(details, tuple(part for part in details["loc"] if part != "[key]"), model, source)


def missing(key: str, model: type[BaseModel], source: ConfigSource) -> ConfigProblem:
    """Return the problem of the missing required field `key`."""
    suffix = f" to {source.file}" if source.file else ""
    text = f"Missing required field in configuration: {key}. Add it{suffix}, for example: {_example((key,), model)}"
    return ConfigProblem(MissingField, text, key)


def problem_at(kind: type[ConfigError], place: Place, what: str, source: ConfigSource = NOWHERE) -> ConfigProblem:
    """Return the problem of the key at `place`; `what` completes the sentence that begins with the key."""
    key, line = ".".join(map(str, place)), source.line(place)
    return ConfigProblem(kind, source.suffix(line) + visible(f"{key} {what}"), key, line)


def shortened(text: str) -> str:
    """Truncate `text` to the length of a message."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_TYPES: Final = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "model_type": "a mapping, with keys and values of its own",
    "dict_type": "a mapping, with keys and values of its own",
    "tuple_type": "a list",
    "path_type": "a path",
}
"""The expected type, by the type of Pydantic's error."""


def _fault(details: ErrorDetails, place: Place, model: type[BaseModel], source: ConfigSource) -> ConfigProblem:
    kind, value = details["type"], details["input"]
    if kind == "missing":
        return missing(".".join(map(str, place)), model, source)
    if kind in ("extra_forbidden", "invalid_key"):
        return problem_at(UnknownKey, place, f"is no key of a configuration. {_meant(place, model)}", source)
    if kind in _TYPES:
        what = f"must be {_TYPES[kind]}, not {_shown(value)}. {_rewritten(kind, value, place, model)}"
        return problem_at(WrongType, place, what, source)
    must = re.sub(r"^(Input|String) should ", "must ", details["msg"])
    key: Place = details.get("ctx", {}).get("key", ())
    suffix = "" if key else f", not {_shown(value)}"  # with a key, `value` is all that stands around it
    place += key
    return problem_at(WrongValue, place, f"{must}{suffix}. Write for example: {_example(place, model)}", source)


def _meant(place: Place, model: type[BaseModel]) -> str:
    """Suggest an existing key for an unknown one."""
    written = str(place[-1])
    here = list(_part(place[:-1], model).model_fields)
    elsewhere = [key for key in _dotted(model) if key.rpartition(".")[2] == written]
    found = get_close_matches(written, here, 1, 0.7) or elsewhere
    return f"Did you mean {found[0]}?" if found else f"Take it out; there are: {', '.join(here)}"


def _rewritten(kind: str, value: object, place: Place, model: type[BaseModel]) -> str:
    """Suggest how to write a value of the wrong type: the value itself if it can be converted, or an example."""
    if kind == "string_type" and isinstance(value, (int, float, date)) and not isinstance(value, bool):
        return "Put it in quotes"
    if kind in ("int_type", "float_type") and (number := _number(value)) is not None:
        return f"Write it as a plain number: {place[-1]}: {number}"
    return f"Write for example: {_example(place, model)}"


def _number(value: object) -> int | float | None:
    """Return the number in a text, or of a float without a fraction as an integer; else None."""
    if isinstance(value, bool) or not isinstance(value, (str, float)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def _example(place: Place, model: type[BaseModel]) -> str:
    """Return a valid line of a configuration for this key."""
    name = str(place[-1]) if place else ""
    around = _part(place[:-1], model)
    if (known := around.model_fields.get(name)) is None:
        return _example(place[:-1], model) if len(place) > 1 else "run_id: first-run"
    value: Any = known.examples[0] if known.examples else known.default
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_none=True)
    return f"{name}: {value if isinstance(value, (str, Path)) else json.dumps(value)}"


def _part(place: Place, model: type[BaseModel]) -> type[BaseModel]:
    """Return the submodel of `model` at `place`; `model` itself if there is none."""
    for key in place:
        known = model.model_fields.get(str(key))
        if known is None or (part := _model_in(known.annotation)) is None:
            return model
        model = part
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    kinds = (annotation, *get_args(annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _dotted(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield all keys of a configuration, dotted."""
    for name, known in model.model_fields.items():
        yield before + name
        if (part := _model_in(known.annotation)) is not None:
            yield from _dotted(part, f"{before}{name}.")


def _shown(value: Any) -> str:
    """Format a value as it would be written in the file, truncated."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple, set)):
        return "a list"
    if value is None:
        return "null (nothing is written there)"
    scalar = isinstance(value, (bool, int, float, str))
    return shortened(json.dumps(value, ensure_ascii=False) if scalar else str(value))
