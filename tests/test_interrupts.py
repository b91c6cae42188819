"""Tests that interrupt a process work where SIGINT was ignored when they were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

IGNORED = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def test_this_process_and_its_children_can_be_interrupted() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert subprocess.run([sys.executable, "-c", IGNORED], check=False).returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="there is no shell that ignores a signal for what it starts")
def test_also_where_sigint_was_ignored_at_the_start() -> None:
    ignoring = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    assert subprocess.run([*ignoring, sys.executable, "-c", IGNORED], check=False).returncode == 1
    test = f"{__file__}::{test_this_process_and_its_children_can_be_interrupted.__name__}"
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    inner = subprocess.run([*ignoring, *pytest_here], capture_output=True, text=True, check=False)
    assert inner.returncode == 0, inner.stdout
