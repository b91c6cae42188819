"""How much of a long test is run: all of it in `nox -s nightly`, whose profile of Hypothesis says so."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def nightly(full: T, usual: T) -> T:
    """Return the extent of a test, the full one in the night."""
    return full if NIGHTLY else usual
