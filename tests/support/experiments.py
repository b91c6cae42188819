"""Experiments for tests: configurations, scripted models, and logs as they were read."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcast import Message, Settings, ToolCallPart
from toolcast.events import Event
from toolcast.experiments.experiment_config import ExperimentConfig
from toolcast.experiments.grids.grid import expand
from toolcast.llms import LLMMetadata
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.tool_spec import ToolChoice


def config_in(folder: Path, **changes: Any) -> ExperimentConfig:
    """A configuration whose files are in `folder`; there is no terminal."""
    usual: dict[str, Any] = {
        "run_id": "first",
        "model_name": "scripted",
        "cycle_count": 3,
        "ollama_client_config": {},
        "model_options": {},
        "operator": "none",
        "similarity": {"embedder": "none"},
        "log_folder": folder / "logs",
        "data_folder": folder / "data",
    }
    return ExperimentConfig.model_validate(usual | changes)


def worker_of(run: ExperimentConfig) -> int:
    """The process that writes the log of `run`."""
    return int(run.log_path.with_name(f"{run.log_path.name}.lock").read_text())


def broken_off(
    start: Callable[..., subprocess.Popen[str]], program: str, grid: ExperimentConfig, number: int, patience: float
) -> tuple[int, list[ExperimentConfig]]:
    """End the program of a grid by a signal once two of its runs are at work. No worker may be left.

    A Ctrl-C is as in a terminal: the whole process group gets the signal.
    """
    file = grid.log_folder.with_name("grid.json")
    file.write_text(grid.model_dump_json(exclude_unset=True))
    with start(
        [sys.executable, "-c", program, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as coordinator:
        assert coordinator.stdout is not None
        begun = {coordinator.stdout.readline().strip() for _ in range(2)}
        runs = [run for run in expand(grid) if run.run_id in begun]
        workers = [os.pidfd_open(worker_of(run)) for run in runs]
        os.killpg(coordinator.pid, number) if number == signal.SIGINT else coordinator.kill()
        coordinator.wait()
    for worker in workers:
        assert select.select([worker], [], [], patience)[0], "a worker is left"
        os.close(worker)
    return coordinator.returncode, runs


_numbers = itertools.count(1)


def call(tool: str, /, **arguments: str) -> ToolCallPart:
    """A call, its id like no other."""
    return ToolCallPart(f"call-{next(_numbers)}", tool, json.dumps(arguments))


@dataclass
class RuleLLM(FunctionCallingLLM):
    """A model that answers by what it reads, so that it gives the same answers whenever a run is taken up again.

    `rule(messages)` gives what `ScriptedLLM` takes as one answer.
    """

    rule: Callable[[Sequence[Message]], Any]

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("by-rule", "scripted", True)

    async def _events(
        self,
        messages: Sequence[Message],
        tools: Sequence[CallableTool],
        tool_choice: ToolChoice,
        settings: Settings,
    ) -> AsyncIterator[Event]:
        llm = ScriptedLLM(self.rule(messages), chunk=1_000)
        async for event in llm._events(messages, tools, tool_choice, settings):
            yield event


def logged(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, read by the standard library."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def types(lines: Sequence[dict[str, Any]]) -> list[str]:
    return [line["event_type"] for line in lines]


def of_type(lines: Sequence[dict[str, Any]], event_type: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event_type"] == event_type]


def of_cycles(lines: Sequence[dict[str, Any]]) -> list[tuple[int, str, dict[str, Any]]]:
    """What the cycles were, whenever and however often the run was taken up."""
    return [
        (line["cycle_number"], line["event_type"], line["payload"])
        for line in lines
        if line["event_type"] not in ("RUN_START", "RUN_END")
    ]
