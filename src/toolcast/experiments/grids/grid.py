"""Many runs of one configuration: a grid of models, seeds and options, each combination a run in its own folder.

`grid` maps dotted keys of the configuration to lists of values. `expand` gives a configuration for each combination,
all checked before anything runs. A run's name is that of the configuration, and what is its own: `demo-seed_1`; the
same combination has the same name always, wherever it stands in the grid, so that a grid that grows can be resumed.
Who runs them is an executor: processes on this machine (workers.py), or a Ray cluster (ray_workers.py). What has been
done is what the logs say, and nothing else is remembered: a grid that was killed is resumed from them.
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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from ...states import logger
from ...terminal_text import visible
from ..config import ExperimentConfig, config_of
from ..config_errors import (
    NOWHERE,
    ConfigError,
    ConfigProblem,
    MissingField,
    UnknownKey,
    WrongValue,
    error_of,
    fault_at,
    shortened,
)
from ..event_log import LogError, read_log
from ..log_events import LogEvent, RunStatus
from .workers import Ending, Executor, Hear, Job, lightly, words, working

ExecutorName: TypeAlias = Literal["local", "ray"]
Listener: TypeAlias = Callable[[str, LogEvent], object]
"""Who hears of the events of all runs: the run's name, and the event."""

Combination: TypeAlias = Mapping[str, Any]
"""The values of one run, by their dotted keys."""

_RESERVED: Final = ("run_id", "grid", "log_folder", "data_folder")
_EXAMPLE: Final = "Write for example: {model_options.seed: [1, 2, 3]}"
_LONGEST_ID: Final = 80
_LONGEST_WORD: Final = 40


@dataclass(frozen=True, slots=True)
class GridResult:
    """How one run of a grid ended. `seconds` are those of this time, `cycles_completed` all that its log has."""

    run_id: str
    status: RunStatus
    cycles_completed: int
    seconds: float
    error: str
    log_path: Path

    @property
    def is_good(self) -> bool:
        """Whether all its cycles have ended."""
        return self.status == "completed"


def expand(config: ExperimentConfig) -> tuple[ExperimentConfig, ...]:
    """The configuration of each run of the grid, in the order of its keys and values; without a grid, `config` itself.

    Raises a `ConfigError` for a grid that cannot be meant, and for the first combination that is no configuration.
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
    """How each run of the grid ended, in the order of `expand`. A run that fails stops no other.

    `workers` run at once; None: one for each core, or as many as a cluster has room for. `resume` goes on with runs
    that broke off, begins those that have not begun, and leaves alone those that are over. `cycles` stands in the
    place of `cycle_count`. `listener(run_id, event)` hears in this process of the events of all runs, without what was
    said in them. With one worker that is asked for, on this machine, an operator at the terminal can answer.

    Raises `ConfigError` or `RunExists` before anything runs, and `KeyboardInterrupt` once every run has ended.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"{workers} workers can run nothing: give 1 or more, or leave it out")
    attended = executor == "local" and workers == 1
    runs = [run if attended else _alone(run) for run in _runs(config, cycles)]
    left = [run for run in runs if not resume or completed_cycles(run) < run.cycle_count]
    if not resume:
        _check_fresh(config, runs)
    _write_configs(runs)
    hear = listener or _nobody
    ended = {ending.run_id: ending for ending in _endings(left, executor, workers, hear)}
    return [_result(run, ended.get(run.run_id)) for run in runs]


def _check_grid(grid: Mapping[str, Sequence[Any]]) -> None:
    """Raise the `ConfigError` of a grid that cannot be meant, whatever its combinations are."""
    faults = list(_faults(grid))
    if faults:
        raise error_of(faults)


def _faults(grid: Mapping[str, Sequence[Any]]) -> Iterator[ConfigProblem]:
    if not grid:
        yield fault_at(WrongValue, ("grid",), f"is empty. {_EXAMPLE}", NOWHERE)
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
    return fault_at(WrongValue, ("grid", key), what, NOWHERE)


# Names.


def _run_ids(base: str, combinations: Sequence[Combination]) -> list[str]:
    """A name for each combination, no two the same, even where capitals do not count."""
    plain = ["-".join((base, *(_part(key, value) for key, value in each.items()))) for each in combinations]
    count = Counter(run_id.casefold() for run_id in plain)
    return [
        run_id if len(run_id) <= _LONGEST_ID and count[run_id.casefold()] == 1 else _cut(run_id, each)
        for run_id, each in zip(plain, combinations, strict=True)
    ]


