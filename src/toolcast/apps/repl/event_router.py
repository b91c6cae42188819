"""The routing of a turn's events to the screen: the table in `EventRouter`.

    streaming_response ──> routing ──> thinking, tool_execution, content_output ──> streaming_response

Each event is of one kind, so thinking, text and tool calls that arrive in one chunk are routed one after the other.
`ErrorEvent` is not shown here: the turn raises its error, and the loop shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ...events import (
    AgentEvent,
    AudioOutput,
    Failover,
    Finish,
    GroundingReport,
    ImageOutput,
    RawEvent,
    Restarted,
    ServerToolUse,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from ...llms.local.repetition import REPETITION
from ...messages import ToolCallPart, describe_media
from ...text.json_text import json_text
from ...values.citations import Citation, Grounding, describe_citation
from ..approval_preview import DiffPreview
from ..output import command_line_text
from .screen import Screen

_STOP_NOTES: Final[Mapping[str, str]] = {
    "max_tokens": "The answer reached the limit of its length. Type 'go on' for the rest.",
    "refusal": "The model declined to answer.",
    "content_filter": "The service's content filter ended the answer.",
    REPETITION: "The answer was ended because it repeated itself.",
}
"""The note on an incomplete answer, by its stop reason or the service's own name for it."""


class _Route(NamedTuple):
    """The `kind` names the transition in the table of states (`REPL`); it is empty for events without a state."""

    kind: str
    show: Callable[[Any], object]


def _ignore(event: object) -> None:
    pass


_IGNORED: Final = _Route("", _ignore)


