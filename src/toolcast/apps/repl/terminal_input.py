"""The echo of typed characters, which is off while an answer is drawn so that they do not appear inside it.

Meanwhile single keys can be read, before Enter, and the terminal marks what is pasted. Typed text is not lost: the
terminal buffers it for the next read. The previous setting is restored however the process ends.
"""

from __future__ import annotations

import atexit
from importlib import import_module
from typing import Any, TextIO

try:
    termios: Any = import_module("termios")
except ImportError:  # Windows, whose console echoes only during a read
    termios = None


class TerminalEcho:
    """The echo setting of the terminal `stdin`, whose output is `stdout`."""

    def __init__(self, stdin: TextIO, stdout: TextIO) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._before: list[Any] | None = None

    def disable(self) -> None:
        """Stop echoing typed characters, and let single keys be read. Ctrl-C keeps its effect."""
        if self._before is not None or termios is None or not self._stdin.isatty():
            return
        self._before = before = termios.tcgetattr(self._stdin)
        silent = before.copy()
        silent[0] &= ~termios.ICRNL  # Enter and Ctrl-J are two keys
        silent[3] &= ~(termios.ECHO | termios.ICANON)
        silent[3] |= termios.NOFLSH  # or Ctrl-C would discard text that was typed before it
        atexit.register(self.restore)
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, silent)
        self._mark_pastes("h")

    def restore(self) -> None:
        """Restore the previous setting."""
        if self._before is not None and termios is not None:
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._before)
            self._before = None
            atexit.unregister(self.restore)
            self._mark_pastes("l")

    def _mark_pastes(self, switch: str) -> None:
        """Switch the marks around pasted text, "bracketed paste", on or off."""
        self._stdout.write(f"\x1b[?2004{switch}")
        self._stdout.flush()
