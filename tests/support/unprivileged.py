"""A Python process that the permissions of files bind, also where the tests run as root.

Root may write anywhere, so a test that takes a permission away would show nothing. The process gives up that right
before it begins: on Linux it drops the capabilities that override permissions. Where that is not possible the test is
skipped, with the reason.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_CANNOT = 77
# PR_CAPBSET_DROP of CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER; the next exec is without them.
_BEGIN = f"""
import ctypes, os, sys
if os.geteuid() == 0 and any(ctypes.CDLL(None).prctl(24, right, 0, 0, 0) for right in (1, 2, 3)):
    sys.exit({_CANNOT})
os.execv(sys.executable, [sys.executable, "-W", "error", "-c", *sys.argv[1:]])
"""


def unprivileged(script: str, *arguments: object) -> tuple[str, str, int]:
    """Return what `script` wrote to stdout and stderr, and its exit code; `arguments` are its `sys.argv[1:]`."""
    if sys.platform == "win32":
        pytest.skip("NOT TESTED HERE: permissions work differently on Windows")
    command = [sys.executable, "-c", _BEGIN, script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    if done.returncode == _CANNOT:
        pytest.skip("NOT TESTED HERE: this root cannot give up its rights; run the tests as another user")
    return done.stdout, done.stderr, done.returncode


@contextmanager
def mode(path: Path, bits: int) -> Iterator[Path]:
    """Give `path` these permission bits within the block."""
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield path
    finally:
        path.chmod(before)