class EventRouter:
    """A router of events to `screen`.

    Args:
        screen: The screen.
        step: Called at each transition.
        on_progress: Called with the progress of tools.
        change: Returns the change of a file by a call that has ended.
        asks_user: Returns True for the name of a tool that asks the user, whose call and result are shown as the
            question and the answer.
    """

    def __init__(
        self,
        screen: Screen,
        step: Callable[[str], object],
        on_progress: Callable[[ToolProgress], object],
        change: Callable[[str], DiffPreview | None] = lambda id: None,
        asks_user: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self._asks_user = asks_user
        self._screen = screen
        self._step = step
        self._change = change
        self.has_skipped: bool = False
        """True if a part of an answer could not be decoded."""
        self._names: dict[str, str] = {}  # of the calls that have begun
        self._complete: dict[str, tuple[str, str]] = {}  # names and arguments of calls that have not started
        self._citations: list[Citation] = []  # of the answer
        self._grounding = Grounding()
        self._audio_sizes: dict[str, int] = {}  # bytes of the answer's recordings, by media type
        self._table: Mapping[type, _Route] = {
            ThinkingDelta: _Route("thought", self._thinking),
            TextDelta: _Route("spoke", self._content),
            ToolCallStart: _Route("called", self._call_begins),
            ToolCallReset: _Route("called", self._call_begins_anew),
            ToolCallDelta: _Route("called", self._call_arguments),
            ToolCallDone: _Route("called", self._call_complete),
            ToolStarted: _Route("", self._call_started),
            ToolProgress: _Route("called", on_progress),
            ToolResult: _Route("called", self._call_result),
            ServerToolUse: _Route("called", self._server_tool),
            TextCitation: _Route("", self._citation),
            GroundingReport: _Route("", self._grounded),
            ImageOutput: _Route("called", self._image),
            AudioOutput: _Route("spoke", self._audio),
            Restarted: _Route("", self._restarted),
            Failover: _Route("", self._failover),
            RawEvent: _Route("unreadable", self._unreadable),
            Finish: _Route("", self._finish),
        }

    def route(self, event: AgentEvent) -> None:
        """Show one event."""
        self._step("received")
        route = self._table.get(type(event), _IGNORED)
        if isinstance(event, RawEvent) and not event.damaged:
            route = _IGNORED
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
        if not self._asks_user(event.name):
            self._screen.call_begins(event.id, event.name)

    def _call_begins_anew(self, event: ToolCallReset) -> None:
        name = self._names.get(event.id, "")
        if not self._asks_user(name):
            self._screen.call_begins(event.id, name)

    def _call_arguments(self, event: ToolCallDelta) -> None:
        self._screen.call_arguments(event.id, event.arguments)

    def _call_complete(self, event: ToolCallDone) -> None:
        # It is not shown yet: a call that needs an approval is shown with the question first.
        self._complete[event.id] = (event.name, event.arguments)

    def _call_started(self, event: ToolStarted) -> None:
        self._show_complete(event.call_id)

    def _show_complete(self, id: str) -> None:
        if id in self._complete:
            name, arguments = self._complete.pop(id)
            if not self._asks_user(name):
                self._screen.call_complete(id, name, arguments)

    def expect_calls(self, calls: Iterable[ToolCallPart]) -> None:
        """Remember calls of an earlier run of the program, which may start now."""
        self._complete.update({call.id: (call.name, call.arguments) for call in calls})

    def _call_result(self, event: ToolResult) -> None:
        self._show_complete(event.call_id)
        change = self._change(event.call_id)  # taken in any case
        if self._asks_user(event.name) and not event.is_error:
            return
        made = None if event.is_error else change
        self._screen.call_result(event.call_id, event.name, event.content, event.is_error, made)

    def _server_tool(self, event: ServerToolUse) -> None:
        id = event.call_id or event.name
        if event.input is not None:
            self._screen.call_begins(id, event.name)
            self._screen.call_complete(id, event.name, json_text(event.input))
        if event.output is not None or event.error:
            shown = event.error or (event.output if isinstance(event.output, str) else json_text(event.output))
            self._screen.call_result(id, event.name, shown, bool(event.error))

    def _image(self, event: ImageOutput) -> None:
        if event.partial is None:
            self._screen.note(command_line_text(describe_media(event.image)))

    def _audio(self, event: AudioOutput) -> None:
        self._audio_sizes[event.media_type] = self._audio_sizes.get(event.media_type, 0) + len(event.data)
        if event.transcript:
            self._screen.content(event.transcript)

    def _citation(self, event: TextCitation) -> None:
        self._citations.append(event.citation)

    def _grounded(self, event: GroundingReport) -> None:
        self._grounding = event.grounding

    def _restarted(self, event: Restarted) -> None:
        self._forget_answer()
        self._complete.clear()
        self._screen.end_answer()
        self._screen.note(
            f"Sending the request again, the answer so far is discarded: {command_line_text(event.reason)}"
        )

    def _failover(self, event: Failover) -> None:
        self._screen.note(
            f"{event.provider} {event.model} failed, trying another model: {command_line_text(event.error)}"
        )

    def _unreadable(self, event: RawEvent) -> None:
        self.has_skipped = True
        self._screen.error(f"cannot decode a part of the answer: {event.data!s:.100}", "it was skipped")

    def _finish(self, event: Finish) -> None:
        self._screen.end_answer()
        for media_type, size in self._audio_sizes.items():
            self._screen.note(f"[{command_line_text(media_type)}, {size:,} bytes]")
        if queries := "; ".join(self._grounding.queries):
            self._screen.note(f"Searched for: {' '.join(queries.split())}")
        # A text refers by `[1]` to the first source of a search.
        sources = list(dict.fromkeys(map(describe_citation, (*self._grounding.sources, *self._citations))))
        if sources:
            # Each on a line of its own: a title with line ends must not look like several sources.
            shown = [f"  {number}. {' '.join(source.split())}" for number, source in enumerate(sources, 1)]
            self._screen.note("\n".join(["Sources:", *shown]))
        self._forget_answer()
        if note := _STOP_NOTES.get(event.stop_reason) or _STOP_NOTES.get(event.raw or ""):
            self._screen.note(note)

    def _forget_answer(self) -> None:
        """Forget what is shown after an answer."""
        self._citations, self._grounding, self._audio_sizes = [], Grounding(), {}
