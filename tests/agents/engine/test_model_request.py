"""rounds.py: ids that are the history's own, and arguments that can be looked at while they grow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from support.chunks import USAGE, delta, sse
from support.engines import EngineAPI, TurnRecord, call, check, results, valid_requests
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.agents.engine.engine import Engine
from toolcast.events import (
    Finish,
    Restarted,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolResult,
    ToolStarted,
)
from toolcast.llms import Capabilities
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.values.approvals import PermissionRequest

OF_A_CALL = (ToolCallStart, ToolCallDelta, ToolCallDone)


class Album(BaseModel):
    """An album."""

    artist: str
    songs: list[str] = []


def look(city: str, days: int = 1) -> str:
    """Look at a city."""
    return f"{city} {days}"


def ids_of(record: TurnRecord) -> list[str]:
    return [event.id for event in record.of(ToolCallStart)]


def test_ids_that_come_again_are_made_unique(engine_api: EngineAPI) -> None:
    oslo = call("call_1", "look", '{"city": "Oslo"}')
    engine = Engine(llm := ScriptedLLM(oslo, [oslo, call("call_2", "look", '{"city": "Bergen"}')], oslo, "ok"), [look])
    text = engine_api.stream(engine, "Go.")
    ids = [made.id for message in engine.history for made in message.tool_calls]
    assert ids == ["call_1", "call_1-2", "call_2", "call_1-3"]
    assert ids_of(text) == ids
    assert [event.id for event in text.of(ToolCallDone)] == ids
    assert [event.call_id for event in text.of(ToolStarted)] == ids
    assert [event.call_id for event in text.of(ToolResult)] == ids
    assert [one.call_id for one in results(engine.history)] == ids
    assert {event.id for event in text.of(ToolCallDelta)} == set(ids)
    list(valid_requests(llm.requests))
    check(engine)


def test_ids_are_unique_over_turns_and_restarts(engine_api: EngineAPI) -> None:
    made = call("c", "look", '{"city": "Oslo"}')
    engine = Engine(ScriptedLLM(made, "ok", made, "ok"), [look])
    engine_api.submit(engine, "1")
    engine_api.submit(engine, "2")
    other = Engine(ScriptedLLM(made, "ok"), [look])
    other.restore(engine.snapshot())
    engine_api.submit(other, "3")
    assert [one.call_id for one in results(other.history)] == ["c", "c-2", "c-3"]
    check(other)


def test_a_call_that_comes_only_as_done_has_an_id_of_its_own_too(engine_api: EngineAPI) -> None:
    done = ToolCallDone("c", "look", '{"city": "Oslo"}')
    engine = Engine(ScriptedLLM([done, Finish("tool_use")], [done, Finish("tool_use")], "ok"), [look])
    engine_api.submit(engine, "Go.")
    assert [one.call_id for one in results(engine.history)] == ["c", "c-2"]
    check(engine)


def test_a_call_that_is_written_again_after_a_restart_has_another_id(engine_api: EngineAPI) -> None:
    again = [
        ToolCallStart("c", "look"),
        ToolCallDelta("c", '{"city": "Os'),
        Restarted(2, "the service failed"),
        ToolCallStart("c", "look"),
        ToolCallDelta("c", '{"city": "Rome"}'),
        ToolCallDone("c", "look", '{"city": "Rome"}'),
        Finish("tool_use"),
    ]
    engine = Engine(ScriptedLLM(again, "ok"), [look])
    text = engine_api.stream(engine, "Go.")
    (made,) = engine.history[1].tool_calls
    assert made.id == ids_of(text)[-1] == results(engine.history)[0].call_id
    assert results(engine.history)[0].content == "Rome 1"
    check(engine)


def growing(engine_api: EngineAPI, tools: Any, *answers: Any, id: str = "c") -> list[Any]:
    """What can be seen of the arguments of a call, event by event."""
    seen: list[Any] = []

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, (*OF_A_CALL, ToolCallReset)):
            seen.append(stream.arguments(id))

    engine_api.stream(Engine(ScriptedLLM(*answers, "ok", chunk=5), tools), "Go.", watch=watch)
    return seen


def test_the_arguments_of_a_function_grow(engine_api: EngineAPI) -> None:
    seen = growing(engine_api, [look], call("c", "look", '{"city": "Longyearbyen", "days": 3}'))
    assert seen[0] is None or seen[0] == {}
    assert seen[-1] == {"city": "Longyearbyen", "days": 3}
    cities = [each["city"] for each in seen if each and each.get("city")]
    assert all(after.startswith(before) for before, after in pairwise(cities))
    assert len(set(cities)) > 1


def test_the_arguments_of_a_model_grow_as_its_partial(engine_api: EngineAPI) -> None:
    seen = growing(
        engine_api, [Album], call("c", "Album", '{"artist": "Nina", "songs": ["Sinnerman", "Be My Husband"]}')
    )
    assert isinstance(seen[-1], Album)
    assert seen[-1].songs == ["Sinnerman", "Be My Husband"]
    assert any(each is not None and each.artist == "Nina" and each.songs and len(each.songs) == 1 for each in seen)


def test_the_arguments_of_an_orchestrator_grow(engine_api: EngineAPI) -> None:
    make = ToolOrchestratingLLM(Album, "An album of {artist}.", llm=ScriptedLLM({"artist": "x"}))
    name = make.as_tool().name
    seen = growing(engine_api, [make], call("c", name, '{"artist": "Nina"}'))
    assert seen[-1] == {"artist": "Nina"}


def test_the_arguments_of_an_unknown_tool_grow_as_a_dict(engine_api: EngineAPI) -> None:
    seen = growing(engine_api, [], call("c", "what", '{"a": {"b": [1, 2]}}'))
    assert seen[-1] == {"a": {"b": [1, 2]}}


def test_arguments_of_a_plain_type_grow_as_it(engine_api: EngineAPI) -> None:
    seen = growing(engine_api, [list[int]], call("c", "list_int", '{"value": [1, 2, 3]}'))
    assert seen[-1] in ([1, 2, 3], {"value": [1, 2, 3]})


def test_arguments_that_begin_again_are_read_again(engine_api: EngineAPI) -> None:
    events = [
        ToolCallStart("c", "look"),
        ToolCallDelta("c", '{"city": "Os'),
        ToolCallReset("c"),
        ToolCallDelta("c", '{"city": "Rome"}'),
        ToolCallDone("c", "look", '{"city": "Rome"}'),
        Finish("tool_use"),
    ]
    seen = growing(engine_api, [look], events)
    assert seen[1]["city"] == "Os"
    assert not seen[2]
    assert seen[-1] == {"city": "Rome"}


def test_of_a_call_that_no_one_made_there_is_nothing(engine_api: EngineAPI) -> None:
    assert growing(engine_api, [look], call("c", "look", '{"city": "Oslo"}'), id="other") == [None] * 6


def test_arguments_by_the_id_of_the_events(engine_api: EngineAPI) -> None:
    seen: list[Any] = []

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, ToolCallDelta):
            seen.append((event.id, stream.arguments(event.id)))
        if isinstance(event, (TextDelta, PermissionRequest)):
            assert stream.arguments("c") is None

    made = call("c", "look", '{"city": "Oslo"}')
    engine_api.stream(Engine(ScriptedLLM(made, made, "ok"), [look]), "Go.", watch=watch)
    assert ("c", {"city": "Oslo"}) in seen and ("c-2", {"city": "Oslo"}) in seen


@given(st.lists(st.lists(st.sampled_from(["a", "a-2", "b", "a-3"]), min_size=1, max_size=3, unique=True), max_size=5))
def test_whatever_ids_a_service_gives_the_history_is_sound(rounds: list[list[str]]) -> None:
    answers = [[call(id, "look", '{"city": "Oslo"}') for id in ids] for ids in rounds]
    engine = Engine(llm := ScriptedLLM(*answers, "ok"), [look])
    engine.submit("Go.")
    list(valid_requests(llm.requests))
    check(engine)


# A model of which it is known that it has no tools


def model_without_tools(text: str, **known: Any) -> tuple[ReplayNetwork, OpenAI]:
    """Return the network and the LLM of a model without tools, which answers `text`."""
    body = b"".join(sse(delta(content=text), delta("stop"), USAGE))
    network = ReplayNetwork(Recorded([body], headers={"content-type": "text/event-stream"}))
    return network, OpenAI(
        "m", api="chat", api_key="k", network=network, capabilities=Capabilities(tools=False, **known)
    )


def test_it_is_offered_none(engine_api: EngineAPI) -> None:
    network, llm = model_without_tools("Hello!")
    engine = Engine(llm, [look])
    assert engine_api.submit(engine, "Hi.").text == "Hello!"
    (request,) = network.requests
    assert b"tool" not in request.body
    check(engine)


@pytest.mark.parametrize(("schema", "where"), [(True, b"json_schema"), (False, b"Answer with JSON")])
def test_a_typed_result_is_asked_for_by_a_schema_or_in_words(engine_api: EngineAPI, schema: bool, where: bytes) -> None:
    network, llm = model_without_tools('{"artist": "Ys"}', json_schema=schema)
    engine = Engine(llm, [look])
    assert engine_api.submit(engine, "An album.", output_cls=Album).output == Album(artist="Ys")
    (request,) = network.requests
    assert where in request.body and b'"tools"' not in request.body
    check(engine)
