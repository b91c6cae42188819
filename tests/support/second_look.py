"""Tests that failed are run again, each alone: where all of them pass then, the run passes, and the tests are flaky.

`.ci/run` names a file in TOOLCAST_SECOND_LOOK; without it nothing is done. The file gets a line for each test that
failed: `flaky` or `failed`, its name, the first line of its error, and the load of the machine, separated by tabs.

A failure in a folder of `EXACT` is never flaky: those tests have no processes, sockets or clocks. Nor are more than
`MOST` failures: something is broken then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

VARIABLE = "TOOLCAST_SECOND_LOOK"
EXACT = ("parsing", "providers", "structured", "tools", "chat", "agents/engine")
MOST = 3


class SecondLook:
    """The plugin of one run, which looks at `failures` again when the run ends."""

    def __init__(self, verdicts: Path) -> None:
        self.verdicts = verdicts
        self.failures: dict[str, tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.failures:
            crash = getattr(report.longrepr, "reprcrash", None)
            error = (str(crash.message if crash else report.longrepr).splitlines() or [""])[0]
            self.failures[report.nodeid] = (" ".join(error.split())[:160], f"load {os.getloadavg()[0]:.1f}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        again = len(self.failures) <= MOST
        flaky = {name: again and not is_exact(name) and passes_alone(session.config, name) for name in self.failures}
        with self.verdicts.open("a", encoding="utf-8") as file:
            for name, about in self.failures.items():
                print("flaky" if flaky[name] else "failed", name, *about, sep="\t", file=file)
        if self.failures and all(flaky.values()):
            session.exitstatus = pytest.ExitCode.OK


def is_exact(name: str) -> bool:
    """Return whether a test is in a folder in which a single failure is a fault."""
    return name.startswith(tuple(f"tests/{folder}/" for folder in EXACT))


def passes_alone(config: pytest.Config, name: str) -> bool:
    """Run one test in a process of its own; return whether it passed."""
    options = [option for option in config.invocation_params.args if option == "--networked"]
    command = [sys.executable, "-m", "pytest", *options, "--timeout=300", name]
    print(f"\n--- alone: {name}", flush=True)
    return subprocess.run(command, cwd=config.rootpath, check=False).returncode == 0


def pytest_configure(config: pytest.Config) -> None:
    """Look at failures again where a file for the verdicts is named; not in the workers of xdist."""
    if verdicts := os.environ.pop(VARIABLE, None):
        config.pluginmanager.register(SecondLook(Path(verdicts)))
