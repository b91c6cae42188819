"""Similarity of reflections: the nearest earlier reflection, and an advisory for the next cycle.

Embeddings are compared by cosine. A score is rounded to six digits before it is compared with the thresholds: single
precision, in which most models compute, is no better, and so a score of 0.8 is 0.8, whatever rounding made of its last
digits. Vectors that cannot be compared are skipped: of another length, or with a NaN. A vector of zeros is similar to
nothing.

An embedder is foreign code and may call a service: it can fail or be slow. That never ends a cycle. A failed comparison
has its reason in `error`, the first one is logged too, and its reflection is not stored.

Earlier reflections are rows of one growing matrix if numpy is available, and lists of floats otherwise. numpy is
imported once there are so many that it pays.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from math import hypot, isfinite
from operator import mul
from typing import Any, Final, Literal, TypeAlias

from ..lazy.lazy_dataclasses import dataclass
from ..llms.embeddings.offline import Embedder, Vector
from ..text.reprs import safe_repr
from ..tools.tool_results import error_text

logger: Final = logging.getLogger("toolcast")

Band: TypeAlias = Literal["high", "moderate"]

HIGH: Final = 0.8
MODERATE: Final = 0.7
_DIGITS = 6
_TIE = 1e-6  # scores in single precision that are no further apart are equal
_WORTH_NUMPY = 30_000  # products of two numbers: about a millisecond
_SMALLEST, _LARGEST = 1e-150, 1e150  # lengths by which numbers can be divided as they are

_ADVISORIES: Final[dict[Band, str]] = {
    "high": (
        "Advisory: your last reflection has a high similarity to one that you wrote in an earlier cycle. "
        "In this cycle, turn to a distinctly different topic."
    ),
    "moderate": (
        "Advisory: your last reflection has a moderate similarity to one that you wrote in an earlier cycle. "
        "In this cycle, look for a direction that you have not taken yet."
    ),
}


@dataclass(frozen=True, slots=True)
class Similarity:
    """The similarity of a reflection to the nearest earlier one: its `cycle`, the cosine, and the band.

    All are None if there was nothing to compare. `error` is the reason if it could not be compared.
    """

    score: float | None = None
    band: Band | None = None
    cycle: int | None = None
    error: str | None = None

    @property
    def advisory(self) -> str | None:
        """The advisory in the next cycle's prompt."""
        return advisory_of(self.band)


def advisory_of(band: Band | None) -> str | None:
    """Return the advisory for a reflection in `band`."""
    return None if band is None else _ADVISORIES[band]


def embedded(embedder: Embedder, texts: Sequence[str]) -> list[list[float]]:
    """Return the vectors of `texts`, of length 1 or 0.

    Raises the embedder's errors, and `ValueError` for values that are not vectors.
    """
    units = [unit_vector(vector) for vector in embedder.embed(texts)]
    if len(units) != len(texts):
        raise ValueError(f"it gave {len(units)} vectors for {len(texts)} texts")
    found = [unit for unit in units if unit is not None]
    if len(found) != len(texts):
        raise ValueError("it gave a vector with a number that is not finite")
    return found


