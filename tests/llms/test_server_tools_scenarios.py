"""Tools that the provider runs, over real HTTP: a search and then an object, pauses, and blocks that go back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from support.loopback import HOLD
from support.searching_service import SearchingService, call, results, search, text
from support.sync_and_async import API
from support.telemetry import recorded
from toolcast import (
    Anthropic,
    CallInfo,
    CodeExecution,
    Engine,
    Hooks,
    Message,
    RequestInfo,
    Settings,
    Timeouts,
    ToolOrchestratingLLM,
    Usage,
    WebSearch,
    is_partial,
    tool_result,
    user,
)
from toolcast.agents.engine.session_state import SessionState, difference, fold, opened_record
from toolcast.errors import NoToolCallError, Timeout
from toolcast.events import ChatResponse, ServerToolUse
from toolcast.llms import RedactedLLM
from toolcast.llms.http.paused_responses import MOST_RESUMPTIONS


class Weather(BaseModel):
    """The weather."""

    city: str
    degrees: int


@pytest.fixture
def service() -> Iterator[SearchingService]:
    with SearchingService() as double:
        yield double


def claude(service: SearchingService, **options: Any) -> Anthropic:
    return Anthropic("claude-sonnet-4-5", api_key="sk-ant-0123456789", base_url=service.base, max_retries=0, **options)


FOUND = (search(1, "weather in Oslo"), results(1, "https://a.no", "https://b.no"))
OSLO = call("Weather", {"city": "Oslo", "degrees": 4})


def test_a_search_and_then_an_object(service: SearchingService, api: API) -> None:
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[WebSearch(max_uses=3)])
    service.reply(*FOUND, text("It is 4 degrees."), OSLO, stop="tool_use")
    result = api.run(make, city="Oslo")
    assert result.output == Weather(city="Oslo", degrees=4)
    (body,) = service.bodies
    assert body["tool_choice"] == {"type": "auto"}
    assert [tool.get("type", tool["name"]) for tool in body["tools"]] == ["Weather", "web_search_20250305"]
    call_part, result_part = result.response.message.server_tools
    assert (call_part.name, call_part.input, call_part.raw) == ("web_search", {"query": "weather in Oslo"}, FOUND[0])
    assert result_part.raw == FOUND[1]
    assert [page["url"] for page in result_part.output] == ["https://a.no", "https://b.no"]
    assert "encrypted_content" not in result_part.output[0]


def test_partial_objects_after_a_search(service: SearchingService, api: API) -> None:
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[WebSearch()])
    service.reply(*FOUND, OSLO, stop="tool_use")
    seen = api.stream(make, city="Oslo")
    assert seen.final == Weather(city="Oslo", degrees=4)
    assert len(seen.items) > 2
    assert all(map(is_partial, seen.items[:-1]))


def test_the_object_is_requested_if_the_model_only_writes(service: SearchingService, api: API) -> None:
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[WebSearch()])
    service.reply(*FOUND, text("It is 4 degrees in Oslo."))
    service.reply(OSLO, stop="tool_use")
    result = api.run(make, city="Oslo")
    assert result.output.degrees == 4
    assert [type(attempt.error) for attempt in result.attempts] == [NoToolCallError, type(None)]
    first, second = service.bodies
    assert first["tool_choice"] == {"type": "auto"}
    assert second["tool_choice"]["name"] == "Weather"
    assert second["tools"] == first["tools"]
    assert second["messages"][1]["content"] == [*FOUND, text("It is 4 degrees in Oslo.")]


def test_a_model_that_never_calls_is_an_error(service: SearchingService, api: API) -> None:
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[WebSearch()])
    service.reply(text("I do not know."))
    service.reply(text("I still do not know."))
    with pytest.raises(NoToolCallError) as raised:
        api.run(make, city="Oslo")
    assert len(raised.value.attempts) == len(service.bodies) == 2


def test_a_choice_of_the_caller_is_sent(service: SearchingService) -> None:
    make = ToolOrchestratingLLM(
        Weather, "Weather in {city}?", claude(service), tools=[WebSearch()], tool_choice="Weather"
    )
    assert make.preview(city="Oslo").body["tool_choice"]["name"] == "Weather"
    assert make.server_tools == (WebSearch(),)
    assert make.with_(tools=[]).server_tools == ()
    with pytest.raises(TypeError, match="tools that the provider runs"):
        make.with_(tools=[print])  # type: ignore[list-item]  # a wrong type is the test


def test_a_response_that_is_paused_twice_is_one(service: SearchingService, api: API) -> None:
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[WebSearch()])
    service.reply(text("I search."), FOUND[0], stop="pause_turn")
    service.reply(FOUND[1], search(2, "Oslo degrees"), stop="pause_turn")
    service.reply(results(2, "https://c.no"), OSLO, stop="tool_use")
    result = api.run(make, city="Oslo")
    assert result.output == Weather(city="Oslo", degrees=4)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (300, 30)
    assert result.response.usage.input_tokens == 300
    assert [attempt.error for attempt in result.attempts] == [None] * 3
    assert result.response.stop_reason == "tool_use"
    assert result.response.response_id == "msg_3"
    sent = [body["messages"] for body in service.bodies]
    assert sent[1] == [*sent[0], {"role": "assistant", "content": [text("I search."), FOUND[0]]}]
    assert sent[2][1]["content"] == [text("I search."), *FOUND, search(2, "Oslo degrees")]
    assert [part.raw for part in result.response.message.server_tools] == [
        *FOUND,
        search(2, "Oslo degrees"),
        results(2, "https://c.no"),
    ]


def test_partial_objects_and_events_go_on_through_pauses(service: SearchingService, api: API) -> None:
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[WebSearch()])
    for _ in range(2):
        service.reply(FOUND[0], stop="pause_turn")
        service.reply(FOUND[1], OSLO, stop="tool_use")
    assert api.stream(make, city="Oslo").final == Weather(city="Oslo", degrees=4)
    events = api.events(claude(service), "Weather in Oslo?", tools=[WebSearch()])
    assert [event.raw for event in events if isinstance(event, ServerToolUse)] == list(FOUND)
    assert [type(event).__name__ for event in events].count("Finish") == 1


class Count(Hooks):
    """The methods that are called, in their order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        assert request.server_tools == (WebSearch(),)
        self.seen.append(("request", call.attempt, len(request.messages)))

    def response(self, call: CallInfo, response: ChatResponse, seconds: float) -> None:
        self.seen.append(("response", call.attempt, response.usage.input_tokens, len(response.message.server_tools)))

    def end(self, call: CallInfo, usage: Usage, seconds: float) -> None:
        self.seen.append(("end", usage.input_tokens))


