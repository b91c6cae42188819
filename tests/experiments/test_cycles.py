"""The cycles: X2, X3, X5 to X10 of the behaviours, the limits, and going on from any place."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.experiments import RuleLLM, call, config_in, logged, of_cycles, of_type, types
from toolcast import CallableTool, Message, ToolCallPart
from toolcast.errors import BadRequest, IllegalState, ServerError, Timeout, ToolcastError
from toolcast.events import Finish, TextDelta, ThinkingDelta, UsageReport
from toolcast.experiments.cycles import CycleOrchestrator, Services, new_state
from toolcast.experiments.event_log import JsonlLogger, read_log
from toolcast.experiments.experiment_config import OllamaClientConfig
from toolcast.experiments.log_events import LogEvent
from toolcast.experiments.run_state import UNREADABLE, RunState
from toolcast.experiments.similarity import SimilarityMonitor
from toolcast.messages import ThinkingPart
from toolcast.testing import ScriptedLLM, VirtualClock
from toolcast.values.states import CYCLE
from toolcast.values.usage import Usage

notes: dict[str, str] = {}


def write(key: str, value: str) -> str:
    """Store a value."""
    notes[key] = value
    return f"Wrote value to key '{key}'"


def read(key: str) -> str:
    """Read a value."""
    return notes[key]


TOOLS = tuple(CallableTool.from_function(tool) for tool in (write, read))


class Run:
    """One experiment in a folder, whose log can be taken up again and again."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.config = config_in(folder, **changes)
        self.states: list[str] = []
        self.events: list[LogEvent] = []

    def orchestrator(self, llm: Any, log: JsonlLogger, **options: Any) -> CycleOrchestrator:
        state = new_state(self.config)
        if log.next_sequence:
            for event in read_log(self.config.log_path):
                state.apply(event)
        services = Services(llm, log, TOOLS, options.pop("monitor", None))
        listener: Callable[[LogEvent], object] | None = options.pop("listener", self.events.append)
        return CycleOrchestrator(
            self.config, services, state=state, observer=lambda _, state: self.states.append(state), listener=listener
        )

    def go(self, api: Any, llm: Any, method: str = "run", **options: Any) -> RunState:
        with JsonlLogger(self.config.log_path, self.config.run_id) as log:
            return api.method(self.orchestrator(llm, log, **options), method)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return logged(self.config.log_path)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    notes.clear()
    return Run(tmp_path)


def roles(request: Any) -> list[str]:
    return [message.role for message in request.messages]


def test_x2_cycles_in_their_order(run: Run, api: Any) -> None:
    state = run.go(api, ScriptedLLM("One.", "Two.", "Three."))
    assert state.reflection_history == ["One.", "Two.", "Three."]
    assert state.completed == 3 and state.status == "completed"
    assert types(run.lines) == ["RUN_START", *["CYCLE_START", "LLM_INVOCATION", "CYCLE_END"] * 3, "RUN_END"]
    assert [line["cycle_number"] for line in run.lines] == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert [line["sequence"] for line in run.lines] == list(range(11))
    times = [line["timestamp"] for line in run.lines]
    assert times == sorted(times) and all(time.endswith("Z") for time in times)
    for line in run.lines:
        assert {"timestamp", "run_id", "cycle_number", "event_type", "payload"} <= set(line)
    start, end = run.lines[0]["payload"], run.lines[-1]["payload"]
    assert start["resumed"] is False and start["first_cycle"] == 1 and start["config"]["run_id"] == "first"
    assert end == {"status": "completed", "cycles_completed": 3}
    assert [event.to_dict() for event in run.events] == run.lines


def test_the_log_has_no_credentials_of_the_host(run: Run, api: Any) -> None:
    run.config = run.config.model_copy(
        update={"ollama_client_config": OllamaClientConfig(host="https://u:S3CRET@box/x?key=S3CRET")}
    )
    run.go(api, ScriptedLLM("One.", "Two.", "Three."))
    assert run.lines[0]["payload"]["config"]["ollama_client_config"] == {"host": "https://***@box/x?key=***"}
    assert "S3CRET" not in run.config.log_path.read_text()


