"""`evaluate`: the outcomes of a job compared with what was expected, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from typing import Any, TypeAlias, cast

from ..lazy.lazy_dataclasses import dataclass
from ..text.json_text import json_text
from ..text.terminal_text import visible
from ..values.html_repr import grid
from .metrics import MISSING, Metric, as_data, compare, exact, field_value
from .outcome import Outcome

Expected: TypeAlias = Sequence[Any] | Mapping[Any, Any] | Callable[[Outcome[Any]], Any]

WHOLE = "(output)"
"""The name of an output that is no object, in the place of a field's path."""

_SHOWN = 5  # errors, and worst cases
_WIDEST = 60  # characters of a value in a table


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """One field of one outcome.

    Attributes:
        index: The index of the input.
        key: The key of the input.
        path: The path of the field, such as `author.name`.
        score: From 0, wrong or missing, to 1.
        expected: The expected value, as JSON-compatible data; None if it has no such field.
        actual: The value of the output, likewise; None if there is no output.
        error: The error of an outcome that has no output, or None.
    """

    index: int
    key: str
    path: str
    score: float
    expected: Any
    actual: Any
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FieldScore:
    """The scores of one field, over all outcomes.

    Attributes:
        path: The path of the field.
        metric: The name of the metric.
        mean: The mean score. An outcome without an output counts as 0.
        stderr: The standard error of the mean: two means that differ by less than twice that may be equal.
        perfect: The number of outcomes with the score 1.
        count: The number of outcomes.
    """

    path: str
    metric: str
    mean: float
    stderr: float
    perfect: int
    count: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scores of a job's outcomes.

    Attributes:
        fields: The scores of each field.
        comparisons: All comparisons, by outcome and field.
        count: The number of outcomes.
        failed: The number of outcomes without an output.
    """

    fields: tuple[FieldScore, ...]
    comparisons: tuple[FieldComparison, ...]
    count: int
    failed: int

    @property
    def score(self) -> float:
        """The mean of the fields' mean scores."""
        return sum(field.mean for field in self.fields) / len(self.fields)

    def worst(self, count: int = 10, path: str | None = None) -> list[FieldComparison]:
        """Return the comparisons of outputs with the lowest scores, lowest first, without perfect ones.

        Args:
            count: The largest number of comparisons. Default: 10.
            path: Those of one field only. Default: all.
        """
        outputs = (each for each in self.comparisons if each.error is None)
        imperfect = [each for each in outputs if each.score < 1 and path in (None, each.path)]
        return sorted(imperfect, key=lambda each: (each.score, each.index))[:count]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data: the scores of the fields, and all comparisons."""
        return {
            "score": self.score,
            "count": self.count,
            "failed": self.failed,
            "fields": [as_data(field) for field in self.fields],
            "comparisons": [as_data(comparison) for comparison in self.comparisons],
        }

    def to_json(self) -> str:
        """Return the data of `to_dict` as JSON."""
        return json_text(self.to_dict())

    def __str__(self) -> str:
        """Return a table for a terminal: the score of each field, errors, and the worst cases."""
        head = ("field", "score", "+/-", "perfect", "metric")
        rows = [(field.path, *_numbers(field), field.metric) for field in self.fields]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [f"{self.count} outcomes, {self.failed} failed, score {self.score:.3f}", ""]
        for path, score, stderr, perfect, metric in (head, *rows):
            cells = (path.ljust(widths[0]), score.rjust(widths[1]), stderr.rjust(widths[2]), perfect.rjust(widths[3]))
            lines.append("  ".join([*cells, metric]).rstrip())
        cases = [f"  {each.index} {each.path} {each.score:.2f}: {_difference(each)}" for each in self.worst(_SHOWN)]
        errors = [f"  {index}: {_shortened(error)}" for index, error in self._errors()[:_SHOWN]]
        for title, shown in (("failed:", errors), ("worst:", cases)):
            lines += ["", title, *shown] if shown else []
        return "\n".join(map(visible, lines))

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        title = f"Evaluation: {self.score:.3f} ({self.count} outcomes, {self.failed} failed)"
        scores = [(field.path, *_numbers(field), field.metric) for field in self.fields]
        cases = [(each.index, each.path, f"{each.score:.2f}", each.expected, each.actual) for each in self.worst()]
        shown = grid(title, ("field", "score", "±", "perfect", "metric"), scores)
        if errors := self._errors():
            shown += grid("Failed", ("index", "error"), errors[:10])
        return shown + (grid("Worst cases", ("index", "field", "score", "expected", "got"), cases) if cases else "")

    def _errors(self) -> list[tuple[int, str]]:
        """Return the error of each outcome without an output, with its index."""
        return [*{each.index: each.error for each in self.comparisons if each.error is not None}.items()]


def evaluate(
    outcomes: Iterable[Outcome[Any]], expected: Expected, metrics: Mapping[str, Metric] | None = None
) -> Evaluation:
    """Compare the outcomes of a job with the expected outputs, field by field.

    Args:
        outcomes: The outcomes, in any order. An outcome with an error scores 0 in all fields.
        expected: The expected outputs: a sequence in the order of the inputs, a mapping by the keys of the job (or by
            indexes), or a function of the outcome. An expected output is a model, a mapping, a dataclass, or a value.
        metrics: The metric of each field, by its path, such as `{"name": exact, "author.age": numeric(1)}`; the path
            "" is the whole output. None: `exact` for each field of the expected outputs.

    Returns:
        The scores, with a table per field and the worst cases.

    Raises:
        ValueError: There are no outcomes or no fields, or an outcome has no expected output.
    """
    pairs = [(outcome, as_data(_expected(expected, outcome))) for outcome in outcomes]
    if not pairs:
        raise ValueError("there are no outcomes to evaluate; a job's iterator can be read once: keep list(job.run())")
    chosen = _all_fields([data for _, data in pairs]) if metrics is None else metrics
    if not chosen:
        raise ValueError("metrics={} compares nothing; name a field, or pass None for all of them")
    comparisons = [
        _comparison(outcome, data, path, metric) for outcome, data in pairs for path, metric in chosen.items()
    ]
    scores = [
        _field_score(path, metric, comparisons[at :: len(chosen)]) for at, (path, metric) in enumerate(chosen.items())
    ]
    failed = sum(not outcome.ok for outcome, _ in pairs)
    return Evaluation(tuple(scores), tuple(comparisons), len(pairs), failed)


def _expected(expected: Expected, outcome: Outcome[Any]) -> Any:
    """Return the expected output of one outcome."""
    given: Any = expected  # typed as Any, so that isinstance below does not narrow it to Unknown
    if callable(expected):
        return expected(outcome)
    names = (outcome.key, outcome.index) if isinstance(expected, Mapping) else (outcome.index,)
    known = given if isinstance(expected, Mapping) else range(len(given))
    for name in names:
        if name in known:
            return given[name]
    raise ValueError(
        f"there is no expected output for the input {outcome.index} with the key {outcome.key[:80]!r}: "
        f"expected= has {len(given)} values"
    )


def _all_fields(expected: Sequence[Any]) -> dict[str, Metric]:
    """Return `exact` for each field of the expected outputs, in the order of their first appearance."""
    chosen: dict[str, Metric] = {}
    for data in expected:
        if not isinstance(data, dict):
            return {"": exact}
        chosen |= dict.fromkeys(cast("dict[str, Any]", data), exact)
    return chosen


def _comparison(outcome: Outcome[Any], expected: Any, path: str, metric: Metric) -> FieldComparison:
    wanted = field_value(expected, path) if path else expected
    actual: Any = MISSING
    if outcome.ok:
        data = as_data(outcome.output)
        actual = field_value(data, path) if path else data
        score = compare(wanted, actual, metric)
    else:
        score = 0.0
    wanted, actual = (None if value is MISSING else value for value in (wanted, actual))
    return FieldComparison(outcome.index, outcome.key, path or WHOLE, score, wanted, actual, outcome.error_text)


def _field_score(path: str, metric: Metric, comparisons: Sequence[FieldComparison]) -> FieldScore:
    scores = [each.score for each in comparisons]
    mean, count = sum(scores) / len(scores), len(scores)
    variance = sum((score - mean) ** 2 for score in scores) / (count - 1) if count > 1 else 0.0
    perfect = sum(score == 1 for score in scores)
    return FieldScore(path or WHOLE, _name(metric), mean, sqrt(variance / count), perfect, count)


def _name(metric: Metric) -> str:
    """Return the name of a metric; of one that a function of this module made, that function's."""
    qualified = str(getattr(metric, "__qualname__", type(metric).__name__))
    return qualified.partition(".<locals>")[0].rpartition(".")[2]


def _numbers(field: FieldScore) -> tuple[str, str, str]:
    return f"{field.mean:.3f}", f"{field.stderr:.3f}", f"{field.perfect}/{field.count}"


def _difference(comparison: FieldComparison) -> str:
    return f"expected {_shortened(json_text(comparison.expected))}, got {_shortened(json_text(comparison.actual))}"


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
