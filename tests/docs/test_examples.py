"""Every example is a program that runs to its end on the embedded model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.networked
@pytest.mark.timeout(120)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example: Path, smollm2: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


def test_the_spans_on_the_page_are_those_that_the_example_prints() -> None:
    page = (ROOT / "docs" / "how-to" / "opentelemetry.md").read_text(encoding="utf-8")
    printed = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "tracing.py")],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert "chat reader" in printed
    assert f"\n```\n{printed}```\n" in page


def test_there_is_a_demo() -> None:
    assert ROOT / "examples" / "demo.py" in EXAMPLES