def test_the_states_are_those_of_the_table(run: Run, api: Any) -> None:
    run.go(api, ScriptedLLM(call("write", key="a", value="b"), "One.", "Two.", "Three."))
    asked = ["assemble_prompt", "invoke_llm", "parse_response"]
    ended = ["finalize_cycle", "terminate_or_continue"]
    assert run.states == [
        *asked,
        "dispatch_tool",
        *asked,
        *ended,
        *["load_state", *asked, *ended] * 2,
        "complete",
    ]
    assert set(run.states) <= set(CYCLE)


def test_x3_a_cycle_with_a_tool(run: Run, api: Any) -> None:
    answer = [TextDelta("I store it."), *_called(call("write", key="mood", value="curious"))]
    run.go(api, ScriptedLLM(answer, "<think>hm</think>Done."), "run_cycle")
    _, *lines, _ = run.lines
    assert types(lines) == ["CYCLE_START", "LLM_INVOCATION", "TOOL_CALL", "LLM_INVOCATION", "CYCLE_END"]
    assert lines[2]["payload"] == {
        "tool_name": "write",
        "parameters": {"key": "mood", "value": "curious"},
        "output": "Wrote value to key 'mood'",
    }
    assert lines[4]["payload"] == {
        "final_reflection": "Done.",
        "metrics": {
            "memory_ops_total": 1,
            "messages_to_operator": 0,
            "response_chars": len("I store it.") + len("<think>hm</think>Done."),
            "memory_write_chars": len("curious"),
        },
    }
    assert set(lines[1]["payload"]) == {"prompt_messages", "response_message", "model_options"}
    prompt = lines[3]["payload"]["prompt_messages"]
    assert [message["role"] for message in prompt] == ["system", "user", "assistant", "tool"]
    assert prompt[3]["tool_call_id"] == prompt[2]["tool_calls"][0]["id"]
    measures = lines[4]["measures"]
    assert (measures["steps"], measures["tool_calls"], measures["ended_by"]) == (2, 1, "reflection")
    assert measures["input_tokens"] == sum(lines[n]["measures"]["input_tokens"] for n in (1, 3)) == 10


def _called(made: ToolCallPart) -> list[Any]:
    from toolcast.events import ToolCallDone, ToolCallStart

    return [
        ToolCallStart(made.id, made.name),
        ToolCallDone(made.id, made.name, made.arguments),
        UsageReport(Usage(0, 5)),
        Finish("tool_use"),
    ]


def test_x3_two_calls_in_one_answer(run: Run, api: Any) -> None:
    both = [ToolCallPart("same", "write", '{"key": "a", "value": "1"}'), ToolCallPart("same", "read", '{"key": "a"}')]
    llm = ScriptedLLM([both[0], ToolCallPart("other", "read", '{"key": "a"}')], "Done.")
    run.go(api, llm, "run_cycle")
    assert types(run.lines).count("TOOL_CALL") == 2
    assert [line["payload"]["output"] for line in of_type(run.lines, "TOOL_CALL")] == ["Wrote value to key 'a'", "1"]
    assert roles(llm.requests[1]) == ["system", "user", "assistant", "tool", "tool"]
    results = llm.requests[1].messages[-2:]
    assert [part.call_id for message in results for part in message.parts] == ["same", "other"]


def test_ids_that_services_give_again_become_new_ones(run: Run, api: Any) -> None:
    again = ToolCallPart("call_0", "write", '{"key": "a", "value": "1"}')
    llm = ScriptedLLM(again, again, "Done.")
    run.go(api, llm, "run_cycle")
    ids = [part.id for message in llm.requests[2].messages for part in message.tool_calls]
    assert ids[0] == "call_0" and len(set(ids)) == 2


