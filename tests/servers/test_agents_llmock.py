"""An engine's turns over HTTP, on every protocol that llmock serves.

What goes back to the service is compared with what its protocol wants, word for word, as the server recorded it.
Every test ends with llmock's verdict: no fault mishandled, no warning.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import BaseModel

from servers.llmock_protocols import CHAT, MISTRAL, PROTOCOLS, Protocol, findings
from support.albums import SEA, Album
from support.engines import ENGINE_APIS, EngineAPI, check, results, sequence
from toolcast import Permissions, is_partial, user
from toolcast.agents.engine.engine import Engine
from toolcast.errors import AuthFailed, StreamInterrupted, StreamTruncated, TurnCancelled
from toolcast.events import Finish, OutputDelta, TextDelta, ToolCallDone, ToolResult, ToolStarted, UsageReport
from toolcast.llms.http_llm import ServiceLLM
from toolcast.messages import Message, ToolCallPart, ToolResultPart, assistant

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = [pytest.mark.networked, pytest.mark.usefixtures("low_dice")]

SYNC, ASYNCIO, TRIO, IN_LOOP = ENGINE_APIS
# An API differs in the same way under every protocol.
WAYS = [(protocol, engine_api) for protocol in PROTOCOLS for engine_api in (SYNC, ASYNCIO)] + [
    (CHAT, TRIO),
    (CHAT, IN_LOOP),
]
QUESTION = "How is the weather in Oslo?"
SUNNY = "It is sunny, 21 degrees."


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1].name}")
def way(request: pytest.FixtureRequest) -> tuple[Protocol, EngineAPI]:
    """Each protocol in turn, sync and async."""
    chosen: tuple[Protocol, EngineAPI] = request.param
    return chosen


@pytest.fixture
def engine_api(way: tuple[Protocol, EngineAPI]) -> EngineAPI:
    return way[1]


def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny, 21 degrees"


def tides(city: str) -> str:
    """The tides of a city."""
    raise LookupError(f"no tides in {city}")


def calls(server: LLMock, *made: tuple[str, dict[str, Any]], text: str | None = None) -> None:
    """The next answer calls these tools."""
    from llmock.scenarios import Reply, ToolCall

    server.add(Reply(text=text, tool_calls=tuple(ToolCall(name, arguments) for name, arguments in made)))


# -- what goes back -------------------------------------------------------------------------------------------

Made = list[tuple[ToolCallPart, ToolResultPart]]


def _chat(answer: str, made: Made, **more: Callable[[ToolCallPart], str]) -> list[dict[str, Any]]:
    written = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call, _ in made
    ]
    return [
        {"role": "assistant", "content": answer, "tool_calls": written},
        *(
            {"role": "tool", "tool_call_id": call.id, "content": _result_text(result)}
            | {name: of(call) for name, of in more.items()}
            for call, result in made
        ),
    ]


def _mistral(answer: str, made: Made) -> list[dict[str, Any]]:
    return _chat(answer, made, name=lambda call: call.name)


def _responses(answer: str, made: Made) -> list[dict[str, Any]]:
    return [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]},
        *(
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            for call, _ in made
        ),
        *(
            {"type": "function_call_output", "call_id": call.id, "output": _result_text(result)}
            for call, result in made
        ),
    ]


def _anthropic(answer: str, made: Made) -> list[dict[str, Any]]:
    used = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)} for call, _ in made
    ]
    given = [
        {"type": "tool_result", "tool_use_id": call.id, "content": result.content}
        | ({"is_error": True} if result.is_error else {})
        for call, result in made
    ]
    return [
        {"role": "assistant", "content": [{"type": "text", "text": answer}, *used]},
        {"role": "user", "content": given},
    ]


def _google(answer: str, made: Made) -> list[dict[str, Any]]:
    called = [{"functionCall": {"name": call.name, "args": json.loads(call.arguments)}} for call, _ in made]
    given = [
        {
            "functionResponse": {
                "name": call.name,
                "response": {"error" if result.is_error else "result": result.content},
            }
        }
        for call, result in made
    ]
    return [{"role": "model", "parts": [{"text": answer}, *called]}, {"role": "user", "parts": given}]


def _key(result: ToolResultPart) -> str:
    return "error" if result.is_error else "result"


def _result_text(result: ToolResultPart) -> str:
    """These protocols have no field for the failure of a tool: it is in the text."""
    return f"The tool failed: {result.content}" if result.is_error else result.content


ANY_ID, MISTRAL_ID = r"[a-zA-Z0-9_-]{1,64}", r"[a-zA-Z0-9]{9}"
BACK: dict[str, tuple[str, Callable[[str, Made], list[dict[str, Any]]], str]] = {
    "chat": ("messages", _chat, ANY_ID),
    "responses": ("input", _responses, ANY_ID),
    "anthropic": ("messages", _anthropic, ANY_ID),
    "google": ("contents", _google, ANY_ID),
    "mistral": ("messages", _mistral, MISTRAL_ID),
}
"""For each protocol: where the conversation stands, how an answer with calls and their results go back, and ids."""


def went_back(server: LLMock, protocol: Protocol, answer: str, history: tuple[Message, ...]) -> None:
    """The last request ends in the calls of `history` and their results, as the protocol writes them."""
    where, written, form = BACK[protocol.name]
    wanted = written(answer, pairs(history))
    sent = server.last_request.body[where][-len(wanted) :]
    assert without_ids(sent) == without_ids(wanted)
    paired(ids_in(sent), form)
    assert ids_in(sent) == ids_in(wanted) or protocol is MISTRAL  # whose own ids are not those that llmock makes


def pairs(history: tuple[Message, ...]) -> Made:
    """The calls of `history`, each with its result."""
    return list(zip([call for message in history for call in message.tool_calls], results(history), strict=True))


def paired(ids: list[str], form: str) -> None:
    """Each call has an id, of this form, and one result."""
    assert sorted(ids) == sorted([*set(ids)] * 2)
    assert all(re.fullmatch(form, id) for id in ids)


ID_FIELDS = ("id", "call_id", "tool_call_id", "tool_use_id")


def ids_in(data: Any) -> list[str]:
    """The ids of all calls and results."""
    if isinstance(data, list):
        return [id for one in data for id in ids_in(one)]
    if isinstance(data, dict):
        return [id for key, value in data.items() for id in ([value] if key in ID_FIELDS else ids_in(value))]
    return []


def without_ids(data: Any) -> Any:
    if isinstance(data, list):
        return [without_ids(one) for one in data]
    if isinstance(data, dict):
        return {key: without_ids(value) for key, value in data.items() if key not in ID_FIELDS}
    return data


# -- the way it goes ------------------------------------------------------------------------------------------


def test_a_turn_with_a_tool(server: LLMock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI) -> None:
    calls(server, ("weather", {"city": "Oslo"}), text="Let me see.")
    server.reply(SUNNY)
    engine = Engine(llm, [weather])
    text = engine_api.stream(engine, QUESTION)
    assert text.turn is not None and (text.turn.text, text.turn.rounds, text.turn.end) == (SUNNY, 2, "end_turn")
    assert sequence(engine) == ["user", "assistant", "tool", "assistant"]
    went_back(server, protocol, "Let me see.", engine.history)
    (done,) = text.of(ToolCallDone)
    assert text.of(ToolStarted, ToolResult) == [
        ToolStarted(done.id, "weather"),
        ToolResult(done.id, "weather", "Oslo: sunny, 21 degrees", False, "Oslo: sunny, 21 degrees"),
    ]
    assert "".join(event.text for event in text.of(TextDelta)) == f"Let me see.{SUNNY}"
    assert [event.stop_reason for event in text.of(Finish)] == ["tool_use", "end_turn"]
    if protocol is not MISTRAL:  # whose streams are without usage, here
        assert text.of(UsageReport)
        assert text.turn.usage == engine.usage
        assert engine.usage.input_tokens > 5 and engine.usage.output_tokens > 5
    check(engine)


def test_two_calls_one_of_which_fails(
    server: LLMock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI
) -> None:
    calls(server, ("tides", {"city": "Bern"}), ("weather", {"city": "Oslo"}), text="Both.")
    server.reply("Bern has none.")
    engine = Engine(llm, [weather, tides])
    assert engine_api.submit(engine, QUESTION).text == "Bern has none."
    went_back(server, protocol, "Both.", engine.history)
    assert [(result.name, result.is_error) for result in results(engine.history)] == [
        ("tides", True),
        ("weather", False),
    ]
    check(engine)


def test_the_conversation_goes_on(server: LLMock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI) -> None:
    engine = Engine(llm, [weather], instructions="Be brief.")
    for city in ("Oslo", "Rome", "Lima"):
        calls(server, ("weather", {"city": city}), text="Let me see.")
        server.reply(SUNNY)
        assert engine_api.submit(engine, f"And in {city}?").text == SUNNY
        went_back(server, protocol, "Let me see.", engine.history[-4:])
    ids = [call.id for message in engine.history for call in message.tool_calls]
    assert len(set(ids)) == 3
    check(engine)


class Report(BaseModel):
    """What the weather is like."""

    city: str
    degrees: int


def test_a_typed_result(server: LLMock, llm: ServiceLLM, engine_api: EngineAPI) -> None:
    """A tool first; then an answer that does not fit, which is asked for again with the error."""
    calls(server, ("weather", {"city": "Oslo"}))
    calls(server, ("Report", {"city": "Oslo", "degrees": "warm"}))
    calls(server, ("Report", {"city": "Oslo", "degrees": 21}))
    engine = Engine(llm, [weather])
    text = engine_api.stream(engine, QUESTION, output_cls=Report)
    assert text.turn is not None, text.error
    assert (text.turn.output, text.turn.end, text.turn.rounds) == (Report(city="Oslo", degrees=21), "output", 3)
    shown = text.of(OutputDelta)[-1].value
    assert is_partial(shown) and (shown.city, shown.degrees) == ("Oslo", 21)
    assert [result.is_error for result in results(engine.history)] == [False, True, False]
    check(engine)


def test_a_person_says_no(server: LLMock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI) -> None:
    calls(server, ("weather", {"city": "Oslo"}), text="May I?")
    server.reply("Then I cannot tell.")
    asked: list[str] = []

    def approve(request: Any) -> Any:
        asked.append(request.arguments)
        return request.deny("not today")

    engine = Engine(llm, [weather], permissions=Permissions(approve=approve))
    assert engine_api.submit(engine, QUESTION).text == "Then I cannot tell."
    went_back(server, protocol, "May I?", engine.history)
    assert [json.loads(arguments) for arguments in asked] == [{"city": "Oslo"}]
    assert "not today" in results(engine.history)[0].content
    check(engine)


# -- the way it does not --------------------------------------------------------------------------------------


def test_a_cancelled_stream(server: LLMock, llm: ServiceLLM, engine_api: EngineAPI) -> None:
    """Another thread cancels while the service is silent; the text received so far is kept, and is sent back."""
    calls(server, ("weather", {"city": "Oslo"}))
    server.reply("It is sunny in Oslo, and will be so for days and days.")
    engine = Engine(llm, [weather])
    threads: list[threading.Thread] = []

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, ToolStarted):
            server.stall(after_chunks=6, seconds=20)
        elif isinstance(event, TextDelta) and not threads:
            threads.append(threading.Thread(target=engine.cancel))
            threads[0].start()

    text = engine_api.stream(engine, QUESTION, watch=watch)
    threads[0].join()
    assert isinstance(text.error, TurnCancelled)
    assert sequence(engine) == ["user", "assistant", "tool", "assistant"]
    received = "".join(event.text for event in text.of(TextDelta))
    assert engine.history[-1].text == received.rstrip() and 0 < len(received) < 40
    check(engine)
    server.reply("Well.")
    assert engine_api.submit(engine, "Enough?").text == "Well."
    assert json.dumps(received.rstrip()) in json.dumps(server.last_request.body)
    check(engine)


def test_a_limit_of_rate_in_the_second_round_is_waited_for(
    server: LLMock, llm: ServiceLLM, engine_api: EngineAPI
) -> None:
    ran: list[str] = []

    def forecast(city: str) -> str:
        ran.append(city)
        server.rate_limit(times=2, retry_after=0.02)
        return "sunny"

    calls(server, ("forecast", {"city": "Oslo"}))
    server.reply(SUNNY)
    engine = Engine(llm, [forecast])
    turn = engine_api.submit(engine, QUESTION)
    assert (turn.text, turn.rounds, ran, len(server.requests)) == (SUNNY, 2, ["Oslo"], 4)
    check(engine)


def test_a_connection_cut_in_the_second_round(
    server: LLMock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI
) -> None:
    """The turn fails, what the tool gave is kept, and `submit()` goes on: nothing runs twice."""
    ran: list[str] = []

    def forecast(city: str) -> str:
        ran.append(city)
        server.disconnect(after_chunks=5)
        return "sunny"

    calls(server, ("forecast", {"city": "Oslo"}), text="Let me see.")
    server.reply("It is sunny in Oslo, and will be so for days and days.", times=2)
    engine = Engine(llm, [forecast])
    text = engine_api.stream(engine, QUESTION)
    assert type(text.error) is StreamInterrupted
    assert text.of(TextDelta)
    assert sequence(engine) == ["user", "assistant", "tool"]
    check(engine)
    assert engine_api.submit(engine).text.startswith("It is sunny in Oslo, and will")
    went_back(server, protocol, "Let me see.", engine.history)
    assert ran == ["Oslo"]
    check(engine)


def test_a_stream_that_ends_before_its_end_runs_no_tool(
    server: LLMock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI
) -> None:
    album = ("Album", SEA.model_dump(mode="json"))
    calls(server, album, text="Let me look at the sea")
    calls(server, album)
    server.reply("Here it is.")
    server.truncate(after_chunks=protocol.breaks[1])
    engine = Engine(llm, [Album])
    text = engine_api.stream(engine, "An album, please.")
    assert type(text.error) is StreamTruncated
    assert text.of(TextDelta) and not text.of(ToolStarted)
    assert engine.history == ()
    again = engine_api.stream(engine, "An album, please.")
    assert [event.output for event in again.of(ToolResult)] == [SEA]
    check(engine)


def test_a_call_that_no_one_can_read(
    server: LLMock, llm: ServiceLLM, protocol: Protocol, engine_api: EngineAPI
) -> None:
    """It comes back as an object, which every service takes, with what was wrong; then the model does it right."""
    server.break_tool_call("malformed_arguments")
    calls(server, ("weather", {"city": "Oslo"}), text="Let me see.")
    calls(server, ("weather", {"city": "Oslo"}))
    server.reply(SUNNY)
    engine = Engine(llm, [weather])
    turn = engine_api.submit(engine, QUESTION)
    assert (turn.text, turn.rounds) == (SUNNY, 3)
    assert [result.is_error for result in results(engine.history)] == [True, False]
    for call in (call for message in engine.history for call in message.tool_calls):
        assert isinstance(json.loads(call.arguments), dict)
    check(engine)


def test_a_tool_that_is_not_there(server: LLMock, llm: ServiceLLM, engine_api: EngineAPI) -> None:
    server.break_tool_call("unknown_tool")
    calls(server, ("weather", {"city": "Oslo"}))
    server.reply(SUNNY)
    engine = Engine(llm, [weather])
    turn = engine_api.submit(engine, QUESTION)
    assert (turn.text, turn.rounds) == (SUNNY, 2)
    (result,) = results(engine.history)
    assert result.is_error and "weather" in result.content
    check(engine)


def test_a_history_that_is_too_long_is_compacted_once(server: LLMock, llm: ServiceLLM, engine_api: EngineAPI) -> None:
    """The service refuses it; the oldest turns go, no call without its result; what is left is asked again."""
    engine = Engine(llm, [weather])
    for city in ("Oslo", "Rome"):
        calls(server, ("weather", {"city": city}))
        server.reply(SUNNY)
        engine_api.submit(engine, f"{QUESTION} Or rather in {city}? {'Do tell. ' * 400}")
    server.context_overflow()
    server.reply("Good night.")
    before = len(engine.history)
    assert engine_api.submit(engine, "Thank you.").text == "Good night."
    assert len(engine.history) < before
    assert engine.history[-2:] == (user("Thank you."), assistant("Good night."))
    assert engine.trace.count("streaming") == 2
    check(engine)


def test_a_wrong_key(server: LLMock, llm: ServiceLLM, engine_api: EngineAPI) -> None:
    server.reply("Hello.")
    engine = Engine(llm, [weather])
    engine_api.submit(engine, "Hello.")
    before = engine.history
    server.fail(401, message="no such key")
    text = engine_api.stream(engine, QUESTION)
    assert isinstance(text.error, AuthFailed)
    assert text.events[-1].error is text.error
    assert engine.history == before
    check(engine)
    server.reply(SUNNY)
    assert engine_api.submit(engine, "And in Rome?").text == SUNNY
    assert engine.history == (*before, user("And in Rome?"), assistant(SUNNY))


# -- from one service to another ------------------------------------------------------------------------------


@pytest.mark.parametrize("there", PROTOCOLS, ids=str)
@pytest.mark.parametrize("here", PROTOCOLS, ids=str)
def test_the_conversation_moves(llmock: LLMock, plainly: httpx.Client, here: Protocol, there: Protocol) -> None:
    """The calls and results of a turn at one service are sent to another in its own format; and back again."""
    calls(llmock, ("tides", {"city": "Bern"}), ("weather", {"city": "Oslo"}), text="Both.")
    llmock.reply("Bern has none.")
    with here.llm(llmock) as first, there.llm(llmock) as second:
        engine = Engine(first, [weather, tides])
        engine.submit(QUESTION)
        other = Engine(second, [weather, tides], history=engine.history)
        calls(llmock, ("weather", {"city": "Rome"}), text="One more.")
        llmock.reply(SUNNY, times=2)
        assert other.submit("And in Rome?").text == SUNNY
        back = Engine(first, [weather, tides], history=other.history)
        assert back.submit("Thank you.").text == SUNNY
    for one in (engine, other, back):
        check(one)
    first_half, _, second_half, last = (request.body for request in llmock.requests[1:])
    made = pairs(engine.history)
    for protocol, body in ((here, first_half), (there, second_half), (here, last)):
        where, written, form = BACK[protocol.name]
        paired(ids_in(body[where]), form)
        wanted = without_ids(written("Both.", made))
        at = next(number for number, item in enumerate(body[where]) if QUESTION in json.dumps(item)) + 1
        assert without_ids(body[where][at : at + len(wanted)]) == wanted
    assert findings(llmock, plainly) == []