def test_hooks_and_telemetry_observe_each_request_and_one_response(service: SearchingService, api: API) -> None:
    service.reply(FOUND[0], stop="pause_turn")
    service.reply(FOUND[1], OSLO, stop="tool_use")
    count = Count()
    with recorded(capture_content=True) as telemetry:
        make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[WebSearch()], hooks=count)
        assert api.call(make, city="Oslo").degrees == 4
    assert count.seen == [("request", 1, 1), ("request", 2, 2), ("response", 2, 200, 2), ("end", 200)]
    assert "server_tool_call_response" in telemetry.everything()


def test_a_response_that_is_paused_for_ever_ends_as_paused(service: SearchingService, api: API) -> None:
    for number in range(MOST_RESUMPTIONS + 1):
        service.reply(search(number, "weather"), results(number, "https://a.no"), stop="pause_turn")
    response = api.chat(claude(service), "Weather in Oslo?", tools=[WebSearch()])
    assert response.stop_reason == "pause"
    assert len(service.bodies) == MOST_RESUMPTIONS + 1 == 6
    assert len(response.message.server_tools) == 2 * 6


def test_tools_in_extra_are_resumed_too(service: SearchingService, api: API) -> None:
    settings = Settings(extra={"tools": [{"type": "web_search_20250305", "name": "web_search"}]})
    service.reply(FOUND[0], stop="pause_turn")
    service.reply(FOUND[1], text("4 degrees."))
    assert api.chat(claude(service), "Weather in Oslo?", settings=settings).text == "4 degrees."


