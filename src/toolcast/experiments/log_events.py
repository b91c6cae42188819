"""Events of a run's log, one for each line, in ContReAct's format.

Every line is a JSON object with five keys: `timestamp`, `run_id`, `cycle_number`, `event_type`, `payload`. They are
followed by `schema_version`, the `sequence` number of the line from 0, and, if there were measurements, `measures`:
seconds, tokens, how a cycle ended. The payloads are exactly those of the published format; further data is in
`measures`, or in the events that are toolcast's own (RUN_START, RUN_END, ERROR).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from ..lazy.lazy_dataclasses import dataclass

SCHEMA_VERSION: Final = 1

EventType: TypeAlias = Literal[
    "RUN_START", "CYCLE_START", "LLM_INVOCATION", "TOOL_CALL", "CYCLE_END", "ERROR", "RUN_END"
]
"""RUN_START       {config, resumed, first_cycle, toolcast_version}
CYCLE_START     {}
LLM_INVOCATION  {prompt_messages, response_message, model_options}
TOOL_CALL       {tool_name, parameters, output}
CYCLE_END       {final_reflection, metrics}
ERROR           {kind, stage, error_type, message}
RUN_END         {status, cycles_completed}
"""

EndedBy: TypeAlias = Literal["reflection", "max_steps", "max_seconds", "max_tokens"]
"""The reason why a cycle ended."""

RunStatus: TypeAlias = Literal["completed", "failed", "interrupted", "stopped"]
"""The outcome of a run, or of a part of it."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One line of a log. `cycle_number` counts from 1; it is 0 for events outside of a cycle."""

    event_type: EventType
    cycle_number: int
    payload: Mapping[str, Any]
    measures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    run_id: str = ""
    timestamp: str = ""
    sequence: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the line as it is in the log."""
        line = {
            "timestamp": self.timestamp,
            "run_id": self.run_id,
            "cycle_number": self.cycle_number,
            "event_type": self.event_type,
            "payload": self.payload,
            "schema_version": SCHEMA_VERSION,
            "sequence": self.sequence,
        }
        return line | {"measures": self.measures} if self.measures else line

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> LogEvent:
        """Parse a line, of the published format too. Raises `KeyError` or `TypeError` for any other."""
        return cls(
            line["event_type"],
            line["cycle_number"],
            line["payload"],
            line.get("measures", {}),
            line["run_id"],
            line["timestamp"],
            line.get("sequence", 0),
        )


Listener: TypeAlias = Callable[[LogEvent], object]
"""A callback that gets each event once it is logged."""
