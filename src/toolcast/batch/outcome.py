"""`Outcome`: the result of one input of a batch job, an output or an error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from ..lazy.lazy_dataclasses import dataclass
from ..text.json_text import json_text
from ..values.html_repr import grid, table
from ..values.plain_data import to_plain
from ..values.usage import NO_USAGE, Usage, sum_usages

T = TypeVar("T")

_MOST_SHOWN: Final = 50
_MOST_COLUMNS: Final = 8
_WIDEST: Final = 200  # characters of a line


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The result of one input of a job. Either `output` or `error` is None.

    Attributes:
        index: The position of the input, from 0.
        key: The key that identifies the input in a checkpoint: the caller's, or a hash of the input with the number of
            its occurrence.
        input: The input as it was passed; for a row of a file that could not be read, its text.
        output: The validated output, or None.
        error: The exception that ended the item, or None.
        attempts: The number of requests that were sent.
        usage: Tokens, summed over all requests.
        seconds: The time from the start of the item to its end, waits included.
    """

    index: int
    key: str
    input: Any
    output: T | None = None
    error: Exception | None = None
    attempts: int = 0
    usage: Usage = NO_USAGE
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if there is an output."""
        return self.error is None

    @property
    def error_text(self) -> str | None:
        """The name of the error's class and its message, or None."""
        return None if self.error is None else f"{type(self.error).__name__}: {self.error}"

    @property
    def cost(self) -> Decimal | None:
        """The estimated cost of all requests in US dollars; None if it is unknown."""
        return self.usage.cost

    def _repr_html_(self) -> str:
        """Return HTML for notebooks. Secrets are masked."""
        rows = [
            ("input", to_plain(self.input)),
            ("output", None if self.output is None else to_plain(self.output)),
            ("error", self.error_text),
            ("requests", self.attempts),
            ("seconds", f"{self.seconds:.1f}"),
            ("usage", self.usage.describe()),
        ]
        return table(f"Outcome {self.index}", rows)


class OutcomeList(list[Outcome[T]]):
    """A list of outcomes, which a notebook shows as a table."""

    def describe(self) -> str:
        """Return the numbers of outcomes and errors, the tokens and the cost for a reader."""
        failed = sum(not outcome.ok for outcome in self)
        usage = sum_usages([outcome.usage for outcome in self])
        return f"{len(self):,} outcomes, {failed:,} failed, {usage.describe()}"

    def to_text(self) -> str:
        """Return a line for each of the first outcomes, for a terminal."""
        lines = [f"{each.index} {each.error_text or json_text(to_plain(each.output))}" for each in self[:_MOST_SHOWN]]
        cut = [line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…" for line in lines]
        return "\n".join([*cut, self.describe()])

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the fields of outputs as columns, if they are few. Secrets are masked."""
        shown = self[:_MOST_SHOWN]
        outputs: list[Any] = [None if outcome.output is None else to_plain(outcome.output) for outcome in shown]
        fields = _common_fields([output for output in outputs if output is not None])
        head = ["", "input", *(fields or ["output"]), "error"]
        rows: list[list[Any]] = []
        for outcome, output in zip(shown, outputs, strict=True):
            values: list[Any] = (
                [None if output is None else output.get(name) for name in fields] if fields else [output]
            )
            rows.append([outcome.index, _input(outcome.input), *values, outcome.error_text])
        if not any(outcome.error for outcome in shown):
            head, rows = head[:-1], [row[:-1] for row in rows]
        more = f" (the first {_MOST_SHOWN} are shown)" if len(self) > _MOST_SHOWN else ""
        return grid("Outcomes", head, rows, self.describe() + more)


def _common_fields(outputs: list[Any]) -> list[str]:
    """Return the names of the fields of all outputs, if all have fields and there are few of them."""
    if not all(isinstance(output, dict) for output in outputs):
        return []
    fields = list(dict.fromkeys([str(name) for output in outputs for name in output]))
    return fields if len(fields) <= _MOST_COLUMNS else []


def _input(value: Any) -> Any:
    """Return an input as data to show it: of a mapping with one value the value."""
    given: Any = to_plain(value)
    data: Any = given  # a second name, so that isinstance does not narrow it to Unknown
    return next(iter(data.values())) if isinstance(given, dict) and len(data) == 1 else data
