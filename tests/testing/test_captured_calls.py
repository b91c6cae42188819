"""The requests of a block, with their responses and errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.albums import SEA, Album
from support.chunks import album_body
from support.sync_and_async import API
from toolcast import Engine, OpenAI, ToolOrchestratingLLM, ValidationError
from toolcast.errors import RateLimited
from toolcast.events import Finish, TextDelta
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock, capture_calls


def test_a_request_and_its_response(api: API) -> None:
    with capture_calls() as calls:
        assert api.chat(ScriptedLLM("Hello"), "Hi.").text == "Hello"
    api.chat(ScriptedLLM("Hello"), "not captured")
    (captured,) = calls
    assert captured.call.operation == "chat"
    assert [message.text for message in captured.request.messages] == ["Hi."]
    assert captured.response is not None and captured.response.text == "Hello"
    assert captured.error is None


def test_attempts_of_a_structured_call(api: API) -> None:
    wrong = {"title": "x"}
    with capture_calls() as calls:
        assert api.call(ToolOrchestratingLLM(Album, "x", ScriptedLLM(wrong, SEA), max_attempts=2)) == SEA
        with pytest.raises(ValidationError):
            api.call(ToolOrchestratingLLM(Album, "x", ScriptedLLM(wrong)))
    assert [each.call.attempt for each in calls] == [1, 2, 1]
    assert all(each.response is not None for each in calls)
    assert [type(each.error) for each in calls] == [ValidationError, type(None), ValidationError]


def test_retries_over_http_without_credentials(api: API) -> None:
    network = ReplayNetwork(Recorded.of("{}", status=503), Recorded.of(album_body()))
    llm = OpenAI("m-1", api="chat", api_key="sk-secret", network=network)
    llm.clock = VirtualClock()
    with capture_calls() as calls:
        api.call(ToolOrchestratingLLM(Album, "x", llm))
    first, second = calls
    assert first.response is None and "503" in str(first.error)
    assert second.response is not None and second.error is None
    assert second.request.http is not None
    assert "sk-secret" not in repr(second.request.http)


def test_a_turn_that_fails(api: API) -> None:
    engine = Engine(ScriptedLLM("fine", RateLimited("slow down")))
    with capture_calls() as calls:
        assert api.method(engine, "submit", "x").text == "fine"
        with pytest.raises(RateLimited):
            api.method(engine, "submit", "y")
    assert calls[0].call.parent != calls[1].call.parent
    assert calls[0].error is None
    assert isinstance(calls[1].error, RateLimited)


def test_other_threads_and_unfinished_streams(api: API) -> None:
    with capture_calls() as calls, ThreadPoolExecutor(1) as pool:
        stream = ScriptedLLM([TextDelta("a"), Finish("end_turn")]).stream_chat("x")
        assert stream.next()
        assert calls[0].response is None
        stream.close()
        pool.submit(ScriptedLLM("Hello").chat, "Hi.").result()
    assert [each.response is None for each in calls] == [True, False]
