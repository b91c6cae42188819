"""Processes with a job through a batch API that are killed (SIGKILL) at each request, over HTTP, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from batch.remote.test_remote_run import once_invalid
from support.extent import nightly
from support.openai_batches import OpenAIBatchServer, last_text

PROGRAM = """
import json
import sys

from pydantic import BaseModel

import toolcast
from toolcast.batch.remote import recovery
from toolcast.providers.chat_completions.services import OPENAI

url, path, reask = sys.argv[1:]
recovery.GRACE = 0.2  # seconds for which a batch may be missing in the list; here it never is


class Out(BaseModel):
    text: str


llm = toolcast.OpenAI("gpt-4o-mini", api_key="sk-test", base_url=url)
object.__setattr__(llm.adapter._service.batches, "requests", 2)
call = toolcast.ToolOrchestratingLLM(Out, "Say {x}", llm, max_attempts=2)
rows = [{"x": number} for number in range(3)]
for outcome in call.map(rows, via="batch", checkpoint=path, poll=0.01, reask=reask, ordered=False):
    print(json.dumps([outcome.index, outcome.output.text]), flush=True)
"""


class KilledAt:
    """Kills the process `pid` at the request with this number, before or after the server processes it."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.pid = 0

    def __call__(self, method: str, path: str) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(self.pid, signal.SIGKILL)


def start(program: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(program), *arguments], stdout=subprocess.PIPE, text=True)


def read(process: subprocess.Popen[str]) -> list[Any]:
    """Return the outcomes that the process printed until its end."""
    assert process.stdout is not None
    with process.stdout:
        lines = process.stdout.read().splitlines()
    process.wait(60)
    return [json.loads(line) for line in lines]


AFTER, BEFORE = range(1, 17, nightly(1, 3)), range(1, 17, nightly(4, 9))
MOMENTS = [("after", number) for number in AFTER] + [("before", number) for number in BEFORE]


@pytest.mark.nightly
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
@pytest.mark.parametrize(("moment", "number"), MOMENTS)
def test_a_job_that_is_killed_at_any_request_goes_on_there(tmp_path: Path, moment: str, number: int) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    path = str(tmp_path / "job.db")
    reask = "batch" if number % 2 else "live"
    with OpenAIBatchServer(once_invalid({"Say 1"})) as server:
        killer = KilledAt(number)
        setattr(server, moment, killer)
        with server.paused:  # until the process is known
            process = start(program, server.url, path, reask)
            killer.pid = process.pid
        first = read(process)
        assert process.returncode == -signal.SIGKILL
        process = start(program, server.url, path, reask)
        outcomes = read(process)
        assert process.returncode == 0
        assert sorted(outcomes) == [[index, f"Say {index}"] for index in range(3)]
        assert all(outcome in outcomes for outcome in first)
        asked = Counter((last_text(body), len(body["messages"])) for body in server.submitted.values())
        assert set(asked.values()) == {1}
        assert len(asked) == (3 if reask == "live" else 4)
        # A file may be left that was uploaded when the process was killed; no batch has it, so nothing is charged.
        assert len(server.files) <= server.log.count("POST /v1/files") - len(server.batches)