def test_x5_whatever_becomes_of_a_call_the_cycle_goes_on(run: Run, api: Any) -> None:
    calls = [call("fly"), call("write", key="a"), call("read", key="nothing")]
    state = run.go(api, ScriptedLLM(calls, "Done."), "run_cycle")
    outputs = [line["payload"]["output"] for line in of_type(run.lines, "TOOL_CALL")]
    assert outputs[0] == "Error: Tool 'fly' not found"
    assert outputs[1].startswith("Error: Invalid arguments for tool 'write': ")
    assert outputs[2].startswith("Error executing tool 'read': ")
    assert state.reflection_history == ["Done."]


def test_arguments_that_are_no_json_are_kept_and_answered(run: Run, api: Any) -> None:
    run.go(api, ScriptedLLM(ToolCallPart("c", "write", "not json at all"), "Done."), "run_cycle")
    (line,) = of_type(run.lines, "TOOL_CALL")
    assert line["payload"]["parameters"] == {}
    assert line["payload"]["output"].startswith("Error: Invalid arguments for tool 'write': ")
    made = of_type(run.lines, "LLM_INVOCATION")[0]["payload"]["response_message"]["tool_calls"]
    assert made[0]["function"]["arguments"] == "not json at all"


def test_x6_a_reflection_is_in_the_prompt_and_the_rest_is_not(run: Run, api: Any) -> None:
    llm = ScriptedLLM(call("write", key="a", value="b"), "The sea is deep.", "Two.", "Three.")
    run.go(api, llm)
    first, _, second, third = llm.requests
    assert "## Your Previous Reflections" not in first.messages[0].text
    assert "**Cycle 1**: The sea is deep." in second.messages[0].text
    assert "**Cycle 2**: Two." in third.messages[0].text
    assert roles(second) == roles(third) == ["system", "user"]
    assert "Begin cycle 2." in second.messages[1].text


def test_x6_a_full_history_is_carried_on(run: Run, api: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, history="full", cycle_count=2)
    llm = ScriptedLLM(call("write", key="a", value="b"), "One.", "Two.")
    run.go(api, llm)
    assert roles(llm.requests[2]) == ["system", "user", "assistant", "tool", "assistant", "user"]


class FakeEmbedder:
    name = "fake"

    def __init__(self, **vectors: Sequence[float]) -> None:
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        return [self.vectors[text.strip(".")] for text in texts]


def test_x7_identical_reflections_are_advised_from_the_third_cycle_on(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, cycle_count=4)
    llm = ScriptedLLM("Same.", "Same.", "Other.", "Last.")
    embedder = FakeEmbedder(Same=[1.0, 0.0], Other=[0.0, 1.0], Last=[0.75, 0.66143783])
    state = run.go(api, llm, monitor=SimilarityMonitor(embedder))
    reported = ["Advisory:" in request.messages[0].text for request in llm.requests]
    assert reported == [False, False, True, False]
    assert "high similarity" in llm.requests[2].messages[0].text
    measures = [line["measures"] for line in of_type(run.lines, "CYCLE_END")]
    assert "similarity" not in measures[0]
    assert (measures[1]["similarity"], measures[1]["similar_to"], measures[1]["advisory"]) == (1.0, 1, "high")
    assert (measures[3]["similarity"], measures[3]["advisory"]) == (0.75, "moderate")
    assert state.advisory == "moderate"


def test_an_embedder_that_fails_ends_nothing(run: Run, api: Any, caplog: pytest.LogCaptureFixture) -> None:
    state = run.go(api, ScriptedLLM("One.", "Two.", "Three."), monitor=SimilarityMonitor(FakeEmbedder()))
    assert state.completed == 3
    errors = of_type(run.lines, "ERROR")
    assert errors and {line["payload"]["kind"] for line in errors} == {"embedder"}
    assert len(caplog.records) == 1


