"""A job whose process is killed at random moments, and started again with its checkpoint."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

import pytest

from support import warm_python
from support.extent import nightly
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, calls
from toolcast.batch import read_status

pytestmark = pytest.mark.slow

ITEMS, KILLS = nightly((2_000, 20), (700, 7))

# Each outcome that the job returns is noted in a file of its own, so that the parent knows what was seen before a kill.
PROGRAM = """
import os, sys
from pydantic import BaseModel
from toolcast import Ollama, ToolOrchestratingLLM
from toolcast.batch import Job

class City(BaseModel):
    name: str
    number: int

host, model, items, folder, network = sys.argv[1:]
seen = os.open(folder + "/seen", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
llm = Ollama(model, base_url=host, network="aiohttp" if network == "aiohttp" else None)
call = ToolOrchestratingLLM(City, "Extract city number {number}", llm)

class Noting(Job):
    def run(self):
        outcomes = super().run()
        following = outcomes.__next__
        class Noted(type(outcomes)):
            def __next__(self):
                outcome = following()
                os.write(seen, b"%d\\n" % outcome.index)
                return outcome
        outcomes.__class__ = Noted
        return outcomes

inputs = ({"number": number} for number in range(int(items)))
job = Noting(call, inputs, checkpoint=folder + "/cities.ckpt", max_concurrency=16, ordered=False, progress=False)
saved = job.to_jsonl(folder + "/cities.jsonl")
print(saved.done, saved.failed)
"""


class Killer:
    """The rule of the server, which kills the job at random requests, a random moment before or after its answer."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = Lock()
        self.moments = sorted(self._random.sample(range(1, ITEMS), KILLS))
        self.asked: list[int] = []  # in this run of the job
        self.job: subprocess.Popen[str] | None = None
        self.killed = self.job
        self.total = 0

    def __call__(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        number = int(messages[-1]["content"].rpartition(" ")[2])
        with self._lock:
            self.asked.append(number)
            self.total += 1
            job = self.job
            kills = job is not self.killed and bool(self.moments) and self.total >= self.moments[0]
            if kills:
                self.killed = job
                del self.moments[0]
                until = perf_counter() + self._random.uniform(0, 0.003)
        if kills:
            while perf_counter() < until:
                pass
            assert job is not None
            job.kill()
        return calls("City", name=f"c{number}", number=number)


def stored(path: Path) -> list[int]:
    """Return the positions of the items in the checkpoint."""
    if not path.exists():
        return []
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT position FROM items")]
    except sqlite3.OperationalError:  # killed before there were tables
        return []
    finally:
        connection.close()


@pytest.mark.nightly
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("network", ["httpx", "aiohttp"])
@pytest.mark.fault(150)
def test_each_item_is_in_the_output_once_after_kills_at_random_moments(tmp_path: Path, network: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"the seed of the kills is {seed}")  # shown if the test fails
    killer = Killer(seed)
    arguments: list[Any]
    killed, stored_at_kills = 0, list[int]()
    with OllamaByRule(killer) as server:
        arguments = [server.host, MODEL, ITEMS, tmp_path, network]
        ended: dict[str, Any] = {}
        while not ended:
            before = stored(tmp_path / "cities.ckpt")
            killer.asked = []
            command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
            with warm_python.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as killer.job:
                out, errors = killer.job.communicate()
            # No item is asked again once it is written, and none is written twice.
            assert set(before).isdisjoint(killer.asked), errors
            after = stored(tmp_path / "cities.ckpt")
            assert max(Counter(after).values(), default=1) == 1
            # What the job has returned is written. The last line of the file may be incomplete.
            seen = (tmp_path / "seen").read_text().split("\n")[:-1] if (tmp_path / "seen").exists() else []
            assert {int(number) for number in seen} <= set(after)
            if killer.job.returncode == -signal.SIGKILL:
                killed += 1
                stored_at_kills.append(len(after))
            else:
                ended = {"out": out, "errors": errors, "code": killer.job.returncode}
    assert ended == {"out": f"{ITEMS} 0\n", "errors": "", "code": 0}
    assert killed == KILLS
    lines = [json.loads(line) for line in (tmp_path / "cities.jsonl").read_text().splitlines()]
    assert sorted(line["index"] for line in lines) == [*range(ITEMS)]
    assert all(line["output"] == {"name": f"c{line['index']}", "number": line["index"]} for line in lines)
    status = read_status(tmp_path / "cities.ckpt")
    assert (status.done, status.failed, status.running) == (ITEMS, 0, False)
    # A kill in the first moments, while the file has no tables yet, leaves no start.
    assert KILLS <= status.starts <= KILLS + 1
    print(
        f"{killed} kills, with {stored_at_kills} of {ITEMS} items stored: {killer.total} requests, {len(lines)} lines"
    )
    # At most the items that ran at each kill were asked once more.
    assert ITEMS <= killer.total <= ITEMS + KILLS * 16
