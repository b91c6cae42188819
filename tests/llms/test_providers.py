"""One program on every provider: the same calls, streams and tools, and nothing executed from half an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.albums import SEA, Album
from support.sync_and_async import API
from support.turns import PROTOCOLS, Protocol, Turn
from toolcast import (
    Anthropic,
    AnthropicVertex,
    Bedrock,
    Cohere,
    FunctionCallingLLM,
    Google,
    Mistral,
    Ollama,
    OpenAICompatible,
    OpenAIResponses,
    ToolOrchestratingLLM,
    tool_result,
    user,
)
from toolcast.errors import ContentBlocked, OutputTruncated, Refused, StreamTruncated
from toolcast.events import Finish, ToolCallDone, ToolCallStart
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

JSON, EVENTS = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
LLMS: dict[str, Callable[..., FunctionCallingLLM]] = {
    "chat": lambda **options: OpenAICompatible("m", base_url="http://h/v1", **options),
    "responses": lambda **options: OpenAIResponses("m", **options),
    "anthropic": lambda **options: Anthropic("m", **options),
    "google": lambda **options: Google("m", **options),
    "mistral": lambda **options: Mistral("m", **options),
    "ollama": lambda **options: Ollama("m", **options),
    "bedrock": lambda **options: Bedrock("m", region="r-1", **options),
    "cohere": lambda **options: Cohere("m", **options),
    "anthropic-vertex": lambda **options: AnthropicVertex("m", region="eu", project="p", **options),
}
each = pytest.mark.parametrize("name", LLMS)


def made(name: str, *answers: Recorded, output: Any = Album, **options: Any) -> ToolOrchestratingLLM[Any]:
    """The same program for each provider. Ollama is left its own tools: else it would be held to a schema."""
    llm = LLMS[name](api_key="k", network=ReplayNetwork(*answers), max_retries=0)
    return ToolOrchestratingLLM(output, "x", llm, **({"mode": "tool_call"} if name == "ollama" else {}), **options)


def whole(protocol: Protocol, turn: Turn) -> Recorded:
    return Recorded([protocol.whole(turn)], headers=JSON)


def streamed(protocol: Protocol, turn: Turn, events: int | None = None) -> Recorded:
    return Recorded(protocol.stream(turn)[:events], headers=EVENTS)


TURN = Turn("Hm.", calls=(("call00001", "Album", SEA.model_dump_json()),))


@each
def test_a_call_and_a_stream(name: str, api: API) -> None:
    protocol = PROTOCOLS[name]
    make = made(name, whole(protocol, TURN), streamed(protocol, TURN))
    result = api.run(make)
    assert (result.output, result.response.stop_reason, result.usage.total_tokens) == (SEA, "tool_use", 13)
    seen = api.stream(make)
    assert seen.final == SEA
    assert len(seen.items) > 10 if protocol.in_pieces else seen.items


@each
def test_several_calls(name: str, api: API) -> None:
    protocol = PROTOCOLS[name]
    both = Turn(calls=tuple((f"call0000{at}", "Album", SEA.model_dump_json()) for at in range(2)))
    make = made(name, whole(protocol, both), streamed(protocol, both), allow_parallel_tool_calls=True)
    assert api.call(make) == [SEA, SEA]
    assert api.stream(make).final == [SEA, SEA]


@each
def test_text_that_holds_the_object_is_read_and_else_asked_again(name: str, api: API) -> None:
    protocol = PROTOCOLS[name]
    no, fenced = Turn(text="I would rather not."), Turn(text=f"Well:\n```json\n{SEA.model_dump_json()}\n```\n")
    make = made(name, whole(protocol, no), whole(protocol, fenced), max_attempts=2)
    result = api.run(make)
    assert (result.output, len(result.attempts)) == (SEA, 2)
    assert result.repairs[0].startswith("read Album from the text")
    again = made(name, streamed(protocol, no), streamed(protocol, fenced), max_attempts=2)
    assert api.stream(again).final == SEA


@pytest.mark.fault(9)
@pytest.mark.gate("G10")
@each
def test_half_an_answer_runs_no_tool(name: str, api: API) -> None:
    """A stream that breaks off anywhere is an error, and the tool that was being called has not run."""
    protocol, paid = PROTOCOLS[name], []

    def pay(amount: int, to: str) -> str:
        paid.append((amount, to))
        return "paid"

    turn = Turn("Hm.", calls=(("call00001", "pay", json.dumps({"amount": 100, "to": "Kai"})),))
    events = protocol.stream(turn)
    ends = {"chat": 2, "anthropic": 1, "mistral": 1, "bedrock": 1, "anthropic-vertex": 1}.get(
        name, 0
    )  # events that may be missing
    for number in range(1, len(events) - ends):
        seen = api.stream(made(name, streamed(protocol, turn, number), output=pay))
        assert isinstance(seen.error, StreamTruncated), number
    assert paid == []
    assert api.stream(made(name, streamed(protocol, turn), output=pay)).final == "paid"
    assert paid == [(100, "Kai")]


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic", "bedrock", "cohere"])
def test_arguments_that_a_limit_cut_run_no_tool(name: str, api: API) -> None:
    protocol, paid = PROTOCOLS[name], []

    def pay(amount: int) -> None:
        paid.append(amount)

    turn = Turn(calls=(("call00001", "pay", '{"amount": 10'),), end="length")
    seen = api.stream(made(name, streamed(protocol, turn), output=pay))
    assert isinstance(seen.error, OutputTruncated)
    assert paid == []


@each
def test_the_second_turn_takes_the_first_with_it(name: str, api: API) -> None:
    """The thoughts, text and calls of a model are sent back with the results of its tools."""
    protocol = PROTOCOLS[name]
    turn = Turn("Hm.", "Wait.", (("call00001", "now", "{}"),))
    llm = LLMS[name](api_key="k", network=ReplayNetwork(whole(protocol, turn), whole(protocol, Turn(text="Noon."))))

    def now() -> str:
        """Tells the time."""
        return "12:00"

    answer = api.method(llm, "predict_and_call", [now], "What time is it?")
    (source,) = answer.sources
    (call,) = answer.response.message.tool_calls
    history = [user("What time is it?"), answer.response.message, tool_result(call, source.content)]
    assert api.chat(llm, history, tools=[now]).text == "Noon."


SECRETIVE = {
    "responses": (
        json.dumps(
            {
                "status": "completed",
                "model": "m-2026",
                "output": [
                    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA-secret"},
                    {"type": "function_call", "id": "fc_1", "call_id": "call00001", "name": "now", "arguments": "{}"},
                ],
            }
        ),
        "gAAA-secret",
    ),
    "google": (
        json.dumps(
            {
                "candidates": [
                    {
                        "content": {"parts": [{"functionCall": {"name": "now"}, "thoughtSignature": "EqQ-secret"}]},
                        "finishReason": "STOP",
                    }
                ]
            }
        ),
        "EqQ-secret",
    ),
}


@pytest.mark.fault(102)
@pytest.mark.parametrize("name", SECRETIVE)
def test_what_one_model_encrypted_goes_to_no_other(name: str) -> None:
    def now() -> str:
        """Tells the time."""
        return "12:00"

    body, secret = SECRETIVE[name]
    answers = [Recorded([body.encode()], headers=JSON), *[whole(PROTOCOLS[name], Turn(text="Noon."))] * 2]
    network = ReplayNetwork(*answers)
    llm = LLMS[name](api_key="k", network=network)
    message = llm.chat("What time is it?", tools=[now]).message
    history = [user("What time is it?"), message, tool_result(message.tool_calls[0], "12:00")]
    llm.chat(history, tools=[now])
    llm.model = "another"  # type: ignore[attr-defined]  # each of these has one
    llm.chat(history, tools=[now])
    same, other = (request.body.decode() for request in network.requests[1:])
    assert secret in same and secret not in other


@pytest.mark.parametrize(("stop", "error"), [("refusal", Refused), ("content_filter", ContentBlocked)])
def test_what_the_service_took_back_runs_no_tool(stop: Any, error: type[Exception], api: API) -> None:
    paid: list[int] = []

    def pay(amount: int) -> None:
        paid.append(amount)

    call = [ToolCallStart("c1", "pay"), ToolCallDone("c1", "pay", '{"amount": 100}'), Finish(stop)]
    make = ToolOrchestratingLLM(pay, "x", ScriptedLLM(call, call))
    with pytest.raises(error, match=stop) as caught:
        api.call(make)
    assert getattr(caught.value, "arguments", None) == '{"amount": 100}'
    assert isinstance(api.stream(make).error, error)
    assert paid == []
