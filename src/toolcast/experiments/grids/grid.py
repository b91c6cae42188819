"""Grids of experiments: one configuration with lists of values, and a run in its own folder for each combination.

`grid` maps dotted keys of the configuration to lists of values. `expand` returns a configuration for each combination,
all validated before anything runs. A run's name is that of the configuration and its own values: `demo-seed_1`; the
same combination always has the same name, wherever it is in the grid, so that a grid that grows can be resumed. An
executor runs them: processes on this machine (grid_workers.py), or a Ray cluster (ray_workers.py). Progress is read
from the logs alone: an interrupted grid is resumed from them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import visible
from ...values.states import logger
from ..config_errors import (
    NOWHERE,
    ConfigError,
    ConfigProblem,
    MissingField,
    UnknownKey,
    WrongValue,
    error_of,
    problem_at,
    shortened,
)
from ..event_log import LogError, read_log
from ..experiment_config import ExperimentConfig, config_of
from ..log_events import LogEvent, RunStatus
from .grid_workers import Ending, EventCallback, Executor, GridJob, error_line, run_jobs, without_messages

ExecutorName: TypeAlias = Literal["local", "ray"]
Listener: TypeAlias = Callable[[str, LogEvent], object]
"""A callback for the events of all runs: the run's name, and the event."""

Combination: TypeAlias = Mapping[str, Any]
"""The values of one run, by their dotted keys."""

_RESERVED: Final = ("run_id", "grid", "log_folder", "data_folder")
_EXAMPLE: Final = "Write for example: {model_options.seed: [1, 2, 3]}"
_LONGEST_ID: Final = 80
_MAX_PART: Final = 40


@dataclass(frozen=True, slots=True)
class GridResult:
    """The outcome of one run of a grid.

    `seconds` are those of this call, `cycles_completed` counts all cycles in its log.
    """

    run_id: str
    status: RunStatus
    cycles_completed: int
    seconds: float
    error: str
    log_path: Path

    @property
    def is_good(self) -> bool:
        """True if all its cycles have ended."""
        return self.status == "completed"


def expand(config: ExperimentConfig) -> tuple[ExperimentConfig, ...]:
    """Return the configuration of each run, in the order of keys and values; without a grid, `config` itself.

    Raises a `ConfigError` for an invalid grid, and for the first combination that is no valid configuration.
    """
    if config.grid is None:
        return (config,)
    _check_grid(config.grid)
    combinations = [dict(zip(config.grid, values, strict=True)) for values in itertools.product(*config.grid.values())]
    run_ids = _run_ids(config.run_id, combinations)
    return tuple(_combined(config, each, run_id) for each, run_id in zip(combinations, run_ids, strict=True))


