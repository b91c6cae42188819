"""`ray_map` as far as that needs no Ray: a stand-in of it runs the actors here. See ray/ for the real one."""

from __future__ import annotations

import asyncio
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
from toolcast.batch import JobError, JobStopped, PermitsLost, RayMapper, ray_map, ray_permits
from toolcast.batch.portable_calls import PortableCall
from toolcast.errors import AuthFailed
from toolcast.testing import ScriptedLLM


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Ray's actors run asyncio alone."""
    return str(request.param)


class ActorDied(Exception):
    """The error of a dead actor."""


class FakeActor:
    """An actor in this process: `method.remote(...)` returns an awaitable, which `get` can wait for too."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        def remote(*arguments: Any) -> Any:
            if self.dead:
                raise ActorDied("the actor has died")
            return getattr(self.made, name)(*pickle.loads(pickle.dumps(arguments)))

        return SimpleNamespace(remote=remote)


class FakeRay(ModuleType):
    """As much of Ray as is used."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = SimpleNamespace(RayActorError=ActorDied)
        self.data = SimpleNamespace(ActorPoolStrategy=lambda **options: options)
        self.options: list[dict[str, Any]] = []
        self.actors: list[FakeActor] = []

    def remote(self, cls: Callable[..., Any]) -> Any:
        def start(*arguments: Any) -> FakeActor:
            self.actors.append(FakeActor(cls(*arguments)))
            return self.actors[-1]

        def options(**given: Any) -> Any:
            self.options.append(given)
            return SimpleNamespace(remote=start)

        return SimpleNamespace(options=options)

    def get(self, awaitable: Any, timeout: float | None = None) -> Any:
        with pytest.raises(StopIteration) as stopped:  # the methods that are waited for do not suspend
            awaitable.send(None)
        return stopped.value.value

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_actor_id=lambda: "actor")


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
    fake = FakeRay()
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


async def test_outcomes_are_columns_and_permits_limit_requests(ray: FakeRay, service: CountingService) -> None:
    dataset = ray_map(FakeDataset(NUMBERS), square(service), max_concurrency=4, batch_size=20)
    rows = await dataset.take()
    assert [row["output"]["square"] for row in rows] == [number**2 for number in range(40)]
    assert [row["name"] for row in rows] == NUMBERS.column("name").to_pylist()
    assert service.most == 4
    assert service.received == 40
    count = await ray.actors[0].count.remote()
    assert (count["workers"], count["waiting"]) == (1, 0)
    dataset.mapper.close()


async def test_what_ray_is_given(ray: FakeRay) -> None:
    call = ToolOrchestratingLLM(Square, "{number}", OpenAI("m"))
    dataset = ray_map(FakeDataset(NUMBERS), call, rpm=60, workers=(2, 5), num_cpus=0.5, prefix="x_")
    assert dataset.options["compute"] == {"min_size": 2, "max_size": 5}
    assert (dataset.options["num_cpus"], dataset.options["batch_format"]) == (0.5, "pyarrow")
    (actor,) = ray.options
    assert actor.pop("name").startswith("toolcast-permits-")
    assert actor == {"num_cpus": 0, "max_restarts": 0, "max_concurrency": 100_000}
    kwargs = dataset.options["fn_constructor_kwargs"]
    assert isinstance(kwargs["call"], PortableCall)
    assert b"sk-of-the-workers" not in pickle.dumps(kwargs["call"])
    dataset.mapper.close()
    assert ray_map(FakeDataset(NUMBERS), call, workers=3).options["compute"] == {"min_size": 3, "max_size": 3}


def test_shared_permits(ray: FakeRay) -> None:
    permits = ray_permits(name="mine", max_concurrency=3, lease=5)
    call = ToolOrchestratingLLM(Square, "{number}", OpenAI("m"))
    for _ in range(2):
        ray_map(FakeDataset(NUMBERS), call, permits=permits).mapper.close()
    assert len(ray.actors) == 1
    assert ray.options[0]["name"] == "mine"
    with pytest.raises(TypeError, match=r"expected permits or limits, got both: rpm belong to ray_permits\(\)"):
        ray_map(FakeDataset(NUMBERS), call, permits=permits, rpm=3)


