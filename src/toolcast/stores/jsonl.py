"""`JSONLStore`: a folder with one text file for each session.

The first line says what the file is. Each line after it is the list of those records that were appended together,
written by one call at the end of the file: what a crash cuts off is always the end of the last line. A line without
its line break was never written; it is not read, and the next append removes it. So an append is all or nothing.
No file is kept open.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from ..errors import ToolcastError
from .locks import claim_file
from .store import SessionLease, as_text, checked, damaged, file_name, from_text, id_of, told

logger: Final = logging.getLogger("toolcast")

VERSION = 1
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class JSONLStore:
    """A store of text files in `folder`, one for each session, which is made if it is not there.

    What is written outlives the process, killed or not. A power failure may take the last appends with it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder: Path = Path(folder).resolve()
        with told(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Write `records` at the end of a log: all or none."""
        path, line = self._path(id), as_text([dict(record) for record in records])
        if not records:
            return
        with told(path), _opened(path) as fd:
            end = _mended(fd, path)
            head = "" if end else as_text({"toolcast": "session", "version": VERSION, "begun": time.time_ns()}) + "\n"
            _write(fd, f"{head}{line}\n".encode(), end)

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """The records of a log; none for an unknown id. A damaged line is a `ToolcastError` that names it."""
        path = self._path(id)
        with told(path):
            try:
                head, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
            except FileNotFoundError:
                return []
        if head or lines:
            _check(head, path)
        return [record for number, line in enumerate(lines, 2) for record in _records(line, f"{path}, line {number}")]

    def claim(self, id: str, /) -> SessionLease:
        """The right to append, by a lock on a file beside the log's. Raises `SessionLocked`."""
        return claim_file(self._path(id).with_suffix(".lock"), id)

    def ids(self) -> list[str]:
        """The ids of all logs, the oldest first, by the clock."""
        with told(self.folder):
            # Not `glob`, which takes a folder that may not be read for an empty one.
            logs = [path for path in self.folder.iterdir() if path.suffix == ".jsonl"]
            found = [(_begun(path), id) for path in logs if (id := id_of(path.stem)) is not None]
        return [id for _, id in sorted(found)]

    def delete(self, id: str, /) -> None:
        """Remove a log. Raises `SessionLocked` while it is claimed."""
        with self.claim(id), told(self.folder):
            self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self.folder / f"{file_name(checked(id))}.jsonl"


@contextmanager
def _opened(path: Path) -> Generator[int]:
    """The file at `path`, to be written at its end."""
    fd = os.open(path, _FLAGS, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _mended(fd: int, path: Path) -> int:
    """Where the next line begins: after the last whole one. What follows that is cut off, and said to be."""
    size = os.lseek(fd, 0, os.SEEK_END)
    if not size:
        return 0
    os.lseek(fd, size - 1, os.SEEK_SET)
    if os.read(fd, 1) == b"\n":
        return size
    end = path.read_bytes().rfind(b"\n") + 1
    logger.warning("%s: its last line was cut off by a crash; its %d bytes are removed", path, size - end)
    os.ftruncate(fd, end)
    return end


def _write(fd: int, data: bytes, end: int) -> None:
    """All of `data` at the `end` of the file, by one call, or nothing."""
    if os.write(fd, data) < len(data):
        os.ftruncate(fd, end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check(head: bytes, path: Path) -> None:
    said = from_text(head, f"{path}, line 1")
    version = cast("dict[str, Any]", said).get("version") if isinstance(said, dict) else None
    if not isinstance(version, int):
        raise damaged(f"{path}, line 1", "it does not say what the file is")
    if version > VERSION:
        raise ToolcastError(
            f"{path} was written by a newer toolcast (version {version} of the file, {VERSION} is known): upgrade"
        )


def _records(line: bytes, where: str) -> list[dict[str, Any]]:
    said = from_text(line, where)
    batch = cast("list[object]", said) if isinstance(said, list) else [None]
    if not all(isinstance(record, dict) for record in batch):
        raise damaged(where, "it is no list of records")
    return cast("list[dict[str, Any]]", batch)


def _begun(path: Path) -> int:
    """When the log was begun. One that does not say so comes first; reading it tells what is wrong with it."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        return int(from_text(line, str(path))["begun"])
    except (ToolcastError, LookupError, TypeError, ValueError):
        return 0
