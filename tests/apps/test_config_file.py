"""The config file of the commands: its place, its content, its errors, and the order of the sources of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcast.apps.config_file import (
    CommandConfig,
    ConfigFileError,
    choose_model,
    config_path,
    read_config,
    resolve_alias,
)
from toolcast.errors import UnsupportedLLMError


def test_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_path({}) == tmp_path / ".config/toolcast/config.toml"
    assert config_path({"XDG_CONFIG_HOME": "relative"}) == tmp_path / ".config/toolcast/config.toml"
    assert config_path({"XDG_CONFIG_HOME": "/etc/x"}) == Path("/etc/x/toolcast/config.toml")
    assert config_path({"XDG_CONFIG_HOME": "/etc/x", "TOOLCAST_CONFIG": "~/mine.toml"}) == tmp_path / "mine.toml"


def test_the_content(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    assert read_config(file) == CommandConfig()
    file.write_text('model = "openai:gpt-4.1"\n[aliases]\nfast = "groq:x"\n"a b" = "local"\n', encoding="utf-8")
    assert read_config(file) == CommandConfig("openai:gpt-4.1", {"fast": "groq:x", "a b": "local"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model = "a"\nmodel = ', ", line 2: Invalid value"),
        ("\nmodel 3", ", line 2: Expected '=' after a key in a key/value pair"),
        ('model = """\na\n', ", line 2: Unterminated string"),
        ("# x\nmodle = 'a'", ", line 2: unknown key 'modle'; did you mean model?"),
        ("xyz = 3", ", line 1: unknown key 'xyz'; expected model, aliases, log"),
        (
            "[aliases]\na = 'b'\n[model]\nx = 1",
            ", line 3: model: expected a name such as 'openai:gpt-4.1', got {'x': 1}",
        ),
        ("\n\n  model = ' '", ", line 3: model: expected a name such as 'openai:gpt-4.1', got ' '"),
        ("aliases = 3", ", line 1: aliases: expected a table, got 3"),
        ("[aliases]\na = 'x'\nb = 3", ", line 3: aliases.b: expected the name of a model, got 3"),
        ("aliases.b = 3", ", line 1: aliases.b: expected the name of a model, got 3"),
        ("aliases = {b = 3}", ": aliases.b: expected the name of a model, got 3"),
        ("[aliases]\na = 'x'\nb = '\udcff'", ": byte 24 is not UTF-8; save the file as UTF-8"),
    ],
)
def test_an_error_names_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigFileError) as error:
        read_config(file)
    assert str(error.value).startswith(f"{file}{message}")


def test_the_order_is_option_variable_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    environ = {"TOOLCAST_CONFIG": str(file)}
    assert choose_model(None, environ) is None
    file.write_text('model = "fast"\n[aliases]\nfast = "groq:x"\nbad = "opnai:x"\n', encoding="utf-8")
    assert choose_model(None, environ) == "groq:x"
    assert (resolve_alias("fast", environ), resolve_alias("local", environ)) == ("groq:x", "local")
    assert choose_model(None, environ | {"TOOLCAST_MODEL": ""}) == "groq:x"
    assert choose_model(None, environ | {"TOOLCAST_MODEL": "openai:gpt"}) == "openai:gpt"
    assert choose_model("local", environ | {"TOOLCAST_MODEL": "openai:gpt"}) == "local"
    assert choose_model("fast", environ | {"TOOLCAST_MODEL": "openai:gpt"}) == "groq:x"
    assert choose_model("opnai:x", environ) == "opnai:x"  # reported where it is used
    with pytest.raises(UnsupportedLLMError, match=r"did you mean 'openai:x'\?.* \(set by TOOLCAST_MODEL\)"):
        choose_model(None, environ | {"TOOLCAST_MODEL": "opnai:x"})
    with pytest.raises(UnsupportedLLMError, match=r"\(set by an alias in .*config.toml\)"):
        choose_model("bad", environ)
    file.write_text('model = "opnai:x"', encoding="utf-8")
    with pytest.raises(UnsupportedLLMError, match=r"\(set by .*config.toml\)"):
        choose_model(None, environ)
