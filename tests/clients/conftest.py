"""The clients from npm. `TOOLCAST_CLIENTS` is their folder: `nox -s clients` sets it; elsewhere all is skipped."""

from __future__ import annotations

import pytest

from clients.node import FOLDER


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if FOLDER:
        return
    elsewhere = pytest.mark.skip(reason="needs the clients from npm, run `nox -s clients`: NOT TESTED HERE")
    for item in items:
        if item.nodeid.startswith("tests/clients/"):
            item.add_marker(elsewhere)
