"""`Job`: one structured call for each of many inputs, as a value."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Generic, TypeVar

from typing_extensions import Unpack

from ..llms.defaults import replacement
from ..structured.orchestrator import ToolOrchestratingLLM
from .inputs import Inputs
from .job_options import JobOptions, check_options
from .outcome import Outcome
from .outcomes import AsyncOutcomes, Outcomes
from .run import JobRun

T = TypeVar("T")


class Job(Generic[T]):
    """One structured call for each of many inputs. `call.map(...)` is `Job(call, ...).run()`.

    Args:
        call: The call.
        inputs: An iterable or async iterable of mappings, dataclasses, Pydantic models or single values, a DataFrame,
            or the path of a file.
        **options: Options of the job.
    """

    def __init__(self, call: ToolOrchestratingLLM[T], inputs: Inputs, **options: Unpack[JobOptions]) -> None:
        check_options("Job", options)
        self.call = call
        self.inputs = inputs
        self.options = options

    def run(self) -> Outcomes[T]:
        """Return an iterator over the outcomes. The calls begin with the first `next`."""
        if self._is_remote:
            from .remote.outcomes import RemoteOutcomes  # only a job through a batch API uses it

            return RemoteOutcomes(self.call, self.inputs, self.options)
        return Outcomes(JobRun(self.call, self.options), self.inputs)

    def arun(self) -> AsyncOutcomes[T]:
        """Return an async iterator over the outcomes. The calls begin with the first `anext`."""
        if self._is_remote:
            from .remote.outcomes import AsyncRemoteOutcomes  # as in `run`

            return AsyncRemoteOutcomes(self.call, self.inputs, self.options)
        return AsyncOutcomes(JobRun(self.call, self.options), self.inputs)

    @property
    def _is_remote(self) -> bool:
        """True for a job through a batch API. A replacement of the LLM (`use_llm`) has none and is called live."""
        return self.options.get("via") == "batch" and replacement() is None

    def __iter__(self) -> Iterator[Outcome[T]]:
        return self.run()

    def __aiter__(self) -> AsyncIterator[Outcome[T]]:
        return self.arun()
