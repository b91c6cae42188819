"""What is wrong with a configuration, and the errors that say so.

All faults are found at once. Each is one line: the file and the line of it, the key, what is wrong there, and what to
write instead. Which class the error is, the first fault decides: a field that is missing, or else whatever stands
nearest to the beginning of the file. Every class is a builtin one as well, which a program may catch that knows no
more than the format.

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
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..errors import ToolcastError
from ..terminal_text import visible

Place: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value."""

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where a configuration was read: the name of the file, and the line of each key in it, from 1."""

    file: str = ""
    lines: Mapping[Place, int] = field(default_factory=dict[Place, int])

    def line(self, place: Place) -> int:
        """The line of `place`, or of the nearest key around it that has one; 0 where none has."""
        nearer = (self.lines.get(place[:length]) for length in range(len(place), 0, -1))
        return next((line for line in nearer if line), 0)

    def told(self, line: int) -> str:
        """How a fault in `line` begins."""
        where = ", ".join(part for part in (self.file, f"line {line}" if line else "") if part)
        return f"{where}: " if where else ""


NOWHERE: Final = ConfigSource()


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong. `key` is dotted, `line` counts from 1 and is 0 where there is none."""

    kind: type[ConfigError]
    text: str
    key: str = ""
    line: int = 0


class ConfigError(ToolcastError):
    """A configuration that cannot be used. `faults` are all that were found."""

    def __init__(self, message: str = "", faults: Sequence[ConfigProblem] = ()) -> None:
        super().__init__(message)
        self.faults: tuple[ConfigProblem, ...] = tuple(faults)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # KeyError's own would put it in quotes


class MissingField(ConfigError, KeyError):
    """A required field is not there."""


class WrongType(ConfigError, TypeError):
    """A value is of another type than its key wants."""


class UnknownKey(WrongType):
    """A key that no configuration has."""


class WrongValue(ConfigError, ValueError):
    """A value of the right type that cannot be meant."""


class ConfigFileNotFound(ConfigError, FileNotFoundError):
    """There is no such file."""


def error_of(faults: Sequence[ConfigProblem]) -> ConfigError:
    """The one error that tells all of `faults`."""
    ordered = sorted(faults, key=lambda fault: (fault.kind is not MissingField, fault.line))
    return ordered[0].kind("\n".join(fault.text for fault in ordered), ordered)


def faults_of(error: ValidationError, model: type[BaseModel], source: ConfigSource) -> Iterator[ConfigProblem]:
    """The faults that Pydantic has found in what was to be a `model`."""
    for details in error.errors(include_url=False):
        yield _fault(details, tuple(part for part in details["loc"] if part != "[key]"), model, source)


def missing(key: str, model: type[BaseModel], source: ConfigSource) -> ConfigProblem:
    """The fault that the required field `key` is not there."""
    told = f" to {source.file}" if source.file else ""
    text = f"Missing required field in configuration: {key}. Add it{told}, for example: {_example((key,), model)}"
    return ConfigProblem(MissingField, text, key)


def fault_at(kind: type[ConfigError], place: Place, what: str, source: ConfigSource = NOWHERE) -> ConfigProblem:
    """The fault that `what` is said of the key at `place`."""
    key, line = ".".join(map(str, place)), source.line(place)
    return ConfigProblem(kind, source.told(line) + visible(f"{key} {what}"), key, line)


def shortened(text: str) -> str:
    """`text`, no longer than fits a message."""
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
"""What a value must be, by the type of Pydantic's error."""


def _fault(details: ErrorDetails, place: Place, model: type[BaseModel], source: ConfigSource) -> ConfigProblem:
    kind, value = details["type"], details["input"]
    if kind == "missing":
        return missing(".".join(map(str, place)), model, source)
    if kind in ("extra_forbidden", "invalid_key"):
        return fault_at(UnknownKey, place, f"is no key of a configuration. {_meant(place, model)}", source)
    if kind in _TYPES:
        what = f"must be {_TYPES[kind]}, not {_shown(value)}. {_rewritten(kind, value, place, model)}"
        return fault_at(WrongType, place, what, source)
    must = re.sub(r"^(Input|String) should ", "must ", details["msg"])
    key: Place = details.get("ctx", {}).get("key", ())
    told = "" if key else f", not {_shown(value)}"  # with a key, `value` is all that stands around it
    place += key
    return fault_at(WrongValue, place, f"{must}{told}. Write for example: {_example(place, model)}", source)


def _meant(place: Place, model: type[BaseModel]) -> str:
    """The key that was perhaps meant by one that nobody knows."""
    written = str(place[-1])
    here = list(_part(place[:-1], model).model_fields)
    elsewhere = [key for key in _dotted(model) if key.rpartition(".")[2] == written]
    found = get_close_matches(written, here, 1, 0.7) or elsewhere
    return f"Did you mean {found[0]}?" if found else f"Take it out; there are: {', '.join(here)}"


def _rewritten(kind: str, value: object, place: Place, model: type[BaseModel]) -> str:
    """How to write a value of the wrong type: itself, where it can be told what was meant, or an example."""
    if kind == "string_type" and isinstance(value, (int, float, date)) and not isinstance(value, bool):
        return "Put it in quotes"
    if kind in ("int_type", "float_type") and (number := _number(value)) is not None:
        return f"Write it as a plain number: {place[-1]}: {number}"
    return f"Write for example: {_example(place, model)}"


def _number(value: object) -> int | float | None:
    """The number that a text, or a float without a fraction, stands for."""
    if isinstance(value, bool) or not isinstance(value, (str, float)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def _example(place: Place, model: type[BaseModel]) -> str:
    """A line that could stand in a configuration instead."""
    name = str(place[-1]) if place else ""
    around = _part(place[:-1], model)
    if (known := around.model_fields.get(name)) is None:
        return _example(place[:-1], model) if len(place) > 1 else "run_id: first-run"
    value: Any = known.examples[0] if known.examples else known.default
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_none=True)
    return f"{name}: {value if isinstance(value, (str, Path)) else json.dumps(value)}"


def _part(place: Place, model: type[BaseModel]) -> type[BaseModel]:
    """The part of `model` that `place` leads to; `model` itself where it leads to none."""
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
    """All keys of a configuration."""
    for name, known in model.model_fields.items():
        yield before + name
        if (part := _model_in(known.annotation)) is not None:
            yield from _dotted(part, f"{before}{name}.")


def _shown(value: Any) -> str:
    """A value as a person would have written it, shortened."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple, set)):
        return "a list"
    if value is None:
        return "null (nothing is written there)"
    scalar = isinstance(value, (bool, int, float, str))
    return shortened(json.dumps(value, ensure_ascii=False) if scalar else str(value))
