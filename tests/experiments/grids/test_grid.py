"""Grids: what a configuration expands to, and many runs at once."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support import warm_python
from support.experiments import broken_off, config_in, logged, of_cycles, of_type, types, worker_of
from support.loopback import PATIENCE
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, calls, cycle_of, reply, write_then_reflect
from support.process import Process
from toolcast.experiments.config_errors import ConfigError, MissingField, UnknownKey, WrongType, WrongValue
from toolcast.experiments.config_files import load_config
from toolcast.experiments.experiment_config import ExperimentConfig, config_of
from toolcast.experiments.grids.grid import expand, run_grid
from toolcast.experiments.log_events import LogEvent
from toolcast.experiments.runner import ExperimentRunner, RunExists

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")


def grid(**values: Any) -> ExperimentConfig:
    """A configuration with this grid; a dot in a key is written `__`."""
    dotted = {key.replace("__", "."): value for key, value in values.items()}
    return config_of(
        {
            "run_id": "demo",
            "model_name": "local:smollm2",
            "cycle_count": 2,
            "model_options": {"temperature": 0.5},
            "grid": dotted,
        }
    )


# What a grid is.


def test_without_a_grid_there_is_one_run() -> None:
    config = config_in(Path())
    assert expand(config) == (config,)


def test_every_combination_is_a_run_in_the_order_of_the_keys() -> None:
    runs = expand(
        grid(model_name=["local:smollm2", "openai:gpt-5"], model_options__seed=[1, 2], history=["reset", "full"])
    )
    assert [(run.model_name, run.model_options.seed, run.history) for run in runs] == list(
        itertools.product(["local:smollm2", "openai:gpt-5"], [1, 2], ["reset", "full"])
    )
    assert [run.run_id for run in runs][:3] == [
        "demo-local.smollm2-seed_1-history_reset",
        "demo-local.smollm2-seed_1-history_full",
        "demo-local.smollm2-seed_2-history_reset",
    ]
    assert all(run.model_options.temperature == 0.5 and run.cycle_count == 2 and run.grid is None for run in runs)


def test_each_run_has_a_folder_of_its_own() -> None:
    (run,) = expand(grid(model_options__seed=[7]).model_copy(update={"log_folder": Path("there")}))
    assert run.log_path == Path("there/demo/demo-seed_7/demo-seed_7.jsonl")
    assert run.memory_path == Path("there/demo/demo-seed_7/data/memory.db")


@pytest.mark.parametrize(
    ("key", "value", "run_id"),
    [
        ("model_name", "hf.co/org/model:Q4_K_M", "demo-hf.co.org.model.Q4_K_M"),
        ("model_options.temperature", 0.1, "demo-temperature_0.1"),
        ("model_options.num_predict", -1, "demo-num_predict_-1"),
        ("limits.max_tokens", None, "demo-max_tokens_null"),
        ("telegram_enabled", False, "demo-telegram_enabled_false"),
        ("limits", {"max_steps": 3}, "demo-limits_606d7f87"),
        ("model_options.stop", ["END"], "demo-stop_e4509dbb"),
        ("opening", "", "demo-opening_12ae32cb"),
        (
            "system_prompt",
            "You are alone, and nothing is around you but a store of keys.",
            "demo-system_prompt_720e5c53",
        ),
        ("opening", "日本", "demo-opening_11447b8f"),
        ("similarity.embedder", "none", "demo-embedder_none"),
    ],
)
def test_a_run_is_named_by_what_is_its_own(key: str, value: object, run_id: str) -> None:
    config = config_of(
        {
            "run_id": "demo",
            "model_name": "m",
            "cycle_count": 1,
            "ollama_client_config": {},
            "model_options": {},
            "grid": {key: [value]},
        }
    )
    (run,) = expand(config)
    assert run.run_id == run_id


def test_names_that_would_be_the_same_are_distinguished() -> None:
    runs = expand(
        grid(model_name=["openai:M", "openai.m", "local:smollm2"], model_options__seed=[1]).model_copy(
            update={"ollama_client_config": config_in(Path()).ollama_client_config}
        )
    )
    names = [run.run_id for run in runs]
    assert [name.rpartition("-")[0] for name in names] == [
        "demo-openai.M-seed_1",
        "demo-openai.m-seed_1",
        "demo-local.smollm2",
    ]
    assert len({name.casefold() for name in names}) == 3


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=60),
    st.lists(st.integers(), max_size=2),
)
GRIDS = st.dictionaries(
    st.sampled_from([f"model_options.option {number}" for number in range(4)]),
    st.lists(VALUES, min_size=1, max_size=4, unique_by=json.dumps),
    min_size=1,
)


@given(GRIDS, st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True), st.randoms(use_true_random=False))
def test_names_are_files_names_and_stay_the_same(
    values: dict[str, list[object]], base: str, chance: random.Random
) -> None:
    config = grid(**values).model_copy(update={"run_id": base})
    runs = expand(config)
    names = [run.run_id for run in runs]
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name) for name in names)
    assert len({name.casefold() for name in names}) == len(names)
    shuffled = {key: chance.sample(each, len(each)) for key, each in values.items()}
    again = expand(config.model_copy(update={"grid": shuffled}))
    assert {run.run_id: run.model_options for run in again} == {run.run_id: run.model_options for run in runs}


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({}, WrongValue, "grid is empty"),
        ({"run_id": ["a"]}, WrongValue, "grid.run_id is given to each run by the grid itself"),
        ({"grid.history": ["full"]}, WrongValue, "grid.grid.history is given to each run"),
        ({"log_folder": ["a"]}, WrongValue, "grid.log_folder is given to each run"),
        ({"history": []}, WrongValue, "grid.history has no value"),
        ({"model_options.seed": [1, 2, 1]}, WrongValue, "grid.model_options.seed has a value twice"),
        (
            {"limits": [{}], "limits.max_steps": [1]},
            WrongValue,
            "grid.limits.max_steps stands in the grid beside limits",
        ),
        ({"histori": ["full"]}, UnknownKey, 'in the grid, at histori="full": histori is no key'),
        ({"limits.steps": [3]}, UnknownKey, "in the grid, at limits.steps=3: limits.steps is no key"),
        (
            {"system_prompt.text": ["x"]},
            UnknownKey,
            "system_prompt.text is no key: system_prompt has no keys of its own",
        ),
        (
            {"model_options.seed": [1, "b"], "history": ["full"]},
            WrongType,
            'at model_options.seed="b", history="full": ',
        ),
        ({"model_options.temperature": [1, -1]}, WrongValue, "at model_options.temperature=-1: "),
        ({"model_name": ["local:smollm2", "llama3"]}, MissingField, 'at model_name="llama3": Missing required field'),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any], error: type[ConfigError], message: str) -> None:
    config = grid(**values).model_copy(update={"system_prompt": "Alone."})
    config = ExperimentConfig.model_validate(config.model_dump(exclude_unset=True) | {"system_prompt": "Alone."})
    with pytest.raises(error) as raised:
        expand(config)
    assert message in str(raised.value)
    assert raised.value.faults


# Running one.


@pytest.fixture
def server(warm_programs: None) -> Iterator[OllamaByRule]:
    with OllamaByRule(write_then_reflect, [MODEL, "other"]) as server:
        yield server


def on(server: OllamaByRule, folder: Path, /, **changes: Any) -> ExperimentConfig:
    """Two models with two seeds, three cycles each."""
    values = {"model_name": [MODEL, "other"], "model_options.seed": [1, 2]}
    usual: dict[str, Any] = {
        "run_id": "demo",
        "model_name": MODEL,
        "ollama_client_config": {"host": server.host},
        "grid": values,
    }
    return config_in(folder, **usual | changes)


NAMES = [f"demo-{model}-seed_{seed}" for model in (MODEL, "other") for seed in (1, 2)]


@pytest.mark.slow
def test_a_run_of_a_grid_is_what_it_is_alone(server: OllamaByRule, tmp_path: Path) -> None:
    received: list[tuple[str, LogEvent]] = []
    results = run_grid(on(server, tmp_path), workers=2, listener=lambda *what: received.append(what))
    assert [(each.run_id, each.status, each.cycles_completed, each.error) for each in results] == [
        (name, "completed", 3, "") for name in NAMES
    ]
    assert all(each.is_good and each.seconds > 0 for each in results)
    for result in results:
        lines = logged(result.log_path)
        alone = load_config(result.log_path.parent / "config.json")
        alone = alone.model_copy(update={"log_folder": tmp_path / "alone", "data_folder": tmp_path / "alone"})
        ExperimentRunner(alone).run()
        assert of_cycles(lines) == of_cycles(logged(alone.log_path))
        assert [event.event_type for run_id, event in received if run_id == result.run_id] == types(lines)
        assert (result.log_path.parent / "data" / "memory.db").is_file()
    asked = {(body["model"], body["options"]["seed"]) for body in server.requests}
    assert asked == set(itertools.product([MODEL, "other"], [1, 2]))
    assert {event.payload.get("status") for _, event in received} == {None, "completed"}


def test_the_file_beside_the_log_reports_what_was_run(server: OllamaByRule, tmp_path: Path) -> None:
    config = on(server, tmp_path, grid={"limits.max_steps": [5], "operator": ["terminal"]})
    (result,) = run_grid(config, workers=2)
    (run,) = expand(config)
    assert load_config(result.log_path.parent / "config.json") == run.model_copy(update={"operator": "none"})
    assert types(logged(result.log_path))[-1] == "RUN_END"


def test_a_run_that_fails_stops_no_other_and_is_resumed(server: OllamaByRule, tmp_path: Path) -> None:
    server.models = [MODEL]
    config = on(server, tmp_path)
    results = run_grid(config, workers=2)
    assert [each.status for each in results] == ["completed", "completed", "failed", "failed"]
    assert [each.is_good for each in results] == [True, True, False, False]
    assert [each.cycles_completed for each in results] == [3, 3, 0, 0]
    assert "ollama pull other" in results[2].error
    server.models = [MODEL, "other"]
    before = len(server.requests)
    again = run_grid(config, workers=2, resume=True)
    assert [(each.status, each.cycles_completed) for each in again] == [("completed", 3)] * 4
    assert [each.seconds > 0 for each in again] == [False, False, True, True]
    assert {body["model"] for body in server.requests[before:]} == {"other"}


def test_a_grid_that_has_run_is_not_run_over(server: OllamaByRule, tmp_path: Path) -> None:
    config = on(server, tmp_path)
    run_grid(config.model_copy(update={"grid": {"model_name": [MODEL], "model_options.seed": [1]}}), workers=1)
    before = len(server.requests)
    with pytest.raises(RunExists, match=r"1 of the 4 runs of the grid 'demo' have a log already.*--resume"):
        run_grid(config)
    assert len(server.requests) == before
    results = run_grid(config, resume=True)
    assert [each.cycles_completed for each in results] == [3] * 4


def test_the_number_of_cycles_may_be_given_separately(server: OllamaByRule, tmp_path: Path) -> None:
    config = on(server, tmp_path, grid={"model_options.seed": [1, 2]})
    assert [each.cycles_completed for each in run_grid(config, cycles=1)] == [1, 1]
    assert [each.cycles_completed for each in run_grid(config, resume=True)] == [3, 3]
    varied = on(server, tmp_path, grid={"cycle_count": [1, 2]})
    with pytest.raises(WrongValue, match=r"grid\.cycle_count is varied"):
        run_grid(varied, cycles=5)
    with pytest.raises(WrongValue, match="cycle_count must be greater than 0"):
        run_grid(config, cycles=0)


def test_what_is_no_grid_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(MissingField, match="grid is missing"):
        run_grid(config_in(tmp_path))
    with pytest.raises(ValueError, match="0 workers can run nothing"):
        run_grid(config_in(tmp_path, grid={"history": ["full"]}), workers=0)
    with pytest.raises(WrongValue):
        run_grid(config_in(tmp_path, grid={"history": ["full", "half"]}))
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_is_none_is_reported(server: OllamaByRule, tmp_path: Path) -> None:
    config = on(server, tmp_path, grid={"model_options.seed": [1, 2]})
    first, _ = expand(config)
    first.log_folder.mkdir(parents=True)
    first.log_path.write_text("my diary\n")
    broken, fine = run_grid(config, resume=True)
    assert (broken.status, fine.status) == ("failed", "completed")
    assert "not JSON" in broken.error
    assert first.log_path.read_text() == "my diary\n"


# Who answers.


def asks_then_reflects(messages: Sequence[ChatMessage]) -> ChatMessage:
    answers = [message["content"] for message in messages if message["role"] == "tool"]
    return reply(f"The answer: {answers[0]}") if answers else calls("send_message_to_operator", message="Hello?")


@pytest.mark.parametrize(
    ("workers", "reported"),
    [(1, "The answer: yes"), (2, "The answer: Error executing tool 'send_message_to_operator'")],
)
def test_one_run_after_the_other_has_the_terminal(
    tmp_path: Path, workers: int, reported: str, process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    process.stdin("yes\nyes\n")
    received: list[LogEvent] = []
    with OllamaByRule(asks_then_reflects) as server:
        config = on(server, tmp_path, operator="terminal", cycle_count=1, grid={"model_options.seed": [1, 2]})
        results = run_grid(config, workers=workers, listener=lambda _, event: received.append(event))
    assert [each.status for each in results] == ["completed", "completed"]
    for result in results:
        (end,) = of_type(logged(result.log_path), "CYCLE_END")
        assert end["payload"]["final_reflection"].startswith(reported)
    assert ("[AGENT - demo-seed_2 | Cycle 1]: Hello?" in capsys.readouterr().out) == (workers == 1)
    assert [event.payload for event in received if event.event_type == "TOOL_CALL"] == [{}, {}]


def test_a_run_that_fails_at_the_terminal_stops_no_other(server: OllamaByRule, tmp_path: Path) -> None:
    config = on(server, tmp_path, operator="terminal", grid={"model_name": ["absent", MODEL]})
    absent, there = run_grid(config, workers=1)
    assert (absent.status, there.status) == ("failed", "completed")
    assert "ollama pull absent" in absent.error
    assert there.seconds > 0


# Broken off.


class Gate:
    """A rule that blocks the third cycle until it is opened."""

    def __init__(self) -> None:
        self.opened = Event()

    def __call__(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        if cycle_of(messages) > 2:
            self.opened.wait(PATIENCE)
        return write_then_reflect(messages)


@pytest.fixture
def gate(server: OllamaByRule) -> Iterator[Gate]:
    gate = server.rule = Gate()
    yield gate
    gate.opened.set()


@pytest.mark.slow
@posix
def test_a_worker_that_is_killed_is_resumed_without_a_duplicate(
    server: OllamaByRule, gate: Gate, tmp_path: Path
) -> None:
    config = on(server, tmp_path)
    doomed = expand(config)[1]

    def kill(run_id: str, event: LogEvent) -> None:
        if run_id == doomed.run_id and event.event_type == "CYCLE_END" and event.cycle_number == 2:
            os.kill(worker_of(doomed), signal.SIGKILL)
            gate.opened.set()

    results = run_grid(config, workers=2, listener=kill)
    assert [(each.status, each.cycles_completed) for each in results] == [
        ("completed", 3),
        ("failed", 2),
        ("completed", 3),
        ("completed", 3),
    ]
    assert "was killed (SIGKILL)" in results[1].error
    assert [each.cycles_completed for each in run_grid(config, workers=2, resume=True)] == [3] * 4
    for run in expand(config):
        assert_whole(run)


def assert_whole(run: ExperimentConfig) -> None:
    """Every cycle is in the log, and nothing twice."""
    lines = logged(run.log_path)
    assert [line["sequence"] for line in lines] == list(range(len(lines)))
    assert [(number, kind) for number, kind, _ in of_cycles(lines)] == [
        (number, kind)
        for number in (1, 2, 3)
        for kind in ("CYCLE_START", *["LLM_INVOCATION", "TOOL_CALL"] * 2, "LLM_INVOCATION", "CYCLE_END")
    ]
    assert [line["payload"]["final_reflection"] for line in of_type(lines, "CYCLE_END")] == [
        f"In cycle {number} I have {number} keys." for number in (1, 2, 3)
    ]


COORDINATOR = """
import sys
from toolcast.experiments.config_files import load_config
from toolcast.experiments.grids.grid import run_grid

