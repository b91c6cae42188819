"""Where an SDK or the servers are missing, nothing is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdks.official import SDKS

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = sorted({sdk.package for sdk in SDKS.values() if sdk.missing})
    if config.getoption("--networked") and not missing:
        return
    what = ", ".join(missing) or "real servers"
    elsewhere = pytest.mark.skip(reason=f"needs {what}, run `nox -s sdks`: NOT TESTED HERE")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(elsewhere)
