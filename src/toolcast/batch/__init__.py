"""Many inputs: one structured call for each, with progress, resumption, rate limits and budgets.

`ToolOrchestratingLLM.map` and `amap` return an iterator of `Outcome`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checkpoint import CheckpointStatus as CheckpointStatus, read_status as read_status
    from .estimate import Estimate as Estimate, Interval as Interval
    from .evaluation import (
        Evaluation as Evaluation,
        FieldComparison as FieldComparison,
        FieldScore as FieldScore,
        evaluate as evaluate,
    )
    from .input_files import (
        BadRow as BadRow,
        FileError as FileError,
        FileRows as FileRows,
        RowError as RowError,
        read_csv as read_csv,
        read_errors as read_errors,
        read_jsonl as read_jsonl,
        read_parquet as read_parquet,
    )
    from .item_keys import UnstableInput as UnstableInput
    from .job import Job as Job, ResultOptions as ResultOptions
    from .job_errors import (
        BudgetReached as BudgetReached,
        CheckpointError as CheckpointError,
        CheckpointMismatch as CheckpointMismatch,
        JobError as JobError,
        JobInterrupted as JobInterrupted,
        JobStopped as JobStopped,
        ProviderBatchError as ProviderBatchError,
        WaitTooLong as WaitTooLong,
    )
    from .job_options import JobOptions as JobOptions
    from .metrics import (
        Metric as Metric,
        aligned as aligned,
        exact as exact,
        numeric as numeric,
        overlap as overlap,
        same_text as same_text,
        similarity as similarity,
    )
    from .outcome import Outcome as Outcome, OutcomeList as OutcomeList
    from .outcome_iterators import AsyncOutcomes as AsyncOutcomes, Outcomes as Outcomes
    from .progress.job_progress import ProgressSnapshot as ProgressSnapshot
    from .ray_datasets import (
        RayLimits as RayLimits,
        RayMapper as RayMapper,
        RayOptions as RayOptions,
        ray_map as ray_map,
    )
    from .result_files import SavedResults as SavedResults
    from .review import review_page as review_page, write_review as write_review
    from .row_functions import RowFunction as RowFunction, RowOptions as RowOptions, row_function as row_function
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
