"""A line on the terminal while the program waits: a spinner, what it waits for, and the seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Event, Thread
from typing import Final, Self, TextIO, TypeVar

from ..text.live_display import can_encode, can_redraw
from .output import fit

T = TypeVar("T")

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_INTERVAL: Final = 0.1
_ERASE: Final = "\r\x1b[K"


class WaitingLine:
    """A context manager that shows the line until `stop()`, or the end of the block.

    Nothing is written where `stream` is no terminal, cannot write the characters, or is one that cannot erase a line
    (`TERM=dumb`).

    Args:
        label: What the program waits for: `Waiting for qwen3:8b`, for example.
        stream: The terminal.
        clock: Returns the time in seconds.
    """

    def __init__(self, label: str, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._stream, self._clock = label, stream, clock
        self._over = Event()
        self._thread: Thread | None = None

    def stop(self) -> None:
        """Erase the line. Further calls do nothing."""
        self._over.set()
        if (thread := self._thread) is not None:
            self._thread = None
            thread.join()
            self._write(_ERASE)

    def until_first(self, values: Iterable[T]) -> Iterator[T]:
        """Yield the values; the line ends before the first one, or after the last."""
        for value in values:
            self.stop()
            yield value
        self.stop()

    def __enter__(self) -> Self:
        if can_redraw(self._stream) and can_encode(self._stream.encoding, _FRAMES):
            self._thread = Thread(target=self._draw, name="toolcast-waiting-line", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _draw(self) -> None:
        began, frame = self._clock(), 0
        while not self._over.wait(_INTERVAL):
            text = f"{self._label} · {int(self._clock() - began)} s · Ctrl-C to stop"
            self._write(f"{_ERASE}{_FRAMES[frame % len(_FRAMES)]} {fit(text, _width(self._stream) - 3)}")
            frame += 1

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self._over.set()


def _width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
