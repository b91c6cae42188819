"""`Feed`: what happens to a chat, numbered and written down once, for any number of readers.

A reader begins with a `snapshot` of the whole chat, and then gets every change. All read the same log, each at its
own pace, so that a slow one holds up nobody and costs nothing. The log is bounded: whom it has left behind is given a
new snapshot. A reader that comes back says what it has had last, and goes on behind it; the number of a feed's events
begins with a word that no other feed has, so that one of an earlier process is not mistaken for it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from secrets import token_hex
from typing import Any, Final

from anyio import Event, move_on_after
from pydantic_core import to_jsonable_python

from ...chat.context import ChatContext
from ...chat.events import StreamChunk, ToolCallProgress
from ...chat.machine import AsyncChatMachine, ChatChange

LOG_LIMIT: Final = 4_000_000
KEEP_ALIVE: Final = 15.0
_AT_ONCE: Final = 64
_DIGITS: Final = 20
_NEWS: Final = (StreamChunk, ToolCallProgress)
"""The events that say what no field of the context does; of others the page needs to know the type."""


class Feed:
    """The server-sent events of one chat.

    `limit` is how many bytes of them are kept; every `keep_alive` seconds a reader hears that the feed is still there.
    """

    def __init__(self, machine: AsyncChatMachine, *, limit: int = LOG_LIMIT, keep_alive: float = KEEP_ALIVE) -> None:
        self._machine = machine
        self._limit = limit
        self._keep_alive = keep_alive
        self._name = token_hex(4)
        self._log = deque[bytes]()
        self._size = 0
        self._next = 1
        self._news = Event()
        self._closed = False
        self._leave = machine.subscribe(self._note)

    def close(self) -> None:
        """End all readers."""
        self._closed = True
        self._leave()
        self._news.set()

    async def read(self, last: str | None = None) -> AsyncIterator[bytes]:
        """The events behind the one with the id `last`, as they come; without it, or too late, a snapshot first."""
        yield b"retry: 1000\n\n"
        at = self._place(last)
        while not self._closed:
            news = self._news
            if at < self._first:
                at = self._next
                yield self._snapshot()
            elif at < self._next:
                pieces = self._from(at)
                at += len(pieces)
                yield b"".join(pieces)
            else:
                with move_on_after(self._keep_alive) as waited:
                    await news.wait()
                if waited.cancelled_caught:
                    yield b": still here\n\n"

    @property
    def _first(self) -> int:
        return self._next - len(self._log)

    def _place(self, last: str | None) -> int:
        """The number of the event that follows `last`; 0 where that is not known."""
        name, _, number = (last or "").rpartition("-")
        known = name == self._name and number.isdecimal() and len(number) < _DIGITS and int(number) < self._next
        return int(number) + 1 if known else 0

    def _from(self, at: int) -> list[bytes]:
        """Some of the events from the number `at` on, and one in any case."""
        begin = at - self._first
        return [self._log[place] for place in range(begin, min(begin + _AT_ONCE, len(self._log)))]

    def _snapshot(self) -> bytes:
        """The whole chat as it is now."""
        machine = self._machine
        data = {"state": machine.state, "context": _with_fingerprints(machine.context.to_dict(), machine.context)}
        return _written("snapshot", f"{self._name}-{self._next - 1}", data)

    def _note(self, change: ChatChange) -> None:
        data = change.to_dict()
        if not isinstance(change.event, _NEWS):
            data["event"] = {"type": change.event.type}
        data["changes"] = _with_fingerprints(data["changes"], change.context)
        event = _written("change", f"{self._name}-{self._next}", data)
        self._log.append(event)
        self._next += 1
        self._size += len(event)
        while self._size > self._limit:
            self._size -= len(self._log.popleft())
        news, self._news = self._news, Event()
        news.set()


def _with_fingerprints(fields: Mapping[str, Any], context: ChatContext) -> dict[str, Any]:
    """`fields` of the context, with what binds an answer to a call that waits for one."""
    if "pending" not in fields:
        return dict(fields)
    asked = [request.to_dict() | {"fingerprint": request.fingerprint} for request in context.pending]
    return {**fields, "pending": asked}


def _written(name: str, id: str, data: Any) -> bytes:
    return f"event: {name}\nid: {id}\ndata: {_json(data)}\n\n".encode()


def _json(data: Any) -> str:
    """`data` in one line of ASCII: half a surrogate pair, which a model may say, has no UTF-8."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError:  # there is an infinity in it, or no number: a browser's JSON has none
        return json.dumps(to_jsonable_python(data, inf_nan_mode="null"), separators=(",", ":"))
