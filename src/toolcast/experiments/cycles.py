"""The cycle loop of ContReAct experiments: an agent that runs without tasks, cycle after cycle.

    load_state ──> assemble_prompt ──> invoke_llm ──> parse_response ──> finalize_cycle ──> terminate_or_continue
        ^               ^                                  │                  ^                      │
        │               └───────── dispatch_tool <─────────┘ (limits) ────────┘                      │
        └────────────────────────────────────────────────────────────────────────────────────────────┘

Each state is a method that does its work and names the event which leads out of it; the table is `CYCLE`
(toolcast.values.states). Whatever happens is logged first and then applied to the `RunState`, so a run that breaks off
anywhere goes on from its log. It is written once, in async syntax; the sync methods drive it without an event loop.

Execution of the model's tool calls, with every outcome as a text for the model.

The error texts for an unknown tool, for arguments that do not fit and for a tool that fails are ContReAct's. Arguments
are parsed and tools executed as everywhere in toolcast (tools/execution.py).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Final

from ..async_support import sync_driver
from ..errors import IllegalState, LLMError, Timeout, ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.request import ChatRequest
from ..messages import Message, ToolCallPart
from ..parsing.thoughts import without_thoughts
from ..providers.content_parts import CallIds
from ..text.reprs import safe_repr
from ..tools.callable_tool import CallableTool
from ..tools.execution import read_call
from ..tools.tool_context import ToolContext
from ..tools.tool_results import error_text, refuses_tools
from ..transport.network import IOBackend
from ..values.output_mode import OutputMode
from ..values.settings import NOTHING_SET, Settings
from ..values.states import CYCLE, Observer, State, Trace
from ..values.tool_spec import ToolChoice
from .cycle_log import CycleLog
from .event_log import JsonlLogger
from .experiment_config import ExperimentConfig
from .experiment_tools import CallPlace
from .log_events import EndedBy, Listener, RunStatus
from .prompt_assembly import FINISH, assembler_of, offered
from .response_parsing import ResponseParser, reflecting
from .run_state import CycleProgress, RunState
from .similarity import Similarity, SimilarityMonitor


class ToolDispatcher:
    """The executor of the calls of `tools`."""

    def __init__(self, tools: Sequence[CallableTool]) -> None:
        self._offered = {tool.name: tool for tool in tools}

    def dispatch(self, name: str, arguments: Mapping[str, Any] | str, place: CallPlace | None = None) -> str:
        """Call the tool `name` and return its output or an error text.

        `place` becomes the `deps` of the tool's context.
        """
        return sync_driver.run(self.answered(_call(name, arguments), place, concurrent=False))

    async def adispatch(self, name: str, arguments: Mapping[str, Any] | str, place: CallPlace | None = None) -> str:
        """Call the tool `name` and return its output or an error text: see `dispatch`."""
        return await self.answered(_call(name, arguments), place, concurrent=True)

    async def answered(self, call: ToolCallPart, place: CallPlace | None, *, concurrent: bool) -> str:
        """Execute `call` and return its result."""
        context = ToolContext(call.id, call.name, place)
        job = read_call(call, self._offered, context)
        if job.tool is None:
            return f"Error: Tool '{call.name}' not found"
        if job.error is not None:
            return f"Error: Invalid arguments for tool '{call.name}': {error_text(job.error)}"
        await job.run(concurrent, context)
        if job.error is not None:
            return f"Error executing tool '{call.name}': {error_text(job.error)}"
        return job.output().content


def _call(name: str, arguments: Mapping[str, Any] | str) -> ToolCallPart:
    return ToolCallPart("call", name, arguments if isinstance(arguments, str) else json.dumps(dict(arguments)))


_ENDS: Final = ("complete", "cancelled", "error")
_UNREADABLE_CALL: Final = "error parsing tool call"  # what an Ollama says of a call that is no JSON
_WITHOUT_TOOLS: Final = "For a model that takes no tools set tool_mode: prompted in the configuration, or none."


@dataclass(frozen=True, slots=True)
class Services:
    """The services of a run: the LLM and its settings, the log, the tools, and the similarity monitor."""

    llm: FunctionCallingLLM
    log: JsonlLogger
    tools: Sequence[CallableTool] = ()
    monitor: SimilarityMonitor | None = None
    settings: Settings = NOTHING_SET


class CycleOrchestrator:
    """The driver of the cycles of one experiment.

    Args:
        config: The experiment.
        services: The LLM, the log, the tools and the similarity monitor.
        state: The state to start from: that of a log that was read, or a new one.
        observer: Called as `observer(call_id, state)` with every state of the cycles.
        listener: Called with every event, once it is logged.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        services: Services,
        *,
        state: RunState | None = None,
        observer: Observer | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.config: ExperimentConfig = config
        self.run_state: RunState = new_state(config) if state is None else state
        self._services = services
        self._offered = offered(config, services.tools)
        self._assembler = assembler_of(config, services.tools)
        self._parser = ResponseParser()
        self._dispatcher = ToolDispatcher(self._offered)
        self._choice: ToolChoice = "required" if config.tool_mode in ("required", "prompted") else None
        self._mode: OutputMode | None = "prompted" if config.tool_mode == "prompted" else None
        self._observer = observer
        self._log = CycleLog(config, services.log, self.run_state, listener)
        self._trace = Trace(CYCLE)
        self._settings = client_of(services.llm).merge_settings(services.settings)
        self._ids = CallIds()
        self._prompt: tuple[Message, ...] = ()
        self._work_began = 0.0
        self._running = self._stopping = False
        self._steps: Mapping[State, Callable[[IOBackend], Awaitable[str]]] = {
            "load_state": self._load_state,
            "assemble_prompt": self._assemble_prompt,
            "invoke_llm": self._invoke_llm,
            "parse_response": self._parse_response,
            "dispatch_tool": self._dispatch_tool,
            "finalize_cycle": self._finalize_cycle,
            "terminate_or_continue": self._terminate_or_continue,
        }

    @safe_repr
    def __repr__(self) -> str:
        return f"CycleOrchestrator({self.config.run_id!r}, llm={self._services.llm!r}, state={self._trace.state!r})"

    @property
    def state(self) -> State:
        """The current state of the run, as the table `CYCLE` (toolcast.values.states) names it."""
        return self._trace.state

    @property
    def is_done(self) -> bool:
        """True if all cycles have ended."""
        return self.run_state.completed >= self.config.cycle_count

    def run(self) -> RunState:
        """Run the remaining cycles and return the state after the last.

        Raises the error that ended the run early; `run` can be called again after that.
        """
        return sync_driver.run(self._run(client_of(self._services.llm).sync_backend(), all_cycles=True))

    async def arun(self) -> RunState:
        """Run the remaining cycles and return the state after the last: see `run`."""
        return await self._run(client_of(self._services.llm).async_backend(), all_cycles=True)

    def run_cycle(self) -> RunState:
        """Run the open cycle, or else the next, and return the state after it."""
        return sync_driver.run(self._run(client_of(self._services.llm).sync_backend(), all_cycles=False))

    async def arun_cycle(self) -> RunState:
        """Run the open cycle, or else the next, and return the state after it."""
        return await self._run(client_of(self._services.llm).async_backend(), all_cycles=False)

    def stop(self) -> None:
        """End the run after the open cycle. Safe to call from any thread."""
        self._stopping = True

    async def _run(self, backend: IOBackend, *, all_cycles: bool) -> RunState:
        self._must_be_able()
        if self.is_done:
            return self.run_state
        self._running, self._stopping = True, not all_cycles
        self._trace = Trace(CYCLE, self._observer)
        status: RunStatus = "interrupted"
        try:
            self._log.begin_run()
            while self._trace.state not in _ENDS:
                self._trace.step(await self._steps[self._trace.state](backend))
            status = "completed" if self.is_done else "stopped"
        except Exception as error:
            status = "failed"
            self._fail(error)
            raise
        except BaseException:
            if self.state not in _ENDS:
                self._trace.step("cancelled")
            raise
        finally:
            self._running = False
            self._log.end_run(status)
        return self.run_state

    def _must_be_able(self) -> None:
        if self._running:
            raise IllegalState(
                "the experiment is running already; a second one needs a run of its own", state=self.state
            )
        if self.state == "cancelled":
            # It may have been broken off between the log and the state.
            raise IllegalState("the run was broken off: go on with what its log says, by resume=True", state=self.state)

    # The states.

    async def _load_state(self, backend: IOBackend) -> str:
        self._work_began = backend.now()
        state = self.run_state
        if not state.is_open:
            self._log.begin_cycle()
        self._ids = CallIds(state.messages)
        cycle = state.cycle
        if cycle.waiting:
            return "calls_left"
        ended = cycle.limit or (cycle.answer is not None and not cycle.answer.tool_calls)
        return "reflection_left" if ended else "loaded"

    async def _assemble_prompt(self, backend: IOBackend) -> str:
        limit = self._limit_reached(backend)
        if limit is not None:
            return self._limited(limit)
        self._prompt = client_of(self._services.llm).with_system_prompt(self._assembler.build_prompt(self.run_state))
        return "assembled"

    async def _invoke_llm(self, backend: IOBackend) -> str:
        llm, began = self._services.llm, backend.now()
        tools, settings = self._offered_now, self._timed(backend)
        ask = ChatRequest(self._prompt, tools, self._choice, settings, self._choice is None, mode=self._mode)
        try:
            response = await client_of(llm).answer(ask, backend)
        except Timeout:
            if self._seconds_left(backend) > 0:
                raise
            return self._limited("max_seconds")
        except LLMError as error:
            if tools and refuses_tools(error):
                error.add_note(_WITHOUT_TOOLS)
            if _UNREADABLE_CALL not in str(error).lower():
                raise
            self._log.add_error("unreadable_call", self.state, error)
            return "unreadable"
        self._log.add_response(self._prompt, self._own(response.message), response, backend.now() - began)
        return "answered"

    async def _parse_response(self, backend: IOBackend) -> str:
        answer = self.run_state.cycle.answer
        assert answer is not None
        kind, _ = self._parser.parse_response(answer)
        return "tools_called" if kind == "TOOL_CALL" else "reflected"

    async def _dispatch_tool(self, backend: IOBackend) -> str:
        cycle = self.run_state.cycle
        while cycle.waiting:
            call, began = cycle.waiting[0], backend.now()
            output = await self._dispatcher.answered(call, self._place(cycle), concurrent=backend.concurrent)
            self._log.add_tool_call(call, output, backend.now() - began)
        return "results_appended"

    async def _finalize_cycle(self, backend: IOBackend) -> str:
        cycle = self.run_state.cycle
        reflection = ""
        if cycle.limit is None and cycle.answer is not None:
            reflection = without_thoughts(cycle.answer.text)
        similarity = await self._similarity(reflection, backend)
        self._log.end_cycle(reflection, similarity, backend.now() - self._work_began)
        return "finalized"

    async def _terminate_or_continue(self, backend: IOBackend) -> str:
        return "completed" if self.is_done or self._stopping else "more_cycles"

    @property
    def _offered_now(self) -> tuple[CallableTool, ...]:
        """The tools of the next request: a model that must call tools has only `finish_cycle` in its last step."""
        last = self.run_state.cycle.steps == self.config.limits.max_steps - 1
        return (FINISH,) if self._choice and last else self._offered

    # Limits.

    def _limit_reached(self, backend: IOBackend) -> EndedBy | None:
        limits, cycle = self.config.limits, self.run_state.cycle
        if cycle.steps >= limits.max_steps:
            return "max_steps"
        if limits.max_tokens is not None and cycle.total_tokens >= limits.max_tokens:
            return "max_tokens"
        return "max_seconds" if self._seconds_left(backend) <= 0 else None

    def _limited(self, limit: EndedBy) -> str:
        self._log.add_limit(self.state, limit)
        return "limited"

    def _seconds_left(self, backend: IOBackend) -> float:
        most = self.config.limits.max_seconds
        return inf if most is None else self._work_began + most - backend.now()

    def _timed(self, backend: IOBackend) -> Settings:
        """Return the settings of the next request, with a timeout at the end of the cycle's time."""
        left = self._seconds_left(backend)
        timeouts = self._settings.timeouts
        if left == inf or (timeouts.total is not None and timeouts.total <= left):
            return self._settings
        return self._settings.with_(timeout=replace(timeouts, total=left))

    # Parts of the states.

    def _own(self, message: Message) -> Message:
        """Return `message` with new ids for its calls if the run has calls with these ids already.

        A call of `finish_cycle` is converted to the reflection in text, if no other call came before it.
        """
        first = next(iter(message.tool_calls), None)
        if first is not None and first.name == FINISH.name and self._choice:
            return reflecting(message, first)
        parts = [
            replace(part, id=self._ids.unique(part.id)) if isinstance(part, ToolCallPart) else part
            for part in message.parts
        ]
        return Message(message.role, tuple(parts)) if message.tool_calls else message

    def _place(self, cycle: CycleProgress) -> CallPlace:
        assert cycle.answer is not None
        index = len(cycle.answer.tool_calls) - len(cycle.waiting)
        return CallPlace(self.run_state.run_id, self.run_state.cycle_number, cycle.steps, index)

    async def _similarity(self, reflection: str, backend: IOBackend) -> Similarity:
        monitor, number = self._services.monitor, self.run_state.cycle_number
        if monitor is None:
            return Similarity()
        check = monitor.acheck(reflection, number) if backend.concurrent else None
        found = monitor.check(reflection, number) if check is None else await check
        if found.error is not None:
            self._log.add_embedder_error(self.state, found.error)
        return found

    def _fail(self, error: Exception) -> None:
        with suppress(ToolcastError):  # where the log itself has failed, that is raised
            self._log.add_error("llm" if self.state == "invoke_llm" else "failure", self.state, error)
        self._trace.step("failed")


def new_state(config: ExperimentConfig) -> RunState:
    """Return the state of a run that has not started."""
    return RunState(config.run_id, config.model_name, history=config.history, opening=config.opening)
