"""Logs of runs, written by the logger itself on a clock that the test holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcast.experiments.event_log import JsonlLogger
from toolcast.experiments.log_events import EventType

BEGINNING = 1_790_000_000.0
CONFIG: dict[str, Any] = {
    "run_id": "run",
    "model_name": "local:smollm2",
    "cycle_count": 3,
    "model_options": {"seed": 7, "temperature": 0.7},
    "similarity": {"embedder": "words", "high": 0.8, "moderate": 0.7},
}
REFLECTIONS = (
    "I looked at the sea and wrote down what I saw: waves, wind, a gull that stayed.",
    "I thought about numbers. Primes thin out, and yet they never end.",
    "I looked at the sea again and wrote down what I saw: waves, wind, the same gull.",
)


@dataclass
class LogWriter:
    """Writes the lines of a run; each takes the seconds it is given."""

    path: Path
    run_id: str = "run"
    time: float = BEGINNING
    cycle: int = 0
    log: JsonlLogger = field(init=False)

    def __post_init__(self) -> None:
        self.log = JsonlLogger(self.path, self.run_id, now=lambda: self.time)

    def event(
        self, kind: EventType, payload: Mapping[str, Any], measures: Mapping[str, Any] | None = None, after: float = 0.0
    ) -> None:
        self.time += after
        self.log.log_event(kind, self.cycle, payload, measures or {})

    def start(self, config: Mapping[str, Any] | None = None, *, resumed: bool = False) -> LogWriter:
        chosen = {**CONFIG, "run_id": self.run_id, **(config or {})}
        at, self.cycle = self.cycle, 0
        first = {"config": chosen, "resumed": resumed, "first_cycle": at + 1, "toolcast_version": "0.1.0"}
        self.event("RUN_START", first)
        self.cycle = at
        return self

    def begin(self) -> LogWriter:
        self.cycle += 1
        self.event("CYCLE_START", {})
        return self

    def answer(self, content: str = "", tokens: tuple[int, int] = (100, 20), seconds: float = 1.5) -> LogWriter:
        message = {
            "prompt_messages": [],
            "response_message": {"role": "assistant", "content": content},
            "model_options": {},
        }
        measures = {
            "seconds": seconds,
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
            "stop_reason": "end_turn",
        }
        self.event("LLM_INVOCATION", message, measures, seconds)
        return self

    def call(self, name: str, output: str, /, seconds: float = 0.25, **parameters: Any) -> LogWriter:
        self.event(
            "TOOL_CALL", {"tool_name": name, "parameters": parameters, "output": output}, {"seconds": seconds}, seconds
        )
        return self

    def write(self, key: str, value: str = "v") -> LogWriter:
        return self.call("write", f"Wrote value to key '{key}'", key=key, value=value)

    def end(self, reflection: str, **measures: Any) -> LogWriter:
        self.event("CYCLE_END", {"final_reflection": reflection, "metrics": {}}, {"ended_by": "reflection", **measures})
        return self

    def error(self, message: str, kind: str = "llm") -> LogWriter:
        self.event("ERROR", {"kind": kind, "stage": "invoke_llm", "error_type": "Timeout", "message": message})
        return self

    def finish(self, status: str | None = "completed") -> Path:
        """The log, closed; without a `status` as a process that was killed leaves it."""
        if status is not None:
            cycles, self.cycle = self.cycle, 0
            self.event("RUN_END", {"status": status, "cycles_completed": cycles})
        self.log.close()
        return self.path


def whole_run(path: Path, run_id: str = "run", reflections: Sequence[str] = REFLECTIONS, tokens: int = 100) -> Path:
    """A run that was completed: each cycle writes, searches now and then, and reflects."""
    log = LogWriter(path, run_id).start({"cycle_count": len(reflections)})
    for number, reflection in enumerate(reflections, 1):
        log.begin().answer("", (tokens + 40 * number % 170, 25), 1.0 + number % 3).write(
            f"key{number}", "v" * 7 * number
        )
        if number % 2:
            log.call("read", f"Error: Key 'x{number}' not found", key=f"x{number}")
        if number % 3 == 0:
            log.call("delete", f"Deleted key 'key{number - 1}'", key=f"key{number - 1}").call("list", "a, b")
        log.answer(reflection, (tokens + 150, 60), 2.0)
        near: dict[str, Any] = {}
        if number > 1:
            score = round(0.35 + 0.5 * (number % 4) / 3, 4)
            near = {"similarity": score, "similar_to": number - 1}
            near["advisory"] = "high" if score > 0.8 else "moderate" if score > 0.7 else None
        log.end(reflection, seconds=4.0 + number % 3, steps=2, **near)
    return log.finish()


def published_log(path: Path, cycles: int = 2) -> Path:
    """A log as the published program writes it: five keys, no measures, no beginning and no end."""
    lines = list[dict[str, Any]]()

    def line(cycle: int, second: int, kind: str, payload: dict[str, Any]) -> None:
        time = f"2025-03-01T12:{cycle:02}:{second:02}Z"
        lines.append(
            {"timestamp": time, "run_id": "old", "cycle_number": cycle, "event_type": kind, "payload": payload}
        )

    for cycle in range(1, cycles + 1):
        metrics = {"memory_ops_total": 1, "messages_to_operator": 0, "response_chars": 41, "memory_write_chars": 5}
        answer = {
            "prompt_messages": [],
            "response_message": {"role": "assistant", "content": "Hm."},
            "model_options": {},
        }
        call = {"tool_name": "write", "parameters": {"key": "k", "value": "three"}, "output": "Updated key 'k' with"}
        line(cycle, 0, "CYCLE_START", {})
        line(cycle, 4, "LLM_INVOCATION", answer)
        line(cycle, 5, "TOOL_CALL", call)
        line(cycle, 9, "LLM_INVOCATION", answer)
        line(cycle, 10, "CYCLE_END", {"final_reflection": f"Reflection {cycle}", "metrics": metrics})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
