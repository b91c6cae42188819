"""Metrics that compare an expected value with the value of an output; each is a score from 0 to 1."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import mul
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from ..values.plain_data import to_plain

Metric: TypeAlias = Callable[[Any, Any], float]
"""A function of the expected and the actual value, both as JSON-compatible data, that returns a score from 0 to 1."""

MISSING: Final = object()
"""The value of a field that is not there."""


def exact(expected: Any, actual: Any) -> float:
    """Return 1 for equal values, and 0 for others."""
    return 1.0 if expected == actual and isinstance(expected, bool) == isinstance(actual, bool) else 0.0


def same_text(expected: Any, actual: Any) -> float:
    """Return 1 for texts that are equal but for case and white space, and 0 for others."""
    return 1.0 if _words(expected) == _words(actual) else 0.0


def numeric(tolerance: float = 0.0, *, relative: float = 0.0) -> Metric:
    """Return a metric that is 1 for numbers that are close to each other, and 0 for others.

    Args:
        tolerance: The largest difference. Default: 0.
        relative: The largest difference as a share of the expected number, where that is more. Default: 0.
    """
    for name, value in (("tolerance", tolerance), ("relative", relative)):
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name}={value!r} must be a number of at least 0")

    def score(expected: Any, actual: Any) -> float:
        wanted, found = _number(expected), _number(actual)
        if wanted is None or found is None:
            return exact(expected, actual)
        return 1.0 if abs(wanted - found) <= max(tolerance, relative * abs(wanted)) else 0.0

    return score


def similarity(embed: Callable[[Sequence[str]], Iterable[Sequence[float]]] | None = None) -> Metric:
    """Return a metric for the similarity of two texts.

    Args:
        embed: A function that returns the vector of each text, such as the `embed` of an embedder; the score is their
            cosine, and 0 where that is negative. None: the ratio of `difflib.SequenceMatcher`.
    """

    def score(expected: Any, actual: Any) -> float:
        first, second = _text(expected), _text(actual)
        if first == second:
            return 1.0
        if embed is None:
            from difflib import SequenceMatcher  # only this metric needs it

            return SequenceMatcher(None, first, second, autojunk=False).ratio()
        one, other = embed([first, second])
        return _cosine(one, other)

    return score


def overlap(expected: Any, actual: Any) -> float:
    """Return the F1 score of two lists as sets: twice the number of common items over the number of all."""
    wanted, found = _keys(expected), _keys(actual)
    return 2 * len(wanted & found) / (len(wanted) + len(found)) if wanted or found else 1.0


def aligned(key: str, metrics: Mapping[str, Metric] | None = None) -> Metric:
    """Return a metric for lists of objects, whose items are compared with the item that has the same key.

    The score is that of an F1 score in which a pair counts as its mean score. Items without a partner count as 0, and
    of items with the same key the first with the first, and so on.

    Args:
        key: The field by which items are aligned, a path such as `"product.id"`.
        metrics: The metrics of the fields of a pair, by path; None compares the whole items with `exact`.
    """
    if metrics is not None and not metrics:
        raise ValueError("metrics={} compares nothing; name a field, or pass None to compare whole items")

    def score(expected: Any, actual: Any) -> float:
        wanted, found = _items(expected), _items(actual)
        if not wanted and not found:
            return 1.0
        waiting: dict[str, list[Any]] = {}
        for item in found:
            waiting.setdefault(_key(field_value(item, key)), []).append(item)
        total = 0.0
        for item in wanted:
            if partners := waiting.get(_key(field_value(item, key))):
                total += _pair_score(item, partners.pop(0))
        return 2 * total / (len(wanted) + len(found))

    def _pair_score(one: Any, other: Any) -> float:
        if metrics is None:
            return exact(one, other)
        scores = [compare(field_value(one, path), field_value(other, path), metric) for path, metric in metrics.items()]
        return sum(scores) / len(scores)

    return score


def compare(expected: Any, actual: Any, metric: Metric) -> float:
    """Return the score of two values, of which either may be missing.

    Raises:
        ValueError: The metric returned something other than a number from 0 to 1.
    """
    if expected is MISSING or actual is MISSING:
        return 1.0 if expected is actual else 0.0
    score = metric(expected, actual)
    try:
        if 0 <= score <= 1:
            return float(score)
    except TypeError:  # it is no number
        pass
    name = getattr(metric, "__name__", type(metric).__name__)
    raise ValueError(f"the metric {name} returned {score!r}; a score is a number from 0 to 1")


def field_value(data: Any, path: str) -> Any:
    """Return the value at a path of JSON-compatible data such as `"author.name"` or `"songs.0.title"`."""
    for name in path.split("."):
        try:
            data = data[int(name) if isinstance(data, list) else name]
        except (LookupError, TypeError, ValueError):  # there is no such member, or it is no object or list
            return MISSING
    return data


def _words(value: Any) -> Any:
    return " ".join(value.casefold().split()) if isinstance(value, str) else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _key(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)  # a Decimal is text in JSON
    except ValueError:
        return None


def _items(value: Any) -> list[Any]:
    given: Any = value  # as in `as_data`
    if isinstance(value, list):
        return list(given)
    return [] if value is None else [value]


def _keys(value: Any) -> set[str]:
    return {_key(item) for item in _items(value)}


def _key(value: Any) -> str:
    return "" if value is MISSING else json.dumps(value, sort_keys=True)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    norm = math.hypot(*one) * math.hypot(*other)
    return min(max(sum(map(mul, one, other)) / norm, 0.0), 1.0) if norm else 0.0


def as_data(value: Any) -> Any:
    """Return a value as JSON-compatible data. Sets become sorted lists, so that equal ones are equal data."""
    if isinstance(value, BaseModel):
        return {name: as_data(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_data(getattr(value, field.name)) for field in fields(value)}
    given: Any = value  # typed as Any, so that isinstance below does not narrow it to Unknown
    if isinstance(value, Mapping):
        return {str(to_plain(name)): as_data(member) for name, member in given.items()}
    if isinstance(value, (list, tuple)):
        return [as_data(item) for item in given]
    if isinstance(value, (set, frozenset)):
        return sorted((as_data(item) for item in given), key=_key)
    return to_plain(value)
