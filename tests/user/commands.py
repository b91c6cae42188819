"""The `toolcast` command at a shell: a line as a person types it, and all that shows.

    screen = shell("echo 'Why?' | toolcast chat", variables)

The shell is `sh`; in it, `toolcast` is this very library's command, with warnings as errors.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import warm_python
from support.ollama_server import MODEL, OllamaServer
from user.session import CTRL_C, Screen, command_environment, finish

SH = shutil.which("sh")
needs_a_shell = pytest.mark.skipif(SH is None, reason="needs a POSIX shell")

PYTHON = re.compile(r"\[Errno|\b(base_url|api_key|max_attempts|settings=|Settings\()")
"""Python terms: at a shell, options and variables are named instead."""

_PROGRAM = "import sys; from toolcast.apps.cli import main; sys.exit(main())"
_TOOLCAST = f"""toolcast() {{ "$PYTHON" -W error -c '{_PROGRAM}' "$@"; }}\n"""


def variables(server: OllamaServer, home: Path) -> dict[str, str]:
    """Return an environment with the sessions in `home` and Ollama at `server`."""
    return command_environment(
        TOOLCAST_HOME=str(home), OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL, PYTHON=sys.executable
    )


def begun(line: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """The line, running."""
    return _begun([SH or "sh", "-c", _TOOLCAST + line], env)


def command(*words: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """The command alone, running: Ctrl-C reaches it, and means what it means at a terminal."""
    return _begun([sys.executable, "-W", "error", "-c", f"{CTRL_C}\n{_PROGRAM}", *words], env)


def _begun(words: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    # What is no text goes in and comes out as surrogates.
    return warm_python.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        env=env,
    )


def shell(line: str, env: dict[str, str], typed: str = "") -> Screen:
    """The screen after the line, to which this was typed, has come to its end."""
    screen = finish(begun(line, env), typed)
    assert "Traceback" not in screen.err, screen.err
    assert "\x1b" not in screen.out + screen.err
    assert not PYTHON.search(screen.err), screen.err
    return screen
