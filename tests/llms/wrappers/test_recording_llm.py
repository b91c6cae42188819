"""`RecordingLLM`: a line for each request, whichever way it ends."""

from __future__ import annotations

import copy
import json
import logging
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from support.albums import SEA, Album
from support.chunks import album_body
from support.sync_and_async import API
from toolcast import OpenAI, Settings, ToolcastError, ToolOrchestratingLLM
from toolcast.errors import Overloaded
from toolcast.llms import RecordingLLM
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_requests_and_responses(api: API, tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    llm = RecordingLLM(ScriptedLLM("Ruhig: é", SEA), path)
    api.chat(llm, "How is the sea?", settings=Settings(temperature=0.5))
    assert api.stream(ToolOrchestratingLLM(Album, "Make one.", llm)).final == SEA
    chat, album = lines(path)
    assert (chat["provider"], chat["model"], chat["request"]["stream"]) == ("scripted", "scripted", False)
    assert chat["request"]["settings"] == {"temperature": 0.5}
    assert chat["response"]["message"]["parts"][0]["text"] == "Ruhig: é" and "é" in path.read_text(encoding="utf-8")
    assert (chat["response"]["usage"]["input_tokens"], chat["response"]["stop_reason"]) == (10, "end_turn")
    assert (album["request"]["tools"][0]["name"], album["request"]["stream"]) == ("Album", True)
    assert not {"error", "closed"} & {*chat, *album}


def test_errors_and_early_ends(api: API, tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    llm = RecordingLLM(ScriptedLLM(Overloaded("busy"), SEA), path)
    with pytest.raises(Overloaded):
        api.chat(llm, "x")
    api.stream(ToolOrchestratingLLM(Album, "x", llm), take=1)
    failed, closed = lines(path)
    assert (failed["error"], failed["response"]) == ({"type": "Overloaded", "message": "busy"}, None)
    assert closed["closed"] is True and closed["response"]["message"]["parts"]


def test_no_credentials(api: API, tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    network = ReplayNetwork(Recorded([album_body()], headers={"content-type": "application/json"}))
    wrapped = OpenAI("m-1", api="chat", api_key="sk-secret", headers={"x-token": "sk-secret"}, network=network)
    api.call(ToolOrchestratingLLM(Album, "x", RecordingLLM(wrapped, path)))
    assert "sk-secret" not in path.read_text(encoding="utf-8") and len(lines(path)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions: NOT TESTED")
def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    RecordingLLM(ScriptedLLM(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ToolcastError, match="nowhere"):
        RecordingLLM(ScriptedLLM(), tmp_path / "nowhere" / "calls.jsonl")
    (tmp_path / "gone").mkdir()
    llm = RecordingLLM(ScriptedLLM("x"), tmp_path / "gone" / "calls.jsonl")
    llm.path.unlink()
    llm.path.parent.rmdir()
    with caplog.at_level(logging.ERROR, "toolcast"):
        assert llm.chat("x").text == "x"
    assert "was not recorded" in caplog.text


def test_a_copy_writes_to_the_same_file(tmp_path: Path) -> None:
    llm = RecordingLLM(OpenAI("m-1", api="chat", api_key="k"), tmp_path / "calls.jsonl")
    assert copy.deepcopy(llm).path == llm.path
