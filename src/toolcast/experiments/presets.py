"""Presets of the configuration: named values that a configuration begins with, and may replace one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

PresetName: TypeAlias = Literal["published"]

PRESETS: Final[Mapping[PresetName, Mapping[str, Any]]] = {
    "published": {
        "cycle_count": 10,
        "history": "reset",
        "opening": None,
        "tool_mode": "native",
        "similarity": {"embedder": "sentence-transformers:all-MiniLM-L6-v2", "high": 0.8, "moderate": 0.7},
    }
}
"""`published` is the set-up of ContReAct: ten cycles that begin without a message, each with an empty history, and
reflections that are compared by MiniLM. The paper's texts, which are not toolcast's, are no part of it."""


def with_preset(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `mapping` with the values of its preset, if it names one that exists, for the keys that it lacks."""
    found = PRESETS.get(cast("PresetName", mapping.get("preset"))) if isinstance(mapping.get("preset"), str) else None
    if found is None:
        return mapping
    merged = dict(found) | dict(mapping)
    for key, usual in found.items():
        given: object = mapping.get(key)
        if isinstance(usual, Mapping) and isinstance(given, Mapping):
            merged[key] = {**cast("Mapping[str, Any]", usual), **cast("Mapping[str, Any]", given)}
    return merged
