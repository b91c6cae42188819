"""Tool calls of protocols in which each call has an id or index, a start and an end.

Such are those of Anthropic, Google, Ollama and OpenAI's Responses. Each call becomes one `ToolCallStart`, its
`ToolCallDelta`s, and one `ToolCallDone` with all of its arguments. Its id is the provider's; an id that is empty or
repeated is replaced by `call_N`, counted over all messages. A block with the index and the id of an earlier one repeats
it. Chat-completions services are less consistent: see
by_index.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from ...errors import LimitExceeded, MalformedEvent
from ...events import Event, ToolCallDelta, ToolCallDone, ToolCallStart
from ...text.text_buffer import TextBuffer
from ...values.tool_spec import tool_names
from ..base import RequestInput
from .by_index import MOST_CALLS, WRAPPERS, is_json, unwrapped


class OpenCall:
    """A tool call that has begun.

    Attributes:
        waits: Its block has ended before its arguments were complete.
        first: The call that it repeats, if its arguments are the same. Until then nothing of it is emitted.
    """

    __slots__ = ("first", "id", "name", "opaque", "pieces", "waits")

    def __init__(self, id: str, name: str) -> None:
        self.id: str = id
        self.name: str = name
        self.pieces: TextBuffer = TextBuffer()
        self.waits: bool = False
        self.first: OpenCall | None = None
        self.opaque: Mapping[str, Any] | None = None

    def add(self, text: str) -> bool:
        """Add to the arguments. Return True."""
        self.pieces.add(text)
        return True


class OpenCalls:
    """The tool calls of one response."""

    def __init__(self, request_input: RequestInput) -> None:
        self._names = tool_names(request_input.tools)
        self._before = request_input.calls_before
        self._open: dict[Hashable, OpenCall] = {}
        self._ids: set[str] = set()
        self._begun: dict[tuple[Hashable, str], OpenCall] = {}  # the calls of blocks, by index and id
        self.last: OpenCall = OpenCall("", "")
        """The call that received arguments last."""
        self.count: int = 0
        """The number of calls that have begun."""

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

    def start_block(self, key: Hashable, id: object, name: str, out: list[Event]) -> OpenCall:
        """Begin the call of the block `key`, unless its id shows that the service repeats it.

        Raises:
            MalformedEvent: A call is open as this block, and has arguments or another id.
        """
        call = self._open.get(key)
        first = self._begun.get((key, id)) if id and isinstance(id, str) else None
        if call is not None and call is first and not call.pieces:
            return call
        if call is not None and not call.waits:
            raise MalformedEvent(f"two tool calls were begun as block {key!r}. Send the request again.")
        self.done(key, out)
        if first is not None:
            repeated = self._open[key] = OpenCall(first.id, name)
            repeated.first = first
            return repeated
        call = self.start(key, id, name, out)
        if isinstance(id, str):
            self._begun[key, id] = call
        return call

    def is_wrapper(self, name: str) -> bool:
        """Return True for the name of a tool that models invent to wrap several calls, and that is not offered."""
        return name in WRAPPERS and name not in self._names.sent.values()

    def more(self, key: Hashable, text: str, out: list[Event]) -> OpenCall | None:
        """Add to the arguments of the call `key`. Return None if no such call is open."""
        call = self._open.get(key)
        if call is not None and text:
            call.add(text)
            if call.first is None:
                self.last = call
                out.append(ToolCallDelta(call.id, text))
        return call

    def done(self, key: Hashable, out: list[Event], *, whole: str | None = None) -> None:
        """End the call `key`. `whole` is all of its arguments, if the provider repeats them."""
        call = self._open.get(key)
        if call is None:
            return
        arguments = call.pieces.whole()
        if whole is not None and whole != arguments:
            if whole.startswith(arguments):
                self.more(key, whole[len(arguments) :], out)
            arguments = whole
        del self._open[key]
        if call.first is not None:
            if arguments not in ("", call.first.pieces.whole()):
                self.whole(call.id, call.name, arguments, out, opaque=call.opaque)
            return
        out.append(ToolCallDone(call.id, call.name, arguments if arguments.strip() else "{}", opaque=call.opaque))

    def whole(self, id: object, name: str, arguments: str, out: list[Event], *, opaque: Any = None) -> None:
        """Read a call that arrived complete; an invented wrapper is read as the calls in it."""
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
        """True if a call is open whose arguments are not complete JSON."""
        return any(not is_json(call.pieces.whole()) for call in self._open.values())

    def finish(self, out: list[Event], *, cut: bool = False) -> None:
        """End all open calls. `cut`: the model was stopped by a limit, so they may be incomplete."""
        for key, call in list(self._open.items()):
            arguments = call.pieces.whole()
            if cut and not is_json(arguments) and call.first is None:
                del self._open[key]
                out.append(ToolCallDone(call.id, call.name, arguments, truncated=True, opaque=call.opaque))
            else:
                self.done(key, out)

    def _unique(self, given: object) -> str:
        """Return the call's own id, or a new one if it is missing or used by another call of this response."""
        id = given if isinstance(given, str) else ""
        number = self._before + len(self._ids)
        while not id or id in self._ids:
            number += 1
            id = f"call_{number}"
        self._ids.add(id)
        return id
