"""`toolcast chat` in a pseudo-terminal, driven by keys, with the screen as its output."""

from __future__ import annotations

import os
import pty
import re
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pexpect
from pexpect.fdpexpect import fdspawn

from support import warm_python
from support.terminal_emulator import Emulated

PATIENCE = 30.0
STATUS = re.compile(r"\S+ · mode (plan|build|verify|auto)( · |$)")
PROGRAM = "import sys; from toolcast.apps.cli import main; sys.exit(main())"
ENTER, ESCAPE, CTRL_C, CTRL_D, CTRL_O, TAB = "\r", "\x1b", "\x03", "\x04", "\x0f", "\t"


class Driven(Emulated):
    """The program in its terminal. `raw` is all that it wrote."""

    def __init__(self, command: list[str], env: Mapping[str, str], columns: int, rows: int) -> None:
        super().__init__(columns, rows, newline=False)
        self.raw = ""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self._process = warm_python.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, preexec_fn=warm_python.take_terminal
        )
        os.close(theirs)
        self._child: fdspawn[str] = fdspawn(ours, encoding="utf-8")
        self._child.delaybeforesend = None

    @property
    def lines(self) -> list[str]:
        """All lines from the first one, without the status line below the prompt."""
        return self._all_lines[:-1] if self.status else self._all_lines

    @property
    def status(self) -> str:
        """The status line below the prompt; empty if there is none."""
        last = "".join(self._all_lines[-1:])
        return last if STATUS.match(last) else ""

    @property
    def _all_lines(self) -> list[str]:
        return super().lines

    def type(self, keys: str) -> None:
        """Press keys."""
        self._child.send(keys)

    def until(self, *wanted: str, lines: int = 0) -> None:
        """Wait until all of `wanted` is on the screen, below the first `lines` lines."""
        latest = time.monotonic() + PATIENCE
        while not all(words in "\n".join(self._all_lines[lines:]) for words in wanted):
            assert time.monotonic() < latest, f"{wanted} did not come:\n{self.text}"
            assert self._read(), f"it has ended without {wanted}:\n{self.text}"

    def at_prompt(self, lines: int = 0) -> int:
        """Wait for the prompt below the first `lines` lines. Return the number of lines above it."""
        latest = time.monotonic() + PATIENCE
        while self.lines[lines:][-1:] != [">"]:
            assert time.monotonic() < latest, f"no prompt came:\n{self.text}"
            assert self._read(), f"it has ended:\n{self.text}"
        return len(self.lines)

    def submit(self, text: str) -> int:
        """Type a line, and wait for the next prompt. Return the number of lines above it."""
        before = self.at_prompt()
        self.type(f"{text}{ENTER}")
        return self.at_prompt(before)

    def resize(self, columns: int, rows: int) -> None:
        """Resize the terminal; the program gets SIGWINCH."""
        super().resize(columns, rows)
        termios.tcsetwinsize(self._child.child_fd, (rows, columns))

    def ends(self) -> int:
        """Wait for the end of the program, and return its exit code."""
        while self._read():
            pass
        self._child.close()
        return max(self._process.wait(PATIENCE), -1)

    def kill(self) -> None:
        """Kill the program with SIGKILL."""
        self._process.kill()
        self.ends()

    def close(self) -> None:
        """Close the terminal, and end the program if it still runs."""
        with suppress(OSError):
            self._child.close()
        self._process.kill()
        self._process.wait()

    def _read(self) -> bool:
        """Read what the program writes; return False at the end of its output."""
        try:
            text = self._child.read_nonblocking(65536, timeout=PATIENCE)
        except (pexpect.EOF, OSError):
            return False
        except pexpect.TIMEOUT:
            raise AssertionError(f"nothing comes any more:\n{self.text}") from None
        self.raw += text
        self.write(text)
        return True


@contextmanager
def driven(
    home: Path, *arguments: str, program: str = PROGRAM, columns: int = 80, rows: int = 24, **env: str
) -> Iterator[Driven]:
    """Run the program with these arguments and variables, and end it on exit."""
    outer = {
        name: value for name, value in os.environ.items() if not name.startswith(("OLLAMA", "TOOLCAST_H", "COVERAGE"))
    }
    for name in ("COLUMNS", "LINES", "NO_COLOR", "COLORTERM", "FORCE_COLOR"):
        outer.pop(name, None)
    outer |= {"TERM": "xterm-256color", "TOOLCAST_HOME": str(home), "PYTHONUTF8": "1", **env}
    terminal = Driven([sys.executable, "-c", program, "chat", *arguments], outer, columns, rows)
    try:
        yield terminal
    finally:
        terminal.close()
