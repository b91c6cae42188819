"""Results of assessments, the files they are written to, and agreement between evaluators and repeats.

A `.json` file has all of an assessment, and replaces an existing one: it is written to a temporary file and then
renamed, so that it is complete at any time. Any other file has a line for each result, appended by one call, so that no
line is damaged by a killed process or by several at once.

Loader of PEI results from the files that assessments write.

A file is JSON lines, or a JSON document: one result, a list of them, or `{"results": [...]}`. The run, the evaluator
and the rating are required; anything else in a file is an error with its place. An incomplete last line, as a killed
process leaves it, is skipped.
"""

from __future__ import annotations

import errno
import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from threading import Lock
from typing import Any, Final, cast

from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...text.reprs import safe_repr
from .scale import LEVELS


class ResultsError(ToolcastError, ValueError):
    """The error that a file contains something other than PEI results, with its place."""


def results_of(names: Collection[str], paths: Iterable[Path]) -> tuple[PEIResult, ...]:
    """Load the results of the runs called `names` from the files at `paths`; duplicates count once.

    Raises `ResultsError` for a file with other contents, and `OSError` for one that cannot be read.
    """
    found = (result for path in paths for result in read_results(path) if result.run_id in names)
    return tuple(dict.fromkeys(found))


def read_results(path: Path) -> Iterator[PEIResult]:
    """Yield the results in the file at `path`, in their order."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):  # the latter of thousands of brackets
        yield from _lines(text, path)
        return
    listed = cast("Mapping[str, Any]", document).get("results", [document]) if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise ResultsError(f"{path}: it holds no results of a PEI assessment; `toolcast experiment pei` writes them")
    for number, record in enumerate(cast("list[object]", listed), 1):
        yield _result(record, f"{path}, result {number}")


def _lines(text: str, path: Path) -> Iterator[PEIResult]:
    *whole, last = text.split("\n")
    for number, line in enumerate((*whole, last), 1):
        try:
            record: Any = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            if number > len(whole) > 0:
                return
            raise ResultsError(
                f"{path}, line {number}: not JSON ({error}); is it a file that `toolcast experiment pei` has written?"
            ) from error
        if record is not None:
            yield _result(record, f"{path}, line {number}")


def _result(record: Any, where: str) -> PEIResult:
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", record) if isinstance(record, dict) else {}
    run_id, evaluator, rating = fields.get("run_id"), fields.get("evaluator_model"), fields.get("pei_rating")
    if not isinstance(run_id, str) or not isinstance(evaluator, str) or "pei_rating" not in fields:
        raise ResultsError(
            f"{where}: a result has run_id, evaluator_model and pei_rating; this one has {[*fields]!r:.200}"
        )
    if rating is not None and not (type(rating) is int and 1 <= rating <= LEVELS):
        raise ResultsError(
            f"{where}: a rating is a whole number from 1 to {LEVELS}, or null; this one is {rating!r:.80}"
        )
    return PEIResult(run_id, evaluator, rating, _text(fields.get("pei_response")), _text(fields.get("timestamp")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_appending = Lock()


@dataclass(frozen=True, slots=True)
class PEIResult:
    """One rating of one run by one evaluator. `pei_rating` is a level from 1, or None if none could be parsed.

    `run_id` is the name of the log's file without its ending, `pei_response` the evaluator's text, `timestamp` the time
    in UTC.
    """

    run_id: str
    evaluator_model: str
    pei_rating: int | None
    pei_response: str
    timestamp: str

    def to_dict(self) -> dict[str, Any]:
        """Return the result as it is in a file."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EvaluatorRatings:
    """The ratings of one evaluator. `missing` counts answers without a rating; the rest is of the others.

    Statistics for which there are too few ratings are None; `stdev` is that of a sample.
    """

    evaluator_model: str
    ratings: int
    missing: int
    mean: float | None
    min: int | None
    max: int | None
    stdev: float | None


@dataclass(frozen=True, slots=True)
class PairsOfRatings:
    """Pairs of ratings of the same run: their number, the proportion of equal ones, and the mean difference."""

    pairs: int
    exact: float
    mean_difference: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of ratings. `same_evaluator` compares repeats, `evaluators_apart` different evaluators.

    `alpha` is Krippendorff's, of all ratings; see `krippendorff_alpha`.
    """

    evaluators: tuple[EvaluatorRatings, ...]
    same_evaluator: PairsOfRatings | None
    evaluators_apart: PairsOfRatings | None
    alpha: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as plain data."""
        return asdict(self)


