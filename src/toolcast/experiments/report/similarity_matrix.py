"""Similarity matrix of a run's reflections, each with each: the cosine of their embeddings.

It is computed from the reflections, not read from the log, which has only the nearest earlier one of each cycle. Of a
run with more reflections than a chart can show, an evenly spread sample is used. An embedder is foreign code: if it
fails, the matrix is empty and has the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...lazy.lazy_dataclasses import dataclass
from ...llms.embeddings.offline import Embedder
from ..similarity import cosine, embedded
from .summary import RunSummary

MOST: Final = 200
"""The maximum of reflections that are compared."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """A similarity matrix: `scores[i][j]` is the cosine of the reflections of `cycles[i]` and `cycles[j]`.

    `among` is the number of all reflections, of which `cycles` may be a sample.
    """

    cycles: tuple[int, ...] = ()
    scores: tuple[tuple[float, ...], ...] = ()
    among: int = 0
    embedder: str = ""
    error: str | None = None

    @property
    def pairs(self) -> list[tuple[float, int, int]]:
        """All pairs of cycles with their score, the most similar first."""
        found = [
            (score, self.cycles[column], self.cycles[row])
            for row, scores in enumerate(self.scores)
            for column, score in enumerate(scores[:row])
        ]
        return sorted(found, key=lambda pair: (-pair[0], pair[1:]))


def likeness_of(run: RunSummary, embedder: Embedder | None, most: int = MOST) -> Likeness:
    """Return the similarity matrix of the reflections of `run`. Never raises for errors of the embedder."""
    found = [(cycle.number, cycle.reflection) for cycle in run.cycles if cycle.reflection and cycle.reflection.strip()]
    if embedder is None or not found:
        return Likeness(among=len(found))
    chosen = [found[at * len(found) // most] for at in range(most)] if len(found) > most else found
    try:
        scores = _scores(_units(embedder, [text for _, text in chosen]))
    except Exception as error:  # the embedder is foreign code
        return Likeness(among=len(found), embedder=embedder.name, error=f"{type(error).__name__}: {error}")
    return Likeness(tuple(number for number, _ in chosen), scores, len(found), embedder.name)


def _units(embedder: Embedder, texts: Sequence[str]) -> list[list[float]]:
    """Return the vectors of `texts`, all of one length. Raises the embedder's errors."""
    units = embedded(embedder, texts)
    if len(sizes := {len(unit) for unit in units}) > 1:
        raise ValueError(f"it gave vectors of {' and '.join(map(str, sorted(sizes)))} numbers")
    return units


def _scores(units: Sequence[list[float]]) -> tuple[tuple[float, ...], ...]:
    """Return the whole matrix; half of it is computed."""
    rows = list[list[float]]()
    for at, unit in enumerate(units):
        rows.append([cosine(unit, other) for other in units[: at + 1]])
        for column, score in enumerate(rows[at][:at]):
            rows[column].append(score)
    return tuple(map(tuple, rows))
