"""`toolcast experiment run`: run the experiment of a configuration file, or resume it.

Progress is printed as lines on stdout; see run_output.py. The exit code is 0 if all cycles have ended, 1 after an error
and 130 after Ctrl-C. The log is complete in every case, and `--resume` continues the run.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import ToolcastError
from ...experiments.config_errors import ConfigError
from ...experiments.config_files import read_mapping
from ...experiments.experiment_config import PRESETS, ExperimentConfig, config_of
from ...experiments.run_progress import RunProgress
from ...messages import Message, ToolResultPart
from ..api_keys import find_key
from ..command_parser import positive_int
from .follow_up import FollowUp
from .pei_ratings import model_name
from .run_output import BarPausingOperator, RunView, make_bar

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
    option(
        "--preset",
        choices=tuple(PRESETS),
        help="begin with the values of this preset, which those of the configuration replace",
    )
    option(
        "--system-prompt",
        type=Path,
        metavar="FILE",
        help="a file with the instructions of the agent, in place of the configuration's system_prompt",
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
    option(
        "--pei", dest="evaluators", action="append", type=model_name, metavar="MODEL",
        help="afterwards let this model rate each run on the PEI scale; may be given several times",
    )  # fmt: skip
    option("--repeats", type=positive_int, metavar="N", help="for --pei: ratings by each evaluator; default: 1")
    option("--scale", type=Path, metavar="FILE", help="for --pei: a file with other wording of the scale")
    option("--in-words", action="store_true", help="for --pei: request an answer in text, as published")
    option("--report", type=Path, metavar="FOLDER", help="afterwards write the report of all runs into this folder")
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
    mapping, source = read_mapping(arguments.config)
    if arguments.preset:
        mapping = {**mapping, "preset": arguments.preset}
    config = config_of(mapping, source)
    if config.grid is None and (arguments.workers or arguments.executor):
        raise ToolcastError("--workers and --executor need a configuration with a grid, and this one has none")
    if config.grid is not None and (arguments.host or arguments.token):
        raise ToolcastError(
            "--host and --token do not apply to a grid: its runs read the configuration and environment variables"
        )
    changes: dict[str, Any] = {}
    if arguments.system_prompt:
        changes["system_prompt"] = _text_of(arguments.system_prompt)
    if arguments.cycles:
        changes["cycle_count"] = arguments.cycles
    if arguments.host and config.asks_ollama:
        changes["ollama_client_config"] = config.ollama_client_config.model_copy(update={"host": arguments.host})
    return config.model_copy(update=changes)


def _text_of(path: Path) -> str:
    """Return the text of a prompt in a file. Raises `ToolcastError` if it is no text, or empty."""
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ToolcastError(f"--system-prompt {path}: no text in UTF-8. Save it as UTF-8") from error
    if not text:
        raise ToolcastError(f"--system-prompt {path}: the file is empty. Write the instructions of the agent into it")
    return text


def _check_embedder(config: ExperimentConfig) -> None:
    """Raise `ImportError` if the library of the embedder is missing, which the run would note after each cycle."""
    name = config.similarity.embedder
    if name.startswith("sentence-transformers:") and find_spec("sentence_transformers") is None:
        raise ImportError(
            f"similarity.embedder {name} needs another library: pip install sentence-transformers. "
            "Or choose another embedder, such as `similarity: {embedder: default}`; nothing was run",
            name="sentence_transformers",
        )


# One run.


def _run_one(config: ExperimentConfig, arguments: argparse.Namespace) -> int:
    runs = [RunProgress(config.run_id, config.cycle_count)]
    bar = None if arguments.quiet else make_bar(sys.stderr, runs)
    view = RunView(sys.stdout, sys.stderr, bar, quiet=arguments.quiet, runs=runs)
    view.print(_loaded_text(config))
    follow_up = FollowUp(arguments, config)
    runner = _runner(config, arguments, view)
    try:
        _check_embedder(config)
        follow_up.check()
        with runner.llm:
            _prepare(runner, view)
            with view.show_bar():
                state = runner.run(listener=view.on_event)
        view.print(f"✓ Experiment {config.run_id} completed successfully")
        resumed = f" ({state.completed} in all)" if state.completed > view.cycles_ended else ""
        view.print(f"✓ Executed {view.cycles_ended} cycles{resumed}")
        return _exit_code(follow_up.run([config.log_path], view), arguments, view)
    except KeyboardInterrupt:
        return _report_interrupt(view.has_begun, arguments)
    except ToolcastError as error:
        if view.has_begun:
            error.add_note(_next_step(arguments))
        raise


def _runner(config: ExperimentConfig, arguments: argparse.Namespace, view: RunView) -> ExperimentRunner:
    from ...experiments.llm_setup import build_llm, settings_of
    from ...experiments.runner import ExperimentRunner, operator_of

    token = arguments.token if config.asks_ollama else find_key(config.model_name, arguments.token)
    llm = build_llm(config, host=arguments.host, token=token)
    settings_of(config, llm)  # raises for unsupported options before a file is created
    try:
        operator = operator_of(config)
    except ValueError as error:  # Telegram without its token or chat id
        raise ConfigError(str(error)) from error
    if view.bar is not None:
        operator = BarPausingOperator(operator, view.bar)
    return ExperimentRunner(config, llm=llm, operator=operator, resume=arguments.resume)


def _prepare(runner: ExperimentRunner, view: RunView) -> None:
    from ...llms.local.llama_cpp import LlamaCpp
    from ...llms.vendors.cohere_mistral_ollama import Ollama
    from ..pull_command import progress_line

    runner.prepare(None if view.is_quiet else progress_line(sys.stderr))
    if isinstance(runner.llm, (LlamaCpp, Ollama)):  # other services are checked by the first cycle only
        view.print(f"✓ Model '{runner.config.model_name}' is available")


def _report_interrupt(has_begun: bool, arguments: argparse.Namespace) -> int:
    print("Interrupted.", _next_step(arguments) if has_begun else "Nothing was started.", file=sys.stderr)
    return _INTERRUPTED


def _exit_code(is_rated: bool, arguments: argparse.Namespace, view: RunView) -> int:
    """Return the exit code after the assessment, whose errors have been printed."""
    if not is_rated:
        print(_next_step(arguments), file=sys.stderr)
    return 1 if view.report_lost() or not is_rated else 0


def _next_step(arguments: argparse.Namespace) -> str:
    command = ["toolcast", "experiment", "run", "--config", arguments.config, "--resume"]
    for name in ("cycles", "host", "workers", "executor"):
        if given := getattr(arguments, name):
            command += (f"--{name}", str(given))
    for evaluator in arguments.evaluators or ():
        command += ("--pei", evaluator)
    for name in ("preset", "system_prompt", "repeats", "scale", "report"):
        if given := getattr(arguments, name):
            command += (f"--{name.replace('_', '-')}", str(given))
    if arguments.in_words:
        command.append("--in-words")
    return f"Resume with: {shlex.join(command)}"


# A grid of runs.


def _run_grid(config: ExperimentConfig, arguments: argparse.Namespace) -> int:
    from ...experiments.grids.grid import completed_cycles, expand, run_grid

    follow_up = FollowUp(arguments, config)
    runs = expand(config)
    attended = arguments.workers == 1 and any(run.operator == "terminal" for run in runs)  # a person types
    shown = [RunProgress(run.run_id, run.cycle_count, completed_cycles(run)) for run in runs]
    bar = None if arguments.quiet or attended else make_bar(sys.stderr, shown)
    view = RunView(sys.stdout, sys.stderr, bar, quiet=arguments.quiet, runs=shown)
    view.print(_loaded_text(config))
    view.print(f"A grid of {len(runs)} runs:\n" + "\n".join(f"  {run.run_id}" for run in runs))
    try:
        _check_models([run for run in runs if completed_cycles(run) < run.cycle_count], arguments)
        follow_up.check()
        with view.show_bar():
            results = run_grid(
                config,
                workers=arguments.workers,
                executor=arguments.executor or "local",
                resume=arguments.resume,
                cycles=arguments.cycles,
                listener=view.on_grid_event,
            )
        _print_results(results, config, view)
        good = [result.log_path for result in results if result.is_good]
        is_rated = follow_up.run(good, view) if good else True
    except KeyboardInterrupt:
        return _report_interrupt(view.has_begun, arguments)
    _check_results(results, arguments)
    return _exit_code(is_rated, arguments, view)


def _check_models(runs: Sequence[ExperimentConfig], arguments: argparse.Namespace) -> None:
    """Check the models of a grid before anything runs, each once; those of a cluster are not reached from here.

    Raises:
        ToolcastError: A model is not available, or does not have an option; also `ImportError` for an extra.
    """
    from ...experiments.llm_setup import build_llm, check_setup, settings_of

    checked = set[str]()
    for run in runs if arguments.executor != "ray" else ():
        with build_llm(run) as llm:
            settings_of(run, llm)
            _check_embedder(run)
            if repr(llm) not in checked:
                check_setup(llm)
                checked.add(repr(llm))


def _print_results(results: Sequence[GridResult], config: ExperimentConfig, view: RunView) -> None:
    """Print the result of each run."""
    for result in results:
        view.print(f"  {result.run_id}: {result.status}, {result.cycles_completed} cycles in {result.log_path}")
    if all(result.is_good for result in results):
        view.print(f"✓ Experiment {config.run_id} completed successfully")
        view.print(f"✓ Executed {view.cycles_ended} cycles in {len(results)} runs")


def _check_results(results: Sequence[GridResult], arguments: argparse.Namespace) -> None:
    """Raise `ToolcastError` if a run has failed."""
    failed = [result for result in results if not result.is_good]
    if failed:
        error = ToolcastError(f"{len(failed)} of {len(results)} runs failed:")
        for result in failed:
            error.add_note(f"  {result.run_id}: {result.status}: {result.error}")
        error.add_note(_next_step(arguments))
        raise error


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
    if (after := FollowUp(arguments, config).description) is not None:
        view.print(f"  then: {after}")
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
