"""Configuration files: YAML, or JSON in files whose name ends in `.json`, which needs nothing installed.

A file is read as plain data with the line number of every key, so that each problem can be reported with its place.
Folders in it are relative to the working directory, as in ContReAct.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from .config_errors import (
    NOWHERE,
    ConfigError,
    ConfigFileNotFound,
    ConfigProblem,
    ConfigSource,
    Place,
    WrongType,
    WrongValue,
    error_of,
    problem_at,
)
from .experiment_config import ExperimentConfig, config_of


def load_config(path: str | os.PathLike[str]) -> ExperimentConfig:
    """Load the experiment from the file at `path`. Raises a `ConfigError` with all its problems.

    Raises `ImportError`, with the extra's name, if it is YAML and pyyaml is missing, and `OSError` if it cannot be
    read.
    """
    mapping, source = read_mapping(path)
    return config_of(mapping, source)


def read_mapping(path: str | os.PathLike[str]) -> tuple[Mapping[str, Any], ConfigSource]:
    """Read the mapping in the file at `path`, without validation, and the line of every key."""
    path = Path(path)
    file, text = str(path), _text(path)
    try:
        value, source = _read_json(text, file) if path.suffix.lower() == ".json" else _read_yaml(text, file)
    except RecursionError:
        _refuse(WrongValue, f"{file}: this is nested too deep for a configuration")
    if value is None:
        _refuse(WrongType, f"{file} is empty. Write at least run_id, model_name, cycle_count and model_options")
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "one single value"
        _refuse(WrongType, f"{file} is {kind}, not keys with values. Write lines like: run_id: first-run")
    return cast("Mapping[str, Any]", value), source


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        text = f"There is no configuration {path}. Look at the path; it is relative to {Path.cwd()}"
        error = ConfigFileNotFound(text, [ConfigProblem(ConfigFileNotFound, text)])
        error.errno, error.filename = errno.ENOENT, str(path)
        raise error from None
    except UnicodeDecodeError as error:
        _refuse(WrongValue, f"{path} is no text in UTF-8: byte {error.start} is not. Save it as UTF-8")


def _refuse(kind: type[ConfigError], text: str) -> NoReturn:
    raise error_of([ConfigProblem(kind, text)])


def _read_yaml(text: str, file: str) -> tuple[Any, ConfigSource]:
    try:
        from .yaml_files import read_yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        text = f"{file} is YAML, which needs pyyaml: pip install 'toolcast[experiments]', or write it as a .json file"
        raise ImportError(text, name="yaml") from error
    return read_yaml(text, file)


def _read_json(text: str, file: str) -> tuple[Any, ConfigSource]:
    if not text.strip():
        return None, NOWHERE
    try:
        value = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        text = f"{file}, line {error.lineno}, column {error.colno}: this is no JSON: {error.msg}"
        raise error_of([ConfigProblem(WrongValue, text, "", error.lineno)]) from error
    except ValueError as error:
        _refuse(WrongValue, f"{file}: {error}")
    lines, faults = dict[Place, int](), list[ConfigProblem]()
    for place, line in _json_lines(text):
        if place in lines:
            faults.append(
                problem_at(WrongValue, place, "is there twice. Take one of them out", ConfigSource(file, {place: line}))
            )
        lines[place] = line
    if faults:
        raise error_of(faults)
    return value, ConfigSource(file, lines)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON. Write a number, or null")


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},\n]')


def _json_lines(text: str) -> Iterator[tuple[Place, int]]:
    """Yield each key of the JSON `text`, as often as it occurs, with its line."""
    inner: list[str | int] = []
    at_key, line = False, 1
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
        elif token in "{[":
            at_key = token == "{"
            inner.append("" if at_key else 0)
        elif token in "}]":
            inner.pop()
            at_key = False
        elif token == ",":
            at_key = isinstance(inner[-1], str)
            if not at_key:
                inner[-1] = cast("int", inner[-1]) + 1
        elif at_key:
            inner[-1], at_key = str(json.loads(token)), False
            yield tuple(inner), line
