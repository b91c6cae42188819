"""`library`: the tests of connections run over httpx, and in the slow part over its fork httpx2, too."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from toolcast.llms import HttpxNetwork


@pytest.fixture(params=["httpx", pytest.param("httpx2", marks=pytest.mark.slow)])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the library, of which an `HttpxNetwork` makes its clients."""
    defaults = HttpxNetwork.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "library", request.param)
    return import_module(request.param)
