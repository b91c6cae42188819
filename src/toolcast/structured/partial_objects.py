"""Typed partial objects from a stream of events.

Each tool call has one partial value, fed by that call's deltas only; a model that answers in text instead feeds one
from its text. The complete response is validated again at its end (`response_validation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pydantic

from ..async_support.closing import Uncopyable
from ..errors import ValidationError
from ..events import Event, Restarted, TextDelta, ToolCallDelta, ToolCallDone, ToolCallReset, ToolCallStart
from ..messages import ToolCallPart
from ..parsing.missing import MISSING
from ..parsing.partial_value import PartialValue
from ..parsing.type_plan import plan_for
from ..text.reprs import safe_repr
from ..tools.callable_tool import CallableTool, output_tools

_TEXT = "text"


class StreamingObjectProcessor(Uncopyable):
    """The partial objects of one stream: `process(event)` returns the new snapshot, or None.

    With `allow_parallel_tool_calls` a snapshot is a list with one object for each call so far, in the order in which
    the calls began; otherwise it is the object of the first call.
    """

    def __init__(self, output_cls: Any, allow_parallel_tool_calls: bool = False) -> None:
        tools = {tool.name: tool for tool in output_tools(output_cls)}
        self._configure(tools, allow_parallel_tool_calls, True, None)

    @safe_repr
    def __repr__(self) -> str:
        return f"StreamingObjectProcessor({self.cur_objects!r})"

    @classmethod
    def for_tools(
        cls, tools: Mapping[str, CallableTool], *, parallel: bool, fail_fast: bool, context: Any = None
    ) -> StreamingObjectProcessor:
        """Return a processor for calls of these tools, by their names."""
        processor = cls.__new__(cls)
        processor._configure(tools, parallel, fail_fast, context)
        return processor

    def _configure(self, tools: Mapping[str, CallableTool], parallel: bool, fail_fast: bool, context: Any) -> None:
        self._tools = tools
        self._parallel = parallel
        self._fail_fast = fail_fast
        self._context = context
        self._growing: dict[str, PartialValue] = {}
        self._names: dict[str, str] = {}
        self._latest: PartialValue | None = None
        self.feeds: int = 0
        self._text: str | None = ""

    def process(self, event: Event) -> Any:
        """Return the new snapshot if `event` changed anything visible; else None."""
        return self.item if self.apply(event) else None

    def apply(self, event: Event) -> bool:
        """Process one event; return whether it changed anything visible.

        Raises:
            ValidationError: With `fail_fast`, if arguments cannot become valid any more.
        """
        handler = self._handlers.get(type(event))
        return handler is not None and handler(self, event)

    @property
    def item(self) -> Any:
        """The latest snapshot."""
        if self._parallel:
            return self.cur_objects
        value = MISSING if self._latest is None else self._latest.value
        return None if value is MISSING else value

    @property
    def cur_objects(self) -> list[Any]:
        """The latest snapshot of every call that shows anything, in the order in which the calls began."""
        return [growing.value for growing in self._growing.values() if growing.value is not MISSING]

    def take_complete(self, call: ToolCallPart) -> Any:
        """Return the validated value of a call whose arguments arrived at once; `MISSING` for any other call."""
        growing = self._growing.get(call.id)
        if growing is None or call.name != self._names.get(call.id):
            return MISSING
        return growing.take_complete(call.arguments)

    @property
    def growing(self) -> PartialValue | None:
        """The partial value that was fed last."""
        return self._latest

    @property
    def calls(self) -> tuple[PartialValue, ...]:
        """The partial values, one for each call, in the order in which the calls began."""
        return tuple(self._growing.values())

    @property
    def index(self) -> int:
        """The index of the call that was fed last."""
        return next((i for i, growing in enumerate(self.calls) if growing is self._latest), 0)

    @property
    def reading_text(self) -> bool:
        """True if the object is parsed from the text of the response."""
        return _TEXT in self._growing

    @property
    def text_is_complete(self) -> bool:
        """True if the object is parsed from the text of the response, and has ended."""
        growing = self._growing.get(_TEXT)
        return growing is not None and growing.is_complete

    def _start_call(self, event: ToolCallStart) -> bool:
        # A tool call supersedes an object that was parsed from the text before it.
        if self._growing.pop(_TEXT, None) is not None:
            self._latest = None
        tool = self._tools.get(event.name)
        if tool is not None and tool.output_type is not None and (self._parallel or not self._growing):
            self._add_partial(event.id, tool)
        return False

    def _add_partial(self, id: str, tool: CallableTool) -> PartialValue:
        plan = plan_for(tool.output_type)
        # Invalid text may be prose instead of an answer, which only the complete response shows.
        fail_fast = self._fail_fast and id != _TEXT
        growing = PartialValue(plan, wrapped=tool.wrapped, fail_fast=fail_fast, context=self._context)
        self._growing[id] = growing
        self._names[id] = tool.name
        return growing

    def _feed(self, id: str, growing: PartialValue, text: str) -> bool:
        self._latest = growing
        self.feeds += 1
        try:
            return growing.feed(text)
        except pydantic.ValidationError as error:
            failure = self.invalid_arguments(id, growing, error)
        # Raised here and not in the `except` block: Pydantic's error would become its context.
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # its traceback refers to this frame
        return False

    def invalid_arguments(
        self, id: str, growing: PartialValue, error: pydantic.ValidationError
    ) -> ValidationError | None:
        """Return the error for arguments that cannot become valid; None if they count as no arguments."""
        if growing.text.strip() == "null":  # models write null for an empty object
            return None
        failure = self._tools[self._names[id]].validation_error(error, growing.text, "; the answer was stopped early")
        failure.call_id = id
        failure.advice = "fail_fast=False reads it to its end"
        return failure

    def _add_arguments(self, event: ToolCallDelta) -> bool:
        growing = self._growing.get(event.id)
        return growing is not None and self._feed(event.id, growing, event.arguments)

    def _reset_call(self, event: ToolCallReset) -> bool:
        name = self._names.get(event.id)
        # A new partial value under the same id: the arguments begin again from nothing.
        if name is not None:
            self._add_partial(event.id, self._tools[name])
        return False

    def _finish_call(self, event: ToolCallDone) -> bool:
        """Feed a call that arrived whole, without deltas."""
        # Some services send a call in one event, without the one that starts it.
        if event.id not in self._names:
            self._start_call(ToolCallStart(event.id, event.name))
        growing = self._growing.get(event.id)
        # Truncated arguments are not fed: the complete response reports them.
        if growing is None or growing.text or event.truncated:
            return False
        return self._feed(event.id, growing, event.arguments)

    def _add_text(self, event: TextDelta) -> bool:
        """Feed text, if it begins like an object, only one tool is offered, and no tool was called."""
        growing = self._growing.get(_TEXT)
        if growing is not None:
            return self._feed(_TEXT, growing, event.text)
        if self._growing or self._text is None or len(self._tools) != 1:
            return False
        # White space before an object is no prose; it may arrive in pieces of its own.
        text = (self._text + event.text).lstrip()
        (tool,) = self._tools.values()
        if not text:
            return False
        if text[0] != "{" or tool.output_type is None or tool.wrapped:
            self._text = None
            return False
        self._text = None
        return self._feed(_TEXT, self._add_partial(_TEXT, tool), text)

    def _reset_all(self, event: Restarted) -> bool:
        self._growing.clear()
        self._names.clear()
        self._latest, self._text = None, ""
        return False

    _handlers: ClassVar[dict[type[Any], Callable[[StreamingObjectProcessor, Any], bool]]] = {
        TextDelta: _add_text,
        ToolCallStart: _start_call,
        ToolCallDelta: _add_arguments,
        ToolCallReset: _reset_call,
        ToolCallDone: _finish_call,
        Restarted: _reset_all,
    }


class DeltaFastPath:
    """The direct path for further deltas of one call: `feed` of its partial value."""

    __slots__ = ("feed", "growing", "id")

    def __init__(self, id: str, growing: PartialValue) -> None:
        self.id: str = id
        self.growing: PartialValue = growing
        self.feed: Callable[[str], bool] = growing.feed
