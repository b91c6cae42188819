"""Test data that lives beside the project, in `../shared`: recorded provider streams and the JSON test suite.

Nothing of it is copied here. Where the folder is absent the tests that need it are skipped, with the reason shown.
"""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs ../shared beside the project (recordings, JSON test suite): NOT TESTED"
)


def json_suite(folder: str = "test_parsing") -> list[Path]:
    """The files of the JSON test suite, sorted; empty where ../shared is absent."""
    return sorted((SHARED / "json-test-suite" / folder).glob("*.json"))


def recordings(protocol: str) -> list[Path]:
    """The recorded bodies of one protocol (as INDEX.md names it), sorted; empty where ../shared is absent."""
    index = SHARED / "recordings" / "INDEX.md"
    if not index.is_file():
        return []
    rows = (line.split("|") for line in index.read_text().splitlines() if line.startswith("| "))
    return sorted(SHARED / "recordings" / row[1].strip() for row in rows if len(row) > 2 and row[2].strip() == protocol)
