"""Loader of PEI results from the files that assessments write.

A file is JSON lines, or a JSON document: one result, a list of them, or `{"results": [...]}`. The run, the evaluator
and the rating are required; anything else in a file is an error with its place. An incomplete last line, as a killed
process leaves it, is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ...errors import ToolcastError
from .results import PEIResult
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
