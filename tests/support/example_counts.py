"""Counts of Hypothesis examples that follow the profile."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100


def examples(count: int) -> int:
    """Return `count`, or as small a share of it as the profile has of Hypothesis' usual 100 examples."""
    return max(1, count * min(settings.default.max_examples, USUAL) // USUAL)
