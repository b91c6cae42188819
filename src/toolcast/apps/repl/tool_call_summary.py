"""Summaries of tool calls: arguments and results that may be long, in a few lines.

Omitted text is counted, and `full_lines` are the complete call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import exposed, visible
from ..approval_preview import CommandPreview, DiffPreview
from ..argument_text import full_arguments
from .preview_text import PreviewLine, call_label, preview_lines

SHOWN_VALUE: Final = 60
"""Characters of an argument that are shown."""
FIRST_LINES: Final = 3
LAST_LINES: Final = 2
"""Lines of a result that are shown, of its beginning and of its end."""
SHOWN_LINES: Final = 4
"""Lines at the end of a running command's output that are shown."""
FIRST_OUTPUT: Final = 3
LAST_OUTPUT: Final = 5
"""Lines of a command's output that are shown, of its beginning and of its end; of one that failed all of its end."""
FIRST_OF_ERROR: Final = 10
LAST_OF_ERROR: Final = 10
"""Lines of an error that are shown, of its beginning and of its end."""
LONGEST_IN_FULL: Final = 240
"""Characters of a result of one line that is not cut off at the right margin."""
LONGEST_LINE: Final = 1000
"""Characters of a line that are examined: more than any screen is wide."""
LONGEST_OUTPUT: Final = 2000
"""Characters that are stored of a running tool's output."""
_COMMAND_TOOL: Final = "run_command"
_CHANGED_TEXTS: Final = frozenset(("content", "old", "new"))
"""The arguments that a diff shows."""
_COMMAND_END: Final = re.compile(r"\[((?:exit code|ended by the signal|stopped:) .*)\]")
"""The last line of a command's result (toolbox/shell_command.py)."""
_EDITED: Final = re.compile(r"\(The user changed the arguments to .*\.\)\n")
"""The first line of the result of a call that the user has edited (agents/engine/tool_phase.py), who knows that."""


@dataclass(slots=True)
class ShownCall:
    """A tool call so far. While its arguments arrive, only their beginning and their length are stored.

    `label` is its name after the decision of a person, and `change` what it has done to a file.
    """

    name: str
    arguments: str = ""
    count: int = 0
    output: str = ""
    result: str = ""
    is_error: bool = False
    label: str = ""
    change: DiffPreview | None = None

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
        """The complete call: a command as shell text, of another one each argument, shortened if necessary."""
        if self.command:
            return self.command
        given = _object(self.arguments)
        if given is None:
            return exposed(f"{self.name} {_shorten(self.arguments, len(self.arguments))}")
        values = {key: json.dumps(value, ensure_ascii=False) for key, value in given.items()}
        shown = ", ".join(f"{key}={_shorten(text, len(text))}" for key, text in values.items())
        return exposed(f"{self.name}({shown})")

    @property
    def command(self) -> str:
        """The call of a shell command on one line, as shell text; empty if it is none."""
        command = (_object(self.arguments) or {}).get("command") if self.name == _COMMAND_TOOL else None
        return call_label(self.name, CommandPreview(exposed(command))) if isinstance(command, str) else ""

    @property
    def title(self) -> str:
        """The call on one line: as it was decided, as the change that it has made, or with its arguments."""
        if self.label:
            return self.label
        return self.summary if self.change is None else preview_lines(self.name, self.change)[0].text

    @property
    def brief(self) -> str:
        """The name and the first argument of the complete call, if that is a text or a number."""
        first = next(iter((_object(self.arguments) or {}).values()), "")
        shown = str(first)[: 2 * SHOWN_VALUE] if isinstance(first, str | int | float) else ""
        return exposed(f"{self.name} {' '.join(shown.split())}".rstrip())

    @property
    def command_end(self) -> str:
        """The end of a shell command, such as `exit code 1`; empty if the call is none."""
        found = _COMMAND_END.fullmatch(self.result.rstrip("\n").rpartition("\n")[2])
        return found[1] if found and self.name == _COMMAND_TOOL else ""

    @property
    def has_failed(self) -> bool:
        """True if the result is an error, or that of a command which has failed."""
        return self.is_error or self.command_end not in ("", "exit code 0")

    @property
    def result_summary(self) -> list[str]:
        """The first and the last lines of the result, and the number of those between.

        Of a command: how it ended, and its last lines.
        """
        result = self.result[found.end() :] if (found := _EDITED.match(self.result)) else self.result
        lines = [line[:LONGEST_LINE] for line in result.strip("\n").split("\n")]
        if end := self.command_end:
            output = lines[:-1]
            while output and not output[-1].strip():
                output.pop()
            # What went wrong is at the end.
            first, last = (0, FIRST_OUTPUT + LAST_OUTPUT) if self.has_failed else (FIRST_OUTPUT, LAST_OUTPUT)
            return [end, *_head_and_tail(output, first, last)]
        if lines == [""]:
            return ["(nothing)"]
        limits = (FIRST_OF_ERROR, LAST_OF_ERROR) if self.is_error else (FIRST_LINES, LAST_LINES)
        return _head_and_tail(lines, *limits)

    @property
    def wraps(self) -> bool:
        """True if the lines of `result_summary` are wrapped, and not cut off at the right margin."""
        result = self.result.strip("\n")
        return self.has_failed or (len(result) <= LONGEST_IN_FULL and "\n" not in result)

    @property
    def full_lines(self) -> list[PreviewLine]:
        """The complete call and its result: of a change of a file the diff, of another call all arguments."""
        given, change = _object(self.arguments), self.change
        if change is None or given is None:
            title, shown, diff = exposed(self.name), self.arguments, list[PreviewLine]()
        else:
            head, *diff = preview_lines(self.name, change, whole=True)
            title = head.text
            shown = json.dumps({key: value for key, value in given.items() if key not in _CHANGED_TEXTS})
        lines = [PreviewLine("title", title)]
        if shown:
            lines += [PreviewLine("plain", line, "  ") for line in full_arguments(shown).split("\n")]
        lines += diff
        result = visible(self.result.rstrip("\n"))
        return lines + [
            PreviewLine("result", line, "    " if at else "  ⎿ ") for at, line in enumerate(result.split("\n"))
        ]


def all_calls_lines(calls: Iterable[ShownCall]) -> list[PreviewLine]:
    """Return the calls of an answer in full, with a blank line between them."""
    blank = PreviewLine("plain", "")
    lines = [line for call in calls for line in (blank, *call.full_lines)]
    return lines[1:] or [PreviewLine("plain", "The last answer called no tools.")]


def _object(arguments: str) -> Mapping[str, Any] | None:
    """Return the arguments if they are a JSON object, else None."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else None


def _head_and_tail(lines: list[str], first: int, last: int) -> list[str]:
    """Return the first and the last lines, with the number of those between if they are more than one."""
    more = len(lines) - first - last
    return lines if more <= 1 else [*lines[:first], f"… {more:,} lines … (Ctrl-O shows all)", *lines[-last:]]


def _shorten(text: str, count: int) -> str:
    """Return the beginning of a text, with the number of its characters (`count`) if it is longer."""
    if count <= SHOWN_VALUE:
        return text
    return f"{text[:SHOWN_VALUE]}… ({count:,} characters)"
