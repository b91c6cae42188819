"""An engine's turns against aimock, which understands six protocols, and keeps what it understood of a request.

Its journal has every conversation in one form, whatever protocol it came in: two readers, aimock's and ours, agree on
what was called and what it gave. What goes to Ollama, which aimock reads only in part, is looked at as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from servers.aimock_server import Aimock
from support.engines import ENGINE_APIS, EngineAPI, check, results, sequence
from toolcast import Anthropic, Google, Mistral, Ollama, OpenAI, OpenAIResponses
from toolcast.agents.engine.engine import Engine
from toolcast.errors import AuthFailed, RateLimited, TurnCancelled
from toolcast.events import TextDelta, ToolCallDone, ToolResult, ToolStarted
from toolcast.llms.http_llm import ServiceLLM
from toolcast.messages import ToolResultPart
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import AsyncResponse, Response
from toolcast.values.http_request import HTTPRequest

pytestmark = pytest.mark.networked

QUESTION = "How is the weather in Oslo?"
SUNNY = "It is sunny, and 21 degrees warm."


@dataclass(frozen=True)
class Protocol:
    """One protocol: who speaks it, where aimock listens for it, and how aimock reads the result of a call."""

    name: str
    make: Callable[..., ServiceLLM]
    model: str
    path: str
    read: Callable[[ToolResultPart], str]

    def __str__(self) -> str:
        return self.name


def _in_words(result: ToolResultPart) -> str:
    return f"The tool failed: {result.content}" if result.is_error else result.content


def _plain(result: ToolResultPart) -> str:
    return result.content


def _as_object(result: ToolResultPart) -> str:
    return json.dumps({"error" if result.is_error else "result": result.content}, separators=(",", ":"))


CHAT = Protocol("chat", OpenAI, "gpt-4o", "/v1", _in_words)
RESPONSES = Protocol("responses", OpenAIResponses, "gpt-4o", "/v1", _in_words)
ANTHROPIC = Protocol("anthropic", Anthropic, "claude-sonnet-4-6", "", _plain)
GOOGLE = Protocol("google", Google, "gemini-2.5-pro", "", _as_object)
MISTRAL = Protocol("mistral", Mistral, "mistral-large-latest", "/v1", _in_words)
OLLAMA = Protocol("ollama", Ollama, "llama3.2", "", _in_words)
PROTOCOLS = (CHAT, RESPONSES, ANTHROPIC, GOOGLE, MISTRAL, OLLAMA)
SYNC, ASYNCIO, *OTHERS = ENGINE_APIS
# An API differs in the same way under every protocol.
WAYS = [(protocol, engine_api) for protocol in PROTOCOLS for engine_api in (SYNC, ASYNCIO)] + [
    (OLLAMA, one) for one in OTHERS
]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1].name}")
def way(request: pytest.FixtureRequest) -> tuple[Protocol, EngineAPI]:
    """Each protocol in turn, sync and async."""
    chosen: tuple[Protocol, EngineAPI] = request.param
    return chosen


@pytest.fixture
def engine_api(way: tuple[Protocol, EngineAPI]) -> EngineAPI:
    return way[1]


@pytest.fixture
def llm(aimock: Aimock, protocol: Protocol) -> Iterator[ServiceLLM]:
    with protocol.make(protocol.model, base_url=f"{aimock.url}{protocol.path}", api_key="any", max_retries=0) as made:
        yield made


def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny"


def tides(city: str) -> str:
    """The tides of a city."""
    raise LookupError(f"no tides in {city}")


def called(*calls: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    """An answer with these calls."""
    made = {"toolCalls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    return {"content": text, **made} if text else made


WITHOUT_RESULT, WITH_RESULT = {"hasToolResult": False}, {"hasToolResult": True}
"""The first request of a turn; those behind a result."""


def test_a_turn_with_tools_one_of_which_fails(
    aimock: Aimock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI
) -> None:
    aimock.answer(WITHOUT_RESULT, called(("tides", {"city": "Bern"}), ("weather", {"city": "Oslo"}), text="Both."))
    aimock.answer(WITH_RESULT, {"content": SUNNY})
    engine = Engine(llm, [weather, tides])
    text = engine_api.stream(engine, QUESTION)
    assert text.turn is not None, text.error
    assert (text.turn.text, text.turn.rounds, text.turn.end) == (SUNNY, 2, "end_turn")
    assert "".join(event.text for event in text.of(TextDelta)) == f"Both.{SUNNY}"
    assert [event.name for event in text.of(ToolCallDone)] == ["tides", "weather"]
    assert [event.name for event in text.of(ToolStarted)] == ["tides", "weather"]
    assert [(event.is_error, event.content) for event in text.of(ToolResult)] == [
        (True, "LookupError: no tides in Bern"),
        (False, "Oslo: sunny"),
    ]
    check(engine)
    first, second = (request["body"]["messages"] for request in aimock.requests())
    assert first == [{"role": "user", "content": QUESTION}]
    understood(engine, protocol, second)


def understood(engine: Engine, protocol: Protocol, messages: list[dict[str, Any]]) -> None:
    """aimock has read the calls of `engine` and their results, and which belongs to which."""
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    given = [message for message in messages if message["role"] == "tool"]
    made = [call for message in engine.history for call in message.tool_calls]
    assert [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls] == [
        (call.name, json.loads(call.arguments)) for call in made
    ]
    assert [message["content"] for message in given] == [protocol.read(result) for result in results(engine.history)]
    if protocol is not OLLAMA:  # the ids of which aimock does not read
        assert [message["tool_call_id"] for message in given] == [one["id"] for one in calls]
        assert len({one["id"] for one in calls}) == len(calls) or protocol is GOOGLE  # where aimock makes them up


class Overheard(HttpxNetwork):
    """The network, and what went over it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        self.sent.append(json.loads(request.body))
        return super().open(request, connect=connect, read=read)

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> AsyncResponse:
        self.sent.append(json.loads(request.body))
        return await super().aopen(request, connect=connect, read=read)


