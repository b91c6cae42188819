"""The changes of files that a turn makes, as diffs: a hook that compares before a tool runs.

Afterwards the old text of a file would be lost. The diffs are those of the approval (approval_preview.py); so a change
looks the same whether a person was asked about it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...approvals import ApprovalDecision, PermissionRequest
from ...hook_protocol import CallInfo, Hooks
from ...messages import ToolCallPart
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
