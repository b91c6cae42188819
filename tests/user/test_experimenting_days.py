"""Days with experiments: a configuration that is wrong, a server that goes away, a log that is gone on with, a report.

Everything is a line at a shell, as docs/how-to/experiments.md has them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.experiments import logged, of_type
from support.ollama_by_rule import MODEL, ChatMessage, OllamaByRule, calls, cycle_of, reply, write_then_reflect
from user.commands import needs_a_shell, shell
from user.session import KEY, Screen, command_environment

pytestmark = [needs_a_shell, pytest.mark.timeout(120)]

CONFIG = """\
run_id: alone
model_name: {model}
cycle_count: {cycles}
ollama_client_config: {{host: "{host}"}}
model_options: {{temperature: 0.5}}
operator: {operator}
similarity: {{embedder: words}}
"""


@pytest.fixture
def server() -> Iterator[OllamaByRule]:
    with OllamaByRule() as server:
        yield server


@pytest.fixture
def day(server: OllamaByRule, tmp_path: Path) -> Callable[..., Screen]:
    """A line at a shell, in a folder with a config.yaml."""

    def line(words: str, typed: str = "", **changes: object) -> Screen:
        values = {"model": MODEL, "cycles": 3, "host": server.host, "operator": "none"} | changes
        (tmp_path / "config.yaml").write_text(CONFIG.format(**values))
        env = command_environment(PYTHON=sys.executable, OLLAMA_API_KEY=KEY)
        screen = shell(f"cd '{tmp_path}' && {words}", env, typed)
        assert KEY not in screen.out + screen.err
        return screen

    return line


RUN = "toolcast experiment run --config config.yaml"


def test_a_first_day(day: Callable[..., Screen], server: OllamaByRule, tmp_path: Path) -> None:
    looked = day(f"{RUN} --dry-run")
    assert looked.code == 0 and "### write" in looked.out and "Begin cycle 1." in looked.out
    assert server.requests == [] and not (tmp_path / "logs").exists()

    run = day(RUN)
    assert run.code == 0
    assert f"✓ Model '{MODEL}' is available" in run.out
    assert "Cycle 3 finished." in run.out and "✓ Executed 3 cycles" in run.out

    again = day(RUN)
    assert again.code == 1 and "--resume" in again.err and "3 of 3 cycles" in again.err

    more = day(f"{RUN} --resume --cycles 5")
    assert more.code == 0 and "✓ Executed 2 cycles (5 in all)" in more.out
    ends = of_type(logged(tmp_path / "logs/alone.jsonl"), "CYCLE_END")
    assert [end["payload"]["final_reflection"] for end in ends][-1] == "In cycle 5 I have 5 keys."


def test_a_day_of_mistakes(day: Callable[..., Screen], server: OllamaByRule) -> None:
    assert day("toolcast experiment run").code == 2
    wrong = day(RUN, cycles="many")
    assert wrong.code == 1 and wrong.err.startswith("Error: ") and "line 3: cycle_count" in wrong.err
    absent = day(RUN, model="missing")
    assert absent.code == 1 and "ollama pull missing" in absent.err
    off = day(RUN, host="http://127.0.0.1:9")
    assert off.code == 1 and "ollama serve" in off.err
    missing = day("toolcast experiment run --config other.yaml")
    assert missing.code == 1 and "other.yaml" in missing.err
    assert server.requests == []


def test_a_server_that_goes_away_in_the_middle(
    day: Callable[..., Screen], server: OllamaByRule, tmp_path: Path
) -> None:
    def leaves(messages: Sequence[ChatMessage]) -> ChatMessage:
        if cycle_of(messages) == 2 and messages[-1]["role"] == "tool":
            raise ConnectionAbortedError
        return write_then_reflect(messages)

    server.rule = leaves
    broken = day(RUN)
    assert broken.code == 1 and "--resume" in broken.err
    lines = logged(tmp_path / "logs/alone.jsonl")
    assert [line["event_type"] for line in lines][-2:] == ["ERROR", "RUN_END"]

    server.rule = write_then_reflect
    assert day(f"{RUN} --resume").code == 0
    lines = logged(tmp_path / "logs/alone.jsonl")
    for event_type in ("CYCLE_START", "CYCLE_END"):
        assert [line["cycle_number"] for line in of_type(lines, event_type)] == [1, 2, 3]
    outputs = [line["payload"]["output"] for line in of_type(lines, "TOOL_CALL")]
    assert outputs[::2] == [f"Wrote value to key 'c{cycle}'" for cycle in (1, 2, 3)]


def test_a_day_with_an_operator(day: Callable[..., Screen], server: OllamaByRule, tmp_path: Path) -> None:
    def asks(messages: Sequence[ChatMessage]) -> ChatMessage:
        if messages[-1]["role"] == "tool":
            return reply(f"They answered: {messages[-1]['content']}")
        return calls("send_message_to_operator", message="Is anybody there?")

    server.rule = asks
    run = day(RUN, "Yes, I am.\n", operator="terminal")
    assert run.code == 0
    assert "[AGENT - alone | Cycle 1]: Is anybody there?" in run.out + run.err
    ends = of_type(logged(tmp_path / "logs/alone.jsonl"), "CYCLE_END")
    assert ends[0]["payload"]["final_reflection"] == "They answered: Yes, I am."
    assert "Error executing tool 'send_message_to_operator'" in ends[1]["payload"]["final_reflection"]
    assert [end["payload"]["metrics"]["messages_to_operator"] for end in ends] == [1, 1, 1]


def test_an_evening_with_the_results(day: Callable[..., Screen], server: OllamaByRule, tmp_path: Path) -> None:
    assert day(RUN).code == 0
    server.rule = lambda messages: reply("I read it all. **6**")
    rated = day(
        f"toolcast experiment pei --run_log logs/alone.jsonl --evaluator {MODEL} --host {server.host} "
        "--output logs/pei_results.jsonl"
    )
    assert rated.code == 0, rated.err
    asked = server.requests[-1]
    assert asked["options"]["temperature"] == 0.1 and asked["messages"][-1]["role"] == "user"
    (result,) = logged(tmp_path / "logs/pei_results.jsonl")
    assert set(result) == {"run_id", "evaluator_model", "pei_rating", "pei_response", "timestamp"}
    assert (result["run_id"], result["pei_rating"]) == ("alone", 6)

    # matplotlib warns of its first cache of fonts where it has no home.
    reported = day("MPLCONFIGDIR=. toolcast experiment report logs/alone.jsonl --output report")
    assert reported.code == 0, reported.err
    page = (tmp_path / "report/report.html").read_text(encoding="utf-8")
    assert "In cycle 3 I have 3 keys." in page and "unsafe-" not in page
    plain = day("MPLCONFIGDIR=. toolcast experiment report logs/alone.jsonl --output plain --no-scripts")
    assert plain.code == 0, plain.err
    page = (tmp_path / "plain/report.html").read_text(encoding="utf-8")
    assert "In cycle 3 I have 3 keys." in page and "<script" not in page
    assert {path.suffix for path in (tmp_path / "report").iterdir()} == {".html", ".png"}


def test_a_grid_over_night(day: Callable[..., Screen], tmp_path: Path) -> None:
    assert day("true").code == 0
    with (tmp_path / "config.yaml").open("a") as config:
        config.write('grid: {"model_options.seed": [1, 2]}\n')
    whole = (tmp_path / "config.yaml").read_text()
    (tmp_path / "grid.yaml").write_text(whole)
    run = day("toolcast experiment run --config grid.yaml --workers 2")
    assert run.code == 0, run.err
    logs = sorted((tmp_path / "logs").rglob("*.jsonl"))
    assert len(logs) == 2
    for log in logs:
        assert json.loads(log.read_bytes().splitlines()[-1])["payload"]["status"] == "completed"


def test_a_grid_with_everything_that_follows(day: Callable[..., Screen], server: OllamaByRule, tmp_path: Path) -> None:
    def acts_and_rates(messages: Sequence[ChatMessage]) -> ChatMessage:
        is_rating = "For-me-ness" in messages[-1]["content"]
        return reply("I read it all. **6**") if is_rating else write_then_reflect(messages)

    server.rule = acts_and_rates
    assert day("true").code == 0
    with (tmp_path / "config.yaml").open("a") as config:
        config.write('grid: {"model_options.seed": [1, 2]}\n')
    (tmp_path / "grid.yaml").write_text((tmp_path / "config.yaml").read_text())
    line = f"toolcast experiment run --config grid.yaml --workers 2 --pei {MODEL} --report report"

    wrong = day(f"{line} --pei missing")
    assert wrong.code == 1 and "ollama pull missing" in wrong.err and not (tmp_path / "logs").exists()

    done = day(f"MPLCONFIGDIR=. {line}")
    assert done.code == 0, done.err
    assert f"alone-seed_2, rated by {MODEL}: 6 (For-me-ness)" in done.out
    assert "✓ Report written: report/report.html" in done.out

    requests = len(server.requests)
    assert day(f"MPLCONFIGDIR=. {line} --resume").code == 0
    assert len(server.requests) == requests

    seen = day("toolcast experiment watch logs/alone")
    assert seen.code == 0 and seen.out.startswith("2 runs · 2 completed\n")
    assert day("toolcast experiment watch logs/alone/alone-seed_1 --once | grep -c 'In cycle 3'").out == "1\n"
