"""Ollama's own protocol against aimock, an independent server of its JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from servers.aimock_server import Aimock
from support.albums import SEA, Album, Apology
from support.sync_and_async import API
from toolcast import LLMError, Ollama, Settings, ToolOrchestratingLLM, ValidationError, is_partial
from toolcast.errors import NoToolCallError, RateLimited
from toolcast.events import TextDelta, ThinkingDelta

pytestmark = pytest.mark.networked


@pytest.fixture
def llm(aimock: Aimock) -> Iterator[Ollama]:
    with Ollama("llama3.2", base_url=aimock.url, max_retries=0) as made:
        yield made


def asked_plainly(aimock: Aimock, body: Any) -> Any:
    """What the server answers the same request when nothing but httpx asks."""
    return httpx.post(f"{aimock.url}/api/chat", json={**body, "stream": False}).raise_for_status().json()


def sent(aimock: Aimock) -> dict[str, Any]:
    """The body of the last request."""
    body: dict[str, Any] = aimock.requests()[-1]["body"]
    return body


def test_text(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.reply("hello", "Hi there, how are you today?")
    plain = asked_plainly(aimock, {"model": "llama3.2", "messages": [{"role": "user", "content": "hello"}]})
    response = api.chat(llm, "hello")
    assert response.text == plain["message"]["content"] == "Hi there, how are you today?"
    assert (response.stop_reason, response.provider) == ("end_turn", "ollama")
    deltas = [event.text for event in api.events(llm, "hello") if isinstance(event, TextDelta)]
    assert deltas == ["Hi there", ", how ar", "e you to", "day?"]


def test_reasoning_is_never_taken_for_the_answer(aimock: Aimock, llm: Ollama, api: API) -> None:
    """aimock names the field `reasoning_content`, where Ollama has `thinking`: it must not be mixed into the text."""
    aimock.answer({"userMessage": "hello"}, {"content": "Hi.", "reasoning": "They greet me."})
    events = api.events(llm, "hello")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hi."
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) in ("", "They greet me.")


def test_a_forced_object_by_format(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.reply("about the sea", SEA.model_dump_json())
    make = ToolOrchestratingLLM(Album, "about {topic}", llm)
    assert api.call(make, topic="the sea") == SEA
    body = make.preview(topic="the sea").body
    assert body["format"]["properties"].keys() == Album.model_fields.keys()
    assert asked_plainly(aimock, body)["message"]["content"] == SEA.model_dump_json()
    seen = api.stream(make, topic="the sea")
    assert seen.final == SEA
    assert len(seen.items) > 5
    assert all(is_partial(item) for item in seen.items[:-1])


def test_a_forced_choice_between_two(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.reply("about the sea", json.dumps({"name": "Apology", "arguments": {"reason": "no sea here"}}))
    make = ToolOrchestratingLLM(Album | Apology, "about {topic}", llm)
    assert api.call(make, topic="the sea") == Apology(reason="no sea here")
    assert api.stream(make, topic="the sea").final == Apology(reason="no sea here")


def test_a_tool_call_of_the_models_own_accord(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.call("Album", SEA.model_dump(mode="json"))
    make = ToolOrchestratingLLM(Album, "about {topic}", llm, tool_choice="auto")
    plain = asked_plainly(aimock, make.preview(topic="the sea").body)
    assert plain["message"]["tool_calls"][0]["function"]["arguments"] == SEA.model_dump(mode="json")
    result = api.run(make, topic="the sea")
    assert result.output == SEA
    assert result.response.stop_reason == "tool_use"
    assert api.stream(make, topic="the sea").final == SEA


def test_several_tool_calls(aimock: Aimock, llm: Ollama, api: API) -> None:
    calls = [{"name": "Apology", "arguments": {"reason": reason}} for reason in ("one", "two", "three")]
    aimock.answer({"toolName": "Apology"}, {"toolCalls": calls})
    make = ToolOrchestratingLLM(Apology, "x", llm, tool_choice="auto", allow_parallel_tool_calls=True)
    wanted = [Apology(reason=reason) for reason in ("one", "two", "three")]
    assert api.call(make) == wanted
    assert api.stream(make).final == wanted


def test_predict_and_call(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.call("multiply", {"a": 17, "b": 23})

    def multiply(a: int, b: int) -> int:
        return a * b

    answer = api.method(llm, "predict_and_call", [multiply], "What is 17 times 23?", tool_choice="auto")
    assert answer.parse_tool_outputs() == 391


def test_settings_are_options(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.reply("hello", "Hi.")
    api.chat(llm, "hello", settings=Settings(temperature=0, max_tokens=7, stop="END", seed=3))
    # aimock keeps what it understood, in OpenAI's words.
    assert (sent(aimock)["temperature"], sent(aimock)["max_tokens"]) == (0, 7)


def test_words_instead_of_an_object(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.reply("about the sea", "There is no such album.")
    make = ToolOrchestratingLLM(Album, "about {topic}", llm)
    with pytest.raises((NoToolCallError, ValidationError), match="There is no such album"):
        api.call(make, topic="the sea")
    assert isinstance(api.stream(make, topic="the sea").error, (NoToolCallError, ValidationError))


def test_an_object_that_does_not_fit_is_asked_for_again(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.answer({"userMessage": "about the sea", "sequenceIndex": 0}, {"content": '{"title": "Sea"}'})
    aimock.answer({}, {"content": SEA.model_dump_json()})
    result = api.run(ToolOrchestratingLLM(Album, "about {topic}", llm, max_attempts=2), topic="the sea")
    assert result.output == SEA
    assert len(result.attempts) == 2
    assert "artist" in json.dumps(sent(aimock)["messages"][1:])


def test_an_error(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.answer({"userMessage": "hello"}, {"error": {"message": "too many just now"}, "status": 429})
    with pytest.raises(RateLimited, match="too many just now") as caught:
        api.chat(llm, "hello")
    assert (caught.value.status, caught.value.provider, caught.value.model) == (429, "ollama", "llama3.2")
    with pytest.raises(RateLimited):
        api.events(llm, "hello")


def test_a_request_no_one_answers(aimock: Aimock, llm: Ollama, api: API) -> None:
    with pytest.raises(LLMError):
        api.chat(llm, "hello")


def test_an_early_end_leaves_the_server_usable(aimock: Aimock, llm: Ollama, api: API) -> None:
    aimock.reply("about the sea", SEA.model_dump_json())
    make = ToolOrchestratingLLM(Album, "about {topic}", llm)
    assert len(api.stream(make, take=2, topic="the sea").items) == 2
    assert api.call(make, topic="the sea") == SEA
