"""Ray Data: a call for each row of a data set on many machines, with one limit for all of them.

Batches of rows go to `RayMapper`s, which are async actors of Ray Data; each asks one named actor, the permits, before
every request. Ray starts a mapper that died again and gives it the batch that it had; the permits are never started
again: a job without them stops. Ray is imported when a data set is mapped (extra `ray`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, Generic, TypedDict, TypeVar, cast
from uuid import uuid4

from typing_extensions import Unpack

from ..option_suggestions import refuse_unknown
from ..option_types import require_limit
from ..reprs import safe_repr
from ..structured.orchestrator import ToolOrchestratingLLM
from ..transport.httpx_network import HttpxNetwork
from ..transport.network import AsyncBackend, SystemClock
from .inputs import require_columns
from .job_options import JobPlan
from .outcome import Outcome
from .outcome_columns import OutcomeColumns
from .outcomes import AsyncOutcomes, LiveJob
from .pacing import Pace
from .permits import PermitDesk, PermitEnd, PermitGate, PermitRequest, permits_lost
from .portable_calls import CallOrFactory, PortableCall
from .run import JobRun

logger: Final = logging.getLogger("toolcast")

T = TypeVar("T")

LEASE: Final = 30.0
_BATCH: Final = 64


class RayLimits(TypedDict, total=False):
    """Limits of all machines together.

    Attributes:
        max_concurrency: The number of requests at once. Default: it adapts to the service.
        rpm: Requests per minute.
        tpm: Tokens per minute.
    """

    max_concurrency: int | None
    rpm: float | None
    tpm: float | None


class RayOptions(RayLimits, total=False):
    """Options of `ray_map`.

    Attributes:
        permits: The permits of `ray_permits`, which several data sets share, in place of limits. Default: its own.
        workers: The number of actors, or the least and the most. Default: one, and more as the cluster has CPUs.
        num_cpus: The CPUs that Ray reserves for one actor. Default: 1.
        batch_size: The number of rows of a batch. An actor works on four at once. Default: 64.
        prefix: Text in front of the names of the columns of outcomes. Default: none.
    """

    permits: Any
    workers: int | tuple[int, int] | None
    num_cpus: float
    batch_size: int
    prefix: str


def ray_map(dataset: Any, call: CallOrFactory[T], **options: Unpack[RayOptions]) -> Any:
    """Return the Ray Dataset of `dataset` with the outcomes of a call for each row as further columns.

    The columns are those of `row_function`. Nothing is sent before the result is read. An error that every row would
    get, such as a missing key, fails the data set; so does the death of the permits.

    Args:
        dataset: A `ray.data.Dataset` with a column for each variable of the prompt.
        call: The call, or a function without arguments that returns it and runs in each worker. Credentials are read
            from the environment of the workers.
        **options: Options.

    Raises:
        ImportError: Ray or pyarrow is not installed.
        JobError: Credentials were passed by hand to the LLM of the call.

    Example:
        ```python
        cities = batch.ray_map(ray.data.read_parquet("texts/"), call, max_concurrency=200, rpm=10_000)
        cities.write_parquet("cities/")
        ```
    """
    refuse_unknown("ray_map", options, ("dataset", "call", *RayOptions.__annotations__))
    portable = PortableCall(call)
    portable.require_portable()
    ray = _ray()
    given: dict[str, Any] = {**options}
    limits = cast("RayLimits", {name: given[name] for name in RayLimits.__annotations__ if name in given})
    permits = options.get("permits")
    if permits is not None and limits:
        raise TypeError(f"ray_map: expected permits or limits, got both: {', '.join(limits)} belong to ray_permits()")
    workers = options.get("workers")
    least, most = workers if isinstance(workers, tuple) else (workers or 1, workers)
    return dataset.map_batches(
        RayMapper,
        fn_constructor_kwargs={
            "call": portable,
            "permits": ray_permits(**limits) if permits is None else permits,
            "prefix": options.get("prefix", ""),
        },
        batch_format="pyarrow",
        batch_size=options.get("batch_size", _BATCH),
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=options.get("num_cpus", 1),
    )


def ray_permits(*, name: str | None = None, lease: float = LEASE, **limits: Unpack[RayLimits]) -> Any:
    """Start the actor that hands out permits for requests, for `ray_map(permits=...)`. It ends with its last handle.

    Args:
        name: The name of the actor, for `ray.get_actor`. Default: `toolcast-permits-` and digits.
        lease: The seconds after which a worker that sends no sign of life has lost its permits to others.
        **limits: Limits of all workers together.

    Raises:
        ImportError: Ray is not installed.
    """
    refuse_unknown("ray_permits", limits, ("name", "lease", *RayLimits.__annotations__))
    for limit in RayLimits.__annotations__:
        require_limit(limit, limits.get(limit), whole=limit == "max_concurrency")
    actor = _ray().remote(PermitActor)
    # It waits more than it works, and its many exchanges wait at once. A new one would not have the requests in flight.
    started = actor.options(
        name=name or f"toolcast-permits-{uuid4().hex[:8]}", num_cpus=0, max_restarts=0, max_concurrency=100_000
    )
    return started.remote(dict(limits), lease)


class PermitActor:
    """The Ray actor with the permits of all workers.

    Args:
        limits: The limits.
        lease: The seconds of a worker's lease.
    """

    def __init__(self, limits: RayLimits, lease: float) -> None:
        clock = SystemClock()
        self._desk = PermitDesk(Pace(**limits), AsyncBackend(HttpxNetwork(), clock), lease)
        self._lease = lease

    async def lease(self) -> float:
        """Return the seconds of a worker's lease."""
        return self._lease

    async def exchange(
        self, worker: str, wanted: Sequence[PermitRequest], ended: Sequence[PermitEnd], first: bool
    ) -> list[int] | None:
        """Forward an exchange to the desk."""
        return await self._desk.exchange(worker, wanted, ended, first=first)

    async def renew(self, worker: str) -> bool:
        """Forward a renewal to the desk."""
        return await self._desk.renew(worker)

    async def count(self) -> dict[str, int]:
        """Return the numbers of workers, of admitted requests and of those that wait."""
        return self._desk.count()


