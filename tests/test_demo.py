"""examples/demo.py is `toolcast demo`."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from support.process import Process

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_example_is_the_command(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    process.argv(str(DEMO), "--help")
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(DEMO), run_name="__main__")
    assert left.value.code == 0
    assert "usage: toolcast demo" in capsys.readouterr().out
