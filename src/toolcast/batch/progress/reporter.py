"""`ProgressReporter`: draws the progress of a job at the pace of its display, in a thread of its own.

A thread, as the progress has to move while the caller and all requests wait, and in any event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Lock, RLock, Thread, current_thread
from typing import Final

from .displays import LogDisplay, ProgressDisplay
from .job_progress import JobProgress

logger: Final = logging.getLogger("toolcast")

_terminal = Lock()
"""Taken by the job that is drawn: a second one at a time would draw over its lines, so its progress is logged."""


class ProgressReporter:
    """The display of one running job.

    Args:
        account: The counts of the job.
        display: The place where they are shown; None shows nothing but messages.
        now: The clock of the job.
        wait: Waits for so many seconds and returns True if the job has ended meanwhile; for tests.
    """

    def __init__(
        self,
        account: JobProgress,
        display: ProgressDisplay | None,
        now: Callable[[], float],
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._account = account
        self._display = display
        self._now = now
        self._stopped = Event()
        self._wait = wait or self._stopped.wait
        # The thread draws while another writes a message. Reentrant: a signal handler may write one during `stop`.
        self._drawing = RLock()
        self._shown = False
        self._owns_terminal = False
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start drawing, if there is a display."""
        display = self._display
        if display is None:
            return
        if display.exclusive:
            self._owns_terminal = _terminal.acquire(blocking=False)
            if not self._owns_terminal:
                self._display = display = LogDisplay()
        self._shown = display.shows_short_jobs
        self._thread = Thread(target=self._run, args=(display,), name="toolcast-batch-progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show the end of the job, if its progress was shown, and stop drawing. Idempotent."""
        self._stopped.set()
        thread, self._thread = self._thread, None
        # An abandoned job may end in a garbage collection, which runs in any thread.
        if thread is not None and thread is not current_thread():
            thread.join()
        with self._drawing:
            display = self._display
            if display is not None and self._shown:
                self._try(lambda: display.close(self._account.snapshot(self._now())))
            self._display = None
            if self._owns_terminal:
                self._owns_terminal = False
                _terminal.release()

    def message(self, text: str) -> None:
        """Show a line of text beside the progress; without a display as a warning in the log."""
        with self._drawing:
            display: ProgressDisplay = self._display or LogDisplay()
            self._try(lambda: display.message(text))

    def _run(self, display: ProgressDisplay) -> None:
        ended = self._wait(display.delay)
        while not ended and self._display is not None:
            with self._drawing:
                self._shown = True
                self._try(lambda: display.draw(self._account.snapshot(self._now())))
            ended = self._wait(display.every)

    def _try(self, show: Callable[[], object]) -> None:
        try:
            show()
        except Exception as error:  # a user's function, or a terminal that is gone: the job goes on without it
            self._display = None
            logger.warning("batch job: its progress is no longer shown (%s: %s)", type(error).__name__, error)
