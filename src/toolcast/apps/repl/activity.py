"""The activity of a turn at the moment, from its events: `TurnActivity`.

A screen shows it in one line while the turn runs, and below it one line for each sub-agent of a running tool call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ...agents.subagents.elf_run import ElfEvent
from ...events import (
    AgentEvent,
    ErrorEvent,
    Finish,
    Restarted,
    ServerToolUse,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
    UsageReport,
)
from .tool_call_summary import ShownCall

_CHARACTERS_PER_TOKEN: Final = 4
_WAITING: Final = "Waiting for the model"


class TurnActivity:
    """The activity of a turn, or of a sub-agent.

    Args:
        waiting: The label before the first event, and between two responses of the model.
        task: The task, of a sub-agent.
        depth: 0 for a turn, 1 for its sub-agents, 2 for theirs.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, waiting: str = _WAITING, *, task: str = "", depth: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.task: str = task
        self.depth: int = depth
        self.outcome: str = ""
        """`completed` or `failed`; empty while it goes on."""
        self._clock = clock
        self._start = clock()
        self._end = self._start
        self._waiting = waiting
        self._phase = waiting
        self._calls: dict[str, str] = {}  # summaries of the complete calls
        self._running: dict[str, str] = {}  # summaries of the calls whose tools are at work
        self._agents: dict[str, dict[str, TurnActivity]] = {}  # by the id of the call
        self._past_tokens = 0  # of the responses that are complete
        self._reported_tokens = 0
        self._characters = 0
        self._table: Mapping[type, Callable[[Any], object]] = {
            ThinkingDelta: self._thinking,
            TextDelta: self._text,
            ToolCallStart: self._call_begins,
            ToolCallDelta: self._call_arguments,
            ToolCallDone: self._call_complete,
            ServerToolUse: self._server_tool,
            UsageReport: self._usage,
            Finish: self._finish,
            Restarted: self._restarted,
            ToolStarted: self._tool_started,
            ToolProgress: self._tool_progress,
            ToolResult: self._tool_result,
            ErrorEvent: self._error,
        }

    @property
    def label(self) -> str:
        """The activity: `Running read_file a.py`, for example."""
        if len(self._running) > 1:
            return f"Running {len(self._running)} tools"
        return next((f"Running {summary}" for summary in self._running.values()), self._phase)

    @property
    def seconds(self) -> int:
        """The seconds since the start, or until the end of a sub-agent."""
        return int((self._end if self.outcome else self._clock()) - self._start)

    @property
    def tokens(self) -> int:
        """The tokens that the model has generated; estimated where the service has not reported them yet."""
        return self._past_tokens + (self._reported_tokens or self._characters // _CHARACTERS_PER_TOKEN)

    @property
    def agents(self) -> Iterator[tuple[str, TurnActivity]]:
        """The id and activity of each sub-agent, those of a sub-agent after it."""
        for agents in self._agents.values():
            # In the order of their start, which their numbers have; their first events may come in another one.
            for id, agent in sorted(agents.items(), key=lambda each: (len(each[0]), each[0])):
                yield id, agent
                yield from agent.agents

    @contextmanager
    def paused(self) -> Generator[None]:
        """Return a context manager whose time does not count: that of a question to the user."""
        before = self._clock()
        try:
            yield
        finally:
            self._start += self._clock() - before

    def observe(self, event: AgentEvent) -> None:
        """Update the activity by an event."""
        if handle := self._table.get(type(event)):
            self.outcome = ""
            handle(event)

    def _thinking(self, event: ThinkingDelta) -> None:
        self._phase = "Thinking"
        self._characters += len(event.text)

    def _text(self, event: TextDelta) -> None:
        self._phase = "Answering"
        self._characters += len(event.text)

    def _call_begins(self, event: ToolCallStart) -> None:
        self._phase = f"Preparing {event.name}"

    def _call_arguments(self, event: ToolCallDelta) -> None:
        self._characters += len(event.arguments)

    def _call_complete(self, event: ToolCallDone) -> None:
        self._calls[event.id] = ShownCall(event.name, event.arguments).brief

    def _server_tool(self, event: ServerToolUse) -> None:
        self._phase = f"Running {event.name}" if event.output is None and not event.error else self._waiting

    def _usage(self, event: UsageReport) -> None:
        self._reported_tokens = event.usage.output_tokens

    def _finish(self, event: Finish) -> None:
        self._past_tokens, self._reported_tokens, self._characters = self.tokens, 0, 0
        self._phase = self._waiting
        if event.stop_reason != "tool_use":
            self._over("completed")

    def _restarted(self, event: Restarted) -> None:
        self._reported_tokens = self._characters = 0
        self._phase = "Sending the request again"

    def _tool_started(self, event: ToolStarted) -> None:
        self._running[event.call_id] = self._calls.pop(event.call_id, event.name)

    def _tool_progress(self, event: ToolProgress) -> None:
        if not isinstance(event.data, ElfEvent):
            return
        agents, elf = self._agents.setdefault(event.call_id, {}), event.data
        if elf.id not in agents:
            agents[elf.id] = TurnActivity(task=elf.task, depth=self.depth + 1, clock=self._clock)
        agents[elf.id].observe(elf.event)

    def _tool_result(self, event: ToolResult) -> None:
        self._running.pop(event.call_id, None)
        self._agents.pop(event.call_id, None)
        self._phase = self._waiting

    def _error(self, event: ErrorEvent) -> None:
        self._over("failed")

    def _over(self, outcome: str) -> None:
        self.outcome, self._end = outcome, self._clock()