def _part(key: str, value: object) -> str:
    """What a name says of one value: the value, where it can be read, and else a number that stands for it alone."""
    word = re.sub(r"[^A-Za-z0-9_]+", ".", key.rpartition(".")[2])
    text = value if isinstance(value, str) else _canonical(value)
    readable = re.sub(r"[^A-Za-z0-9._-]+", ".", text).strip(".")
    scalar = value is None or isinstance(value, (str, int, float))
    said = readable if scalar and readable and len(readable) <= _LONGEST_WORD else _mark(value)
    return said if key == "model_name" else f"{word}_{said}"


def _cut(run_id: str, combination: Combination) -> str:
    mark = _mark(combination)
    return f"{run_id[: _LONGEST_ID - len(mark) - 1]}-{mark}"


def _mark(value: object) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:8]


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


# Configurations.


def _combined(config: ExperimentConfig, combination: Combination, run_id: str) -> ExperimentConfig:
    """The configuration of one run. Raises a `ConfigError` that names the combination."""
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
    """Put `value` at a dotted key."""
    *around, last = key.split(".")
    inside = mapping
    for part in around:
        found = inside.setdefault(part, {})
        if not isinstance(found, dict):
            raise error_of([fault_at(UnknownKey, (key,), f"is no key: {part} has no keys of its own", NOWHERE)])
        inside = cast("dict[str, Any]", found)
    inside[last] = value


def _runs(config: ExperimentConfig, cycles: int | None) -> tuple[ExperimentConfig, ...]:
    """The configurations of all runs, each for `cycles` cycles if that is said."""
    if config.grid is None:
        what = f"is missing, and this is to be a grid of runs. {_EXAMPLE}"
        raise error_of([fault_at(MissingField, ("grid",), what, NOWHERE)])
    if cycles is None:
        return expand(config)
    if "cycle_count" in config.grid:
        raise error_of([_fault("cycle_count", "is varied, so that it cannot be given for all: leave that out")])
    return expand(config_of(config.model_dump(exclude_unset=True) | {"cycle_count": cycles}))


def _alone(run: ExperimentConfig) -> ExperimentConfig:
    """`run`, with nobody at the terminal, where several would wait for the same person."""
    return run if run.operator == "none" else run.model_copy(update={"operator": "none"})


def _write_configs(runs: Iterable[ExperimentConfig]) -> None:
    """Put beside each log what it is a log of: a file that runs, or resumes, that one run."""
    for run in runs:
        run.log_folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(run.model_dump(mode="json", exclude_unset=True), indent=2, ensure_ascii=False)
        (run.log_folder / "config.json").write_text(f"{text}\n", encoding="utf-8")


# Running.


def completed_cycles(run: ExperimentConfig) -> int:
    """How many cycles have ended, as the log says; one that cannot be read is left to its run, which says why."""
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
    runs: Sequence[ExperimentConfig], executor: ExecutorName, workers: int | None, hear: Listener
) -> list[Ending]:
    """Run all; how each ended."""
    jobs = [Job(run, resume=_has_log(run)) for run in runs]
    if any(run.operator == "terminal" for run in runs):
        return [_here(job, partial(hear, job.run_id)) for job in jobs]
    return _beside(jobs, _executor(executor), workers, hear)


def _here(job: Job, hear: Hear) -> Ending:
    """Run it in this process, which has the terminal."""
    began = time.monotonic()
    ending = Ending(job.run_id, "completed")
    try:
        job.run(job.config, job.resume, lightly(hear))
    except Exception as error:  # whatever ends one run of a grid is told as its result, and the others go on
        ending = Ending(job.run_id, "failed", words(error))
    return replace(ending, seconds=time.monotonic() - began)


def _beside(jobs: Sequence[Job], executor: Executor, workers: int | None, hear: Listener) -> list[Ending]:
    """Run them in processes of their own, all of which are gone when this is left, however it is."""
    endings: list[Ending] = []
    with closing(executor(jobs, workers)) as happening:
        for said in happening:
            if isinstance(said, Ending):
                endings.append(said)
            else:
                _tell(hear, said)
    return endings


def _tell(hear: Listener, event: LogEvent) -> None:
    try:
        hear(event.run_id, event)
    except Exception:  # the user's listener: logged, none of the runs' business
        # A listener is the user's own code: its faults are shown, and are none of the runs' business.
        logger.exception("the listener failed at %s of %s", event.event_type, event.run_id)


def _executor(name: ExecutorName) -> Executor:
    if name == "local":
        return working
    from .ray_workers import working as working_on_ray

    return working_on_ray


def _result(run: ExperimentConfig, ending: Ending | None) -> GridResult:
    """What is told of a run; one that was over before has no ending."""
    ending = ending or Ending(run.run_id, "completed")
    return GridResult(run.run_id, ending.status, completed_cycles(run), ending.seconds, ending.error, run.log_path)


def _nobody(run_id: str, event: LogEvent) -> None: ...