class _RemoteDesk:
    """The desk of another process, through its actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor

    async def exchange(
        self, worker: str, wanted: Sequence[PermitRequest], ended: Sequence[PermitEnd], *, first: bool
    ) -> list[int] | None:
        admitted: list[int] | None = await self._actor.exchange.remote(worker, list(wanted), list(ended), first)
        return admitted

    async def renew(self, worker: str) -> bool:
        return bool(await self._actor.renew.remote(worker))

    def renew_now(self, worker: str, timeout: float) -> bool:
        return bool(self._ray.get(self._actor.renew.remote(worker), timeout=timeout))


class RayMapper(Generic[T]):
    """The callable class of `ray_map`, for `map_batches` of your own, with `batch_format="pyarrow"`.

    Args:
        call: The call, or a function without arguments that returns it.
        permits: The actor of `ray_permits`.
        prefix: Text in front of the names of the columns of outcomes.
    """

    def __init__(self, call: CallOrFactory[T] | PortableCall[T], permits: Any, prefix: str = "") -> None:
        ray = _ray()
        portable = cast("PortableCall[T]", call if isinstance(call, PortableCall) else PortableCall(call))
        self._call: ToolOrchestratingLLM[T] = portable.call
        self._columns = OutcomeColumns(self._call, prefix)
        desk = _RemoteDesk(ray, permits)
        try:
            lease = float(ray.get(permits.lease.remote()))
        except ray.exceptions.RayActorError as error:
            raise permits_lost(error) from error
        actor = ray.get_runtime_context().get_actor_id()
        self._gate = PermitGate(desk, lease, actor=actor, renew=partial(desk.renew_now, timeout=lease))

    @safe_repr
    def __repr__(self) -> str:
        return f"RayMapper({self._call!r})"

    def close(self) -> None:
        """Stop renewing the lease. Ray ends the process, which does the same."""
        self._gate.close()

    async def __call__(self, batch: Any) -> AsyncIterator[Any]:
        """Yield the `pyarrow.Table` of a batch of rows with the columns of their outcomes."""
        require_columns(batch.column_names, self._call.prompt.variables)
        rows = batch.select(list(self._call.prompt.variables)).to_pylist()
        outcomes: list[Outcome[T]] = []
        plan = JobPlan(max_concurrency=max(len(rows), 1), progress=False)
        running = LiveJob(JobRun(self._call, plan, gate=self._gate), iter(rows), concurrent=True)
        async with AsyncOutcomes(running) as job:
            async for outcome in job:
                if self._gate.lost is not None:
                    raise self._gate.lost
                outcomes.append(outcome)
        yield self._columns.append(batch, outcomes)


def _ray() -> Any:
    """Return the module ray, with its part for data sets."""
    try:
        import_module("ray.data")
        return import_module("ray")
    except ImportError as error:
        raise ImportError("Ray Data needs Ray: pip install 'toolcast[ray]'", name="ray") from error
