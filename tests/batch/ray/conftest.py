"""These tests need Ray, which is large: `nox -s ray` has it, and skips none of them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("ray") is None:
        for item in items:
            if item.path.parent == Path(__file__).parent:
                item.add_marker(pytest.mark.skip(reason="needs Ray, run `nox -s ray`: NOT TESTED HERE"))
