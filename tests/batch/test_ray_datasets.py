"""`ray_map` as far as that needs no Ray: a stand-in of it runs the actors here. See ray/ for the real one."""

from __future__ import annotations

import pickle
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel

from support.counting_service import CountingService
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.batch import JobError, JobStopped, RayMapper, ray_map
from toolcast.batch.row_functions import PortableCall
from toolcast.errors import AuthFailed
from toolcast.testing import ScriptedLLM


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Ray's actors run asyncio alone."""
    return str(request.param)


class FakeRay(ModuleType):
    """As much of Ray as is used."""

    data = SimpleNamespace(ActorPoolStrategy=lambda **options: options)


class FakeDataset:
    """A dataset of one table, whose batches are mapped one after the other."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.options: dict[str, Any] = {}
        self.mapper: Callable[[Any], AsyncIterator[Any]] = iter

    def map_batches(self, cls: type[RayMapper[Any]], **options: Any) -> FakeDataset:
        self.options = options
        self.mapper = cls(**options["fn_constructor_kwargs"])
        return self

    async def take(self) -> list[dict[str, Any]]:
        rows = []
        for batch in self.table.to_batches(max_chunksize=self.options["batch_size"]):
            async for made in self.mapper(pa.Table.from_batches([batch])):
                rows += made.to_pylist()
        return rows


class Square(BaseModel):
    square: int


def answer(text: str) -> dict[str, int]:
    return {"square": int(text.split()[-1]) ** 2}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay("ray")
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.data", fake.data)  # type: ignore[arg-type]  # as much as is used
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-workers")
    return fake


@pytest.fixture
def service() -> Iterator[CountingService]:
    with CountingService(answer, together=4, total=40) as service:
        yield service


def square(service: CountingService) -> ToolOrchestratingLLM[Square]:
    return ToolOrchestratingLLM(Square, "Square {number}", OpenAI("m", base_url=service.url))


NUMBERS = pa.table({"number": list(range(40)), "name": [str(number) for number in range(40)]})


async def test_outcomes_are_columns_and_a_worker_has_its_share_of_the_limits(
    ray: FakeRay, service: CountingService
) -> None:
    dataset = ray_map(FakeDataset(NUMBERS), square(service), workers=2, max_concurrency=9, batch_size=20)
    rows = await dataset.take()
    assert [row["output"]["square"] for row in rows] == [number**2 for number in range(40)]
    assert [row["name"] for row in rows] == NUMBERS.column("name").to_pylist()
    assert service.most == 4
    assert service.received == 40


async def test_what_ray_is_given(ray: FakeRay) -> None:
    call = ToolOrchestratingLLM(Square, "{number}", OpenAI("m"))
    dataset = ray_map(FakeDataset(NUMBERS), call, rpm=60, workers=(2, 5), num_cpus=0.5, prefix="x_")
    assert dataset.options["compute"] == {"min_size": 2, "max_size": 5}
    assert (dataset.options["num_cpus"], dataset.options["batch_format"]) == (0.5, "pyarrow")
    kwargs = dataset.options["fn_constructor_kwargs"]
    assert kwargs["limits"] == {"rpm": 12}
    assert isinstance(kwargs["call"], PortableCall)
    assert b"sk-of-the-workers" not in pickle.dumps(kwargs["call"])
    assert ray_map(FakeDataset(NUMBERS), call, workers=3).options["compute"] == {"min_size": 3, "max_size": 3}


async def test_an_error_that_every_row_would_get_stops_the_job(ray: FakeRay) -> None:
    def refuse(request: Any) -> Square:
        raise AuthFailed("no key")

    call = ToolOrchestratingLLM(Square, "{number}", ScriptedLLM(refuse))
    dataset = ray_map(FakeDataset(NUMBERS), lambda: call)
    with pytest.raises(JobStopped, match="no key"):
        await dataset.take()


async def test_an_empty_batch_has_the_columns(ray: FakeRay) -> None:
    call = ToolOrchestratingLLM(Square, "{number}", OpenAI("m"))
    dataset = ray_map(FakeDataset(NUMBERS), call)
    (table,) = [made async for made in dataset.mapper(NUMBERS.slice(0, 0))]
    assert table.num_rows == 0
    assert "output" in table.column_names
    with pytest.raises(JobError, match="no column 'number'"):
        [made async for made in dataset.mapper(pa.table({"n": [1]}))]


def test_credentials_that_were_passed_are_refused_before_anything_starts(ray: FakeRay) -> None:
    call = ToolOrchestratingLLM(Square, "{number}", OpenAI("m", api_key="sk-by-hand"))
    with pytest.raises(JobError, match="not sent to other processes: api_key=") as caught:
        ray_map(FakeDataset(NUMBERS), call)
    assert "sk-by-hand" not in str(caught.value)


@pytest.mark.parametrize("limits", [{"rpm": 0}, {"tpm": -1}, {"max_concurrency": 0}])
def test_limits_that_nothing_meets(ray: FakeRay, limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a number above 0, or None"):
        ray_map(FakeDataset(NUMBERS), ToolOrchestratingLLM(Square, "{number}", OpenAI("m")), workers=2, **limits)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rpm": 60}, "their number has to be known: pass workers=8"),
        ({"max_concurrency": 3, "workers": (1, 4)}, "max_concurrency=3 is not enough for 4 workers: start fewer"),
    ],
)
def test_limits_that_cannot_be_divided(ray: FakeRay, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ray_map(FakeDataset(NUMBERS), ToolOrchestratingLLM(Square, "{number}", OpenAI("m")), **options)


def test_unknown_options(ray: FakeRay) -> None:
    with pytest.raises(TypeError, match="batchsize"):
        ray_map(None, ToolOrchestratingLLM(Square, "{number}", OpenAI("m")), batchsize=3)  # type: ignore[call-arg]  # the case


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[ray\]'"):
        ray_map(None, ToolOrchestratingLLM(Square, "{number}", OpenAI("m")))
