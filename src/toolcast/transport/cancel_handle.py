"""The line that a blocking call hangs on, and how another thread cuts it.

A thread that waits for the network hears nothing. What wakes it is that its socket is shut down; closing it does not.
So whoever opens a request lays a `CancelHandle`, and whoever owns the socket lets the line reach it, for as long as it
is the socket of that request: from the moment it is connected until the connection is given back. The line is handed
down in a context variable, so that it passes a network of the user's own, perhaps wrapped around ours, unseen.

What cannot be cut is left to its time limit: the look-up of a name, a connection that is just being made, the wait for
a free one, a sleep of a clock of the user's own, and with a client of theirs the wait for headers on a kept connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from threading import TIMEOUT_MAX, Lock
from typing import Any, TypeAlias

Cut: TypeAlias = Callable[[], object]

_laid: ContextVar[CancelHandle | None] = ContextVar("line", default=None)


def line_here() -> CancelHandle | None:
    """The line of the call that is made here, if it has one."""
    return _laid.get()


class CancelHandle:
    """What one call hangs on, one socket or sleep after the other. `broken`: it was cut, and holds nothing any more."""

    __slots__ = ("_before", "_cut", "_lock", "broken")

    _before: Token[CancelHandle | None]

    def __init__(self) -> None:
        self.broken: bool = False
        self._cut: Cut | None = None
        self._lock = Lock()

    def break_off(self) -> None:
        """End what is waited for, and all that would be. From any thread; harmless when repeated."""
        with self._lock:
            self.broken = True
            cut, self._cut = self._cut, None
            if cut is not None:
                cut()

    def reach(self, cut: Cut) -> None:
        """From now on `cut()` ends what is waited for. A broken line is cut at once."""
        with self._lock:
            if not self.broken:
                self._cut = cut
                return
            cut()

    def free(self) -> bool:
        """Let go: what was reached may serve another call. Gives whether it still can."""
        with self._lock:
            self._cut = None
            return not self.broken

    def sleep(self, seconds: float) -> None:
        """Wait, and let the whole thread wait, until the line is broken."""
        woken = Lock()
        woken.acquire()
        self.reach(woken.release)
        woken.acquire(timeout=min(seconds, TIMEOUT_MAX))
        self.free()

    def __enter__(self) -> None:
        """In here whatever is opened hangs on this line."""
        self._before = _laid.set(self)

    def __exit__(self, *raised: object) -> None:
        _laid.reset(self._before)


def shut(stream: Any) -> None:
    """Have whoever waits for `stream`, a network stream of httpcore, find its end now."""
    import socket

    connection = None if stream is None else stream.get_extra_info("socket")
    if isinstance(connection, socket.socket):
        # The socket's own method: that of an SSL socket forgets the session that the waiting thread is using.
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