def test_a_paused_call_of_the_callers_tool_is_not_resumed(service: SearchingService, api: API) -> None:
    service.reply(OSLO, stop="pause_turn")
    assert api.chat(claude(service), "Weather?", tools=[Weather, WebSearch()]).stop_reason == "pause"
    assert len(service.bodies) == 1


def test_the_pauses_share_one_deadline(service: SearchingService, api: API) -> None:
    service.reply(FOUND[0], stop="pause_turn")
    make = ToolOrchestratingLLM(
        Weather,
        "Weather in {city}?",
        claude(service),
        tools=[WebSearch()],
        settings=Settings(timeout=Timeouts(total=1.0)),
    )
    service.processed = lambda line: service.fail("POST", HOLD)
    with pytest.raises(Timeout) as raised:
        api.run(make, city="Oslo")
    assert raised.value.phase == "total"
    assert len(raised.value.attempts) == 2
    assert raised.value.attempts[0].usage.input_tokens == 100


def test_an_engine_searches_and_keeps_what_was_found(service: SearchingService) -> None:
    def degrees(city: str) -> int:
        """Return the degrees in a city."""
        return 4

    engine = Engine(claude(service), [degrees, WebSearch()])
    assert engine.server_tools == (WebSearch(),)
    service.reply(*FOUND, call("degrees", {"city": "Oslo"}), stop="tool_use")
    service.reply(text("4 degrees."))
    service.reply(text("As before."))
    events = list(engine.stream("Weather in Oslo?"))
    assert [event.raw for event in events if isinstance(event, ServerToolUse)] == list(FOUND)
    # Through the log of a session, and a snapshot.
    state = SessionState("s", history=engine.history)
    records = [opened_record("s", 0.0), *difference(SessionState("s"), state)]
    assert fold(records).history == engine.history
    other = Engine(claude(service), [degrees, WebSearch()], history=[])
    other.restore(engine.snapshot())
    assert other.submit("And now?").text == "As before."
    for body in service.bodies[1:]:
        assert body["messages"][1]["content"][:2] == list(FOUND)
    assert service.bodies[2]["tools"] == service.bodies[0]["tools"]
    assert [Message.from_dict(message.to_dict()) for message in engine.history] == list(engine.history)


