"""Runs that are killed and go on: real processes, `kill -9` at random moments (X10)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import warm_python
from support.experiments import logged, of_type
from support.ollama_by_rule import MODEL, OllamaByRule, write_then_reflect
from toolcast.experiments.event_log import read_log

CYCLES = 60
KILLS = 10
RUN = """
import sys
from toolcast.experiments.runner import ExperimentRunner

print("ready", flush=True)
ExperimentRunner(sys.argv[1], resume=True).run()
"""


def started(config: Path) -> subprocess.Popen[str]:
    """A process that runs the experiment; it has begun to work."""
    process = warm_python.Popen([sys.executable, "-c", RUN, str(config)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX systems do")
@pytest.mark.timeout(120)
def test_x10_killed_at_ten_moments_a_run_goes_on_without_a_duplicate(tmp_path: Path) -> None:
    chance = random.Random()
    with OllamaByRule(write_then_reflect) as server:
        config = tmp_path / "config.json"
        received: dict[str, Any] = {
            "run_id": "killed",
            "model_name": MODEL,
            "cycle_count": CYCLES,
            "ollama_client_config": {"host": server.host},
            "model_options": {"temperature": 0},
            "similarity": {"embedder": "words"},
            "operator": "none",
            "log_folder": str(tmp_path / "logs"),
            "data_folder": str(tmp_path / "data"),
        }
        config.write_text(json.dumps(received))
        log = tmp_path / "logs" / "killed.jsonl"
        killed, reached = 0, 0
        while killed < KILLS:
            process = started(config)
            begun = len(server.requests)
            goal = begun + chance.randrange(1, CYCLES * 3 // KILLS)
            while len(server.requests) < goal and process.poll() is None:
                pass  # the moment of a kill is that of the process, not of a clock
            for _ in range(chance.randrange(20_000)):
                pass
            if process.poll() is not None:
                break
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
            events = list(read_log(log, tolerate_torn=True))
            assert len(events) >= reached
            reached = len(events)
        process = started(config)
        assert process.wait() == 0
        process.communicate()
    assert killed >= 5
    lines = logged(log)
    assert [line["sequence"] for line in lines] == list(range(len(lines)))
    for event_type in ("CYCLE_START", "CYCLE_END"):
        assert [line["cycle_number"] for line in of_type(lines, event_type)] == list(range(1, CYCLES + 1))
    outputs = [line["payload"]["output"] for line in of_type(lines, "TOOL_CALL")]
    writes = [f"Wrote value to key 'c{cycle}'" for cycle in range(1, CYCLES + 1)]
    assert outputs[::2] == writes, "each was run once, and none twice"
    assert outputs[1::2] == [", ".join(f"c{n}" for n in range(1, cycle + 1)) for cycle in range(1, CYCLES + 1)]
    reflections = [line["payload"]["final_reflection"] for line in of_type(lines, "CYCLE_END")]
    assert reflections == [f"In cycle {cycle} I have {cycle} keys." for cycle in range(1, CYCLES + 1)]
    assert len(of_type(lines, "LLM_INVOCATION")) == 3 * CYCLES
