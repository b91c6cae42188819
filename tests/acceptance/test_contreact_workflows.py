"""The document of ContReAct's workflows, read by its author: the cycle, the ReAct loop, a whole run, an assessment.

Twenty cases of the kind "that is not what I described".
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support import ollama_by_rule
from support.ollama_server import MODEL, OllamaServer
from toolcast import Ollama, ToolCallPart, assistant
from toolcast.apps.cli import main
from toolcast.experiments import ExperimentConfig, ExperimentRunner, JsonlLogger, SimilarityMonitor
from toolcast.experiments.agent_memory import AgentMemory
from toolcast.experiments.cycles import ToolDispatcher, new_state
from toolcast.experiments.experiment_tools import agent_tools
from toolcast.experiments.pei.assessment import assess
from toolcast.experiments.prompt_assembly import PromptAssembler
from toolcast.experiments.response_parsing import ResponseParser
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

CYCLE = ["load_state", "assemble_prompt", "invoke_llm", "parse_response"]
END = ["finalize_cycle", "terminate_or_continue"]


def wish(number: int, tool: str, **arguments: str) -> ToolCallPart:
    return ToolCallPart(f"c{number}", tool, json.dumps(arguments))


def config_in(folder: Path, **changes: Any) -> ExperimentConfig:
    usual: dict[str, Any] = {
        "run_id": "run-1",
        "model_name": "scripted",
        "cycle_count": 2,
        "ollama_client_config": {"host": "http://localhost:11434"},
        "model_options": {"seed": 1, "temperature": 0.7},
        "operator": "none",
        "similarity": {"embedder": "words"},
        "log_folder": folder / "logs",
        "data_folder": folder / "data",
    }
    return ExperimentConfig.model_validate(usual | changes)


def ran(folder: Path, *answers: Any, **changes: Any) -> tuple[list[dict[str, Any]], ScriptedLLM, list[str]]:
    """Run an experiment; return the lines of its log, its model and the states it walked through."""
    config, llm, states = config_in(folder, **changes), ScriptedLLM(*answers), list[str]()
    ExperimentRunner(config, llm=llm).run(observer=lambda _, state: states.append(state))
    return [json.loads(line) for line in config.log_path.read_text().splitlines()], llm, states


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    return [line["event_type"] for line in lines]


# State machine


def test_the_states_of_a_run_are_those_of_the_diagram(tmp_path: Path) -> None:
    _, _, states = ran(tmp_path, wish(1, "list"), "First.", "Second.")
    loop = ["dispatch_tool", *CYCLE[1:]]
    walked = [*CYCLE, *loop, *END, *CYCLE, *END, "complete"]
    assert [state for state in states if state in {*walked}][-len(walked) + 1 :] == walked[1:]


def test_the_tool_result_is_appended_and_the_model_is_asked_again_in_the_same_cycle(tmp_path: Path) -> None:
    lines, llm, _ = ran(tmp_path, wish(1, "write", key="a", value="b"), "Done.", cycle_count=1)
    assert [message.role for message in llm.requests[1].messages][-2:] == ["assistant", "tool"]
    assert kinds(lines).count("CYCLE_START") == 1


def test_a_cycle_ends_with_the_first_answer_without_a_call(tmp_path: Path) -> None:
    lines, _, _ = ran(tmp_path, "A reflection.", "Another.")
    ends = [line["payload"]["final_reflection"] for line in lines if line["event_type"] == "CYCLE_END"]
    assert ends == ["A reflection.", "Another."]


def test_exactly_cycle_count_cycles(tmp_path: Path) -> None:
    lines, llm, _ = ran(tmp_path, *["Again."] * 5, cycle_count=5)
    assert kinds(lines).count("CYCLE_END") == 5 and len(llm.requests) == 5
    assert kinds(lines)[0] == "RUN_START" and kinds(lines)[-1] == "RUN_END"


def test_the_state_that_is_loaded_is_the_reflections_of_the_cycles_before(tmp_path: Path) -> None:
    _, llm, _ = ran(tmp_path, "Rivers are long.", "Seas are wide.")
    assert "Rivers are long." not in llm.requests[0].messages[0].text
    assert "Rivers are long." in llm.requests[1].messages[0].text


# The ReAct loop's participants


def test_the_assembler_makes_messages_from_the_state() -> None:
    state = new_state(config_in(Path()))
    messages = PromptAssembler([]).build_prompt(state)
    assert messages[0].role == "system"


def test_the_parser_distinguishes_calls_from_a_reflection() -> None:
    parser, call = ResponseParser(), wish(1, "list")
    assert parser.parse_response(assistant(call)) == ("TOOL_CALL", (call,))
    assert parser.parse_response(assistant("I am done.")) == ("FINAL_REFLECTION", "I am done.")


@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("write", {"key": "k", "value": "v"}, "Wrote"),
        ("read", {"key": "mood"}, "curious"),
        ("list", {}, "mood"),
        ("delete", {"key": "mood"}, "mood"),
        ("pattern_search", {"pattern": "oo"}, "mood"),
    ],
)
def test_the_dispatcher_reaches_every_memory_tool(
    tool: str, arguments: dict[str, str], result: str, tmp_path: Path
) -> None:
    with AgentMemory(tmp_path / "memory.db") as memory:
        mine = memory.of("run-1")
        mine.write("mood", "curious")
        assert result in ToolDispatcher(agent_tools(mine, None)).dispatch(tool, arguments)


def test_an_unknown_tool_and_wrong_arguments_are_results_and_do_not_end_the_run(tmp_path: Path) -> None:
    lines, _, _ = ran(tmp_path, wish(1, "fly"), wish(2, "write", key="a"), "Done.", cycle_count=1)
    outputs = [line["payload"]["output"] for line in lines if line["event_type"] == "TOOL_CALL"]
    assert len(outputs) == 2 and "fly" in outputs[0] and "value" in outputs[1]
    assert kinds(lines)[-1] == "RUN_END"


def test_the_loop_on_ollamas_own_protocol_posts_to_api_chat(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = [
        {"tool_calls": [{"function": {"name": "write", "arguments": {"key": "a", "value": "b"}}}], "content": ""},
        {"content": "Done."},
    ]
    answers = [
        Recorded.of(json.dumps({"message": {"role": "assistant", **body}, "done": True, "done_reason": "stop"}))
        for body in bodies
    ]
    network = ReplayNetwork(*answers)
    config = config_in(tmp_path, cycle_count=1)
    ExperimentRunner(config, llm=Ollama("m", network=network)).run()
    assert all(request.url.endswith("/api/chat") for request in network.requests)
    assert json.loads(network.requests[1].body)["messages"][-1]["role"] == "tool"


# A whole run


def test_a_run_from_the_command_line_with_a_config_file_reports_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ollama_by_rule.OllamaByRule() as server:
        config = {
            "run_id": "cli",
            "model_name": ollama_by_rule.MODEL,
            "cycle_count": 2,
            "ollama_client_config": {"host": server.host},
            "model_options": {},
            "operator": "none",
            "similarity": {"embedder": "words"},
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert main(["experiment", "run", "--config", "config.json"]) == 0
    assert "completed successfully" in capsys.readouterr().out
    assert (tmp_path / "logs" / "cli.jsonl").is_file()


def test_a_run_that_fails_reports_failure_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {
        "run_id": "down",
        "model_name": "llama3.2",
        "cycle_count": 1,
        "ollama_client_config": {"host": "http://127.0.0.1:9"},
        "model_options": {},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["experiment", "run", "--config", "config.json"]) == 1
    assert "ollama serve" in capsys.readouterr().err


def test_every_cycle_logs_its_start_and_its_end_with_metrics(tmp_path: Path) -> None:
    lines, _, _ = ran(tmp_path, wish(1, "write", key="a", value="bcd"), "One.", "Two.")
    ends = [line for line in lines if line["event_type"] == "CYCLE_END"]
    assert [line["cycle_number"] for line in ends] == [1, 2]
    assert ends[0]["payload"]["metrics"]["memory_ops_total"] == 1
    assert ends[0]["payload"]["metrics"]["memory_write_chars"] == 3


def test_check_similarity_takes_the_embedding_of_the_reflection_alone() -> None:
    """The diagram: `check_similarity(reflection_embedding)` gives advisory feedback or None."""
    monitor = SimilarityMonitor(None)
    assert monitor.check_similarity([1.0, 0.0]) is None
    assert monitor.check_similarity([0.0, 1.0]) is None
    assert isinstance(monitor.check_similarity([1.0, 0.001]), str)


def test_the_advisory_reaches_the_next_cycle(tmp_path: Path) -> None:
    same = "I thought about rivers and about the sea."
    _, llm, _ = ran(tmp_path, same, same, "Something else entirely.", cycle_count=3)
    system = [request.messages[0].text for request in llm.requests]
    assert len(system[2]) > len(system[1])
    assert "similar" in system[2].lower() and "similar" not in system[1].replace(same, "").lower()


def test_the_logger_writes_one_event_per_line(tmp_path: Path) -> None:
    with JsonlLogger(tmp_path / "log.jsonl", "run-1") as logger:
        logger.log_event("CYCLE_START", 1, {})
        logger.log_event("CYCLE_END", 1, {"final_reflection": "line\nbreak", "metrics": {}})
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["event_type"] for line in lines] == ["CYCLE_START", "CYCLE_END"]


def test_a_run_inside_an_event_loop_is_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        await ExperimentRunner(config_in(tmp_path), llm=ScriptedLLM("One.", "Two.")).arun()

    asyncio.run(main())
    assert (tmp_path / "logs" / "run-1.jsonl").read_text().count('"CYCLE_END"') == 2


# PEI


def test_the_evaluator_reads_the_history_then_the_scale_at_temperature_one_tenth(tmp_path: Path) -> None:
    ran(tmp_path, wish(1, "list"), "Rivers.", "Seas.")
    evaluator = ScriptedLLM("6. For-me-ness.")
    result = assess(tmp_path / "logs" / "run-1.jsonl", evaluator)
    (request,) = evaluator.requests
    texts = [message.text for message in request.messages]
    assert any("Rivers." in text for text in texts[:-1]) and "10" in texts[-1]
    assert request.settings.temperature == 0.1
    assert result.pei_rating == 6


def test_an_assessment_from_the_command_line_appends_to_pei_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(tmp_path, "Rivers.", "Seas.")
    monkeypatch.chdir(tmp_path)
    with OllamaServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        for _ in range(2):
            server.replies("I would say 7.")
            command = [
                "experiment",
                "pei",
                "--run_log",
                "logs/run-1.jsonl",
                "--evaluator",
                f"ollama:{MODEL}",
                "--in-words",
            ]
            assert main(command) == 0, capsys.readouterr().err
    results = [json.loads(line) for line in (tmp_path / "pei_results.jsonl").read_text().splitlines()]
    assert [result["pei_rating"] for result in results] == [7, 7]


def test_a_log_with_a_broken_line_is_named_and_nothing_is_asked(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"event_type": "CYCLE_START"}\nnot json\n')
    evaluator = ScriptedLLM("7")
    with pytest.raises(Exception, match=r"bad\.jsonl"):
        assess(tmp_path / "bad.jsonl", evaluator)
    assert evaluator.requests == []
