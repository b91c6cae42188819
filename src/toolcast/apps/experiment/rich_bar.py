"""The progress bar of a run: cycles, the agent's current activity, tool calls, tokens, time. Needs rich."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...experiments.log_events import LogEvent
from ...terminal_text import visible

_LONGEST_NAME: Final = 24
_WIDE: Final = 80
"""Columns from which on every part is shown; a narrower terminal gets the number of cycles and the time."""


class RichBar:
    """A progress bar on `stream` for the `cycles` of all `runs`, of which `done` have ended."""

    def __init__(self, stream: TextIO, cycles: int, runs: int, done: int) -> None:
        self._is_single = runs == 1
        self._done = done
        self._console = Console(file=stream)
        wide = self._console.width >= _WIDE
        self._progress = Progress(
            TextColumn("Cycles"),
            *((BarColumn(bar_width=24),) if wide else ()),
            MofNCompleteColumn(),
            *((TextColumn("{task.fields[calls]} tool calls, {task.fields[tokens]:,} tokens"),) if wide else ()),
            TimeElapsedColumn(),
            TextColumn("{task.fields[activity]}", markup=False),
            console=self._console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._calls = self._tokens = 0
        self._task = self._progress.add_task("", total=cycles, completed=done, calls=0, tokens=0, activity="")

    def on_event(self, event: LogEvent) -> None:
        """Update the bar for an event of the log."""
        payload, measures = event.payload, event.measures
        match event.event_type:
            case "RUN_START" if self._is_single:
                self._done = int(payload.get("first_cycle", 1)) - 1
                self._show("")
            case "LLM_INVOCATION":
                self._tokens += measures.get("input_tokens", 0) + measures.get("output_tokens", 0)
                self._show(_activity(payload))
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
        """Stop drawing and leave the bar as it is, so that other text can follow."""
        self._progress.stop()

    def start(self) -> None:
        """Start or resume drawing."""
        self._progress.start()

    def _show(self, activity: str) -> None:
        shown = activity if self._is_single else ""
        self._progress.update(self._task, completed=self._done, calls=self._calls, tokens=self._tokens, activity=shown)


def _activity(payload: Mapping[str, Any]) -> str:
    """Return the names of the tools that a response calls, or "reflected" if it calls none."""
    calls: Any = payload.get("response_message", {}).get("tool_calls") or ()
    names = ", ".join(str(call["function"]["name"]) for call in calls)
    return visible(" ".join(names.split()))[:_LONGEST_NAME] if names else "reflected"
