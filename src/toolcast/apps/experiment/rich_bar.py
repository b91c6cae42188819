"""The bar of a run on a terminal: cycles, what the agent is doing, tool calls, tokens, time. Needs rich."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...experiments.log_events import LogEvent
from ...terminal_text import visible

_LONGEST_NAME: Final = 24
_WIDE: Final = 80
"""The columns of a terminal that has room for all of it; a narrower one shows the number of cycles and the time."""


class RichBar:
    """The bar on `stream`, for the `cycles` of so many `runs`, of which so many are `done`."""

    def __init__(self, stream: TextIO, cycles: int, runs: int, done: int) -> None:
        self._alone = runs == 1
        self._done = done
        self._console = Console(file=stream)
        wide = self._console.width >= _WIDE
        self._progress = Progress(
            TextColumn("Cycles"),
            *((BarColumn(bar_width=24),) if wide else ()),
            MofNCompleteColumn(),
            *((TextColumn("{task.fields[calls]} tool calls, {task.fields[tokens]:,} tokens"),) if wide else ()),
            TimeElapsedColumn(),
            TextColumn("{task.fields[doing]}", markup=False),
            console=self._console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._calls = self._tokens = 0
        self._task = self._progress.add_task("", total=cycles, completed=done, calls=0, tokens=0, doing="")

    def hear(self, event: LogEvent) -> None:
        """Show what has happened."""
        payload, measures = event.payload, event.measures
        match event.event_type:
            case "RUN_START" if self._alone:
                self._done = int(payload.get("first_cycle", 1)) - 1
                self._show("")
            case "LLM_INVOCATION":
                self._tokens += measures.get("input_tokens", 0) + measures.get("output_tokens", 0)
                self._show(_called(payload))
            case "TOOL_CALL":
                self._calls += 1
                self._show("asking")
            case "CYCLE_START":
                self._show("asking")
            case "CYCLE_END":
                self._done += 1
                self._show("")
            case _:
                self._show("")

    def print(self, text: str) -> None:
        """Write a line above the bar."""
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def stop(self) -> None:
        """Leave the bar as it is, for somebody else to write."""
        self._progress.stop()

    def start(self) -> None:
        """Draw the bar, again."""
        self._progress.start()

    def _show(self, doing: str) -> None:
        what = doing if self._alone else ""
        self._progress.update(self._task, completed=self._done, calls=self._calls, tokens=self._tokens, doing=what)


def _called(payload: Mapping[str, Any]) -> str:
    """The tools that an answer calls, or that it calls none."""
    calls: Any = payload.get("response_message", {}).get("tool_calls") or ()
    names = ", ".join(str(call["function"]["name"]) for call in calls)
    return visible(" ".join(names.split()))[:_LONGEST_NAME] if names else "reflected"