@pytest.mark.parametrize("engine_api", ENGINE_APIS, ids=lambda engine_api: engine_api.name)
def test_what_goes_back_to_ollama(aimock: Aimock, engine_api: EngineAPI) -> None:
    """Its arguments are an object, and its results have the name of their tool."""
    aimock.answer(WITHOUT_RESULT, called(("tides", {"city": "Bern"}), ("weather", {"city": "Oslo"}), text="Both."))
    aimock.answer(WITH_RESULT, {"content": SUNNY})
    network = Overheard()
    with Ollama("llama3.2", base_url=aimock.url, network=network) as llm:
        engine = Engine(llm, [weather, tides])
        engine_api.submit(engine, QUESTION)
    first, second = network.sent
    assert [tool["function"]["name"] for tool in first["tools"]] == ["weather", "tides"]
    assert first["tools"] == second["tools"]
    ids = [call.id for message in engine.history for call in message.tool_calls]
    made = [("tides", {"city": "Bern"}), ("weather", {"city": "Oslo"})]
    gave = ["The tool failed: LookupError: no tides in Bern", "Oslo: sunny"]
    assert second["messages"] == [
        {"role": "user", "content": QUESTION},
        {
            "role": "assistant",
            "content": "Both.",
            "tool_calls": [
                {"id": id, "function": {"name": name, "arguments": arguments}}
                for id, (name, arguments) in zip(ids, made, strict=True)
            ],
        },
        *(
            {"role": "tool", "tool_name": name, "content": content, "tool_call_id": id}
            for id, (name, _), content in zip(ids, made, gave, strict=True)
        ),
    ]


class Report(BaseModel):
    """What the weather is like."""

    city: str
    degrees: int


REPORT = Report(city="Oslo", degrees=21)


