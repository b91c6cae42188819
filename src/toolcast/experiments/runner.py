"""`ExperimentRunner`: a run of an experiment, assembled from its configuration.

The state of a run is read from its log, so an interrupted run is resumed by reading it. A run has its log to itself: a
second run of the same name is refused, by the lock while the first is going on, and before any request if it ran
earlier and `resume` is not set.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import ToolcastError
from ..llms.client import client_of
from ..llms.embeddings.offline import Embedder
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.request import Tools
from ..messages import Message
from ..text.reprs import safe_repr
from ..tools.callable_tool import CallableTool, as_tools
from ..tools.tool_results import error_text
from ..values.capabilities import Progress
from ..values.states import Observer
from .agent_memory import AgentMemory, RunMemory
from .config_files import load_config
from .cycles import CycleOrchestrator, Services, new_state
from .embedders import embedder_of
from .event_log import JsonlLogger, LogError, LogMissing, read_log
from .experiment_config import ExperimentConfig
from .experiment_tools import agent_tools
from .llm_setup import acheck_model, build_llm, check_model, settings_of
from .log_events import Listener, LogEvent
from .operators import OperatorChannel, TerminalOperator, UnattendedOperator
from .prompt_assembly import assembler_of
from .run_state import RunState
from .similarity import SimilarityMonitor
from .telegram import TelegramOperator


class RunExists(ToolcastError, FileExistsError):
    """The error that a run of this name has a log already, and `resume` is not set."""

    def __str__(self) -> str:
        return str(self.args[0])


class ExperimentRunner:
    """The runner of one experiment.

    Args:
        config: The configuration, or the path of its YAML or JSON file.
        llm: Used instead of the model that the configuration names.
        tools: Offered to the agent beside its six own tools.
        operator: Used instead of the channel that the configuration names.
        embedder: Used instead of the embedder that the configuration names.
        resume: Continue a run that has a log; without it, an existing log is an error.
    """

    def __init__(
        self,
        config: ExperimentConfig | str | PathLike[str],
        *,
        llm: FunctionCallingLLM | None = None,
        tools: Tools = (),
        operator: OperatorChannel | None = None,
        embedder: Embedder | None = None,
        resume: bool = False,
    ) -> None:
        self.config: ExperimentConfig = config if isinstance(config, ExperimentConfig) else load_config(config)
        self.llm: FunctionCallingLLM = build_llm(self.config) if llm is None else llm
        self.resume: bool = resume
        self._own_llm = llm is None
        self._tools = as_tools(tools)
        self._operator = operator
        self._embedder = embedder

    @safe_repr
    def __repr__(self) -> str:
        return f"ExperimentRunner({self.config.run_id!r}, llm={self.llm!r}, cycles={self.config.cycle_count})"

    def prepare(self, progress: Progress | None = None) -> None:
        """Make the model ready: find it at its service, or load the embedded one. `progress` gets bytes."""
        check_model(self.llm, progress)

    async def aprepare(self, progress: Progress | None = None) -> None:
        """Make the model ready: see `prepare`."""
        await acheck_model(self.llm, progress)

    def run(self, *, listener: Listener | None = None, observer: Observer | None = None) -> RunState:
        """Run the remaining cycles and return the state after the last.

        Args:
            listener: Called with each `LogEvent` after it is logged.
            observer: Called as `observer(call_id, state)` with every state of the cycles.

        Raises:
            RunExists: If the run has a log and `resume` is not set.
            ToolcastError: Or any other error that ended the run early.
        """
        with self._open_run(listener, observer) as (cycles, monitor):
            monitor.remember(_reflections(cycles))
            return cycles.run()

    async def arun(self, *, listener: Listener | None = None, observer: Observer | None = None) -> RunState:
        """Run the remaining cycles and return the state after the last: see `run`."""
        with self._open_run(listener, observer) as (cycles, monitor):
            await monitor.aremember(_reflections(cycles))
            return await cycles.arun()

    def state(self) -> RunState:
        """Return the state of the run from its log, without locking it; nothing is written."""
        return self._replay(read_log(self.config.log_path, tolerate_torn=True)) if self._has_log else self._new_state()

    def prompt(self) -> list[Message]:
        """Return the messages of the next request; nothing is sent or written."""
        state, config = self.state(), self.config
        if not state.is_open:
            state.apply(LogEvent("CYCLE_START", state.cycle_number + 1, {}))
        with TemporaryDirectory() as folder, AgentMemory(f"{folder}/memory.db") as memory:
            tools = self._all_tools(memory.of(config.run_id))
        return list(client_of(self.llm).with_system_prompt(assembler_of(config, tools).build_prompt(state)))

    @property
    def _has_log(self) -> bool:
        path = self.config.log_path
        return path.is_file() and path.stat().st_size > 0

    @contextmanager
    def _open_run(
        self, listener: Listener | None, observer: Observer | None
    ) -> Generator[tuple[CycleOrchestrator, SimilarityMonitor]]:
        """Open the log and the memory, and yield the cycle loop and a similarity monitor without reflections yet."""
        config = self.config
        self._check_resume()
        settings = settings_of(config, self.llm)  # raises before anything is written
        with ExitStack() as opened:
            log = opened.enter_context(JsonlLogger(config.log_path, config.run_id))
            self._check_resume()  # another may have begun and ended before the log was ours
            state = self._replay(read_log(config.log_path)) if self._has_log else self._new_state()
            memory = opened.enter_context(AgentMemory(config.memory_path, config.memory)).of(config.run_id)
            if not state.cycle_number:
                self._start_new(memory)
            if self._own_llm:
                opened.enter_context(self.llm)
            monitor = self._monitor()
            services = Services(self.llm, log, self._all_tools(memory), monitor, settings)
            on_event = _chained(_forgetting(memory), listener)
            yield CycleOrchestrator(config, services, state=state, observer=observer, listener=on_event), monitor

    def _start_new(self, memory: RunMemory) -> None:
        """Clear the memory for a new run. Raises `LogMissing` if a run to resume has a memory and no log."""
        if self.resume and memory.keys():
            path, run_id = self.config.log_path, self.config.run_id
            raise LogMissing(
                f"there is a memory of the run {run_id!r}, {self.config.memory_path}, and nothing in its log, {path}: "
                "is log_folder right? Without --resume the run begins anew, its memory empty.",
                path=path,
            )
        memory.clear()

    def _all_tools(self, memory: RunMemory) -> tuple[CallableTool, ...]:
        operator = self._operator or operator_of(self.config)
        return (*agent_tools(memory, operator), *self._tools)

    def _monitor(self) -> SimilarityMonitor:
        wanted = self.config.similarity
        ollama = self.config.ollama_client_config.host if wanted.embedder.startswith("ollama:") else None
        embedder = self._embedder or embedder_of(wanted.embedder, base_url=ollama)
        return SimilarityMonitor(embedder, high=wanted.high, moderate=wanted.moderate)

    def _new_state(self) -> RunState:
        return new_state(self.config)

    def _replay(self, events: Iterable[LogEvent]) -> RunState:
        """Return the state after the events of the log. Raises `LogError` for a log that is not this run's."""
        state, config = self._new_state(), self.config
        for number, event in enumerate(events, 1):
            try:
                self._check_same_experiment(event)
                state.apply(event)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                what = error if isinstance(error, ValueError) else error_text(error)
                why = f"{config.log_path}, event {number}: {what}; the run cannot be resumed from it"
                raise LogError(why, path=config.log_path) from error
        return state

    def _check_same_experiment(self, event: LogEvent) -> None:
        """Raise `ValueError` if resuming would mix two experiments."""
        if event.event_type != "RUN_START":
            return
        logged = event.payload.get("config", {})
        for key, usual in (("model_name", None), ("history", "reset")):
            was, wanted = logged.get(key, usual), getattr(self.config, key)
            if was != wanted:
                raise ValueError(f"it is a log of {key}={was!r}, not {wanted!r}: give this experiment another run_id")

    def _check_resume(self) -> None:
        """Raise `RunExists` if there is a log and `resume` is not set."""
        if self._has_log and not self.resume:
            raise RunExists(self._exists())

    def _exists(self) -> str:
        state = self.state()
        ended = f"{state.completed} of {self.config.cycle_count} cycles have ended"
        return (
            f"there is a log of the run {self.config.run_id!r} already, {self.config.log_path}: {ended}. "
            "Go on with it (--resume, resume=True), or give this experiment another run_id."
        )


