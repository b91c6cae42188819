"""Grids on real local Ray clusters: one that is started for the grid, and one of two nodes that is joined."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from support.experiments import broken_off, config_in, logged, of_cycles, types, worker_of
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, cycle_of, write_then_reflect
from toolcast.experiments.experiment_config import ExperimentConfig
from toolcast.experiments.grids.grid import GridResult, expand, run_grid
from toolcast.experiments.log_events import LogEvent

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform != "linux", reason="Ray's local clusters, and pidfd_open"),
]

PATIENCE = 60.0


@pytest.fixture
def server() -> Iterator[OllamaByRule]:
    with OllamaByRule(write_then_reflect) as server:
        yield server


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture(scope="module")
def two_node_cluster() -> Iterator[str]:
    """A cluster of two machines with one CPU each."""
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(**{key: value for key, value in node.items() if key != "include_dashboard"})
    cluster.wait_for_nodes()
    yield cluster.address
    cluster.shutdown()


@pytest.fixture
def two_nodes(two_node_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", two_node_cluster)


def on(server: OllamaByRule, folder: Path, /, **changes: Any) -> ExperimentConfig:
    usual: dict[str, Any] = {
        "run_id": "demo",
        "model_name": MODEL,
        "ollama_client_config": {"host": server.host},
        "grid": {"model_options.seed": [1, 2, 3]},
    }
    return config_in(folder, **usual | changes)


def statuses(results: Sequence[GridResult]) -> list[tuple[str, str, int]]:
    return [(each.run_id, each.status, each.cycles_completed) for each in results]


DONE = [(f"demo-seed_{seed}", "completed", 3) for seed in (1, 2, 3)]


def test_a_grid_on_ray_is_the_same_grid(server: OllamaByRule, tmp_path: Path) -> None:
    received: list[tuple[str, str]] = []
    config = on(server, tmp_path / "ray")
    on_ray = run_grid(
        config, executor="ray", workers=2, listener=lambda run_id, event: received.append((run_id, event.event_type))
    )
    here = run_grid(on(server, tmp_path / "here"), workers=2)
    assert statuses(on_ray) == statuses(here) == DONE
    for one, other in zip(on_ray, here, strict=True):
        lines = logged(one.log_path)
        assert of_cycles(lines) == of_cycles(logged(other.log_path))
        assert [event_type for run_id, event_type in received if run_id == one.run_id] == types(lines)
        assert {path.name for path in one.log_path.parent.iterdir()} == {
            path.name for path in other.log_path.parent.iterdir()
        }
    assert [each.seconds for each in run_grid(config, executor="ray", resume=True)] == [0.0] * 3


COORDINATOR = """
import sys
from toolcast.experiments.config_files import load_config
from toolcast.experiments.grids.grid import run_grid

def on_event(run_id, event):
    if event.event_type == "CYCLE_START":
        print(run_id, flush=True)

run_grid(load_config(sys.argv[1]), workers=2, executor="ray", listener=on_event)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_grid_on_ray_that_is_broken_off_leaves_no_one(server: OllamaByRule, tmp_path: Path, number: int) -> None:
    held = Event()

    def hold(messages: Sequence[ChatMessage]) -> ChatMessage:
        held.wait(PATIENCE)
        return write_then_reflect(messages)

    server.rule = hold
    config = on(server, tmp_path)
    code, runs = broken_off(subprocess.Popen, COORDINATOR, config, number, PATIENCE)
    assert code == -number
    if number == signal.SIGINT:  # killed, a cluster kills what its tasks have started
        ended = {"status": "interrupted", "cycles_completed": 0}
        assert [logged(run.log_path)[-1]["payload"] for run in runs] == [ended] * 2
    held.set()
    assert statuses(run_grid(config, workers=2, resume=True)) == DONE


# The tests on one cluster come last: while it lives, Ray would join it in place of one of its own.


@pytest.mark.usefixtures("two_nodes")
def test_the_nodes_of_a_cluster_work_at_once(server: OllamaByRule, tmp_path: Path) -> None:
    together = Barrier(2, timeout=PATIENCE)

    def meet(messages: Sequence[ChatMessage]) -> ChatMessage:
        if not any(message["role"] == "tool" for message in messages):
            together.wait()  # a run alone would fail here: there is one CPU a node
        return write_then_reflect(messages)

    server.rule = meet
    config = on(server, tmp_path, grid={"model_options.seed": [1, 2]})
    assert statuses(run_grid(config, executor="ray")) == DONE[:2]


@pytest.mark.usefixtures("two_nodes")
def test_a_run_that_fails_or_dies_on_ray_stops_no_other(server: OllamaByRule, tmp_path: Path) -> None:
    config = on(server, tmp_path, grid={"model_name": [MODEL, "absent"], "model_options.seed": [1, 2]})
    doomed = expand(config)[1]
    held = Event()

    def hold(messages: Sequence[ChatMessage]) -> ChatMessage:
        if cycle_of(messages) > 2:
            assert held.wait(PATIENCE)
        return write_then_reflect(messages)

    def kill(run_id: str, event: LogEvent) -> None:
        if run_id == doomed.run_id and event.event_type == "CYCLE_END" and event.cycle_number == 2:
            os.kill(worker_of(doomed), signal.SIGKILL)
            held.set()

    server.rule = hold
    results = run_grid(config, executor="ray", listener=kill)
    assert [(each.status, each.cycles_completed) for each in results] == [
        ("completed", 3),
        ("failed", 2),
        ("failed", 0),
        ("failed", 0),
    ]
    assert "was killed (SIGKILL)" in results[1].error
    assert "ollama pull absent" in results[2].error
    server.models = [MODEL, "absent"]
    assert [each.cycles_completed for each in run_grid(config, executor="ray", resume=True)] == [3] * 4


@pytest.mark.usefixtures("two_nodes")
def test_a_node_that_is_lost_is_a_run_that_failed(server: OllamaByRule, tmp_path: Path) -> None:
    config = on(server, tmp_path, grid={"model_options.seed": [1]})
    (run,) = expand(config)
    held = Event()

    def hold(messages: Sequence[ChatMessage]) -> ChatMessage:
        held.wait(PATIENCE)
        return write_then_reflect(messages)

    def kill_the_task(run_id: str, event: LogEvent) -> None:
        if event.event_type == "CYCLE_START":
            task = int(Path(f"/proc/{worker_of(run)}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(task, signal.SIGKILL)

    server.rule = hold
    (result,) = run_grid(config, executor="ray", listener=kill_the_task)
    assert result.status == "failed"
    assert "its Ray task failed" in result.error
    held.set()