async def test_the_death_of_the_permits_stops_the_job(ray: FakeRay, service: CountingService) -> None:
    permits = ray_permits(max_concurrency=4)
    dataset = ray_map(FakeDataset(NUMBERS), square(service), permits=permits)
    permits.dead = True
    with pytest.raises(PermitsLost, match=r"ActorDied: the actor has died\. Nothing is sent"):
        await dataset.take()
    assert service.received == 0
    with pytest.raises(PermitsLost):  # nor does a worker start
        ray_map(FakeDataset(NUMBERS), square(service), permits=permits)
    dataset.mapper.close()


async def test_the_lease_is_renewed(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the two clocks none goes on: an expired lease would end this process.
    monkeypatch.setattr("toolcast.batch.permits.monotonic", lambda: 0.0)
    permits = ray_permits(lease=0.01)
    permits.made._desk._backend = SimpleNamespace(now=lambda: 0.0, concurrent=True)
    llm = ScriptedLLM([Square(square=1)] * 40)
    dataset = ray_map(FakeDataset(NUMBERS), lambda: ToolOrchestratingLLM(Square, "{number}", llm), permits=permits)
    await dataset.take()
    desk, renewed = permits.made._desk, asyncio.Event()
    loop, renew = asyncio.get_running_loop(), desk.renew

    async def observed(worker: str) -> bool:
        loop.call_soon_threadsafe(renewed.set)
        return bool(await renew(worker))

    desk.renew = observed
    await renewed.wait()
    assert await dataset.mapper._gate._desk.renew(dataset.mapper._gate.name) is True
    dataset.mapper.close()


async def test_an_error_that_every_row_would_get_stops_the_job(ray: FakeRay) -> None:
    def refuse(request: Any) -> Square:
        raise AuthFailed("no key")

    call = ToolOrchestratingLLM(Square, "{number}", ScriptedLLM(refuse))
    dataset = ray_map(FakeDataset(NUMBERS), lambda: call)
    with pytest.raises(JobStopped, match="no key"):
        await dataset.take()
    dataset.mapper.close()


async def test_an_empty_batch_has_the_columns(ray: FakeRay) -> None:
    call = ToolOrchestratingLLM(Square, "{number}", OpenAI("m"))
    dataset = ray_map(FakeDataset(NUMBERS), call)
    (table,) = [made async for made in dataset.mapper(NUMBERS.slice(0, 0))]
    assert table.num_rows == 0
    assert "output" in table.column_names
    with pytest.raises(JobError, match="no column 'number'"):
        [made async for made in dataset.mapper(pa.table({"n": [1]}))]
    dataset.mapper.close()


def test_credentials_that_were_passed_are_refused_before_anything_starts(ray: FakeRay) -> None:
    call = ToolOrchestratingLLM(Square, "{number}", OpenAI("m", api_key="sk-by-hand"))
    with pytest.raises(JobError, match="not sent to other processes: api_key=") as caught:
        ray_map(FakeDataset(NUMBERS), call)
    assert "sk-by-hand" not in str(caught.value)
    assert ray.actors == []


@pytest.mark.parametrize("limits", [{"rpm": 0}, {"tpm": -1}, {"max_concurrency": 0}])
def test_limits_that_nothing_meets(ray: FakeRay, limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a number above 0, or None"):
        ray_permits(**limits)


def test_unknown_options(ray: FakeRay) -> None:
    with pytest.raises(TypeError, match="rmp"):
        ray_permits(rmp=3)  # type: ignore[call-arg]  # the case
    with pytest.raises(TypeError, match="batchsize"):
        ray_map(None, ToolOrchestratingLLM(Square, "{number}", OpenAI("m")), batchsize=3)  # type: ignore[call-arg]  # the case


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[ray\]'"):
        ray_permits()
