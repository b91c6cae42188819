"""`ray_map` on a real local Ray cluster of two nodes: the same outcomes as in one process, within the limits of all.

With TOOLCAST_RAY_ITEMS=20000, ten times as many items.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel

from docs.pages import ROOT, blocks
from support.counting_service import CountingService
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.batch import ray_map, row_function

ITEMS = int(os.environ.get("TOOLCAST_RAY_ITEMS", "2000"))
BLOCK = 250

pytestmark = [
    pytest.mark.timeout(240 if ITEMS <= 2000 else 1200),
    pytest.mark.skipif(sys.platform != "linux", reason="Ray's local clusters"),
    pytest.mark.filterwarnings("ignore"),  # Ray Data warns of its own settings and leaves sockets open
]


class Parity(Enum):
    EVEN = "even"
    ODD = "odd"


class Square(BaseModel):
    number: int
    square: Decimal
    parity: Parity
    factors: list[int] | None = None
    note: int | str = ""


def answer(text: str) -> dict[str, Any]:
    number = int(text.split()[-1])
    return {"number": number, "square": str(number**2), "parity": "odd" if number % 2 else "even", "note": number}


def call_for(url: str) -> ToolOrchestratingLLM[Square]:
    return ToolOrchestratingLLM(Square, "Square {number}", OpenAI("gpt-5-mini", base_url=url))


def rows_of(dataset: Any) -> list[dict[str, Any]]:
    return sorted(dataset.take_all(), key=lambda row: row["number"])


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


def test_the_same_outcomes_as_in_one_process_with_an_actor_killed(cluster: Any, tmp_path: Path) -> None:
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
            return call_for(url)

        numbers = cluster.data.from_items(
            [{"number": number} for number in range(ITEMS)], override_num_blocks=ITEMS // BLOCK
        )
        rows = rows_of(ray_map(numbers, make_call, max_concurrency=10, workers=2, batch_size=25))
        most, received, texts = service.most, service.received, set(service.texts)
        service.texts.clear()
        here = row_function(call_for(url)).table(pa.table({"number": range(ITEMS)}))
    assert len(killed) == 1
    assert len(list(tmp_path.iterdir())) >= 3  # two workers, and the one that Ray started for the killed one
    assert most <= 10
    assert ITEMS <= received <= ITEMS + BLOCK  # the block of the killed actor is sent again
    assert texts == set(service.texts)
    assert service.keys == {"sk-of-the-workers"}
    same = ["number", "output", "error", "error_type", "attempts", "input_tokens", "output_tokens", "cost"]
    assert [{name: row[name] for name in same} for row in rows] == here.select(same).to_pylist()


def test_outcomes_have_one_schema(cluster: Any) -> None:
    with CountingService(answer) as service:
        numbers = cluster.data.from_items([{"number": number} for number in range(4)], override_num_blocks=2)
        found = ray_map(numbers, call_for(service.url), workers=1, prefix="x_").materialize().schema()
        expected = row_function(call_for(service.url), prefix="x_").schema
    assert dict(zip(found.names, found.types, strict=True)) == {
        "number": pa.int64(),
        **{field.name: field.type for field in expected},
    }


def test_the_snippet_of_the_documentation(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    page = blocks(ROOT / "docs" / "how-to" / "many-inputs.md")
    for block in [page[0], *(block for block in page if (block.order, block.rest) == ("needs", "ray"))]:
        exec(compile(block.code, str(block), "exec"), names)
    assert capsys.readouterr().out.splitlines()[-1] == "['Lima', 'Oslo']"
