"""Exclusive file locks, owned by one object at a time and released by the system if its process dies.

The file contains the owner's process id, for error messages. It is removed with the lock. A process that opened it
before may then lock a file that no longer exists: it checks for that, and starts again. A file left by a dead process
does no harm; the next owner reuses it. A forked child inherits open files, and with them the lock: it closes them
without releasing its parent's lock.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from .store import SessionLease, session_locked, wrap_os_errors

if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE = 1 << 30  # a byte after the process id: Windows blocks reading a locked byte

    def _lock(fd: int) -> bool:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True

    @contextmanager
    def locked(fd: int) -> Generator[None]:
        """Lock an open file for the block, once no other thread of any process has locked it."""
        while not _lock(fd):
            time.sleep(0.001)
        try:
            yield
        finally:
            os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    def _unlock(path: Path, fd: int) -> None:
        # The file stays: Windows cannot remove a file that is open elsewhere.
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextmanager
    def locked(fd: int) -> Generator[None]:
        """Lock an open file for the block, once no other thread of any process has locked it."""
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # explicitly, as in `_unlock`

    def _unlock(path: Path, fd: int) -> None:
        try:
            path.unlink(missing_ok=True)
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # explicitly: a child between fork and exec may have the file open too


_locked_fds: set[int] = set()


def claim_file(path: Path, id: str) -> SessionLease:
    """Lock the file at `path` for the log `id`. Raise `SessionLocked`, which names the owner's process."""
    lease = None
    with wrap_os_errors(path):
        while lease is None:
            lease = _try_claim(path, id)
    return lease


def _try_claim(path: Path, id: str) -> SessionLease | None:
    """Return the lease; None if the owner removed the file after it was opened here."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _lock(fd):
            raise session_locked(id, _owner(fd))
        if os.fstat(fd).st_nlink:
            return _take_ownership(path, fd)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _take_ownership(path: Path, fd: int) -> SessionLease:
    os.ftruncate(fd, 0)
    os.write(fd, str(os.getpid()).encode())
    _locked_fds.add(fd)
    return SessionLease(partial(_release, path, fd, os.getpid()))


def _owner(fd: int) -> int | None:
    content = os.read(fd, 20)
    return int(content) if content.isdigit() else None


def _release(path: Path, fd: int, owner: int) -> None:
    if os.getpid() == owner:
        _locked_fds.discard(fd)
        with wrap_os_errors(path):
            try:
                _unlock(path, fd)
            finally:
                os.close(fd)


def _close_inherited() -> None:
    """Close the parent's files in a forked child. The lock ends when the last process closes its file."""
    while _locked_fds:
        os.close(_locked_fds.pop())


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_inherited)
