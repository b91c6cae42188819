"""`JSONLStore`: a folder with one JSON Lines file for each session.

The first line is a header with the version of the file. Each further line is the list of the records that were appended
together, written by one call at the end of the file, so that a crash can truncate the last line only. A line without
its line break counts as not written: it is not read, and the next append removes it. So an append is atomic. No file is
kept open.
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
from ..text.reprs import safe_repr
from .locks import claim_file, locked
from .store import (
    SessionLease,
    check_id,
    damaged_record,
    file_name,
    from_json_text,
    id_of,
    to_record,
    to_record_text,
    wrap_os_errors,
)

logger: Final = logging.getLogger("toolcast")

VERSION = 1
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class JSONLStore:
    """A store of text files in `folder`, one for each session. The folder is created if it does not exist.

    Written data survives the end of the process, killed or not. A power failure may lose the last appends.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder: Path = Path(folder).resolve()
        with wrap_os_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @safe_repr
    def __repr__(self) -> str:
        return f"JSONLStore({os.fspath(self.folder)!r})"

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Append `records` to a log: all or none."""
        path, line = self._path(id), ",".join(map(to_record_text, records))
        if not records:
            return
        with wrap_os_errors(path), _open(path) as fd:
            end = _repair_end(fd, path)
            header = {"toolcast": "session", "version": VERSION, "begun": time.time_ns()}
            begin = "" if end else f"{to_record_text(header)}\n"
            _write(fd, f"{begin}[{line}]\n".encode(), end)

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """Return the records of a log; none for an unknown id.

        Raises:
            ToolcastError: If a line is damaged; the message names it.
        """
        path = self._path(id)
        with wrap_os_errors(path):
            try:
                *lines, tail = path.read_bytes().split(b"\n")
            except FileNotFoundError:
                return []
        _check_tail(tail, path)
        header, *lines = lines or [b""]
        if header or lines:
            _check_header(header, path)
        return [record for number, line in enumerate(lines, 2) for record in _records(line, f"{path}, line {number}")]

    def claim(self, id: str, /) -> SessionLease:
        """Return the exclusive right to append, a lock on a file beside the log. Raise `SessionLocked`."""
        return claim_file(self._path(id).with_suffix(".lock"), id)

    def ids(self) -> list[str]:
        """Return the ids of all logs, oldest first by the clock."""
        with wrap_os_errors(self.folder):
            # Not `glob`, which returns nothing for a folder without read permission.
            logs = [path for path in self.folder.iterdir() if path.suffix == ".jsonl"]
            found = [(_begun_at(path), id) for path in logs if (id := id_of(path.stem)) is not None]
        return [id for _, id in sorted(found)]

    def delete(self, id: str, /) -> None:
        """Remove a log. Raise `SessionLocked` while it is claimed."""
        with self.claim(id), wrap_os_errors(self.folder):
            self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self.folder / f"{file_name(check_id(id))}.jsonl"


@contextmanager
def _open(path: Path) -> Generator[int]:
    """Open the file at `path` for appending, for one thread of all processes at a time."""
    fd = os.open(path, _FLAGS, 0o600)
    try:
        with locked(fd):  # two threads that begin a file would both write its header
            yield fd
    finally:
        os.close(fd)


def _repair_end(fd: int, path: Path) -> int:
    """Return the position after the last complete line. A truncated line is removed, and logged."""
    size = os.lseek(fd, 0, os.SEEK_END)
    if not size:
        return 0
    os.lseek(fd, size - 1, os.SEEK_SET)
    if os.read(fd, 1) == b"\n":
        return size
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    _check_tail(data[end:], path)
    logger.warning("%s: its last line was cut off by a crash; its %d bytes are removed", path, size - end)
    os.ftruncate(fd, end)
    return end


def _check_tail(tail: bytes, path: Path) -> None:
    """Raise `ToolcastError` if `tail`, after the last line break, is a whole line whose line break is damaged."""
    try:
        from_json_text(tail[:-1], "")
    except ToolcastError:
        return  # it was cut off by a crash
    raise damaged_record(f"{path}, the last line", "its line break is another character")


def _write(fd: int, data: bytes, end: int) -> None:
    """Write all of `data` at the `end` of the file by one call, or nothing."""
    if os.write(fd, data) < len(data):
        os.ftruncate(fd, end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check_header(header: bytes, path: Path) -> None:
    where = f"{path}, line 1"
    version = to_record(from_json_text(header, where), where).get("version")
    if not isinstance(version, int):
        raise damaged_record(where, "it has no version number")
    if version > VERSION:
        raise ToolcastError(
            f"{path} was written by a newer toolcast (version {version} of the file, {VERSION} is known): upgrade"
        )


def _records(line: bytes, where: str) -> list[dict[str, Any]]:
    data = from_json_text(line, where)
    if not isinstance(data, list):
        raise damaged_record(where, "expected a list of records")
    return [to_record(record, where) for record in cast("list[object]", data)]


def _begun_at(path: Path) -> int:
    """Return the time at which the log was created; 0 for an invalid header, which reading the log reports."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        return int(to_record(from_json_text(line, ""), "")["begun"])
    except (ToolcastError, LookupError, TypeError, ValueError):
        return 0
