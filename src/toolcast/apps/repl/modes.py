"""The modes of the REPL: the tools that the model is offered, those that run without approval, and its instructions.

A mode is a row of `MODES`, which lists the built-in tools one by one. The user's own tools are offered in every mode,
except that the read-only mode offers only those which are marked as read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ...agents.permissions import permissions
from ...agents.permissions.permissions import Permissions
from ...lazy.lazy_dataclasses import dataclass
from ...tools.callable_tool import CallableTool

_READING: Final = ("read_file", "list_files", "search_files", "ask_user")
_EDITING: Final = ("write_file", "edit_file")
_RUNNING: Final = ("run_command",)
_FETCHING: Final = ("fetch_url",)


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode: built-in tools, permissions, a `summary` for people and an `instruction` for the model.

    `permission_mode` is the mode of the engine's permissions. With `runs_commands` the user may run `!command`.
    """

    name: str
    summary: str
    instruction: str
    builtin: tuple[str, ...]
    permission_mode: permissions.Mode
    runs_commands: bool = False

    def select_tools(
        self, builtin: Iterable[CallableTool], user_tools: Iterable[CallableTool]
    ) -> tuple[CallableTool, ...]:
        """Return the tools of this mode. A user's tool replaces a built-in tool of the same name."""
        tools = {tool.name: tool for tool in builtin if tool.name in self.builtin}
        tools |= {tool.name: tool for tool in user_tools}
        return tuple([tool for tool in tools.values() if self.permission_mode != "plan" or tool.read_only])

    def permissions(self, root: str, user_tools: Iterable[CallableTool], *, can_ask: bool) -> Permissions:
        """Return the permissions of this mode. Without `can_ask`, calls that need approval are denied."""
        overridden = {tool.name for tool in user_tools}
        edits = tuple([name for name in _EDITING if name not in overridden])
        return Permissions(self.permission_mode, approve="later" if can_ask else None, file_tools=edits, root=root)


_ROWS: Final = (
    Mode(
        "plan",
        "reads; runs without approvals",
        "You can read files but not change anything: examine the code, and describe the changes you would make.",
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
        "uses all tools; asks before it runs a command or fetches a page",
        "You can read and change files below the working directory, run commands and fetch pages. Do what the task "
        "needs, and look whether it worked.",
        (*_READING, *_EDITING, *_RUNNING, *_FETCHING),
        "accept_edits",
        runs_commands=True,
    ),
)

MODES: Final[Mapping[str, Mode]] = {mode.name: mode for mode in _ROWS}
"""The modes by name."""

DEFAULT_MODE: Final = "build"