def test_x8_native_thinking_is_in_the_log_alone(run: Run, api: Any) -> None:
    run.go(api, ScriptedLLM([ThinkingDelta("deep thought"), TextDelta("Done."), Finish("end_turn")]), "run_cycle")
    (line,) = of_type(run.lines, "LLM_INVOCATION")
    assert line["payload"]["response_message"] == {"role": "assistant", "content": "Done.", "thinking": "deep thought"}
    (end,) = of_type(run.lines, "CYCLE_END")
    assert end["payload"]["final_reflection"] == "Done."
    assert end["payload"]["metrics"]["response_chars"] == len("Done.deep thought")


def test_x9_an_endless_loop_stops_at_the_step_cap(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, cycle_count=1, limits={"max_steps": 4})
    llm = ScriptedLLM(*[call("write", key="a", value=str(n)) for n in range(9)])
    state = run.go(api, llm)
    assert len(llm.requests) == 4
    (error,) = of_type(run.lines, "ERROR")
    assert error["payload"]["kind"] == "limit" and "max_steps=4" in error["payload"]["message"]
    (end,) = of_type(run.lines, "CYCLE_END")
    assert end["payload"]["final_reflection"] == "" and end["measures"]["ended_by"] == "max_steps"
    assert state.status == "completed"


def test_a_limit_on_tokens(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, cycle_count=1, limits={"max_tokens": 30})
    run.go(api, ScriptedLLM(*[call("write", key="a", value="b") for _ in range(9)]))
    (end,) = of_type(run.lines, "CYCLE_END")
    assert (end["measures"]["steps"], end["measures"]["ended_by"]) == (2, "max_tokens")


def test_a_limit_is_reported_in_all_its_digits(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, cycle_count=1, limits={"max_tokens": 1_000_001})
    many = [TextDelta("."), *_called(call("write", key="a", value="b")), UsageReport(Usage(1_000_000, 2))]
    run.go(api, ScriptedLLM(many))
    (error,) = of_type(run.lines, "ERROR")
    assert error["payload"]["message"].startswith("the cycle ended at its limit, max_tokens=1000001, ")


class SlowLLM(ScriptedLLM):
    """Each answer takes `seconds` on its clock; one that would come too late is a `Timeout`, as over a network."""

    def __init__(self, seconds: float, *answers: Any) -> None:
        super().__init__(*answers)
        self.seconds, self.clock = seconds, VirtualClock()
        self.totals: list[float | None] = []

    async def _events(self, messages: Any, tools: Any, tool_choice: Any, settings: Any) -> Any:
        total = settings.timeouts.total
        self.totals.append(total)
        self.clock.advance(min(self.seconds, total))
        if self.seconds > total:
            raise Timeout("too late", phase="total")
        async for event in super()._events(messages, tools, tool_choice, settings):
            yield event


def test_a_limit_on_seconds_ends_a_request_too(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, cycle_count=2, limits={"max_seconds": 10})
    llm = SlowLLM(4.0, *[call("write", key="a", value="b") for _ in range(9)])
    run.go(api, llm)
    assert llm.totals == [10.0, 6.0, 2.0] * 2
    ends = of_type(run.lines, "CYCLE_END")
    assert [(end["measures"]["ended_by"], end["measures"]["seconds"]) for end in ends] == [("max_seconds", 10.0)] * 2


def test_a_limit_on_seconds_between_requests(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, cycle_count=1, limits={"max_seconds": 8})
    llm = SlowLLM(4.0, *[call("write", key="a", value="b") for _ in range(9)])
    run.go(api, llm)
    assert len(llm.totals) == 2


def test_a_timeout_of_the_models_own_is_a_failure(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, limits={"max_seconds": 10_000})
    with pytest.raises(Timeout):
        run.go(api, SlowLLM(700.0, "One."))
    (error,) = of_type(run.lines, "ERROR")
    assert error["payload"] == {
        "kind": "llm",
        "stage": "invoke_llm",
        "error_type": "Timeout",
        "message": error["payload"]["message"],
    }


