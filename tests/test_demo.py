"""examples/demo.py: the object that grows in place stands on the terminal once, however narrow it is."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyte")

from support.process import Process
from support.terminal_emulator import Emulated
from toolcast import ToolOrchestratingLLM
from toolcast.testing import ScriptedLLM

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"
ITEMS = [{"quantity": n, "name": f"Hammer {n}", "price": n + 0.5} for n in range(1, 4)]


class Terminal(Emulated):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [12, 40, 100, 140, 400])
def test_the_growing_object_stands_there_once(columns: int, monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    demo: dict[str, Any] = runpy.run_path(str(DEMO))
    make = ToolOrchestratingLLM(
        demo["Invoice"], "{text}", ScriptedLLM({"seller": "ACME", "items": ITEMS, "total": 9}, chunk=5)
    )
    terminal = Terminal(columns, 60)
    monkeypatch.setenv("COLUMNS", str(columns))
    process.stream("stdout", terminal)
    demo["show_growing"](make, "two hammers")
    shown = "".join("".join(terminal.lines).split())
    assert shown.count("Invoice(") == 1
    assert shown.count("Hammer3") == 1
    assert shown.startswith("->Invoice(seller='ACME'")
    assert "total=9.0)" in shown
