"""The fixtures of the tools: each API of the engine in turn, and commands that end soon."""

from __future__ import annotations

import pytest

from support.engines import ENGINE_APIS, EngineAPI
from toolcast.toolbox import shell_command


@pytest.fixture(params=ENGINE_APIS, ids=lambda engine_api: engine_api.name)
def engine_api(request: pytest.FixtureRequest) -> EngineAPI:
    """Return each API of the engine in turn."""
    chosen: EngineAPI = request.param
    return chosen


@pytest.fixture
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command is killed soon after it was asked to end."""
    monkeypatch.setattr(shell_command, "_GRACE", 0.02)
