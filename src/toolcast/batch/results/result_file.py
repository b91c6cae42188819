"""`ResultFile`: the outputs of a job in a file, and its errors in a file of their own.

While the job runs, the file is `NAME.part`, to which each outcome is written when it comes; at the end of the job it is
renamed. So a file with its own name is complete, and after an early end nothing that was paid for is lost.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from ...errors import error_to_dict
from ...json_text import json_text
from ...usage import NO_USAGE
from ..files import ERRORS_SUFFIX
from ..outcome import Outcome
from .saved_results import IfExists, SavedResults


class PartFile:
    """A file that has the name `NAME.part` until it is complete. A link is followed; a device or a pipe is written to.

    Args:
        path: The name of the complete file.
        if_exists: For a complete file, or one that an earlier job has left incomplete: `"error"`, `"replace"`, or
            `"append"`, by which the complete file is copied first.

    Raises:
        FileExistsError: If there is such a file, with `"error"`.
        IsADirectoryError: If it is a folder.
        PermissionError: If its folder cannot be written to.
    """

    def __init__(self, path: Path, if_exists: IfExists) -> None:
        self.path = path
        self.target: Path = path.resolve() if path.is_symlink() else path
        self.part: Path = self.target.with_name(f"{self.target.name}.part")
        self.appends: bool = False
        if self.target.is_dir():
            raise IsADirectoryError(f"{path} is a folder: name a file in it")
        self.is_stream: bool = self.target.exists() and not self.target.is_file()
        if self.is_stream:
            self.part = self.target
            return
        if if_exists == "error" and path.exists():
            raise FileExistsError(
                f'{path} exists: if_exists="replace" replaces it, if_exists="append" adds to it; or use another name'
            )
        if if_exists != "replace" and self.part.exists():
            raise FileExistsError(
                f"{self.part} has the results of a job that did not end: move it to another name to keep them, or "
                "delete it"
            )
        self.target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.target.parent, os.W_OK):
            raise PermissionError(f"{path}: its folder cannot be written to; use another one")
        self.appends = if_exists == "append" and path.exists()
        if self.appends:
            shutil.copyfile(path, self.part)

    def open(self) -> IO[bytes]:
        """Open the incomplete file for writing, at the start of a line."""
        file = self.part.open("ab+" if self.appends else "wb")
        if self.appends and (size := file.seek(0, os.SEEK_END)):
            file.seek(size - 1)
            if file.read(1) != b"\n":
                file.write(b"\n")
        return file

    def complete(self) -> None:
        """Give the file its name, with its contents on the disk."""
        if self.is_stream:
            return
        with self.part.open("rb+") as file:
            os.fsync(file.fileno())
        self.part.replace(self.target)

    def remove(self, *, complete: bool) -> None:
        """Delete what is there of the file: the incomplete one, and the `complete` one."""
        if not self.is_stream:
            for path in (self.part, *([self.target] if complete else [])):
                path.unlink(missing_ok=True)


class ResultFile(ABC):
    """A file of outputs. Subclasses define its format.

    Args:
        path: The file.
        if_exists: What happens to a file of the same name.
    """

    def __init__(self, path: str | os.PathLike[str], if_exists: IfExists) -> None:
        self.file: PartFile = PartFile(Path(path), if_exists)

    @abstractmethod
    def write(self, outcome: Outcome[Any]) -> None:
        """Write an outcome that has an output. Raise `ValueError` if it does not fit the format."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class JSONLinesFile(ResultFile):
    """Outcomes as JSON, one on each line: index, key, input, output or error, attempts, tokens, cost and seconds."""

    def __init__(self, path: str | os.PathLike[str], if_exists: IfExists = "replace") -> None:
        super().__init__(path, if_exists)
        self._file = self.file.open()

    def write(self, outcome: Outcome[Any], error: Exception | None = None) -> None:
        """Write an outcome, or with an `error` the outcome that does not fit another format."""
        self._file.write(f"{outcome_json(outcome, error)}\n".encode())
        self._file.flush()  # to the system: it survives the end of the process

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def outcome_json(outcome: Outcome[Any], error: Exception | None = None) -> str:
    """Return an outcome as a line of JSON, with `error` in place of its own."""
    usage = outcome.usage
    record: dict[str, Any] = {"index": outcome.index, "key": outcome.key, "input": outcome.input}
    if outcome.error is None:
        record["output"] = outcome.output
    if failure := error or outcome.error:
        record["error"] = error_to_dict(failure)
    record |= {
        "attempts": outcome.attempts,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": None if usage.cost is None else str(usage.cost),
        "seconds": round(outcome.seconds, 3),
    }
    return _to_json(record)


def _to_json(record: dict[str, Any]) -> str:
    try:
        return json_text(record, by_alias=False, fallback=str)
    except ValueError:  # bytes that are no text
        return json_text(record, by_alias=False, fallback=str, bytes_mode="base64")


def save_outcomes(
    outcomes: Iterable[Outcome[Any]], file: ResultFile, errors: str | os.PathLike[str] | None = None
) -> SavedResults:
    """Write all outcomes to `file`, and those with an error to a file of their own.

    Args:
        outcomes: The outcomes. The file is complete at their end; if they end with an exception, what was written is in
            `NAME.part`, which a note of the exception names.
        file: The file, which is closed.
        errors: The file of the errors. Default: the name of the file and `.errors.jsonl`. It is only there if there are
            errors.
    """
    path = file.file.path
    errors_path = path.with_name(f"{path.name}{ERRORS_SUFFIX}") if errors is None else Path(errors)
    failures: JSONLinesFile | None = None
    done, failed, usage = 0, 0, NO_USAGE
    first_error: Exception | None = None
    try:
        try:
            earlier = PartFile(errors_path, "replace")  # checked before anything is sent
            if earlier.target.resolve() == file.file.target.resolve() and not earlier.is_stream:
                raise ValueError(f"errors={str(errors)!r} is the file of the outputs: use another name")
            for outcome in outcomes:
                usage += outcome.usage
                error = outcome.error or _write(file, outcome)
                if error is None:
                    done += 1
                    continue
                failures = failures or JSONLinesFile(errors_path)
                failures.write(outcome, error)
                failed += 1
                first_error = first_error or error
        finally:
            for each in (file, failures):
                if each is not None:
                    each.close()
    except BaseException as error:
        parts = [file.file, *([] if failures is None else [failures.file])]
        if done or failed:
            where = " and ".join(str(one.part) for one in parts)
            error.add_note(f"The outcomes until then, {done} outputs and {failed} errors, are in {where}")
        else:
            for one in parts:
                one.remove(complete=False)
        raise
    file.file.complete()
    if failures is not None:
        failures.file.complete()
    else:
        earlier.remove(complete=True)  # of a run in which some items had failed
    return SavedResults(path, None if failures is None else errors_path, done, failed, usage, first_error)


def _write(file: ResultFile, outcome: Outcome[Any]) -> ValueError | None:
    """Write an output; return the error if it does not fit the format of the file."""
    try:
        file.write(outcome)
    except ValueError as error:
        return error
    return None
