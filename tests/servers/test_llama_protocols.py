"""The real llama.cpp server with a real model, through each protocol that it speaks.

What it does today (xllamacpp 2026.10.11549), where it differs from wire.md 8.1:

* /v1/responses ignores `text.format`, where OpenAI has the schema, and obeys `response_format` and `json_schema`. An
  answer that max_tokens cut is `completed`, so that only its count of tokens distinguishes it from a whole one.
* /v1/messages takes nothing that it does not know: `json_schema`, `response_format`, `grammar`, `output_config`,
  `output_format`, `cache_prompt` and `ignore_eos` are ignored. What comes from the cache is counted apart, and is none
  of the input tokens.
* No endpoint makes this model call a tool: its chat template has no tools, and `tool_choice` forces none.
* 401 is `{"error":{"message","type","code"}}` on each of them, also where Anthropic's has another form.

So the model is held to a type by words everywhere (`mode="prompted"` and an example, which so small a model copies
well), and by a schema where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from servers.cutting import cut
from servers.llama_server import LlamaServer
from support.sync_and_async import API, APIS
from toolcast import (
    Anthropic,
    OpenAICompatible,
    OpenAIResponses,
    Settings,
    Timeouts,
    ToolCallPart,
    ToolOrchestratingLLM,
    ValidationError,
    assistant,
    is_partial,
    system,
    tool_result,
    user,
)
from toolcast.errors import AuthFailed, NoToolCallError, OutputTruncated, ServerError, StreamInterrupted
from toolcast.events import TextDelta, UsageReport
from toolcast.llms.http_llm import ServiceLLM
from toolcast.messages import ImagePart

pytestmark = pytest.mark.networked

# Temperature 0 gives the same answer again only where nothing is taken from the cache.
EXACT = Settings(temperature=0, max_tokens=60, extra={"cache_prompt": False})
CAPITAL = [system("You are a helpful assistant."), user("What is the capital of France?")]


class Person(BaseModel):
    """A person who is mentioned in a text."""

    name: str
    age: int
    city: str


class Event(BaseModel):
    """An event that takes place."""

    title: str
    place: str


TOM = Person(name="Tom Reed", age=34, city="Lima")
INGRID = Person(name="Ingrid Dahl", age=51, city="Oslo")
ONE = [("user", "In Lima our guest was Tom Reed (34)."), ("assistant", TOM), ("user", "{text}")]
MET = "Last week in Oslo we met Ingrid Dahl (51)."


@dataclass(frozen=True)
class Endpoint:
    """One protocol of the server, and what an answer looks like, read with nothing but httpx.

    `root` follows the server's address. `enforces`: it can hold the text to a schema. `reports_cuts`: the answer shows
    that max_tokens ended it.
    """

    name: str
    make: Callable[..., ServiceLLM]
    root: str
    ask: Callable[[str], tuple[str, dict[str, Any]]]
    read: Callable[[Any], tuple[str, int, int]]
    enforces: bool = True
    reports_cuts: bool = True

    def __str__(self) -> str:
        return self.name

    def llm(self, url: str, key: str, **options: Any) -> ServiceLLM:
        return self.make("smollm2", base_url=url + self.root, api_key=key, settings=EXACT, **options)


def _chat(question: str) -> tuple[str, dict[str, Any]]:
    text = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": question}]
    return "/v1/chat/completions", {"messages": text, "max_tokens": 60, "cache_prompt": False}


def _responses(question: str) -> tuple[str, dict[str, Any]]:
    text = {"instructions": "You are a helpful assistant.", "input": question}
    return "/v1/responses", {**text, "max_output_tokens": 60, "cache_prompt": False}


def _messages(question: str) -> tuple[str, dict[str, Any]]:
    text = {"system": "You are a helpful assistant.", "messages": [{"role": "user", "content": question}]}
    return "/v1/messages", {**text, "max_tokens": 60}


def _read_chat(body: Any) -> tuple[str, int, int]:
    usage = body["usage"]
    return body["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["completion_tokens"]


def _read_responses(body: Any) -> tuple[str, int, int]:
    usage = body["usage"]
    return body["output"][0]["content"][0]["text"], usage["input_tokens"], usage["output_tokens"]


def _read_messages(body: Any) -> tuple[str, int, int]:
    usage = body["usage"]
    return body["content"][0]["text"], usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]


CHAT = Endpoint("chat", OpenAICompatible, "/v1", _chat, _read_chat)
RESPONSES = Endpoint("responses", OpenAIResponses, "/v1", _responses, _read_responses, reports_cuts=False)
MESSAGES = Endpoint("messages", Anthropic, "", _messages, _read_messages, enforces=False)
ENDPOINTS = (CHAT, RESPONSES, MESSAGES)


SYNC, ASYNCIO, *_ = APIS


@pytest.fixture(params=ENDPOINTS, ids=str)
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    """Each protocol of the server in turn."""
    chosen: Endpoint = request.param
    return chosen


@pytest.fixture(params=[SYNC, ASYNCIO], ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> API:
    """Sync and asyncio; what the others do differently is seen without a model that takes its time."""
    chosen: API = request.param
    return chosen


@pytest.fixture
def llm(endpoint: Endpoint, llama: LlamaServer) -> Iterator[ServiceLLM]:
    named = {} if endpoint is MESSAGES else {"service": "llama.cpp"}
    with endpoint.llm(llama.url, llama.key, **named) as made:
        yield made


def find(llm: ServiceLLM, max_tokens: int = 60) -> ToolOrchestratingLLM[Person]:
    """The answer copies the pattern of a long prompt: the cache saves most of the time, and changes nothing."""
    warm = Settings(max_tokens=max_tokens, extra={"cache_prompt": True})
    return ToolOrchestratingLLM(Person, ONE, llm, mode="prompted", settings=warm)


# -- words --------------------------------------------------------------------------------------------------------


def test_an_answer_is_what_the_server_sent(endpoint: Endpoint, llm: ServiceLLM, llama: LlamaServer, api: API) -> None:
    path, body = endpoint.ask("What is the capital of France?")
    body |= {"model": "smollm2", "temperature": 0}
    headers = {"authorization": f"Bearer {llama.key}"}
    text, output, wrote = endpoint.read(httpx.post(llama.url + path, json=body, headers=headers, timeout=60).json())
    response = api.chat(llm, CAPITAL)
    assert response.text == text
    assert "Paris" in text
    assert (response.usage.input_tokens, response.usage.output_tokens) == (output, wrote)
    assert response.stop_reason == "end_turn"
    events = api.events(llm, CAPITAL)
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 3
    assert "".join(deltas) == text
    usage = [event.usage for event in events if isinstance(event, UsageReport)][-1]
    assert usage.output_tokens == wrote


def test_max_tokens(endpoint: Endpoint, llm: ServiceLLM, api: API) -> None:
    response = api.chat(llm, CAPITAL, settings=Settings(max_tokens=3))
    assert response.usage.output_tokens == 3
    assert response.stop_reason == ("max_tokens" if endpoint.reports_cuts else "end_turn")


def test_a_second_turn(llm: ServiceLLM, api: API) -> None:
    """Texts, calls and results are sent back in a form that the server accepts."""
    call = ToolCallPart("call_1", "capital_of", '{"country": "France"}')
    history = [user("Look up the capital of France."), assistant(call), tool_result(call, "Paris")]
    response = api.chat(llm, [*history, user("What is the capital of France?")])
    assert response.text
    assert response.usage.input_tokens > 20


def test_a_wrong_key(endpoint: Endpoint, llama: LlamaServer, api: API) -> None:
    with endpoint.llm(llama.url, "another key") as stranger:
        with pytest.raises(AuthFailed, match="Invalid API Key") as caught:
            api.chat(stranger, CAPITAL)
        assert (caught.value.status, len(caught.value.attempts)) == (401, 1)
        with pytest.raises(AuthFailed):
            api.events(stranger, CAPITAL)


def test_an_image_for_a_model_that_sees_none(endpoint: Endpoint, llama: LlamaServer, api: API) -> None:
    message = user("What is this?", ImagePart(data=b"\x89PNG", media_type="image/png"))
    with (
        endpoint.llm(llama.url, llama.key, max_retries=0) as llm,
        pytest.raises(ServerError, match="image input is not supported"),
    ):
        api.chat(llm, [message])


# -- objects ------------------------------------------------------------------------------------------------------


def test_an_object_in_words(llm: ServiceLLM, api: API) -> None:
    """Whole and streamed, equal at temperature 0."""
    result = api.run(find(llm), text=MET)
    assert result.output == INGRID
    assert result.response.stop_reason == "tool_use"
    assert result.usage.input_tokens > 50
    assert result.usage.output_tokens > 10
    seen = api.stream(find(llm), text=MET)
    assert seen.final == INGRID
    assert type(seen.final) is Person
    assert len(seen.items) > 3
    assert all(is_partial(item) for item in seen.items[:-1])
    names = [item.name for item in seen.items if item.name is not None]
    assert len({*names}) > 1
    assert all(INGRID.name.startswith(name) for name in names)


def test_one_of_two(llm: ServiceLLM, api: API) -> None:
    """Which one a model of this size takes is its own affair; whole and streamed it is the same."""
    two = [
        *ONE[:2],
        ("user", "The Jazz Days take place in Lyon."),
        ("assistant", Event(title="Jazz Days", place="Lyon")),
    ]
    make = ToolOrchestratingLLM(Person | Event, [*two, ("user", "{text}")], llm, mode="prompted")
    found = api.call(make, text=MET)
    assert type(found) in (Person, Event)
    assert api.stream(make, text=MET).final == found


def test_a_function(llm: ServiceLLM, api: API) -> None:
    ran: list[str] = []

    def greet(name: str, age: int, city: str) -> str:
        """Greet a person."""
        ran.append(name)
        return f"Hello {name} ({age}) of {city}"

    example = [ONE[0], ("assistant", TOM.model_dump()), ONE[2]]
    make = ToolOrchestratingLLM(greet, example, llm, mode="prompted")
    assert api.call(make, text=MET) == f"Hello {ran[0]} (51) of Oslo"
    assert ran == ["Ingrid Dahl"]


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES], ids=str, indirect=True)
def test_an_object_by_the_servers_own_schema(llm: ServiceLLM, api: API) -> None:
    """Without an example: the text can be nothing but such an object."""
    make = ToolOrchestratingLLM(
        Person, [CAPITAL[0], ("user", "Write down the person: {text}")], llm, mode="json_schema"
    )
    result = api.run(make, text=MET)
    assert type(result.output) is Person
    assert (result.repairs, result.response.stop_reason) == ((), "tool_use")
    seen = api.stream(make, text=MET)
    assert seen.final == result.output
    assert len(seen.items) > 3
    assert all(is_partial(item) for item in seen.items[:-1])


@pytest.mark.parametrize("mode", ["tool_call", "json_schema"])
def test_what_is_not_enforced_is_never_taken_on_trust(endpoint: Endpoint, llm: ServiceLLM, api: API, mode: Any) -> None:
    """An object, or an error with what the model wrote instead, after every attempt."""
    make = ToolOrchestratingLLM(Person, ONE, llm, mode=mode, max_attempts=2)
    seen = api.stream(make, text=MET)
    if seen.error is None:
        assert type(seen.final) is Person
    else:
        assert not (endpoint.enforces and mode == "json_schema")
        assert isinstance(seen.error, (NoToolCallError, ValidationError, OutputTruncated))
        assert all(is_partial(item) for item in seen.items)


def test_an_object_that_max_tokens_cuts(endpoint: Endpoint, llm: ServiceLLM, api: API) -> None:
    """Where the server does not report the cut, the text itself shows it."""
    make = find(llm, max_tokens=8)
    kind = OutputTruncated if endpoint.reports_cuts else ValidationError
    with pytest.raises(kind):
        api.call(make, text=MET)
    seen = api.stream(make, text=MET)
    assert type(seen.error) is kind
    assert seen.items
    assert all(is_partial(item) for item in seen.items)


# -- bad connections and early leaves -----------------------------------------------------------------------------


def test_a_cut_connection(endpoint: Endpoint, llama: LlamaServer, api: API) -> None:
    with cut(llama.url, after=2500) as url, endpoint.llm(url, llama.key) as llm:
        seen = api.stream(find(llm), text=MET)
    assert type(seen.error) is StreamInterrupted
    assert seen.items
    assert all(is_partial(item) for item in seen.items)


def test_a_connection_that_is_cut_before_anything_was_shown(endpoint: Endpoint, llama: LlamaServer, api: API) -> None:
    """It is tried again, in vain, as often as it may be."""
    with cut(llama.url, after=120) as url, endpoint.llm(url, llama.key, max_retries=1) as llm:
        seen = api.stream(find(llm), text=MET)
    assert type(seen.error) is StreamInterrupted
    assert (len(seen.error.attempts), seen.items) == (2, [])


SOON = Settings(max_tokens=3, timeout=Timeouts(total=8))
STORY = [user("Tell a long story about a long road.")]
LONG = Settings(max_tokens=3000, extra={"cache_prompt": False, "ignore_eos": True})


def test_a_stream_that_is_left_frees_the_slot(llm: ServiceLLM) -> None:
    """The server works at one answer at a time. The first would take far longer than the second may wait."""
    with llm.stream_chat(STORY, settings=LONG) as events:
        assert next(events)
    assert llm.chat(CAPITAL, settings=SOON).usage.output_tokens == 3


async def test_an_async_stream_that_is_left_frees_the_slot(llm: ServiceLLM) -> None:
    async with llm.astream_chat(STORY, settings=LONG) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    assert (await llm.achat(CAPITAL, settings=SOON)).usage.output_tokens == 3
    await llm.aclose()
