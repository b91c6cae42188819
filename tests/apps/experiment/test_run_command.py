"""`toolcast experiment run`: against an Ollama on the loopback interface, in this process and in a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.driven_repl import CTRL_C, ENTER, PROGRAM, Driven
from support.loopback import whole
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, calls, cycle_of, reply, write_then_reflect
from support.ollama_server import OllamaServer
from toolcast.apps import cli
from toolcast.experiments.runner import ExperimentRunner

ROOT = Path(__file__).parents[3]


@pytest.fixture
def ollama() -> Iterator[OllamaByRule]:
    with OllamaByRule() as server:
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and none of Ollama's variables."""
    monkeypatch.chdir(tmp_path)
    for name in ("OLLAMA_HOST", "OLLAMA_MODEL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def configured(host: str, **changes: Any) -> str:
    """A configuration in the working directory."""
    usual: dict[str, Any] = {
        "run_id": "first",
        "model_name": MODEL,
        "cycle_count": 2,
        "ollama_client_config": {"host": host},
        "model_options": {"seed": 1},
        "similarity": {"embedder": "words"},
        "operator": "none",
    }
    data = {key: value for key, value in (usual | changes).items() if value is not None}
    Path("config.json").write_text(json.dumps(data))
    return "config.json"


def run(*words: str) -> int:
    return cli.main(["experiment", "run", *words])


def logged(name: str = "first") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(f"logs/{name}.jsonl").read_text().splitlines()]


def cycles(name: str = "first") -> list[tuple[str, int]]:
    """The cycles that started and ended."""
    return [
        (line["event_type"], line["cycle_number"]) for line in logged(name) if line["event_type"].startswith("CYCLE")
    ]


FIGURES = re.compile(r"  \d+ tool calls?, [\d,]+ tokens(, [\d,]+ tokens/s)?, \d:\d\d:\d\d elapsed, \d:\d\d:\d\d left")


def without_figures(out: str) -> list[str]:
    """The lines without the figures that follow each cycle."""
    lines = out.splitlines()
    for number, line in enumerate(lines):
        assert not line.endswith(" finished.") or FIGURES.fullmatch(lines[number + 1]), lines[number + 1]
    return [line for line in lines if not FIGURES.fullmatch(line)]


BOTH = [("CYCLE_START", 1), ("CYCLE_END", 1), ("CYCLE_START", 2), ("CYCLE_END", 2)]


def test_x1_a_run_is_reported_in_lines(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--config", configured(ollama.host)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert without_figures(out) == [
        "Successfully loaded configuration:",
        "  run_id: first",
        f"  model_name: {MODEL}",
        "  cycle_count: 2",
        f'  ollama_client_config: {{"host": "{ollama.host}"}}',
        '  model_options: {"seed": 1}',
        '  similarity: {"embedder": "words"}',
        "  operator: none",
        f"  log: {Path('logs/first.jsonl')}",
        f"  memory: {Path('data/memory.db')}",
        f"✓ Model '{MODEL}' is available",
        "Cycle 1 starting...",
        "Cycle 1 finished.",
        "Cycle 2 starting...",
        "Cycle 2 finished.",
        "✓ Experiment first completed successfully",
        "✓ Executed 2 cycles",
    ]
    assert cycles() == BOTH


