"""Many inputs: one structured call for each, with progress, resumption, rate limits and budgets.

`ToolOrchestratingLLM.map` and `amap` return an iterator of `Outcome`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bad_rows import BadRow as BadRow
    from .checkpoint import CheckpointStatus as CheckpointStatus, read_status as read_status
    from .errors import (
        BudgetReached as BudgetReached,
        CheckpointError as CheckpointError,
        CheckpointMismatch as CheckpointMismatch,
        JobError as JobError,
        JobInterrupted as JobInterrupted,
        JobStopped as JobStopped,
        ProviderBatchError as ProviderBatchError,
        WaitTooLong as WaitTooLong,
    )
    from .estimate import Estimate as Estimate, Interval as Interval
    from .evaluation import (
        Evaluation as Evaluation,
        FieldComparison as FieldComparison,
        FieldScore as FieldScore,
        evaluate as evaluate,
    )
    from .files import (
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
    from .outcomes import AsyncOutcomes as AsyncOutcomes, Outcomes as Outcomes
    from .permits import PermitsLost as PermitsLost
    from .progress.account import ProgressSnapshot as ProgressSnapshot
    from .ray_datasets import (
        RayLimits as RayLimits,
        RayMapper as RayMapper,
        RayOptions as RayOptions,
        ray_map as ray_map,
        ray_permits as ray_permits,
    )
    from .results.saved_results import SavedResults as SavedResults
    from .review import review_page as review_page, write_review as write_review
    from .row_functions import RowFunction as RowFunction, RowOptions as RowOptions, row_function as row_function

_EXPORTS = {
    "bad_rows": "BadRow",
    "checkpoint": "CheckpointStatus read_status",
    "errors": "BudgetReached CheckpointError CheckpointMismatch JobError JobInterrupted JobStopped ProviderBatchError "
    "WaitTooLong",
    "evaluation": "FieldComparison Evaluation FieldScore evaluate",
    "estimate": "Estimate Interval",
    "files": "FileError FileRows RowError read_csv read_errors read_jsonl read_parquet",
    "item_keys": "UnstableInput",
    "job": "Job ResultOptions",
    "job_options": "JobOptions",
    "metrics": "Metric aligned exact numeric overlap same_text similarity",
    "outcome": "Outcome OutcomeList",
    "outcomes": "AsyncOutcomes Outcomes",
    "review": "review_page write_review",
    "progress.account": "ProgressSnapshot",
    "permits": "PermitsLost",
    "ray_datasets": "RayLimits RayMapper RayOptions ray_map ray_permits",
    "row_functions": "RowFunction RowOptions row_function",
    "results.saved_results": "SavedResults",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# Written out, because type checkers read no other form.
__all__ = [
    "AsyncOutcomes",
    "BadRow",
    "BudgetReached",
    "CheckpointError",
    "CheckpointMismatch",
    "CheckpointStatus",
    "Estimate",
    "Evaluation",
    "FieldComparison",
    "FieldScore",
    "FileError",
    "FileRows",
    "Interval",
    "Job",
    "JobError",
    "JobInterrupted",
    "JobOptions",
    "JobStopped",
    "Metric",
    "Outcome",
    "OutcomeList",
    "Outcomes",
    "PermitsLost",
    "ProgressSnapshot",
    "ProviderBatchError",
    "RayLimits",
    "RayMapper",
    "RayOptions",
    "ResultOptions",
    "RowError",
    "RowFunction",
    "RowOptions",
    "SavedResults",
    "UnstableInput",
    "WaitTooLong",
    "aligned",
    "evaluate",
    "exact",
    "numeric",
    "overlap",
    "ray_map",
    "ray_permits",
    "read_csv",
    "read_errors",
    "read_jsonl",
    "read_parquet",
    "read_status",
    "review_page",
    "row_function",
    "same_text",
    "similarity",
    "write_review",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
