"""Many inputs: one structured call for each, with progress, resumption, rate limits and budgets.

`ToolOrchestratingLLM.map` and `amap` return an iterator of `Outcome`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import JobError as JobError, JobStopped as JobStopped
    from .inputs import BadRow as BadRow
    from .job import Job as Job
    from .job_options import JobOptions as JobOptions
    from .outcome import Outcome as Outcome
    from .outcomes import AsyncOutcomes as AsyncOutcomes, Outcomes as Outcomes

_EXPORTS = {
    "errors": "JobError JobStopped",
    "inputs": "BadRow",
    "job": "Job",
    "job_options": "JobOptions",
    "outcome": "Outcome",
    "outcomes": "AsyncOutcomes Outcomes",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# Written out, because type checkers read no other form.
__all__ = [
    "AsyncOutcomes",
    "BadRow",
    "Job",
    "JobError",
    "JobOptions",
    "JobStopped",
    "Outcome",
    "Outcomes",
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
