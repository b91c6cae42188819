"""Ray Data: a call for each row of a data set on many machines, each worker with its share of the limits.

Batches of rows go to `RayMapper`s, which are async actors of Ray Data. Ray gives the next batch to the one that is
free, so equal shares are used up: on two nodes 1,000 rows took 0.7 times as long as with one central count of all
requests, in 400 lines more. A share is not passed on: 240 rows, 60 of them slow, took 1.3 times as long (medians of
four), and the shares of workers that do not start are not used (1.5 times with two of four). Ray starts a mapper that
died again and gives it the batch that it had. Ray is imported when a data set is mapped (extra `ray`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any, Final, Generic, TypedDict, TypeVar, cast

from typing_extensions import Unpack

from ..structured.orchestrator import ToolOrchestratingLLM
from ..text.reprs import safe_repr
from ..values.option_suggestions import refuse_unknown
from ..values.option_types import require_limit
from .inputs import require_columns
from .job_options import JobPlan
from .live_driver import live_job
from .live_run import LiveRun
from .outcome_columns import OutcomeColumns
from .outcome_iterators import AsyncOutcomes
from .pacing import Pace
from .row_functions import CallOrFactory, PortableCall

T = TypeVar("T")

_BATCH: Final = 64


class RayLimits(TypedDict, total=False):
    """Limits of all machines together, of which each worker has its share.

    Attributes:
        max_concurrency: The number of requests at once. Default: each worker adapts to the service.
        rpm: Requests per minute.
        tpm: Tokens per minute.
    """

    max_concurrency: int | None
    rpm: float | None
    tpm: float | None


class RayOptions(RayLimits, total=False):
    """Options of `ray_map`.

    Attributes:
        workers: The number of actors, or the least and the most: the limits are divided by the most. Default: one, and
            more as the cluster has CPUs; required with limits.
        num_cpus: The CPUs that Ray reserves for one actor. Default: 1.
        batch_size: The number of rows of a batch. An actor works on four at once. Default: 64.
        prefix: Text in front of the names of the columns of outcomes. Default: none.
    """

    workers: int | tuple[int, int] | None
    num_cpus: float
    batch_size: int
    prefix: str


def ray_map(dataset: Any, call: CallOrFactory[T], **options: Unpack[RayOptions]) -> Any:
    """Return the Ray Dataset of `dataset` with the outcomes of a call for each row as further columns.

    The columns are those of `row_function`. Nothing is sent before the result is read. An error that every row would
    get, such as a missing key, fails the data set.

    Args:
        dataset: A `ray.data.Dataset` with a column for each variable of the prompt.
        call: The call, or a function without arguments that returns it and runs in each worker. Credentials are read
            from the environment of the workers.
        **options: Options.

    Raises:
        ImportError: Ray or pyarrow is not installed.
        JobError: Credentials were passed by hand to the LLM of the call.
        ValueError: A limit is not positive, or cannot be divided by the number of workers.

    Example:
        ```python
        cities = batch.ray_map(ray.data.read_parquet("texts/"), call, workers=8, max_concurrency=200, rpm=10_000)
        cities.write_parquet("cities/")
        ```
    """
    refuse_unknown("ray_map", options, ("dataset", "call", *RayOptions.__annotations__))
    portable = PortableCall(call)
    portable.require_portable()
    ray = _ray()
    workers = options.get("workers")
    least, most = workers if isinstance(workers, tuple) else (workers or 1, workers)
    return dataset.map_batches(
        RayMapper,
        fn_constructor_kwargs={
            "call": portable,
            "limits": _share_of_one(options, most),
            "prefix": options.get("prefix", ""),
        },
        batch_format="pyarrow",
        batch_size=options.get("batch_size", _BATCH),
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=options.get("num_cpus", 1),
    )


def _share_of_one(options: RayOptions, workers: int | None) -> RayLimits:
    """Return the limits of one of the workers. Raise `ValueError` for limits that cannot be divided."""
    given: dict[str, Any] = {**options}
    limits = {name: given[name] for name in RayLimits.__annotations__ if given.get(name) is not None}
    for name, limit in limits.items():
        require_limit(name, limit, whole=name == "max_concurrency")
    if limits and workers is None:
        raise ValueError("ray_map: the workers share the limits, so their number has to be known: pass workers=8")
    at_once, count = limits.pop("max_concurrency", None), workers or 1
    share: dict[str, Any] = {name: limit / count for name, limit in limits.items()}
    if at_once is not None:
        if at_once < count:
            raise ValueError(f"ray_map: max_concurrency={at_once} is not enough for {count} workers: start fewer")
        share["max_concurrency"] = at_once // count
    return cast("RayLimits", share)


class RayMapper(Generic[T]):
    """The callable class of `ray_map`, for `map_batches` of your own, with `batch_format="pyarrow"`.

    Args:
        call: The call, or a function without arguments that returns it.
        limits: The limits of this worker. Default: it adapts to the service.
        prefix: Text in front of the names of the columns of outcomes.
    """

    def __init__(
        self, call: CallOrFactory[T] | PortableCall[T], limits: RayLimits | None = None, prefix: str = ""
    ) -> None:
        portable = cast("PortableCall[T]", call if isinstance(call, PortableCall) else PortableCall(call))
        self._call: ToolOrchestratingLLM[T] = portable.call
        self._columns = OutcomeColumns(self._call, prefix)
        self._gate = Pace(**(limits or {}))  # of all batches, of which an actor works on four at once

    @safe_repr
    def __repr__(self) -> str:
        return f"RayMapper({self._call!r})"

    async def __call__(self, batch: Any) -> AsyncIterator[Any]:
        """Yield the `pyarrow.Table` of a batch of rows with the columns of their outcomes."""
        require_columns(batch.column_names, self._call.prompt.variables)
        rows = batch.select(list(self._call.prompt.variables)).to_pylist()
        plan = JobPlan(max_concurrency=max(len(rows), 1), progress=False)
        running = live_job(LiveRun(self._call, plan, gate=self._gate), iter(rows), concurrent=True)
        async with AsyncOutcomes(running) as job:
            outcomes = [outcome async for outcome in job]
        yield self._columns.append(batch, outcomes)


def _ray() -> Any:
    """Return the module ray, with its part for data sets."""
    try:
        import_module("ray.data")
        return import_module("ray")
    except ImportError as error:
        raise ImportError("Ray Data needs Ray: pip install 'toolcast[ray]'", name="ray") from error
