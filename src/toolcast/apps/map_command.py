"""`toolcast map`: one structured call for each row of a file, with progress, a budget, and resumption.

    toolcast map 'name, age int, city' --input people.csv --column text --output people.jsonl

With `--output` finished rows are stored in `OUTPUT.checkpoint` as they end, so that a run that was interrupted goes on
with `--resume`. Without it each result is a line on stdout. Failed rows are in a file of their own.

The rows of `toolcast map`: files and standard input, and the columns that a prompt takes from them.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing, nullcontext
from decimal import Decimal
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import IO, Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from pydantic_core import from_json

from ..batch.checkpoint import CheckpointStatus, read_status
from ..batch.estimate import SAMPLE
from ..batch.input_files import BadRow, FileRows, read_csv, read_file, read_jsonl, read_parquet
from ..batch.inputs import read_row
from ..batch.job import Job, ResultOptions
from ..batch.job_errors import JobStopped
from ..batch.job_options import JobOptions, Via
from ..batch.result_files import JSONLinesFile, outcome_json
from ..errors import ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..llms.function_calling_llm import FunctionCallingLLM
from ..prompts import RESERVED, PromptTemplate
from ..structured.orchestrator import ToolOrchestratingLLM
from ..text.terminal_text import visible
from ..values.budgets import Budget
from ..values.usage import NO_USAGE, Usage
from .api_keys import choose_llm
from .command_parser import CommandParser, add_model_options, positive_int, positive_number, suggestion
from .config_file import choose_model
from .get_command import make_call, prompt_with_text
from .output import command_line_text, pluralize
from .output_type_argument import SCHEMA_HELP, LoadType, schema_argument
from .pull_command import load_with_progress

InputFormat: TypeAlias = Literal["csv", "tsv", "jsonl", "lines", "parquet"]

_TEXT: Final = "text"
_BRACES: Final = re.compile(r"\{\{|\}\}|\{text\}")
_LONGEST_LINE: Final = 1 << 24  # bytes, as in files


class TextLines(FileRows):
    """The lines of a text file, without empty ones."""

    def __iter__(self) -> Iterator[Any]:
        with self.path.open("rb") as file:
            yield from read_lines(file, "lines", str(self.path))


def open_rows(path: Path, format: InputFormat | None) -> FileRows:
    """Return the rows of a file, by its suffix or in the given format. `.txt` and `.log` are lines.

    Raises:
        ToolcastError: The suffix is unknown.
    """
    match format:
        case "csv":
            return read_csv(path)
        case "tsv":
            return read_csv(path, delimiter="\t")
        case "jsonl":
            return read_jsonl(path)
        case "parquet":
            return read_parquet(path)
        case "lines":
            return TextLines(path)
        case _:
            return TextLines(path) if path.suffix.lower() in (".txt", ".log") else read_file(path)


def read_lines(stream: IO[bytes], format: InputFormat, name: str) -> Iterator[Any]:
    """Yield each line of a stream: its text, or with the format jsonl its JSON value; empty lines are skipped.

    A line that is not JSON or too long is a `BadRow`.
    """
    number = 0
    while line := stream.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            yield _bad_line(line, f"{name}, line {number}: the line has more than {_LONGEST_LINE:,} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(_LONGEST_LINE)
            continue
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").strip()
        if not text:
            continue
        if format != "jsonl":
            yield text
            continue
        try:
            yield from_json(text)
        except ValueError as error:
            yield _bad_line(line, f"{name}, line {number}: expected JSON: {error}")


def _bad_line(line: bytes, message: str) -> BadRow:
    return BadRow(line[:1000].decode("utf-8", "replace").rstrip(), ToolcastError(message))


class CountedRows(Iterable[Any]):
    """The rows of a file, with their number, for progress and estimates: the file is read once more to count them."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = rows
        self._count: int | None = None

    def __len__(self) -> int:
        if self._count is None:
            self._count = len(self._rows) if isinstance(self._rows, Sized) else sum(1 for _ in self._rows)
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


