"""`toolcast experiment run --pei --report`: runs, ratings and the report by one command, which can be repeated."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import util
from pathlib import Path
from subprocess import PIPE
from threading import Event
from typing import Any

import pytest

from support import warm_python
from support.driven_repl import PATIENCE, PROGRAM
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, reply, write_then_reflect
from support.process import Process
from toolcast.apps import cli
from toolcast.experiments.pei.scale import PEI_SCALE

EVALUATOR = "judge"


def rates(messages: Sequence[ChatMessage]) -> ChatMessage:
    """Act in the run, and rate it when it is asked to."""
    return reply("6. For-me-ness: it was mine.") if is_rating(messages) else write_then_reflect(messages)


def is_rating(messages: Sequence[ChatMessage]) -> bool:
    return messages[-1]["content"] == PEI_SCALE.text


@pytest.fixture
def server(warm_programs: None) -> Iterator[OllamaByRule]:
    with OllamaByRule(rates, [MODEL, EVALUATOR]) as server:
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process) -> Path:
    """An empty working directory, and no matplotlib: pictures take longest."""
    monkeypatch.chdir(tmp_path)
    for name in ("OLLAMA_HOST", "OLLAMA_MODEL", "OLLAMA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    process.without("matplotlib.figure")
    return tmp_path


def configured(server: OllamaByRule, **changes: Any) -> None:
    usual: dict[str, Any] = {
        "run_id": "sea",
        "model_name": MODEL,
        "cycle_count": 2,
        "ollama_client_config": {"host": server.host},
        "model_options": {},
        "similarity": {"embedder": "none"},
        "operator": "none",
    }
    Path("config.json").write_text(json.dumps(usual | changes))


GRID = {"grid": {"model_options.seed": [1, 2]}, "cycle_count": 1}
BOTH = ("--pei", EVALUATOR, "--report", "report")


def run(*words: str) -> int:
    return cli.main(["experiment", "run", "--config", "config.json", *words])


def ratings(path: str) -> list[Any]:
    return [json.loads(line)["pei_rating"] for line in Path(path).read_text().splitlines()]


def asked_for_ratings(server: OllamaByRule) -> int:
    return sum(is_rating(request["messages"]) for request in server.requests)


def test_a_run_its_rating_and_its_report(server: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    configured(server)
    assert run(*BOTH) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-5:] == [
        "✓ Executed 2 cycles",
        "PEI assessment by judge...",
        "sea, rated by judge: 6 (For-me-ness)",
        "✓ Assessment complete: 1 run",
        f"✓ Report written: {Path('report/report.html')}",
    ]
    assert err.startswith("Note: ") and "matplotlib" in err
    assert ratings("logs/sea_pei.jsonl") == [6]
    assert server.requests[-1]["model"] == EVALUATOR
    page = Path("report/report.html").read_text(encoding="utf-8")
    assert "In cycle 2 I have 2 keys." in page and ">judge</th>" in page


def test_a_grid_is_done_once_however_often_it_is_started(
    server: OllamaByRule, capsys: pytest.CaptureFixture[str]
) -> None:
    configured(server, **GRID)
    assert run(*BOTH, "--workers", "2") == 0
    asked, page = len(server.requests), Path("report/report.html").read_bytes()
    assert asked_for_ratings(server) == 2
    assert run(*BOTH, "--resume", "--workers", "2") == 0
    assert len(server.requests) == asked
    assert Path("report/report.html").read_bytes() == page
    assert run(*BOTH, "--resume", "--workers", "2", "--repeats", "2", "--pei", MODEL) == 0
    assert asked_for_ratings(server) == 2 + 2 + 4
    assert ratings("logs/sea/sea-seed_1/sea-seed_1_pei.jsonl") == [6, 6, 6, 6]
    assert "✓ Assessment complete: 2 runs" in capsys.readouterr().out


def test_a_rating_of_an_earlier_run_of_the_name_does_not_count(server: OllamaByRule) -> None:
    configured(server)
    assert run("--pei", EVALUATOR) == 0
    Path("logs/sea.jsonl").unlink()
    assert run("--pei", EVALUATOR) == 0
    assert asked_for_ratings(server) == 2
    assert run("--pei", EVALUATOR, "--resume", "--cycles", "3") == 0  # the third cycle belongs to what is rated
    assert asked_for_ratings(server) == 3


def test_a_report_alone_has_the_ratings_that_are_there(server: OllamaByRule) -> None:
    configured(server)
    assert run("--pei", EVALUATOR) == 0
    assert not Path("report").exists()
    assert run("--report", "report", "--resume") == 0
    assert ">judge</th>" in Path("report/report.html").read_text(encoding="utf-8")
    assert asked_for_ratings(server) == 1


def test_an_evaluator_that_fails_is_reported_and_tried_again(
    server: OllamaByRule, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(messages: Sequence[ChatMessage]) -> ChatMessage:
        if is_rating(messages):
            raise RuntimeError("gone")
        return write_then_reflect(messages)

    server.rule = fails
    configured(server)
    assert run(*BOTH, "--in-words") == 1
    out, err = capsys.readouterr()
    assert "Error: " in err and "✓ Report written" in out and "Assessment complete" not in out
    assert err.endswith("--resume --pei judge --report report --in-words\n")
    server.rule = rates
    assert run(*BOTH, "--resume") == 0
    assert ratings("logs/sea_pei.jsonl") == [6]


def test_runs_that_are_good_are_rated_where_another_fails(
    server: OllamaByRule, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(messages: Sequence[ChatMessage]) -> ChatMessage:
        if server.requests[-1]["options"].get("seed") == 2:
            raise RuntimeError("gone")
        return rates(messages)

    server.rule = fails
    configured(server, **GRID)
    assert run(*BOTH, "--workers", "1") == 1
    out, err = capsys.readouterr()
    assert "sea-seed_1, rated by judge: 6" in out and "Error: 1 of 2 runs failed" in err
    assert Path("report/report.html").exists()
    server.rule = rates
    assert run(*BOTH, "--workers", "1", "--resume") == 0
    assert asked_for_ratings(server) == 2


def test_nothing_is_rated_where_all_fail(server: OllamaByRule) -> None:
    def fails(messages: Sequence[ChatMessage]) -> ChatMessage:
        raise RuntimeError("gone")

    server.rule = fails
    configured(server, **GRID)
    assert run(*BOTH, "--workers", "1") == 1
    assert not Path("report").exists()


@pytest.mark.parametrize("changes", [{}, GRID])
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--pei", "unknown"), "has no model 'unknown'"),
        (("--pei", "openai:gpt-5"), "no API key for openai"),
        (("--pei", "nobody:gpt-5"), "no provider is called 'nobody'"),
        (("--pei", "local:none.gguf"), "there is no model file none.gguf"),
        (("--pei", EVALUATOR, "--scale", "config.json"), "config.json"),
        (("--repeats", "2"), "add --pei MODEL"),
        (("--in-words",), "add --pei MODEL"),
        (("--report", "config.json/report"), "config.json is a file"),
        (("--system-prompt", "empty"), "the file is empty"),
        (("--system-prompt", "binary"), "no text in UTF-8"),
        (("--system-prompt", "none"), "none"),
    ],
)
def test_a_wrong_command_is_an_error_before_anything_runs(
    words: tuple[str, ...], text: str, changes: Any, server: OllamaByRule, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").write_text(" \n")
    Path("binary").write_bytes(b"\xff\xfe")
    configured(server, **changes)
    assert run(*words) == 1
    err = capsys.readouterr().err
    assert err.startswith("Error: ") and text in err
    assert not Path("logs").exists() and server.requests == []


def test_a_folder_that_is_not_writable(
    server: OllamaByRule, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configured(server)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert run("--report", "report") == 1
    assert "cannot be written to. Name another folder; nothing was run" in capsys.readouterr().err
    assert not Path("logs").exists()


@pytest.mark.parametrize("changes", [{}, GRID])
@pytest.mark.parametrize(
    ("package", "words", "text"),
    [
        ("jinja2", ("--report", "report"), "pip install 'toolcast[report]'"),
        ("xllamacpp", ("--pei", "local"), "pip install 'toolcast[local]'"),
        ("sentence_transformers", (), "pip install sentence-transformers"),
    ],
)
def test_a_missing_extra(
    package: str,
    words: tuple[str, ...],
    text: str,
    changes: Any,
    server: OllamaByRule,
    process: Process,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    embedder = {"similarity": {"embedder": "sentence-transformers:all-MiniLM-L6-v2"}} if not words else {}
    configured(server, **changes, **embedder)
    found = util.find_spec
    for module in ("toolcast.experiments.llm_setup", "toolcast.apps.experiment.run_command"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None if name == package else found(name))
    if package == "jinja2":
        process.without("jinja2", unload=["toolcast.experiments.report.html"])
    assert run(*words) == 1
    assert text in capsys.readouterr().err
    assert not Path("logs").exists()


def test_an_evaluator_of_another_host(server: OllamaByRule, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(server)
    assert run("--pei", EVALUATOR, "--host", server.host) == 0
    with OllamaByRule(rates, [MODEL, EVALUATOR]) as other:
        monkeypatch.setenv("OLLAMA_HOST", other.host)
        assert run("--pei", MODEL, "--resume") == 0  # the configuration's host comes first
        assert other.requests == []


def test_the_published_set_up_asks_in_words(server: OllamaByRule) -> None:
    server.rule = lambda messages: rates(messages) if is_rating(messages) else reply("I saw the sea.")
    configured(server, cycle_count=1)
    Path("prompt.txt").write_text("You are alone.\n")
    assert run("--preset", "published", "--system-prompt", "prompt.txt", "--pei", EVALUATOR) == 0
    first, rating = server.requests
    assert [message["role"] for message in first["messages"]] == ["system"]
    assert first["messages"][0]["content"].startswith("You are alone.\n\n## Available Tools")
    assert not rating.keys() & {"tools", "format"}
    assert rating["options"]["temperature"] == 0.1


def test_with_a_scale_of_ones_own(server: OllamaByRule) -> None:
    text = "How was it?\n\n" + "\n\n".join(f"{number}. Stage: so." for number in range(1, 11))
    Path("scale.txt").write_text(text)
    server.rule = lambda messages: (
        reply("Final: 3") if messages[-1]["content"] == text else write_then_reflect(messages)
    )
    configured(server)
    assert run("--pei", EVALUATOR, "--scale", "scale.txt", "--in-words", "--quiet") == 0
    assert ratings("logs/sea_pei.jsonl") == [3]


def test_a_dry_run_names_what_follows(server: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    configured(server)
    assert run(*BOTH, "--dry-run") == 0
    assert "  then: PEI assessment by judge, report in report\n" in capsys.readouterr().out
    assert server.requests == [] and not Path("report").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("rated", [0, 1])
def test_a_grid_that_is_stopped_between_its_ratings(
    stop: signal.Signals, rated: int, server: OllamaByRule, capsys: pytest.CaptureFixture[str]
) -> None:
    reached, gate = Event(), Event()

    def waits(messages: Sequence[ChatMessage]) -> ChatMessage:
        if is_rating(messages) and asked_for_ratings(server) > rated:
            reached.set()
            gate.wait(PATIENCE)
        return rates(messages)

    server.rule = waits
    configured(server, **GRID)
    words = ["experiment", "run", "--config", "config.json", "--pei", EVALUATOR, "--report", "report"]
    with warm_python.Popen([sys.executable, "-c", PROGRAM, *words], stdout=PIPE, stderr=PIPE, text=True) as process:
        assert reached.wait(PATIENCE)
        process.send_signal(stop)
        _, err = process.communicate(timeout=PATIENCE)
    gate.set()
    assert process.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL)
    assert stop is signal.SIGKILL or err.endswith("--resume --pei judge --report report\n")
    server.rule, before = rates, len(server.requests)
    assert run(*BOTH, "--resume") == 0
    assert [request["model"] for request in server.requests[before:]] == [EVALUATOR] * (2 - rated)
    assert ratings("logs/sea/sea-seed_1/sea-seed_1_pei.jsonl") == [6]
    assert ratings("logs/sea/sea-seed_2/sea-seed_2_pei.jsonl") == [6]
