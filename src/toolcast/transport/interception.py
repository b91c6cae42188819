"""Interceptors of requests: recordings, replays, and what blocks requests during tests.

`intercept` puts an interceptor in place for a block. It is found by a context variable, so that concurrent tests have
interceptors of their own. A thread of an executor, and a task that is older than the block, have another context: they
use the one interceptor that is in place elsewhere in the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, Protocol

from ..errors import ToolcastError
from ..http_request import HTTPRequest


class Interceptor(Protocol):
    """The receiver of requests in place of the `Network` that they are for, which it may call.

    `skips_waits` is True if it never calls one, so that waits between requests have no purpose.
    """

    @property
    def skips_waits(self) -> bool: ...

    def open(self, network: Any, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        """Return the `Response` to `request`; see `Network.open`."""
        ...

    def aopen(self, network: Any, request: HTTPRequest, *, connect: float | None, read: float | None) -> Awaitable[Any]:
        """Return the `AsyncResponse` to `request`; see `Network.aopen`."""
        ...


class _Block:
    """A block of `intercept`. `outer` is the block around it in the same context."""

    __slots__ = ("interceptor", "open", "outer", "passed_on")

    def __init__(self, interceptor: Interceptor, outer: _Block | None) -> None:
        self.interceptor: Interceptor = interceptor
        self.outer: _Block | None = outer
        self.open: bool = True
        self.passed_on: bool = True


_here: ContextVar[_Block | None] = ContextVar("toolcast_interceptor", default=None)
_blocks: list[_Block] = []  # those that are open, in the order in which they began
_fallbacks: list[Interceptor] = []
_lock = Lock()


def interceptor() -> Interceptor | None:
    """Return the interceptor of the current context, or of the process. Raise `ToolcastError` if that is unclear."""
    block = _here.get()
    if block is None and not _blocks and not _fallbacks:
        return None
    while block is not None and not block.open:
        if block.passed_on:
            raise ToolcastError(
                "a request was made after the recording (or other interception) around it had ended: wait for the "
                "background work inside the block. Nothing was sent."
            )
        block = block.outer
    return block.interceptor if block is not None else _elsewhere()


def _elsewhere() -> Interceptor | None:
    """Return the interceptor for a context that has none."""
    with _lock:
        around = {id(block.outer) for block in _blocks}
        found = [block.interceptor for block in _blocks if id(block) not in around]
        if len(found) < 2:
            return found[0] if found else next(reversed(_fallbacks), None)
    raise ToolcastError(
        f"{len(found)} recordings (or other interceptions) are open in this process, and this thread or task was "
        "started outside of them: run it in a copy of the context (contextvars.copy_context().run). Nothing was sent."
    )


@contextmanager
def intercept(new: Interceptor) -> Generator[None]:
    """Pass every request of the block to `new`: of this thread or task, and of threads and tasks without another."""
    block = _Block(new, _here.get())
    token = _here.set(block)
    with _lock:
        _blocks.append(block)
    try:
        yield
    finally:
        with _lock:
            _blocks.remove(block)
        try:
            _here.reset(token)
        except ValueError:
            # A fixture whose two halves run in different contexts; in the first one the block stays set.
            block.passed_on = False
        block.open = False


@contextmanager
def intercept_by_default(new: Interceptor) -> Generator[None]:
    """Pass every request of this process to `new`, except those inside a block of `intercept`."""
    _fallbacks.append(new)
    try:
        yield
    finally:
        _fallbacks.remove(new)
