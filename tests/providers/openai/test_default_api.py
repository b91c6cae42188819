"""Which protocol `OpenAI` and Azure's v1 endpoint are spoken to in, at a double that refuses what OpenAI refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import toolcast
from support.openai_batches import OpenAIBatchService, VirtualClock
from support.openai_by_rule import OpenAIByRule
from support.sync_and_async import API
from toolcast import (
    Engine,
    Message,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    Session,
    Settings,
    ToolCallPart,
    ToolOrchestratingLLM,
    WebSearch,
    assistant,
    user,
)
from toolcast.errors import BadRequest, StreamTruncated, UnsupportedLLMError
from toolcast.llms.client import client_of
from toolcast.llms.request import ChatRequest
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    ServerToolPart,
    TextPart,
    ToolResultPart,
    VideoPart,
)
from toolcast.stores import SQLiteStore

MODELS = ("gpt-4.1", "gpt-5.4", "gpt-5.6-sol", "gpt-6-luna", "gpt-6.1-sol", "gpt-7-nova")
THINKING: tuple[Any, ...] = (None, "high")
WAV = AudioPart(data=b"RIFF", media_type="audio/wav")
CHAT, RESPONSES = "POST /v1/chat/completions", "POST /v1/responses"
AZURE: dict[str, Any] = {"service": "azure-v1", "base_url": "https://me.openai.azure.com"}


class Album(BaseModel):
    title: str


def look(title: str) -> str:
    """Look at an album."""
    return f"{title} is blue"


@pytest.fixture
def service() -> Iterator[OpenAIByRule]:
    with OpenAIByRule() as double:
        yield double


def llm(double: OpenAIByRule, model: str, **options: Any) -> Any:
    kind = OpenAICompatible if "service" in options else OpenAI
    return kind(model, api_key="k", network=double.network, max_retries=0, **options)


# -- every kind of call, with each model


@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("model", MODELS)
def test_calls_and_streams(service: OpenAIByRule, api: API, model: str, thinking: Any) -> None:
    settings = Settings(thinking=thinking, temperature=0.5)
    used = llm(service, model, settings=settings)
    assert api.chat(used, "Hi").text == "Done."
    assert "".join(getattr(event, "text", "") for event in api.events(used, "Hi")) == "Done."
    make = ToolOrchestratingLLM(Album, "An album", used)
    assert api.call(make).title == "Sea"
    assert [item.title for item in api.stream(make).items][-1] == "Sea"
    assert {*service.log} == {RESPONSES}


@pytest.mark.parametrize("thinking", THINKING)
@pytest.mark.parametrize("model", MODELS)
def test_turns_with_tools(service: OpenAIByRule, model: str, thinking: Any) -> None:
    engine = Engine(llm(service, model, settings=Settings(thinking=thinking)), [look])
    turn = engine.submit("Look at it")
    assert (turn.text, turn.rounds) == ("Done.", 2)
    assert engine.history[2].parts == (ToolResultPart("call_1", "Sea is blue", "look"),)
    assert engine.submit("An album", output_cls=Album).output == Album(title="Sea")
    assert {*service.log} == {RESPONSES}
    assert {request.json["store"] for request in service.created} == {False}


EFFORTS = {
    "o4-mini": "low low high medium",
    "gpt-5": "minimal minimal high medium",
    "gpt-5-pro": "high high high high",
    "gpt-5.1": "none low high medium",
    "gpt-5.3-codex": "low low xhigh medium",
    "gpt-5.4": "none low xhigh medium",
    "gpt-6-luna": "none low xhigh medium",
    "gpt-6-astra": "low low xhigh medium",
    "gpt-6.1-sol": "low low xhigh medium",
    "gpt-7-nova": "low low xhigh medium",
}


@pytest.mark.parametrize("thinking", [False, "minimal", "xhigh", 5000])
@pytest.mark.parametrize("model", EFFORTS)
def test_the_nearest_effort_that_a_model_has(service: OpenAIByRule, model: str, thinking: Any, tmp_path: Path) -> None:
    expected = EFFORTS[model].split()[[False, "minimal", "xhigh", 5000].index(thinking)]
    settings = Settings(thinking=thinking, temperature=0.5)
    used = llm(service, model, settings=settings)
    only_responses = model in ("gpt-5-pro", "gpt-5.3-codex")
    for each in (used,) if only_responses else (used, llm(service, model, settings=settings, api="chat")):
        assert each.chat("Hi").text == "Done."
        notes = client_of(each).preview(ChatRequest((user("Hi"),), settings=settings)).notes
        wanted = {False: "none", 5000: "medium"}.get(thinking, thinking)
        assert any(note.startswith(f"thinking={thinking!r} (") for note in notes) == (wanted != expected)
        assert ("temperature" in notes) == (expected != "none")
    store = SQLiteStore(tmp_path / "chats.db")
    with Session(Engine(used, [look]), id="ada", store=store) as session:
        assert session.run("Look at it").rounds == 2
    with Session.resume("ada", Engine(used, [look]), store) as session:
        assert session.run("An album", output_cls=Album).output == Album(title="Sea")
    assert {request.json["reasoning"]["effort"] for request in service.created} == {expected}
    store.close()


@pytest.mark.parametrize("model", MODELS)
def test_batches(service: OpenAIByRule, model: str) -> None:
    batches = OpenAIBatchService(service.in_a_batch)
    batches.url = "https://api.openai.com/v1"
    used = OpenAI(model, api_key="k", network=batches)
    used.clock = VirtualClock()
    outcomes = list(ToolOrchestratingLLM(Album, "{x}", used).map([{"x": "a"}, {"x": "b"}], via="batch"))
    assert [outcome.output for outcome in outcomes] == [Album(title="Sea")] * 2
    assert {batch["endpoint"] for batch in batches.batches.values()} == {"/v1/responses"}


@pytest.mark.parametrize("model", MODELS)
def test_a_session_that_was_begun_with_chat(service: OpenAIByRule, model: str, tmp_path: Path) -> None:
    """The model that began it takes tools in chat completions; the next one need not."""
    store = SQLiteStore(tmp_path / "chats.db")
    with Session(Engine(llm(service, "gpt-4.1", api="chat"), [look]), id="ada", store=store) as session:
        assert session.run("Look at it").text == "Done."
    assert {*service.log} == {CHAT}
    with Session.resume("ada", Engine(llm(service, model), [look]), store) as session:
        assert session.run("And now?").rounds == 2
        kinds = [item.get("type", item.get("role")) for item in service.created[0].json["input"]]
        assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
    assert {*service.log[2:]} == {RESPONSES}


# -- api="chat"


@pytest.mark.parametrize("thinking", [None, "high", False])
@pytest.mark.parametrize("model", MODELS)
def test_tools_in_chat_are_sent_where_they_are_taken(service: OpenAIByRule, model: str, thinking: Any) -> None:
    """Refused before sending is exactly what the service refuses; typed output alone needs no tool."""
    used = llm(service, model, api="chat", settings=Settings(thinking=thinking))
    always = model in ("gpt-6.1-sol", "gpt-7-nova")
    if always and thinking is False:
        return  # they have no effort `none`
    taken = model == "gpt-4.1" or (not always and (thinking is False or (model == "gpt-5.4" and thinking is None)))
    if taken:
        assert used.chat("Look", tools=[look]).message.tool_calls
    else:
        with pytest.raises(
            BadRequest, match="this model takes no tools in chat completions while it thinks: leave api="
        ):
            used.chat("Look", tools=[look])
        assert service.log == []
    assert used.chat("Hi").text == "Done."
    assert ToolOrchestratingLLM(Album, "An album", used)().title == "Sea"
    assert {*service.log} == {CHAT}


def test_an_address_of_ones_own_speaks_chat(service: OpenAIByRule) -> None:
    used = OpenAI("gpt-4.1", api_key="k", base_url=f"{service.base}/v1")
    assert used.chat("Hi").text == "Done."
    assert OpenAI("gpt-4.1", api_key="k", base_url=f"{service.base}/v1", api="responses").chat("Hi").text == "Done."
    assert service.log == [CHAT, RESPONSES]


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("https://api.openai.com/v1", "/v1/responses"),
        ("https://eu.api.openai.com/v1", "/v1/responses"),
        ("https://eu.api.openai.com/v1/chat/completions", "/v1/chat/completions"),
        ("http://localhost:8000/v1/responses/", "/v1/responses"),
        ("https://api.openai.com.example.com/v1", "/v1/chat/completions"),
        ("https://notapi.openai.com/v1", "/v1/chat/completions"),
        ("http://localhost:8000/v1", "/v1/chat/completions"),
    ],
)
def test_openais_own_addresses(base_url: str, path: str) -> None:
    assert OpenAI("m", api_key="k", base_url=base_url).adapter.base_url.endswith(path)
    assert (
        OpenAIResponses("m", api_key="k", base_url=base_url).adapter.base_url.partition("?")[0].endswith("/responses")
    )


def test_the_choice_is_checked() -> None:
    with pytest.raises(ValueError, match="api: expected 'chat', 'responses' or None, got 'Responses'"):
        OpenAI("m", api="Responses")  # type: ignore[arg-type]  # the error is the subject
    request = ChatRequest((user("Hi"),))
    chat = client_of(toolcast.llm("openai:m", api="chat", api_key="k")).preview(request)
    azure = client_of(toolcast.llm("azure-v1:m", api_key="k", base_url=AZURE["base_url"])).preview(request)
    assert isinstance(toolcast.llm("anthropic:m", api=None, base_model=None), toolcast.Anthropic)
    assert chat and chat.url.endswith("/chat/completions")
    assert azure and azure.url == "https://me.openai.azure.com/openai/v1/responses"


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (OpenAI, {"service": "groq"}, "OpenAI() takes no 'service': leave it out, or use OpenAICompatible"),
        (OpenAIResponses, {"api": "chat"}, "OpenAIResponses() takes no 'api': leave it out, or use OpenAI or"),
        (toolcast.Anthropic, {"base_model": "m"}, "Anthropic() takes no 'base_model': leave it out, or use OpenAI or"),
    ],
)
def test_an_option_of_another_class(kind: Any, options: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)) as found:
        kind("m", api_key="sk-secret", **options)
    assert str(found.value).count("takes no") == 1


def test_a_representation_has_the_protocol_and_the_model() -> None:
    assert repr(OpenAI("m", api="chat", base_model="gpt-5.4")) == "OpenAI('m', api='chat', base_model='gpt-5.4')"
    assert repr(OpenAIResponses("m", base_model="gpt-5.4")) == "OpenAIResponses('m', base_model='gpt-5.4')"
    named = OpenAI("gpt-5.4", base_model="")
    assert (repr(named), named.metadata) == ("OpenAI('gpt-5.4')", OpenAI("gpt-5.4").metadata)


# -- what only one of the protocols carries


@pytest.mark.parametrize(
    ("parts", "settings"),
    [
        (("Hi", WAV), Settings()),
        (("Hi",), Settings(seed=7)),
        (("Hi",), Settings(stop="x")),
        (("Hi",), Settings(max_tokens=15)),
        (("Hi",), Settings(extra={"n": 1})),
        (("Hi",), Settings(extra={"frequency_penalty": 0.5})),
    ],
)
def test_what_only_chat_carries_goes_there(service: OpenAIByRule, api: API, parts: Any, settings: Settings) -> None:
    used = llm(service, "gpt-4.1")
    assert api.chat(used, [user(*parts)], settings=settings).text == "Done."
    assert api.chat(used, "Hi").text == "Done."
    assert service.log == [CHAT, RESPONSES]


AUDIO = {"modalities": ("text", "audio")}
SETTINGS: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 4,
    "max_tokens": 100,
    "stop": "x",
    "seed": 7,
    "thinking": "low",
    "strict": True,
    "adapt": False,
    "service_tier": "auto",
    "logprobs": 2,
    "keep_alive": 5,
    "num_ctx": 4096,
    "check_context": True,
    "modalities": ("text", "audio"),
    "voice": "alloy",
    "audio_format": "wav",
    "aspect_ratio": "1:1",
    "image_size": "1K",
    "cache": "off",
    "prompt_cache_key": "a",
    "prompt_cache_retention": "24h",
    "cached_content": "cachedContents/a",
    "store": True,
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
    "background": True,
    "timeout": 5,
    "extra": {"n": 1},
}
PARTS: dict[str, Any] = {
    "image": ImagePart(data=b"a", media_type="image/png"),
    "image by URL": ImagePart(url="https://host/a.png"),
    "image of a tool": ToolResultPart("1", "x", "look", images=(ImagePart(data=b"a", media_type="image/png"),)),
    "sound": WAV,
    "other sound": AudioPart(data=b"a", media_type="audio/ogg"),
    "video": VideoPart(data=b"a", media_type="video/mp4"),
    "document": DocumentPart(data=b"a", media_type="application/pdf"),
    "document by URL": DocumentPart(url="https://host/a.pdf"),
    "file": FileRef("openai", "file-1", media_type="application/pdf"),
    "file of an image": FileRef("openai", "file-1", media_type="image/png"),
    "file of sound": FileRef("openai", "file-1", media_type="audio/wav"),
}
IN_CHAT = ("stop", "seed", "modalities", "voice", "audio_format", "extra", "sound")
IN_NONE = ("top_k", "thinking", "keep_alive", "num_ctx", "aspect_ratio", "image_size", "cached_content")
NOT_SENT = (*IN_NONE, "other sound", "video", "file of sound")


def with_part(name: str) -> tuple[Message, ...]:
    if name == "image of a tool":
        return (user("Hi"), assistant(ToolCallPart("1", "look", "{}")), Message("tool", (PARTS[name],)))
    return (user("Hi", PARTS[name]),)


@pytest.mark.parametrize("name", [*SETTINGS, *PARTS])
def test_every_setting_and_part_is_carried_by_the_protocol_that_has_it(name: str) -> None:
    """The list of what there is, by protocol; gpt-4.1 does not think."""
    assert SETTINGS.keys() == {field.name for field in fields(Settings)}
    messages = (user("Hi"),) if name in SETTINGS else with_part(name)
    settings = Settings()
    if name in SETTINGS:
        settings = Settings(**{**(AUDIO if name in ("voice", "audio_format") else {}), name: SETTINGS[name]})

    def carried_by(api: Any) -> str:
        try:
            request = client_of(OpenAI("gpt-4.1", api=api, api_key="k")).preview(
                ChatRequest(messages, settings=settings)
            )
        except BadRequest:
            return "none"
        assert request is not None
        return "none" if name in request.notes else request.url.rpartition("/")[2]

    expected = "completions" if name in IN_CHAT else "none" if name in NOT_SENT else "responses"
    assert carried_by(None) == expected
    if name != "extra":  # which is sent as it is
        assert carried_by("responses") == ("none" if expected == "completions" else expected)
    if name in IN_CHAT:
        assert carried_by("chat") == "completions"
    elif expected == "none":
        assert carried_by("chat") == "none"


@pytest.mark.parametrize("model", ["gpt-audio-1.5", "gpt-4o-audio-preview", "gpt-4o-search-preview"])
def test_a_model_with_chat_alone(service: OpenAIByRule, model: str) -> None:
    assert llm(service, model).chat("Hi").text == "Done."
    assert service.log == [CHAT]


def test_a_model_without_chat(service: OpenAIByRule) -> None:
    used = llm(service, "gpt-5-pro")
    assert used.chat("Hi", settings=Settings(seed=1)).text == "Done."
    assert client_of(used).preview(ChatRequest((user("Hi"),), settings=Settings(seed=1))).notes == ("seed",)
    assert service.log == [RESPONSES]
    with pytest.raises(BadRequest, match="this model has no chat completions: leave api='chat' out"):
        llm(service, "gpt-5-pro", api="chat").chat("Hi")


def test_the_protocol_that_a_model_does_not_have(service: OpenAIByRule) -> None:
    with pytest.raises(BadRequest, match="this model has no Responses API: leave api='responses' out, or use OpenAI "):
        OpenAIResponses("gpt-audio", api_key="k", network=service.network).chat("Hi")
    for settings, what in (
        (Settings(max_tokens=15), "max_tokens below 16"),
        (Settings(extra={"n": 2}), "extra['n']"),
        (Settings(modalities=("text", "audio")), "audio output"),
    ):
        text = f"take {what}, and only the Responses API takes this model: leave out or change one of them"
        with pytest.raises(BadRequest, match=re.escape(text)):
            llm(service, "gpt-5-pro").chat("Hi", settings=settings)
    assert service.log == []


@pytest.mark.parametrize(
    ("settings", "tools", "other"),
    [
        (Settings(seed=1), [look], "tools of a model that thinks"),
        (Settings(seed=1), [WebSearch()], "tools that the provider runs"),
        (Settings(seed=1, previous_response_id="resp_1"), [], "previous_response_id"),
        (Settings(seed=1, conversation="conv_1"), [], "conversation"),
        (Settings(seed=1, background=True), [], "background"),
    ],
)
def test_what_no_protocol_carries_is_refused(
    service: OpenAIByRule, api: API, settings: Settings, tools: Any, other: str
) -> None:
    with pytest.raises(BadRequest, match=rf"\(api='chat'\) take seed, and only the Responses API takes {other}"):
        api.chat(llm(service, "gpt-5.6-sol"), "Hi", tools=tools, settings=settings)
    assert service.log == []


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("image of a tool", "images in the result of a tool"),
        ("document by URL", "DocumentPart by URL"),
        ("file of an image", "FileRef of an image"),
    ],
)
@pytest.mark.parametrize(
    ("settings", "what"), [(Settings(seed=7), "seed"), (Settings(modalities=("audio",)), "audio output")]
)
def test_a_part_beside_what_only_chat_carries(name: str, other: str, settings: Settings, what: str) -> None:
    with pytest.raises(BadRequest, match=f"take {what}, and only the Responses API takes {other}"):
        client_of(OpenAI("gpt-4.1", api_key="k")).preview(ChatRequest(with_part(name), settings=settings))


def test_an_image_of_the_model_beside_what_only_chat_carries() -> None:
    image = ImagePart(data=b"a", media_type="image/png", opaque={"provider": "openai", "responses": {"id": "ig_1"}})
    messages = (user("Draw"), assistant(image), user("Listen", WAV))
    with pytest.raises(BadRequest, match="take AudioPart, and only the Responses API takes images that the model has"):
        client_of(OpenAI("gpt-4.1", api_key="k")).preview(ChatRequest(messages))


def test_blocks_of_tools_that_openai_ran_are_left_out_of_chat(service: OpenAIByRule) -> None:
    """As for any protocol that takes none back, whether the caller or a request chooses chat."""
    searched = ServerToolPart("web_search", "ws_1", raw={"id": "ws_1", "type": "web_search_call"}, provider="openai")
    messages = (user("Hi"), assistant(searched, TextPart("Rain.")), user("And this?", WAV))
    requests = [client_of(OpenAI("m", api_key="k", api=api)).preview(ChatRequest(messages)) for api in (None, "chat")]
    first, second = [json.loads(request.body)["messages"] for request in requests if request]
    assert first == second
    assert first[1] == {"role": "assistant", "content": "Rain."}


@pytest.mark.parametrize(
    ("model", "parts", "settings"),
    [
        ("gpt-4.1", ("Hi", WAV), Settings()),
        ("gpt-4.1", ("Hi",), Settings(modalities=("text", "audio"))),
        ("gpt-audio", ("Hi",), Settings()),
    ],
)
def test_tokens_of_audio_are_estimated(service: OpenAIByRule, api: API, model: str, parts: Any, settings: Any) -> None:
    """OpenAI counts those of the Responses API alone, which takes no audio."""
    for chosen in (None, "chat"):
        count = api.method(llm(service, model, api=chosen), "count_tokens", [user(*parts)], settings=settings)
        assert count.estimated
    assert service.log == []


def test_a_cache_distinguishes_the_protocols(service: OpenAIByRule) -> None:
    used = toolcast.llms.CachedLLM(llm(service, "gpt-4.1"))
    for settings in (Settings(), Settings(seed=7), Settings(), Settings(seed=7)):
        assert used.chat("Hi", settings=settings).text == "Done."
    assert service.log == [RESPONSES, CHAT]
    keys = [
        json.dumps(client_of(llm(service, "gpt-4.1", api=api)).cache_data(ChatRequest((user("Hi"),))))
        for api in ("chat", None)
    ]
    assert "chat/completions" in keys[0] and "responses" in keys[1]


def test_system_messages_alone(service: OpenAIByRule) -> None:
    assert llm(service, "gpt-5.4").chat([toolcast.system("Begin.")]).text == "Done."
    assert service.created[0].json["input"] == [{"role": "system", "content": "Begin."}]


# -- what a model or an organization may not have


def test_encrypted_thoughts_are_left_out_once_they_are_refused(service: OpenAIByRule, api: API) -> None:
    service.hides = "gpt-4.1"
    used = llm(service, "my-deployment", **AZURE)
    for _ in range(2):
        assert api.chat(used, "Hi").text == "Done."
    assert len(service.log) == 3
    assert ["include" in request.json for request in service.created] == [False, False]
    named = llm(service, "my-deployment", base_model="gpt-4.1", **AZURE)
    assert api.chat(named, "Hi").text == "Done."
    assert len(service.log) == 4
    assert named.metadata.model_name == "my-deployment"
    assert named.metadata.context_window == llm(service, "gpt-4.1").metadata.context_window
    client_of(named).require_prices()
    with pytest.raises(UnsupportedLLMError, match="needs the prices of azure-v1 my-deployment"):
        client_of(used).require_prices()


def test_summaries_are_left_out_once_they_are_refused(service: OpenAIByRule, api: API) -> None:
    service.unverified = True
    used = llm(service, "gpt-5.4", settings=Settings(thinking="low"))
    report = api.chat(used, "Hi")
    assert report.text == api.chat(used, "Hi").text == "Done."
    assert len(service.log) == 3
    assert [request.json["reasoning"] for request in service.created] == [{"effort": "low"}] * 2


def test_another_refusal_is_an_error_at_once(service: OpenAIByRule, api: API) -> None:
    with pytest.raises(BadRequest, match="Unknown parameter: 'colour'"):
        api.chat(llm(service, "gpt-5.4"), "Hi", settings=Settings(extra={"colour": 1}))
    assert len(service.log) == 1


# -- batches


def test_a_batch_that_was_submitted_as_chat_is_read(service: OpenAIByRule) -> None:
    request = ChatRequest((user("Hi"),))
    _, body = service.in_a_batch({"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hi"}]})
    decoder = client_of(llm(service, "gpt-4.1")).decoder(request, json.dumps(body).encode())
    events = [*decoder.feed(json.dumps(body).encode()), *decoder.close()]
    assert "".join(getattr(event, "text", "") for event in events) == "Done."


def test_a_batch_has_one_protocol(service: OpenAIByRule) -> None:
    batches = OpenAIBatchService(service.in_a_batch)
    batches.url = "https://api.openai.com/v1"
    choices: tuple[tuple[Any, int], ...] = ((None, 0), ("chat", 1))
    for chosen, count in choices:
        used = OpenAI("gpt-4.1", api=chosen, api_key="k", network=batches, settings=Settings(seed=7))
        used.clock = VirtualClock()
        (outcome,) = ToolOrchestratingLLM(Album, "{x}", used).map([{"x": "a"}], via="batch")
        assert len(batches.batches) == count
        if chosen is None:
            assert "give the LLM of the job api='chat'" in str(outcome.error)
        else:
            assert outcome.output == Album(title="Sea")


def test_a_batch_that_is_refused_for_encrypted_thoughts_names_base_model(service: OpenAIByRule) -> None:
    """The service refuses each request by itself, and none is sent again without them."""
    service.hides = "gpt-4.1"
    batches = OpenAIBatchService(service.in_a_batch)
    batches.url = "https://api.openai.com/v1"
    errors: list[str] = []
    for model in (None, "gpt-4.1"):
        used = OpenAI("my-deployment", base_model=model, api_key="k", network=batches)
        used.clock = VirtualClock()
        (outcome,) = ToolOrchestratingLLM(Album, "{x}", used).map([{"x": "a"}], via="batch")
        errors.append(str(outcome.error))
    assert "Encrypted content is not supported with this model. Pass base_model= with the name" in errors[0]
    assert errors[1] == "None"


# -- beside these


def test_many_first_requests_at_once(service: OpenAIByRule) -> None:
    """Each is sent again without what was refused in it, also where another one has found that out before."""
    service.hides = "gpt-4.1"
    used = llm(service, "my-deployment", **AZURE)
    with ThreadPoolExecutor(8) as threads:
        assert [each.text for each in threads.map(lambda _: used.chat("Hi"), range(8))] == ["Done."] * 8
    service.unverified = True
    asked = Settings(extra={"reasoning": {"effort": "low", "summary": "auto"}})
    before = len(service.log)
    with pytest.raises(BadRequest, match="must be verified"):
        used.chat("Hi", settings=asked)
    assert len(service.log) == before + 1


@pytest.mark.parametrize("api", [None, "chat", "responses"])
def test_a_response_is_read_as_what_it_is(service: OpenAIByRule, api: Any) -> None:
    tools = [{"type": "function", "function": {"name": "Album"}}]
    _, chat = service.in_a_batch({"model": "gpt-4.1", "messages": [{"role": "user"}], "tools": tools})
    _, response = service.in_a_batch({"model": "gpt-4.1", "input": [{"role": "user"}], "tools": [{"name": "Album"}]})
    make = ToolOrchestratingLLM(Album, "x", toolcast.llms.CachedLLM(llm(service, "gpt-4.1", api=api)))
    assert make.parse(json.dumps(chat)) == make.parse(response) == Album(title="Sea")
    with pytest.raises(StreamTruncated):
        make.parse('["chat.completion"')


@pytest.mark.parametrize(
    ("model", "takes_tools"),
    [
        *[(name, True) for name in ("gpt-35-turbo", "gpt-41-mini", "sales-pro", "my-codex", "gpt-4o", "gpt-5.3")],
        *[(name, True) for name in ("ft:gpt-4.1:acme:my-pro-x:1", "ft:gpt-4.1:acme:my-codex:1", "gpt-5.4")],
        *[(name, False) for name in ("gpt-5.6", "gpt-10", "ft:gpt-6.1-sol:acme::1", "o3-pro", "gpt-5-pro-2026-01-01")],
        *[(name, False) for name in ("gpt-5.3-codex", "codex-mini-latest", "gpt-6-cyber", "o3-deep-research")],
    ],
)
def test_what_the_name_of_a_model_says(model: str, takes_tools: bool) -> None:
    used = OpenAI(model, api="chat", api_key="k")
    request = ChatRequest((user("Hi"),), tools=(toolcast.CallableTool.from_function(look),))
    if takes_tools:
        assert client_of(used).preview(request)
    else:
        with pytest.raises(BadRequest, match="leave api='chat' out"):
            client_of(used).preview(request)


@pytest.mark.parametrize("settings", [Settings(seed=7), Settings(max_tokens=5)])
def test_typed_output_alone_needs_no_tools_in_chat(service: OpenAIByRule, api: API, settings: Settings) -> None:
    assert api.call(ToolOrchestratingLLM(Album, "x", llm(service, "gpt-5.6-sol", settings=settings))).title == "Sea"
    assert service.log == [CHAT]


def test_a_response_of_chat_is_not_continued(service: OpenAIByRule) -> None:
    engine = Engine(llm(service, "gpt-4.1", settings=Settings(previous_response_id="auto")))
    for message in (user("Hi", WAV), "And?", "And?"):
        assert engine.submit(message).text == "Done."
    assert service.log == [CHAT] * 3


@pytest.mark.parametrize("name", ["text", "truncation", "reasoning", "max_output_tokens"])
def test_words_of_both_protocols(name: str) -> None:
    settings = Settings(seed=1, extra={name: 1, "stop": None})
    with pytest.raises(BadRequest, match=rf"take seed, and only the Responses API takes extra\['{name}'\]"):
        client_of(OpenAI("gpt-4.1", api_key="k")).preview(ChatRequest((user("Hi"),), settings=settings))
    request = client_of(OpenAI("gpt-4.1", api_key="k")).preview(ChatRequest((user("Hi"),), settings=Settings(stop=())))
    assert request and request.url.endswith("/responses")


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({"service": "azure-v1", "base_url": "https://me.openai.azure.com/openai/v1/responses"}, "responses"),
        (
            {"service": "azure-v1", "base_url": "https://me.openai.azure.com/openai/v1/chat/completions"},
            "chat/completions",
        ),
        ({"base_url": "https://me.openai.azure.com/openai/v1/responses/", "api": "chat"}, "chat/completions"),
    ],
)
def test_the_endpoint_of_another_protocol(options: Any, url: str) -> None:
    assert (
        OpenAICompatible("m", api_key="k", **options).adapter.base_url == f"https://me.openai.azure.com/openai/v1/{url}"
    )


def test_a_region_is_openai_by_its_address_alone() -> None:
    used = OpenAICompatible("m", api_key="k", base_url="https://eu.api.openai.com/v1")
    assert (used.metadata.provider, used.adapter.base_url) == ("openai", "https://eu.api.openai.com/v1/responses")


def test_a_fallback_has_a_key_in_a_cache_though_one_llm_would_refuse(service: OpenAIByRule) -> None:
    both = toolcast.FallbackLLM([llm(service, "gpt-4.1"), llm(service, "gpt-5.6-sol")])
    used = toolcast.llms.CachedLLM(both)
    assert used.chat("Hi", tools=[look], settings=Settings(seed=1)).message.tool_calls
    assert service.log == [CHAT]
