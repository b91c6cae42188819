"""State of a run, folded from the events in its log.

A live run and a resumed one use the same code: every event is logged first and then applied here. So everything that
was logged before a crash is restored after it, and an interrupted cycle continues where it was: with the calls that
have no result yet, with the reflection that was not stored yet, or with the next request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Final, Literal, cast

from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, ToolCallPart, tool_result, user
from ..values.message_dicts import message_from_dict
from .log_events import EndedBy, LogEvent, RunStatus
from .message_serialization import plain

MEMORY_TOOLS: Final = ("write", "read", "list", "delete", "pattern_search")
OPERATOR_TOOL: Final = "send_message_to_operator"

UNREADABLE: Final = "Your last tool call could not be read. Make it again, its arguments one valid JSON object."
"""The message to the model after a tool call that the service could not parse."""


@dataclass(slots=True)
class CycleProgress:
    """The progress of a cycle: its metrics as CYCLE_END has them, its cost, and its calls that wait for a result."""

    memory_ops_total: int = 0
    messages_to_operator: int = 0
    response_chars: int = 0
    memory_write_chars: int = 0
    steps: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    limit: EndedBy | None = None
    answer: Message | None = None
    waiting: deque[ToolCallPart] = field(default_factory=deque[ToolCallPart])

    @property
    def metrics(self) -> dict[str, int]:
        """The metrics of the cycle as CYCLE_END has them."""
        return {
            "memory_ops_total": self.memory_ops_total,
            "messages_to_operator": self.messages_to_operator,
            "response_chars": self.response_chars,
            "memory_write_chars": self.memory_write_chars,
        }

    @property
    def total_tokens(self) -> int:
        """The input and output tokens of all its requests."""
        return self.input_tokens + self.output_tokens


class RunState:
    """The state of a run: `cycle_number` is that of the cycle that `is_open`, or else of the last that ended.

    `message_history` has the messages of the next request after the system message, in the log's format; `messages` has
    the same as `Message` objects. `advisory` is the similarity band of the last reflection, for the next cycle's
    prompt.
    """

    def __init__(
        self,
        run_id: str,
        model_name: str = "",
        *,
        history: Literal["reset", "full"] = "reset",
        opening: str | None = None,
    ) -> None:
        self.run_id: str = run_id
        self.model_name: str = model_name
        self.cycle_number: int = 0
        self.is_open: bool = False
        self.message_history: list[dict[str, Any]] = []
        self.messages: list[Message] = []
        self.reflection_history: list[str] = []
        self.advisory: Literal["high", "moderate"] | None = None
        self.cycle: CycleProgress = CycleProgress()
        self.status: RunStatus | None = None
        self._keeps_history = history == "full"
        self._opening = opening

    @property
    def completed(self) -> int:
        """The number of cycles that have ended."""
        return self.cycle_number - self.is_open

    def apply(self, event: LogEvent, message: Message | None = None) -> None:
        """Update the state by a logged event. `message`: the answer of an LLM_INVOCATION, if it is at hand.

        Raises `ValueError` for an event that cannot follow the ones before it.
        """
        step = self._applied.get(event.event_type)
        if step is None:
            raise ValueError(f"{event.event_type!r} is no event of a run")
        step(self, event, message)

    def _run_starts(self, event: LogEvent, message: Message | None) -> None:
        self.status = None

    def _run_ends(self, event: LogEvent, message: Message | None) -> None:
        self.status = event.payload.get("status")

    def _cycle_starts(self, event: LogEvent, message: Message | None) -> None:
        if self.is_open or event.cycle_number != self.cycle_number + 1:
            found = "has not ended" if self.is_open else "was the last"
            raise ValueError(f"cycle {event.cycle_number} starts where cycle {self.cycle_number} {found}")
        self.cycle_number, self.is_open, self.cycle = event.cycle_number, True, CycleProgress()
        if not self._keeps_history:
            self.message_history.clear()
            self.messages.clear()
        if self._opening:
            self._append_message(user(self._opening.replace("{cycle}", str(event.cycle_number))))

    def _model_answers(self, event: LogEvent, message: Message | None) -> None:
        cycle = self._open_cycle(event)
        logged: Mapping[str, Any] = event.payload["response_message"]
        message = message_from_dict(logged) if message is None else message
        cycle.steps += 1
        cycle.response_chars += len(logged.get("content") or "") + len(logged.get("thinking") or "")
        cycle.input_tokens += event.measures.get("input_tokens", 0)
        cycle.output_tokens += event.measures.get("output_tokens", 0)
        cycle.answer = message
        cycle.waiting = deque(message.tool_calls)
        if message.tool_calls or message.text.strip():
            self._append_message(message, logged)

    def _tool_answers(self, event: LogEvent, message: Message | None) -> None:
        cycle = self._open_cycle(event)
        if not cycle.waiting:
            raise ValueError(f"a result of {event.payload['tool_name']!r} without a call")
        name, parameters = event.payload["tool_name"], cast("Mapping[str, Any]", event.payload["parameters"])
        cycle.tool_calls += 1
        cycle.memory_ops_total += name in MEMORY_TOOLS
        cycle.messages_to_operator += name == OPERATOR_TOOL
        if name == "write":
            cycle.memory_write_chars += len(str(parameters.get("value", "")))
        self._append_message(tool_result(cycle.waiting.popleft(), event.payload["output"]))

    def _cycle_ends(self, event: LogEvent, message: Message | None) -> None:
        self._open_cycle(event)
        self.is_open = False
        self.reflection_history.append(event.payload["final_reflection"])
        self.advisory = event.measures.get("advisory")

    def _goes_wrong(self, event: LogEvent, message: Message | None) -> None:
        kind = event.payload.get("kind")
        if kind == "limit" and self.is_open:
            self.cycle.limit = event.payload["limit"]
        elif kind == "unreadable_call" and self.is_open:
            self.cycle.steps += 1
            self._append_message(user(UNREADABLE))

    def _open_cycle(self, event: LogEvent) -> CycleProgress:
        if not self.is_open or event.cycle_number != self.cycle_number:
            raise ValueError(f"{event.event_type} of cycle {event.cycle_number}, which is not open")
        return self.cycle

    def _append_message(self, message: Message, logged: Mapping[str, Any] | None = None) -> None:
        self.messages.append(message)
        self.message_history.append(plain(message) if logged is None else dict(logged))

    _applied: ClassVar[Mapping[str, Callable[..., None]]] = {
        "RUN_START": _run_starts,
        "CYCLE_START": _cycle_starts,
        "LLM_INVOCATION": _model_answers,
        "TOOL_CALL": _tool_answers,
        "CYCLE_END": _cycle_ends,
        "ERROR": _goes_wrong,
        "RUN_END": _run_ends,
    }
