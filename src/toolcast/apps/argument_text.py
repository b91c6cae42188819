"""The arguments of a tool call as text for a person: on one line, in full, and the text that an edit opens.

Text has no invisible characters (`exposed`), except the text that is edited: that is the value itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, cast

from ..errors import ToolcastError
from ..text.terminal_text import exposed

LONGEST_VALUE: Final = 200
"""Characters of one value in a summary."""
LONGEST_SUMMARY: Final = 400
"""Characters of a summary."""

COMMAND_NAMES: Final = ("command", "cmd")
"""Names of the argument that is a command."""
DIRECTORY_NAMES: Final = ("cwd", "directory", "workdir", "working_directory")
"""Names of the argument that is a command's directory."""

_CONTENTS: Final[Mapping[str, frozenset[str]]] = {
    "content": frozenset(("path", "content")),
    "new": frozenset(("path", "old", "new", "all")),
}
"""The arguments that are the text of a file, with all arguments of such a call."""
_plain_word = re.compile(r"[^\s\"'=,;(){}\[\]]+")
_single_word = re.compile(r"[^\s\"']+")
_suffix = re.compile(r"\.[A-Za-z0-9]{1,10}")


class EditableText(NamedTuple):
    """The text that an edit of a call opens.

    Attributes:
        argument: The argument whose value it is; None for all arguments, as JSON.
        text: The text.
        suffix: The suffix of a file with this text.
    """

    argument: str | None
    text: str
    suffix: str


def parse_arguments(arguments: str) -> dict[str, Any] | None:
    """Return the arguments if they are a JSON object, else None."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", given) if isinstance(given, dict) else None


def exposed_line(text: str) -> str:
    """Return text from outside on one line, without invisible characters."""
    return exposed(text).replace("\n", "\\n").replace("\t", "\\t")


def summarize_call(tool: str, arguments: str) -> str:
    """Return a call on one line: the tool's name, and the values, shortened where they are long."""
    return _summary(tool, arguments, LONGEST_VALUE, LONGEST_SUMMARY)


def is_summary_complete(tool: str, arguments: str) -> bool:
    """Return True if the summary of a call shows all of its arguments."""
    return summarize_call(tool, arguments) == _summary(tool, arguments, None, None)


def full_arguments(arguments: str) -> str:
    """Return the arguments in full: each value under its name, texts as lines and not as JSON."""
    given = parse_arguments(arguments)
    if given is None:
        return exposed(arguments)
    lines: list[str] = []
    for name, value in given.items():
        shown = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        if "\n" in shown:
            lines += [f"{_value(name)}:", *(f"  {line}" for line in shown.split("\n"))]
        else:
            lines.append(f"{_value(name)}: {shown}")
    return exposed("\n".join(lines)) or "(no arguments)"


def editable_text(arguments: str) -> EditableText:
    """Return the text that an edit opens: the file's new text, the command, the only text; else all arguments."""
    given = parse_arguments(arguments)
    if given is None:
        return EditableText(None, arguments, ".json")
    name = _edited_argument(given)
    if name is None:
        return EditableText(None, json.dumps(given, indent=2, ensure_ascii=False), ".json")
    if name in COMMAND_NAMES:
        return EditableText(name, given[name], ".sh")
    suffix = PurePosixPath(str(given.get("path", ""))).suffix
    return EditableText(name, given[name], suffix if _suffix.fullmatch(suffix) else ".txt")


def edited_arguments(arguments: str, argument: str | None, text: str) -> str:
    """Return the JSON text of the arguments after an edit.

    Args:
        arguments: The JSON text before the edit.
        argument: The argument whose value was edited; None for all arguments.
        text: The edited text.

    Raises:
        ToolcastError: `text` is not a JSON object although all arguments were edited.
    """
    if argument is not None:
        return json.dumps((parse_arguments(arguments) or {}) | {argument: text}, ensure_ascii=False)
    try:
        given: object = json.loads(text)
    except RecursionError:
        raise ToolcastError("the arguments are nested too deeply") from None
    except ValueError as error:
        raise ToolcastError(f"the arguments are no JSON: {error}") from error
    if not isinstance(given, dict):
        raise ToolcastError('expected a JSON object as arguments, for example {"path": "notes.txt"}')
    return text


def _edited_argument(given: Mapping[str, Any]) -> str | None:
    """Return the argument that a person edits, if it is a single text."""
    for name, expected in _CONTENTS.items():
        if name in given and expected.issuperset(given) and isinstance(given[name], str):
            return name
    names = [name for name in given if name not in DIRECTORY_NAMES]
    is_text = len(names) == 1 and isinstance(given[names[0]], str)
    return names[0] if is_text and (len(given) == 1 or names[0] in COMMAND_NAMES) else None


def _summary(tool: str, arguments: str, longest_value: int | None, longest: int | None) -> str:
    given = parse_arguments(arguments)
    if given is None:
        values = [arguments]
    elif len(given) == 1:
        values = [_value(value, _single_word) for value in given.values()]
    else:
        values = [f"{_value(name)}={_value(value)}" for name, value in given.items()]
    shown = " ".join(_shorten(exposed_line(value), longest_value) for value in values)
    return _shorten(f"{exposed_line(tool)}  {shown}".rstrip(), longest)


def _value(value: object, plain: re.Pattern[str] = _plain_word) -> str:
    """Return a value as it is written in a summary: as JSON, but a text that cannot be mistaken as it is."""
    if isinstance(value, str) and plain.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _shorten(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
