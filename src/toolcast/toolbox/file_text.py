"""The text of a file, and its exact bytes after an edit.

The encoding is that of a byte order mark, or UTF-8, or Latin-1 for bytes that are no UTF-8: there every byte is a
character, so that an edit elsewhere in the file does not change it. A file with a NUL is not text.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

from ..errors import TryAgain

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT = 8192


class FileText(NamedTuple):
    """The text of a file, the encoding it is in, and the byte order mark before it."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def newline(self) -> str:
        """The line ending that most of its lines have."""
        windows = self.text.count("\r\n")
        return "\r\n" if windows * 2 > self.text.count("\n") else "\n"

    @property
    def lines(self) -> list[str]:
        """Its lines, without line endings."""
        return lines_of(self.text)

    def data(self, path: str) -> bytes:
        """Return the bytes of the file. Raises `TryAgain` if the encoding lacks a character."""
        try:
            return self.mark + self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            missing = self.text[error.start : error.start + 1]
            raise TryAgain(f"{path} is in {self.encoding}, which has no {missing!r}; write it without") from None


def text_in(data: bytes, path: str) -> FileText:
    """Decode the bytes of a file. Raises `TryAgain` if they are not text."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    try:
        text = FileText(data[len(mark) :].decode(encoding), encoding, mark)
    except UnicodeDecodeError:
        text = FileText(data.decode("latin-1"), "latin-1")
    if "\0" in text.text[:_LOOKED_AT]:
        raise TryAgain(f"{path} is no text but a binary file, of {len(data):,} bytes")
    return text


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without line endings."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]
