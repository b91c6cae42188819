"""Results of assessments, and the files they are written to and loaded from.

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
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from ...errors import ToolcastError
from ...text.reprs import safe_repr
from .agreement import PEIResult, agreement
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