def test_x10_a_failure_is_logged_and_the_run_goes_on_later(run: Run, api: Any) -> None:
    broken = ScriptedLLM("One.", call("write", key="a", value="b"), ServerError("out of order", status=500))
    with pytest.raises(ServerError):
        run.go(api, broken)
    assert types(run.lines)[-2:] == ["ERROR", "RUN_END"]
    error, end = run.lines[-2:]
    assert error["payload"]["error_type"] == "ServerError" and "out of order" in error["payload"]["message"]
    assert end["payload"] == {"status": "failed", "cycles_completed": 1}
    assert run.states[-1] == "error"

    llm = ScriptedLLM("Two.", "Three.")
    state = run.go(api, llm)
    assert state.reflection_history == ["One.", "Two.", "Three."]
    assert [line["cycle_number"] for line in of_type(run.lines, "CYCLE_START")] == [1, 2, 3]
    assert [line["cycle_number"] for line in of_type(run.lines, "CYCLE_END")] == [1, 2, 3]
    assert types(run.lines).count("TOOL_CALL") == 1
    assert roles(llm.requests[0]) == ["system", "user", "assistant", "tool"]
    assert of_type(run.lines, "RUN_START")[1]["payload"]["resumed"] is True


def test_the_same_object_can_be_run_again_after_a_failure(run: Run) -> None:
    llm = ScriptedLLM(ServerError("out of order", status=500), "One.", "Two.", "Three.")
    with JsonlLogger(run.config.log_path, "first") as log:
        cycles = run.orchestrator(llm, log)
        with pytest.raises(ServerError):
            cycles.run()
        assert cycles.state == "error"
        assert cycles.run().completed == 3
        assert cycles.state == "complete"
        assert cycles.run().completed == 3, "there is nothing left to do"
    assert types(run.lines).count("RUN_START") == 2


def test_what_the_service_could_not_read_is_asked_for_again(run: Run, api: Any) -> None:
    fault = ServerError("error parsing tool call: raw='{bad', err=invalid character", status=500)
    llm = ScriptedLLM(fault, "Done.")
    state = run.go(api, llm, "run_cycle")
    assert llm.requests[1].messages[-1].text == UNREADABLE
    (error,) = of_type(run.lines, "ERROR")
    assert error["payload"]["kind"] == "unreadable_call"
    assert state.reflection_history == ["Done."]
    assert of_type(run.lines, "CYCLE_END")[0]["measures"]["steps"] == 2


def test_what_could_not_be_logged_is_not_asked_for_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with JsonlLogger(run.config.log_path, "first") as log:
        write_line = log.log_event

        def no_room_for_errors(event_type: Any, *args: Any) -> LogEvent:
            if event_type == "ERROR":
                raise ToolcastError("the disk is full")
            return write_line(event_type, *args)

        monkeypatch.setattr(log, "log_event", no_room_for_errors)
        llm = ScriptedLLM(ServerError("error parsing tool call: raw='{bad'", status=500))
        with pytest.raises(ToolcastError, match="the disk is full"):
            run.orchestrator(llm, log).run()
    assert len(llm.requests) == 1


@pytest.mark.parametrize(("tool_mode", "notes"), [("native", 1), ("none", 0)])
def test_a_model_that_takes_no_tools(tmp_path: Path, api: Any, tool_mode: str, notes: int) -> None:
    run = Run(tmp_path, tool_mode=tool_mode)
    with pytest.raises(BadRequest) as caught:
        run.go(api, ScriptedLLM(BadRequest("m does not support tools", status=400)))
    assert (
        getattr(caught.value, "__notes__", [])
        == ["For a model that takes no tools set tool_mode: prompted in the configuration, or none."][:notes]
    )


def test_the_system_prompt_of_the_llm_is_in_the_log(run: Run, api: Any) -> None:
    llm = ScriptedLLM(call("write", key="a", value="b"), "Done.", system_prompt="Be brief.")
    run.go(api, llm, "run_cycle")
    asked = [line["payload"]["prompt_messages"] for line in of_type(run.lines, "LLM_INVOCATION")]
    assert [[message["role"] for message in messages] for messages in asked] == [roles(each) for each in llm.requests]
    assert [messages[0] for messages in asked] == [{"role": "system", "content": "Be brief."}] * 2


