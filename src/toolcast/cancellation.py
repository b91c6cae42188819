"""Whether something was cancelled, and what is to happen at once when it is.

A turn has one, each tool of it sees it, and what a tool starts (a sub-agent for example) has one whose parent it
is. `cancel()` may come from any thread; what was registered with `then` runs in that thread, once.

There is no lock, because `cancel()` may also come from a signal or a garbage collection, in the middle of anything
here. Who registers a call looks at the flag afterwards, who cancels raises it before: so one of the two sees the
other, and whoever takes a call out of the dict, which is one atomic step, is the one to make it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress

Callback = Callable[[], object]


class Cancellation:
    """A flag that is raised once, for itself and for all below it."""

    __slots__ = ("__weakref__", "_then", "cancelled", "forget_parent")

    def __init__(self, parent: Cancellation | None = None) -> None:
        self.cancelled: bool = False
        self._then: dict[object, Callback] = {}
        self.forget_parent: Callback = _nothing if parent is None else parent.then(self.cancel)

    def cancel(self) -> None:
        """Raise the flag, and have done what was registered, in its order. Harmless when repeated."""
        self.cancelled = True
        if self._then:
            self._make_calls()

    def then(self, call: Callback) -> Callback:
        """Have `call` made when this is cancelled: at once, if it is already. Returns what takes that back."""
        key = object()
        self._then[key] = call
        if self.cancelled:
            self._make_calls()
        return lambda: self._then.pop(key, None)

    def _make_calls(self) -> None:
        """Make all calls, also those behind one that raises. The last is taken out first, and made last."""
        with ExitStack() as calls, suppress(KeyError):
            while True:
                calls.callback(self._then.popitem()[1])


def _nothing() -> None: ...
