"""Run a script with the packages of package.json, which `nox -s clients` installs.

    run_node("chat.mjs", url, messages=[...])

runs chat.mjs of this folder, which imports `input` and `print` from support.mjs: `input` is what was passed by keyword,
and each `print(value)` is one of the values that are returned. Other arguments are in `process.argv`, from 2 on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("TOOLCAST_CLIENTS")
SCRIPTS = Path(__file__).parent
SECONDS = 50.0
"""How long a script may run: less than the time limit of a test."""


def run_node(script: str | Path, *arguments: str, **values: Any) -> list[Any]:
    """Run a script, and return what it prints; one that fails, or takes too long, fails the test with its errors."""
    with tempfile.TemporaryDirectory() as folder:
        beside_packages(Path(folder), SCRIPTS / script, *SCRIPTS.glob("*.mjs"))
        done = node(Path(folder), Path(script).name, *arguments, text=json.dumps(values))
    if done.returncode != 0:
        pytest.fail(f"{script} ended with {done.returncode}:\n{done.stderr}\n{done.stdout}", pytrace=False)
    # Not `splitlines`, which also splits at characters that JSON has inside of strings.
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def beside_packages(folder: Path, *files: Path) -> None:
    """Copy files into a folder from which they can import the packages."""
    for file in files:
        shutil.copy(file, folder)
    (folder / "node_modules").symlink_to(Path(FOLDER or "") / "node_modules", target_is_directory=True)


def node(folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run `node ARGUMENTS` in a folder; one that takes too long fails the test with what it printed."""
    program = shutil.which("node") or pytest.fail("node is not on the PATH: run `nox -s clients`", pytrace=False)
    try:
        return subprocess.run(
            [program, *arguments],
            cwd=folder,
            input=text,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        printed = "\n".join((each or b"").decode(errors="replace") for each in (late.stderr, late.stdout))
        pytest.fail(f"node {' '.join(arguments)} took more than {SECONDS:.0f} s:\n{printed}", pytrace=False)
