"""The changes of files by the built-in tools, turn by turn, so that a turn that is undone can have its files undone.

They are in memory: a session that is resumed knows the names of the files only, from its calls.

The changes of files that a turn makes, as diffs: a hook that compares before a tool runs.

Afterwards the old text of a file would be lost. The diffs are those of the approval (approval_preview.py); so a change
looks the same whether a person was asked about it or not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ...errors import TryAgain
from ...messages import Message, ToolCallPart, ToolResultPart
from ...toolbox.file_access import FileChange
from ...toolbox.sandbox_paths import SandboxRoot
from ...values.approvals import ApprovalDecision, PermissionRequest
from ...values.hooks import CallInfo, Hooks
from ..approval_preview import CallSketch, DiffPreview


class ChangeRecorder(Hooks):
    """The changes by the calls of a turn. The calls of its sub-agents are not recorded.

    Args:
        preview: Returns what a call would do.
        decisions: The decisions on calls of the turn, which may have changed their arguments.
    """

    def __init__(
        self, preview: Callable[[PermissionRequest], CallSketch], decisions: Iterable[ApprovalDecision] = ()
    ) -> None:
        self._preview = preview
        self._edited = {each.call_id: each.arguments for each in decisions if each.arguments is not None}
        self._changes: dict[str, DiffPreview] = {}

    def tool_start(self, call: CallInfo, tool_call: ToolCallPart) -> None:
        """Compare the file as it is with the file as the call will leave it."""
        if call.parent is not None:
            return
        arguments = self._edited.get(tool_call.id, tool_call.arguments)
        preview = self._preview(PermissionRequest(tool_call.id, tool_call.name, arguments))
        if isinstance(preview, DiffPreview):
            self._changes[tool_call.id] = preview

    def take(self, id: str) -> DiffPreview | None:
        """Return the change by a call that has ended, once; None if it changed no file."""
        return self._changes.pop(id, None)


_TOOLS: Final = ("write_file", "edit_file")
_COMMAND: Final = "run_command"


class ChangeJournal:
    """The changes of files below `root`. `add` may be called from any thread."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = SandboxRoot(root)
        self._question: Message | None = None
        self._changes: list[tuple[Message | None, FileChange]] = []

    def begin_turn(self, question: Message) -> None:
        """Assign the following changes to the turn that answers this message."""
        self._question = question

    def add(self, change: FileChange) -> None:
        """Add a change of the current turn."""
        self._changes.append((self._question, change))

    def changes(self, question: Message) -> list[FileChange]:
        """Return what the turn that answered this message has changed: one change for each file.

        A file that something else has changed in between cannot be restored: its content before is left out.
        """
        merged: dict[str, FileChange] = {}
        for asked, change in self._changes:
            if asked is not question:
                continue
            previous = merged.get(change.path)
            if previous is None:
                merged[change.path] = change
            elif change.before == previous.after:
                merged[change.path] = replace(change, before=previous.before, is_new=previous.is_new)
            else:
                merged[change.path] = replace(change, before=None, is_new=False)
        return list(merged.values())

    def can_restore(self, change: FileChange) -> bool:
        """Return True if the content before is known, and the file has not changed since."""
        if change.before is None and not change.is_new:
            return False
        try:
            with self._root.at(change.path) as place:
                return place.data() == change.after
        except TryAgain:
            return False

    def restore(self, change: FileChange) -> None:
        """Write the content before the change, or remove the file if it is new.

        Raises:
            TryAgain: The file cannot be written or removed.
        """
        with self._root.at(change.path) as place:
            if change.before is not None:
                place.put(change.before)
            else:
                Path(self._root.path, place.path).unlink()


def called_paths(messages: Sequence[Message]) -> Iterable[str]:
    """Return the files that the calls in these messages have changed, as they named them."""
    return _arguments(messages, _TOOLS, "path")


def called_commands(messages: Sequence[Message]) -> Iterable[str]:
    """Return the shell commands that the calls in these messages have run."""
    return _arguments(messages, (_COMMAND,), "command")


def _arguments(messages: Sequence[Message], tools: Sequence[str], name: str) -> Iterable[str]:
    """Return an argument of each call of `tools` that has not failed. A command that took too long has had effects."""
    failed = {
        part.call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResultPart) and part.is_error and "\n[stopped: " not in f"\n{part.content}"
    }
    calls = [call for message in messages for call in message.tool_calls]
    done = [call for call in calls if call.name in tools and call.id not in failed]
    return dict.fromkeys(value for call in done if (value := _argument(call.arguments, name)))


def _argument(arguments: str, name: str) -> str:
    try:
        data: Any = json.loads(arguments)
        return str(data[name])
    except (ValueError, TypeError, LookupError):
        return ""
