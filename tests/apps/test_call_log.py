"""The log of `toolcast get`."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from toolcast.agents.engine.session_state import fold, read_details
from toolcast.apps import cli
from toolcast.errors import AuthFailed
from toolcast.stores import SQLiteStore
from toolcast.testing import ScriptedLLM, use_llm

TEXT = "Alice is 31. " * 3000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCAST_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def logged(home: Path) -> list[str]:
    with SQLiteStore(home / "sessions.db") as store:
        return store.ids()


def get(llm: ScriptedLLM, *words: str) -> int:
    with use_llm(llm):
        return cli.main(["get", *words])


def test_a_call_is_logged_whole(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(ScriptedLLM({"name": "Alice", "age": 31}), "name, age int", TEXT, "-m", "ollama:qwen3") == 0
    assert capsys.readouterr() == ('{"name":"Alice","age":31}\n', "")
    (id,) = logged(home)
    assert id.startswith("get-2")
    with SQLiteStore(home / "sessions.db") as store:
        records = store.read(id)
    state, details = fold(records), read_details(records)
    assert (state.turns, state.end) == (1, "tool_use")
    assert state.history[0].text.endswith(f"\n\n{TEXT.strip()}")
    assert json.loads(state.history[-1].tool_calls[0].arguments) == {"name": "Alice", "age": 31}
    assert state.usage.total_tokens > 0
    assert details["title"].startswith("get name, age int: Alice is 31.")
    assert len(details["title"]) == 80
    assert (details["model"], details["mode"]) == ("ollama:qwen3", "get")


def test_objects_one_by_one_are_one_call(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(ScriptedLLM({"value": [{"name": "A"}, {"name": "B"}]}, chunk=4), "--many", "name", "A and B") == 0
    (id,) = logged(home)
    with SQLiteStore(home / "sessions.db") as store:
        assert "B" in fold(store.read(id)).history[-1].tool_calls[0].arguments


def test_a_failed_call_is_logged_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(ScriptedLLM({"name": "Alice", "age": "old"}), "name, age int", "Alice is old.") == 1
    (id,) = logged(home)
    with SQLiteStore(home / "sessions.db") as store:
        state = fold(store.read(id))
    assert state.end == "error"
    assert "old" in state.history[-1].tool_calls[0].arguments


def test_what_sends_no_request_is_not_logged(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(ScriptedLLM(), "name", " ") == 1
    assert not home.exists()


def test_no_log(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(ScriptedLLM({"name": "A"}), "name", "A", "--no-log") == 0
    monkeypatch.setenv("TOOLCAST_CONFIG", str(home.parent / "config.toml"))
    assert cli.main(["config", "set", "log", "off"]) == 0
    assert cli.main(["config", "get", "log"]) == 0
    assert get(ScriptedLLM({"name": "A"}), "name", "A") == 0
    assert not home.exists()
    assert cli.main(["config", "set", "log", "on"]) == 0
    assert get(ScriptedLLM({"name": "A"}), "name", "A") == 0
    assert len(logged(home)) == 1
    assert cli.main(["config", "set", "log", "maybe"]) == 1
    assert capsys.readouterr().err == "toolcast: log is on or off, not 'maybe'\n"


def test_a_log_that_cannot_be_written_is_a_warning(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    with sqlite3.connect(home / "sessions.db") as other:
        other.execute("CREATE TABLE birds (name TEXT)")
    other.close()
    assert get(ScriptedLLM({"name": "A"}), "name", "A") == 0
    out, err = capsys.readouterr()
    assert out == '{"name":"A"}\n'
    assert err.startswith("toolcast: this call was not logged: ")
    assert "is the database of another application" in err


def test_the_error_of_a_failed_call_is_in_its_text(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(ScriptedLLM(AuthFailed("no such key")), "name, age int", "Alice is old.") == 1
    capsys.readouterr()
    assert cli.main(["logs", "last"]) == 0
    (last,) = capsys.readouterr().out.splitlines()[-1:]
    assert last.startswith("(the call: failed: no such key")
