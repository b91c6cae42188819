"""`toolcast get` on the embedded model, in a process of its own: text in, lines of JSON out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.networked

TOOLCAST = [sys.executable, "-c", "import sys; from toolcast.apps.cli import main; sys.exit(main())"]
ALICE = {"name": "Alice", "age": 31, "city": "Oslo"}
BOB = {"name": "Bob", "age": 42, "city": "Rome"}
CARLA = {"name": "Carla", "age": 9, "city": "Lima"}


def got(smollm2: Path, text: str, *words: str) -> list[Any]:
    """What `toolcast get` prints, line by line."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OLLAMA_")}
    done = subprocess.run(
        [*TOOLCAST, "get", *words, "--model", f"local:{smollm2}"],
        input=text, capture_output=True, encoding="utf-8", env=environment, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_object(smollm2: Path) -> None:
    assert got(smollm2, "Alice is 31 and lives in Oslo.\n", "name, age int, city") == [ALICE]


def test_many_objects(smollm2: Path) -> None:
    text = "Alice is 31 and lives in Oslo. Bob, aged 42, lives in Rome. Carla, 9, is from Lima."
    assert got(smollm2, text, "--many", "name, age int, city") == [ALICE, BOB, CARLA]
