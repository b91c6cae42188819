"""The `toolcast` command: which command is called, what it may need, and its exit codes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from importlib.metadata import version

import pytest

from support.process import Process
from toolcast.apps import cli, pull_command
from toolcast.errors import NotFound


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out == f"toolcast {version('toolcast')}\n"


@pytest.mark.parametrize("line", [["nothing"], ["pull", "gpt"], ["pull", "--fr", "x"], ["models", "missing"]])
def test_a_wrong_command_line_is_exit_code_2(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(line)
    assert done.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_python_runs_the_module_and_alone_it_prints_help(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-m", "toolcast", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: toolcast [-h]")
    assert "Chat with a model, at a terminal or in a pipe." in done.stdout


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (["chat", "--tokn", "sk-S3CRET"], "toolcast chat: error: unknown option --tokn; did you mean --token?"),
        (["chat", "--tokn=sk-S3CRET"], "toolcast chat: error: unknown option --tokn; did you mean --token?"),
        (["models", "--tokn", "sk-S3CRET"], "toolcast models: error: unknown option --tokn"),
        (["--tokn", "sk-S3CRET", "chat"], "toolcast: error: unknown option --tokn"),
        (["experiment", "-x", "run"], "toolcast experiment: error: unknown option -x"),
        (["experiment", "run", "--confg", "x"], "toolcast experiment run: error: unknown option --confg; "
         "did you mean --config?"),
        (["models", "openai", "a\x1b[2J"], r"toolcast models: error: unexpected argument: a\x1b[2J; put quotes around "
         "a text of several words"),
        (["chta"], "toolcast: error: unknown command 'chta'; did you mean chat?"),
        (["xyz"], "toolcast: error: unknown command 'xyz'; expected one of: chat, web, get, map, demo, config, "
         "experiment, logs, mcp, models, pull, completion"),
        (["models", "opnai"], "toolcast models: error: argument PROVIDER[:MODEL]: unknown value 'opnai'; "
         "did you mean openai?"),
        (["chat", "--mode", "-1"], "toolcast chat: error: argument --mode: unknown value '-1'; expected one of: plan, "
         "build, verify, auto"),
        (["get", "name", "--", "--x", "y"], "toolcast get: error: unexpected argument: y; put quotes around a text of "
         "several words"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_shows_the_usage_of_the_command_and_the_closest_name(
    line: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(line)
    error = capsys.readouterr().err
    assert done.value.code == 2
    assert error.endswith(f"\n{named}\n")
    assert error.startswith(f"usage: {named.partition(':')[0]} ")
    assert "S3CRET" not in error


def test_the_module_is_the_command(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    process.argv("toolcast")
    with pytest.raises(SystemExit) as left:
        runpy.run_module("toolcast", run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("usage: toolcast [-h]")


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["--help"])
    assert done.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, row in cli._COMMANDS.items():
        assert f"{name} {row.summary}" in text


@pytest.mark.parametrize("name", cli._COMMANDS)
def test_every_command_has_a_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main([name, "--help"])
    assert done.value.code == 0
    assert cli._COMMANDS[name].summary in " ".join(capsys.readouterr().out.split())


def loaded_by(*words: str) -> set[str]:
    """The modules that the command line `words` has loaded in the end, in a fresh process."""
    code = "import sys; from toolcast.apps.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_a_command_loads_only_what_it_needs() -> None:
    loaded = loaded_by("models", "--json", "--offline", "ollama")
    assert "toolcast.apps.models_command" in loaded
    others = {f"toolcast.apps{row.module}" for name, row in cli._COMMANDS.items() if name != "models"}
    assert loaded & (others | {"httpx", "anyio", "rich", "prompt_toolkit", "starlette"}) == set()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NotFound("no weights"), 1, "toolcast: no weights\n"),
        (PermissionError(13, "denied", "/cache"), 1, "toolcast: /cache: denied\n"),
        (ImportError("it needs: pip install 'toolcast[cli]'"), 1, "toolcast: it needs: pip install 'toolcast[cli]'\n"),
        (KeyboardInterrupt(), 130, "toolcast: interrupted\n"),
    ],
)
def test_a_failure_is_one_line_on_stderr(
    error: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(pull_command, "pull", fail)
    assert cli.main(["pull"]) == code
    assert capsys.readouterr() == ("", words)


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe raises another error there")
def test_a_reader_that_has_gone_is_no_error() -> None:
    """As with `| head -1`: nothing is printed, not even by Python at its end."""
    reading, writing = os.pipe()
    os.close(reading)
    code = "import sys; from toolcast.apps.cli import main; sys.exit(main(['models']))"
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
