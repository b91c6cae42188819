"""`toolcast config`: the file is changed, with its comments, and never damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from support.process import Process
from toolcast.apps import cli


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "new" / "config.toml"
    monkeypatch.setenv("TOOLCAST_CONFIG", str(path))
    return path


def config(*words: str) -> int:
    return cli.main(["config", *words])


def test_keys_are_set_read_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config("path") == 0
    assert config("list") == 0
    assert capsys.readouterr().out == f"{file}\n"
    assert config("set", "model", "openai:gpt-4.1") == 0
    assert config("set", "aliases.fast", "groq:x") == 0
    assert config("set", "aliases.small", "local") == 0
    assert file.read_text() == 'model = "openai:gpt-4.1"\n\n[aliases]\nfast = "groq:x"\nsmall = "local"\n'
    assert config("list") == 0
    assert capsys.readouterr().out == 'model = "openai:gpt-4.1"\naliases.fast = "groq:x"\naliases.small = "local"\n'
    assert config("get", "aliases.fast") == 0
    assert capsys.readouterr().out == "groq:x\n"
    assert config("unset", "model") == 0
    assert config("unset", "aliases.fast") == 0
    assert file.read_text() == '\n[aliases]\nsmall = "local"\n'
    assert config("get", "model") == 1
    assert f"model is not set in {file}" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="needs links and permissions")
def test_comments_links_and_permissions_stay(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text('# mine\nmodel = "local" # the small one\n')
    real.chmod(0o640)
    file.parent.mkdir()
    file.symlink_to(real)
    assert config("set", "model", "ollama:qwen3") == 0
    assert file.is_symlink()
    assert real.read_text() == '# mine\nmodel = "ollama:qwen3" # the small one\n'
    assert real.stat().st_mode & 0o777 == 0o640
    assert {each.name for each in tmp_path.iterdir()} == {"new", "dotfiles.toml"}


def test_a_file_that_cannot_be_replaced_stays(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config("set", "model", "local") == 0

    def refuse(self: Path, target: Any) -> None:
        raise PermissionError(13, "denied", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    assert config("set", "model", "ollama:x") == 1
    assert "denied" in capsys.readouterr().err
    assert [each.name for each in file.parent.iterdir()] == ["config.toml"]
    assert file.read_text() == 'model = "local"\n'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lst",), "unknown command 'lst'; did you mean list?"),
        (("get", "modle"), "argument KEY: unknown key 'modle'; did you mean model?"),
        (("get", "xyz"), "argument KEY: unknown key 'xyz'; expected model, aliases.NAME, or log"),
        (("set", "aliases.", "x"), "argument KEY: unknown key 'aliases.'; did you mean aliases.NAME?"),
        (("set", "model", "opnai:x"), "no provider is called 'opnai'; did you mean 'openai:x'?"),
        (("set", "model", " "), "argument VALUE: the name of the model is empty"),
        (("list", "--jsn"), "toolcast config list: error: unknown option --jsn"),
    ],
)
def test_a_wrong_command_line(
    words: tuple[str, ...], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        config(*words)
    assert done.value.code == 2
    assert message in capsys.readouterr().err
    assert not file.exists()


def test_a_damaged_file_is_an_error_of_every_command(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir()
    file.write_text("model =")
    for words in (["config", "set", "model", "local"], ["chat"], ["get", "name", "Bo"], ["web"]):
        assert cli.main(words) == 1
        assert capsys.readouterr() == ("", f"toolcast: {file}, line 1: Invalid value\n")
    assert config("path") == 0
    assert file.read_text() == "model ="


def test_without_tomlkit_the_file_can_be_read(file: Path, process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir()
    file.write_text(tomlkit.dumps({"model": "local"}))
    process.without("tomlkit")
    assert config("get", "model") == 0
    assert config("set", "model", "ollama:x") == 1
    out, err = capsys.readouterr()
    assert out == "local\n"
    assert "pip install 'toolcast[cli]', or edit the file" in err


def test_a_config_without_a_command_is_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config() == config("show") == 0
    first, second = capsys.readouterr().out.split("config file")[1:]
    assert first == second


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, "smollm2  (the default)"),
        ({"OLLAMA_MODEL": "qwen3"}, "qwen3  (OLLAMA_MODEL)"),
        ({"OLLAMA_HOST": "box"}, "(OLLAMA_HOST)"),
        ({"OLLAMA_MODEL": "qwen3", "TOOLCAST_MODEL": "openai:gpt-4.1"}, "openai:gpt-4.1  (TOOLCAST_MODEL)"),
    ],
)
def test_the_model_in_use_and_its_source(
    variables: dict[str, str],
    shown: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("OLLAMA_MODEL", "OLLAMA_HOST", "TOOLCAST_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert config("show") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("in use"))
    assert line.endswith(shown)
    if not variables:
        assert config("set", "model", "groq:m") == config("show") == 0
        assert f"groq:m  ({file})" in capsys.readouterr().out


def test_an_alias_of_an_alias_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config("set", "aliases.fast", "openai:gpt-4.1-mini") == 0
    before = file.read_text(encoding="utf-8")
    assert config("set", "aliases.x", "fast") == 1
    assert "aliases.x: 'fast' is an alias itself; expected the name of a model" in capsys.readouterr().err
    assert config("set", "aliases.loop", "loop") == 1
    assert "'loop' is an alias itself" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == before