def run_grid(
    config: ExperimentConfig,
    *,
    workers: int | None = None,
    executor: ExecutorName = "local",
    resume: bool = False,
    cycles: int | None = None,
    listener: Listener | None = None,
) -> list[GridResult]:
    """Run the grid and return the result of each run, in the order of `expand`. A run that fails stops no other.

    Args:
        config: The configuration with the grid, or its file.
        workers: The number of runs at once; None is one for each core, or as many as the cluster has capacity for. With
            `workers=1` on this machine, an operator at the terminal can answer.
        executor: `local` or `ray`.
        resume: Continue interrupted runs, start those that have not begun, and skip those that have ended.
        cycles: Used instead of `cycle_count`.
        listener: Called as `listener(run_id, event)` in this process with the events of all runs, without their
            messages.

    Raises:
        ConfigError: Before anything runs, if the configuration or its grid is invalid.
        RunExists: Before anything runs, if there are logs and `resume` is not set.
        KeyboardInterrupt: Once every run has ended.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"{workers} workers can run nothing: give 1 or more, or leave it out")
    attended = executor == "local" and workers == 1
    runs = [run if attended else _unattended(run) for run in _runs(config, cycles)]
    left = [run for run in runs if not resume or completed_cycles(run) < run.cycle_count]
    if not resume:
        _check_fresh(config, runs)
    _write_configs(runs)
    on_event = listener or _ignore
    ended = {ending.run_id: ending for ending in _endings(left, executor, workers, on_event)}
    return [_result(run, ended.get(run.run_id)) for run in runs]


def _check_grid(grid: Mapping[str, Sequence[Any]]) -> None:
    """Raise a `ConfigError` for a grid that is invalid whatever its combinations are."""
    faults = list(_faults(grid))
    if faults:
        raise error_of(faults)


def _faults(grid: Mapping[str, Sequence[Any]]) -> Iterator[ConfigProblem]:
    if not grid:
        yield problem_at(WrongValue, ("grid",), f"is empty. {_EXAMPLE}", NOWHERE)
    for key, values in grid.items():
        around = next((other for other in grid if key.startswith(f"{other}.")), None)
        if key.partition(".")[0] in _RESERVED:
            yield _fault(key, f"is given to each run by the grid itself. Vary another key than {key}")
        elif around is not None:
            yield _fault(key, f"stands in the grid beside {around}, which it is a part of. Take one of them out")
        elif not values:
            yield _fault(key, "has no value: list one or more, or take it out")
        elif len({_canonical(value) for value in values}) < len(values):
            yield _fault(key, "has a value twice: take out one of them. To repeat a run, vary model_options.seed")


def _fault(key: str, what: str) -> ConfigProblem:
    return problem_at(WrongValue, ("grid", key), what, NOWHERE)


# Names.


def _run_ids(base: str, combinations: Sequence[Combination]) -> list[str]:
    """Return a unique name for each combination, also where the case of letters is ignored."""
    plain = ["-".join((base, *(_part(key, value) for key, value in each.items()))) for each in combinations]
    count = Counter(run_id.casefold() for run_id in plain)
    return [
        run_id if len(run_id) <= _LONGEST_ID and count[run_id.casefold()] == 1 else _cut(run_id, each)
        for run_id, each in zip(plain, combinations, strict=True)
    ]


def _part(key: str, value: object) -> str:
    """Return the part of a name for one value: the value if it is readable, and otherwise a hash of it."""
    word = re.sub(r"[^A-Za-z0-9_]+", ".", key.rpartition(".")[2])
    text = value if isinstance(value, str) else _canonical(value)
    readable = re.sub(r"[^A-Za-z0-9._-]+", ".", text).strip(".")
    scalar = value is None or isinstance(value, (str, int, float))
    shown = readable if scalar and readable and len(readable) <= _MAX_PART else _mark(value)
    return shown if key == "model_name" else f"{word}_{shown}"


def _cut(run_id: str, combination: Combination) -> str:
    mark = _mark(combination)
    return f"{run_id[: _LONGEST_ID - len(mark) - 1]}-{mark}"


def _mark(value: object) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:8]


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


# Configurations.


def _combined(config: ExperimentConfig, combination: Combination, run_id: str) -> ExperimentConfig:
    """Return the configuration of one run. Raises a `ConfigError` with the combination."""
    mapping = config.model_dump(exclude_unset=True, exclude={"grid"})
    folder = config.log_folder / config.run_id / run_id
    mapping |= {"run_id": run_id, "log_folder": folder, "data_folder": folder / "data"}
    try:
        for key, value in combination.items():
            _put(mapping, key, value)
        return config_of(mapping)
    except ConfigError as error:
        named = ", ".join(f"{key}={_canonical(value)}" for key, value in combination.items())
        raise type(error)(visible(f"in the grid, at {shortened(named)}: {error}"), error.faults) from error


def _put(mapping: dict[str, Any], key: str, value: object) -> None:
    """Set `value` at a dotted key."""
    *around, last = key.split(".")
    inside = mapping
    for part in around:
        found = inside.setdefault(part, {})
        if not isinstance(found, dict):
            raise error_of([problem_at(UnknownKey, (key,), f"is no key: {part} has no keys of its own", NOWHERE)])
        inside = cast("dict[str, Any]", found)
    inside[last] = value


def _runs(config: ExperimentConfig, cycles: int | None) -> tuple[ExperimentConfig, ...]:
    """Return the configurations of all runs, with `cycles` cycles each if that is given."""
    if config.grid is None:
        what = f"is missing, and this is to be a grid of runs. {_EXAMPLE}"
        raise error_of([problem_at(MissingField, ("grid",), what, NOWHERE)])
    if cycles is None:
        return expand(config)
    if "cycle_count" in config.grid:
        raise error_of([_fault("cycle_count", "is varied, so that it cannot be given for all: leave that out")])
    return expand(config_of(config.model_dump(exclude_unset=True) | {"cycle_count": cycles}))


def _unattended(run: ExperimentConfig) -> ExperimentConfig:
    """Return `run` without an operator at the terminal, for which several runs would compete."""
    return run if run.operator == "none" else run.model_copy(update={"operator": "none"})


def _write_configs(runs: Iterable[ExperimentConfig]) -> None:
    """Write beside each log its configuration: a file that runs, or resumes, that one run."""
    for run in runs:
        run.log_folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(run.model_dump(mode="json", exclude_unset=True), indent=2, ensure_ascii=False)
        (run.log_folder / "config.json").write_text(f"{text}\n", encoding="utf-8")


# Running.


def completed_cycles(run: ExperimentConfig) -> int:
    """Return the number of ended cycles in the log; 0 for an unreadable one, which its run reports as an error."""
    found: set[int] = set()
    with suppress(LogError):
        found.update(
            event.cycle_number
            for event in read_log(run.log_path, tolerate_torn=True)
            if event.event_type == "CYCLE_END"
        )
    return len(found)


def _has_log(run: ExperimentConfig) -> bool:
    return run.log_path.is_file() and run.log_path.stat().st_size > 0


def _check_fresh(config: ExperimentConfig, runs: Sequence[ExperimentConfig]) -> None:
    begun = sum(map(_has_log, runs))
    if begun:
        from ..runner import RunExists

        raise RunExists(
            f"{begun} of the {len(runs)} runs of the grid {config.run_id!r} have a log already, in "
            f"{config.log_folder / config.run_id}. Go on with them (--resume, resume=True), "
            "or give the grid another run_id."
        )


def _endings(
    runs: Sequence[ExperimentConfig], executor: ExecutorName, workers: int | None, on_event: Listener
) -> list[Ending]:
    """Run all, and return their endings."""
    jobs = [GridJob(run, resume=_has_log(run)) for run in runs]
    if any(run.operator == "terminal" for run in runs):
        return [_run_here(job, partial(on_event, job.run_id)) for job in jobs]
    return _run_in_workers(jobs, _executor(executor), workers, on_event)


def _run_here(job: GridJob, on_event: EventCallback) -> Ending:
    """Run a job in this process, which has the terminal."""
    began = time.monotonic()
    ending = Ending(job.run_id, "completed")
    try:
        job.run(job.config, job.resume, without_messages(on_event))
    except Exception as error:  # an error of one run becomes its result, and the other runs continue
        ending = Ending(job.run_id, "failed", error_line(error))
    return replace(ending, seconds=time.monotonic() - began)


def _run_in_workers(
    jobs: Sequence[GridJob], executor: Executor, workers: int | None, on_event: Listener
) -> list[Ending]:
    """Run the jobs in processes of their own, all of which have ended when this returns or raises."""
    endings: list[Ending] = []
    with closing(executor(jobs, workers)) as happening:
        for happened in happening:
            if isinstance(happened, Ending):
                endings.append(happened)
            else:
                _notify(on_event, happened)
    return endings


def _notify(on_event: Listener, event: LogEvent) -> None:
    try:
        on_event(event.run_id, event)
    except Exception:  # the user's listener: logged, none of the runs' business
        # A listener is the user's own code: its faults are shown, and are none of the runs' business.
        logger.exception("the listener failed at %s of %s", event.event_type, event.run_id)


def _executor(name: ExecutorName) -> Executor:
    if name == "local":
        return run_jobs
    from .ray_workers import run_jobs as run_on_ray

    return run_on_ray


def _result(run: ExperimentConfig, ending: Ending | None) -> GridResult:
    """Return the result of a run; one that was complete before has no ending."""
    ending = ending or Ending(run.run_id, "completed")
    return GridResult(run.run_id, ending.status, completed_cycles(run), ending.seconds, ending.error, run.log_path)


def _ignore(run_id: str, event: LogEvent) -> None: ...