def test_a_typed_result(aimock: Aimock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI) -> None:
    """A tool, and then the result; Ollama's model, which no choice of tools can force, is held to a schema."""
    spelled = [{"name": name, "arguments": made} for name, made in (("weather", {"city": "Oslo"}), ("Report", None))]
    spelled[1]["arguments"] = REPORT.model_dump()
    for match, call in zip((WITHOUT_RESULT, WITH_RESULT), spelled, strict=True):
        in_words = {"content": json.dumps({"calls": [call]})}
        aimock.answer(match, in_words if protocol is OLLAMA else {"toolCalls": [call]})
    engine = Engine(llm, [weather])
    turn = engine_api.submit(engine, QUESTION, output_cls=Report)
    assert (turn.output, turn.end, turn.rounds) == (REPORT, "output", 2)
    check(engine)


def test_a_cancelled_stream(aimock: Aimock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI) -> None:
    aimock.answer({"userMessage": "Enough"}, {"content": "Well."})
    aimock.answer(WITHOUT_RESULT, called(("weather", {"city": "Oslo"})))
    aimock.answer(WITH_RESULT, {"content": SUNNY * 20})
    engine = Engine(llm, [weather])
    text = engine_api.stream(
        engine, QUESTION, watch=lambda stream, event: engine.cancel() if isinstance(event, TextDelta) else None
    )
    assert isinstance(text.error, TurnCancelled)
    kept = engine.history[-1].text
    assert 0 < len(kept) < len(SUNNY) and SUNNY.startswith(kept)
    check(engine)
    assert engine_api.submit(engine, "Enough.").text == "Well."
    understood(engine, protocol, aimock.requests()[-1]["body"]["messages"])
    check(engine)


def test_a_limit_of_rate_in_the_second_round(
    aimock: Aimock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI
) -> None:
    """The turn fails, what the tool gave is kept, and `submit()` goes on: nothing runs twice."""
    ran: list[str] = []

    def forecast(city: str) -> str:
        ran.append(city)
        return "sunny"

    aimock.answer(WITHOUT_RESULT, called(("forecast", {"city": "Oslo"})))
    aimock.answer({**WITH_RESULT, "sequenceIndex": 0}, {"error": {"message": "too many just now"}, "status": 429})
    aimock.answer(WITH_RESULT, {"content": SUNNY})
    engine = Engine(llm, [forecast])
    with pytest.raises(RateLimited, match="too many just now"):
        engine_api.submit(engine, QUESTION)
    assert sequence(engine) == ["user", "assistant", "tool"]
    check(engine)
    assert (engine_api.submit(engine).text, ran) == (SUNNY, ["Oslo"])
    understood(engine, protocol, aimock.requests()[-1]["body"]["messages"])
    check(engine)


def test_a_wrong_key(aimock: Aimock, llm: ServiceLLM, engine_api: EngineAPI) -> None:
    aimock.answer({}, {"error": {"message": "no such key"}, "status": 401})
    engine = Engine(llm, [weather])
    with pytest.raises(AuthFailed, match="no such key"):
        engine_api.submit(engine, QUESTION)
    assert engine.history == ()
    check(engine)


@pytest.mark.parametrize(
    "way", [(protocol, SYNC) for protocol in PROTOCOLS], ids=lambda way: str(way[0]), indirect=True
)
def test_the_conversation_moves(aimock: Aimock, llm: ServiceLLM, protocol: Protocol) -> None:
    """The calls and results of a turn at Ollama are sent to another service; and back again."""
    aimock.answer(WITHOUT_RESULT, called(("tides", {"city": "Bern"}), ("weather", {"city": "Oslo"}), text="Both."))
    aimock.answer(WITH_RESULT, {"content": SUNNY})
    with Ollama("llama3.2", base_url=aimock.url) as ollama:
        first = Engine(ollama, [weather, tides])
        first.submit(QUESTION)
        second = Engine(llm, [weather, tides], history=first.history)
        second.submit("And again?")
        understood(second, protocol, aimock.requests()[-1]["body"]["messages"])
        third = Engine(ollama, [weather, tides], history=second.history)
        assert third.submit("And once more?").text == SUNNY
    understood(third, OLLAMA, aimock.requests()[-1]["body"]["messages"])
    assert len(results(third.history)) == 6
    check(third)
