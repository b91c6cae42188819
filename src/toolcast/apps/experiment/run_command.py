"""`toolcast experiment run`: run the experiment of a configuration file, or resume it.

Progress is printed as lines on stdout; see progress.py. The exit code is 0 if all cycles have ended, 1 after an error
and 130 after Ctrl-C. The log is complete in every case, and `--resume` continues the run.
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
from ..arguments import positive_int
from .progress import BarPausingOperator, RunView, make_bar

if TYPE_CHECKING:
    from ...experiments.grids.grid import GridResult
    from ...experiments.runner import ExperimentRunner

_LONGEST_VALUE: Final = 200
_INTERRUPTED: Final = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast experiment run`."""
    option = parser.add_argument
    option(
        "--config", metavar="FILE", required=True, help="the configuration, in YAML, or in JSON if it is a .json file"
    )
    option("--resume", action="store_true", help="resume a run that has a log")
    option(
        "--cycles",
        metavar="N",
        type=positive_int,
        help="the number of cycles, in place of the configuration's cycle_count",
    )
    option("--dry-run", action="store_true", help="show the plan and the prompt; send and write nothing")
    option("--host", metavar="HOST", help="the service's address; default: ollama_client_config.host")
    option(
        "--token",
        metavar="TOKEN",
        help="its API key; other users can see it here: prefer a variable such as OLLAMA_API_KEY",
    )
    option(
        "--workers",
        metavar="N",
        type=positive_int,
        help="for a grid: the number of parallel runs; default: one for each core",
    )
    option("--executor", choices=("local", "ray"), help="for a grid: run on this machine (default) or on a Ray cluster")
    option("--quiet", action="store_true", help="write nothing but errors")


def run(arguments: argparse.Namespace) -> int:
    """Run the experiment, or with `--dry-run` describe it, and return the exit code."""
    config = _config(arguments)
    if arguments.dry_run:
        _print_dry_run(config, arguments)
        return 0
    return _run_one(config, arguments) if config.grid is None else _run_grid(config, arguments)


def _config(arguments: argparse.Namespace) -> ExperimentConfig:
    """Return the configuration with the changes of the command line."""
    config = load_config(arguments.config)
    if config.grid is None and (arguments.workers or arguments.executor):
        raise ToolcastError("--workers and --executor need a configuration with a grid, and this one has none")
    if config.grid is not None and (arguments.host or arguments.token):
        raise ToolcastError(
            "--host and --token do not apply to a grid: its runs read the configuration and environment variables"
        )
    changes: dict[str, Any] = {}
    if arguments.cycles:
        changes["cycle_count"] = arguments.cycles
    if arguments.host and config.asks_ollama:
        changes["ollama_client_config"] = config.ollama_client_config.model_copy(update={"host": arguments.host})
    return config.model_copy(update=changes)


# One run.


def _run_one(config: ExperimentConfig, arguments: argparse.Namespace) -> int:
    bar = None if arguments.quiet else make_bar(sys.stderr, config.cycle_count)
    view = RunView(sys.stdout, sys.stderr, bar, quiet=arguments.quiet)
    view.print(_loaded_text(config))
    runner = _runner(config, arguments, view)
    try:
        with runner.llm:
            _prepare(runner, view)
            with view.show_bar():
                state = runner.run(listener=view.on_event)
    except KeyboardInterrupt:
        return _report_interrupt(view.has_begun, arguments)
    except ToolcastError as error:
        if view.has_begun:
            error.add_note(_next_step(arguments))
        raise
    view.print(f"✓ Experiment {config.run_id} completed successfully")
    resumed = f" ({state.completed} in all)" if state.completed > view.cycles_ended else ""
    view.print(f"✓ Executed {view.cycles_ended} cycles{resumed}")
    return 0


def _runner(config: ExperimentConfig, arguments: argparse.Namespace, view: RunView) -> ExperimentRunner:
    from ...experiments.llm_setup import build_llm, settings_of
    from ...experiments.runner import ExperimentRunner, operator_of

    llm = build_llm(config, host=arguments.host, token=arguments.token)
    settings_of(config, llm)  # raises for unsupported options before a file is created
    try:
        operator = operator_of(config)
    except ValueError as error:  # Telegram without its token or chat id
        raise ConfigError(str(error)) from error
    if view.bar is not None:
        operator = BarPausingOperator(operator, view.bar)
    return ExperimentRunner(config, llm=llm, operator=operator, resume=arguments.resume)


def _prepare(runner: ExperimentRunner, view: RunView) -> None:
    from ...llms.provider_llms import LlamaCpp, Ollama
    from ..pull_command import progress_line

    runner.prepare(None if view.is_quiet else progress_line(sys.stderr))
    if isinstance(runner.llm, (LlamaCpp, Ollama)):  # other services are checked by the first cycle only
        view.print(f"✓ Model '{runner.config.model_name}' is available")


