"""The document on states of `ToolOrchestratingLLM`, read by its author: construction, calls, streams, errors.

Twenty cases of the kind "that is not what I described". Public names only; the transport is recorded bytes where the
wire matters.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel

import toolcast
from toolcast import CallableTool, Configs, Ollama, OpenAI, PromptTemplate, ToolCallPart, ToolOrchestratingLLM
from toolcast.errors import PromptError, UnsupportedLLMError
from toolcast.llms import AgentChatResponse
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM


class Album(BaseModel):
    """A music album."""

    title: str
    artist: str
    songs: list[str] = []


SEA = {"title": "The Sea", "artist": "Ada", "songs": ["Tide", "Foam"]}
ONCE = ["creating_tool", "formatting_prompt", "extending_messages"]
CALL = [
    *ONCE,
    "calling_llm",
    "parsing_tool_calls",
    "executing_tools",
    "creating_response",
    "extracting_output",
    "ready",
]


def made(*answers: Any, **options: Any) -> ToolOrchestratingLLM[Album]:
    """Return an orchestrator that makes albums from scripted answers."""
    return ToolOrchestratingLLM(Album, "An album about {topic}", ScriptedLLM(*answers), **options)


# Uninitialized, validating, ready


def test_the_llm_is_validated_before_the_prompt() -> None:
    with pytest.raises(AssertionError):
        ToolOrchestratingLLM(Album, 5)
    with pytest.raises(ValueError, match="function") as caught:
        ToolOrchestratingLLM(Album, 5, ScriptedLLM(function_calling=False))
    assert isinstance(caught.value, UnsupportedLLMError)


def test_no_llm_is_an_assertion_error_and_configs_llm_is_the_default() -> None:
    with pytest.raises(AssertionError):
        ToolOrchestratingLLM(Album, "An album about {topic}")
    llm = ScriptedLLM(SEA)
    with Configs.use(llm=llm):
        make = ToolOrchestratingLLM(Album, "An album about {topic}")
    assert make.llm is llm and make(topic="the sea").title == "The Sea"


@pytest.mark.parametrize("prompt", [5, None, b"x", {"a": 1}, object()])
def test_an_invalid_prompt_is_a_value_error_at_construction(prompt: Any) -> None:
    with pytest.raises(ValueError, match=r"(?i)prompt"):
        ToolOrchestratingLLM(Album, prompt, ScriptedLLM())


def test_an_initialized_instance_is_ready() -> None:
    assert made(SEA).state == "ready"


def test_updating_the_prompt_returns_to_ready_and_a_bad_one_leaves_the_old() -> None:
    make = made(SEA, SEA)
    make.prompt = "Another about {topic}"
    assert isinstance(make.prompt, PromptTemplate)
    with pytest.raises(PromptError):
        make.prompt = 5
    assert make.state == "ready"
    make(topic="the sea")
    assert make.llm.requests[0].messages[-1].text == "Another about the sea"


@pytest.mark.parametrize("name", ["output_cls", "llm", "allow_parallel_tool_calls", "tool_choice", "verbose"])
def test_everything_but_the_prompt_is_immutable(name: str) -> None:
    make = made(SEA)
    with pytest.raises(AttributeError):
        setattr(make, name, getattr(make, name))


# Executing: sync, async, streams


def states(run: Callable[[ToolOrchestratingLLM[Album]], object], *answers: Any) -> list[str]:
    """Return the states that one call walks through."""
    seen: list[tuple[str, str]] = []
    run(made(*answers, observer=lambda id, state: seen.append((id, state))))
    assert seen[:2] == [("orchestrator", "validating"), ("orchestrator", "ready")]
    return [state for id, state in seen if id != "orchestrator"]


def test_a_sync_call_walks_the_eight_substates_in_order() -> None:
    assert states(lambda make: make(topic="the sea"), SEA) == CALL


def test_an_async_call_walks_the_same_eight() -> None:
    assert states(lambda make: asyncio.run(make.acall(topic="the sea")), SEA) == CALL


def test_a_stream_loops_through_the_chunk_states_and_ends_ready() -> None:
    seen = states(lambda make: list(make(topic="the sea", stream=True)), SEA)
    assert seen[: len(ONCE) + 1] == [*ONCE, "initiating_stream"]
    chunk = ["receiving_chunk", "processing_chunk", "parsing_partial_tool_calls", "updating_objects"]
    at = seen.index("yielding_partial")
    assert seen[at - 4 : at + 2] == [*chunk, "yielding_partial", "more_chunks"]
    assert seen[-1] == "ready"


def test_an_async_stream_is_what_awaiting_acall_gives() -> None:
    async def main() -> list[Album]:
        return [album async for album in await made(SEA).acall(topic="the sea", stream=True)]

    albums = asyncio.run(main())
    assert len(albums) > 3 and albums[-1] == Album(**SEA)


def test_partials_are_albums_that_grow_and_are_never_the_final_until_it_is_validated() -> None:
    titles = [album.title for album in made(SEA).stream(topic="the sea")]
    grown = [title for title in titles if title]
    assert all(later.startswith(earlier) for earlier, later in pairwise(grown))


def test_a_parse_error_in_a_chunk_is_a_warning_and_the_stream_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    lines = [
        {"message": {"role": "assistant", "content": ""}, "done": False},
        {
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "Album", "arguments": SEA}}],
            },
            "done": False,
        },
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    ]
    good = [json.dumps(line).encode() + b"\n" for line in lines]
    body = good[0] + b"!! not json !!\n" + good[1] + good[2]
    seen: list[str] = []
    llm = Ollama("m", network=ReplayNetwork(Recorded.of(body)))
    make = ToolOrchestratingLLM(Album, "An album", llm, observer=lambda _, state: seen.append(state))
    with caplog.at_level(logging.WARNING, "toolcast"):
        assert list(make.stream())[-1] == Album(**SEA)
    assert "skipping_chunk" in seen and seen[-1] == "ready"
    assert any(record.levelno == logging.WARNING for record in caplog.records)


# Errors


def test_a_network_error_of_a_call_is_a_value_error() -> None:
    llm = OpenAI("gpt", api_key="k", base_url="http://127.0.0.1:1", max_retries=0)
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:1\b"):
        ToolOrchestratingLLM(Album, "An album", llm)()


def test_no_tool_call_is_a_value_error_with_the_documents_words_and_what_came_back() -> None:
    with pytest.raises(ValueError, match="Expected at least one tool call, but got 0 tool calls") as caught:
        made("I would rather sing.")(topic="the sea")
    assert "rather sing" in str(caught.value)


def test_a_validation_error_names_the_field_on_both_paths_and_the_instance_stays_usable() -> None:
    bad = {"title": "The Sea", "songs": []}
    make = made(bad, bad, SEA)
    with pytest.raises(toolcast.ValidationError, match="artist"):
        make(topic="the sea")
    with pytest.raises(toolcast.ValidationError, match="artist"):
        list(make.stream(topic="the sea"))
    assert isinstance(make(topic="the sea"), Album) and make.state == "ready"


def test_the_cause_of_a_validation_error_is_pydantics() -> None:
    with pytest.raises(toolcast.ValidationError) as caught:
        made({"title": 5})(topic="the sea")
    assert isinstance(caught.value.__cause__, pydantic.ValidationError)
    assert caught.value.error_count() == caught.value.__cause__.error_count()


def test_a_missing_output_is_an_attribute_error() -> None:
    response = ScriptedLLM("No tool.").predict_and_call(
        [CallableTool.from_model(Album)], "x", error_on_no_tool_call=False
    )
    assert isinstance(response, AgentChatResponse)
    with pytest.raises(AttributeError):
        response.parse_tool_outputs()


# Parallel execution and independence


def test_parallel_calls_are_a_list_in_call_order_also_for_one() -> None:
    calls = [ToolCallPart(f"c{n}", "Album", json.dumps({"title": f"T{n}", "artist": "A"})) for n in range(3)]
    make = made(calls, calls[0], allow_parallel_tool_calls=True)
    assert [album.title for album in make(topic="x")] == ["T0", "T1", "T2"]
    assert [album.title for album in make(topic="x")] == ["T0"]


def test_tools_of_parallel_calls_execute_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=30)

    async def add(a: int) -> int:
        """Add one."""
        await asyncio.to_thread(together.wait)
        return a + 1

    calls = [ToolCallPart(f"c{n}", "add", json.dumps({"a": n})) for n in range(3)]
    make = ToolOrchestratingLLM(add, "Add.", ScriptedLLM(calls), allow_parallel_tool_calls=True)
    assert asyncio.run(make.acall()) == [1, 2, 3]


def test_one_instance_serves_many_threads_each_with_its_own_state() -> None:
    class Echo(ScriptedLLM):
        async def _events(self, messages: Any, tools: Any, tool_choice: Any, settings: Any) -> Any:
            call = ToolCallPart("c", "Album", json.dumps({"title": messages[-1].text, "artist": "A"}))
            for event in self._events_of(call, None):
                yield event

    make = ToolOrchestratingLLM(Album, "{topic}", Echo())
    results: dict[int, str] = {}

    def work(number: int) -> None:
        results[number] = list(make.stream(topic=f"album {number}"))[-1].title

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {number: f"album {number}" for number in range(16)}


def test_the_tool_is_made_from_the_model_with_its_name_docstring_and_schema() -> None:
    tool = CallableTool.from_model(Album)
    assert (tool.name, tool.description) == ("Album", "A music album.")
    output = tool.call(SEA)
    assert (output.raw_output, output.raw_input, output.is_error) == (Album(**SEA), SEA, False)


def test_a_second_call_after_an_abandoned_stream_begins_afresh() -> None:
    make = made(SEA, {"title": "Rain", "artist": "Bo"})
    with make.stream(topic="the sea") as stream:
        next(iter(stream))
    assert stream.state == "closed"
    assert make(topic="rain") == Album(title="Rain", artist="Bo")
