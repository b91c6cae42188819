"""The look-up of credentials by a library that blocks, in a worker thread with a time limit.

A look-up may read files, start a program, or ask a server for temporary credentials. It runs in a thread of its own,
which all calls that need it wait for, each with its time limit; it is not interrupted. Each call that waits raises an
exception of its own, without the frames of the look-up, which contain credentials.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, Generic, NoReturn, TypeVar

from ...async_support.waiters import Waiters
from ...errors import LLMError, Timeout
from ...transport.network import IOBackend

T = TypeVar("T")

LOOKUP_SECONDS: Final = 60.0
"""The time limit of a look-up. A login service or a program of the user may take a while; a call has its own limit."""


class CredentialLookup(Generic[T]):
    """The look-ups of one kind of credentials, one at a time.

    Args:
        what: What is looked up, for the error of a look-up that takes too long: `"AWS credentials"`.
        advice: What to try then.
        thread: The name of the thread.
        find: Returns the credentials; called in the thread. An `LLMError` or `ImportError` of it is raised by each call
            that waits, with the same text.
        describe: Returns the `LLMError` for any other exception of `find`.
        seconds: The time limit of a look-up.
    """

    def __init__(
        self,
        what: str,
        advice: str,
        thread: str,
        find: Callable[[], T],
        describe: Callable[[BaseException], LLMError],
        seconds: float = LOOKUP_SECONDS,
    ) -> None:
        self._what = what
        self._advice = advice
        self._thread = thread
        self._find = find
        self._describe = describe
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: _Running[T] | None = None

    async def result(self, backend: IOBackend, limit: float | None = None) -> T:
        """Return the credentials that a look-up finds.

        Args:
            backend: The I/O of the call.
            limit: The seconds that the call has left; None is no limit.

        Raises:
            LLMError: The look-up failed.
            Timeout: It took too long.
            ImportError: The library is not installed.
        """
        seconds = self._seconds if limit is None else min(limit, self._seconds)
        with self._lock:  # one look-up for all calls
            running = self._running
            if running is None or running.is_done() or running.is_older_than(self._seconds):
                running = self._running = _Running()
                threading.Thread(target=self._run, args=(running,), name=self._thread, daemon=True).start()
        if backend.concurrent:
            import anyio

            with anyio.move_on_after(seconds):
                await running.waiters.suspend(running.is_done)
        else:
            running.waiters.block(running.is_done, seconds)
        if not running.is_done():
            raise Timeout(
                f"no {self._what} within {seconds:.3g} s. {self._advice} Nothing was sent.",
                phase="connect" if seconds == self._seconds else "total",
            )
        return running.result()

    def _run(self, running: _Running[T]) -> None:
        """Find the credentials. Runs in a thread of its own."""
        try:
            found = self._find()
            running.end(lambda: found)
        except (LLMError, ImportError) as error:
            kind, text = type(error), str(error)
            running.end(lambda: _raise(kind(text)))
        except BaseException as error:  # raised by the calls that wait: they would wait for ever otherwise
            described = self._describe(error)
            known, text = type(described), described.message
            running.end(lambda: _raise(known(text)))


class _Running(Generic[T]):
    """One look-up of credentials, which threads and tasks may wait for."""

    def __init__(self) -> None:
        self.waiters = Waiters()
        self._begun = monotonic()
        self._result: Callable[[], T] | None = None

    def is_done(self) -> bool:
        """Return True once the look-up has ended."""
        return self._result is not None

    def is_older_than(self, seconds: float) -> bool:
        """Return True if the look-up began so long ago."""
        # Its thread may not exist: a forked process has a copy of this object and not of the thread.
        return monotonic() - self._begun > seconds

    def end(self, result: Callable[[], T]) -> None:
        """End the look-up. `result` returns the credentials, or raises a new exception for each call that waits."""
        self._result = result
        self.waiters.wake()

    def result(self) -> T:
        """Return the credentials, or raise the error of the look-up."""
        assert self._result is not None
        return self._result()


def _raise(error: Exception) -> NoReturn:
    raise error