def test_arguments_that_are_nested_too_deep_are_answered(run: Run, api: Any) -> None:
    deep = '{"key": "a", "value": ' + "[" * 100_000 + "]" * 100_000 + "}"
    run.go(api, ScriptedLLM(ToolCallPart("c", "write", deep), "Done."), "run_cycle")
    (line,) = of_type(run.lines, "TOOL_CALL")
    assert line["payload"]["output"].startswith("Error: Invalid arguments for tool 'write': ")


def test_an_empty_answer_is_an_empty_reflection(run: Run, api: Any) -> None:
    llm = ScriptedLLM([Finish("end_turn")], "Two.", "Three.")
    assert run.go(api, llm).reflection_history == ["", "Two.", "Three."]
    assert "## Your Previous Reflections" not in llm.requests[1].messages[0].text


def test_stop_ends_with_the_cycle(run: Run, api: Any) -> None:
    with JsonlLogger(run.config.log_path, "first") as log:
        cycles = run.orchestrator(ScriptedLLM("One.", "Two.", "Three."), log, listener=lambda _: cycles.stop())
        state = api.method(cycles, "run")
        assert (state.completed, state.status) == (1, "stopped")
        assert api.method(cycles, "run_cycle").completed == 2
        assert not cycles.is_done
    assert [line["payload"]["status"] for line in of_type(run.lines, "RUN_END")] == ["stopped"] * 2


def test_a_second_run_at_the_same_time_is_refused(run: Run) -> None:
    with JsonlLogger(run.config.log_path, "first") as log:
        refused: list[IllegalState] = []

        def again(event: LogEvent) -> None:
            if event.event_type == "CYCLE_START":
                with pytest.raises(IllegalState) as caught:
                    cycles.run()
                refused.append(caught.value)

        cycles = run.orchestrator(ScriptedLLM("One.", "Two.", "Three."), log, listener=again)
        assert cycles.run().completed == 3
    assert len(refused) == 3


