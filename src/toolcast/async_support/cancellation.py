"""`Cancellation`: a flag with callbacks, which is cancelled from any thread.

A turn has one, which its tools see. A sub-agent that a tool starts has its own, with the turn's as its parent. The
callbacks registered with `then` run once, in the thread that calls `cancel()`.

There is no lock, because a signal handler or a garbage collection may call `cancel()` in the middle of any method here.
`then` reads the flag after it has registered, `cancel` sets it before it reads the callbacks: so one of the two sees
the other's change. Taking a callback out of the dict is one atomic step, so each runs once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress

Callback = Callable[[], object]


class Cancellation:
    """A flag that is set once, for itself and for its children."""

    __slots__ = ("__weakref__", "_then", "cancelled", "forget_parent")

    def __init__(self, parent: Cancellation | None = None) -> None:
        self.cancelled: bool = False
        self._then: dict[object, Callback] = {}
        self.forget_parent: Callback = _nothing if parent is None else parent.then(self.cancel)

    def cancel(self) -> None:
        """Set the flag and run the callbacks in the order of their registration. Idempotent."""
        self.cancelled = True
        if self._then:
            self._make_calls()

    def then(self, call: Callback) -> Callback:
        """Register `call`, or run it now if this is cancelled already. Return a function that unregisters it."""
        key = object()
        self._then[key] = call
        if self.cancelled:
            self._make_calls()
        return lambda: self._then.pop(key, None)

    def _make_calls(self) -> None:
        """Run all callbacks, even if one raises. The stack reverses the order of `popitem`."""
        with ExitStack() as calls, suppress(KeyError):
            while True:
                calls.callback(self._then.popitem()[1])


def _nothing() -> None: ...
