"""The real llama.cpp server with a real model, through the OpenAI protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from servers.llama_server import LlamaServer
from support.sync_and_async import API
from toolcast import OpenAICompatible, Settings, Timeouts, ToolOrchestratingLLM, is_partial, system, user
from toolcast.errors import AuthFailed, BadRequest, NoToolCallError, OutputTruncated
from toolcast.events import TextDelta, UsageReport

pytestmark = pytest.mark.networked

# Temperature 0 gives the same answer again only where nothing is taken from the cache.
EXACT = Settings(temperature=0, max_tokens=60, extra={"cache_prompt": False})
HELPFUL = system("You are a helpful assistant.")
CAPITAL = [HELPFUL, user("What is the capital of France?")]


class Person(BaseModel):
    name: str
    age: int
    city: str


def schema(output: type[BaseModel]) -> dict[str, Any]:
    """What makes the server enforce `output`, in OpenAI's words."""
    return {"type": "json_schema", "json_schema": {"name": output.__name__, "schema": output.model_json_schema()}}


def enforced(output: type[BaseModel]) -> Settings:
    """The server ignores tool choices, but not a response format."""
    return EXACT.with_(extra={"cache_prompt": False, "response_format": schema(output)})


@pytest.fixture
def llm(llama: LlamaServer) -> Iterator[OpenAICompatible]:
    with OpenAICompatible("smollm2", base_url=llama.base_url, api_key=llama.key, settings=EXACT) as made:
        yield made


@pytest.fixture(scope="module")
def plain(llama: LlamaServer) -> dict[str, Any]:
    """What the server answers about the capital when nothing but httpx asks."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    body = {"model": "smollm2", "messages": messages, "temperature": 0, "max_tokens": 60, "cache_prompt": False}
    headers = {"authorization": f"Bearer {llama.key}"}
    answer = httpx.post(f"{llama.base_url}/chat/completions", json=body, headers=headers, timeout=60)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def test_an_answer_and_what_it_cost(llm: OpenAICompatible, plain: dict[str, Any], api: API) -> None:
    response = api.chat(llm, CAPITAL)
    assert response.text == plain["choices"][0]["message"]["content"]
    assert "Paris" in response.text
    assert response.usage.input_tokens == plain["usage"]["prompt_tokens"]
    assert response.usage.output_tokens == plain["usage"]["completion_tokens"]
    assert response.stop_reason == "end_turn"


def test_a_stream_says_the_same(llm: OpenAICompatible, plain: dict[str, Any], api: API) -> None:
    events = api.events(llm, CAPITAL)
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 3
    assert "".join(deltas) == plain["choices"][0]["message"]["content"]
    (usage,) = {event.usage for event in events if isinstance(event, UsageReport)}
    assert usage.output_tokens == plain["usage"]["completion_tokens"]


def test_max_tokens(llm: OpenAICompatible, api: API) -> None:
    response = api.chat(llm, CAPITAL, settings=Settings(max_tokens=3))
    assert (response.stop_reason, response.usage.output_tokens) == ("max_tokens", 3)


def test_a_wrong_key(llama: LlamaServer, api: API) -> None:
    stranger = OpenAICompatible("smollm2", base_url=llama.base_url, api_key="another key")
    with pytest.raises(AuthFailed) as caught:
        api.chat(stranger, CAPITAL)
    assert caught.value.status == 401
    with pytest.raises(AuthFailed):
        api.events(stranger, CAPITAL)
    stranger.close()


def test_a_request_that_it_does_not_take(llm: OpenAICompatible, api: API) -> None:
    with pytest.raises(BadRequest):
        api.chat(llm, CAPITAL, settings=Settings(extra={"grammar": "root ::= ("}))


def test_an_enforced_object(llm: OpenAICompatible, api: API) -> None:
    """Text that is one object: whole and streamed, equal at temperature 0."""
    make = ToolOrchestratingLLM(
        Person,
        [HELPFUL, ("user", "Write down the person: {text}")],
        llm,
        tool_choice="none",
        settings=enforced(Person),
    )
    text = "Last week in Oslo we met Ingrid Dahl (51)."
    result = api.run(make, text=text)
    assert type(result.output) is Person
    assert json.loads(result.response.text) == result.output.model_dump()
    assert any("text of the answer" in repair for repair in result.repairs)
    seen = api.stream(make, text=text)
    assert seen.final == result.output
    assert len(seen.items) > 3
    assert all(is_partial(item) for item in seen.items[:-1])
    names = [item.name for item in seen.items if item.name is not None]
    assert all(result.output.name.startswith(name) for name in names)


def test_an_object_that_max_tokens_cuts(llm: OpenAICompatible, api: API) -> None:
    few = enforced(Person).with_(max_tokens=4)
    make = ToolOrchestratingLLM(
        Person, [HELPFUL, ("user", "Ingrid (51) of Oslo")], llm, tool_choice="none", settings=few
    )
    with pytest.raises(OutputTruncated):
        api.call(make)
    assert isinstance(api.stream(make).error, OutputTruncated)


def test_words_when_nothing_is_enforced(llm: OpenAICompatible, api: API) -> None:
    make = ToolOrchestratingLLM(Person, CAPITAL, llm, tool_choice="none")
    with pytest.raises(NoToolCallError, match="Paris"):
        api.call(make)


def test_a_stream_that_is_left_frees_the_slot(llm: OpenAICompatible, api: API) -> None:
    """The server works at one answer at a time. The first would take far longer than the second may wait."""
    endless = Settings(max_tokens=3000, extra={"cache_prompt": False, "ignore_eos": True})
    make = ToolOrchestratingLLM(
        Long,
        [HELPFUL, ("user", "Tell a long story.")],
        llm,
        tool_choice="none",
        settings=endless.with_(extra={"cache_prompt": False, "response_format": schema(Long)}),
    )
    assert len(api.stream(make, take=3).items) == 3
    soon = Settings(max_tokens=3, timeout=Timeouts(total=8))
    assert api.chat(llm, CAPITAL, settings=soon).usage.output_tokens == 3


class Long(BaseModel):
    """More than the model writes in the time that the next caller has."""

    words: list[str]