@dataclass(frozen=True, slots=True)
class PromptColumns:
    """The prompt template of a map, and the column that is its `{text}`.

    Attributes:
        prompt: The template, with names of columns as variables.
        added: The column that rows get as `text`, because its name cannot be a variable; None if there is none.
    """

    prompt: str
    added: str | None = None

    def rows(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Return the rows as inputs of the call."""
        return rows if self.added is None else _RowsWithText(rows, self.added)


class _RowsWithText(Iterable[Any]):
    def __init__(self, rows: Iterable[Any], column: str) -> None:
        self._rows = rows
        self._column = column

    def __iter__(self) -> Iterator[Any]:
        for row in self._rows:
            yield row if isinstance(row, BadRow) else {**row, _TEXT: row[self._column]} if self._column in row else row


def first_of(rows: Iterable[Any], source: str) -> tuple[Any, Iterable[Any]]:
    """Return the first row that could be read, and all rows; a file is opened anew, a stream continues.

    Raises:
        ToolcastError: There are no rows.
    """
    read: list[Any] = []
    iterator = iter(rows)
    for row in iterator:
        read.append(row)
        if not isinstance(row, BadRow):
            return row, rows if iterator is not rows else chain(read, iterator)
    if read:
        raise ToolcastError(f"{source}: no row could be read: {read[0].error}")
    raise ToolcastError(f"{source} has no rows")


def plan_columns(prompt: str, column: str | None, row: Any, source: str) -> PromptColumns:
    """Return the template for rows such as `row`.

    `{text}` is the column of `--column`, or the one called `text`, or the only one. Other variables are columns.

    Raises:
        ToolcastError: A column is missing, or `--column` has to choose one.
        PromptError: The prompt is not a template.
    """
    variables = PromptTemplate(prompt).variables
    if not isinstance(row, Mapping):
        if column is not None:
            raise ToolcastError(f"--column {column}: the rows of {source} are texts without columns; leave it out")
        if wrong := [name for name in variables if name != _TEXT]:
            raise ToolcastError(f"--prompt: the rows of {source} are texts, and {{{wrong[0]}}} is not {{text}}")
        return PromptColumns(prompt)
    columns = [str(name) for name in cast("Mapping[str, Any]", row)]
    for name in (column, *(variable for variable in variables if variable != _TEXT)):
        if name is not None and name not in columns:
            near = suggestion(name, columns)
            listed = f"{' It' if near else '; it'} has: {', '.join(columns):.1000}"
            raise ToolcastError(f"{source} has no column {name!r}{near}{listed}")
    if _TEXT not in variables:
        return PromptColumns(prompt)
    chosen = column or (_TEXT if _TEXT in columns else columns[0] if len(columns) == 1 else None)
    if chosen is None:
        raise ToolcastError(
            f"{source} has the columns {', '.join(columns)}: choose the one with the text by --column, or write a "
            f"--prompt with placeholders such as {{{columns[0]}}}"
        )
    if chosen == _TEXT:
        return PromptColumns(prompt)
    if not chosen.isidentifier() or chosen in RESERVED:
        return PromptColumns(prompt, added=chosen)
    return PromptColumns(_BRACES.sub(lambda found: f"{{{chosen}}}" if found[0] == "{text}" else found[0], prompt))


_CHECKPOINT: Final = ".checkpoint"
_INTERRUPTED: Final = 130
_SHOWN: Final = 100  # characters of a prompt
_SHOWN_OF_ERROR: Final = 300
_NUMBER: Final = r"\d+(?:\.\d+)?"
_AMOUNT: Final = re.compile(
    rf"(?P<usd>{_NUMBER}) *usd|\$(?P<dollars>{_NUMBER})|(?P<tokens>{_NUMBER}) *(?P<unit>[km]?) *tok(?:en)?s?",
    re.IGNORECASE,
)


def add_arguments(parser: CommandParser) -> None:
    """Add the options of `toolcast map`."""
    parser.set_defaults(usage_error=parser.error)
    option = parser.add_argument
    option("schema", nargs="?", metavar="SCHEMA", type=schema_argument, help=SCHEMA_HELP)
    source = parser.add_argument_group("input and output")
    option = source.add_argument
    option("--input", metavar="FILE", type=Path, help="the rows; default: standard input, each line a text")
    option(
        "--format",
        choices=get_args(InputFormat),
        help="of the rows; default: by the suffix .csv, .tsv, .jsonl, .parquet, .txt; of standard input jsonl where "
        "--column is given, else lines",
    )
    option("--column", metavar="NAME", help="the column with the text; default: `text`, or the only one")
    option(
        "--prompt",
        metavar="TEXT",
        help="the prompt; {NAME} is replaced by that column, {text} by the text, which otherwise follows the prompt",
    )
    option(
        "--output",
        metavar="FILE",
        type=Path,
        help="the results: .jsonl, .csv, .tsv or .parquet; default: JSON lines on standard output",
    )
    option(
        "--errors",
        metavar="FILE",
        type=Path,
        help="the failed rows; default: OUTPUT and .errors.jsonl. As an --input it runs them again",
    )
    pace = parser.add_argument_group("pace and cost")
    option = pace.add_argument
    option("--concurrency", metavar="N", type=positive_int, help="rows at once; default: it adapts to the service")
    option("--rpm", metavar="N", type=positive_number, help="requests per minute")
    option("--tpm", metavar="N", type=positive_number, help="tokens per minute")
    option("--budget", metavar="AMOUNT", type=_budget, help="the most to spend: 2usd, 500ktokens, or 2usd,1Mtokens")
    option("--max-tokens", metavar="N", type=positive_int, help="the limit on the tokens of each answer")
    option("--via", choices=get_args(Via), default="live", help="batch: the provider's batch API, at a lower price")
    job = parser.add_argument_group("runs")
    option = job.add_argument
    resume = "go on with an earlier run, if there is one: rows with a result are not asked again"
    option("--resume", action="store_true", help=resume)
    option(
        "--checkpoint",
        metavar="FILE",
        type=Path,
        help="the file from which a run can be resumed; default: OUTPUT.checkpoint",
    )
    option("--dry-run", action="store_true", help="show the rows, the prompt and the schema; send nothing")
    option(
        "--estimate",
        metavar="N",
        nargs="?",
        type=positive_int,
        const=SAMPLE,
        help=f"ask N rows, by default {SAMPLE}, and project cost and time; with --output they are kept for --resume",
    )
    option("--status", metavar="FILE", type=Path, help="show how far the run with this checkpoint or output has come")
    option("--quiet", action="store_true", help="write nothing to standard error but errors")
    add_model_options(parser.add_argument_group("model"))


def run(arguments: argparse.Namespace) -> int:
    """Run the job, or describe it, and return the exit code: 1 if a row failed, 130 after Ctrl-C."""
    if arguments.status is not None:
        print(*_status_lines(read_status(_checkpoint_of(arguments.status))), sep="\n")
        return 0
    load_type: LoadType = arguments.schema or arguments.usage_error(
        "the following arguments are required: SCHEMA, or --status FILE"
    )
    source = "standard input" if arguments.input is None else str(arguments.input)
    with choose_llm(choose_model(arguments.model), arguments.host, arguments.token) as llm:
        first, rows = first_of(_rows(arguments), source)
        columns = plan_columns(_prompt(arguments, llm), arguments.column, first, source)
        call = make_call(load_type(), llm, columns.prompt, max_tokens=arguments.max_tokens)
        if arguments.dry_run:
            print(*_dry_run_lines(call, columns, first, rows, source), sep="\n")
            return 0
        checkpoint = _checkpoint(arguments)
        if not arguments.quiet:
            load_with_progress(llm, sys.stderr)
        job = Job(call, _counted(columns.rows(rows), arguments), **_options(arguments, checkpoint))
        if arguments.estimate is not None:
            print(job.estimate(sample=arguments.estimate))
            if checkpoint is not None:
                print("toolcast: these rows are stored; run the job with --resume", file=sys.stderr)
            return 0
        return _run_job(job, arguments, checkpoint)


def _rows(arguments: argparse.Namespace) -> Iterable[Any]:
    if arguments.input is not None:
        return open_rows(arguments.input, arguments.format)
    if sys.stdin.isatty():
        print("toolcast: type or paste the rows, one on each line, then press Ctrl-D", file=sys.stderr)
    format: InputFormat = arguments.format or ("lines" if arguments.column is None else "jsonl")
    if format not in ("lines", "jsonl"):
        raise ToolcastError(f"--format {format} needs a file: pass it with --input")
    return read_lines(sys.stdin.buffer, format, "standard input")


def _prompt(arguments: argparse.Namespace, llm: FunctionCallingLLM) -> str:
    """Return the prompt. The text follows one without variables, or one without `{text}` if `--column` names it."""
    given: str | None = arguments.prompt
    if given is not None and arguments.column is None and PromptTemplate(given).variables:
        return given
    return prompt_with_text(given, llm)


def _counted(rows: Iterable[Any], arguments: argparse.Namespace) -> Iterable[Any]:
    """Return the rows of a file with their number, where it is shown or an estimate needs it."""
    needed = arguments.estimate is not None or (sys.stderr.isatty() and not arguments.quiet)
    return CountedRows(rows) if needed and arguments.input is not None else rows


def _options(arguments: argparse.Namespace, checkpoint: Path | None) -> JobOptions:
    return {
        "max_concurrency": arguments.concurrency,
        "rpm": arguments.rpm,
        "tpm": arguments.tpm,
        "budget": arguments.budget,
        "checkpoint": checkpoint,
        "via": arguments.via,
        "progress": False if arguments.quiet else None,
    }


def _budget(text: str) -> Budget:
    """Return the budget of an amount; argparse reports the error for any other text."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        found = _AMOUNT.fullmatch(part.strip())
        if found is None:
            raise argparse.ArgumentTypeError(
                f"expected an amount such as 2usd, 500ktokens or 2usd,1Mtokens, got {text!r}"
            )
        number = Decimal(found["usd"] or found["dollars"] or found["tokens"])
        if found["tokens"]:
            given["tokens"] = int(number * {"": 1, "k": 1000, "m": 1_000_000}[(found["unit"] or "").lower()])
        else:
            given["usd"] = number
    try:
        return Budget(**given)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


# The checkpoint.


def _checkpoint_of(file: Path) -> Path:
    """Return the checkpoint that `--status` names: the file itself, or that of the output."""
    beside = file.with_name(file.name + _CHECKPOINT)
    return file if file.name.endswith(_CHECKPOINT) or not beside.exists() else beside


def _checkpoint(arguments: argparse.Namespace) -> Path | None:
    """Return the path of the checkpoint.

    Raises:
        ToolcastError: There are results of an earlier run and no `--resume`, an output without its checkpoint, or
            `--resume` without a file.
    """
    output: Path | None = arguments.output
    path: Path | None = arguments.checkpoint
    if path is None and output is not None:
        path = output.with_name(output.name + _CHECKPOINT)
    if arguments.resume:
        if path is None:
            raise ToolcastError("--resume needs --output FILE or --checkpoint FILE, which names the earlier run")
        if path.exists():
            return path
        # Nothing to resume yet: the same command begins a run and goes on with it.
    elif path is not None and path.exists():
        status = read_status(path)
        raise ToolcastError(
            f"{path} has {pluralize(status.done, 'result')} of an earlier run: go on with --resume, or delete it to "
            "begin anew"
        )
    if output is not None and output.exists():
        raise ToolcastError(f"{output} exists: choose another --output, or delete it")
    return path


def _status_lines(status: CheckpointStatus) -> Iterator[str]:
    state = "running" if status.running else "not running"
    yield f"{status.path}: {state}, started {pluralize(status.starts, 'time')}, last at {status.last_start}"
    yield f"  done    {status.done:,}"
    yield f"  failed  {status.failed:,}{', asked again by --resume' if status.failed else ''}"
    yield f"  spent   {_spent(status.spent)}"
    yield from (f"  {part:<7} {_one_line(text)}" for part, text in status.job.items() if part in ("model", "prompt"))


# The run.


def _run_job(job: Job[Any], arguments: argparse.Namespace, checkpoint: Path | None) -> int:
    again = None if checkpoint is None else _resume_command(arguments.words)
    try:
        written = _write(job, arguments)
    except KeyboardInterrupt:
        next_step = again or "A run with --output FILE can be resumed."
        print(f"toolcast: interrupted. {next_step}", file=sys.stderr)
        return _INTERRUPTED
    except JobStopped as error:
        if again is None:
            raise
        raise JobStopped(f"{error}. {again}", reason=error.reason) from error
    if not arguments.quiet:
        print(*_end_lines(written), sep="\n", file=sys.stderr)
    return int(written.failed > 0)


class _Written(NamedTuple):
    """The results that were written: their counts, the usage, the errors file and the first error."""

    done: int
    failed: int
    usage: Usage
    errors: Path | None
    first_error: Exception | None


def _end_lines(written: _Written) -> Iterator[str]:
    where = f", in {written.errors}" if written.errors else ""
    yield f"{pluralize(written.done, 'result')}, {written.failed:,} failed{where}; {_spent(written.usage)}"
    if (error := written.first_error) is not None:
        yield f"first error: {type(error).__name__}: {_one_line(command_line_text(error), _SHOWN_OF_ERROR)}"


def _write(job: Job[Any], arguments: argparse.Namespace) -> _Written:
    """Run the job and write its results."""
    output: Path | None = arguments.output
    if output is None:
        return _print_results(job, arguments.errors)
    options: ResultOptions = {"if_exists": "replace", "errors": arguments.errors}
    match output.suffix.lower():
        case ".jsonl" | ".ndjson":
            saved = job.to_jsonl(output, **options)
        case ".csv" | ".tsv" as suffix:
            saved = job.to_csv(output, delimiter="\t" if suffix == ".tsv" else ",", **options)
        case ".parquet":
            saved = job.to_parquet(output, **options)
        case suffix:
            raise ToolcastError(
                f"--output {output}: expected the suffix .jsonl, .csv, .tsv or .parquet, got {suffix!r}"
            )
    return _Written(saved.done, saved.failed, saved.usage, saved.errors, saved.first_error)


def _print_results(job: Job[Any], errors: Path | None) -> _Written:
    """Print each outcome as a line of JSON as it comes, and write those with an error to a file if there is one."""
    done, failed, usage = 0, 0, NO_USAGE
    first_error: Exception | None = None
    failures = None if errors is None else JSONLinesFile(errors)
    with job.run() as outcomes, nullcontext() if failures is None else closing(failures):
        for outcome in outcomes:
            print(outcome_json(outcome), flush=True)
            usage += outcome.usage
            done += outcome.ok
            failed += not outcome.ok
            first_error = first_error or outcome.error
            if failures is not None and not outcome.ok:
                failures.write(outcome)
    if failures is not None:
        failures.file.complete()
    return _Written(done, failed, usage, errors if failed else None, first_error)


def _resume_command(words: Sequence[str]) -> str:
    """Return the command line that resumes this run, without the value of `--token`."""
    shown = [
        "--token=..." if word.startswith("--token=") else "..." if before == "--token" else word
        for before, word in zip(("", *words), words, strict=False)
    ]
    return f"Resume with: {shlex.join(('toolcast', *shown, *(() if '--resume' in shown else ('--resume',))))}"


# Text.


def _dry_run_lines(
    call: ToolOrchestratingLLM[Any], columns: PromptColumns, first: Any, rows: Iterable[Any], source: str
) -> Iterator[str]:
    """Yield a description of the job, as one that was run would be."""
    yield f"Dry run: no request is sent, no file is written. {call.llm!r}"
    yield f"rows: {sum(1 for _ in rows):,} in {source}"
    row = read_row(0, next(iter(columns.rows([first]))), call.prompt.variables)
    for message in call.prompt.format_messages(**row.values):
        yield f"\n[{message.role}, the first row]\n{visible(message.text)}"
    yield "\n[schema]"
    yield from (json.dumps(tool.spec.parameters, ensure_ascii=False) for tool in call.tools)


def _spent(usage: Usage) -> str:
    tokens = f"{usage.total_tokens:,} tokens"
    return tokens if usage.cost is None else f"{tokens}, ${usage.cost:,.4f}"


def _one_line(text: str, characters: int = _SHOWN) -> str:
    return visible(shorten(" ".join(text.split()), characters, placeholder=" ..."))
