"""`toolcast models`: the table, what a service lists, and the same as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.loopback import whole
from support.ollama_server import OllamaServer
from toolcast.apps import cli, models_command
from toolcast.llms.local.pulled import PulledModel, save_pulled
from toolcast.llms.local.weights import WEIGHTS
from toolcast.providers.model_features import all_capabilities
from toolcast.values import prices

HEAD = "PROVIDER CONTEXT TOOLS IMAGES THINKING SCHEMA FORCED PARALLEL STRICT $/M IN $/M OUT MODEL"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCAST_CACHE", str(tmp_path))


def lines(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert cli.main(["models", *words]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_models_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == HEAD
    assert len(rows) == len(list(all_capabilities())) + len(WEIGHTS)
    assert all(row == row.rstrip() for row in rows)


@pytest.mark.parametrize(
    ("provider", "line"),
    [
        ("openai", "1,047,576 yes yes no yes yes yes yes 2 8 gpt-4.1*"),
        (
            "openai",
            "128,000 yes yes no yes yes yes yes 0.15-2.5 0.6-10 gpt-4o, gpt-4o-20*, gpt-4o-mini, gpt-4o-mini-20*",
        ),
        ("ollama", "? ? ? ? yes no ? no - - *"),
        ("local", "4,096 yes no no yes yes yes ? - - smollm2"),
    ],
)
def test_the_table_of_one_provider(provider: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = lines(capsys, provider, "--offline")
    assert head == HEAD.removeprefix("PROVIDER ")
    assert line in rows


def test_patterns_have_the_prices_of_the_models_that_fit_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {line.split()[-1]: line.split()[-3:-1] for line in lines(capsys, "anthropic", "--offline")}
    for pattern in ("claude-*-4-5*", "claude-opus-4-[89]*", "claude-3-7*"):
        assert "-" not in rows[pattern]
    assert rows["claude-*-4-5*"] == ["1-5", "5-25"]
    assert rows["claude-3-7*"] == ["3", "15"]  # and not that of `claude-3-*`, which fits it as well
    assert rows["*"] == ["-", "-"]


def test_without_the_price_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(prices, "_calculator", lambda: None)
    assert cli.main(["models", "openai", "--offline"]) == 0
    out, err = capsys.readouterr()
    assert "- - gpt-4.1*" in " ".join(out.split())
    assert err == "toolcast models: for prices: pip install 'toolcast[prices]'\n"


def test_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    shown = "\n".join(lines(capsys, "openai:gpt-7"))
    for line in (r"known no", r"row openai gpt-6-astra\*, .*, the newest of its kind \(.+\)", r"left out always temp"):
        assert re.search(f"(?m)^{line}", shown)
    found = json.loads("\n".join(lines(capsys, "openai:gpt-5.1", "--json")))
    assert (found["known"], found["efforts"]) == (True, "none low medium high")
    assert found["left_out"] == {"always": "stop", "if_on": "temperature top_p logprobs"}
    assert "row none: the defaults of the provider" in lines(capsys, "groq:my-own")
    with pytest.raises(SystemExit):
        cli.main(["models", "nothing:m"])
    assert "unknown value 'nothing:m'" in capsys.readouterr().err


def test_models_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "--json", "--offline", "ollama"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["provider"], row["models"], row["known"], row["source"]) == ("ollama", "*", False, "table")
    assert (row["tools"], row["forced_tools"], row["json_schema"], row["max_output"]) == (None, False, True, None)
    assert cli.main(["models", "--json", "--offline", "openai"]) == 0
    rows = json.loads(capsys.readouterr().out)
    found: Any = next(row for row in rows if row["models"] == "gpt-4.1*")
    assert found["prices"] == {"gpt-4.1": {"input": "2", "output": "8"}}


def test_what_ollama_has_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with OllamaServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        server.answer(whole(json.dumps({"models": [{"name": "qwen3:8b"}, {"name": "b\x1b[2J"}]}).encode()))
        _, first, second = lines(capsys, "ollama")
        assert first.endswith(" b\\x1b[2J")
        assert second.endswith(" qwen3:8b")
        server.answer(whole(json.dumps({"models": [{"name": "qwen3:8b"}]}).encode()))
        assert cli.main(["models", "ollama", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert (row["models"], row["source"], row["tools"]) == ("qwen3:8b", "service", None)
        shown = {"model_info": {"qwen3.context_length": 40_960}, "capabilities": ["completion", "tools", "thinking"]}
        server.show_answer = whole(json.dumps(shown).encode())
        server.answer(whole(json.dumps({"models": [{"name": "qwen3:8b"}]}).encode()))
        (described,) = lines(capsys, "ollama")[1:]
        assert described.split()[:4] == ["40,960", "yes", "no", "yes"]


def test_a_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    assert cli.main(["models", "ollama"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].endswith(" *")
    assert err.count("\n") == 1
    assert err.endswith("; this is what the table of toolcast has\n")
    assert "127.0.0.1:9" in err


def test_a_pulled_model(capsys: pytest.CaptureFixture[str]) -> None:
    save_pulled(PulledModel("tiny", "/m/tiny.gguf", "/m/tiny.gguf", "0" * 64, 123, "llama", 10, 2048, True))
    assert lines(capsys, "local")[-1].endswith(" tiny")
    assert cli.main(["models", "local", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)[-1]
    assert (row["models"], row["path"], row["trained_context"]) == ("tiny", "/m/tiny.gguf", 2048)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_the_table_fits_a_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: SimpleNamespace(columns=width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli.main(["models", "anthropic", "--offline"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert max(map(len, rows)) <= width
    assert "CONTEXT" in rows[0]
    assert "claude-opus-5" in "\n".join(rows)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ("gpt-4o, gpt-4o-20*, gpt-4o-mini", ["gpt-4o", "gpt-4o-mini"]),
        ("gpt-4.1*", ["gpt-4.1"]),
        ("*", []),
        ("claude-*-4-5*, gpt-5.[123]*", []),
    ],
)
def test_the_names_in_patterns(patterns: str, names: list[str]) -> None:
    assert models_command._names(patterns) == names