def on_event(run_id, event):
    if event.event_type == "CYCLE_END" and event.cycle_number == 2:
        print(run_id, flush=True)

run_grid(load_config(sys.argv[1]), workers=2, listener=on_event)
"""


@pytest.mark.slow
@posix
@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl_c", "kill"])
def test_a_grid_that_is_broken_off_leaves_no_one_and_is_resumed(
    server: OllamaByRule, gate: Gate, tmp_path: Path, number: int
) -> None:
    config = on(server, tmp_path)
    code, runs = broken_off(warm_python.Popen, COORDINATOR, config, number, 20)
    assert code == -number
    for run in runs:
        assert logged(run.log_path)[-1]["payload"] == {"status": "interrupted", "cycles_completed": 2}
    gate.opened.set()
    assert [each.cycles_completed for each in run_grid(config, workers=2, resume=True)] == [3] * 4
    for run in expand(config):
        assert_whole(run)


def test_a_listener_that_fails_is_none_of_the_runs_business(
    server: OllamaByRule, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(run_id: str, event: LogEvent) -> None:
        if event.event_type == "CYCLE_END":
            raise LookupError(run_id)

    results = run_grid(on(server, tmp_path, grid={"model_options.seed": [1, 2]}), workers=2, listener=fail)
    assert all(result.is_good for result in results)
    assert len(caplog.records) == 6


def test_workers_are_gone_when_the_listener_interrupts(server: OllamaByRule, gate: Gate, tmp_path: Path) -> None:
    begun: list[str] = []

    def leave(run_id: str, event: LogEvent) -> None:
        if event.event_type == "CYCLE_END" and event.cycle_number == 2:
            begun.append(run_id)
            if len(begun) == 2:
                raise KeyboardInterrupt

    config = on(server, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_grid(config, workers=2, listener=leave)
    ended = {"status": "interrupted", "cycles_completed": 2}
    runs = [run for run in expand(config) if run.log_path.exists()]
    assert [logged(run.log_path)[-1]["payload"] for run in runs] == [ended, ended]


@pytest.mark.slow
@pytest.mark.networked
@pytest.mark.timeout(300)
def test_the_embedded_model_in_two_workers(smollm2: Path, tmp_path: Path) -> None:
    config = config_in(
        tmp_path,
        run_id="demo",
        model_name="local:smollm2",
        cycle_count=2,
        limits={"max_steps": 3},
        model_options={"num_predict": 60},
        grid={"model_options.seed": [1, 2]},
    )
    results = run_grid(config, workers=2)
    assert [(each.status, each.cycles_completed) for each in results] == [("completed", 2), ("completed", 2)]