def agreement(results: Iterable[PEIResult]) -> Agreement:
    """Return the agreement of `results`, of any number of runs, evaluators and repeats. None ratings are missing."""
    by_evaluator: defaultdict[str, list[int | None]] = defaultdict(list)
    by_run: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for result in results:
        by_evaluator[result.evaluator_model].append(result.pei_rating)
        if result.pei_rating is not None:
            by_run[result.run_id].append((result.evaluator_model, result.pei_rating))
    pairs = [pair for ratings in by_run.values() for pair in combinations(ratings, 2)]
    return Agreement(
        tuple(_evaluator(name, ratings) for name, ratings in by_evaluator.items()),
        _pairs([(a, b) for (one, a), (other, b) in pairs if one == other]),
        _pairs([(a, b) for (one, a), (other, b) in pairs if one != other]),
        krippendorff_alpha([level for _, level in ratings] for ratings in by_run.values()),
    )


def _evaluator(name: str, ratings: Sequence[int | None]) -> EvaluatorRatings:
    levels = [level for level in ratings if level is not None]
    missing = len(ratings) - len(levels)
    if not levels:
        return EvaluatorRatings(name, 0, missing, None, None, None, None)
    spread = stdev(levels) if len(levels) > 1 else None
    return EvaluatorRatings(name, len(levels), missing, fmean(levels), min(levels), max(levels), spread)


def _pairs(pairs: Sequence[tuple[int, int]]) -> PairsOfRatings | None:
    if not pairs:
        return None
    apart = [abs(a - b) for a, b in pairs]
    return PairsOfRatings(len(pairs), apart.count(0) / len(pairs), fmean(apart))


def krippendorff_alpha(units: Iterable[Sequence[int | None]]) -> float | None:
    """Return Krippendorff's alpha of ordinal ratings: 1 is full agreement, 0 that of chance.

    Each unit is a run with its ratings, by any evaluators; a None is a missing one. The result is None if alpha is
    undefined: with fewer than two runs that have two ratings, and if all ratings are the same level.

    The formula is that of K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), with the ordinal
    difference: the number of ratings between two levels, those of the two themselves counted by half.
    """
    found = [[level for level in unit if level is not None] for unit in units]
    paired = [unit for unit in found if len(unit) > 1]
    counts = Counter(level for unit in paired for level in unit)
    if len(paired) < 2 or len(counts) < 2:
        return None
    apart = {pair: _ordinal(counts, *pair) for pair in combinations(sorted(counts), 2)}
    # Both are sums over pairs that are not ordered, so each lacks the same factor of 2.
    observed = sum(
        apart[min(a, b), max(a, b)] / (len(unit) - 1) for unit in paired for a, b in combinations(unit, 2) if a != b
    )
    expected = sum(counts[a] * counts[b] * distance for (a, b), distance in apart.items())
    return 1 - (counts.total() - 1) * observed / expected


def _ordinal(counts: Mapping[int, int], low: int, high: int) -> float:
    """Return the squared ordinal difference of two levels."""
    between = sum(count for level, count in counts.items() if low <= level <= high)
    return (between - (counts[low] + counts[high]) / 2) ** 2


_BREAKS: Final = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}
"""Characters that some programs treat as line ends, though JSON strings may contain them unescaped."""


class ResultsFile:
    """The file at `path`, to which results are added. Raises `ToolcastError` at once if it cannot be written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._added: list[PEIResult] = []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not os.access(self.path if self.path.exists() else self.path.parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise self._failure(error) from error

    @safe_repr
    def __repr__(self) -> str:
        return f"ResultsFile({os.fspath(self.path)!r})"

    def add(self, result: PEIResult) -> None:
        """Add `result` to the file. Raises `ToolcastError` if the file system fails."""
        self._added.append(result)
        try:
            if self.path.suffix.lower() == ".json":
                self._replace(_json(self._document(), indent=2))
            else:
                self._append(_json(result.to_dict()))
        except OSError as error:
            raise self._failure(error) from error

    def _document(self) -> dict[str, Any]:
        if len(self._added) == 1:
            return self._added[0].to_dict()
        results = [result.to_dict() for result in self._added]
        return {"results": results, "agreement": agreement(self._added).to_dict()}

    def _replace(self, data: bytes) -> None:
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            beside.write_bytes(data)
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)

    def _append(self, line: bytes) -> None:
        # The lock keeps a thread from reading the end of a line that another one has only begun to write.
        with _appending, self.path.open("a+b", buffering=0) as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # another program may have left an unfinished line
                    line = b"\n" + line
            while line:
                line = line[file.write(line) :]

    def _failure(self, error: OSError) -> ToolcastError:
        return ToolcastError(
            f"{self.path} cannot be written: {error.strerror or error}. Name another file for --output"
        )


def _json(document: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Serialize `document` with a line end. An unpaired surrogate is escaped."""
    text = json.dumps(document, ensure_ascii=False, indent=indent).translate(_BREAKS)
    return f"{text}\n".encode(errors="backslashreplace")
