"""`TurnView`: the steps of a turn that runs, to show them while they arrive."""

from __future__ import annotations

from typing import Any

from ...approvals import PermissionRequest
from ...events import (
    AgentEvent,
    ErrorEvent,
    OutputDelta,
    Restarted,
    TextDelta,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from ...html_repr import table
from ...live_display import Frame, text_of
from ...parsing.partial_instances import to_shown
from ...turn import Turn


class TurnView:
    """A fold of the events of a turn: texts, tool calls with their results, and the partial output.

    The arguments of calls are not shown, as they may be secret; nor are the texts of a turn whose output hides its
    input.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, str]] = []
        self._calls: dict[str, int] = {}  # the row of each call
        self._request_at = 0  # the first row of the current request
        self._output: Any = None

    def apply(self, event: AgentEvent[Any]) -> None:
        """Add one event."""
        match event:
            case TextDelta(text):
                if len(self._rows) > self._request_at and self._rows[-1][0] == "text":
                    self._rows[-1] = ("text", self._rows[-1][1] + text)
                else:
                    self._rows.append(("text", text))
            case ToolCallStart(id, name):
                self._set(id, name, "the model writes the arguments")
            case ToolStarted(id, name):
                self._set(id, name, "runs")
            case ToolProgress(id, name, data):
                self._set(id, name, f"runs: {data}")
            case ToolResult(id, name, content, is_error):
                self._set(id, name, f"error: {content}" if is_error else content)
                self._request_at = len(self._rows)
            case PermissionRequest(id, name):
                self._set(id, name, "waits for approval")
            case Restarted():
                del self._rows[self._request_at :]
                self._output = None
            case OutputDelta(value):
                self._output = to_shown(value)
            case ErrorEvent(error):
                self._rows.append((type(error).__name__, str(error)))
            case _:
                pass

    def frame(self, turn: Turn[Any]) -> Frame:
        """Return the steps so far as HTML and as text."""
        rows = [row for row in self._rows if row[0] != "text" or not turn.hidden_tools]
        output = self._output if turn.typed_output is None else to_shown(turn.typed_output)
        shown: list[tuple[str, Any]] = [*rows, *([] if output is None else [("output", output)])]
        text = "\n".join([value if name == "text" else f"{name}: {text_of(value)}" for name, value in shown])
        return Frame(table("Turn", shown, turn.usage.describe()), text)

    def _set(self, id: str, name: str, value: str) -> None:
        at = self._calls.setdefault(id, len(self._rows))
        self._rows[at:] = [(name, value), *self._rows[at + 1 :]]
