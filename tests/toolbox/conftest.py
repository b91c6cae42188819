"""The fixture `engine_api`: each API of the engine in turn."""

from __future__ import annotations

import pytest

from support.engines import ENGINE_APIS, EngineAPI


@pytest.fixture(params=ENGINE_APIS, ids=lambda engine_api: engine_api.name)
def engine_api(request: pytest.FixtureRequest) -> EngineAPI:
    """Return each API of the engine in turn."""
    chosen: EngineAPI = request.param
    return chosen