def _report_interrupt(has_begun: bool, arguments: argparse.Namespace) -> int:
    print("Interrupted.", _next_step(arguments) if has_begun else "Nothing was started.", file=sys.stderr)
    return _INTERRUPTED


def _next_step(arguments: argparse.Namespace) -> str:
    command = ["toolcast", "experiment", "run", "--config", arguments.config, "--resume"]
    for name in ("cycles", "host", "workers", "executor"):
        if given := getattr(arguments, name):
            command += (f"--{name}", str(given))
    return f"Resume with: {shlex.join(command)}"


# A grid of runs.


def _run_grid(config: ExperimentConfig, arguments: argparse.Namespace) -> int:
    from ...experiments.grids.grid import completed_cycles, expand, run_grid

    runs = expand(config)
    cycles = sum(run.cycle_count for run in runs)
    attended = arguments.workers == 1 and any(run.operator == "terminal" for run in runs)  # a person types
    done = sum(map(completed_cycles, runs))
    bar = None if arguments.quiet or attended else make_bar(sys.stderr, cycles, runs=len(runs), done=done)
    view = RunView(sys.stdout, sys.stderr, bar, quiet=arguments.quiet)
    view.print(_loaded_text(config))
    view.print(f"A grid of {len(runs)} runs:\n" + "\n".join(f"  {run.run_id}" for run in runs))
    try:
        with view.show_bar():
            results = run_grid(
                config,
                workers=arguments.workers,
                executor=arguments.executor or "local",
                resume=arguments.resume,
                cycles=arguments.cycles,
                listener=view.on_grid_event,
            )
    except KeyboardInterrupt:
        return _report_interrupt(view.has_begun, arguments)
    return _report_results(results, config, view, arguments)


def _report_results(
    results: Sequence[GridResult], config: ExperimentConfig, view: RunView, arguments: argparse.Namespace
) -> int:
    """Print the result of each run and return the exit code.

    Raises:
        ToolcastError: At least one run failed.
    """
    for result in results:
        view.print(f"  {result.run_id}: {result.status}, {result.cycles_completed} cycles in {result.log_path}")
    failed = [result for result in results if not result.is_good]
    if failed:
        error = ToolcastError(f"{len(failed)} of {len(results)} runs failed:")
        for result in failed:
            error.add_note(f"  {result.run_id}: {result.status}: {result.error}")
        error.add_note(_next_step(arguments))
        raise error
    view.print(f"✓ Experiment {config.run_id} completed successfully")
    view.print(f"✓ Executed {view.cycles_ended} cycles in {len(results)} runs")
    return 0


# Output.


def _loaded_text(config: ExperimentConfig) -> str:
    return "\n".join(("Successfully loaded configuration:", *_config_lines(config)))


def _config_lines(config: ExperimentConfig) -> Iterator[str]:
    """Yield a line for each key of the configuration, and the paths of the run's files."""
    for name, value in config.model_dump(mode="json", exclude_unset=True).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = " ".join(text.split())
        yield f"  {name}: {text if len(text) <= _LONGEST_VALUE else f'{text[: _LONGEST_VALUE - 1]}…'}"
    if config.grid is None:
        yield f"  log: {config.log_path}"
        yield f"  memory: {config.memory_path}"


def _print_dry_run(config: ExperimentConfig, arguments: argparse.Namespace) -> None:
    """Print the plan and the prompt without sending a request or writing a file."""
    view = RunView(sys.stdout, sys.stderr)
    view.print(_loaded_text(config))
    for run in _runs(config):
        runner = _runner(run, arguments, view)
        view.print("")
        view.print("\n".join(_plan(run, runner, resume=arguments.resume)))
        if config.grid is not None:
            continue
        for message in runner.prompt():
            view.print("\n".join((f"\n[{message.role}]", *_message_lines(message))))


def _message_lines(message: Message) -> Iterator[str]:
    """Yield the text of a message, its tool calls and its tool results."""
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
    """Yield the state of a run and its next step."""
    state = runner.state()
    yield f"Dry run of {config.run_id}: no request is sent, no file is written."
    yield f"  model: {runner.llm!r}"
    if state.cycle_number and not resume:
        yield f"  its log already has {state.completed} cycles: use --resume to continue"
    if state.is_open:
        yield f"  next: cycle {state.cycle_number} of {config.cycle_count}, from the point where it was interrupted"
    elif state.completed >= config.cycle_count:
        yield f"  next: nothing, all {config.cycle_count} cycles have ended; --cycles N adds more"
    else:
        yield f"  next: cycle {state.cycle_number + 1} of {config.cycle_count}"
