"""The cancellation of a blocking call by another thread.

A thread that waits for the network wakes up when its socket is shut down, but not when it is closed. So the caller
enters a `CancelHandle`, and the code that owns the socket registers its shutdown there (`register`), from the moment
the socket is connected until the connection is released. The handle is passed in a context variable, so that it also
passes through a `Network` of the user's own, which may wrap a built-in one.

Some waits cannot be cancelled, and end by their time limit: a DNS lookup, a connection that is being established, the
wait for a free connection, the sleep of a user's own clock, and with a user's own client the wait for the response
headers on a pooled connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from threading import TIMEOUT_MAX, Lock
from typing import Any, Final, TypeAlias

Cut: TypeAlias = Callable[[], object]

_current: ContextVar[CancelHandle | None] = ContextVar("handle", default=None)


current_handle: Final = _current.get  # no function around it, as every request calls it
"""Return the handle of the current call, or None."""


class CancelHandle:
    """The handle to cancel one blocking call, across its sockets and sleeps. `broken` is True once it was cancelled."""

    __slots__ = ("_before", "_cut", "_lock", "broken")

    _before: Token[CancelHandle | None]

    def __init__(self) -> None:
        self.broken: bool = False
        self._cut: Cut | None = None
        self._lock = Lock()

    def break_off(self) -> bool:
        """End the current wait and all later ones. Thread-safe and idempotent.

        Return False the first time if no wait was registered, as in the reads of a user's network.
        """
        with self._lock:
            first, self.broken = not self.broken, True
            cut, self._cut = self._cut, None
            # Called under the lock: after `unregister` has returned, the socket may be in use by another call.
            if cut is not None:
                cut()
        return cut is not None or not first

    def register(self, cut: Cut) -> None:
        """Register `cut()` to end the current wait. It is called at once if the call was cancelled before."""
        with self._lock:
            if not self.broken:
                self._cut = cut
                return
            cut()  # cancelled between two waits: the next one must not begin

    def unregister(self) -> bool:
        """Unregister the current wait, as its socket may serve another call. Return False if it was shut down."""
        with self._lock:
            self._cut = None
            return not self.broken

    def sleep(self, seconds: float) -> None:
        """Block this thread for `seconds`, or until the call is cancelled."""
        # A lock in place of an Event, which has a condition and two locks: another thread may release it.
        woken = Lock()
        woken.acquire()
        self.register(woken.release)
        woken.acquire(timeout=min(seconds, TIMEOUT_MAX))
        self.unregister()

    def __enter__(self) -> None:
        """Make this the handle of the calls in the `with` block."""
        self._before = _current.set(self)

    def __exit__(self, *raised: object) -> None:
        _current.reset(self._before)


def shut(stream: Any) -> None:
    """Shut down the socket of `stream`, a network stream of httpcore, so that a blocked read or write ends."""
    import socket

    connection = None if stream is None else stream.get_extra_info("socket")
    if isinstance(connection, socket.socket):
        # Not SSLSocket.shutdown, which drops the TLS session that the waiting thread is using.
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
