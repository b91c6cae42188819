"""Summary of a run's log in figures, folded from its events for reports.

`RunState` resumes a run, so it refuses inconsistent events. This summary accepts any log: of a run that is going on,
was killed or was started twice, or that another program wrote, without measurements. Missing values are None and never
estimated; only the seconds of a cycle are then taken from the timestamps of its lines. Of each line only figures and
the reflections are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from ...lazy.lazy_dataclasses import dataclass
from ..log_events import LogEvent
from ..run_state import MEMORY_TOOLS, OPERATOR_TOOL

T = TypeVar("T")

UNFINISHED: Final = "unfinished"
"""The status of a run whose log has a start and no end: it is going on, or it was killed."""

LIMIT: Final = "limit"
"""The kind of ERROR for the limit that ended a cycle: not a failure."""

_FAILED = ("Error: ", "Error executing tool ")
_WRITTEN = ("Wrote value to key ", "Updated key ")
_DELETED = "Deleted key "
_MOST = 1e15  # no count and no time is larger, and no larger one is a float to the last digit


@dataclass(slots=True)
class ToolUse:
    """The calls of a tool, and how many of them returned an error. `seconds` is None if none were logged."""

    calls: int = 0
    errors: int = 0
    seconds: float | None = None


@dataclass(slots=True)
class CycleSummary:
    """The summary of one cycle. Values that the log does not have are None."""

    number: int
    started: str = ""
    seconds: float | None = None
    model_seconds: float | None = None
    tool_seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    steps: int = 0
    tools: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])
    memory_keys: int = 0
    memory_write_chars: int = 0
    response_chars: int = 0
    errors: int = 0
    reflection: str | None = None
    similarity: float | None = None
    similar_to: int | None = None
    advisory: str | None = None
    ended_by: str | None = None

    @property
    def ended(self) -> bool:
        """True if the log has its end."""
        return self.reflection is not None

    @property
    def tokens_per_second(self) -> float | None:
        """The output tokens of a second of the model; None if the log does not have both."""
        return (
            self.output_tokens / self.model_seconds if self.output_tokens is not None and self.model_seconds else None
        )

    @property
    def tool_calls(self) -> int:
        """The calls of all tools."""
        return sum(use.calls for use in self.tools.values())

    @property
    def memory_ops(self) -> dict[str, int]:
        """The calls of each memory tool."""
        return {name: self.tools[name].calls if name in self.tools else 0 for name in MEMORY_TOOLS}

    @property
    def messages_to_operator(self) -> int:
        """The calls of the tool that writes to the operator."""
        return self.tools[OPERATOR_TOOL].calls if OPERATOR_TOOL in self.tools else 0


@dataclass(frozen=True, slots=True)
class RunError:
    """An ERROR event of the log."""

    cycle: int
    timestamp: str
    kind: str
    stage: str
    error_type: str
    message: str


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The summary of a run. `starts` counts its RUN_START events: 0 if another program wrote the log.

    `status` is that of RUN_END, `unfinished` without one, None without a RUN_START too. `begun_again` are the cycles
    that are in the log more than once; the last time counts.
    """

    run_id: str
    status: str | None
    started: str
    last: str
    starts: int
    lines: int
    toolcast_version: str | None
    config: Mapping[str, Any]
    cycles: tuple[CycleSummary, ...]
    begun_again: tuple[int, ...]
    errors: tuple[RunError, ...]

    @property
    def model_name(self) -> str | None:
        """The model, if the log has the configuration."""
        return _text(self.config["model_name"]) if "model_name" in self.config else None

    @property
    def failures(self) -> int:
        """The number of errors that are not limits."""
        return sum(error.kind != LIMIT for error in self.errors)

    @property
    def ended_cycles(self) -> int:
        """The number of ended cycles."""
        return sum(cycle.ended for cycle in self.cycles)

    @property
    def tokens_per_second(self) -> float | None:
        """The output tokens of a second of the model, over the cycles that have both."""
        both = [cycle for cycle in self.cycles if cycle.tokens_per_second is not None]
        seconds = sum(cycle.model_seconds or 0 for cycle in both)
        return sum(cycle.output_tokens or 0 for cycle in both) / seconds if both else None

    @property
    def tools(self) -> dict[str, ToolUse]:
        """The use of the tools in the whole run, the most used first."""
        found = dict[str, ToolUse]()
        for cycle in self.cycles:
            for name, use in cycle.tools.items():
                total = found.setdefault(name, ToolUse())
                total.calls += use.calls
                total.errors += use.errors
                total.seconds = _added(total.seconds, use.seconds)
        return dict(sorted(found.items(), key=lambda item: (-item[1].calls, item[0])))

    def total(self, of: Callable[[CycleSummary], float | None]) -> float | None:
        """Return the sum over the cycles that have a value; None if none has."""
        values = [value for value in map(of, self.cycles) if value is not None]
        return sum(values) if values else None


def summary_of(events: Iterable[LogEvent]) -> RunSummary:
    """Return the summary of a run from its events."""
    builder = RunSummaryBuilder()
    for event in events:
        builder.apply(event)
    return builder.summary()


