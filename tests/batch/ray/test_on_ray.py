"""`ray_map` on a real local Ray cluster of two nodes: the same outcomes as in one process, and one limit for all."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support.counting_service import CountingService
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.batch import ray_map

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="Ray's local clusters"),
    pytest.mark.filterwarnings("ignore"),  # Ray Data warns of its own settings and leaves sockets open
]

ITEMS = int(os.environ.get("TOOLCAST_RAY_ITEMS", "2000"))


class Square(BaseModel):
    number: int
    square: int


def answer(text: str) -> dict[str, int]:
    number = int(text.split()[-1])
    return {"number": number, "square": number * number}


EXPECTED = [{"number": number, "square": number * number} for number in range(ITEMS)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two machines with two CPUs each."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OPENAI_API_KEY", "sk-of-the-workers")
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        node: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 150 * 1024 * 1024}
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.add_node(**node)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield ray
        ray.shutdown()
        cluster.shutdown()


def test_the_same_outcomes_on_two_nodes_with_an_actor_killed(cluster: Any, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(received: int) -> None:
        if received == ITEMS // 2:
            victim = int(min(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns).name)
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    with CountingService(answer, on_request=kill) as service:
        url = service.url

        def make_call() -> ToolOrchestratingLLM[Square]:
            (tmp_path / str(os.getpid())).touch()
            return ToolOrchestratingLLM(Square, "Square {number}", OpenAI("gpt-5-mini", base_url=url))

        numbers = cluster.data.from_items([{"number": number} for number in range(ITEMS)], override_num_blocks=8)
        squares = ray_map(numbers, make_call, max_concurrency=10, workers=2, batch_size=25, permits=None)
        rows = sorted(squares.take_all(), key=lambda row: row["number"])
    assert len(killed) == 1
    assert len(list(tmp_path.iterdir())) >= 3  # two workers, and the one that Ray started for the killed one
    assert [row["output"] for row in rows] == EXPECTED
    assert {row["error"] for row in rows} == {None}
    assert service.most <= 10
    assert set(service.texts) == {f"Square {number}" for number in range(ITEMS)}
    assert service.received < 2 * ITEMS
    assert service.keys == {"sk-of-the-workers"}
