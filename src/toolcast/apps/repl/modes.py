"""The modes of the REPL: which tools the model is offered, which of them run unasked, and what it is told of that.

A mode is a row of `MODES`. The built-in tools are named there one by one. Tools of the user's own are offered in every
mode, but in one that only reads there are only those that say they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ...agents.permissions import permissions
from ...agents.permissions.permissions import Permissions
from ...tools.callable_tool import CallableTool

_READING: Final = ("read_file", "list_files", "search_files", "ask_user")
_EDITING: Final = ("write_file", "edit_file")
_RUNNING: Final = ("run_command",)
_FETCHING: Final = ("fetch_url",)


@dataclass(frozen=True, slots=True)
class Mode:
    """A row: the `builtin` tools that are offered, what `unasked` they may do, a `summary` for people, and one `line`
    for the model. `runs_commands`: the person may, too, by `!command`.
    """

    name: str
    summary: str
    line: str
    builtin: tuple[str, ...]
    unasked: permissions.Mode
    runs_commands: bool = False

    def offered(self, builtin: Iterable[CallableTool], own: Iterable[CallableTool]) -> tuple[CallableTool, ...]:
        """The tools of this mode. One of the user's own takes the place of a built-in one of the same name."""
        tools = {tool.name: tool for tool in builtin if tool.name in self.builtin}
        tools |= {tool.name: tool for tool in own}
        return tuple([tool for tool in tools.values() if self.unasked != "plan" or tool.read_only])

    def permissions(self, root: str, own: Iterable[CallableTool], *, can_ask: bool) -> Permissions:
        """What may run, with nobody there to ask if not `can_ask`."""
        theirs = {tool.name for tool in own}
        edits = tuple([name for name in _EDITING if name not in theirs])
        return Permissions(self.unasked, approve="later" if can_ask else None, file_tools=edits, root=root)


_ROWS: Final = (
    Mode(
        "plan",
        "reads, and asks for nothing",
        "You can look at things but change nothing: find out what is there, and say what you would do.",
        _READING,
        "plan",
    ),
    Mode(
        "build",
        "reads and writes; asks before it writes",
        "You can read and change files below the working directory. You cannot run commands.",
        (*_READING, *_EDITING, *_FETCHING),
        "auto",
    ),
    Mode(
        "verify",
        "reads and runs commands; asks before it runs one",
        "You can read files and run commands, to find out whether things work. Change no files.",
        (*_READING, *_RUNNING, *_FETCHING),
        "auto",
        runs_commands=True,
    ),
    Mode(
        "auto",
        "does everything; asks before it runs a command or fetches a page",
        "You can read and change files below the working directory, run commands and fetch pages. Do what the task "
        "needs, and look whether it worked.",
        (*_READING, *_EDITING, *_RUNNING, *_FETCHING),
        "accept_edits",
        runs_commands=True,
    ),
)

MODES: Final[Mapping[str, Mode]] = {mode.name: mode for mode in _ROWS}
"""The modes by their names."""

DEFAULT: Final = "build"
