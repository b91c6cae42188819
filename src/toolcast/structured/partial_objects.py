"""Events -> growing objects: the parts of an answer that are already there, typed.

One growing object per tool call, fed by that call's deltas and by nothing else; a model that answers in text
instead grows from its text. The last word is not spoken here: the whole answer is read once more at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pydantic

from ..errors import ValidationError
from ..events import Event, Restarted, TextDelta, ToolCallDelta, ToolCallDone, ToolCallReset, ToolCallStart
from ..parsing.partial_value import MISSING, PartialValue
from ..parsing.type_plan import plan_for
from ..tools.callable_tool import CallableTool, output_tools

_TEXT = "text"


class StreamingObjectProcessor:
    """What a chat stream has built up so far: `process(event)` gives the new snapshot, or None.

    With `allow_parallel_tool_calls` a snapshot is a list with one object per call so far, in the order in which
    the calls began; without it, the first call's object. `cur_objects` are the snapshots of all calls.
    """

    def __init__(self, output_cls: Any, allow_parallel_tool_calls: bool = False) -> None:
        self._set_up(output_tools(output_cls), allow_parallel_tool_calls, True, None)

    @classmethod
    def for_tools(
        cls, tools: Iterable[CallableTool], *, parallel: bool, fail_fast: bool, context: Any = None
    ) -> StreamingObjectProcessor:
        """A processor for calls of these tools."""
        made = cls.__new__(cls)
        made._set_up(tools, parallel, fail_fast, context)
        return made

    def _set_up(self, tools: Iterable[CallableTool], parallel: bool, fail_fast: bool, context: Any) -> None:
        self._tools: Mapping[str, CallableTool] = {tool.name: tool for tool in tools}
        self._parallel = parallel
        self._fail_fast = fail_fast
        self._context = context
        self._growing: dict[str, PartialValue] = {}
        self._names: dict[str, str] = {}
        self._latest: PartialValue | None = None
        self.feeds: int = 0
        self._text: str | None = ""

    def process(self, event: Event) -> Any:
        """The new snapshot, if `event` changed something that shows; else None."""
        return self.item if self.take(event) else None

    def take(self, event: Event) -> bool:
        """Whether `event` changed something that shows. Raises ValidationError where nothing can mend it."""
        step = self._steps.get(type(event))
        return step is not None and step(self, event)

    @property
    def item(self) -> Any:
        """The newest snapshot."""
        if self._parallel:
            return self.cur_objects
        value = MISSING if self._latest is None else self._latest.value
        return None if value is MISSING else value

    @property
    def cur_objects(self) -> list[Any]:
        """The newest snapshot of every call that shows anything, in the order in which they began."""
        return [growing.value for growing in self._growing.values() if growing.value is not MISSING]

    @property
    def growing(self) -> PartialValue | None:
        """What grew last."""
        return self._latest

    @property
    def calls(self) -> tuple[PartialValue, ...]:
        """What grows, one per call, in the order in which they began."""
        return tuple(self._growing.values())

    @property
    def index(self) -> int:
        """The place of what grew last among the calls."""
        return next((i for i, growing in enumerate(self.calls) if growing is self._latest), 0)

    @property
    def reading_text(self) -> bool:
        """Whether the object is read from the text of the answer."""
        return _TEXT in self._growing

    @property
    def text_is_complete(self) -> bool:
        """Return True if the object is read from the text of the answer, and has ended."""
        growing = self._growing.get(_TEXT)
        return growing is not None and growing.is_complete

    def _start(self, event: ToolCallStart) -> bool:
        if self._growing.pop(_TEXT, None) is not None:
            self._latest = None
        tool = self._tools.get(event.name)
        if tool is not None and tool.output_type is not None and (self._parallel or not self._growing):
            self._grow(event.id, tool)
        return False

    def _grow(self, id: str, tool: CallableTool) -> PartialValue:
        plan = plan_for(tool.output_type)
        # Text that does not fit may be no answer at all; only its end can tell.
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
            failure = self.refusal(id, growing, error)
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # its traceback refers to this frame
        return False

    def refusal(self, id: str, growing: PartialValue, error: pydantic.ValidationError) -> ValidationError | None:
        """The error of arguments that cannot become valid any more; None where they count as none at all."""
        if growing.text.strip() == "null":  # which stands for an empty object
            return None
        failure = self._tools[self._names[id]].unfit(error, growing.text, "; the answer was stopped early")
        failure.call_id = id
        failure.advice = "fail_fast=False reads it to its end"
        return failure

    def _grew(self, event: ToolCallDelta) -> bool:
        growing = self._growing.get(event.id)
        return growing is not None and self._feed(event.id, growing, event.arguments)

    def _reset(self, event: ToolCallReset) -> bool:
        name = self._names.get(event.id)
        if name is not None:
            self._grow(event.id, self._tools[name])
        return False

    def _done(self, event: ToolCallDone) -> bool:
        """A call that came whole, without deltas."""
        if event.id not in self._names:
            self._start(ToolCallStart(event.id, event.name))
        growing = self._growing.get(event.id)
        if growing is None or growing.text or event.truncated:
            return False
        return self._feed(event.id, growing, event.arguments)

    def _said(self, event: TextDelta) -> bool:
        """Text grows an object where one tool is offered, nothing was called, and it begins like an object."""
        growing = self._growing.get(_TEXT)
        if growing is not None:
            return self._feed(_TEXT, growing, event.text)
        if self._growing or self._text is None or len(self._tools) != 1:
            return False
        text = (self._text + event.text).lstrip()
        (tool,) = self._tools.values()
        if not text:
            return False
        if text[0] != "{" or tool.output_type is None or tool.wrapped:
            self._text = None
            return False
        self._text = None
        return self._feed(_TEXT, self._grow(_TEXT, tool), text)

    def _restarted(self, event: Restarted) -> bool:
        self._growing.clear()
        self._names.clear()
        self._latest, self._text = None, ""
        return False

    _steps: ClassVar[dict[type[Any], Callable[[StreamingObjectProcessor, Any], bool]]] = {
        TextDelta: _said,
        ToolCallStart: _start,
        ToolCallDelta: _grew,
        ToolCallReset: _reset,
        ToolCallDone: _done,
        Restarted: _restarted,
    }


class DeltaFastPath:
    """The short way of further deltas of one call: through `feed` into what grows."""

    __slots__ = ("feed", "growing", "id")

    def __init__(self, id: str, growing: PartialValue) -> None:
        self.id: str = id
        self.growing: PartialValue = growing
        self.feed: Callable[[str], bool] = growing.feed
