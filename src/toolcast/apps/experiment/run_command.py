"""`toolcast experiment run`: the experiment of a configuration, from its first cycle or from where it broke off.

What is done is told in lines on stdout; see progress.py. The exit code is 0 where all cycles have ended, 1 where
something went wrong, and 130 after Ctrl-C. Whatever ended it, the log is whole, and `--resume` goes on with it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...errors import ToolcastError
from ...experiments.config import ExperimentConfig
from ...experiments.config_errors import ConfigError
from ...experiments.config_files import load_config
from ...messages import Message, ToolResultPart
from ..argument_types import count
from .progress import InterruptedBar, RunView, bar_on

if TYPE_CHECKING:
    from ...experiments.grids.grid import GridResult
    from ...experiments.runner import ExperimentRunner

_LONGEST: Final = 200
_INTERRUPTED: Final = 130


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    option = parser.add_argument
    option(
        "--config", metavar="FILE", required=True, help="the configuration, in YAML, or in JSON if it is a .json file"
    )
    option("--resume", action="store_true", help="go on with a run that has a log")
    option("--cycles", metavar="N", type=count, help="so many cycles, instead of the configuration's cycle_count")
    option("--dry-run", action="store_true", help="ask and write nothing: show what would be done, and the prompt")
    option("--host", metavar="HOST", help="the service's address; default: ollama_client_config.host")
    option("--token", metavar="TOKEN", help="its key; others can see it here, a variable (OLLAMA_API_KEY) is better")
    option("--workers", metavar="N", type=count, help="for a grid: so many runs at once; default: one for each core")
    option(
        "--executor", choices=("local", "ray"), help="for a grid: who works, this machine (default) or a Ray cluster"
    )
    option("--quiet", action="store_true", help="write nothing but errors")


def run(arguments: argparse.Namespace) -> int:
    """The exit code."""
    config = _config(arguments)
    if arguments.dry_run:
        _print_dry_run(config, arguments)
        return 0
    return _run_one(config, arguments) if config.grid is None else _run_grid(config, arguments)


def _config(arguments: argparse.Namespace) -> ExperimentConfig:
    """The configuration, with what the command line changes in it."""
    config = load_config(arguments.config)
    if config.grid is None and (arguments.workers or arguments.executor):
        raise ToolcastError("--workers and --executor are for a grid of runs, and the configuration has none")
    if config.grid is not None and (arguments.host or arguments.token):
        raise ToolcastError("the runs of a grid read host and key where they run: from the configuration and variables")
    changes: dict[str, Any] = {}
    if arguments.cycles:
        changes["cycle_count"] = arguments.cycles
    if arguments.host and config.asks_ollama:
        changes["ollama_client_config"] = config.ollama_client_config.model_copy(update={"host": arguments.host})
    return config.model_copy(update=changes)


# One run.


def _run_one(config: ExperimentConfig, arguments: argparse.Namespace) -> int:
    bar = None if arguments.quiet else bar_on(sys.stderr, config.cycle_count)
    view = RunView(sys.stdout, sys.stderr, bar, quiet=arguments.quiet)
    view.say(_loaded(config))
    runner = _runner(config, arguments, view)
    try:
        with runner.llm:
            _prepare(runner, view)
            with view.drawn():
                state = runner.run(listener=view.hear)
    except KeyboardInterrupt:
        return _interrupted(view.has_begun, arguments)
    except ToolcastError as error:
        if view.has_begun:
            error.add_note(_next_step(arguments))
        raise
    view.say(f"✓ Experiment {config.run_id} completed successfully")
    resumed = f" ({state.completed} in all)" if state.completed > view.cycles_ended else ""
    view.say(f"✓ Executed {view.cycles_ended} cycles{resumed}")
    return 0


def _runner(config: ExperimentConfig, arguments: argparse.Namespace, view: RunView) -> ExperimentRunner:
    from ...experiments.llm_setup import made_llm, settings_of
    from ...experiments.runner import ExperimentRunner, operator_of

    llm = made_llm(config, host=arguments.host, token=arguments.token)
    settings_of(config, llm)  # raises for options that the model's service has not, before there is any file
    try:
        operator = operator_of(config)
    except ValueError as error:  # Telegram, for which something is missing
        raise ConfigError(str(error)) from error
    if view.bar is not None:
        operator = InterruptedBar(operator, view.bar)
    return ExperimentRunner(config, llm=llm, operator=operator, resume=arguments.resume)


def _prepare(runner: ExperimentRunner, view: RunView) -> None:
    from ...llms.provider_llms import LlamaCpp, Ollama
    from ..pull_command import progress_line

    runner.prepare(None if view.is_quiet else progress_line(sys.stderr))
    if isinstance(runner.llm, (LlamaCpp, Ollama)):  # of any other service the first cycle finds out
        view.say(f"✓ Model '{runner.config.model_name}' is available")


def _interrupted(has_begun: bool, arguments: argparse.Namespace) -> int:
    print("Interrupted.", _next_step(arguments) if has_begun else "Nothing was begun.", file=sys.stderr)
    return _INTERRUPTED


def _next_step(arguments: argparse.Namespace) -> str:
    words = ["toolcast", "experiment", "run", "--config", arguments.config, "--resume"]
    for name in ("cycles", "host", "workers", "executor"):
        if given := getattr(arguments, name):
            words += (f"--{name}", str(given))
    return f"Go on with it: {shlex.join(words)}"


# A grid of runs.


def _run_grid(config: ExperimentConfig, arguments: argparse.Namespace) -> int:
    from ...experiments.grids.grid import completed_cycles, expand, run_grid

    runs = expand(config)
    cycles = sum(run.cycle_count for run in runs)
    attended = arguments.workers == 1 and any(run.operator == "terminal" for run in runs)  # a person types there
    done = sum(map(completed_cycles, runs))
    bar = None if arguments.quiet or attended else bar_on(sys.stderr, cycles, runs=len(runs), done=done)
    view = RunView(sys.stdout, sys.stderr, bar, quiet=arguments.quiet)
    view.say(_loaded(config))
    view.say(f"A grid of {len(runs)} runs:\n" + "\n".join(f"  {run.run_id}" for run in runs))
    try:
        with view.drawn():
            results = run_grid(
                config,
                workers=arguments.workers,
                executor=arguments.executor or "local",
                resume=arguments.resume,
                cycles=arguments.cycles,
                listener=view.hear_of,
            )
    except KeyboardInterrupt:
        return _interrupted(view.has_begun, arguments)
    return _told(results, config, view, arguments)


def _told(results: Sequence[GridResult], config: ExperimentConfig, view: RunView, arguments: argparse.Namespace) -> int:
    """The exit code, once it is told how each run ended."""
    for result in results:
        view.say(f"  {result.run_id}: {result.status}, {result.cycles_completed} cycles in {result.log_path}")
    bad = [result for result in results if not result.is_good]
    if bad:
        error = ToolcastError(f"{len(bad)} of {len(results)} runs did not end well:")
        for result in bad:
            error.add_note(f"  {result.run_id}: {result.status}: {result.error}")
        error.add_note(_next_step(arguments))
        raise error
    view.say(f"✓ Experiment {config.run_id} completed successfully")
    view.say(f"✓ Executed {view.cycles_ended} cycles in {len(results)} runs")
    return 0


# What is shown.


def _loaded(config: ExperimentConfig) -> str:
    return "\n".join(("Successfully loaded configuration:", *_shown(config)))


def _shown(config: ExperimentConfig) -> Iterator[str]:
    """What the configuration says, a line for each key, and where the run's files are."""
    for name, value in config.model_dump(mode="json", exclude_unset=True).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = " ".join(text.split())
        yield f"  {name}: {text if len(text) <= _LONGEST else f'{text[: _LONGEST - 1]}…'}"
    if config.grid is None:
        yield f"  log: {config.log_path}"
        yield f"  memory: {config.memory_path}"


