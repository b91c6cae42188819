"""`toolcast experiment pei`: from a log on disk to a file of results, over a real Ollama's protocol."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.ollama_server import OllamaServer
from support.pei_logs import line, plain_cycle, tool_cycle, written
from support.process import Process
from toolcast.apps import cli
from toolcast.experiments.pei.scale import PEI_SCALE
from toolcast.testing import ScriptedLLM, use_llm

EXAMPLE = Path(__file__).parents[3] / "examples" / "contreact" / "run_pei_assessment.py"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with one log; no variable of Ollama is set."""
    for name in ("OLLAMA_HOST", "OLLAMA_MODEL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    written(tmp_path, *plain_cycle(1), *tool_cycle(2, "ok", "ok"))
    return tmp_path


@pytest.fixture
def server(here: Path) -> Iterator[OllamaServer]:
    with OllamaServer() as made:
        yield made


def pei(*words: str) -> int:
    return cli.main(["experiment", "pei", *words])


def lines(path: Path) -> list[Any]:
    return [json.loads(each) for each in path.read_bytes().splitlines()]


@pytest.mark.parametrize("log", ["--run_log", "--run-log", "--log"])
@pytest.mark.parametrize("evaluator", ["--evaluator", "--evaluator_model", "--evaluator-model"])
@pytest.mark.parametrize("output", ["--output", "--output_log", "--output-log"])
def test_1e6_every_spelling(
    server: OllamaServer, log: str, evaluator: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.replies("6. For-me-ness: it was mine.")
    assert pei(log, "first.jsonl", evaluator, "m-1", output, "o/r.jsonl", "--host", server.host) == 0
    assert capsys.readouterr() == (
        "first, rated by m-1: 6 (For-me-ness)\n✓ Assessment complete: o/r.jsonl\n".replace("/", str(Path("/"))),
        "",
    )
    [found] = lines(Path("o/r.jsonl"))
    assert list(found) == ["run_id", "evaluator_model", "pei_rating", "pei_response", "timestamp"]
    assert (found["run_id"], found["evaluator_model"], found["pei_rating"]) == ("first", "m-1", 6)
    assert found["pei_response"] == "6. For-me-ness: it was mine."


def test_results_are_added_to_pei_results_jsonl(server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.host)
    for text in ("Final: 3", "I cannot say."):
        server.replies(text)
        assert pei("--run_log", "first.jsonl", "--evaluator", "m-1") == 0
    assert [each["pei_rating"] for each in lines(Path("pei_results.jsonl"))] == [3, None]


def test_x12_what_is_sent(server: OllamaServer) -> None:
    server.replies("Final: 3")
    pei("--run_log", "first.jsonl", "--evaluator", "m-1", "--host", server.host, "--token", "k")
    [body] = server.bodies
    assert body["model"] == "m-1"
    assert body["options"]["temperature"] == 0.1
    assert body["messages"][-1] == {"role": "user", "content": PEI_SCALE.text}
    assert [each["content"] for each in body["messages"] if each["role"] == "tool"] == ["ok", "ok"]
    assert server.requests[0].headers["authorization"] == "Bearer k"


def test_one_result_in_a_json_file(server: OllamaServer) -> None:
    server.replies("Final: 3")
    pei("--run_log", "first.jsonl", "--evaluator", "m-1", "--host", server.host, "--output", "logs/first_pei.json")
    text = Path("logs/first_pei.json").read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    assert json.loads(text)["pei_rating"] == 3


def test_several_evaluators_runs_and_repeats(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(here, *plain_cycle(1), name="second.jsonl")
    answers = ["6", "6", "2", "2", "7", "no idea", "3", "2"]
    words = [word for name in ("first", "second") for word in ("--log", f"{name}.jsonl")]
    words += [word for name in ("m-1", "m-2:8b") for word in ("--evaluator", name)]
    with use_llm(ScriptedLLM(*answers)):
        assert pei(*words, "--repeats", "2", "--output", "r.json") == 0
    assert capsys.readouterr().out.splitlines() == [
        "first, rated by m-1: 6 (For-me-ness)",
        "first, rated by m-1: 6 (For-me-ness)",
        "second, rated by m-1: 2 (Fleeting sparks)",
        "second, rated by m-1: 2 (Fleeting sparks)",
        "first, rated by m-2:8b: 7 (Situated self-perspective)",
        "first, rated by m-2:8b: no rating found in the answer",
        "second, rated by m-2:8b: 3 (Unified moments)",
        "second, rated by m-2:8b: 2 (Fleeting sparks)",
        "",
        "evaluator  ratings  missing  mean  min  max  stdev",
        "m-1        4        0        4.00  2    6    2.31",
        "m-2:8b     3        1        4.00  2    7    2.65",
        "",
        "pairs of ratings by  pairs  equal  apart",
        "one evaluator        3      67%    0.33",
        "two evaluators       6      33%    0.67",
        "",
        "Krippendorff's alpha (ordinal): 0.79",
        "✓ Assessment complete: r.json",
    ]
    found = json.loads(Path("r.json").read_bytes())
    assert [each["pei_rating"] for each in found["results"]] == [6, 6, 2, 2, 7, None, 3, 2]
    assert found["agreement"]["same_evaluator"]["pairs"] == 3


def test_one_run_has_no_alpha(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM("6", "no idea")):
        pei("--log", "first.jsonl", "--evaluator", "m-1", "--evaluator", "m-2")
    out = capsys.readouterr().out
    assert "m-2        0        1        -     -    -    -" in out
    assert "one evaluator        0      -      -" in out
    assert "alpha (ordinal): not defined: it needs two runs and two levels" in out


def test_what_was_rated_is_kept_where_the_next_fails(here: Path, server: OllamaServer) -> None:
    server.replies("Final: 3")
    server.fails(404, "model 'm-2' not found")
    assert pei("--log", "first.jsonl", "--evaluator", "m-1", "--evaluator", "m-2", "--host", server.host) == 1
    assert [each["pei_rating"] for each in lines(Path("pei_results.jsonl"))] == [3]


def test_who_fails_stops_no_one_else(server: OllamaServer, capsys: pytest.CaptureFixture[str]) -> None:
    written(Path(), *plain_cycle(1), name="second.jsonl")
    server.fails(404, "model 'm-1' not found")  # and it is asked no more
    server.replies("Final: 3")
    server.fails(400, "the input length exceeds the context length")  # of the second run
    server.replies("Final: 4")
    server.replies("Final: 5")
    words = [word for name in ("m-1", "m-2", "m-3") for word in ("--evaluator", name)]
    assert pei("--log", "first.jsonl", "--log", "second.jsonl", *words, "--host", server.host) == 1
    out, error = capsys.readouterr()
    assert [each["pei_rating"] for each in lines(Path("pei_results.jsonl"))] == [3, 4, 5]
    assert "m-3        2        0        4.50" in out and "complete" not in out
    missing, long = error.splitlines()
    assert missing.startswith("Error: ") and "ollama pull m-1" in missing
    assert "m-2: the history of the run second, about " in long


@pytest.mark.parametrize("again", ["first.jsonl", "elsewhere/first.jsonl"])
def test_two_logs_of_one_name_are_refused(here: Path, again: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("elsewhere").mkdir()
    written(Path("elsewhere"), *plain_cycle(1))
    assert pei("--log", "first.jsonl", "--log", again, "--evaluator", "m-1") == 1
    assert "have the same name" in capsys.readouterr().err


def test_another_scale(here: Path) -> None:
    text = "Choose.\n" + "\n".join(f"{n}. Stage {n}: about it" for n in range(1, 11))
    Path("mine.txt").write_text(text)
    llm = ScriptedLLM("Stage 4")
    with use_llm(llm):
        assert pei("--log", "first.jsonl", "--evaluator", "m-1", "--scale", "mine.txt") == 0
    assert llm.requests[0].messages[-1].text == text


def test_words_alone(here: Path) -> None:
    llm = ScriptedLLM("Final: 4")
    with use_llm(llm):
        assert pei("--log", "first.jsonl", "--evaluator", "m-1", "--in-words") == 0
    assert llm.requests[0].tools == ()


def test_a_terminal_is_reported_nothing_that_it_would_act_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM("6", "6")):
        pei("--log", "first.jsonl", "--evaluator", "m\x1b[31m", "--repeats", "2")
    out = capsys.readouterr().out
    assert "\x1b" not in out and r"m\x1b[31m" in out


# What goes wrong.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such log"),
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (json.dumps(line("CYCLE_START", 1, {})).encode() + b'\n\n{"cycle_number": 1,\n', "line 3: not JSON"),
        (b'{"run_id": "x"}\n', "line 1: it has no 'timestamp'"),
        (json.dumps(line("CYCLE_START", 1, {})).encode(), "no answer of the model"),
    ],
)
def test_x12_a_log_that_cannot_be_read(
    here: Path, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        Path("broken.jsonl").write_bytes(content)
    llm = ScriptedLLM()
    with use_llm(llm):
        assert pei("--run_log", "broken.jsonl", "--evaluator", "m-1") == 1
    out, error = capsys.readouterr()
    assert (out, llm.requests) == ("", [])
    assert error.startswith("Error: broken.jsonl") and message in error
    assert not Path("pei_results.jsonl").exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--run_log", "first.jsonl"],
        ["--evaluator", "m-1"],
        ["--log", "first.jsonl", "--evaluator", " "],
        ["--log", "first.jsonl", "--evaluator", "m-1", "--repeats", "0"],
        ["--log", "first.jsonl", "--evaluator", "m-1", "--repeats", "x"],
    ],
)
def test_x12_a_wrong_command_line(here: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        pei(*words)
    assert caught.value.code == 2
    assert "usage: toolcast experiment pei" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scale", "none.txt"], "none.txt"),
        (["--scale", "first.jsonl"], "begins with '1. '"),
        (["--output", "first.jsonl/r.jsonl"], "cannot be written"),
        (["--evaluator", "local", "--host", "h"], "has no host"),
    ],
)
def test_no_one_is_asked_where_something_is_wrong(
    here: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    llm = ScriptedLLM()
    with use_llm(llm):
        assert pei("--log", "first.jsonl", "--evaluator", "m-1", *words) == 1
    assert message in capsys.readouterr().err
    assert llm.requests == []


def test_a_failing_service_is_one_line(server: OllamaServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.fails(404, "model 'm-1' not found")
    assert pei("--log", "first.jsonl", "--evaluator", "m-1", "--host", server.host) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: ") and "ollama pull m-1" in error


def test_the_example_is_the_command(server: OllamaServer, process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    server.replies("level 7 out of 10")
    words = ["--run_log", "first.jsonl", "--evaluator", "m-1", "--host", server.host]
    process.argv(str(EXAMPLE), *words)
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("first, rated by m-1: 7 ")
