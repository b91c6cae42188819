"""A real experiment: ten cycles of the embedded model, killed at ten moments, and read by others afterwards."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.test_kills import started
from support.experiments import logged, of_type
from toolcast import LlamaCpp
from toolcast.experiments.event_log import read_log
from toolcast.experiments.experiment_config import ExperimentConfig
from toolcast.experiments.runner import ExperimentRunner

pytestmark = [
    pytest.mark.networked,
    pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX systems do"),
]

CYCLES, KILLS = 10, 10
INSTRUCTIONS = """\
You are a curious agent. In each cycle you think about one thing in nature.

First remember a fact: write(key="whale", value="Whales sing to each other.")
Then end the cycle: finish_cycle(reflection="I learned that whales sing. Next I will think about volcanoes.")"""


def real(folder: Path, **changes: Any) -> dict[str, Any]:
    usual = {
        "run_id": "real",
        "model_name": "local:smollm2",
        "cycle_count": CYCLES,
        "model_options": {"temperature": 0.8, "seed": 1, "num_predict": 40},
        "system_prompt": INSTRUCTIONS,
        "max_reflections": 2,
        "tool_mode": "required",
        "limits": {"max_steps": 2},
        "operator": "none",
        "log_folder": str(folder / "logs"),
        "data_folder": str(folder / "data"),
    }
    return usual | changes


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ten_cycles_killed_at_ten_moments(tmp_path: Path) -> None:
    chance, config = random.Random(), tmp_path / "config.json"
    config.write_text(json.dumps(real(tmp_path)))
    log = tmp_path / "logs" / "real.jsonl"
    for _ in range(KILLS):
        process = started(config)
        try:
            process.wait(timeout=chance.uniform(0.5, 6))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        if log.is_file() and log.stat().st_size:
            assert list(read_log(log))
    process = started(config)
    process.communicate()
    assert process.returncode == 0

    lines = logged(log)
    for event_type in ("CYCLE_START", "CYCLE_END"):
        assert [line["cycle_number"] for line in of_type(lines, event_type)] == list(range(1, CYCLES + 1))
    ends = [line["measures"] for line in of_type(lines, "CYCLE_END")]
    assert {end["ended_by"] for end in ends} == {"reflection"}
    assert all(end["input_tokens"] > 100 and end["steps"] <= 2 for end in ends)
    calls = sum(
        len(line["payload"]["response_message"].get("tool_calls", ())) for line in of_type(lines, "LLM_INVOCATION")
    )
    assert calls == len(of_type(lines, "TOOL_CALL")) > 0


async def test_a_cycle_awaited(tmp_path: Path) -> None:
    config = ExperimentConfig.model_validate(real(tmp_path, cycle_count=1, tool_mode="native"))
    with LlamaCpp() as llm:
        runner = ExperimentRunner(config, llm=llm)
        await runner.aprepare()
        state = await runner.arun()
    assert state.completed == 1 and state.reflection_history[0]
