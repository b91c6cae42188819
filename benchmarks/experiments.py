"""What an experiment costs beside its model: its cycles and calls, to write its log, to read and assess a long one.

Beside each row stands what cannot be done without: JSON from the data and one write, or every line from its JSON. CPU
time, the rows in turn, the least of several rounds. Memory is what Python's allocator counts, at most, above what was
there before.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from measure import held
from page import table
from pydantic_core import from_json, to_json

from toolcast import FunctionCallingLLM, ToolCallPart
from toolcast.events import ChatResponse
from toolcast.experiments import ExperimentConfig, ExperimentRunner
from toolcast.experiments.event_log import JsonlLogger, read_log
from toolcast.experiments.experiment_config import ModelOptions, OllamaClientConfig, SimilarityConfig
from toolcast.experiments.log_events import EventType, LogEvent
from toolcast.experiments.pei.assessment import assess
from toolcast.llms import LLMMetadata
from toolcast.llms.call_state import CallState
from toolcast.llms.request import ChatRequest
from toolcast.messages import assistant
from toolcast.testing import ScriptedLLM
from toolcast.transport.network import IOBackend

LINES = 100_000
CYCLES, CALLS = 100, 10
SHAPES = (0, 0), (1, CALLS), (CALLS, 1)  # answers with calls in a cycle, and calls in each of them
EVENTS = 2_000
_TEXT = 'The agent said: "Hello".\nThen it went on — and thought about it. '
_OPTIONS = {"seed": 7, "temperature": 0.7}

Payload = Mapping[str, Any]


def _messages(count: int, length: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": (_TEXT * length)[:length]} for _ in range(count)]


def _invocation(messages: list[dict[str, str]]) -> Payload:
    answer = {"role": "assistant", "content": _TEXT * 4}
    return {"prompt_messages": messages, "response_message": answer, "model_options": _OPTIONS}


CALL: Payload = {"tool_name": "write", "parameters": {"key": "sea", "value": _TEXT * 10}, "output": "Wrote it"}
WRITTEN: Mapping[str, tuple[EventType, Payload]] = {
    "a tool call, 1 KB": ("TOOL_CALL", CALL),
    "a prompt of 10 KB in 10 messages": ("LLM_INVOCATION", _invocation(_messages(10, 1_000))),
    "a prompt of 200 KB in 200 messages": ("LLM_INVOCATION", _invocation(_messages(200, 1_000))),
}


def report(rounds: int = 5) -> str:
    """The tables: running, writing, reading."""
    return "\n\n".join((running(rounds), writing(rounds), reading(rounds)))


def running(rounds: int) -> str:
    """What a runner adds to a model that answers at once, in milliseconds: for each cycle, for each call."""
    none, together, in_turn = (_least(partial(_run, *shape), rounds) / CYCLES * 1e3 for shape in SHAPES)
    line = [f"{none:.2f}", f"{(together - none) / CALLS:.3f}", f"{(in_turn - none) / CALLS:.3f}"]
    heads = ["a cycle, ms", "a tool call more, ms", "a tool call more, and the request that reads its result, ms"]
    return table(heads, [line])


class _AtOnce(FunctionCallingLLM):
    """A model that takes no time: `steps` answers of `calls` calls in each cycle, then a reflection."""

    def __init__(self, steps: int, calls: int) -> None:
        super().__init__()
        write = [ToolCallPart(f"c{n}", "write", f'{{"key": "k{n}", "value": "The sea."}}') for n in range(calls)]
        using = ChatResponse(assistant(*write), "tool_use")
        self._answers = cycle([*[using] * steps, ChatResponse(assistant("I thought about the sea."), "end_turn")])

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("at-once", "benchmark", True)

    async def answer(self, ask: ChatRequest, backend: IOBackend, call: CallState | None = None) -> ChatResponse:
        return next(self._answers)

    def _events(self, *asked: Any) -> Any:
        raise NotImplementedError("answers are given whole")


def _run(steps: int, calls: int) -> None:
    with TemporaryDirectory() as folder:
        config = ExperimentConfig(
            run_id="run",
            model_name="at-once",
            cycle_count=CYCLES,
            model_options=ModelOptions(),
            ollama_client_config=OllamaClientConfig(),
            similarity=SimilarityConfig(embedder="none"),
            max_reflections=10,
            operator="none",
            log_folder=Path(folder),
            data_folder=Path(folder),
        )
        ExperimentRunner(config, llm=_AtOnce(steps, calls)).run()


def writing(rounds: int) -> str:
    """What an event costs, in microseconds."""
    lines = []
    for name, (event_type, payload) in WRITTEN.items():
        ours, limit = (_least(partial(way, event_type, payload), rounds) for way in (_log, _write))
        lines.append([name, f"{ours / EVENTS * 1e6:.1f}", f"{limit / EVENTS * 1e6:.1f}"])
    return table(["an event of the log", "log_event, us", "limit: to_json and one write, us"], lines)


def reading(rounds: int, count: int = LINES) -> str:
    """What a log of so many lines of 1 KB costs to read."""
    with _log_of(count) as path:
        ours, assessed, limit = (_least(partial(way, path), rounds) for way in (_read, _assess, _parse))
        size, ((peak, _), (most, _)) = path.stat().st_size, (held(partial(way, path)) for way in (_read, _assess))
    line = [f"{count:,}, {size / 1e6:.0f} MB", f"{ours:.2f}", f"{assessed:.2f}", f"{limit:.2f}"]
    heads = ["lines", "read_log, s", "assess, s", "limit: from_json of each line, s", "memory of both, KB"]
    return table(heads, [[*line, f"{peak / 1e3:.0f}, {most / 1e3:.0f}"]])


def _least(work: Callable[[], object], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        gc.collect()
        begun = process_time()
        work()
        taken.append(process_time() - begun)
    return min(taken)


def _log(event_type: EventType, payload: Payload) -> None:
    with TemporaryDirectory() as folder, JsonlLogger(Path(folder, "run.jsonl"), "run") as log:
        for number in range(EVENTS):
            log.log_event(event_type, number, payload, {"seconds": 0.5})


def _write(event_type: EventType, payload: Payload) -> None:
    line = LogEvent(event_type, 1, payload, {"seconds": 0.5}, "run", "2026-03-01T12:00:00.000000Z", 1).to_dict()
    with TemporaryDirectory() as folder:
        fd = os.open(Path(folder, "run.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for _ in range(EVENTS):
            os.write(fd, to_json(line) + b"\n")
        os.close(fd)


@contextmanager
def _log_of(count: int) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        with JsonlLogger(path, "run") as log:
            asked = _invocation(_messages(2, 500))
            for number in range(count // 2):
                log.log_event("LLM_INVOCATION", number * 40 // count + 1, asked, {"seconds": 0.5})
                log.log_event("TOOL_CALL", number * 40 // count + 1, CALL, {"seconds": 0.5})
        yield path


def _assess(path: Path) -> int | None:
    return assess(path, ScriptedLLM("Final: 6")).pei_rating


def _read(path: Path) -> int:
    return sum(1 for _ in read_log(path))


def _parse(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if from_json(line))


if __name__ == "__main__":
    print(report())
