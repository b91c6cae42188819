"""Progress of a run in figures, folded from its events while it runs: what a person wants to see of it.

Like the summary of a report, and unlike `RunState`, it accepts any log: events without messages, as a grid sends them,
the published format, a log that begins in the middle. It stores figures and the last reflection only, so that its size
does not depend on the length of the log. Times are those of the log's timestamps, in seconds since 1970.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, Final, cast

from ..values.states import State
from .log_events import LogEvent

_RECENT_REQUESTS: Final = 10
_RECENT_CYCLES: Final = 5
_ENDS: Final[Mapping[str, State]] = {"completed": "complete", "failed": "error", "interrupted": "cancelled"}


class RunProgress:
    """The progress of one run. `apply` adds an event.

    Args:
        run_id: The name of the run, until an event has it.
        cycle_count: The number of cycles, until an event has it; None if it is unknown.
        completed: The number of cycles that have ended before.

    Attributes:
        cycle_number: The cycle that `is_open`, or else the last one.
        completed: The number of cycles that have ended.
        state: The state of the cycle, as the table `CYCLE` (toolcast.values.states) names it.
        tool: The tool that is being called in the state `dispatch_tool`.
        state_since: The time of the last event, after which nothing is known.
        status: The outcome, as `RUN_END` has it, or None.
        reflection: The last reflection that is not empty, of the cycle `reflection_cycle`.
    """

    def __init__(self, run_id: str = "", cycle_count: int | None = None, completed: int = 0) -> None:
        self.run_id: str = run_id
        self.model_name: str = ""
        self.cycle_count: int | None = cycle_count
        self.cycle_number: int = completed
        self.completed: int = completed
        self.is_open: bool = False
        self.state: State = ""
        self.tool: str = ""
        self.started: float | None = None
        self.state_since: float | None = None
        self.status: str | None = None
        self.input_tokens: int = 0
        self.output_tokens: int = 0
        self.tools: Counter[str] = Counter()
        self.memory_keys: set[str] = set()
        self.reflection: str = ""
        self.reflection_cycle: int = 0
        self.similarity: float | None = None
        self.similar_to: int | None = None
        self.advisory: str | None = None
        self.errors: int = 0
        self.last_error: str = ""
        self._waiting: deque[str] = deque()
        self._requests: deque[tuple[int, float]] = deque(maxlen=_RECENT_REQUESTS)
        self._cycles: deque[float] = deque(maxlen=_RECENT_CYCLES)
        self._cycle_began: float | None = None

    @property
    def has_begun(self) -> bool:
        """True after the first event."""
        return bool(self.state)

    @property
    def tool_calls(self) -> int:
        """The calls of all tools."""
        return self.tools.total()

    @property
    def total_tokens(self) -> int:
        """The input and output tokens of all requests."""
        return self.input_tokens + self.output_tokens

    @property
    def tokens_per_second(self) -> float | None:
        """The output tokens for each second of the last requests; None if it was not measured."""
        requests = tuple(self._requests)  # a copy: a thread that draws may read this while an event is added
        seconds = sum(seconds for _, seconds in requests)
        return sum(tokens for tokens, _ in requests) / seconds if seconds > 0 else None

    @property
    def seconds_per_cycle(self) -> float | None:
        """The mean duration of the last cycles; None before the first has ended."""
        return fmean(tuple(self._cycles)) if self._cycles else None

    def seconds_left(self, now: float, seconds_per_cycle: float | None = None) -> float | None:
        """Estimate the seconds until the end from those of the last cycles; None if there is no estimate.

        `seconds_per_cycle` is used until the first cycle has ended.
        """
        mean = self.seconds_per_cycle if self._cycles else seconds_per_cycle
        if self.status is not None or self.cycle_count is None or mean is None:
            return None
        left = mean * max(self.cycle_count - self.completed, 0)
        if self.is_open and self._cycle_began is not None:
            left -= min(max(now - self._cycle_began, 0.0), mean)
        return max(left, 0.0)

    def apply(self, event: LogEvent) -> None:
        """Add an event. Unknown events change nothing but the time."""
        moment = _moment(event.timestamp)
        self.run_id = event.run_id or self.run_id
        self.state_since = self.state_since if moment is None else moment
        if self.started is None:
            self.started = moment
        if step := self._steps.get(event.event_type):
            step(self, event, event.payload, event.measures)

    def _run_starts(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        config = _mapping(payload.get("config"))
        self.status = None
        self.started = self.state_since
        self.model_name = _text(config.get("model_name")) or self.model_name
        self.cycle_count = _count(config.get("cycle_count")) or self.cycle_count
        self.completed = max((_count(payload.get("first_cycle")) or 1) - 1, 0)
        self.cycle_number = max(self.cycle_number, self.completed)
        self._cycle_began = self.state_since
        self.state = ("dispatch_tool" if self._waiting else "invoke_llm") if self.is_open else "load_state"

    def _cycle_starts(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        self.cycle_number, self.is_open, self._cycle_began = event.cycle_number, True, self.state_since
        self._waiting.clear()
        self.state, self.tool = "invoke_llm", ""

    def _model_answers(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        tokens, seconds = _count(measures.get("output_tokens")) or 0, measures.get("seconds")
        self.input_tokens += _count(measures.get("input_tokens")) or 0
        self.output_tokens += tokens
        if tokens and isinstance(seconds, (int, float)):
            self._requests.append((tokens, float(seconds)))
        self._waiting = deque(_called(payload))
        if "response_message" in payload:
            self.state = "dispatch_tool" if self._waiting else "finalize_cycle"
        else:
            self.state = "parse_response"
        self._next_tool()

    def _tool_answers(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        name, output = _text(payload.get("tool_name")), _text(payload.get("output"))
        self.tools[name] += 1
        key = _text(_mapping(payload.get("parameters")).get("key"))
        if name == "write" and output.startswith(("Wrote value", "Updated key")):
            self.memory_keys.add(key)
        elif name == "delete" and output.startswith("Deleted key"):
            self.memory_keys.discard(key)
        if self._waiting:
            self._waiting.popleft()
        self.state = "dispatch_tool" if self._waiting else "invoke_llm"
        self._next_tool()

    def _cycle_ends(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        seconds, similarity = measures.get("seconds"), measures.get("similarity")
        if isinstance(seconds, (int, float)):
            self._cycles.append(float(seconds))
        elif self._cycle_began is not None and self.state_since is not None:
            self._cycles.append(max(self.state_since - self._cycle_began, 0.0))
        self.cycle_number, self.completed, self.is_open = event.cycle_number, event.cycle_number, False
        if reflection := _text(payload.get("final_reflection")).strip():
            self.reflection, self.reflection_cycle = reflection, event.cycle_number
        self.similarity = float(similarity) if isinstance(similarity, (int, float)) else None
        self.similar_to = _count(measures.get("similar_to"))
        self.advisory = _text(measures.get("advisory")) or None
        self._waiting.clear()
        self.state, self.tool = "terminate_or_continue", ""

    def _goes_wrong(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        if payload.get("kind") == "limit":
            self.state = "finalize_cycle"
            return
        self.errors += 1
        self.last_error = _text(payload.get("message"))

    def _run_ends(self, event: LogEvent, payload: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        self.status = _text(payload.get("status")) or "stopped"
        self.state, self.tool = _ENDS.get(self.status, "terminate_or_continue"), ""

    def _next_tool(self) -> None:
        self.tool = self._waiting[0] if self._waiting else ""

    _steps: Final[Mapping[str, Callable[..., None]]] = {
        "RUN_START": _run_starts,
        "CYCLE_START": _cycle_starts,
        "LLM_INVOCATION": _model_answers,
        "TOOL_CALL": _tool_answers,
        "CYCLE_END": _cycle_ends,
        "ERROR": _goes_wrong,
        "RUN_END": _run_ends,
    }


def seconds_elapsed_of(runs: Sequence[RunProgress], now: float) -> float | None:
    """Return the seconds since the first of the runs that go on was started; those of all if all have ended."""
    live = [run for run in runs if run.has_begun and run.status is None]
    starts = [run.started for run in live or runs if run.started is not None]
    ends = [now] if live else [run.state_since for run in runs if run.state_since is not None]
    return max(max(ends) - min(starts), 0.0) if starts and ends else None


def seconds_left_of(runs: Sequence[RunProgress], now: float) -> float | None:
    """Estimate the seconds until all `runs` have ended, as many at once as run now; None if there is no estimate."""
    means = [run.seconds_per_cycle for run in runs if run.seconds_per_cycle is not None]
    if not means:
        return None
    usual = fmean(means)
    each = [left for run in runs if (left := run.seconds_left(now, usual)) is not None]
    running = sum(run.has_begun and run.status is None for run in runs)
    return max(sum(each) / max(running, 1), *each) if each else None


def _called(payload: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a response calls."""
    calls = _mapping(payload.get("response_message")).get("tool_calls")
    listed = cast("list[object]", calls) if isinstance(calls, list) else []
    return [_text(_mapping(_mapping(call).get("function")).get("name")) for call in listed]


def _moment(timestamp: str) -> float | None:
    """Parse a timestamp of a log, which is UTC if it has no zone; None if it is invalid."""
    try:
        found = datetime.fromisoformat(timestamp)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
