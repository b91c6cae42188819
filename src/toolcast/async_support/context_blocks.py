"""`ContextBlocks`: a value for the code inside a `with` block, in its context and in the threads around it.

It is found by a context variable, so that concurrent tests have values of their own. A thread of an executor, and a
task that is older than the block, have another context: they use the one block that is open elsewhere in the process.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Generic, TypeVar

from ..errors import ToolcastError

T = TypeVar("T")


class _Block(Generic[T]):
    """A block with a value. `outer` is the block around it in the same context."""

    __slots__ = ("open", "outer", "passed_on", "value")

    def __init__(self, value: T, outer: _Block[T] | None) -> None:
        self.value: T = value
        self.outer: _Block[T] | None = outer
        self.open: bool = True
        self.passed_on: bool = True


class ContextBlocks(Generic[T]):
    """The blocks of one kind.

    Args:
        name: The name of the context variable.
        one: The block in an error, for example "the recording".
        several: The blocks in an error, for example "recordings".
    """

    def __init__(self, name: str, one: str, several: str) -> None:
        self._here: ContextVar[_Block[T] | None] = ContextVar(name, default=None)
        self._blocks: list[_Block[T]] = []  # those that are open, in the order in which they began
        self._fallbacks: list[T] = []
        self._lock = Lock()
        self._one = one
        self._several = several

    def current(self) -> T | None:
        """Return the value of this context, or else of the process. Raise `ToolcastError` if that is unclear."""
        block = self._here.get()
        if block is None and not self._blocks and not self._fallbacks:
            return None
        while block is not None and not block.open:
            if block.passed_on:
                raise ToolcastError(
                    f"a request was made after {self._one} around it had ended: wait for the background work inside "
                    "the block. Nothing was sent."
                )
            block = block.outer
        return block.value if block is not None else self._elsewhere()

    def _elsewhere(self) -> T | None:
        """Return the value for a context that has none."""
        with self._lock:
            around = {id(block.outer) for block in self._blocks}
            found = [block.value for block in self._blocks if id(block) not in around]
            if len(found) < 2:
                return found[0] if found else next(reversed(self._fallbacks), None)
        raise ToolcastError(
            f"{len(found)} {self._several} are open in this process, and this thread or task was started outside of "
            "them: run it in a copy of the context (contextvars.copy_context().run). Nothing was sent."
        )

    @contextmanager
    def block(self, value: T) -> Generator[None]:
        """Set the value of the block: in this thread or task, and in threads and tasks without another."""
        block = _Block(value, self._here.get())
        token = self._here.set(block)
        with self._lock:
            self._blocks.append(block)
        try:
            yield
        finally:
            with self._lock:
                self._blocks.remove(block)
            try:
                self._here.reset(token)
            except ValueError:
                # A fixture whose two halves run in different contexts; in the first one the block stays set.
                block.passed_on = False
            block.open = False

    @contextmanager
    def by_default(self, value: T) -> Generator[None]:
        """Set the value of the process, for all code that is not inside a `block`."""
        with self._lock:
            self._fallbacks.append(value)
        try:
            yield
        finally:
            with self._lock:  # by identity: the value may compare as it likes
                del self._fallbacks[max(at for at, each in enumerate(self._fallbacks) if each is value)]
