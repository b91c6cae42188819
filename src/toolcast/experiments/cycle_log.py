"""`CycleLog`: the events of a run's cycles, each logged first and then applied to the `RunState`.

It has one method per event, which builds the payload and the measures that the log's format requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Literal, TypeAlias

from ..errors import ToolcastError
from ..events import ChatResponse
from ..messages import Message, ToolCallPart
from ..tools.tool_results import error_text
from ..values.credentials import SecretURL
from ..values.states import State, logger
from .event_log import JsonlLogger
from .experiment_config import ExperimentConfig
from .log_events import EndedBy, EventType, Listener, LogEvent, RunStatus
from .message_serialization import arguments_of, plain
from .run_state import RunState
from .similarity import Similarity

ErrorKind: TypeAlias = Literal["llm", "failure", "unreadable_call"]


class CycleLog:
    """The log of one run.

    Args:
        config: The experiment.
        log: The file.
        run_state: The state that each event is applied to.
        listener: Called with every event, once it is logged.
    """

    def __init__(
        self, config: ExperimentConfig, log: JsonlLogger, run_state: RunState, listener: Listener | None
    ) -> None:
        self._config = config
        self._log = log
        self._run_state = run_state
        self._listener = listener
        self._options = config.model_options.model_dump(exclude_none=True)

    def begin_run(self) -> None:
        """Log the start of a run, with the configuration."""
        state = self._run_state
        config = self._config.model_dump(mode="json", exclude_defaults=True)
        if "host" in (ollama := config.get("ollama_client_config", {})):
            ollama["host"] = SecretURL(ollama["host"]).shown
        payload = {
            "config": config,
            "resumed": bool(state.cycle_number),
            "first_cycle": state.completed + 1,
            "toolcast_version": version("toolcast"),
        }
        self._write("RUN_START", 0, payload)

    def begin_cycle(self) -> None:
        """Log the start of the next cycle."""
        self._write("CYCLE_START", self._run_state.cycle_number + 1)

    def add_response(
        self, prompt: tuple[Message, ...], message: Message, response: ChatResponse, seconds: float
    ) -> None:
        """Log a request and the model's response, as the `message` that is added to the history."""
        history = self._run_state.message_history
        before = prompt[: len(prompt) - len(history)]
        payload = {
            "prompt_messages": [*map(plain, before), *history],
            "response_message": plain(message),
            "model_options": self._options,
        }
        measures = {
            "seconds": _rounded(seconds),
            "input_tokens": response.usage.input_tokens,
            "output_tokens": response.usage.output_tokens,
            "stop_reason": response.stop_reason,
        }
        self._write("LLM_INVOCATION", payload=payload, measures=measures, message=message)

    def add_tool_call(self, call: ToolCallPart, output: str, seconds: float) -> None:
        """Log a tool call and its output."""
        payload = {"tool_name": call.name, "parameters": arguments_of(call) or {}, "output": output}
        self._write("TOOL_CALL", payload=payload, measures={"seconds": _rounded(seconds)})

    def add_error(self, kind: ErrorKind, stage: State, error: Exception) -> None:
        """Log an error in the state `stage`."""
        payload = {"kind": kind, "stage": stage, "error_type": type(error).__name__, "message": error_text(error)}
        self._write("ERROR", payload=payload)

    def add_embedder_error(self, stage: State, message: str) -> None:
        """Log that the similarity of a reflection is not known."""
        self._write("ERROR", payload={"kind": "embedder", "stage": stage, "error_type": "", "message": message})

    def add_limit(self, stage: State, limit: EndedBy) -> None:
        """Log that the cycle reached a limit of the configuration."""
        most = getattr(self._config.limits, limit)
        message = f"the cycle ended at its limit, {limit}={most:.15g}, without a final reflection"
        payload = {"kind": "limit", "limit": limit, "stage": stage, "error_type": "", "message": message}
        self._write("ERROR", payload=payload)

    def end_cycle(self, reflection: str, similarity: Similarity, seconds: float) -> None:
        """Log the end of the open cycle."""
        cycle = self._run_state.cycle
        measures: dict[str, Any] = {
            "seconds": _rounded(seconds),
            "input_tokens": cycle.input_tokens,
            "output_tokens": cycle.output_tokens,
            "steps": cycle.steps,
            "tool_calls": cycle.tool_calls,
            "ended_by": cycle.limit or "reflection",
        }
        if similarity.score is not None:
            measures |= {
                "similarity": similarity.score,
                "similar_to": similarity.cycle,
                "advisory": similarity.band,
            }
        self._write("CYCLE_END", payload={"final_reflection": reflection, "metrics": cycle.metrics}, measures=measures)

    def end_run(self, status: RunStatus) -> None:
        """Log the end of a run, unless the log itself has failed."""
        with suppress(ToolcastError):
            self._write("RUN_END", payload={"status": status, "cycles_completed": self._run_state.completed})

    def _write(
        self,
        event_type: EventType,
        cycle_number: int | None = None,
        payload: Mapping[str, Any] | None = None,
        measures: Mapping[str, Any] | None = None,
        message: Message | None = None,
    ) -> None:
        """Log an event, of the open cycle unless `cycle_number` is given, and apply it to the state."""
        number = self._run_state.cycle_number if cycle_number is None else cycle_number
        event = self._log.log_event(event_type, number, payload or {}, measures or {})
        self._run_state.apply(event, message)
        if self._listener is not None:
            self._notify(self._listener, event)

    def _notify(self, listener: Listener, event: LogEvent) -> None:
        try:
            listener(event)
        except Exception:  # the user's listener: logged, none of the run's business
            # A listener is the user's own code: its errors are logged and do not end the run.
            logger.exception("the listener failed at %s of cycle %d", event.event_type, event.cycle_number)


def _rounded(seconds: float) -> float:
    return round(seconds, 6)
