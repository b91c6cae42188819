"""`Job`: one structured call for each of many inputs, as a value."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import chain
from os import PathLike
from typing import Any, Final, Generic, TypedDict, TypeVar, get_args

from typing_extensions import Unpack

from ..llms.defaults import replacement
from ..structured.orchestrator import ToolOrchestratingLLM
from ..text.reprs import safe_repr
from ..values.option_suggestions import refuse_unknown
from ..values.option_types import require_number
from .estimate import SAMPLE, Estimate
from .input_files import FileRows
from .inputs import Inputs, length_of, open_inputs, spread
from .job_options import JobOptions, JobPlan, plan_of
from .live_driver import live_job
from .live_run import LiveRun
from .outcome import Outcome, OutcomeList
from .outcome_iterators import AsyncOutcomes, Outcomes, RunningJob
from .remote.journal import open_batches
from .result_files import IfExists, SavedResults

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")


class ResultOptions(TypedDict, total=False):
    """Options of the methods of a job that write files.

    Attributes:
        if_exists: For a file of the same name: `"error"`, `"replace"` or `"append"`. Default: with a checkpoint
            `"replace"`, as it has all results; else `"error"`.
        errors: The file of the errors. Default: the name and `.errors.jsonl`.
    """

    if_exists: IfExists
    errors: str | PathLike[str] | None


class Job(Generic[T]):
    """One structured call for each of many inputs. `call.map(...)` is `Job(call, ...).run()`.

    Args:
        call: The call.
        inputs: An iterable or async iterable of mappings, dataclasses, Pydantic models or single values, a DataFrame,
            or the path of a file.
    """

    def __init__(self, call: ToolOrchestratingLLM[T], inputs: Inputs, **options: Unpack[JobOptions]) -> None:
        self.plan: JobPlan = plan_of(options)
        self.call: ToolOrchestratingLLM[T] = call.with_found_llm()  # its threads have contexts of their own
        self.inputs: Inputs = inputs
        self.options: JobOptions = options

    @safe_repr
    def __repr__(self) -> str:
        given: Any = self.inputs
        # Rows of a file open it to be counted.
        counted = hasattr(given, "__len__") and not isinstance(self.inputs, FileRows)
        inputs = f"{len(given)} inputs" if counted else f"{given!r:.200}"
        options = "".join([f", {name}={value!r}" for name, value in self.options.items()])
        return f"Job({self.call!r}, {inputs}{options})"

    def run(self) -> Outcomes[T]:
        """Return an iterator over the outcomes. The calls begin with the first `next`."""
        rows = open_inputs(self.inputs, self.call.prompt.variables)
        if isinstance(rows, AsyncIterator):
            raise TypeError("inputs: expected an iterable, got an async one, which amap() and arun() read")
        return Outcomes(self._begin(rows, concurrent=False))

    def arun(self) -> AsyncOutcomes[T]:
        """Return an async iterator over the outcomes. The calls begin with the first `anext`."""
        return AsyncOutcomes(self._begin(open_inputs(self.inputs, self.call.prompt.variables), concurrent=True))

    def sample(self, count: int = 50, path: str | PathLike[str] | None = None) -> OutcomeList[T]:
        """Make the calls for some of the inputs, and return their outcomes, to look at them before the job is run.

        Args:
            count: The largest number of inputs: spread evenly over them if they have a length, else their beginning.
                Default: 50.
            path: A file for an HTML table of the inputs, outputs and errors. Default: none is written.

        Raises:
            TypeError: The inputs are an async iterable.
            ValueError: `count` is not positive.
        """
        from .review import write_review

        chosen, _ = self._sample(count)
        part = Job(self.call, [each for _, each in chosen], **self.options)
        outcomes = OutcomeList([replace(outcome, index=chosen[outcome.index][0]) for outcome in part.run()])
        if path is not None:
            write_review(outcomes, path)
        return outcomes

    def estimate(self, sample: int = SAMPLE) -> Estimate[T]:
        """Ask `sample` items, and project cost, tokens and time to all of them, with an interval of 95 %.

        The sample is spread over the inputs if they have a length; else it is their beginning. Its requests are sent
        live and count for the budget. With a checkpoint a run does not ask for these items again; without one they are
        in the `outcomes` of the estimate alone.

        Args:
            sample: The number of items. Default: 20.

        Returns:
            The estimate; `print` shows it.

        Raises:
            ValueError: `sample` is not positive, or there are no inputs.
            JobStopped: An error that all items would get, or the budget, ended the sample.
        """
        chosen, total = self._sample(sample)
        if not chosen:
            raise ValueError("there are no inputs to estimate by")
        run = LiveRun(self.call, self.plan, len(chosen))
        rows = iter([each for _, each in chosen])
        with Outcomes(live_job(run, rows, concurrent=False)) as outcomes:
            found = tuple([replace(outcome, index=chosen[outcome.index][0]) for outcome in outcomes])
        return Estimate(found, total, run.schedule.limit, self.plan.rpm, self.plan.tpm)

    def _sample(self, count: int) -> tuple[list[tuple[int, Any]], int | None]:
        """Return up to `count` inputs with their indexes, and the number of all inputs if it is known."""
        require_number("the size of a sample", count, whole=True)
        if count < 1:
            raise ValueError(f"a sample of {count} inputs: expected at least 1")
        rows, total = open_inputs(self.inputs, self.call.prompt.variables), length_of(self.inputs)
        if isinstance(rows, AsyncIterator):
            raise TypeError("inputs: a sample reads no async iterable; pass a list of some of the inputs")
        if rows is not self.inputs:
            return spread(rows, total, count), total
        # An iterator, of which a run reads what is left: the sample is its beginning, which is put back.
        chosen = spread(rows, None, count)
        self.inputs = chain([each for _, each in chosen], rows)
        return chosen, total

    def _begin(self, rows: Iterator[Any] | AsyncIterator[Any], *, concurrent: bool) -> RunningJob[T]:
        total = length_of(self.inputs)
        # A replacement of the LLM (`use_llm`) has no batch API and is called live.
        if self.plan.via == "batch" and replacement() is None:
            from .remote.batch_driver import batch_job  # only a job through a batch API uses it

            return batch_job(self.call, rows, self.plan, total, concurrent=concurrent)
        run = LiveRun(self.call, self.plan, total)
        if (stored := run.run.checkpoint) is not None and (batches := open_batches(stored.file)):
            logger.warning(
                "the job has batches at the provider whose results were not fetched (%s): their items are asked again "
                "and paid for twice. Continue it with via='batch'",
                ", ".join(batches),
            )
        return live_job(run, rows, concurrent=concurrent)

    def to_jsonl(self, path: str | PathLike[str], **options: Unpack[ResultOptions]) -> SavedResults:
        """Run the job and write its outputs to a JSON Lines file, with the inputs, tokens and cost.

        While the job runs the file is `NAME.part`, where an early end leaves it. Errors are written to a file of their
        own, the name and `.errors.jsonl`, which is the source of the inputs for another run of the failed items.

        Args:
            path: The file.
            **options: What happens to an existing file, and the file of the errors.

        Returns:
            The names of the files, and the numbers of outputs and errors.

        Raises:
            FileExistsError: If the file exists and `if_exists` does not allow to replace it or to append to it.
            JobStopped: If the job was stopped. Its notes name the files with the outcomes until then.
        """
        from .result_files import JSONLinesFile, save_outcomes

        if_exists = self._if_exists(options)
        with self.run() as outcomes:
            return save_outcomes(outcomes, JSONLinesFile(path, if_exists), options.get("errors"))

    def to_csv(
        self, path: str | PathLike[str], *, delimiter: str = ",", **options: Unpack[ResultOptions]
    ) -> SavedResults:
        """Run the job and write its outputs to a CSV file: the index, the columns of the inputs, those of the outputs.

        Nested values are JSON text. A text that a spreadsheet would take for a formula gets an apostrophe in front.
        Files, errors and exceptions are those of `to_jsonl`.

        Args:
            path: The file.
            delimiter: One character. Default: a comma.
            **options: What happens to an existing file, and the file of the errors.
        """
        from .result_files import CSVFile, save_outcomes

        if_exists = self._if_exists(options)
        with self.run() as outcomes:
            return save_outcomes(outcomes, CSVFile(path, self.call, if_exists, delimiter), options.get("errors"))

    def to_parquet(self, path: str | PathLike[str], **options: Unpack[ResultOptions]) -> SavedResults:
        """Run the job and write its outputs to a Parquet file, with a schema from the output type.

        The columns are the index, the key, the input as JSON text, and the fields of the output. Needs
        `pip install 'toolcast[parquet]'`. Files, errors and exceptions are those of `to_jsonl`.

        Args:
            path: The file.
            **options: What happens to an existing file, and the file of the errors.
        """
        from .result_files import ParquetFile, save_outcomes

        if_exists = self._if_exists(options)
        with self.run() as outcomes:
            return save_outcomes(outcomes, ParquetFile(path, self.call, if_exists), options.get("errors"))

    def to_pandas(self) -> Any:
        """Run the job and return a DataFrame with a row for each input: its columns, those of the output, `error`.

        If the inputs are a DataFrame of pandas, it is a copy of it with further columns, and has its index.

        Returns:
            The `pandas.DataFrame`.

        Raises:
            ImportError: pandas is not installed.
            JobStopped: If the job was stopped. Its `partial` is the DataFrame of the outcomes until then.
        """
        from .data_frame import import_pandas, to_data_frame

        import_pandas()  # before anything is sent
        with self.run() as outcomes:
            return to_data_frame(outcomes, self.call, self.inputs)

    def _if_exists(self, options: ResultOptions) -> IfExists:
        """Return the option, whose default is to replace results only if a checkpoint has all of them."""
        refuse_unknown("Job", options, [*ResultOptions.__annotations__])
        default: IfExists = "error" if self.plan.checkpoint is None else "replace"
        found = options.get("if_exists") or default
        if found not in get_args(IfExists):
            raise ValueError(f"if_exists={found!r:.100}: expected {', '.join(map(repr, get_args(IfExists)))}")
        return found

    def __iter__(self) -> Iterator[Outcome[T]]:
        return self.run()

    def __aiter__(self) -> AsyncIterator[Outcome[T]]:
        return self.arun()
