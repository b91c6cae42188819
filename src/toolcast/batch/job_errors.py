"""The exceptions of batch jobs.

ToolcastError
└── JobError                    a job cannot start or cannot go on
    ├── JobStopped              a job ended early, after the outcomes of the items whose requests were under way
    ├── CheckpointError         the checkpoint cannot be used
    │   └── CheckpointMismatch  it belongs to a job with another prompt, schema, model or settings
    ├── UnstableInput           an input has no key
    └── ProviderBatchError      a batch at the provider is not available, is gone, or has other results than requests
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CallError, ToolcastError


class JobError(ToolcastError):
    """The base class of the errors of a job as a whole. The error of one item is in its `Outcome`."""


class JobStopped(JobError):
    """The error for a job that ended early. It is raised after the outcomes of the items with requests under way.

    Attributes:
        reason: `"error"` for an error that every item would get (its `__cause__`, for example `AuthFailed`), `"budget"`
            for an exhausted budget.
        partial: The DataFrame of the outcomes until then, if the job was run by `Job.to_pandas`; else None.
    """

    partial: Any = None

    def __init__(self, message: str = "", *, reason: str = "error") -> None:
        super().__init__(message)
        self.reason = reason


class BudgetReached(CallError):
    """The error for a request that was not sent, as the budget of its job does not cover it. It stops the job.

    Only an item that had sent other requests before has it in its outcome.
    """


class WaitTooLong(CallError):
    """The error for a request that was not sent, as the service takes no more for longer than the job waits.

    It stops the job. Only an item that had sent other requests before has it in its outcome.
    """


class JobInterrupted(CallError):
    """The error for a request that was not sent, as its job ends early: after Ctrl-C, or an error that all items get.

    Only an item that has used tokens before has it in its outcome.
    """

    def __init__(
        self, message: str = "the request was not sent, as the job ends early; another run asks again", **origin: Any
    ) -> None:
        super().__init__(message, **origin)


class CheckpointError(JobError):
    """The error for a checkpoint that cannot be used: locked, damaged, not writable, or unfit for the output type."""


class CheckpointMismatch(CheckpointError):
    """The error for a checkpoint of another job: `changed` maps each part that differs to a description of the change.

    The parts are `prompt`, `system_prompt`, `schema`, `model`, `mode`, `tool_choice`, `allow_parallel_tool_calls`, and
    the names of settings.
    """

    def __init__(self, message: str = "", *, changed: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.changed: Mapping[str, str] = dict(changed or {})


class ProviderBatchError(JobError):
    """The error for the batch API of a provider: there is none, a batch is gone, or its results fit no request."""
