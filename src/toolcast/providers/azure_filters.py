"""The results of Azure's content filter, in responses and in errors.

Source: learn.microsoft.com/azure/ai-services/openai/concepts/content-filter.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from ..answer_details import SafetyRating


def azure_ratings(found: object, source: Literal["prompt", "response"], provider: str) -> tuple[SafetyRating, ...]:
    """Return the ratings in `content_filter_results`: an object for each category."""
    ratings: list[SafetyRating] = []
    for category, value in (cast("dict[str, Any]", found) if isinstance(found, dict) else {}).items():
        if not isinstance(value, dict) or not value:
            continue
        each = cast("dict[str, Any]", value)
        level = each.get("severity") or ("detected" if each.get("detected") is True else None)
        blocked = each.get("filtered") is True
        ratings.append(
            SafetyRating(category, source, level if isinstance(level, str) else None, blocked, provider, each)
        )
    return tuple(ratings)
