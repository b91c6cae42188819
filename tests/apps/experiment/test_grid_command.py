"""`toolcast experiment run` of a grid, in a terminal: who may answer, and Ctrl-C."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from support.driven_repl import CTRL_C, ENTER, PATIENCE, PROGRAM, Driven
from support.experiments import logged
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, calls, cycle_of, reply, write_then_reflect
from toolcast.experiments.config_files import load_config
from toolcast.experiments.grids.grid import expand

EXAMPLE = Path(__file__).parents[3] / "examples" / "contreact" / "grid.yaml"


@contextmanager
def in_terminal(folder: Path, server: OllamaByRule, *words: str, **changes: Any) -> Iterator[Driven]:
    """The command with a grid of two runs, in a terminal of its own."""
    config: dict[str, Any] = {
        "run_id": "demo",
        "model_name": MODEL,
        "cycle_count": 2,
        "ollama_client_config": {"host": server.host},
        "model_options": {},
        "similarity": {"embedder": "none"},
        "log_folder": str(folder / "logs"),
        "grid": {"model_options.seed": [1, 2]},
    }
    (folder / "grid.json").write_text(json.dumps(config | changes))
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")} | {"TERM": "xterm"}
    command = [sys.executable, "-c", PROGRAM, "experiment", "run", "--config", str(folder / "grid.json"), *words]
    terminal = Driven(command, env, 200, 40)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.slow
def test_ctrl_c_ends_all_runs_and_is_130(tmp_path: Path) -> None:
    opened = Event()

    def hold(messages: Sequence[ChatMessage]) -> ChatMessage:
        if cycle_of(messages) == 2:
            opened.wait(PATIENCE)
        return write_then_reflect(messages)

    with OllamaByRule(hold) as server:
        with in_terminal(tmp_path, server, "--workers", "2") as terminal:
            terminal.until("demo-seed_1: Cycle 2 starting...", "demo-seed_2: Cycle 2 starting...", "Cycles")
            terminal.type(CTRL_C)
            assert terminal.ends() == 130
        assert terminal.text.count("Interrupted.") == 1
        assert "Traceback" not in terminal.text
        assert terminal.lines[-1].endswith("--resume --workers 2")
        runs = expand(load_config(tmp_path / "grid.json"))
        ended = {"status": "interrupted", "cycles_completed": 1}
        assert [logged(run.log_path)[-1]["payload"] for run in runs] == [ended, ended]
        opened.set()
        with in_terminal(tmp_path, server, "--resume", "--workers", "2") as terminal:
            terminal.until("Executed 2 cycles in 2 runs")
            assert terminal.ends() == 0
        assert "demo-seed_1: Resuming with cycle 2..." in terminal.text


def test_with_one_worker_the_person_at_the_terminal_answers(tmp_path: Path) -> None:
    def ask(messages: Sequence[ChatMessage]) -> ChatMessage:
        answers = [message["content"] for message in messages if message["role"] == "tool"]
        return reply(f"The answer: {answers[0]}") if answers else calls("send_message_to_operator", message="Hello?")

    with (
        OllamaByRule(ask) as server,
        in_terminal(tmp_path, server, "--workers", "1", operator="terminal", cycle_count=1) as terminal,
    ):
        for number in (1, 2):
            terminal.until(f"[AGENT - demo-seed_{number} | Cycle 1]: Hello?", "[OPERATOR]:")
            terminal.type(f"yes {number}{ENTER}")
        assert terminal.ends() == 0
    text = [logged(run.log_path)[-1 - 1] for run in expand(load_config(tmp_path / "grid.json"))]
    assert [line["payload"].get("final_reflection") for line in text] == ["The answer: yes 1", "The answer: yes 2"]


def test_the_example_is_a_grid() -> None:
    pytest.importorskip("yaml")
    runs = expand(load_config(EXAMPLE))
    assert len({run.run_id for run in runs}) == len(runs) == 4
    assert {run.model_options.temperature for run in runs} == {0.2, 1.0}
    assert {run.history for run in runs} == {"reset", "full"}
