"""Whether the terminal shows what is typed: not while an answer is drawn, in the middle of which it would stand.

It is not lost: the terminal keeps it for whoever reads next. However the process ends, the terminal is as it was.
"""

from __future__ import annotations

import atexit
from importlib import import_module
from typing import Any, TextIO

try:
    termios: Any = import_module("termios")
except ImportError:  # not on Windows, where a console shows nothing that nobody reads
    termios = None


class Keyboard:
    """The terminal that `stdin` is, which shows what is typed, or not."""

    def __init__(self, stdin: TextIO) -> None:
        self._stdin = stdin
        self._before: list[Any] | None = None

    def silence(self) -> None:
        """Show nothing of what is typed. Ctrl-C does what it does."""
        if self._before is not None or termios is None or not self._stdin.isatty():
            return
        self._before = before = termios.tcgetattr(self._stdin)
        silent = before.copy()
        silent[3] &= ~termios.ECHO
        silent[3] |= termios.NOFLSH  # or Ctrl-C would throw away what was typed before it
        atexit.register(self.listen)
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, silent)

    def listen(self) -> None:
        """Be as it was."""
        if self._before is not None and termios is not None:
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._before)
            self._before = None
            atexit.unregister(self.listen)
