"""No test waits for real time: it waits for an event, uses a virtual clock, or sleeps only to be interrupted."""

from __future__ import annotations

import ast

import pytest

from project.source import ROOT

LONGEST = 0.05  # seconds, of a test that polls
SLEEPS = {"sleep", "time.sleep", "anyio.sleep", "asyncio.sleep", "trio.sleep"}
INTERRUPTED = 1.0  # seconds; the end of a longer sleep is never waited for


def waits(source: str) -> list[str]:
    """Return the sleeps of a file that a test waits for, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SLEEPS and node.args:
            seconds = node.args[0]
            if isinstance(seconds, ast.Constant) and LONGEST < seconds.value < INTERRUPTED:
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.gate("G14")
def test_no_test_sleeps() -> None:
    tests = {path: waits(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests").rglob("*.py"))}
    assert {path.relative_to(ROOT).as_posix(): found for path, found in tests.items() if found} == {}


def test_a_sleep_is_found() -> None:
    assert waits("time.sleep(0.2)\nawait anyio.sleep(0)\nasyncio.sleep(60)\nsleep(x)") == ["line 1: time.sleep(0.2)"]
