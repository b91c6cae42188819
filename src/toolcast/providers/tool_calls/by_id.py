"""The tool calls of one answer, for protocols that say where each call begins and ends.

A call is known by a `key`, whatever the protocol numbers them by. Each becomes one `ToolCallStart`, its
`ToolCallDelta`s, and one `ToolCallDone` with all of its arguments. Its id is the service's own; one that is empty or
was there before is replaced by `call_N`, counted through the whole conversation. (Chat-completions services say less,
and contradict themselves: tool_calls.py.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import LimitExceeded
from ...events import Event, ToolCallDelta, ToolCallDone, ToolCallStart
from ...text_buffer import TextBuffer
from ...tool_spec import ToolNames
from ..base import RequestInput
from .by_index import MOST_CALLS, WRAPPERS, is_json, unwrapped


@dataclass(slots=True)
class OpenCall:
    """A call that has begun."""

    id: str
    name: str
    pieces: TextBuffer = field(default_factory=TextBuffer)
    opaque: Mapping[str, Any] | None = None

    def grow(self, text: str) -> list[Event]:
        """The events of more arguments."""
        self.pieces.add(text)
        return [ToolCallDelta(self.id, text)]


class OpenCalls:
    """The calls of one answer to `conversation`."""

    def __init__(self, conversation: RequestInput) -> None:
        self._names = ToolNames(conversation.tools)
        self._before = conversation.calls_before
        self._open: dict[Hashable, OpenCall] = {}
        self._ids: set[str] = set()
        self.last: OpenCall = OpenCall("", "")
        """The call that was given arguments last."""
        self.count: int = 0
        """How many calls have begun."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._open

    def __bool__(self) -> bool:
        return bool(self._open)

    def start(self, key: Hashable, id: object, name: str, out: list[Event]) -> OpenCall:
        """Begin the call `key`."""
        if self.count >= MOST_CALLS:
            raise LimitExceeded(f"the model made more than {MOST_CALLS} tool calls in one answer")
        self.count += 1
        call = self._open[key] = OpenCall(self._unique(id), self._names.original(name))
        out.append(ToolCallStart(call.id, call.name))
        return call

    def is_wrapper(self, name: str) -> bool:
        """Return True if models invent a tool of this name to hold several calls, and none is offered."""
        return name in WRAPPERS and name not in self._names.sent.values()

    def more(self, key: Hashable, text: str, out: list[Event]) -> OpenCall | None:
        """More arguments of the call `key`; None where no such call is open."""
        call = self._open.get(key)
        if call is not None and text:
            self.last = call
            out += call.grow(text)
        return call

    def done(self, key: Hashable, out: list[Event], *, whole: str | None = None) -> None:
        """End the call `key`. `whole`: all of its arguments, where the service says them again."""
        call = self._open.get(key)
        if call is None:
            return
        arguments = call.pieces.whole()
        if whole is not None and whole != arguments:
            if whole.startswith(arguments):
                self.more(key, whole[len(arguments) :], out)
            arguments = whole
        del self._open[key]
        out.append(ToolCallDone(call.id, call.name, arguments if arguments.strip() else "{}", opaque=call.opaque))

    def whole(self, id: object, name: str, arguments: str, out: list[Event], *, opaque: Any = None) -> None:
        """Read a call that came in one piece; one of a tool that the model invented to hold several calls as those."""
        inner = unwrapped(arguments) if self.is_wrapper(name) else None
        if inner is not None:
            for inner_name, inner_arguments in inner:
                self.whole(None, self._names.sent.get(inner_name, inner_name), inner_arguments, out)
            return
        call = self.start(self, id, name, out)
        call.opaque = opaque
        self.more(self, arguments, out)
        self.done(self, out)

    @property
    def is_cut(self) -> bool:
        """Return True if a call is open whose arguments are not whole JSON."""
        return any(not is_json(call.pieces.whole()) for call in self._open.values())

    def finish(self, out: list[Event], *, cut: bool = False) -> None:
        """End all calls that are still open. `cut`: the model was stopped, so they may be half."""
        for key, call in list(self._open.items()):
            arguments = call.pieces.whole()
            if cut and not is_json(arguments):
                del self._open[key]
                out.append(ToolCallDone(call.id, call.name, arguments, truncated=True, opaque=call.opaque))
            else:
                self.done(key, out)

    def _unique(self, given: object) -> str:
        """The call's own id, or one that no other call of this answer has."""
        id = given if isinstance(given, str) else ""
        number = self._before + len(self._ids)
        while not id or id in self._ids:
            number += 1
            id = f"call_{number}"
        self._ids.add(id)
        return id