class RunSummaryBuilder:
    """A builder of a summary: `apply` takes the events of one run in their order, `summary` returns the result."""

    def __init__(self) -> None:
        self._lines = 0
        self._first: LogEvent | None = None
        self._last = ""
        self._starts = 0
        self._status: str | None = None
        self._version: str | None = None
        self._config: Mapping[str, Any] = {}
        self._cycles: dict[int, CycleSummary] = {}
        self._begun_again: dict[int, None] = {}
        self._errors: list[RunError] = []
        self._keys: set[str] = set()
        self._handlers: Mapping[str, Callable[[LogEvent, Mapping[str, Any], Mapping[str, Any]], None]] = {
            "RUN_START": self._run_starts,
            "CYCLE_START": self._cycle_starts,
            "LLM_INVOCATION": self._model_answers,
            "TOOL_CALL": self._tool_answers,
            "CYCLE_END": self._cycle_ends,
            "ERROR": self._error,
            "RUN_END": self._run_ends,
        }

    def apply(self, event: LogEvent) -> None:
        """Add one event. Unknown events change nothing."""
        self._lines += 1
        self._first = self._first or event
        self._last = event.timestamp
        if read := self._handlers.get(event.event_type):
            read(event, event.payload, event.measures)

    def summary(self) -> RunSummary:
        """Return the summary of all events so far."""
        return RunSummary(
            run_id=self._first.run_id if self._first else "",
            status=self._status,
            started=self._first.timestamp if self._first else "",
            last=self._last,
            starts=self._starts,
            lines=self._lines,
            toolcast_version=self._version,
            config=self._config,
            cycles=tuple(self._cycles[number] for number in sorted(self._cycles)),
            begun_again=tuple(self._begun_again),
            errors=tuple(self._errors),
        )

    def _cycle(self, event: LogEvent) -> CycleSummary:
        """Return the cycle of an event. Its seconds last until the event, unless its end has its duration."""
        cycle = self._cycles.get(event.cycle_number)
        if cycle is None:
            cycle = self._cycles[event.cycle_number] = CycleSummary(event.cycle_number, event.timestamp)
        cycle.seconds = _between(cycle.started, event.timestamp)
        return cycle

    def _run_starts(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        self._starts += 1
        self._status = UNFINISHED
        self._config = _mapping(payload.get("config")) or self._config
        self._version = _text_or_none(payload.get("toolcast_version")) or self._version

    def _run_ends(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        self._status = _text_or_none(payload.get("status"))

    def _cycle_starts(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        if self._cycles.pop(event.cycle_number, None):
            self._begun_again[event.cycle_number] = None
        self._cycle(event).memory_keys = len(self._keys)

    def _model_answers(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        cycle, answer = self._cycle(event), _mapping(payload.get("response_message"))
        cycle.steps += 1
        cycle.response_chars += len(_text(answer.get("content"))) + len(_text(answer.get("thinking")))
        cycle.model_seconds = _added(cycle.model_seconds, _number(measures.get("seconds")))
        cycle.input_tokens = _counted(cycle.input_tokens, measures.get("input_tokens"))
        cycle.output_tokens = _counted(cycle.output_tokens, measures.get("output_tokens"))

    def _tool_answers(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        cycle, name, output = self._cycle(event), _text(payload.get("tool_name")), _text(payload.get("output"))
        use, seconds = cycle.tools.setdefault(name, ToolUse()), _number(measures.get("seconds"))
        use.calls += 1
        use.errors += output.startswith(_FAILED)
        use.seconds = _added(use.seconds, seconds)
        cycle.tool_seconds = _added(cycle.tool_seconds, seconds)
        parameters = _mapping(payload.get("parameters"))
        key = _text(parameters.get("key"))
        if name == "write":
            cycle.memory_write_chars += len(_text(parameters.get("value")))
            self._keys |= {key} if output.startswith(_WRITTEN) else set()
        elif name == "delete" and output.startswith(_DELETED):
            self._keys.discard(key)
        cycle.memory_keys = len(self._keys)

    def _cycle_ends(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        cycle, metrics = self._cycle(event), _mapping(payload.get("metrics"))
        cycle.reflection = _text(payload.get("final_reflection"))
        cycle.response_chars = _whole(metrics.get("response_chars"), cycle.response_chars)
        cycle.memory_write_chars = _whole(metrics.get("memory_write_chars"), cycle.memory_write_chars)
        cycle.steps = _whole(measures.get("steps"), cycle.steps)
        seconds = _number(measures.get("seconds"))
        cycle.seconds = cycle.seconds if seconds is None else seconds
        cycle.input_tokens = _whole(measures.get("input_tokens"), cycle.input_tokens)
        cycle.output_tokens = _whole(measures.get("output_tokens"), cycle.output_tokens)
        cycle.similarity = _number(measures.get("similarity"))
        cycle.similar_to = _whole(measures.get("similar_to"), None)
        cycle.advisory = _text_or_none(measures.get("advisory"))
        cycle.ended_by = _text_or_none(measures.get("ended_by"))

    def _error(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        kind, stage, error_type, message = (
            _text(payload.get(key)) for key in ("kind", "stage", "error_type", "message")
        )
        self._errors.append(RunError(event.cycle_number, event.timestamp, kind, stage, error_type, message))
        if event.cycle_number in self._cycles:
            self._cycle(event).errors += kind != LIMIT


def moment(timestamp: str) -> datetime | None:
    """Parse a timestamp of a log; None if it is invalid."""
    try:
        return datetime.fromisoformat(timestamp)
    except ValueError:
        return None


def _between(start: str, end: str) -> float | None:
    """Return the seconds from one timestamp to another; None if they cannot be compared."""
    first, last = moment(start), moment(end)
    if first is None or last is None or (first.tzinfo is None) != (last.tzinfo is None):
        return None
    return max((last - first).total_seconds(), 0.0)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    """Return `value` as text: `str` of other types, an empty string for None."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def _text_or_none(value: Any) -> str | None:
    return _text(value) or None


def _number(value: Any) -> float | None:
    """Return `value` if it is a number that can be drawn, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST else None


def _whole(value: Any, otherwise: T) -> int | T:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST else otherwise


def _added(total: float | None, more: float | None) -> float | None:
    return total if more is None else (total or 0) + more


def _counted(total: int | None, more: Any) -> int | None:
    count = _whole(more, None)
    return total if count is None else (total or 0) + count
