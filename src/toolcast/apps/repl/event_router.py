"""Where each event of a turn goes: the table in `EventRouter`.

    streaming_response ──> routing ──> thinking, tool_execution, content_output ──> streaming_response

An event is one thing, so that thinking, text and calls that came in one chunk all find their way, one after the other.
What a turn ends with (`ErrorEvent`) is not told here: the turn raises it, and the loop tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ...events import (
    AgentEvent,
    Failover,
    Finish,
    RawEvent,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolProgress,
    ToolResult,
)
from ...llms.local.repetition import REPETITION
from ..cli_errors import command_words
from .screen import Screen

_CUT_SHORT: Final[Mapping[str, str]] = {
    "max_tokens": "The answer was cut off: it has reached the limit of its length. Say 'go on' for the rest.",
    "refusal": "The model declined to answer.",
    "content_filter": "A filter of the service ended the answer.",
    REPETITION: "The answer began to repeat itself, and was ended.",
}
"""The note on an answer that ended before its end, by its stop reason or the service's own word for that."""


class _Route(NamedTuple):
    """The `kind` of an event is what happens in the table of states (`REPL`); nothing, where it has no state there."""

    kind: str
    show: Callable[[Any], object]


def _not_shown(event: object) -> None:
    pass


_NOWHERE: Final = _Route("", _not_shown)


class EventRouter:
    """Takes events to the `screen`. `step` hears where each of them is; `heard` gets what running tools say."""

    def __init__(self, screen: Screen, step: Callable[[str], object], heard: Callable[[ToolProgress], object]) -> None:
        self._screen = screen
        self._step = step
        self.has_skipped: bool = False
        """Return whether a piece of an answer could not be read."""
        self._names: dict[str, str] = {}  # of the calls that have begun
        self._routes: Mapping[type, _Route] = {
            ThinkingDelta: _Route("thought", self._thinking),
            TextDelta: _Route("spoke", self._content),
            ToolCallStart: _Route("called", self._call_begins),
            ToolCallReset: _Route("called", self._call_begins_anew),
            ToolCallDelta: _Route("called", self._call_arguments),
            ToolCallDone: _Route("called", self._call_complete),
            ToolProgress: _Route("called", heard),
            ToolResult: _Route("called", self._call_result),
            Restarted: _Route("", self._restarted),
            Failover: _Route("", self._failover),
            RawEvent: _Route("unreadable", self._unreadable),
            Finish: _Route("", self._finish),
        }

    def take(self, event: AgentEvent) -> None:
        """Show one event, and be ready for the next."""
        self._step("received")
        route = self._routes.get(type(event), _NOWHERE)
        if isinstance(event, RawEvent) and not event.damaged:
            route = _NOWHERE
        if route.kind:
            self._step(route.kind)
        route.show(event)
        self._step("skipped" if route.kind == "unreadable" else "routed")

    def _thinking(self, event: ThinkingDelta) -> None:
        if event.text:
            self._screen.thinking(event.text)

    def _content(self, event: TextDelta) -> None:
        if event.text:
            self._screen.content(event.text)

    def _call_begins(self, event: ToolCallStart) -> None:
        self._names[event.id] = event.name
        self._screen.call_begins(event.id, event.name)

    def _call_begins_anew(self, event: ToolCallReset) -> None:
        self._screen.call_begins(event.id, self._names.get(event.id, ""))

    def _call_arguments(self, event: ToolCallDelta) -> None:
        self._screen.call_arguments(event.id, event.arguments)

    def _call_complete(self, event: ToolCallDone) -> None:
        self._screen.call_complete(event.id, event.name, event.arguments)

    def _call_result(self, event: ToolResult) -> None:
        self._screen.call_result(event.call_id, event.name, event.content, event.is_error)

    def _restarted(self, event: Restarted) -> None:
        self._screen.end_answer()
        self._screen.note(f"The model is asked again, what it said is void: {command_words(event.reason)}")

    def _failover(self, event: Failover) -> None:
        self._screen.note(
            f"{event.provider} {event.model} failed, another model is asked: {command_words(event.error)}"
        )

    def _unreadable(self, event: RawEvent) -> None:
        self.has_skipped = True
        self._screen.error(f"a piece of the answer could not be read: {event.data!s:.100}", "it was skipped")

    def _finish(self, event: Finish) -> None:
        self._screen.end_answer()
        if words := _CUT_SHORT.get(event.stop_reason) or _CUT_SHORT.get(event.raw or ""):
            self._screen.note(words)
