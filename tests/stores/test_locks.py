"""File locks, besides the tests of leases in test_store.py."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from support.process import Process
from toolcast.errors import SessionLocked, ToolcastError
from toolcast.stores import locks
from toolcast.stores.locks import claim_file

posix = pytest.mark.skipif(sys.platform == "win32", reason="forks, and files removed while they are open")


def open_files() -> int:
    listing = Path("/proc/self/fd")
    return len(list(listing.iterdir())) if listing.exists() else 0


def test_the_file_names_the_owner_and_goes_with_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    before = open_files()
    with claim_file(path, "a"):
        assert path.read_text() == str(os.getpid())
    assert sys.platform == "win32" or not path.exists()
    assert open_files() == before


@pytest.mark.parametrize("left", ["", "99999999999", "no number", "x" * 100])
def test_a_file_that_was_left_behind_does_no_harm(tmp_path: Path, left: str) -> None:
    path = tmp_path / "a.lock"
    path.write_text(left)
    with claim_file(path, "a"):
        assert path.read_text() == str(os.getpid())


def test_an_owner_without_a_process_id_yet(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    before = open_files()
    with claim_file(path, "a"):
        path.write_text("")
        with pytest.raises(SessionLocked, match="open in another process"):
            claim_file(path, "a")
    assert open_files() == before


@posix
def test_the_lock_of_a_file_that_was_removed_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.lock"
    real, before = locks._lock, open_files()
    tries: list[int] = []

    def lock_too_late(fd: int) -> bool:
        tries.append(fd)
        if len(tries) == 1:
            path.unlink()  # as its owner does between our opening and our locking
        return real(fd)

    monkeypatch.setattr(locks, "_lock", lock_too_late)
    with claim_file(path, "a"):
        assert path.read_text() == str(os.getpid())
        assert len(tries) == 2
        assert open_files() == before + (1 if before else 0)


@posix
def test_a_removed_file_does_not_hinder_the_release(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    claim = claim_file(path, "a")
    path.unlink()
    claim.release()
    claim_file(path, "a").release()


@posix
@pytest.mark.parametrize("fails", ["unlink", "flock"])
def test_what_fails_in_a_release_leaves_nothing_locked_or_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise PermissionError("no")

    path = tmp_path / "a.lock"
    before = open_files()
    claim = claim_file(path, "a")
    with monkeypatch.context() as broken, pytest.raises(ToolcastError, match=r"a\.lock failed: no\.") as raised:
        broken.setattr(*((Path, "unlink") if fails == "unlink" else (locks.fcntl, "flock")), fail)
        claim.release()
    assert isinstance(raised.value.__cause__, PermissionError)
    assert open_files() == before
    claim_file(path, "a").release()


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(ToolcastError, match=r"a\.lock failed: "):
        claim_file(tmp_path / "nowhere" / "a.lock", "a")


@posix
def test_a_child_lets_go_of_nothing_of_its_parents(tmp_path: Path, process: Process) -> None:
    # test_store.py forks; here, in one process, each half of it is looked at.
    path = tmp_path / "a.lock"
    claim = claim_file(path, "a")
    with process.as_child():
        claim.release()
    with pytest.raises(SessionLocked):
        claim_file(path, "a")
    locks._close_inherited()
    assert not locks._locked_fds
    claim_file(path, "a").release()


@pytest.fixture
def windows(process: Process) -> ModuleType:
    """The module as Windows loads it. Its locks are the system's here, and its bytes are not guarded from readers."""
    import fcntl

    def locking(fd: int, how: int, count: int) -> None:
        assert count == 1 and os.lseek(fd, 0, os.SEEK_CUR) == 1 << 30  # never one of the bytes that are read
        fcntl.flock(fd, how)

    fake = SimpleNamespace(locking=locking, LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, LK_UNLCK=fcntl.LOCK_UN)
    process.module("msvcrt", fake)
    return process.loaded_on("win32", locks, "toolcast.stores.windows_locks")


@posix
def test_on_windows_the_file_stays(windows: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    before = open_files()
    for _ in range(2):
        with windows.claim_file(path, "a"):
            assert path.read_text() == str(os.getpid())
            with pytest.raises(SessionLocked, match=f"process {os.getpid()}"):
                windows.claim_file(path, "a")
    assert path.exists()
    assert open_files() == before


@posix
def test_on_windows_threads_lock_an_open_file_in_turn(windows: ModuleType, tmp_path: Path) -> None:
    path, turns = tmp_path / "a.txt", list[str]()
    inside = threading.Event()

    def write(name: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        with windows.locked(fd):
            turns.append(name)
            if name == "first":
                inside.set()
                time.sleep(0.05)  # the second tries in vain meanwhile
                turns.append("end of the first")
        os.close(fd)

    first = threading.Thread(target=write, args=("first",))
    first.start()
    assert inside.wait(10)
    write("second")
    first.join()
    assert turns == ["first", "end of the first", "second"]
