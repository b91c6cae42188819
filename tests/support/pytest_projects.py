"""Projects with tests of their own, which pytest runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

IN_MODULE = ("-o", "asyncio_default_fixture_loop_scope=module", "-o", "asyncio_default_test_loop_scope=module")
RUNNERS = {
    "pytest-asyncio": ("-o", "anyio_mode=strict", "-o", "asyncio_mode=auto", *IN_MODULE),
    "anyio": ("-p", "no:asyncio", "-o", "anyio_mode=auto"),
}


@dataclass(frozen=True)
class Project:
    """A project with tests, in a folder of its own."""

    folder: Path

    def write(self, ini: str = "", **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        settings = "[pytest]\npythonpath = .\naddopts = --strict-markers --strict-config\n"
        (self.folder / "pytest.ini").write_text(settings + ini, encoding="utf-8")

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run pytest; warnings are errors."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
            cwd=self.folder,
            env={**clean, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    def passes(self, tests: int, *arguments: str, **env: str) -> None:
        done = self.run(*arguments, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{tests} passed" in done.stdout
