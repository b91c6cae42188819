"""Whether something was cancelled, and what is to happen at once when it is.

A turn has one, each tool of it sees it, and what a tool starts (a sub-agent for example) has one whose parent it
is. `cancel()` may come from any thread; what was registered with `then` runs in that thread, once.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

Then = Callable[[], object]


class Cancellation:
    """A flag that is raised once, for itself and for all below it."""

    __slots__ = ("__weakref__", "_lock", "_then", "cancelled", "forget_parent")

    def __init__(self, parent: Cancellation | None = None) -> None:
        self.cancelled: bool = False
        self._lock = Lock()
        self._then: dict[object, Then] = {}
        self.forget_parent: Then = _nothing if parent is None else parent.then(self.cancel)

    def cancel(self) -> None:
        """Raise the flag, and have done what was registered. Harmless when repeated."""
        with self._lock:
            if self.cancelled:
                return
            self.cancelled = True
            waiting = list(self._then.values())
            self._then.clear()
        for call in waiting:
            call()

    def then(self, call: Then) -> Then:
        """Have `call` made when this is cancelled: at once, if it is already. Returns what takes that back."""
        with self._lock:
            if not self.cancelled:
                key = object()
                self._then[key] = call
                return lambda: self._then.pop(key, None)
        call()
        return _nothing


def _nothing() -> None: ...
