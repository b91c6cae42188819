from __future__ import annotations

import sys

import pytest

from support.process import Process
from toolcast.apps.cli import main


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