CODE = {"type": "server_tool_use", "id": "srvtoolu_9", "name": "code_execution", "input": {"code": "degrees()"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_9", "content": {"stdout": "4"}}


def degrees(city: str) -> int:
    """Return the degrees in a city."""
    return 4


def test_code_goes_on_in_its_container(service: SearchingService) -> None:
    """With the result of the caller's tool, in the next turn, and after a snapshot and the log of a session."""
    engine = Engine(claude(service), [degrees, CodeExecution()])
    service.container = "container_1"
    service.reply(text("I run code."), CODE, call("degrees", {"city": "Oslo"}), stop="tool_use")
    service.reply(RAN, text("4 degrees."))
    assert engine.submit("Weather in Oslo?").text == "4 degrees."
    service.reply(text("As before."))
    assert engine.submit("And now?").text == "As before."
    state = SessionState("s", history=engine.history)
    logged = fold([opened_record("s", 0.0), *difference(SessionState("s"), state)]).history
    restored = Engine(claude(service), [degrees, CodeExecution()])
    restored.restore(engine.snapshot())
    for other in (restored, Engine(claude(service), [degrees, CodeExecution()], history=logged)):
        service.reply(text("Still."))
        assert other.submit("And now?").text == "Still."
    assert [body.get("container") for body in service.bodies] == [None, *["container_1"] * 4]
    # The last container counts; nothing runs in one where none of the service's tools is offered.
    service.container = "container_2"
    service.reply(text("A new one."))
    service.reply(text("In it."))
    service.reply(text("Without tools."))
    engine.submit("And?")
    engine.submit("And?")
    engine.fork(tools=[]).submit("And?")
    # `container_1` was refused once, and is not sent again.
    assert [body.get("container") for body in service.bodies[5:]] == ["container_1", None, "container_2", None]


def test_a_container_of_ones_own_is_sent(service: SearchingService) -> None:
    engine = Engine(claude(service), [CodeExecution(container="mine")])
    service.container = "mine"
    service.reply(CODE, RAN, text("4"))
    service.reply(text("4"))
    engine.submit("Run it.")
    engine.submit("Again.")
    assert [body["container"] for body in service.bodies] == ["mine", "mine"]


def test_a_request_is_refused_for_an_expired_container_once(service: SearchingService, api: API) -> None:
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", claude(service), tools=[CodeExecution()])
    service.container = "container_1"
    service.reply(CODE, RAN, OSLO, stop="tool_use")
    history = [user("Oslo?"), api.run(make, city="Oslo").response.message, tool_result("toolu_1", "OK"), user("Now?")]
    service.container = "container_2"
    service.reply(OSLO, stop="tool_use")
    again = ToolOrchestratingLLM(Weather, history, make.llm, tools=[CodeExecution()])
    assert api.run(again).output == Weather(city="Oslo", degrees=4)
    assert [body.get("container") for body in service.bodies] == [None, "container_1", None]


def test_an_engine_requests_a_typed_result_after_its_searches(service: SearchingService) -> None:
    def degrees(city: str) -> int:
        """Return the degrees in a city."""
        return 4

    engine = Engine(claude(service), [degrees, WebSearch()], max_attempts=1)
    service.reply(*FOUND, text("4 degrees."))
    service.reply(OSLO, stop="tool_use")
    assert engine.submit("Weather in Oslo?", output_cls=Weather).output == Weather(city="Oslo", degrees=4)
    first, second = service.bodies
    assert first["tool_choice"] == {"type": "auto"}
    assert second["tool_choice"]["type"] == "any"


def test_an_engine_fails_if_the_result_stays_missing(service: SearchingService) -> None:
    engine = Engine(claude(service), [WebSearch()], max_attempts=1)
    service.reply(text("4 degrees."))
    service.reply(text("4 degrees, as I wrote."))
    with pytest.raises(NoToolCallError):
        engine.submit("Weather in Oslo?", output_cls=Weather)


def test_a_fork_has_the_tools_of_the_provider(service: SearchingService) -> None:
    engine = Engine(claude(service), [WebSearch()])
    assert engine.fork().server_tools == (WebSearch(),)
    assert engine.fork(tools=[]).server_tools == ()
    assert engine.fork(tools=[WebSearch(max_uses=1)]).server_tools == (WebSearch(max_uses=1),)


def test_a_call_that_was_never_answered_is_left_out_later(service: SearchingService) -> None:
    """The service refuses a call without its result before another message."""
    engine = Engine(claude(service), [WebSearch()])
    for _ in range(MOST_RESUMPTIONS + 1):
        service.reply(search(1, "weather"), stop="pause_turn")
    service.reply(text("No idea."))
    assert engine.submit("Weather?").end == "pause"
    assert engine.submit("And?").text == "No idea."


def test_redaction_leaves_out_the_blocks_that_it_would_change(service: SearchingService) -> None:
    llm = RedactedLLM(claude(service), lambda text: text.replace("Oslo", "[CITY]"))
    engine = Engine(llm, [WebSearch()])
    service.reply(*FOUND, search(2, "weather today"), results(2, "https://d.no"), text("4 degrees."))
    service.reply(text("Yes."))
    engine.submit("Weather in Oslo?")
    engine.submit("Sure?")
    blocks = service.bodies[1]["messages"][1]["content"]
    assert blocks == [search(2, "weather today"), results(2, "https://d.no"), text("4 degrees.")]
