"""A lock on a file, which one object at a time has and which the system takes back from a process that died.

The file says who the owner is, for the others to read. It is removed with the lock. So whoever opened it in the
meantime may get the lock of a file that is gone: it looks, and begins anew. A file that a dead process left behind
does no harm; the next owner takes it over. A forked child inherits open files, and with them the lock: it closes
them, and lets go of nothing that is its parent's.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from .store import SessionLease, taken, told

if sys.platform == "win32":
    import msvcrt

    _BEYOND = 1 << 30  # Windows lets nobody read a byte that is locked: not one of those that say who the owner is

    def _lock(fd: int) -> bool:
        os.lseek(fd, _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True

    def _unlock(path: Path, fd: int) -> None:
        # The file stays: Windows removes none that somebody has open.
        os.lseek(fd, _BEYOND, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(path: Path, fd: int) -> None:
        try:
            path.unlink(missing_ok=True)
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # said aloud: a child between fork and exec may have the file open too


_held: set[int] = set()


def claim_file(path: Path, id: str) -> SessionLease:
    """The lock at `path`, for the log `id`, as a claim. Raises `SessionLocked`, which names the process that has it."""
    claim = None
    with told(path):
        while claim is None:
            claim = _tried(path, id)
    return claim


def _tried(path: Path, id: str) -> SessionLease | None:
    """The claim; None where the owner removed the file after we had opened it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _lock(fd):
            raise taken(id, _owner(fd))
        if os.fstat(fd).st_nlink:
            return _owned(path, fd)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _owned(path: Path, fd: int) -> SessionLease:
    os.ftruncate(fd, 0)
    os.write(fd, str(os.getpid()).encode())
    _held.add(fd)
    return SessionLease(partial(_release, path, fd, os.getpid()))


def _owner(fd: int) -> int | None:
    said = os.read(fd, 20)
    return int(said) if said.isdigit() else None


def _release(path: Path, fd: int, owner: int) -> None:
    if os.getpid() == owner:
        _held.discard(fd)
        with told(path):
            try:
                _unlock(path, fd)
            finally:
                os.close(fd)


def _let_go() -> None:
    """In a forked child: close what is its parent's. The lock is gone when the last who has it open is."""
    while _held:
        os.close(_held.pop())


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go)
