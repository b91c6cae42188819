"""Tool calls in few lines: what a terminal shows of arguments and results that may be long.

Nothing is hidden: what was left out is counted, and `whole` is the call with all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ...terminal_text import exposed

SHOWN_VALUE: Final = 60
"""How many characters of an argument are shown."""
SHOWN_LINES: Final = 4
"""How many lines of a result are shown."""
LONGEST_LINE: Final = 1000
"""How many characters of a line are looked at: more than any screen is wide."""
LONGEST_SAYING: Final = 2000
"""How many characters are kept of what a tool says while it runs."""


@dataclass(slots=True)
class ShownCall:
    """A call as far as it has come. Of arguments that still arrive only the beginning is kept, and their number."""

    name: str
    arguments: str = ""
    count: int = 0
    saying: str = ""
    result: str = ""
    is_error: bool = False

    def grow(self, piece: str) -> None:
        """Add a piece of the arguments' JSON text."""
        self.count += len(piece)
        if len(self.arguments) < SHOWN_VALUE:
            self.arguments += piece

    def say(self, piece: str) -> None:
        """Add what the tool says while it runs, of which the end is kept."""
        self.saying = "\n".join(f"{self.saying}{piece}"[-LONGEST_SAYING:].split("\n")[-SHOWN_LINES - 1 :])

    @property
    def growing(self) -> str:
        """The call while its arguments arrive, on one line."""
        # `split` would take the blanks that are none for blanks.
        return f"{exposed(self.name)} {_shortened(' '.join(exposed(self.arguments).split()), self.count)}"

    @property
    def folded(self) -> str:
        """The call when it is whole: each argument, as far as it fits."""
        given = _object(self.arguments)
        if given is None:
            return exposed(f"{self.name} {_shortened(self.arguments, len(self.arguments))}")
        values = {key: json.dumps(value, ensure_ascii=False) for key, value in given.items()}
        shown = ", ".join(f"{key}={_shortened(text, len(text))}" for key, text in values.items())
        return exposed(f"{self.name}({shown})")

    @property
    def folded_result(self) -> list[str]:
        """The first lines of the result, and how many there are more."""
        lines = [line[:LONGEST_LINE] for line in self.result.strip("\n").split("\n")]
        if lines == [""]:
            return ["(nothing)"]
        more = len(lines) - SHOWN_LINES
        return lines if more <= 1 else [*lines[:SHOWN_LINES], f"… {more:,} more lines"]

    @property
    def whole(self) -> str:
        """All of it."""
        given = _object(self.arguments)
        laid_out = self.arguments if given is None else json.dumps(given, indent=2, ensure_ascii=False)
        return f"{exposed(f'{self.name} {laid_out}')}\n{self.result}".rstrip("\n")


def _object(arguments: str) -> Mapping[str, Any] | None:
    """The arguments, where they are a JSON object."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else None


def _shortened(text: str, count: int) -> str:
    """The beginning of a text that has `count` characters in all, and how many those are."""
    if count <= SHOWN_VALUE:
        return text
    return f"{text[:SHOWN_VALUE]}… ({count:,} characters)"
