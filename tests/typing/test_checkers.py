"""mypy and pyright really judge the files of this folder: each asserts types, a wrong one is found.

That the files pass is the verdict of `nox -s types` itself, where both checkers read this folder with the
library. A test file here holds functions that no test calls; `assert_type(value, T)` is their whole
meaning. What must not type-check carries `# type: ignore[...]` and `# pyright: ignore[...]`, which are
errors where nothing is ignored.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PROGRAMS = [path for path in sorted(FOLDER.glob("*.py")) if path != Path(__file__)]

CHECKERS = {"mypy": ["mypy"], "pyright": ["pyright", "--pythonpath", sys.executable]}

WRONG = """
from typing import assert_type

from pydantic import BaseModel

from toolcast import ToolOrchestratingLLM


class Album(BaseModel):
    title: str


def whole(make: ToolOrchestratingLLM[Album]) -> None:
    assert_type(make(topic="the sea"), list[Album])
"""


def test_there_is_something_to_check() -> None:
    assert PROGRAMS
    silent = [path.name for path in PROGRAMS if "assert_type(" not in path.read_text(encoding="utf-8")]
    assert silent == []


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_wrong_assertion_is_found(checker: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    command = [sys.executable, "-m", *CHECKERS[checker], str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"assert.type", done.stdout), done.stdout
    assert '"Album"' in done.stdout
    assert '"list[Album]"' in done.stdout
