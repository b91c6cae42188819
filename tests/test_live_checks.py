"""The checks of `nox -s live`, against doubles of OpenAI and Anthropic."""

from __future__ import annotations

import _thread
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import toolcast
from live_checks import CHECKS, MODELS, SETTINGS, main, variables_of
from support.bound_thoughts_service import BoundThoughtsService, Call, Thought
from support.loopback import Piece
from support.openai_by_rule import OpenAIByRule
from support.responses_service import function_call, message
from support.service_double import Received, as_json

KEY = "sk-live-0123456789abcdef"
TYPED: dict[str, dict[str, Any]] = {
    "City": {"name": "Paris", "country": "France"},
    "Code": {"code": 7391},
    "Painted": {"colour": "red"},
}


TEXT = "The code is 7391, the product 391, the shelf 21 or 35."


def answer(body: dict[str, Any], items: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the arguments of the call that answers a request; None for a text."""
    names = [tool["name"] for tool in body.get("tools", ())]
    if "code_of" in names and not re.search(r'"(function_call_output|tool_result)"', json.dumps(items)):
        return "code_of", {"colour": "amber"}
    return next(((name, TYPED[name]) for name in names if name in TYPED), None)


class _OpenAI(OpenAIByRule):
    def _item(self, body: dict[str, Any]) -> dict[str, Any]:
        found = answer(body, body["input"])
        return message(TEXT) if found is None else function_call(*found, f"call_{len(body['input'])}")


class _Anthropic(BoundThoughtsService):
    def messages(self, request: Received) -> tuple[Piece, ...]:
        body = request.json
        found = answer(body, body["messages"])
        schema = body.get("output_config", {}).get("format", {}).get("schema", {})
        typed = next((value for value in TYPED.values() if value.keys() == schema.get("properties", {}).keys()), None)
        text = TEXT if typed is None else json.dumps(typed)
        thoughts = [] if body.get("thinking") == {"type": "disabled"} else [Thought()]
        self.script.append([*thoughts, text if found is None else Call(f"toolu_{len(self.bodies)}", *found)])
        return super().messages(request)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (name for model in MODELS for name in variables_of(model)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[_OpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with _OpenAI() as double:
        yield double


def run(double: _OpenAI, *arguments: str) -> int:
    return main(arguments, partial(toolcast.llm, network=double.network, settings=SETTINGS, max_retries=1))


def test_openai_passes(openai: _OpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(openai, "--out", str(tmp_path / "live.md")) == 0
    written = (tmp_path / "live.md").read_text(encoding="utf-8")
    assert written in capsys.readouterr().out
    row = next(line for line in written.splitlines() if line.startswith("| openai:gpt-6-luna |"))
    assert row.count("pass") == len(CHECKS) - 2
    assert "* openai:gpt-6-luna: thinking on: skipped: the response shows no thoughts" in written
    assert "* openai:gpt-6-luna: cache: skipped: the second response shows no tokens from a cache" in written
    assert "* mistral:mistral-medium-3.5: no key (MISTRAL_API_KEY)" in written


def test_anthropic_passes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with _Anthropic() as double:
        connect = partial(toolcast.llm, base_url=double.base, settings=SETTINGS)
        assert main(["--provider", "anthropic"], connect) == 0
    assert capsys.readouterr().out.count(": pass, $") == len(CHECKS) - 1


def test_a_wrong_key_fails_and_is_not_shown(openai: _OpenAI, capsys: pytest.CaptureFixture[str]) -> None:
    refusal = as_json({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
    openai.fail("POST", *refusal, times=100)
    assert run(openai) == 1
    shown = capsys.readouterr().out
    assert shown.count(": FAIL, $") == len(CHECKS)
    assert "AuthFailed: " in shown
    assert KEY not in shown


def test_a_wrong_answer_fails(openai: _OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TYPED, "Painted", {"colour": "green"})
    assert run(openai) == 1


def test_the_cap_ends_the_checks(openai: _OpenAI, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(openai, "--usd", "0.0000001") == 0
    shown = capsys.readouterr().out
    assert shown.count(": pass, $") == 1
    assert shown.count(": not run, $0.0000 the cap of $0.0000001 was reached") == len(CHECKS) - 1
    assert len(openai.created) == 1


def test_without_keys_nothing_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], lambda name: pytest.fail(name)) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("No key was found")
    assert "OPENAI_API_KEY, ANTHROPIC_API_KEY" in shown


def test_ctrl_c_prints_the_table_so_far(openai: _OpenAI, capsys: pytest.CaptureFixture[str]) -> None:
    openai.processed = lambda line: _thread.interrupt_main() if len(openai.created) == 2 else None
    assert run(openai) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| openai:")]
    assert row.startswith("| openai:gpt-6-luna | pass ")
    assert row.count("not run") == len(CHECKS) - 1


@pytest.mark.parametrize("name", ["opnai", "together", "local"])
def test_unknown_providers_are_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--provider", name])
    assert name in capsys.readouterr().err