def test_x1_without_a_configuration_it_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        run()
    assert done.value.code == 2
    assert "--config" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cycle_count": None}, "Error: Missing required field in configuration: cycle_count. Add it to config.json"),
        ({"cycle_count": True}, "Error: config.json, line 1: cycle_count must be a whole number, not true"),
        ({"cycle_count": 0}, "Error: config.json, line 1: cycle_count must be greater than 0, not 0"),
        ({"run_id": "../evil"}, "Error: config.json, line 1: run_id must be fit for a file's name"),
        ({"colour": "red"}, "Error: config.json, line 1: colour is no key of a configuration"),
        ({"model_options": 3}, "Error: config.json, line 1: model_options must be a mapping"),
        ({"telegram_enabled": True}, "Error: config.json: telegram_authorized_users must name who may answer"),
    ],
)
def test_x1_a_configuration_error_is_exit_code_1(
    changes: dict[str, Any], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--config", configured("localhost", **changes)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(text)
    assert sorted(path.name for path in Path().iterdir()) == ["config.json"]


def test_x1_no_file_and_bad_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--config", "none.yaml") == 1
    assert capsys.readouterr().err.startswith("Error: There is no configuration none.yaml")
    Path("bad.yaml").write_text("run_id: [\n")
    assert run("--config", "bad.yaml") == 1
    assert capsys.readouterr().err.startswith("Error: bad.yaml, line 2, column 1: this is no YAML")


def test_x1_a_model_that_is_not_there(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--config", configured(ollama.host, model_name="other")) == 1
    err = capsys.readouterr().err
    assert f"Error: Ollama at {ollama.host} has no model 'other'. Fetch it with `ollama pull other`" in err
    assert not Path("logs").exists()


def test_x1_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with OllamaByRule() as gone:
        pass
    assert run("--config", configured(gone.host)) == 1
    assert "`ollama serve`" in capsys.readouterr().err
    assert not Path("logs").exists()


def test_telegram_without_its_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN", raising=False)
    config = configured("localhost", telegram_enabled=True, telegram_authorized_users=[1])
    assert run("--config", config) == 1
    err = capsys.readouterr().err
    assert err.startswith("Error: ")
    assert "TELEGRAM_BOT_TOKEN" in err


def test_a_second_run_of_the_same_name_is_refused(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    config = configured(ollama.host)
    assert run("--config", config) == 0
    asked = len(ollama.requests)
    assert run("--config", config) == 1
    err = capsys.readouterr().err
    assert "--resume" in err
    assert "Resume with: toolcast" not in err
    assert len(ollama.requests) == asked


def test_a_run_is_gone_on_with_for_more_cycles(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    config = configured(ollama.host)
    assert run("--config", config) == 0
    capsys.readouterr()
    assert run("--config", config, "--resume", "--cycles", "3") == 0
    lines = without_figures(capsys.readouterr().out)
    assert lines[lines.index("Resuming with cycle 3...") :] == [
        "Resuming with cycle 3...",
        "Cycle 3 starting...",
        "Cycle 3 finished.",
        "✓ Experiment first completed successfully",
        "✓ Executed 1 cycles (3 in all)",
    ]
    assert cycles() == [*BOTH, ("CYCLE_START", 3), ("CYCLE_END", 3)]


def test_x10_a_failure_shows_how_to_resume(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    def breaks_in_cycle_2(messages: Sequence[ChatMessage]) -> ChatMessage:
        if cycle_of(messages) == 2 and len(messages) > 2:
            raise RuntimeError("gone")  # the server hangs up
        return write_then_reflect(messages)

    ollama.rule = breaks_in_cycle_2
    config = configured(ollama.host)
    assert run("--config", config) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "Cycle 2 starting..."
    assert err.startswith("Error: ")
    assert err.splitlines()[-1] == "Resume with: toolcast experiment run --config config.json --resume"
    assert logged()[-1]["payload"] == {"status": "failed", "cycles_completed": 1}
    ollama.rule = write_then_reflect
    assert run("--config", config, "--resume") == 0
    assert cycles() == BOTH


def test_a_model_that_takes_no_tools(capsys: pytest.CaptureFixture[str]) -> None:
    with OllamaServer() as server:
        server.answer(whole(json.dumps({"models": [{"name": "m-1"}]}).encode()))
        server.fails(400, "registry.ollama.ai/library/m-1 does not support tools")
        assert run("--config", configured(server.host, model_name="m-1")) == 1
        *_, advice, next_step = capsys.readouterr().err.splitlines()
        assert advice == "For a model that takes no tools set tool_mode: prompted in the configuration, or none."
        assert next_step.startswith("Resume with: ")
        server.answer(whole(json.dumps({"models": [{"name": "m-1"}]}).encode()))
        server.replies("One.")
        server.replies("Two.")
        assert run("--config", configured(server.host, model_name="m-1", tool_mode="prompted"), "--resume") == 0
    assert cycles() == BOTH


def test_quiet(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--config", configured(ollama.host), "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert cycles() == BOTH


def test_host_token_and_cycles_of_the_command_line(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    config = configured("http://nowhere.invalid:1")
    host = ollama.host.removeprefix("http://")
    assert run("--config", config, "--host", host, "--token", "t0ken-123", "--cycles", "1") == 0
    assert f'  ollama_client_config: {{"host": "{host}"}}' in capsys.readouterr().out
    assert cycles() == BOTH[:2]
    assert "t0ken" not in Path("logs/first.jsonl").read_text()


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "²"])
def test_a_number_that_is_none(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        run("--config", "c.json", f"--cycles={number}")
    assert done.value.code == 2
    assert "expected a whole number of at least 1" in capsys.readouterr().err


def test_a_dry_run_asks_and_writes_nothing(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    config = configured(ollama.host, system_prompt="You are \x1b[2J alone.")
    assert run("--config", config, "--dry-run") == 0
    out = capsys.readouterr().out
    assert "Dry run of first: no request is sent, no file is written." in out
    assert "  next: cycle 1 of 2\n" in out
    assert "\n[system]\nYou are \\x1b[2J alone." in out
    assert out.endswith("\n[user]\nBegin cycle 1.\n")
    assert ollama.requests == []
    assert sorted(path.name for path in Path().iterdir()) == ["config.json"]


def test_a_dry_run_of_a_run_that_has_begun(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    config = configured(ollama.host)
    assert run("--config", config, "--cycles", "1", "--quiet") == 0
    log = Path("logs/first.jsonl").read_bytes()
    assert run("--config", config, "--dry-run") == 0
    out = capsys.readouterr().out
    assert "  its log already has 1 cycles: use --resume to continue\n  next: cycle 2 of 2\n" in out
    assert "In cycle 1 I have 1 keys." in out
    assert run("--config", config, "--dry-run", "--resume", "--cycles", "1") == 0
    assert "next: nothing, all 1 cycles have ended; --cycles N adds more" in capsys.readouterr().out
    whole = log.splitlines(keepends=True)
    Path("logs/first.jsonl").write_bytes(b"".join(whole[:4]))  # as if it had been killed
    assert run("--config", config, "--dry-run", "--resume") == 0
    out = capsys.readouterr().out
    assert "  next: cycle 1 of 2, from the point where it was interrupted\n" in out
    asked, message = '[assistant]\nwrite {"key": "c1", "value": "x"}', "[tool]\nWrote value to key 'c1'"
    assert out.endswith(f"[user]\nBegin cycle 1.\n\n{asked}\n\n{message}\n")
    assert Path("logs/first.jsonl").read_bytes() == b"".join(whole[:4])


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_options_that_the_service_has_not(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"model_name": "openai:gpt-4.1", "model_options": {"repeat_penalty": 1.1}}
    assert run("--config", configured("localhost", **changes), *words) == 1
    assert "Error: model_options.repeat_penalty is no option of openai gpt-4.1" in capsys.readouterr().err
    assert not Path("logs").exists()


def test_ctrl_c_is_130_and_shows_how_to_resume(
    ollama: OllamaByRule, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExperimentRunner, "prepare", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run("--config", configured(ollama.host)) == 130
    assert capsys.readouterr().err == "Interrupted. Nothing was started.\n"


GRID = {"grid": {"model_options.seed": [1, 2]}}


@pytest.mark.slow
def test_a_grid_of_runs(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    config = configured(ollama.host, cycle_count=1, **GRID)
    assert run("--config", config, "--dry-run") == 0
    planned = capsys.readouterr().out
    assert planned.count("no request is sent") == 2
    assert run("--config", config, "--workers", "1") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "A grid of 2 runs:\n  first-seed_1\n  first-seed_2\n" in out
    assert "first-seed_1: Cycle 1 starting...\nfirst-seed_1: Cycle 1 finished.\n" in out
    assert f"  first-seed_2: completed, 1 cycles in {Path('logs/first/first-seed_2/first-seed_2.jsonl')}" in out
    assert out.endswith("✓ Experiment first completed successfully\n✓ Executed 2 cycles in 2 runs\n")
    assert run("--config", config, "--dry-run", "--cycles", "3") == 0
    planned = capsys.readouterr().out
    assert "  cycle_count: 3\n" in planned
    assert planned.count("its log already has 1 cycles") == planned.count("  next: cycle 2 of 3\n") == 2


@pytest.mark.slow
@pytest.mark.parametrize("grid", [False, True])
def test_cycles_without_a_final_reflection_fail(
    ollama: OllamaByRule, capsys: pytest.CaptureFixture[str], grid: bool
) -> None:
    def says_nothing(messages: Sequence[ChatMessage]) -> ChatMessage:
        answer = write_then_reflect(messages)
        return answer if answer.get("tool_calls") else {**answer, "content": " "}

    ollama.rule = says_nothing
    changes, words = (GRID, ("--workers", "1")) if grid else ({}, ())
    assert run("--config", configured(ollama.host, **changes), *words) == 1
    out, err = capsys.readouterr()
    assert "✓ Experiment first completed successfully" in out
    lost = "first-seed_1: 1, first-seed_1: 2, first-seed_2: 1, first-seed_2: 2" if grid else "1, 2"
    count = 4 if grid else 2
    assert f"{count} of {count} cycles ended without a final reflection: {lost}. The log has" in err


def test_a_grid_in_which_a_run_fails(ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(messages: Sequence[ChatMessage]) -> ChatMessage:
        if ollama.requests[-1]["options"]["seed"] == 2:
            raise RuntimeError("gone")
        return write_then_reflect(messages)

    ollama.rule = fails
    config = configured(ollama.host, cycle_count=1, **GRID)
    assert run("--config", config, "--workers", "1") == 1
    out, err = capsys.readouterr()
    assert "  first-seed_1: completed" in out
    _, error = err.split("Error: ")
    assert error.startswith("1 of 2 runs failed:\n  first-seed_2: failed: ")
    assert err.endswith("Resume with: toolcast experiment run --config config.json --resume --workers 1\n")


def test_a_grid_with_an_unknown_model_is_refused_before_it_runs(
    ollama: OllamaByRule, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(ollama.host, grid={"model_name": [MODEL, "other"]})
    assert run("--config", config) == 1
    assert "has no model 'other'" in capsys.readouterr().err
    assert not Path("logs").exists()


def test_options_of_a_grid_want_one(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--workers", "2"), ("--executor", "local")):
        assert run("--config", configured("localhost"), *words) == 1
        assert "--workers and --executor need a configuration with a grid" in capsys.readouterr().err
    for words in (("--host", "box"), ("--token", "t0ken")):
        assert run("--config", configured("localhost", **GRID), *words) == 1
        assert "--host and --token do not apply to a grid" in capsys.readouterr().err


def test_the_example_is_the_command(ollama: OllamaByRule) -> None:
    example = ROOT / "examples" / "contreact" / "run_experiment.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", example, "--config", configured(ollama.host)],
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("✓ Executed 2 cycles\n")


def test_x1_the_configuration_of_the_example_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    example = ROOT / "examples" / "contreact" / "config.yaml"
    assert run("--config", str(example), "--dry-run") == 0
    assert "next: cycle 1 of " in capsys.readouterr().out


# In a terminal.


@contextmanager
def in_terminal(*words: str, columns: int = 100) -> Iterator[Driven]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "NO_COLOR"))}
    env |= {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
    terminal = Driven([sys.executable, "-c", PROGRAM, "experiment", "run", *words], env, columns, 30)
    try:
        yield terminal
    finally:
        terminal.close()


def test_a_bar_on_a_terminal_and_ctrl_c(ollama: OllamaByRule) -> None:
    gate = threading.Event()

    def waits_in_cycle_2(messages: Sequence[ChatMessage]) -> ChatMessage:
        if cycle_of(messages) == 2:
            gate.wait(30)
        return write_then_reflect(messages)

    ollama.rule = waits_in_cycle_2
    config = configured(ollama.host)
    with in_terminal("--config", config) as terminal:
        terminal.until("Cycle 2 starting...", "Cycle 2/2 ", "invoke_llm · 2 tool calls · 330 tokens")
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
        gate.set()
    assert terminal.lines[-1] == "Interrupted. Resume with: toolcast experiment run --config config.json --resume"
    assert terminal.text.count("Cycle 2/2 ━") == 1 and "Cycle 1/2 " not in terminal.text
    assert logged()[-1]["payload"]["status"] == "interrupted"
    with in_terminal("--config", config, "--resume") as terminal:
        assert terminal.ends() == 0
    assert terminal.lines[-2:] == ["✓ Experiment first completed successfully", "✓ Executed 1 cycles (2 in all)"]
    assert cycles() == BOTH


def test_x11_the_operator_types_where_the_bar_was(ollama: OllamaByRule) -> None:
    def asks(messages: Sequence[ChatMessage]) -> ChatMessage:
        answers = [message["content"] for message in messages if message["role"] == "tool"]
        return (
            reply(f"They answered: {answers[0]}") if answers else calls("send_message_to_operator", message="Anyone?")
        )

    ollama.rule = asks
    with in_terminal("--config", configured(ollama.host, operator="terminal", cycle_count=1)) as terminal:
        terminal.until("[AGENT - first | Cycle 1]: Anyone?", "[OPERATOR]:")
        terminal.type(f"It is me{ENTER}")
        assert terminal.ends() == 0
    assert "[OPERATOR]: It is me" in terminal.lines
    (end,) = [line for line in logged() if line["event_type"] == "CYCLE_END"]
    assert end["payload"]["final_reflection"] == "They answered: It is me"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process there")
def test_ctrl_c_in_a_pipe(ollama: OllamaByRule) -> None:
    """As `timeout -s INT` or a job scheduler does it: no terminal, and the same ending."""
    asked, gate = threading.Event(), threading.Event()

    def waits(messages: Sequence[ChatMessage]) -> ChatMessage:
        asked.set()
        gate.wait(30)
        return reply("late")

    ollama.rule = waits
    words = [sys.executable, "-c", PROGRAM, "experiment", "run", "--config", configured(ollama.host)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8") as child:
        assert asked.wait(30)
        child.send_signal(2)
        out, err = child.communicate(timeout=30)
        gate.set()
    assert child.returncode == 130
    assert out.endswith("Cycle 1 starting...\n")
    assert err == "Interrupted. Resume with: toolcast experiment run --config config.json --resume\n"
