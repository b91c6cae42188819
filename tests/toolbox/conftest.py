"""Each way to run a turn of an engine: the fixture `turning`."""

from __future__ import annotations

import pytest

from support.engines import TURNINGS, Turning


@pytest.fixture(params=TURNINGS, ids=lambda turning: turning.name)
def turning(request: pytest.FixtureRequest) -> Turning:
    """Each way to run a turn in turn."""
    chosen: Turning = request.param
    return chosen
