"""`toolcast map`: files and pipes, results, errors, checkpoints, budgets, and wrong command lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from toolcast.apps import cli, map_command
from toolcast.errors import AuthFailed, CallError, ToolcastError
from toolcast.llms.request import ChatRequest
from toolcast.testing import ScriptedLLM, use_llm
from toolcast.values.budgets import Budget

TEXTS = ["Alice is 31", "Bob is 5", "Carla is 44"]


def answer(request: ChatRequest) -> Any:
    """The person whom the prompt names; an error for Bob."""
    name, _, age = request.messages[-1].text.rpartition("\n")[2].split(" ")
    if name == "Bob":
        raise ToolcastError("no Bob")
    return {"name": name, "age": int(age)}


class Asked(ScriptedLLM):
    """An LLM that answers each request by a function."""

    def __init__(self, function: Any = answer) -> None:
        super().__init__(*[function] * 100)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Path("people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "body"), *enumerate(TEXTS)])
    return tmp_path


def run(*words: str, llm: ScriptedLLM | None = None) -> int:
    with use_llm(llm or Asked()):
        return cli.main(["map", *words])


def on_stdin(process: Process, text: str, terminal: bool = False) -> None:
    stream = io.TextIOWrapper(io.BytesIO(text.encode()))
    if terminal:
        stream.isatty = lambda: True  # type: ignore[method-assign]  # a terminal with this input
    process.stream("stdin", stream)


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_file_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("name, age int", "--input", "people.csv", "--column", "body", "--output", "out.jsonl") == 1
    assert [each["output"] for each in records(Path("out.jsonl").read_text())] == [
        {"name": "Alice", "age": 31},
        {"name": "Carla", "age": 44},
    ]
    (failed,) = records(Path("out.jsonl.errors.jsonl").read_text())
    assert (failed["index"], failed["input"]) == (1, {"id": "1", "body": "Bob is 5"})
    out, err = capsys.readouterr()
    assert out == ""
    end, first_error = err.splitlines()
    assert end.startswith("2 results, 1 failed, in out.jsonl.errors.jsonl; ")
    assert first_error == "first error: ToolcastError: no Bob"
    again = (
        "name, age int",
        "--input",
        "out.jsonl.errors.jsonl",
        "--column",
        "body",
        "--output",
        "again.jsonl",
        "--quiet",
    )
    assert run(*again, llm=Asked(lambda request: {"name": "Bob", "age": 5})) == 0
    assert records(Path("again.jsonl").read_text())[0]["output"] == {"name": "Bob", "age": 5}
    assert capsys.readouterr() == ("", "")


def test_the_first_error_is_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes of terminals are visible, and parameters of the library are options."""

    def fail(request: ChatRequest) -> Any:
        return CallError("no\n\x1b[31m answer; pass base_url=" + 300 * " word")

    assert run("name, age int", "--input", "people.csv", "--column", "body", llm=Asked(fail)) == 1
    end, first_error = capsys.readouterr().err.splitlines()
    assert end.startswith("0 results, 3 failed; ")
    assert "no \\x1b[31m answer; give --host word word" in first_error
    assert len(first_error) <= 330
    assert first_error.endswith(" ...")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_other_formats(suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    words = ("name, age int", "--input", "people.csv", "--prompt", "Row {id}:\n{body}", "--output", f"out{suffix}")
    assert run(*words, "--errors", "failed.jsonl") == 1
    assert len(records(Path("failed.jsonl").read_text())) == 1
    if suffix != ".parquet":
        with Path(f"out{suffix}").open(newline="") as file:
            header, first, _ = csv.reader(file, delimiter="\t" if suffix == ".tsv" else ",")
        assert (header, first) == (["index", "id", "body", "name", "age"], ["0", "0", "Alice is 31", "Alice", "31"])


def test_lines_of_a_pipe_to_lines(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    on_stdin(process, "\n".join(TEXTS))
    assert run("name, age int", "--errors", "failed.jsonl") == 1
    out, err = capsys.readouterr()
    assert [each.get("output") for each in records(out)] == [
        {"name": "Alice", "age": 31},
        None,
        {"name": "Carla", "age": 44},
    ]
    assert records(out)[1]["error"]["message"] == "no Bob"
    assert "2 results, 1 failed, in failed.jsonl" in err
    assert err.endswith("\nfirst error: ToolcastError: no Bob\n")
    on_stdin(process, json.dumps({"body": TEXTS[0]}), terminal=True)
    assert run("name, age int", "--column", "body") == 0
    out, err = capsys.readouterr()
    assert records(out)[0]["input"] == {"body": TEXTS[0]}
    assert err.startswith("toolcast: type or paste the rows, one on each line, then press Ctrl-D\n")
    assert "1 result, 0 failed; " in err


class _Terminal(io.StringIO):
    """Standard error at a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_options_reach_the_job(monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    made: list[Any] = []

    class Job:
        def __init__(self, call: Any, inputs: Any, **options: Any) -> None:
            made.append((call, inputs, options))

    monkeypatch.setattr(map_command, "Job", Job)
    monkeypatch.setattr(map_command, "_run_job", lambda *given: 0)
    words = ("--concurrency", "20", "--rpm", "600", "--tpm", "6e4", "--budget", "2usd", "--via", "batch")
    assert run("name", "--input", "people.csv", "--column", "body", *words, "--max-tokens", "50", "--quiet") == 0
    call, inputs, options = made.pop()
    assert call.settings.max_tokens == 50
    assert len(list(inputs)) == 3
    assert options == {
        "max_concurrency": 20,
        "rpm": 600.0,
        "tpm": 60_000.0,
        "budget": Budget(usd=Decimal(2)),
        "checkpoint": None,
        "via": "batch",
        "progress": False,
    }
    process.stream("stderr", _Terminal())
    assert run("name", "--input", "people.csv", "--column", "body", "--output", "x.jsonl", "--model", "m") == 0
    _, inputs, options = made.pop()
    assert len(inputs) == 3  # counted, for the progress
    assert options["checkpoint"] == Path("x.jsonl.checkpoint")
    assert options["progress"] is None


def test_an_estimate_asks_some_rows_whose_results_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("name, age int", "--input", "people.csv", "--column", "body", "--quiet")
    llm = Asked(lambda request: {"name": "A", "age": 1})
    assert run(*words, "--estimate", llm=llm) == 0
    out, err = capsys.readouterr()
    assert (len(llm.requests), err) == (3, "")
    assert "3" in out
    assert run(*words, "--output", "out.jsonl", "--estimate", "2", llm=llm) == 0
    assert capsys.readouterr().err == "toolcast: these rows are stored; run the job with --resume\n"
    assert run(*words, "--output", "out.jsonl", "--resume", llm=llm) == 0
    assert len(llm.requests) == 3 + 3


def test_a_dry_run_sends_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llm = Asked()
    words = ("name", "--input", "people.csv", "--column", "body", "--output", "out.jsonl", "--dry-run")
    assert run(*words, llm=llm) == 0
    out = capsys.readouterr().out
    assert "\nrows: 3 in people.csv\n\n[user, the first row]\n" in out
    assert "Alice is 31\n\n[schema]\n" in out
    assert '{"properties": {"name": {"type": "string"}}, "required": ["name"], "type": "object"}' in out
    assert llm.requests == []
    assert [each.name for each in folder.iterdir()] == ["people.csv"]
    assert run("name", "--input", "people.csv", "--prompt", "{id} {body}{text}", "--dry-run") == 1


def test_a_dry_run_shows_the_error_of_the_first_row(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    on_stdin(process, "[1]\n")
    assert run("name", "--format", "jsonl", "--prompt", "{text}", "--dry-run") == 0
    assert "[1]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2usd", Budget(usd=Decimal(2))),
        ("$2.50", Budget(usd=Decimal("2.50"))),
        ("500ktokens", Budget(tokens=500_000)),
        ("0.1 USD, 1.5Mtok", Budget(usd=Decimal("0.1"), tokens=1_500_000)),
        ("90 tokens", Budget(tokens=90)),
    ],
)
def test_budgets(text: str, budget: Budget) -> None:
    assert map_command._budget(text) == budget


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "toolcast map: error: the following arguments are required: SCHEMA, or --status FILE"),
        (["name", "--budget", "2"], 2, "argument --budget: expected an amount such as 2usd, 500ktokens or 2usd,1Mtok"),
        (["name", "--budget", "0usd"], 2, "argument --budget: budget usd=0 must be above 0"),
        (["name", "--rpm", "x"], 2, "argument --rpm: expected a number above 0, got 'x'"),
        (["name", "--tpm", "inf"], 2, "argument --tpm: expected a number above 0, got 'inf'"),
        (["name", "--concurency", "3"], 2, "unknown option --concurency; did you mean --concurrency?"),
        (["name", "--input", "none.csv"], 1, "toolcast: none.csv: No such file or directory"),
        (["name", "--input", "people.csv"], 1, "people.csv has the columns id, body: choose the one with the text"),
        (["name", "--input", "people.csv", "--column", "bdy"], 1, "no column 'bdy'; did you mean body?"),
        (["name", "--format", "csv"], 1, "--format csv needs a file: pass it with --input"),
        (["name", "--input", "people.csv", "--column", "body", "--resume"], 1, "--resume needs --output FILE or"),
        (
            ["name", "--input", "people.csv", "--column", "body", "--output", "people.csv", "--resume"],
            1,
            "people.csv exists: choose",
        ),
        (["name", "--input", "people.csv", "--column", "body", "--output", "a.doc"], 1, "--output a.doc: expected the"),
        (
            ["name", "--input", "people.csv", "--column", "body", "--output", "people.csv"],
            1,
            "people.csv exists: choose",
        ),
        (["--status", "none"], 1, "toolcast: there is no checkpoint"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: Sequence[str], code: int, message: str, process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    on_stdin(process, "x")
    if code == 2:
        with pytest.raises(SystemExit) as done:
            run(*words)
        assert done.value.code == 2
    else:
        assert run(*words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_run_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("name, age int", "--input", "people.csv", "--column", "body", "--output", "out.jsonl", "--quiet")
    assert run(*words, "--resume") == 1  # one row fails; there is no earlier run
    assert run(*words) == 1
    message = (
        "toolcast: out.jsonl.checkpoint has 2 results of an earlier run: go on with --resume, or delete it to begin"
    )
    assert capsys.readouterr().err.startswith(message)
    for named in ("out.jsonl", "out.jsonl.checkpoint"):
        assert run("--status", named) == 0
        first, *lines = capsys.readouterr().out.splitlines()
        assert "out.jsonl.checkpoint: not running, started 1 time, last at 2" in first
        assert lines[:2] == ["  done    2", "  failed  1, asked again by --resume"]
        assert lines[2].endswith(" tokens")
        assert {line.split()[0] for line in lines[3:]} == {"model", "prompt"}
    llm = Asked(lambda request: {"name": "Bob", "age": 5})
    assert run(*words, "--resume", llm=llm) == 0
    assert len(llm.requests) == 1
    assert len(records(Path("out.jsonl").read_text())) == 3
    Path("out.jsonl.checkpoint").unlink()
    Path("own.checkpoint").touch()
    assert run(*words, "--prompt", "Who is it?", "--checkpoint", "other.checkpoint") == 1
    assert "out.jsonl exists: choose another --output, or delete it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "toolcast: interrupted. A run with --output FILE can be resumed.\n"),
        (
            ("--checkpoint", "c", "--resume"),
            "toolcast: interrupted. Resume with: toolcast map name --input people.csv --column body --checkpoint c "
            "--resume\n",
        ),
    ],
)
def test_ctrl_c(
    more: Sequence[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(map_command, "_print_results", interrupt)
    Path("c").touch()
    assert run("name", "--input", "people.csv", "--column", "body", *more) == 130
    assert capsys.readouterr() == ("", message)


def test_a_job_that_is_stopped_says_how_to_resume(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(request: ChatRequest) -> Any:
        raise AuthFailed("wrong key")

    words = ("name, age int", "--input", "people.csv", "--column", "body", "--output", "out.jsonl")
    assert run(*words, "--token", "sk-S3CRET", llm=Asked(refuse)) == 1
    err = capsys.readouterr().err
    assert "wrong key" in err
    assert "Resume with: toolcast map 'name, age int' --input people.csv --column body --output out.jsonl" in err
    assert err.strip().endswith("--token ... --resume")
    assert "S3CRET" not in err
    assert run("name, age int", "--input", "people.csv", "--column", "body", "--token=S3CRET", llm=Asked(refuse)) == 1
    assert "Resume" not in capsys.readouterr().err
