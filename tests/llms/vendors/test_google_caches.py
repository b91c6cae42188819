"""Cached content at Google over real HTTP: creation, use, renewal, deletion; on Vertex AI by its requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from support.cached_contents import CachedContents
from support.loopback import Loopback, whole
from support.sync_and_async import API
from toolcast import Engine, Google, OpenAI, Settings, ToolOrchestratingLLM, assistant, system, user
from toolcast.errors import AuthFailed, BadRequest, MalformedEvent
from toolcast.llms import CachedContent
from toolcast.llms.client import client_of
from toolcast.messages import CachePoint

LONG = "x" * 4 * 1_100
MODEL = "gemini-2.5-flash"


class Weather(BaseModel):
    """The weather."""

    city: str
    degrees: int


def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"{city}: 4 degrees"


@pytest.fixture
def service() -> Iterator[CachedContents]:
    with CachedContents() as double:
        yield double


def gemini(service: CachedContents, **options: Any) -> Google:
    return Google(MODEL, api_key="key", base_url=service.base, max_retries=0, **options)


def method(api: API, llm: Any, called: str, *args: Any, **options: Any) -> Any:
    return api.method(Bound(llm, options), called, *args)  # type: ignore[arg-type]  # it has the methods


class Bound:
    """An LLM whose methods get these options; `API.method` has a `name` of its own."""

    def __init__(self, llm: Any, options: dict[str, Any]) -> None:
        self._llm, self._options = llm, options

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(self._llm, name), **self._options)


def test_the_documented_example(service: CachedContents, api: API) -> None:
    # ai.google.dev/gemini-api/docs/caching: a cache with a system instruction and a file, for 300 seconds
    llm = gemini(service)
    cache = method(
        api, llm, "create_cache", [system("You are an expert analyzing transcripts."), user(LONG)], ttl=300, name="a11"
    )
    assert service.created == [
        {
            "model": "models/gemini-2.5-flash",
            "contents": [{"role": "user", "parts": [{"text": LONG}]}],
            "systemInstruction": {"parts": [{"text": "You are an expert analyzing transcripts."}]},
            "ttl": "300s",
            "displayName": "a11",
        }
    ]
    assert (cache.name, cache.model, cache.display_name) == ("cachedContents/c0", MODEL, "a11")
    assert (cache.expires, cache.tokens) == (service.now + 300, service.caches[cache.name]["tokens"])
    response = api.chat(llm, "Please summarize this transcript", settings=Settings(cached_content=cache))
    assert service.bodies == [
        {
            "contents": [{"role": "user", "parts": [{"text": "Please summarize this transcript"}]}],
            "cachedContent": "cachedContents/c0",
        }
    ]
    assert response.usage.cache_read_tokens == cache.tokens
    assert response.usage.input_tokens > cache.tokens


def test_the_life_of_a_cache(service: CachedContents, api: API) -> None:
    llm = gemini(service)
    cache = method(api, llm, "create_cache", LONG)
    assert cache.expires == service.now + 3_600
    service.now += 3_000
    renewed = method(api, llm, "renew_cache", cache, ttl=0.5 * 3_600)
    assert renewed.expires == service.now + 1_800
    assert renewed.parts == cache.parts
    assert method(api, llm, "describe_cache", renewed) == renewed
    found = method(api, llm, "describe_cache", cache.name)
    assert (found.name, found.model, found.tokens, found.parts) == (cache.name, MODEL, cache.tokens, ())
    assert api.chat(llm, "Hi", settings=Settings(cached_content=cache.name)).text == "Yes."
    assert method(api, llm, "delete_cache", renewed) is None
    for name, options in (("describe_cache", {}), ("renew_cache", {"ttl": 9}), ("delete_cache", {})):
        with pytest.raises(AuthFailed, match="CachedContent not found"):
            method(api, llm, name, cache, **options)


def test_an_expired_cache_is_an_error(service: CachedContents, api: API) -> None:
    llm = gemini(service)
    cache = method(api, llm, "create_cache", LONG, ttl=60)
    service.now += 61
    with pytest.raises(AuthFailed, match="CachedContent not found"):
        api.chat(llm, "Hi", settings=Settings(cached_content=cache))


def test_too_little_to_cache(service: CachedContents, api: API) -> None:
    with pytest.raises(BadRequest, match="too small"):
        method(api, gemini(service), "create_cache", "Hi")
    with pytest.raises(BadRequest, match="expected at least one message"):
        method(api, gemini(service), "create_cache", [])
    with pytest.raises(ValueError, match="ttl=0"):
        method(api, gemini(service), "create_cache", LONG, ttl=0)


def test_an_engine_with_a_cache(service: CachedContents, api: API) -> None:
    llm = gemini(service, system_prompt=LONG)
    cache = method(api, llm, "create_cache", [system("Be short.")], [weather])
    assert "contents" not in service.created[0]
    engine = Engine(llm, [weather], instructions="Be short.", settings=Settings(cached_content=cache))
    service.answer = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
    with service.lock:
        stream = iter([service.answer, {"text": "4 degrees."}])
    service.processed = lambda line: setattr(service, "answer", next(stream, {"text": "4 degrees."}))
    next(stream)
    assert api.method(engine, "submit", "How is the weather in Oslo?").text == "4 degrees."
    assert [sorted(body) for body in service.bodies] == [["cachedContent", "contents"]] * 2
    assert engine.usage.cache_read_tokens == 2 * cache.tokens


def test_a_conversation_that_begins_with_the_cache(service: CachedContents, api: API) -> None:
    llm = gemini(service)
    begin = [system("Be short."), user(LONG, CachePoint(), "What is it?"), assistant("It is x."), user("And")]
    cache = method(api, llm, "create_cache", begin)
    api.chat(llm, [*begin, user("how long?")], settings=Settings(cached_content=cache))
    api.chat(llm, [user("how long?")], settings=Settings(cached_content=cache))
    api.chat(llm, [user("Other"), user("how long?")], settings=Settings(cached_content=cache))
    question = {"text": "how long?"}
    assert [body["contents"] for body in service.bodies] == [
        [{"role": "user", "parts": [question]}],
        [{"role": "user", "parts": [question]}],
        [{"role": "user", "parts": [{"text": "Other"}, question]}],
    ]


def test_typed_output_with_a_cache(service: CachedContents, api: API) -> None:
    llm = gemini(service)
    cache = method(api, llm, "create_cache", LONG)
    service.answer = {"text": '{"city": "Oslo", "degrees": 4}'}
    make = ToolOrchestratingLLM(Weather, "Weather in {city}?", llm, settings=Settings(cached_content=cache))
    assert api.call(make, city="Oslo") == Weather(city="Oslo", degrees=4)
    (body,) = service.bodies
    assert body["generationConfig"]["responseMimeType"] == "application/json"
    with pytest.raises(BadRequest, match="tools cannot be sent beside cached_content"):
        api.call(make.with_(mode="tool_call"), city="Oslo")


@pytest.mark.parametrize(
    ("messages", "options", "message"),
    [
        ([system("Else."), user("a")], {}, "system messages cannot be sent beside .* which has others"),
        ([user("a")], {"tools": [weather]}, "tools cannot be sent beside .* which has none"),
        ([system("Be short."), user(LONG)], {}, "all messages are in cached_content='cachedContents/c0'"),
    ],
)
def test_what_cannot_stand_beside_a_cache(service: CachedContents, messages: Any, options: Any, message: str) -> None:
    llm = gemini(service)
    cache = llm.create_cache([system("Be short."), user(LONG)])
    with pytest.raises(BadRequest, match=message):
        llm.chat(messages, settings=Settings(cached_content=cache), **options)
    assert service.bodies == []


def test_system_messages_beside_a_name_alone(service: CachedContents) -> None:
    with pytest.raises(BadRequest, match=r"system messages cannot be sent beside .* which has none"):
        gemini(service).chat([system("s"), user("a")], settings=Settings(cached_content="cachedContents/c0"))


def test_a_cache_of_another_model(service: CachedContents) -> None:
    cache = gemini(service).create_cache(LONG)
    other = Google("gemini-2.5-pro", api_key="key", base_url=service.base)
    with pytest.raises(BadRequest, match=r"is for gemini-2\.5-flash, got a request to gemini-2\.5-pro"):
        other.chat("a", settings=Settings(cached_content=cache))


def test_a_cache_elsewhere_is_an_error() -> None:
    with pytest.raises(BadRequest, match="is stored at Google, and openai cannot read it"):
        OpenAI("gpt-4o", api_key="k").chat("a", settings=Settings(cached_content="cachedContents/c0"))


@pytest.mark.parametrize("name", ["c0", "cachedContents/../x", "cachedContents/c0?x", "files/c0"])
def test_names(service: CachedContents, name: str) -> None:
    llm = gemini(service)
    with pytest.raises(BadRequest, match="expected a name such as 'cachedContents/abc'"):
        llm.chat("a", settings=Settings(cached_content=name))
    with pytest.raises(BadRequest, match="expected a name such as 'cachedContents/abc'"):
        llm.delete_cache(name)
    assert service.log == []


def test_a_name_that_is_none() -> None:
    with Loopback() as server:
        server.answer(whole(b'{"name": "cachedContents/../x"}', 200, "content-type: application/json"))
        llm = Google(MODEL, api_key="key", base_url=f"http://127.0.0.1:{server.port}")
        with pytest.raises(MalformedEvent, match="expected cachedContents/ID"):
            llm.create_cache("a")


def test_the_tool_choice_is_a_part_of_the_cache(service: CachedContents) -> None:
    llm = gemini(service)
    cache = llm.create_cache(LONG, [weather], tool_choice="required")
    assert service.created[0]["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    settings = Settings(cached_content=cache)
    llm.chat("a", tools=[weather], tool_choice="required", settings=settings)
    with pytest.raises(BadRequest, match="tool choice cannot be sent beside"):
        llm.chat("a", tools=[weather], tool_choice="auto", settings=settings)


def test_vertex() -> None:
    described = {
        "name": "projects/123/locations/us-central1/cachedContents/456",
        "model": "projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash",
        "expireTime": "2027-01-15T08:00:00Z",
    }
    with Loopback() as server:
        for _ in range(4):
            server.answer(whole(json.dumps(described).encode(), 200, "content-type: application/json"))
        address = f"http://127.0.0.1:{server.port}/v1/projects/p/locations/us-central1/publishers/google"
        llm = Google(MODEL, base_url=address, api_key="key")
        cache = llm.create_cache("a")
        assert llm.describe_cache(cache.name).model == MODEL
        llm.renew_cache(cache, ttl=60)
        llm.delete_cache(cache)
        lines = [request.line.rpartition(" ")[0] for request in server.requests]
        created = json.loads(server.requests[0].body)
    name = "/v1/projects/123/locations/us-central1/cachedContents/456"
    assert lines == [
        "POST /v1/projects/p/locations/us-central1/cachedContents",
        f"GET {name}",
        f"PATCH {name}",
        f"DELETE {name}",
    ]
    assert created["model"] == described["model"]
    found = client_of(llm).preview(
        client_of(llm).build_request("q", (), None, Settings(cached_content=cache), parallel=True)
    )
    assert found is not None
    assert json.loads(found.body)["cachedContent"] == described["name"]


def test_express_mode_has_no_caches() -> None:
    llm = Google(MODEL, api_key="key", base_url="http://host/v1/publishers/google")
    with pytest.raises(BadRequest, match="needs a project of Vertex AI"):
        llm.create_cache("a")


def test_a_cache_is_a_part_of_the_key_of_an_answer() -> None:
    llm = Google(MODEL, api_key="key")
    cache = CachedContent("cachedContents/c0", MODEL)
    keys = [
        client_of(llm).build_request("a", (), None, settings, parallel=True).to_dict()["settings"]
        for settings in (Settings(), Settings(cached_content=cache), Settings(cached_content=cache.name))
    ]
    assert keys == [{}, {"cached_content": "cachedContents/c0"}, {"cached_content": "cachedContents/c0"}]
