"""How the figures are taken: CPU time of the whole process, rows in turn, the least of several rounds.

The time is read between the pieces: between two of them, at a few places, is a stop that only records the time it
is. So a row is measured exactly as it runs, and all rows at the same places. The garbage collector runs with the
thresholds that Python sets, after a full collection before each run.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from math import inf
from statistics import median
from time import process_time
from typing import Any

from documents import Document, chat_events

Read = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One way to read a document.

    `prepare` gets the document and its pieces outside the measured time, and gives a function that reads the pieces to
    their end and returns the last object it saw. `from_wire`: the pieces are server-sent events as bytes.
    """

    name: str
    prepare: Callable[[Document, Iterable[Any]], Read]
    from_wire: bool = False


WINDOWS = ((0.20, 0.30), (0.45, 0.55), (0.90, 1.00))
"""The parts of a document for whose pieces a cost is given: around 25 % and 50 %, and before 100 %."""

_MOST = 200_000  # characters in one measurement, of a document that is read several times
_ENOUGH = 5_000  # pieces in one measurement: a short document is read several times


class OutOfTime(BaseException):
    """A reader has used up its time; no `except Exception` on the way holds it up."""


class Marked:
    """Pieces that note the time in `times` whenever a reader comes past one of the places.

    A reader that passes one later than `deadline`, in CPU time of the process, is stopped with `OutOfTime`.
    """

    def __init__(self, pieces: Sequence[Any], places: Sequence[int], deadline: float = inf) -> None:
        self.times: list[float] = []
        self.deadline = deadline
        edges = [0, *places, len(pieces)]
        self._parts = [pieces[start:end] for start, end in pairwise(edges)]

    def __iter__(self) -> Iterator[Any]:
        stops = [self._note() for _ in self._parts[1:]]
        first, *others = self._parts
        return chain(first, *chain.from_iterable(zip(stops, others, strict=True)))

    def _note(self) -> Iterator[Any]:
        self.times.append(process_time())
        if self.times[-1] > self.deadline:
            raise OutOfTime
        yield from ()


@dataclass
class Figures:
    """What one row took for one document: seconds for all of it, and per piece at each window, by round."""

    whole: list[float] = field(default_factory=list)
    windows: list[list[float]] = field(default_factory=list)

    @property
    def least(self) -> float:
        """Seconds for the whole document, in the best round."""
        return min(self.whole)

    @property
    def spread(self) -> float:
        """How much more the median round took than the best."""
        return median(self.whole) / self.least - 1

    @property
    def per_piece(self) -> list[float]:
        """Seconds for one piece at each window, each in its best round."""
        return [min(window) for window in zip(*self.windows, strict=True)]

    @property
    def growth(self) -> float:
        """The cost of a piece at the end, in those at the first window."""
        costs = self.per_piece
        return costs[-1] / costs[0]


def compare(
    rows: Sequence[Row], document: Document, size: int, rounds: int, *, padded: bool = False
) -> dict[Row, Figures]:
    """The figures of each row for the document in pieces of `size` characters, from two rounds or more.

    What is made on the first use is made in the first round, which is then not the best one.
    """
    figures = {row: Figures() for row in rows}
    texts = document.pieces(size)
    sources = {True: chat_events(texts, document.type.__name__, padded=padded), False: texts}
    for _ in range(rounds):
        for row, found in figures.items():
            _measure(row, document, sources, found)
    return figures


def _measure(row: Row, document: Document, sources: dict[bool, list[Any]], found: Figures) -> None:
    count, head = len(sources[False]), int(row.from_wire)  # one event comes before those of the pieces
    places = [head + int(count * place) for window in WINDOWS for place in window]
    often = min(_ENOUGH // count, _MOST // len(document.text)) or 1
    marked = [Marked(sources[row.from_wire], places) for _ in range(often)]
    reads = [row.prepare(document, pieces) for pieces in marked]
    gc.collect()
    begun = process_time()
    for read in reads:
        read()
    found.whole.append((process_time() - begun) / len(reads))
    costs = [least / max(number, 1) for least, number in zip(_least(marked), _steps(places), strict=True)]
    found.windows.append(costs)


def _least(marked: Sequence[Marked]) -> list[float]:
    """Seconds for each window, the least of all readings of this round."""
    return [min(window) for window in zip(*(_steps(pieces.times) for pieces in marked), strict=True)]


def _steps(edges: Sequence[Any]) -> list[Any]:
    """How far it is from each first to each second of the edges."""
    return [end - start for start, end in zip(edges[::2], edges[1::2], strict=True)]


def held(read: Read) -> tuple[int, int]:
    """The most bytes that Python had allocated during `read`, and those that its result keeps."""
    gc.collect()
    tracemalloc.start()
    try:
        result = read()
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del result
    return peak, kept


def ready_times(programs: Sequence[str | list[str]], rounds: int) -> list[float]:
    """Return the seconds of CPU of a fresh process for each of these programs, above those of an empty one.

    A program is Python code, or a command with its arguments. They run in turn, the least of the rounds counts. Their
    modules are compiled to bytecode before the first.
    """
    empty, *costs = ([] for _ in range(len(programs) + 1))
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(rounds + 1):
        for program, seconds in zip(("", *programs), (empty, *costs), strict=True):
            before = _children()
            command = [sys.executable, "-c", program] if isinstance(program, str) else program
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            seconds.append(_children() - before)
    return [min(seconds[1:]) - min(empty[1:]) for seconds in costs]


def _children() -> float:
    """Return the CPU seconds of the processes that this one has started and waited for."""
    from resource import RUSAGE_CHILDREN, getrusage  # Windows has none; `os.times` counts in steps of 10 ms

    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def import_time(statements: str, rounds: int) -> float:
    """Seconds of wall clock for these statements in a fresh interpreter, in the best round."""
    code = f"from time import perf_counter as now; begun = now()\n{statements}\nprint(now() - begun)"
    command = [sys.executable, "-c", code]
    return min(float(subprocess.check_output(command, text=True)) for _ in range(rounds))