def test_a_listener_that_fails_is_none_of_the_runs_business(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def listener(event: LogEvent) -> None:
        raise ValueError("no")

    with JsonlLogger(run.config.log_path, "first") as log:
        cycles = run.orchestrator(ScriptedLLM("One.", "Two.", "Three."), log, listener=listener)
        assert cycles.run().completed == 3
    assert "the listener failed at CYCLE_START of cycle 1" in caplog.text


def test_tools_can_be_spelled_or_left_out(tmp_path: Path) -> None:
    run = Run(tmp_path, tool_mode="none", cycle_count=1)
    llm = ScriptedLLM("One.")
    with JsonlLogger(run.config.log_path, "first") as log:
        run.orchestrator(llm, log).run()
    assert llm.requests[0].tools == () and "Available Tools" not in llm.requests[0].messages[0].text

    run = Run(tmp_path / "other", tool_mode="prompted", cycle_count=2)
    llm = ScriptedLLM(
        '{"name": "write", "arguments": {"key": "a", "value": "b"}}',
        '{"name": "finish_cycle", "arguments": {"reflection": "One."}}',
        "In plain words.",
    )
    with JsonlLogger(run.config.log_path, "first") as log:
        assert run.orchestrator(llm, log).run().reflection_history == ["One.", "In plain words."]
    assert [line["payload"]["output"] for line in of_type(run.lines, "TOOL_CALL")] == ["Wrote value to key 'a'"]
    answers = [line["payload"]["response_message"] for line in of_type(run.lines, "LLM_INVOCATION")]
    assert answers[1] == {"role": "assistant", "content": "One."}


def test_a_model_that_is_held_to_calls_reflects_in_its_last_step(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, tool_mode="required", cycle_count=1, limits={"max_steps": 2})
    llm = ScriptedLLM(call("write", key="a", value="b"), call("finish_cycle", reflection="Enough."))
    assert run.go(api, llm).reflection_history == ["Enough."]
    assert [[tool.name for tool in request.tools] for request in llm.requests] == [
        ["write", "read", "finish_cycle"],
        ["finish_cycle"],
    ]
    assert {request.tool_choice for request in llm.requests} == {"required"}
    assert of_type(run.lines, "ERROR") == []


def test_what_is_written_beside_the_call_that_ends_a_cycle_is_a_thought(tmp_path: Path, api: Any) -> None:
    run = Run(tmp_path, tool_mode="required", cycle_count=1)
    answer = [ThinkingDelta("hm"), TextDelta("I am done."), *_called(call("finish_cycle", reflection="Enough."))]
    assert run.go(api, ScriptedLLM(answer)).reflection_history == ["Enough."]
    (line,) = of_type(run.lines, "LLM_INVOCATION")
    assert line["payload"]["response_message"] == {
        "role": "assistant",
        "content": "Enough.",
        "thinking": "hmI am done.",
    }


def test_signed_thinking_goes_back_as_it_came_even_after_a_restart(run: Run, api: Any) -> None:
    thought = ThinkingPart("hm", signature="sign")
    message = [ThinkingDelta("hm", signature="sign"), *_called(call("write", key="a", value="b"))]
    with pytest.raises(ServerError):
        run.go(api, ScriptedLLM(message, ServerError("down", status=500)))
    llm = ScriptedLLM("One.", "Two.", "Three.")
    run.go(api, llm)
    assert thought in llm.requests[0].messages[2].parts


# Broken off anywhere.


def by_rule(messages: Sequence[Message]) -> Any:
    """Two steps with calls, then a reflection: the next answer depends on the messages."""
    results = [part for message in messages if message.role == "tool" for part in message.parts]
    done = sum(message.role == "assistant" for message in messages)
    if done == 0:
        return [ToolCallPart("a", "write", '{"key": "n", "value": "1"}'), ToolCallPart("b", "read", '{"key": "n"}')]
    if done == 1:
        return ToolCallPart("c", "write", '{"key": "n", "value": "2"}')
    return f"I saw {len(results)} results."


class Killed(BaseException):
    """The process is gone."""


def whole(folder: Path, **changes: Any) -> list[Any]:
    run = Run(folder, cycle_count=2, **changes)
    with JsonlLogger(run.config.log_path, "first") as log:
        run.orchestrator(RuleLLM(by_rule), log, listener=None).run()
    return of_cycles(run.lines)


@pytest.mark.slow
@pytest.mark.parametrize("history", ["reset", "full"])
def test_x10_broken_off_after_any_line_it_goes_on_without_a_duplicate(tmp_path: Path, history: str) -> None:
    notes.clear()
    wanted = whole(tmp_path / "whole", history=history)
    for last in range(len(wanted) + 1):
        run = Run(tmp_path / f"{last}", cycle_count=2, history=history)
        seen: list[LogEvent] = []

        def listener(event: LogEvent, seen: list[LogEvent] = seen, last: int = last) -> None:
            seen.append(event)
            if len(seen) > last:
                raise Killed

        with pytest.raises(Killed), JsonlLogger(run.config.log_path, "first") as log:
            cycles = run.orchestrator(RuleLLM(by_rule), log, listener=listener)
            cycles.run()
        assert cycles.state == "cancelled"
        with pytest.raises(IllegalState, match="resume"):
            cycles.run()
        with JsonlLogger(run.config.log_path, "first") as log:
            assert run.orchestrator(RuleLLM(by_rule), log).run().completed == 2
        assert of_cycles(run.lines) == wanted, last


@pytest.mark.slow
@pytest.mark.parametrize("history", ["reset", "full"])
def test_x10_a_log_cut_after_any_line_is_enough(tmp_path: Path, history: str) -> None:
    notes.clear()
    wanted = whole(tmp_path / "whole", history=history)
    log_of = config_in(tmp_path / "whole").log_path
    lines = log_of.read_bytes().splitlines(keepends=True)
    for length in range(len(lines)):
        run = Run(tmp_path / f"{length}", cycle_count=2, history=history)
        run.config.log_path.parent.mkdir(parents=True)
        run.config.log_path.write_bytes(b"".join(lines[:length]) + lines[length][:20])
        notes.clear()
        for line in of_type(list(map(json.loads, lines[:length])), "TOOL_CALL"):
            notes.update({"n": line["payload"]["parameters"].get("value", notes.get("n"))})
        with JsonlLogger(run.config.log_path, "first") as log:
            assert run.orchestrator(RuleLLM(by_rule), log).run().completed == 2
        assert of_cycles(run.lines) == wanted, length


def test_a_limit_that_was_logged_ends_the_cycle_after_a_restart(tmp_path: Path) -> None:
    run = Run(tmp_path, cycle_count=1, limits={"max_steps": 1})
    with pytest.raises(Killed), JsonlLogger(run.config.log_path, "first") as log:

        def listener(event: LogEvent) -> None:
            if event.event_type == "ERROR":
                raise Killed

        run.orchestrator(RuleLLM(by_rule), log, listener=listener).run()
    llm = ScriptedLLM()
    with JsonlLogger(run.config.log_path, "first") as log:
        run.orchestrator(llm, log).run()
    assert of_type(run.lines, "CYCLE_END")[0]["measures"]["ended_by"] == "max_steps"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_in_an_answer_it_goes_on_later(run: Run, backend: str) -> None:
    started = threading.Event()

    class Waiting(ScriptedLLM):
        async def _events(self, messages: Any, tools: Any, tool_choice: Any, settings: Any) -> Any:
            started.set()
            await anyio.sleep_forever()
            yield

    async def main() -> None:
        with JsonlLogger(run.config.log_path, "first") as log:
            cycles = run.orchestrator(Waiting(), log)
            async with anyio.create_task_group() as group:
                group.start_soon(cycles.arun)
                while not started.is_set():
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            assert cycles.state == "cancelled"

    anyio.run(main, backend=backend)
    assert run.lines[-1]["payload"] == {"status": "interrupted", "cycles_completed": 0}
    with JsonlLogger(run.config.log_path, "first") as log:
        assert run.orchestrator(ScriptedLLM("One.", "Two.", "Three."), log).run().completed == 3
    assert [line["cycle_number"] for line in of_type(run.lines, "CYCLE_START")] == [1, 2, 3]


def test_ctrl_c_in_an_answer(run: Run) -> None:
    with pytest.raises(KeyboardInterrupt), JsonlLogger(run.config.log_path, "first") as log:
        run.orchestrator(ScriptedLLM("One.", KeyboardInterrupt()), log).run()
    assert run.lines[-1]["payload"] == {"status": "interrupted", "cycles_completed": 1}


def test_ctrl_c_after_the_last_cycle(run: Run) -> None:
    def observer(call_id: str, state: str) -> None:
        if state == "complete":
            raise KeyboardInterrupt

    with JsonlLogger(run.config.log_path, "first") as log:
        services = Services(ScriptedLLM("One.", "Two.", "Three."), log)
        cycles = CycleOrchestrator(run.config, services, observer=observer)
        with pytest.raises(KeyboardInterrupt):
            cycles.run()
        assert cycles.is_done
    assert run.lines[-1]["payload"] == {"status": "interrupted", "cycles_completed": 3}


def test_a_full_disk_is_raised_as_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with JsonlLogger(run.config.log_path, "first") as log:
        cycles = run.orchestrator(ScriptedLLM("One.", "Two.", "Three."), log)
        write_line = log.log_event

        def full(event_type: str, *args: Any) -> LogEvent:
            if event_type != "CYCLE_START" or args[0] == 1:
                return write_line(event_type, *args)  # type: ignore[arg-type]  # any event type comes here
            monkeypatch.setattr(log, "log_event", broken)
            return broken()

        def broken(*args: Any) -> LogEvent:
            raise ToolcastError("the disk is full")

        monkeypatch.setattr(log, "log_event", full)
        with pytest.raises(ToolcastError, match="the disk is full"):
            cycles.run()
    assert types(run.lines)[-1] == "CYCLE_END"
