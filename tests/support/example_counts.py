"""Counts that follow the profile of Hypothesis: of examples, and of the places where a body is cut."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
FEW = 10  # examples of the fast part of the suite


def examples(count: int) -> int:
    """Return `count`, or as small a share of it as the profile has of Hypothesis' usual 100 examples."""
    return max(1, count * min(settings.default.max_examples, USUAL) // USUAL)


def cut_places(body: bytes) -> range:
    """Return where a body is cut in two: at every byte, or at every seventh in the fast part of the suite."""
    return range(0, len(body), 7 if settings.default.max_examples <= FEW else 1)
