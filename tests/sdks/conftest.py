"""Where an SDK or the servers are missing, nothing is compared."""

from __future__ import annotations

import pytest

from sdks.official import SDKS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = sorted({sdk.package for sdk in SDKS.values() if sdk.missing})
    if config.getoption("--networked") and not missing:
        return
    what = ", ".join(missing) or "real servers"
    elsewhere = pytest.mark.skip(reason=f"needs {what}, run `nox -s sdks`: NOT TESTED HERE")
    for item in items:
        if item.nodeid.startswith("tests/sdks/"):
            item.add_marker(elsewhere)
