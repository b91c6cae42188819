"""Summaries of tool calls: arguments and results that may be long, in a few lines.

Omitted text is counted, and `full_text` is the complete call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from ...lazy_dataclasses import dataclass
from ...terminal_text import exposed

SHOWN_VALUE: Final = 60
"""Characters of an argument that are shown."""
SHOWN_LINES: Final = 4
"""Lines of a result that are shown."""
LONGEST_LINE: Final = 1000
"""Characters of a line that are examined: more than any screen is wide."""
LONGEST_OUTPUT: Final = 2000
"""Characters that are stored of a running tool's output."""


@dataclass(slots=True)
class ShownCall:
    """A tool call so far. While its arguments arrive, only their beginning and their length are stored."""

    name: str
    arguments: str = ""
    count: int = 0
    output: str = ""
    result: str = ""
    is_error: bool = False

    def add_arguments(self, chunk: str) -> None:
        """Add a chunk of the arguments' JSON text."""
        self.count += len(chunk)
        if len(self.arguments) < SHOWN_VALUE:
            self.arguments += chunk

    def add_output(self, chunk: str) -> None:
        """Add a chunk of the running tool's output, of which the end is stored."""
        self.output = "\n".join(f"{self.output}{chunk}"[-LONGEST_OUTPUT:].split("\n")[-SHOWN_LINES - 1 :])

    @property
    def partial_summary(self) -> str:
        """The call while its arguments arrive, on one line."""
        # `split` would take the blanks that are none for blanks.
        return f"{exposed(self.name)} {_shorten(' '.join(exposed(self.arguments).split()), self.count)}"

    @property
    def summary(self) -> str:
        """The complete call: each argument, shortened if necessary."""
        given = _object(self.arguments)
        if given is None:
            return exposed(f"{self.name} {_shorten(self.arguments, len(self.arguments))}")
        values = {key: json.dumps(value, ensure_ascii=False) for key, value in given.items()}
        shown = ", ".join(f"{key}={_shorten(text, len(text))}" for key, text in values.items())
        return exposed(f"{self.name}({shown})")

    @property
    def result_summary(self) -> list[str]:
        """The first lines of the result, and the number of the others."""
        lines = [line[:LONGEST_LINE] for line in self.result.strip("\n").split("\n")]
        if lines == [""]:
            return ["(nothing)"]
        more = len(lines) - SHOWN_LINES
        return lines if more <= 1 else [*lines[:SHOWN_LINES], f"… {more:,} more lines"]

    @property
    def full_text(self) -> str:
        """The complete call and its result."""
        given = _object(self.arguments)
        indented = self.arguments if given is None else json.dumps(given, indent=2, ensure_ascii=False)
        return f"{exposed(f'{self.name} {indented}')}\n{self.result}".rstrip("\n")


def _object(arguments: str) -> Mapping[str, Any] | None:
    """Return the arguments if they are a JSON object, else None."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else None


def _shorten(text: str, count: int) -> str:
    """Return the beginning of a text, with the number of its characters (`count`) if it is longer."""
    if count <= SHOWN_VALUE:
        return text
    return f"{text[:SHOWN_VALUE]}… ({count:,} characters)"
