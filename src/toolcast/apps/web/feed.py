"""`Feed`: the events of a chat, numbered and encoded once, for any number of readers.

A reader begins with a `snapshot` of the whole chat and then receives every change, and the changed rows of the list
of chats. All readers share one log and have
positions of their own, so that a slow reader costs nothing and does not delay others. The log is bounded: a reader that
has fallen behind its start receives a new snapshot. A reader that reconnects sends the id of its last event and
continues after it; ids begin with a random prefix of the feed, so that an id of an earlier process is recognized.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from secrets import token_hex
from typing import Any, Final

from anyio import Event, move_on_after
from pydantic_core import to_jsonable_python

from ...chat.machine import AsyncChatMachine, ChatChange
from .chat_view import ChatView

LOG_LIMIT: Final = 4_000_000
KEEP_ALIVE: Final = 15.0
_BATCH_SIZE: Final = 64
_MAX_DIGITS: Final = 20


class Feed:
    """The server-sent events of one chat.

    Args:
        machine: The chat.
        view: The context of the chat as the page shows it.
        limit: The size of the log in bytes.
        keep_alive: Seconds without events after which a comment is sent.
    """

    def __init__(
        self,
        machine: AsyncChatMachine,
        view: ChatView | None = None,
        *,
        limit: int = LOG_LIMIT,
        keep_alive: float = KEEP_ALIVE,
    ) -> None:
        self.view: ChatView = view or ChatView(machine)
        self._machine = machine
        self._limit = limit
        self._keep_alive = keep_alive
        self._name = token_hex(4)
        self._log = deque[bytes]()
        self._size = 0
        self._next = 1
        self._changed = Event()
        self._closed = False
        self._unsubscribe = machine.subscribe(self._append)

    @property
    def size(self) -> int:
        """The size of the log in bytes."""
        return self._size

    def close(self) -> None:
        """End the streams of all readers."""
        self._closed = True
        self._unsubscribe()
        self._changed.set()

    async def read(self, last: str | None = None) -> AsyncIterator[bytes]:
        """Yield the events after the one with the id `last`, as they occur.

        A snapshot comes first without `last`, or if the log no longer has the next event.
        """
        yield b"retry: 1000\n\n"
        position = self._position_after(last)
        while not self._closed:
            changed = self._changed
            if position < self._first:
                position = self._next
                yield self._snapshot()
            elif position < self._next:
                events = self._batch(position)
                position += len(events)
                yield b"".join(events)
            else:
                with move_on_after(self._keep_alive) as waited:
                    await changed.wait()
                if waited.cancelled_caught:
                    yield b": still here\n\n"

    @property
    def _first(self) -> int:
        return self._next - len(self._log)

    def _position_after(self, last: str | None) -> int:
        """Return the number of the event after `last`, or 0 if `last` is no id of this feed."""
        name, _, number = (last or "").rpartition("-")
        is_valid = name == self._name and number.isdecimal() and len(number) < _MAX_DIGITS and int(number) < self._next
        return int(number) + 1 if is_valid else 0

    def _batch(self, position: int) -> list[bytes]:
        """Return a batch of events that begins with the number `at`: at least one."""
        begin = position - self._first
        return [self._log[index] for index in range(begin, min(begin + _BATCH_SIZE, len(self._log)))]

    def _snapshot(self) -> bytes:
        """Return the current state of the whole chat as an event."""
        return _encode_event("snapshot", f"{self._name}-{self._next - 1}", self.view.snapshot())

    def publish(self) -> None:
        """Append a change of the fields that only the page has, such as the title, if there is any."""
        if changes := self.view.own_changes():
            state = self._machine.state
            event = {"type": "DETAILS"}
            self._put("change", {"event": event, "state": state, "path": [state], "ignored": False, "changes": changes})

    def announce(self, row: Mapping[str, Any]) -> None:
        """Append a row of the list of chats that has changed, of this chat or another."""
        self._put("chat", row)

    def _append(self, change: ChatChange) -> None:
        self._put("change", self.view.change(change))

    def _put(self, name: str, data: Any) -> None:
        event = _encode_event(name, f"{self._name}-{self._next}", data)
        self._log.append(event)
        self._next += 1
        self._size += len(event)
        while self._size > self._limit:
            self._size -= len(self._log.popleft())
        changed, self._changed = self._changed, Event()
        changed.set()


def _encode_event(name: str, id: str, data: Any) -> bytes:
    return f"event: {name}\nid: {id}\ndata: {_json(data)}\n\n".encode()


def _json(data: Any) -> str:
    """Return `data` as one line of ASCII: a lone surrogate, which a model may write, has no UTF-8 encoding."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError:  # there is an infinity in it, or no number: a browser's JSON has none
        return json.dumps(to_jsonable_python(data, inf_nan_mode="null"), separators=(",", ":"))
