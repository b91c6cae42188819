from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from toolcast.apps.cli import main

MCP_SERVER = str(Path(__file__).parents[1] / "support" / "mcp_server.py")


def test_what_is_missing_is_named_with_the_way_to_get_it(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = [name for name in sys.modules if name.startswith(("toolcast.apps.web.", "starlette"))]
    process.without("starlette", unload=[*loaded, "toolcast.apps.web"])
    assert main(["web", "--no-browser", "--port", "0"]) == 1
    assert "pip install 'toolcast[web]'" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--port", "x"], ["--port", "70000"], ["--mode", "none"], ["more"]])
def test_a_wrong_command_line_is_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["web", *wrong])
    assert left.value.code == 2
    text = capsys.readouterr().err
    assert "usage: toolcast" in text
    assert ("expected a port from 0 to 65535" in text) == ("--port" in wrong)


@pytest.mark.parametrize("words", [[], ["--no-mcp"]])
def test_the_page_has_the_tools_of_mcp_servers(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process
) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("mcp")
    from toolcast.apps.web import web_startup

    names: list[str] = []

    async def serve(options: Any, on_ready: Any, setup: Any) -> int:
        names.extend(setup.tool_names)
        return 0

    monkeypatch.setattr(web_startup, "serve", serve)
    monkeypatch.setenv("TOOLCAST_CONFIG", str(tmp_path / "config.toml"))
    servers = {"own": {"command": sys.executable, "args": [MCP_SERVER]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    monkeypatch.chdir(tmp_path)
    process.stdin("")
    assert main(["web", "--no-browser", *words]) == 0
    assert ("own_add" in names) is not bool(words)
    assert "read_file" in names
