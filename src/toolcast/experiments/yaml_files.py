"""YAML reader that records the line of every key. Needs pyyaml, and is imported only to read YAML.

Only plain values are built, never objects of Python tags. Ambiguous YAML is refused: a key that occurs twice, of which
one would be lost, and an alias inside of its own anchor, which is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from ..text.terminal_text import visible
from .config_errors import ConfigError, ConfigProblem, ConfigSource, Place, WrongValue, error_of, problem_at, shortened


class BadYAML(ConfigError, yaml.YAMLError):
    """The error that a text is not valid YAML."""


def read_yaml(text: str, file: str) -> tuple[Any, ConfigSource]:
    """Parse `text` and return its value and the lines of its keys.

    Raises `BadYAML`, or `WrongValue` for a key that occurs twice.
    """
    faults = list[ConfigProblem]()
    try:
        loader: Any = yaml.SafeLoader(text)
        root = loader.get_single_node()
        lines = {} if root is None else dict(_lines(root, faults, file))
        value: Any = None if root is None or faults else loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        raise _unreadable(error, text, file) from error
    if faults:
        raise error_of(faults)
    return value, ConfigSource(file, lines)


def _lines(root: yaml.Node, faults: list[ConfigProblem], file: str) -> Iterator[tuple[Place, int]]:
    """Yield each key's path and its line, and append the problems found on the way to `faults`."""
    seen = set[int]()
    open_nodes: list[tuple[yaml.Node, Place, tuple[int, ...]]] = [(root, (), ())]
    while open_nodes:
        node, place, around = open_nodes.pop()
        if id(node) in around:
            source = ConfigSource(file, {place: _line(node)})
            faults.append(problem_at(WrongValue, place, "holds itself. Write what it stands for instead of *", source))
        if id(node) in seen:
            continue  # an alias: what it stands for has its own lines
        seen.add(id(node))
        keys = set[str]()
        for key, line, value in _members(node):
            inner = (*place, key)
            if isinstance(key, str) and key in keys:
                text = "is there twice. Take one of them out"
                faults.append(problem_at(WrongValue, inner, text, ConfigSource(file, {inner: line})))
            keys.add(str(key))
            yield inner, line
            open_nodes.append((value, inner, (*around, id(node))))


def _members(node: yaml.Node) -> Iterator[tuple[str | int, int, yaml.Node]]:
    """Yield the keys of a mapping, or the indexes of a list, each with its line and its node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), _line(key), value
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield number, _line(value), value


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _unreadable(error: Exception, text: str, file: str) -> BadYAML:
    """Return the error with the problem, its line number, and the line itself.

    A value such as the date 2026-13-01 has no line.
    """
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
    where, line = "", 0
    if (mark := getattr(error, "problem_mark", None)) is not None:
        line, column = int(mark.line) + 1, int(mark.column) + 1
        where = f", line {line}, column {column}"
        shown = (text.splitlines() + [""] * line)[line - 1].strip()
        problem = f"{problem}, at: {shortened(shown)}" if shown else f"{problem}, at the end"
    elif isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        where = f", line {line}"
    advice = "Look there for a missing colon or quote, a tab, or lines that are indented differently"
    text = visible(f"{file}{where}: this is no YAML: {problem}. {advice}")
    return BadYAML(text, [ConfigProblem(BadYAML, text, "", line)])
