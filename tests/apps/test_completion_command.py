"""`toolcast completion`: the scripts, in the shells themselves where they are installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolcast import Engine, Session
from toolcast.apps import cli, completion_command
from toolcast.stores import SQLiteStore
from toolcast.testing import ScriptedLLM

if sys.platform != "win32":
    import pexpect

TURNED_ON = {
    "bash": 'eval "$(toolcast completion bash)"',
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(toolcast completion zsh)"',
    "fish": "toolcast completion fish | source",
}
STARTED = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}
SHELLS = [
    pytest.param(
        name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"needs {name}, which is not installed here")
    )
    for name in TURNED_ON
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory with a session, a config file with an alias, and a file."""
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLCAST_HOME", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("TOOLCAST_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text('[aliases]\nquickest = "openai:gpt-4o-mini"\n', encoding="utf-8")
    (tmp_path / "letter.txt").write_text("Dear", encoding="utf-8")
    with (
        SQLiteStore(tmp_path / "sessions.db") as store,
        Session(Engine(ScriptedLLM("Hi.")), id="morning", store=store) as session,
    ):
        session.run("Hello")
    return tmp_path


@pytest.fixture
def completed(request: pytest.FixtureRequest, home: Path) -> Iterator[Callable[[str], list[str]]]:
    """A function: the words of a command line after the Tab key."""
    name: str = request.param
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("COVERAGE", "BASH"))}
    shell = pexpect.spawn(
        shutil.which(name) or name,
        STARTED[name],
        env=plain | {"PATH": path, "TERM": "dumb" if name != "fish" else "xterm", "PS1": "> "},
        encoding="utf-8",
        timeout=20,
        dimensions=(40, 300),
    )

    # The typed line is echoed, too: only what is printed has the word whole.
    shell.sendline(f'{TURNED_ON[name]}; echo rea""dy')
    shell.expect("ready\r?\n")

    def press_tab(line: str) -> list[str]:
        shell.send(f"{line}\t")
        # Before the completed words another command, which they are arguments of, and its output into a file.
        shell.send("\x01printf '%s\\n' \x05 > words; echo rea\"\"dy\n")
        shell.expect("ready\r?\n")
        return (home / "words").read_text(encoding="utf-8").split("\n")[1:-1]

    try:
        yield press_tab
    finally:
        shell.close(force=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("completed", SHELLS, indirect=True)
def test_the_tab_key(completed: Callable[[str], list[str]]) -> None:
    for line, words in {
        "toolcast comple": ["completion"],
        "toolcast completion fi": ["completion", "fish"],
        "toolcast experiment rep": ["experiment", "report"],
        "toolcast experiment watch let": ["experiment", "watch", "letter.txt"],
        "toolcast experiment run --pei quick": ["experiment", "run", "--pei", "quickest"],
        "toolcast chat --sessi": ["chat", "--session"],
        "toolcast chat --mode ver": ["chat", "--mode", "verify"],
        "toolcast chat --model quick": ["chat", "--model", "quickest"],
        "toolcast chat --model groq:llama-3.3-70b-v": ["chat", "--model", "groq:llama-3.3-70b-versatile"],
        "toolcast get name --model xai:grok-code": ["get", "name", "--model", "xai:grok-code-fast"],
        "toolcast chat --session mor": ["chat", "--session", "morning"],
        "toolcast get name --file let": ["get", "name", "--file", "letter.txt"],
        "toolcast models cereb": ["models", "cerebras"],
    }.items():
        assert completed(line) == words, line


def test_the_values_of_models_and_sessions(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "--values", "models"]) == 0
    names = capsys.readouterr().out.split()
    assert names[:2] == ["quickest", "local"]
    assert {"openai:", "openai:gpt-4o-mini", "ollama:"} < set(names)
    assert not any("*" in name or name.endswith("-20") for name in names)
    assert cli.main(["completion", "--values", "sessions"]) == 0
    assert capsys.readouterr().out == "morning\n"
    (home / "sessions.db").unlink()
    assert cli.main(["completion", "--values", "sessions"]) == 0
    assert capsys.readouterr().out.strip() == ""
    assert not (home / "sessions.db").exists()


def test_a_shell_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion"]) == 1
    assert capsys.readouterr().err == "toolcast: name your shell: toolcast completion bash|zsh|fish\n"


def test_without_shtab_it_names_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 1
    assert "pip install 'toolcast[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", TURNED_ON)
def test_the_script_knows_all_commands(shell: str) -> None:
    script = completion_command.completion_script(shell)
    assert all(name in script for name in (*cli._COMMANDS, "--budget", "report", "verify"))
