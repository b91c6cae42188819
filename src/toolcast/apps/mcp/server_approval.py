"""The approval of a project's MCP servers: nothing that came with a folder runs before a person agrees.

What is shown is what runs: each command with its arguments, folder, variables and headers, and no invisible character.
The answer is stored with the hash of the file, so that another content is another question.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final, TextIO, cast

from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import exposed, visible
from ..config_file import replace_file
from .mcp_files import MCPFile

_ANSWERS: Final[Mapping[str, bool | None]] = {
    "y": True,
    "yes": True,
    "n": None,
    "no": None,
    "never": False,
    "v": False,
    "\x1b": None,  # Esc
    "\x04": None,  # Ctrl-D
}
_KEY_CODE: Final = re.compile(r"\x1b[\[O][0-9;]*.")
"""The code of a key that is no character, such as an arrow key."""
_OUTCOMES: Final = {
    True: "yes",
    None: "no: not started this time",
    False: "never: not started, and not asked about until the file changes",
}


class ApprovalFile:
    """The stored answers: for each path of a file, its hash, and whether its servers may start."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer(self, file: MCPFile) -> bool | None:
        """Return the stored answer for this content of the file, or None."""
        stored = self._read().get(str(file.path.resolve()))
        return stored["approved"] if stored is not None and stored["sha256"] == file.digest else None

    def store(self, file: MCPFile, approved: bool) -> None:
        """Store the answer for this content of the file."""
        row = {"sha256": file.digest, "approved": approved}
        self._write(self._read() | {str(file.path.resolve()): row})

    def forget(self, path: Path) -> bool:
        """Remove the answer for the file, whatever its content; return whether there was one."""
        stored = self._read()
        found = stored.pop(str(path.resolve()), None)
        if found is not None:
            self._write(stored)
        return found is not None

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return the answers; those of a damaged file count as not given."""
        try:
            content: Any = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        rows = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        return {path: row for path, row in rows.items() if _is_answer(row)}

    def _write(self, answers: dict[str, dict[str, Any]]) -> None:
        replace_file(self._path, f"{json.dumps(answers, indent=2)}\n")


def _is_answer(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    fields = cast("dict[str, Any]", row)
    return isinstance(fields.get("approved"), bool) and isinstance(fields.get("sha256"), str)


@dataclass(frozen=True, slots=True)
class ApprovalTerminal:
    """The streams over which a person is asked."""

    stdin: TextIO
    stderr: TextIO

    @property
    def can_ask(self) -> bool:
        """True if a person reads the question, and types the answer."""
        return self.stdin.isatty() and self.stderr.isatty()

    def note(self, text: str) -> None:
        """Show a message, on a terminal wrapped between words."""
        shown = visible(text)
        if self.stderr.isatty():
            columns = max(get_terminal_size().columns - 1, 1)
            rows = wrap(shown, columns, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
            shown = "\n".join(rows)
        print(shown, file=self.stderr, flush=True)

    def ask(self, file: MCPFile) -> bool | None:
        """Show the servers of a file; return True or False to store, or None for this time no."""
        for line in ("", *approval_lines(file), ""):  # exactly what runs, and nothing that wrapping could leave out
            print(visible(line), file=self.stderr, flush=True)
        with _key_reader(self.stdin) as read:
            question = "Start them, now and until the file changes? [y]es, [n]o, ne[v]er: "
            print(question, end="", file=self.stderr, flush=True)
            answer = _first_answer(read)
        print(_OUTCOMES[answer], file=self.stderr, flush=True)
        return answer


def _first_answer(read: Callable[[], Sequence[str]]) -> bool | None:
    """Read until an answer comes, or the end of input, and return it."""
    while typed := read():
        for each in typed:
            if each.lower() in _ANSWERS:
                return _ANSWERS[each.lower()]
    return None


def approval_lines(file: MCPFile) -> Iterator[str]:
    """Yield the lines that show what the servers of a file run and send."""
    yield f"{exposed(str(file.path))} names MCP servers."
    yield from wrap("They run as you, outside the permissions of the chat:", max(get_terminal_size().columns - 1, 20))
    usable = [entry for entry in file.servers if not (entry.disabled or entry.problem)]
    width = max([len(exposed(entry.name)) for entry in usable], default=0)
    for entry in usable:
        yield f"  {exposed(entry.name):{width}}  {entry.command_line}"
        for detail in entry.details:
            yield f"  {'':{width}}    {detail}"


@contextmanager
def _key_reader(stdin: TextIO) -> Generator[Callable[[], Sequence[str]]]:
    """Provide a function that returns the next keys, without Enter; a line where the terminal has no single keys.

    It returns nothing at the end of input. Keys that were pressed before are discarded: they answer something else.
    """
    try:
        import termios
        import tty

        descriptor = stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except Exception:  # Windows has no termios, a test no descriptor; then the input stays
        yield lambda: [line.strip() for line in [stdin.readline()] if line]
        return
    tty.setcbreak(descriptor)
    try:
        yield lambda: list(_KEY_CODE.sub("-", os.read(descriptor, 64).decode(errors="replace")))
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
