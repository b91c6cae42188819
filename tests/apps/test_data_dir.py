"""Where the commands keep what outlives them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from toolcast.apps.config_file import data_dir, prompt_history_file, sessions_file


@pytest.mark.parametrize(
    ("chosen", "environ", "found"),
    [
        ("/given", {"TOOLCAST_HOME": "/named", "XDG_DATA_HOME": "/data"}, "/given"),
        (None, {"TOOLCAST_HOME": "/named", "XDG_DATA_HOME": "/data"}, "/named"),
        (None, {"TOOLCAST_HOME": "", "XDG_DATA_HOME": "/data"}, "/data/toolcast"),
        (None, {"XDG_DATA_HOME": "relative"}, "/me/.local/share/toolcast"),
        (None, {}, "/me/.local/share/toolcast"),
        ("~/mine", {}, "/me/mine"),
        (None, {"TOOLCAST_HOME": "~/mine"}, "/me/mine"),
    ],
)
def test_the_home(chosen: str | None, environ: Mapping[str, str], found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/me")
    monkeypatch.setenv("USERPROFILE", "/me")
    assert data_dir(chosen, environ) == Path(found)


def test_the_files_in_it() -> None:
    assert sessions_file(Path("/me")) == Path("/me/sessions.db")
    assert prompt_history_file(Path("/me")) == Path("/me/prompt_history")
