"""`toolcast models`: the table, and the same as JSON."""

from __future__ import annotations

import json

import pytest

from toolcast.apps import cli
from toolcast.llms.local.weights import WEIGHTS
from toolcast.providers.model_features import all_capabilities


def test_models_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "PROVIDER", "MODELS", "TOOLS", "FORCED", "PARALLEL", "THINKING", "IMAGES", "SCHEMA", "STRICT", "CONTEXT",
    ]  # fmt: skip
    assert len(lines) == len(list(all_capabilities())) + len(WEIGHTS)
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
