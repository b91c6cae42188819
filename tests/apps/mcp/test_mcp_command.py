"""`toolcast mcp`: list, approve and forget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.process import Process
from toolcast.apps import cli
from toolcast.apps.mcp import mcp_command


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project without a file."""
    monkeypatch.setenv("TOOLCAST_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.setenv("TOOLCAST_HOME", str(tmp_path / "home"))
    (tmp_path / "config").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def mcp(*words: str) -> int:
    return cli.main(["mcp", *words])


def write(path: Path, **servers: object) -> None:
    path.write_text(json.dumps({"mcpServers": servers}))


def test_without_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mcp("list") == 0
    assert capsys.readouterr().out == (
        f"No MCP servers: name some in {folder.parent / 'config' / 'mcp.json'}, or in .mcp.json of a project.\n"
    )
    assert mcp("approve") == mcp("forget") == 1
    assert f"no .mcp.json and no mcp.json in {folder}" in capsys.readouterr().err


def test_list_starts_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = folder.parent / "config" / "mcp.json"
    write(own, tracker={"url": "https://x.example/mcp?key=k3y"}, off={"command": "x", "disabled": True}, wrong={})
    write(folder / ".mcp.json", touch={"command": "touch", "args": ["started"]})
    assert mcp("list") == 0
    assert capsys.readouterr().out == (
        f"{own}\n"
        "  tracker  https://x.example/mcp?key=***\n"
        "  off      disabled\n"
        "  wrong    expected either command or url\n"
        f"{folder / '.mcp.json'}  (not approved: toolcast mcp approve)\n"
        "  touch  touch started\n"
    )
    write(own)
    (folder / ".mcp.json").write_text("{")
    assert mcp("list") == 1
    out, err = capsys.readouterr()
    assert out == f"{own}\n"
    assert "line 1" in err
    assert [each.name for each in folder.iterdir()] == [".mcp.json"]


def test_approve_and_forget(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / ".mcp.json", touch={"command": "touch", "args": ["started"]})
    for answer, shown in ((True, "approved"), (False, "refused"), (None, "not approved: toolcast mcp approve")):
        monkeypatch.setattr(mcp_command.ApprovalTerminal, "can_ask", True)
        monkeypatch.setattr(mcp_command.ApprovalTerminal, "ask", lambda terminal, file, answer=answer: answer)
        assert mcp("approve") == int(not answer)
        assert capsys.readouterr().out == f"{folder / '.mcp.json'}: {shown}\n"
    assert mcp("list") == 0
    assert "(refused)" in capsys.readouterr().out
    assert mcp("forget") == mcp("forget") == 0
    assert capsys.readouterr().out == (
        f"{folder / '.mcp.json'}: the next chat asks.\n{folder / '.mcp.json'}: there was no answer.\n"
    )


def test_in_a_pipe_it_shows_what_would_run(folder: Path, process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    process.stdin("y\n")
    write(folder / ".mcp.json", touch={"command": "touch", "args": ["started"]})
    assert mcp("approve") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "  touch  touch started\n" in err
    assert "toolcast: an approval needs a terminal: run this command without pipes" in err
