"""`toolcast experiment watch`: a process writes the log, another one shows it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from threading import Event

import pytest

from support import warm_python
from support.driven_repl import CTRL_C, PATIENCE, PROGRAM, Driven
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, cycle_of, write_then_reflect
from support.process import Process
from support.run_logs import LogWriter, whole_run
from toolcast.apps import cli
from toolcast.apps.experiment.watch_command import WatchedFolder, WatchedLog
from toolcast.experiments.log_reading import LogError


def once(path: Path) -> int:
    return cli.main(["experiment", "watch", str(path), "--once"])


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def run_lines_at(path: Path, *, cycle: int) -> LogWriter:
    """A log of a run that goes on, in this cycle."""
    writer = LogWriter(path, path.stem).start()
    for number in range(1, cycle):
        writer.begin()
        writer.event("CYCLE_END", {"final_reflection": f"In cycle {number} I saw the sea."}, {"seconds": 2.0})
    return writer.begin()


# One snapshot.


def test_a_snapshot_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert once(whole_run(tmp_path / "sea.jsonl", "sea")) == 0
    out, err = capsys.readouterr()
    assert err == "" and "\x1b" not in out
    lines = out.splitlines()
    assert lines[0].startswith("sea · local:smollm2") and lines[0].endswith("completed")
    assert all(len(line) <= 80 for line in lines)
    assert lines[-2].startswith("Reflection  cycle 3: I looked at the sea again")


def test_where_stdout_is_no_terminal_it_is_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_lines_at(tmp_path / "sea.jsonl", cycle=2)
    assert cli.main(["experiment", "watch", str(tmp_path / "sea.jsonl")]) == 0
    assert "Cycle       2/3" in capsys.readouterr().out


def test_without_columns_it_is_100_wide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS")
    once(whole_run(tmp_path / "sea.jsonl", "sea"))
    assert len(capsys.readouterr().out.splitlines()[0]) == 100


def test_a_torn_last_line_is_not_shown_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = whole_run(tmp_path / "sea.jsonl", "sea")
    path.write_bytes(path.read_bytes()[:-10])
    assert once(path) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("running")


@pytest.mark.parametrize("name", ["none.jsonl", "none"])
def test_nothing_is_there(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert once(tmp_path / name) == 1
    assert "Is its path right" in capsys.readouterr().err


def test_an_empty_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").touch()
    assert once(tmp_path / "a.jsonl") == 1
    assert "has no event yet" in capsys.readouterr().err


def test_a_file_that_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text("hello\n")
    assert once(tmp_path / "a.jsonl") == 1
    assert "a.jsonl, line 1: not JSON" in capsys.readouterr().err


# A folder.


def test_a_snapshot_of_a_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_run(tmp_path / "sea-1" / "sea-1.jsonl", "sea-1")
    run_lines_at(tmp_path / "sea-2" / "sea-2.jsonl", cycle=3)
    (tmp_path / "sea-3").mkdir()
    (tmp_path / "sea-3" / "config.json").write_text(json.dumps({"cycle_count": 5}))
    (tmp_path / "pei_results.jsonl").write_text('{"run_id": "sea-1"}\n')
    (tmp_path / "notes.txt").write_text("hello")
    assert once(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 runs · 1 running · 1 completed · 1 waiting"
    assert lines[1].startswith("Cycles 5/11 ━")
    assert [line.split()[:3] for line in lines[4:]] == [
        ["2", "3/3", "invoke_llm"],
        ["3", "0/5", "waiting"],
        ["1", "3/3", "completed"],
    ]


def test_a_folder_of_one_run_shows_it_in_detail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_run(tmp_path / "sea.jsonl", "sea")
    assert once(tmp_path) == 0
    assert "Reflection  cycle 3" in capsys.readouterr().out


@pytest.mark.parametrize("config", ["[]", "{", '{"cycle_count": true}'])
def test_a_configuration_that_says_nothing(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_run(tmp_path / "sea.jsonl", "sea")
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "config.json").write_text(config)
    assert once(tmp_path) == 0
    assert "Cycles 3/?" in capsys.readouterr().out


def test_new_logs_are_found_and_a_folder_has_ended_when_all_have(tmp_path: Path) -> None:
    watched = WatchedFolder(tmp_path)
    watched.poll()
    assert watched.missing is not None and watched.exit_code is None
    first = run_lines_at(tmp_path / "a.jsonl", cycle=3)
    for _ in range(8):
        watched.poll()
    assert watched.missing is None and watched.exit_code is None
    first.event("RUN_END", {"status": "completed"})
    watched.poll()
    assert watched.exit_code == 0
    LogWriter(tmp_path / "b.jsonl", "b").start().event("RUN_END", {"status": "failed"})
    for _ in range(8):
        watched.poll()
    assert watched.exit_code == 1


def test_a_log_of_a_folder_that_is_damaged_later(tmp_path: Path) -> None:
    run_lines_at(tmp_path / "a.jsonl", cycle=1)
    watched = WatchedFolder(tmp_path)
    watched.poll()
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(LogError, match="line 3"):
        watched.poll()


def test_another_run_in_the_same_file(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "sea.jsonl", "sea")
    watched = WatchedLog(path)
    watched.poll()
    assert watched.exit_code == 0
    path.unlink()
    run_lines_at(path, cycle=2)
    watched.poll()
    assert watched.exit_code is None
    assert watched.lines(80, 24, 0)[1][1][0].startswith("2/3")


# On a terminal.


@contextmanager
def watching(path: Path, columns: int = 80, rows: int = 24, program: str = PROGRAM) -> Iterator[Driven]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "COLUMNS", "LINES"))}
    command = [sys.executable, "-c", program, "experiment", "watch", str(path)]
    terminal = Driven(command, env | {"TERM": "xterm"}, columns, rows)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_one_process_runs_and_another_watches(tmp_path: Path, columns: int) -> None:
    gate = Event()

    def waits_in_cycle_2(messages: Sequence[ChatMessage]) -> ChatMessage:
        if cycle_of(messages) == 2 and messages[-1]["role"] == "tool":
            gate.wait(PATIENCE)
        return write_then_reflect(messages)

    with OllamaByRule(waits_in_cycle_2) as server, watching(tmp_path / "logs/first.jsonl", columns) as terminal:
        terminal.until("Waiting: ", "Ctrl-C")
        config = {
            "run_id": "first",
            "model_name": MODEL,
            "cycle_count": 2,
            "ollama_client_config": {"host": server.host},
            "model_options": {},
            "similarity": {"embedder": "none"},
            "operator": "none",
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        command = [sys.executable, "-c", PROGRAM, "experiment", "run", "--config", "config.json"]
        with warm_python.Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE) as running:
            terminal.until("first · by-rule", "running", "2/2  ", "invoke_llm", "cycle 1: In cycle 1 I have", "c1, c2")
            gate.set()
            terminal.until("cycle 2: In cycle 2 I have", "completed")
            assert terminal.ends() == 0
            running.communicate(timeout=PATIENCE)
    assert "\x1b[?1049h" in terminal.raw and terminal.raw.rindex("\x1b[?1049l") > terminal.raw.rindex("\x1b[?1049h")
    after = terminal.raw[terminal.raw.rindex("\x1b[?1049l") :]
    assert "cycle 2: In cycle 2 I have" in after and "Ctrl-C" not in after


def test_a_run_that_fails_is_exit_code_1(tmp_path: Path) -> None:
    writer = run_lines_at(tmp_path / "sea.jsonl", cycle=2)
    with watching(tmp_path / "sea.jsonl") as terminal:
        terminal.until("2/3", "running")
        writer.event("ERROR", {"kind": "llm", "message": "the server is gone"})
        writer.event("RUN_END", {"status": "failed"})
        assert terminal.ends() == 1
    assert "the server is gone" in terminal.text


def test_ctrl_c_leaves_the_view_and_the_terminal_as_it_was(tmp_path: Path) -> None:
    run_lines_at(tmp_path / "sea.jsonl", cycle=2)
    with watching(tmp_path / "sea.jsonl") as terminal:
        terminal.until("2/3", "running", "Ctrl-C")
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
    assert "Traceback" not in terminal.raw
    left = terminal.raw.rindex("\x1b[?1049l")
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l")
    assert "In cycle 1 I saw the sea." in terminal.raw[left:]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM for another process")
def test_a_view_that_is_terminated_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    run_lines_at(tmp_path / "sea.jsonl", cycle=2)
    words = shlex.join([sys.executable, "-c", PROGRAM, "experiment", "watch", str(tmp_path / "sea.jsonl")])
    env = dict(os.environ) | {"TERM": "xterm"}
    terminal = Driven(["bash", "-c", f"{words} & echo $! > '{tmp_path}/pid'; wait $!"], env, 80, 24)
    try:
        terminal.until("2/3")
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        assert terminal.ends() == 143
    finally:
        terminal.close()
    assert terminal.raw.rindex("\x1b[?1049l") > terminal.raw.rindex("\x1b[?1049h")
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l")


def test_ctrl_c_before_there_is_a_log(tmp_path: Path) -> None:
    with watching(tmp_path / "sea.jsonl") as terminal:
        terminal.until("Waiting: ")
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
    assert "Traceback" not in terminal.raw
    assert terminal.raw.rindex("\x1b[?1049l") > terminal.raw.rindex("\x1b[?1049h")


def test_the_view_fits_a_terminal_that_is_resized(tmp_path: Path) -> None:
    for number in range(30):
        run_lines_at(tmp_path / f"sea-{number}.jsonl", cycle=2)
    with watching(tmp_path, 120, 20) as terminal:
        terminal.until("30 runs", "and 15 more")
        terminal.resize(40, 12)
        terminal.until("and 24 more")
        assert all(len(line) <= 40 for line in terminal.screen.display)


def test_a_log_that_is_damaged_while_it_is_watched(tmp_path: Path) -> None:
    run_lines_at(tmp_path / "sea.jsonl", cycle=2)
    with watching(tmp_path / "sea.jsonl") as terminal:
        terminal.until("2/3")
        with (tmp_path / "sea.jsonl").open("a") as file:
            file.write("nonsense\n")
        assert terminal.ends() == 1
    assert "line 5: not JSON" in " ".join(terminal.text.split())


def test_without_rich_the_live_view_says_what_to_install(
    tmp_path: Path, process: Process, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("toolcast.apps.experiment.watch_command.can_redraw", lambda stream: True)
    process.without("rich")
    assert cli.main(["experiment", "watch", str(tmp_path)]) == 1
    assert "pip install 'toolcast[experiments]'" in capsys.readouterr().err
