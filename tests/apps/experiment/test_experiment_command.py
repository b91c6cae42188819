"""`toolcast experiment`: its sub-commands, each loaded when it is called, and how errors are printed."""

from __future__ import annotations

import argparse
import subprocess
import sys
from types import SimpleNamespace

import pytest

from support.process import Process
from toolcast.apps import cli
from toolcast.apps.experiment import experiment_command
from toolcast.errors import ToolcastError
from user.session import command_environment


def test_the_help_names_every_sub_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["experiment", "--help"])
    assert done.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, row in experiment_command.COMMANDS.items():
        assert f"{name} {row.summary}" in text


@pytest.mark.parametrize("line", [[], ["nothing"], ["run"], ["run", "--conf", "x"], ["run", "--config", "x", "y"]])
def test_a_wrong_command_line_is_exit_code_2(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["experiment", *line])
    assert done.value.code == 2
    assert capsys.readouterr().out == ""


def test_only_what_is_called_is_loaded() -> None:
    code = (
        "import sys\nfrom toolcast.apps.cli import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, "experiment", "run", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=command_environment())
    loaded = set(done.stderr.split())
    assert "toolcast.apps.experiment.run_command" in loaded
    unwanted = {
        "toolcast.apps.experiment.pei_command",
        "toolcast.apps.experiment.report_command",
        "toolcast.experiments.runner",
    }
    assert loaded & (unwanted | {"httpx", "rich", "yaml", "sqlite3", "matplotlib", "ray", "asyncio"}) == set()


@pytest.fixture
def fails_with(process: Process) -> object:
    """Have the sub-command `run` be one that raises."""

    def fail(error: BaseException) -> None:
        def run(arguments: argparse.Namespace) -> int:
            raise error

        module = SimpleNamespace(add_arguments=lambda parser: None, run=run)
        process.module("toolcast.apps.experiment.run_command", module)  # type: ignore[arg-type]  # stands for a module

    return fail


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolcastError("no model"), "Error: no model\n"),
        (PermissionError(13, "denied", "/log"), "Error: denied: '/log'\n"),
        (ImportError("it needs: pip install 'toolcast[report]'"), "Error: it needs: pip install 'toolcast[report]'\n"),
        (ToolcastError("first\n\n \nsecond"), "Error: first\nsecond\n"),
        (ToolcastError("\x1b[2Jno"), "Error: \\x1b[2Jno\n"),
    ],
)
def test_a_failure_is_a_paragraph_on_stderr(
    error: Exception, text: str, fails_with: object, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_with(error)  # type: ignore[operator]  # the fixture is a function
    assert cli.main(["experiment", "run"]) == 1
    assert capsys.readouterr() == ("", text)


def test_what_was_noted_on_an_error_is_reported_below_it(
    fails_with: object, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ToolcastError("no model")
    error.add_note("Go on with it")
    fails_with(error)  # type: ignore[operator]  # the fixture is a function
    assert cli.main(["experiment", "run"]) == 1
    assert capsys.readouterr().err == "Error: no model\nGo on with it\n"


def test_ctrl_c_outside_of_a_run_is_130(fails_with: object, capsys: pytest.CaptureFixture[str]) -> None:
    fails_with(KeyboardInterrupt())  # type: ignore[operator]  # the fixture is a function
    assert cli.main(["experiment", "run"]) == 130