class SimilarityMonitor:
    """A monitor that compares each new reflection of a run with all earlier ones.

    Args:
        embedder: The source of the vectors; None compares nothing.
        high: A cosine above this is in the band "high".
        moderate: A cosine above this is in the band "moderate".
    """

    def __init__(self, embedder: Embedder | None, *, high: float = HIGH, moderate: float = MODERATE) -> None:
        self.embedder: Embedder | None = embedder
        self.high: float = high
        self.moderate: float = moderate
        self._stored: dict[int, _StoredVectors] = {}  # by the length of the vectors
        self._last = 0  # the latest cycle of which something is remembered
        self._name = getattr(embedder, "name", type(embedder).__name__)
        self._warned = False

    @safe_repr
    def __repr__(self) -> str:
        return f"SimilarityMonitor({self._name!r}, high={self.high}, moderate={self.moderate})"

    def check_similarity(self, new: Vector, history: Iterable[Vector] | None = None) -> str | None:
        """Return the advisory for an embedding; None if no earlier one is similar.

        Without a `history` it is compared with the reflections of this monitor, and added to them. With one it is
        compared with that alone, and nothing is stored.
        """
        unit = unit_vector(new)
        if unit is None:
            return None
        if history is None:
            return self._compare([unit], self._last + 1).advisory
        rows = [row for row in map(unit_vector, history) if row is not None and len(row) == len(unit)]
        return advisory_of(self._band(max(cosine(unit, row) for row in rows))) if rows else None

    def check(self, reflection: str, cycle: int) -> Similarity:
        """Compare `reflection`, that of `cycle`, with the earlier ones, and add it to them."""
        if not reflection.strip() or self.embedder is None:
            return Similarity()
        return self._compare(self._try_embed([reflection]), cycle)

    async def acheck(self, reflection: str, cycle: int) -> Similarity:
        """Compare a reflection as `check` does, with the embedder in a thread."""
        if not reflection.strip() or self.embedder is None:
            return Similarity()
        from anyio import to_thread

        result = await to_thread.run_sync(self._try_embed, [reflection], abandon_on_cancel=True)
        return self._compare(result, cycle)

    def remember(self, reflections: Iterable[tuple[int, str]]) -> None:
        """Add earlier reflections, each with its cycle, as when a run is resumed. They are embedded at once."""
        new = [(cycle, text) for cycle, text in reflections if text.strip()]
        if new and self.embedder is not None:
            self._store_all(new, self._try_embed([text for _, text in new]))

    async def aremember(self, reflections: Iterable[tuple[int, str]]) -> None:
        """Add earlier reflections as `remember` does, with the embedder in a thread."""
        new = [(cycle, text) for cycle, text in reflections if text.strip()]
        if new and self.embedder is not None:
            from anyio import to_thread

            texts = [text for _, text in new]
            self._store_all(new, await to_thread.run_sync(self._try_embed, texts, abandon_on_cancel=True))

    def _try_embed(self, texts: list[str]) -> list[list[float]] | str:
        """Return the vectors of `texts`, or the reason why there are none."""
        assert self.embedder is not None
        try:
            return embedded(self.embedder, texts)
        except Exception as error:  # the user's embedder: why it failed becomes the `error`
            return self._failed(error)

    def _compare(self, result: list[list[float]] | str, cycle: int) -> Similarity:
        if isinstance(result, str):
            return Similarity(error=result)
        (vector,) = result
        seen = self._stored.get(len(vector))
        score, nearest = (None, None) if seen is None else seen.nearest(vector)
        self._store(vector, cycle)
        return Similarity(score, None if score is None else self._band(score), nearest)

    def _store_all(self, new: list[tuple[int, str]], result: list[list[float]] | str) -> None:
        if not isinstance(result, str):
            for (cycle, _), vector in zip(new, result, strict=True):
                self._store(vector, cycle)

    def _store(self, vector: list[float], cycle: int) -> None:
        self._stored.setdefault(len(vector), _StoredVectors()).add(vector, cycle)
        self._last = max(self._last, cycle)

    def _band(self, score: float) -> Band | None:
        return "high" if score > self.high else "moderate" if score > self.moderate else None

    def _failed(self, error: Exception) -> str:
        """Return the text of `error`; log the first one."""
        what = error_text(error)
        if not self._warned:
            self._warned = True
            logger.warning(
                "the embedder %s failed: %s. The run goes on, such reflections are not compared with earlier ones; "
                "to do without, set `similarity: {embedder: none}`",
                self._name,
                what,
            )
        return what


class _StoredVectors:
    """The vectors of earlier reflections, all of one length, with their cycles."""

    def __init__(self) -> None:
        self._cycles: list[int] = []
        self._rows: _ListRows | _MatrixRows = _ListRows()

    def add(self, row: list[float], cycle: int) -> None:
        """Add a vector."""
        self._rows.add(row)
        self._cycles.append(cycle)

    def nearest(self, vector: list[float]) -> tuple[float, int]:
        """Return the score and the cycle of the nearest, the earliest of equal ones."""
        if isinstance(self._rows, _ListRows) and (numpy := _numpy_for(len(self._cycles) * len(vector))) is not None:
            self._rows = _MatrixRows(numpy, self._rows.rows)
        score, at = self._rows.nearest(vector)
        return score, self._cycles[at]


class _ListRows:
    """Rows without numpy."""

    def __init__(self) -> None:
        self.rows: list[list[float]] = []

    def add(self, row: list[float]) -> None:
        self.rows.append(row)

    def nearest(self, vector: list[float]) -> tuple[float, int]:
        """Return the score and the index of the first of the nearest."""
        scores = [cosine(vector, row) for row in self.rows]
        best = max(scores)
        return best, scores.index(best)


class _MatrixRows:
    """Rows of one array, which is doubled when it is full."""

    def __init__(self, numpy: Any, rows: list[list[float]]) -> None:
        self._numpy: Any = numpy
        self._count = len(rows)
        self._array: Any = numpy.asarray(rows, numpy.float32)

    def add(self, row: list[float]) -> None:
        if self._count == len(self._array):
            self._array = self._numpy.concatenate((self._array, self._numpy.empty_like(self._array)))
        self._array[self._count] = row
        self._count += 1

    def nearest(self, vector: list[float]) -> tuple[float, int]:
        """Return the score and the index of the first of the nearest."""
        rows = self._array[: self._count]
        close = rows @ self._numpy.asarray(vector, rows.dtype)
        at = int((close >= close.max() - _TIE).argmax())
        return cosine(vector, rows[at].tolist()), at


def _numpy_for(products: int) -> Any:
    """Return numpy if it is imported, or installed and worth importing for so many products; else None."""
    if "numpy" not in sys.modules and products < _WORTH_NUMPY:
        return None
    try:
        return import_module("numpy")
    except ImportError:
        return None


def unit_vector(vector: Vector) -> list[float] | None:
    """Normalise `vector` to length 1; zeros stay as they are. Returns None if a number is not finite."""
    convert: Any = getattr(vector, "tolist", None)  # arrays: many times as fast as one number after the other
    values = list(map(float, vector if convert is None else convert()))
    length = hypot(*values)
    if not _SMALLEST < length < _LARGEST and any(values):
        largest = max(map(abs, values))
        values = [value / largest for value in values]
        length = hypot(*values)
        if not isfinite(length):
            return None
    return [value / length for value in values] if length else values


def cosine(one: list[float], other: list[float]) -> float:
    """Return the cosine of two vectors of length 1."""
    return round(float(sum(map(mul, one, other))), _DIGITS)