def _print_dry_run(config: ExperimentConfig, arguments: argparse.Namespace) -> None:
    """Show what would be done, and ask and write nothing."""
    view = RunView(sys.stdout, sys.stderr)
    view.say(_loaded(config))
    for run in _runs(config):
        runner = _runner(run, arguments, view)
        view.say("")
        view.say("\n".join(_plan(run, runner, resume=arguments.resume)))
        if config.grid is not None:
            continue
        for message in runner.prompt():
            view.say("\n".join((f"\n[{message.role}]", *_said(message))))


def _said(message: Message) -> Iterator[str]:
    """The text of a message, and its calls or what answers one."""
    if message.text:
        yield message.text
    yield from (f"{call.name} {call.arguments}" for call in message.tool_calls)
    yield from (part.content for part in message.parts if isinstance(part, ToolResultPart))


def _runs(config: ExperimentConfig) -> Sequence[ExperimentConfig]:
    if config.grid is None:
        return (config,)
    from ...experiments.grids.grid import expand

    return expand(config)


def _plan(config: ExperimentConfig, runner: ExperimentRunner, *, resume: bool) -> Iterator[str]:
    """Where a run is, and what comes next."""
    state = runner.state()
    yield f"Dry run of {config.run_id}: nothing is asked, nothing is written."
    yield f"  model: {runner.llm!r}"
    if state.cycle_number and not resume:
        yield f"  its log has {state.completed} cycles already: it goes on with --resume only"
    if state.is_open:
        yield f"  next: cycle {state.cycle_number} of {config.cycle_count}, from where it broke off"
    elif state.completed >= config.cycle_count:
        yield f"  next: nothing, all {config.cycle_count} cycles have ended; --cycles allows more"
    else:
        yield f"  next: cycle {state.cycle_number + 1} of {config.cycle_count}"
