"""`SavedResults`: the files that a job has written, and what happens to existing ones."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from ...html_repr import table
from ...lazy_dataclasses import dataclass
from ...usage import NO_USAGE, Usage

IfExists: TypeAlias = Literal["error", "replace", "append"]


@dataclass(frozen=True, slots=True)
class SavedResults:
    """The files that a job has written.

    Attributes:
        path: The file of the outputs.
        errors: The file of the errors, from which the failed items can be run again; None if there were none.
        done: The number of outputs.
        failed: The number of errors.
        usage: The tokens and the cost of all items.
        first_error: The first error; None if there were none.
    """

    path: Path
    errors: Path | None
    done: int
    failed: int
    usage: Usage = NO_USAGE
    first_error: Exception | None = None

    def __str__(self) -> str:
        failed = f", {self.failed} errors in {self.errors}" if self.failed else ""
        return f"{self.done} outputs in {self.path}{failed}; {self.usage.describe()}"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        rows = [
            ("path", str(self.path)),
            ("done", self.done),
            ("errors", None if self.errors is None else str(self.errors)),
            ("failed", self.failed or None),
            ("first error", None if self.first_error is None else str(self.first_error)),
            ("usage", self.usage.describe()),
        ]
        return table("SavedResults", rows)
