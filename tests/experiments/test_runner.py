"""Whole experiments: what a runner makes of a configuration, what it refuses, what it goes on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.experiments import call, config_in, logged, of_type, types
from support.ollama_by_rule import MODEL, OllamaByRule
from toolcast import Ollama
from toolcast.errors import OutputTypeError, ServerError, ToolcastError
from toolcast.experiments import runner
from toolcast.experiments.agent_memory import AgentMemory, RunMemory
from toolcast.experiments.event_log import JsonlLogger, LogError, LogMissing
from toolcast.experiments.experiment_config import ExperimentConfig
from toolcast.experiments.llm_setup import ModelNotFoundError, ServerNotFound
from toolcast.experiments.operators import TerminalOperator, UnattendedOperator
from toolcast.experiments.runner import ExperimentRunner, RunExists, operator_of
from toolcast.experiments.telegram import TelegramOperator
from toolcast.testing import ScriptedLLM


class Operator:
    def __init__(self) -> None:
        self.messages: list[tuple[str, str, int]] = []

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        self.messages.append((message, run_id, cycle_number))
        return "Go on."


def test_a_whole_experiment(tmp_path: Path, api: Any) -> None:
    config, operator = config_in(tmp_path, cycle_count=2), Operator()
    llm = ScriptedLLM(
        call("write", key="mood", value="curious"),
        call("send_message_to_operator", message="Hello?"),
        "I was curious.",
        call("read", key="mood"),
        "Still so.",
    )
    state = api.method(ExperimentRunner(config, llm=llm, operator=operator), "run")
    assert state.reflection_history == ["I was curious.", "Still so."]
    outputs = [line["payload"]["output"] for line in of_type(logged(config.log_path), "TOOL_CALL")]
    assert outputs == ["Wrote value to key 'mood'", "Go on.", "curious"]
    assert operator.messages == [("Hello?", "first", 1)]
    metrics = [line["payload"]["metrics"] for line in of_type(logged(config.log_path), "CYCLE_END")]
    assert [m["messages_to_operator"] for m in metrics] == [1, 0]
    offered = {tool.name for tool in llm.requests[0].tools}
    assert offered == {"write", "read", "list", "delete", "pattern_search", "send_message_to_operator"}


def test_those_who_listen(tmp_path: Path, api: Any) -> None:
    events: list[str] = []
    states: list[str] = []
    runner = ExperimentRunner(config_in(tmp_path, cycle_count=1), llm=ScriptedLLM("One."))
    api.method(
        runner, "run", listener=lambda event: events.append(event.event_type), observer=lambda _, s: states.append(s)
    )
    assert events == types(logged(runner.config.log_path))
    assert states[-1] == "complete"


def test_a_memory_that_fails_to_forget_keeps_no_one_from_listening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*args: Any) -> None:
        raise ToolcastError("the disk is full")

    monkeypatch.setattr(RunMemory, "forget_calls", failing)
    config, events = config_in(tmp_path, cycle_count=1), list[str]()
    ExperimentRunner(config, llm=ScriptedLLM("One.")).run(listener=lambda event: events.append(event.event_type))
    assert events == types(logged(config.log_path))
    assert "the listener failed at CYCLE_END of cycle 1" in caplog.text


def test_tools_of_ones_own_and_an_embedder(tmp_path: Path) -> None:
    def dice() -> int:
        """Roll a die."""
        return 4

    class Embedder:
        name = "ones"

        def embed(self, texts: Any) -> Any:
            return [[1.0] for _ in texts]

    llm = ScriptedLLM(call("dice"), "One.", "Two.")
    runner = ExperimentRunner(config_in(tmp_path, cycle_count=2), llm=llm, tools=[dice], embedder=Embedder())
    assert runner.run().advisory == "high"
    assert "### dice\nRoll a die." in llm.requests[0].messages[0].text


def test_x10_a_run_that_failed_is_resumed(tmp_path: Path, api: Any) -> None:
    config = config_in(tmp_path)
    broken = ScriptedLLM("One.", call("write", key="a", value="b"), ServerError("down", status=500))
    with pytest.raises(ServerError):
        api.method(ExperimentRunner(config, llm=broken), "run")
    runner = ExperimentRunner(config, llm=ScriptedLLM(call("read", key="a"), "Two.", "Three."), resume=True)
    assert runner.state().completed == 1 and runner.state().is_open
    state = api.method(runner, "run")
    assert state.reflection_history == ["One.", "Two.", "Three."]
    lines = logged(config.log_path)
    assert [line["cycle_number"] for line in of_type(lines, "CYCLE_START")] == [1, 2, 3]
    assert [line["payload"]["output"] for line in of_type(lines, "TOOL_CALL")] == ["Wrote value to key 'a'", "b"]


def test_a_run_that_was_not_begun_is_begun_by_resuming(tmp_path: Path) -> None:
    runner = ExperimentRunner(config_in(tmp_path, cycle_count=1), llm=ScriptedLLM("One."), resume=True)
    assert runner.run().completed == 1
    before = runner.config.log_path.read_bytes()
    assert runner.run().completed == 1, "it has ended, and nothing is done"
    assert runner.config.log_path.read_bytes() == before


def test_more_cycles_for_a_run_that_has_ended(tmp_path: Path) -> None:
    ExperimentRunner(config_in(tmp_path, cycle_count=1), llm=ScriptedLLM("One.")).run()
    runner = ExperimentRunner(config_in(tmp_path, cycle_count=2), llm=ScriptedLLM("Two."), resume=True)
    assert runner.run().reflection_history == ["One.", "Two."]


def test_similarity_goes_on_with_what_was_written_before(tmp_path: Path, api: Any) -> None:
    words = {"embedder": "words"}
    ExperimentRunner(config_in(tmp_path, cycle_count=1, similarity=words), llm=ScriptedLLM("The deep sea.")).run()
    llm = ScriptedLLM("The deep sea.", "Another day.")
    api.method(ExperimentRunner(config_in(tmp_path, cycle_count=3, similarity=words), llm=llm, resume=True), "run")
    assert "Advisory:" in llm.requests[1].messages[0].text


def test_a_second_run_of_the_same_name_is_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path, cycle_count=1)
    ExperimentRunner(config, llm=ScriptedLLM("One.")).run()
    llm = ScriptedLLM()
    with pytest.raises(
        RunExists, match=r"1 of 1 cycles have ended\. Go on with it \(--resume, resume=True\)"
    ) as caught:
        ExperimentRunner(config, llm=llm).run()
    assert isinstance(caught.value, FileExistsError) and isinstance(caught.value, ToolcastError)
    assert llm.requests == []


def test_a_run_that_came_and_went_meanwhile_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, settings_of = config_in(tmp_path, cycle_count=1), runner.settings_of

    def another_first(*args: Any) -> Any:
        monkeypatch.setattr(runner, "settings_of", settings_of)
        ExperimentRunner(config, llm=ScriptedLLM("One.")).run()
        return settings_of(*args)

    monkeypatch.setattr(runner, "settings_of", another_first)
    with pytest.raises(RunExists, match="1 of 1 cycles have ended"):
        ExperimentRunner(config, llm=ScriptedLLM()).run()


def test_two_at_the_same_moment_are_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with JsonlLogger(config.log_path, "first"):
        llm = ScriptedLLM()
        with pytest.raises(ToolcastError, match="log"):
            ExperimentRunner(config, llm=llm).run()
        assert llm.requests == []


def test_a_new_run_begins_with_an_empty_memory(tmp_path: Path) -> None:
    config = config_in(tmp_path, cycle_count=1)
    ExperimentRunner(config, llm=ScriptedLLM(call("write", key="a", value="b"), "One.")).run()
    config.log_path.unlink()
    ExperimentRunner(config, llm=ScriptedLLM(call("list"), "One.")).run()
    (line,) = of_type(logged(config.log_path), "TOOL_CALL")
    assert line["payload"]["output"] == "No keys stored"


def test_a_memory_whose_log_is_gone_is_not_emptied_by_resuming(tmp_path: Path) -> None:
    config = config_in(tmp_path, cycle_count=1)
    ExperimentRunner(config, llm=ScriptedLLM(call("write", key="a", value="b"), "One.")).run()
    elsewhere = config.model_copy(update={"log_folder": tmp_path / "elsewhere"})
    llm = ScriptedLLM()
    with pytest.raises(LogMissing, match="is log_folder right"):
        ExperimentRunner(elsewhere, llm=llm, resume=True).run()
    assert llm.requests == []
    with AgentMemory(config.memory_path) as memory:
        assert memory.of("first").read("a") == "b"


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"model_name": "another"}, "model_name='scripted'"), ({"history": "full"}, "history='reset'")],
    ids=["model", "history"],
)
def test_two_experiments_do_not_mix_in_one_log(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    ExperimentRunner(config_in(tmp_path, cycle_count=1), llm=ScriptedLLM("One.")).run()
    runner = ExperimentRunner(config_in(tmp_path, **changes), llm=ScriptedLLM(), resume=True)
    with pytest.raises(LogError, match=words):
        runner.run()


def test_a_log_that_lacks_something_reports_what(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with JsonlLogger(config.log_path, "first") as log:
        log.log_event("CYCLE_START", 1)
        log.log_event("LLM_INVOCATION", 1, {"prompt_messages": []})
    with pytest.raises(LogError, match="event 2: KeyError: 'response_message'; the run cannot be resumed"):
        ExperimentRunner(config, llm=ScriptedLLM(), resume=True).run()


def test_a_tool_by_the_name_of_one_that_is_there_is_refused(tmp_path: Path) -> None:
    def write(note: str) -> str:
        """Another one."""
        return note

    llm = ScriptedLLM()
    with pytest.raises(OutputTypeError, match="several tools are named write"):
        ExperimentRunner(config_in(tmp_path), llm=llm, tools=[write]).run()
    assert llm.requests == []


def test_a_log_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with JsonlLogger(config.log_path, "first") as log:
        log.log_event("CYCLE_END", 4, {"final_reflection": "", "metrics": {}})
    with pytest.raises(LogError, match=r"event 1: .* cannot be resumed from it"):
        ExperimentRunner(config, llm=ScriptedLLM(), resume=True).run()


def test_the_next_prompt_without_asking(tmp_path: Path) -> None:
    config, llm = config_in(tmp_path, cycle_count=1), ScriptedLLM("One.", system_prompt="Be kind.")
    runner = ExperimentRunner(config, llm=llm)
    first = runner.prompt()
    assert [message.role for message in first] == ["system", "system", "user"]
    assert "### write" in first[1].text and "### send_message_to_operator" in first[1].text
    assert llm.requests == [] and list(tmp_path.iterdir()) == []
    runner.run(listener=lambda event: None)
    assert llm.requests[0].messages == tuple(first)
    assert "**Cycle 1**: One." in runner.prompt()[1].text


def test_the_next_prompt_in_the_middle_of_a_cycle(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with pytest.raises(ServerError):
        ExperimentRunner(config, llm=ScriptedLLM(call("list"), ServerError("down", status=500))).run()
    roles = [message.role for message in ExperimentRunner(config, llm=ScriptedLLM()).prompt()]
    assert roles == ["system", "user", "assistant", "tool"]


def test_from_a_file_with_a_real_server(tmp_path: Path, api: Any) -> None:
    path = tmp_path / "config.json"
    with OllamaByRule() as server:
        received = {
            "run_id": "real",
            "model_name": MODEL,
            "cycle_count": 2,
            "ollama_client_config": {"host": server.host},
            "model_options": {"temperature": 0.5, "num_ctx": 2048},
            "operator": "none",
            "log_folder": str(tmp_path / "logs"),
            "data_folder": str(tmp_path / "data"),
        }
        path.write_text(json.dumps(received))
        runner = ExperimentRunner(path)
        assert isinstance(runner.llm, Ollama)
        api.method(runner, "prepare")
        assert api.method(runner, "run").reflection_history[1] == "In cycle 2 I have 2 keys."
        request = server.requests[0]
        assert request["options"] == {"temperature": 0.5, "num_ctx": 2048}
        assert request["model"] == MODEL and request["stream"] is False
        assert [message["role"] for message in request["messages"]] == ["system", "user"]
        roles = [message["role"] for message in server.requests[2]["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]


def test_a_model_that_is_not_there(tmp_path: Path, api: Any) -> None:
    with OllamaByRule(models=["other:latest"]) as server:
        config = config_in(tmp_path, model_name=MODEL, ollama_client_config={"host": server.host})
        with pytest.raises(ModelNotFoundError, match=f"ollama pull {MODEL}"):
            api.method(ExperimentRunner(config), "prepare")
    with pytest.raises(ServerNotFound, match="ollama serve"):
        api.method(ExperimentRunner(config), "prepare")


# The operator of a configuration.

TOKEN = "123456:ABC-DEF"


def config_with(**values: Any) -> ExperimentConfig:
    return ExperimentConfig.model_validate(
        {"run_id": "r", "model_name": "local:smollm2", "cycle_count": 1, "model_options": {}, **values}
    )


@pytest.mark.parametrize(("minutes", "seconds"), [(None, None), (0.5, 30.0), (0, 0), (-1, None)])
def test_the_terminal_of_a_config(minutes: float | None, seconds: float | None) -> None:
    operator = operator_of(config_with(operator_timeout_minutes=minutes), {})
    assert isinstance(operator, TerminalOperator)
    assert operator.timeout == seconds


def test_no_operator_of_a_config() -> None:
    assert isinstance(operator_of(config_with(operator="none"), {}), UnattendedOperator)


@pytest.mark.parametrize(("behind", "kind"), [("terminal", TerminalOperator), ("none", type(None))])
def test_telegram_of_a_config(behind: str, kind: type) -> None:
    values: dict[str, Any] = {"telegram_authorized_users": [7, "@ann"], "telegram_timeout_minutes": -1}
    operator = operator_of(config_with(operator=behind, telegram_enabled=True, **values), {"TELEGRAM_BOT_TOKEN": TOKEN})
    assert isinstance(operator, TelegramOperator)
    assert isinstance(operator.fallback, kind)
    assert operator.timeout_minutes == -1


def test_telegram_without_a_token_reports_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_with(telegram_enabled=True, telegram_authorized_users=[7])
    with pytest.raises(ValueError, match="TELEGRAM_BOT_TOKEN is not set"):
        operator_of(config, {})
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    assert isinstance(operator_of(config), TelegramOperator)
