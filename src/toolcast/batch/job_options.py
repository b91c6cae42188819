"""`JobOptions`: the options that `map`, `amap` and `Job` share, and `JobPlan`, what a job has of them."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from ..lazy.lazy_dataclasses import dataclass
from ..values.budgets import Budget
from ..values.option_suggestions import refuse_unknown
from ..values.option_types import require, require_callable, require_flag, require_limit, require_optional

if TYPE_CHECKING:
    from .progress.job_progress import ProgressSnapshot

OnError = Literal["outcome", "raise"]
Via = Literal["live", "batch"]
Reask = Literal["live", "batch"]


class JobOptions(TypedDict, total=False):
    """Options of a job.

    Attributes:
        key: A function from an input to its key, or the name of the field or column that has it. Default: a hash of
            the input.
        max_concurrency: The number of items at once. Default: it adapts to the service.
        rpm: Requests per minute, shared by all jobs of the process with the same API key.
        tpm: Tokens per minute, likewise.
        ordered: Return the outcomes in the order of the inputs; False: as they complete. Default: True.
        ask_once: Send equal prompts once: the outcomes of the others are copies without usage. Equal are the values of
            the prompt's variables, among the last 10,000 different ones. Default: False.
        by_prefix: Start the items in an order in which prompts that begin likewise follow each other, in blocks of 256,
            for services that cache the beginning of a prompt. Default: False.
        checkpoint: A file in which finished items are stored, so that a later run does not ask for them again.
        budget: Limits on US dollars and tokens, earlier runs with the same checkpoint included. The most that a request
            may cost is reserved before it is sent.
        on_error: `"outcome"`: an error is the outcome of its item; `"raise"`: the first one ends the job and is raised.
            Default: `"outcome"`.
        via: `"live"`: one request for each item; `"batch"`: the provider's batch API. Default: `"live"`.
        poll: With `via="batch"`, the seconds between two requests for the status of a batch. Default: 5, growing to 60.
        reask: With `via="batch"`, and more than one of the call's `max_attempts`: an invalid answer is asked about
            `"live"`, at the usual price and within the limits above, or in the next `"batch"`. Default: `"live"`.
        progress: True shows the progress, False does not; a function is called with a `ProgressSnapshot` up to ten
            times a second, by another thread, and at the end. Default: in terminals and notebooks once a job takes
            longer than a second, elsewhere a line in the log every 30 seconds.
    """

    key: Callable[[Any], str] | str | None
    max_concurrency: int | None
    rpm: float | None
    tpm: float | None
    ordered: bool
    ask_once: bool
    by_prefix: bool
    checkpoint: str | PathLike[str] | None
    budget: Budget | None
    on_error: OnError
    via: Via
    poll: float | None
    reask: Reask
    progress: bool | Callable[[ProgressSnapshot], object] | None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The options of a job, checked, with their defaults."""

    key: Callable[[Any], str] | str | None = None
    max_concurrency: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    ordered: bool = True
    ask_once: bool = False
    by_prefix: bool = False
    checkpoint: str | PathLike[str] | None = None
    budget: Budget | None = None
    on_error: OnError = "outcome"
    via: Via = "live"
    poll: float | None = None
    reask: Reask = "live"
    progress: bool | Callable[[ProgressSnapshot], object] | None = None

    def __post_init__(self) -> None:
        if self.key is not None and not isinstance(self.key, str):
            require_callable("key", self.key, "a function of an input, the name of a field, or None")
        for name in ("ordered", "ask_once", "by_prefix"):
            require_flag(name, getattr(self, name))
        if self.progress is not None and not callable(self.progress):
            require("progress", self.progress, bool, "True, False, a function of a ProgressSnapshot, or None")
        require_optional("checkpoint", self.checkpoint, (str, PathLike), "the path of a file")
        require_optional("budget", self.budget, Budget, "a Budget")
        for name in ("max_concurrency", "rpm", "tpm", "poll"):
            require_limit(name, getattr(self, name), whole=name == "max_concurrency")
        for name, choices in (("on_error", OnError), ("via", Via), ("reask", Reask)):
            if (value := getattr(self, name)) not in get_args(choices):
                raise ValueError(f"{name}={value!r}: expected {' or '.join(map(repr, get_args(choices)))}")

    @property
    def raises(self) -> bool:
        """True if the first error ends the job."""
        return self.on_error == "raise"


def plan_of(options: JobOptions) -> JobPlan:
    """Return the plan of these options. Raises `TypeError` or `ValueError` for an unknown one or a wrong value."""
    refuse_unknown("Job", options, ("inputs", *JobOptions.__annotations__))
    return JobPlan(**options)