def operator_of(config: ExperimentConfig, environ: Mapping[str, str] = os.environ) -> OperatorChannel:
    """Return the channel that `config` names: the terminal, Telegram with the terminal as fallback, or none.

    The bot's token is `TELEGRAM_BOT_TOKEN` of `environ`. Raises `ValueError` if Telegram's settings are incomplete.
    """
    minutes = config.operator_timeout_minutes
    terminal: OperatorChannel | None = None
    if config.operator == "terminal":
        terminal = TerminalOperator(timeout=None if minutes is None or minutes < 0 else minutes * 60)
    if not config.telegram_enabled:
        return terminal or UnattendedOperator()
    return TelegramOperator(
        config.telegram_authorized_users,
        timeout_minutes=config.telegram_timeout_minutes,
        token=environ.get("TELEGRAM_BOT_TOKEN", ""),
        fallback=terminal,
    )


def _reflections(cycles: CycleOrchestrator) -> Iterable[tuple[int, str]]:
    """Return the reflections of the cycles that have ended, with their numbers."""
    return enumerate(cycles.run_state.reflection_history, 1)


def _forgetting(memory: RunMemory) -> Listener:
    """Return a listener that deletes the call names of ended cycles from the memory: they cannot be repeated."""

    def on_event(event: LogEvent) -> None:
        if event.event_type == "CYCLE_END":
            memory.forget_calls(event.cycle_number + 1)

    return on_event


def _chained(first: Listener, second: Listener | None) -> Listener:
    if second is None:
        return first

    def on_event(event: LogEvent) -> Any:
        try:
            first(event)
        finally:
            second(event)

    return on_event
