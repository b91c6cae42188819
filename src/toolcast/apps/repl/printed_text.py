"""Text that code of this process prints while a turn runs: `PrintedText`, whose streams replace stdout and stderr.

Tools run in threads beside the screen, which redraws the last rows of the terminal. What they printed there would end
up in the middle of these rows, so it is collected, and the screen shows it above them. Between two turns it goes to the
terminal as before.
"""

from __future__ import annotations

import io
import re
from threading import Lock
from typing import Final, TextIO, cast

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")


class PrintedText:
    """The text that was printed and not shown. Any thread may print; one thread takes it."""

    def __init__(self) -> None:
        self.is_collecting: bool = False
        """True while a turn runs."""
        self._lock = Lock()
        self._text = ""

    def stream(self, original: TextIO) -> TextIO:
        """Return a stream that writes here while a turn runs, and at other times to `original`, a terminal.

        A file or a pipe does not disturb the screen, and is returned itself.
        """
        return cast("TextIO", _PrintStream(self, original)) if original.isatty() else original

    def add(self, text: str) -> None:
        """Add printed text."""
        with self._lock:
            self._text += text

    def take_lines(self, *, is_end: bool = False) -> list[str]:
        """Return the complete lines, and at the end of a turn also the incomplete one, without colours.

        Of a line that overwrites itself by carriage returns, as progress bars do, only the last text is returned.
        """
        with self._lock:
            cut = len(self._text) if is_end else self._text.rfind("\n") + 1
            text, self._text = self._text[:cut], self._text[cut:]
        lines = _COLOURS.sub("", text.replace("\r\n", "\n")).removesuffix("\n").split("\n") if text else []
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


class _PrintStream(io.TextIOBase):
    """A stream in place of stdout or stderr."""

    def __init__(self, printed: PrintedText, original: TextIO) -> None:
        self._printed = printed
        self._original = original
        self.buffer: io.BufferedIOBase = _ByteStream(self)
        """The stream for bytes, in UTF-8."""

    @property
    def encoding(self) -> str:  # type: ignore[override] # pyright: ignore[reportIncompatibleVariableOverride]
        """The encoding of the terminal."""
        return self._original.encoding

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return False while a turn runs: escape codes would not be obeyed."""
        return not self._printed.is_collecting and self._original.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the terminal, for programs that are started."""
        return self._original.fileno()

    def write(self, text: str) -> int:
        """Collect the text, or write it between two turns."""
        if not self._printed.is_collecting:
            return self._original.write(text)
        self._printed.add(text)
        return len(text)

    def flush(self) -> None:
        """Flush the terminal between two turns."""
        if not self._printed.is_collecting:
            self._original.flush()


class _ByteStream(io.BufferedIOBase):
    """The stream for bytes of a `_PrintStream`."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._stream = text

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: object) -> int:
        """Write the bytes as text."""
        content = bytes(cast("bytes", data))
        self._stream.write(content.decode("utf-8", "replace"))
        return len(content)

    def flush(self) -> None:
        """Flush the stream for text."""
        self._stream.flush()
