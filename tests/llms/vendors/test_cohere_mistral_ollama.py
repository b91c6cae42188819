"""The ready-made LLMs: their keys and addresses, and the embedded model with a fake in the place of its server."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import toolcast
from support.albums import SEA, SHORT, Album
from support.chunks import delta, sse, text_body
from support.local_server import Local
from support.sync_and_async import API
from toolcast import (
    Anthropic,
    AnthropicVertex,
    Cohere,
    Engine,
    FunctionCallingLLM,
    Google,
    LlamaCpp,
    Mistral,
    Ollama,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    Settings,
    ToolOrchestratingLLM,
    llm,
)
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    ConnectFailed,
    EmptyResponse,
    MalformedEvent,
    NoToolCallError,
    UnsupportedLLMError,
)
from toolcast.events import Event, TextDelta
from toolcast.llms import LLMMetadata
from toolcast.llms.local.llama_server import ServerOptions
from toolcast.testing import Recorded, ReplayNetwork, VirtualClock
from toolcast.values.credentials import Secret

JSON = {"content-type": "application/json"}
OBEYS = Recorded([json.dumps({"choices": [{"text": "{"}]}).encode()], headers=JSON)
IGNORES = Recorded([json.dumps({"choices": [{"text": " Paris"}]}).encode()], headers=JSON)


SHORT_ANSWER = json.dumps(
    {
        "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    }
).encode()  # fmt: skip


def answered(album: Album) -> Recorded:
    """The album as the embedded model writes it: JSON in the text of the answer."""
    return Recorded([text_body(album.model_dump_json())], headers=JSON)


def streamed(album: Album) -> Recorded:
    text = album.model_dump_json()
    return Recorded(sse(*(delta(content=text[at : at + 4]) for at in range(0, len(text), 4)), delta("stop")))


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Local:
    return Local.used_by(monkeypatch)


def albums(*answers: Recorded | BaseException, **options: Any) -> tuple[Any, ReplayNetwork]:
    network = ReplayNetwork(*answers)
    return ToolOrchestratingLLM(Album, "x", LlamaCpp(network=network, **options)), network


def paths(network: ReplayNetwork) -> list[str]:
    return [request.url.removeprefix("http://127.0.0.1:") for request in network.requests]


# -- the embedded model -------------------------------------------------------------------------------------------


def test_it_can_be_loaded_ahead(local: Local) -> None:
    text: list[tuple[int, int]] = []
    llm = LlamaCpp()
    llm.load(lambda done, total: text.append((done, total)))
    assert set(local.pulled) == {"smollm2"} and set(local.asked) == {(Path("/cache/smollm2.gguf"), None)}
    assert text == [(50, 100), (0, 1), (1, 1)]  # the start is reported, too
    assert local.server.running
    llm.load()


def test_a_model_of_a_service_has_nothing_to_load() -> None:
    OpenAI("gpt-5", api_key="k", network=ReplayNetwork()).load()


def test_the_first_call_fetches_starts_and_probes(local: Local, api: API) -> None:
    make, network = albums(OBEYS, answered(SEA), streamed(SHORT))
    assert local.pulled == []
    assert api.call(make) == SEA
    assert local.pulled == ["smollm2"]
    assert local.asked == [(Path("/cache/smollm2.gguf"), None)]
    assert paths(network) == ["9001/v1/completions", "9001/v1/chat/completions"]
    probe = json.loads(network.requests[0].body)
    assert probe["max_tokens"] == 1
    assert probe["grammar"] == json.loads(network.requests[1].body)["grammar"]
    for request in network.requests:
        assert request.headers["authorization"] == Secret("Bearer local-key")
    seen = api.stream(make)
    assert seen.final == SHORT
    assert len(seen.items) > 3
    assert paths(network)[2:] == ["9001/v1/chat/completions"]
    assert network.open_replies == 0


def test_an_async_caller_starts_it_in_a_worker_thread(local: Local, api: API) -> None:
    make, _ = albums(OBEYS, answered(SEA))
    api.call(make)
    own = threading.current_thread()
    assert all((thread is own) is (api.name not in ("asyncio", "trio")) for thread in local.server.threads)


def test_a_server_started_again_is_found_and_probed_again(local: Local, api: API) -> None:
    make, network = albums(OBEYS, answered(SEA), OBEYS, answered(SHORT))
    assert api.call(make) == SEA
    local.server.close()
    assert api.call(make) == SHORT
    assert paths(network)[2:] == ["9002/v1/completions", "9002/v1/chat/completions"]


def test_each_type_is_probed_once(local: Local) -> None:
    make, network = albums(
        OBEYS, answered(SEA), OBEYS, Recorded([text_body('{"value": 7}')], headers=JSON), answered(SEA)
    )
    assert make() == SEA
    assert ToolOrchestratingLLM(int, "x", make.llm)() == 7
    assert make() == SEA
    assert [path.endswith("chat/completions") for path in paths(network)] == [False, True, False, True, True]


def test_a_server_that_ignores_the_schema_is_reported_of(local: Local, api: API) -> None:
    make, network = albums(IGNORES, IGNORES)
    with pytest.raises(BadRequest, match=r"does not enforce the schema of Album.*Paris") as caught:
        api.call(make)
    assert (caught.value.provider, caught.value.model) == ("llama.cpp", "smollm2")
    assert isinstance(api.stream(make).error, BadRequest)
    assert paths(network) == ["9001/v1/completions"] * 2
    assert network.open_replies == 0


def test_a_probe_that_is_answered_with_something_else(local: Local, api: API) -> None:
    answers = [Recorded([b"<html>"], headers=JSON)] * 3
    make, network = albums(*answers, max_retries=0)
    with pytest.raises(MalformedEvent, match="no completion"):
        api.call(make)
    assert network.open_replies == 0


def test_a_probe_that_breaks_off_gives_its_connection_back_and_is_retried(local: Local, api: API) -> None:
    make, network = albums(Recorded([b"{", ConnectFailed("gone")], headers=JSON), OBEYS, answered(SEA))
    make.llm.clock = clock = VirtualClock()
    assert api.call(make) == SEA
    assert network.open_replies == 0
    assert len(clock.slept) == 1


def test_text_needs_no_probe(local: Local, api: API) -> None:
    network = ReplayNetwork(Recorded([text_body("Hello")], headers=JSON))
    assert api.chat(LlamaCpp(network=network), "Hi").text == "Hello"
    assert paths(network) == ["9001/v1/chat/completions"]
    assert "grammar" not in json.loads(network.requests[0].body)


def test_a_file_is_used_as_it_is_with_its_options(local: Local, tmp_path: Path) -> None:
    options = ServerOptions(context=512)
    make = ToolOrchestratingLLM(Album, "x", LlamaCpp(tmp_path / "m.gguf", server=options, network=ReplayNetwork(OBEYS)))
    with pytest.raises(toolcast.ToolcastError, match="another request was made"):
        make()
    assert local.asked == [(tmp_path / "m.gguf", options)]
    assert local.pulled == []


def test_what_is_known_of_an_embedded_model() -> None:
    assert LlamaCpp().metadata == toolcast.llms.LLMMetadata("smollm2", "llama.cpp", context_window=4096)
    assert LlamaCpp("m.gguf", server=ServerOptions(context=512)).metadata.context_window == 512
    assert llm("local:other.gguf").metadata.model_name == "other.gguf"


def test_a_preview_starts_nothing(local: Local) -> None:
    make, network = albums()
    preview = make.preview()
    assert preview.mode == "grammar"
    assert "grammar" in preview.body
    assert make.with_(tool_choice="none").preview().mode == "tool_call"
    assert local.asked == []
    assert network.requests == []


def test_native_tools_are_left_to_the_template(local: Local, api: API) -> None:
    network = ReplayNetwork(Recorded([text_body("No album.")], headers=JSON))
    made = LlamaCpp(network=network, native_tools=True)
    assert api.chat(made, "Hi", tools=[Album], tool_choice="auto").text == "No album."
    body = json.loads(network.requests[0].body)
    assert body["tools"][0]["function"]["name"] == "Album"
    assert "grammar" not in body


# -- services -----------------------------------------------------------------------------------------------------


def test_a_setting_that_is_not_sent_is_warned_of_once(caplog: pytest.LogCaptureFixture, api: API) -> None:
    network = ReplayNetwork(*[Recorded([text_body("a")], headers=JSON)] * 3)
    made = OpenAI("m-1", api="chat", api_key="k", network=network)
    for settings in (Settings(top_k=5), Settings(top_k=5), None):
        api.chat(made, "x", settings=settings)
    assert caplog.text.count("top_k is not supported and was not sent") == 1
    assert all("top_k" not in json.loads(request.body) for request in network.requests)


def test_a_warning_names_what_was_sent_instead(caplog: pytest.LogCaptureFixture) -> None:
    network = ReplayNetwork(Recorded([SHORT_ANSWER], headers=JSON))
    Anthropic("claude-opus-5-5", api_key="k", network=network).chat("Hi", settings=Settings(thinking=False))
    assert "claude-opus-5-5: thinking=False (the least effort, 'low', was sent)\n" in caplog.text


def test_headers_that_are_awaited(api: API) -> None:
    async def token() -> dict[str, str]:
        return {"Authorization": "Bearer awaited"}

    network = ReplayNetwork(Recorded([text_body("a")], headers=JSON))
    api.chat(OpenAI("m-1", api="chat", auth=token, network=network), "x")
    assert network.requests[0].headers["authorization"] == Secret("Bearer awaited")


def test_headers_are_made_anew_for_each_request_and_off_the_event_loop(api: API) -> None:
    made: list[int] = []

    def token() -> dict[str, str]:
        made.append(threading.get_ident())
        return {"Authorization": f"Bearer {len(made)}"}

    network = ReplayNetwork(*[Recorded([text_body("a")], headers=JSON)] * 2)
    service = OpenAI("m-1", api="chat", auth=token, network=network)
    api.chat(service, "x")
    api.chat(service, "x")
    assert [sent.headers["authorization"] for sent in network.requests] == [Secret("Bearer 1"), Secret("Bearer 2")]
    assert all((thread == threading.get_ident()) == api.name.startswith("sync") for thread in made)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (None, TypeError, "got NoneType"),
        ([("authorization", "a")], TypeError, "got list"),
        ({"Authorization": None}, TypeError, "header 'Authorization'"),
        ({"Authorization": "Bearer of-a-file\n"}, BadRequest, "line break"),
    ],
)
def test_what_auth_gives_is_checked(api: API, given: Any, kind: type[Exception], words: str) -> None:
    network = ReplayNetwork()
    with pytest.raises(kind, match=words) as caught:
        api.chat(OpenAI("m-1", api="chat", auth=lambda: given, network=network), "x")
    assert not network.requests
    assert "of-a-file" not in str(caught.value)


SERVICES = [
    ("OPENAI_API_KEY", lambda: OpenAIResponses("m"), "authorization", "Bearer k"),
    ("ANTHROPIC_API_KEY", lambda: Anthropic("m"), "x-api-key", "k"),
    ("ANTHROPIC_AUTH_TOKEN", lambda: Anthropic("m"), "authorization", "Bearer k"),
    ("GOOGLE_API_KEY", lambda: Google("m"), "x-goog-api-key", "k"),
    ("GEMINI_API_KEY", lambda: Google("m"), "x-goog-api-key", "k"),
    ("CO_API_KEY", lambda: Cohere("m"), "authorization", "Bearer k"),
    ("COHERE_API_KEY", lambda: Cohere("m"), "authorization", "Bearer k"),
    ("MISTRAL_API_KEY", lambda: Mistral("m"), "authorization", "Bearer k"),
    ("AZURE_OPENAI_API_KEY", lambda: OpenAICompatible("m", service="azure"), "api-key", "k"),
    ("AZURE_OPENAI_AD_TOKEN", lambda: OpenAICompatible("m", service="azure"), "authorization", "Bearer k"),
    ("AWS_BEARER_TOKEN_BEDROCK", lambda: OpenAICompatible("m", service="bedrock-mantle"), "authorization", "Bearer k"),
]


@pytest.mark.parametrize(("variable", "made", "header", "value"), SERVICES, ids=[row[0] for row in SERVICES])
def test_keys_of_the_environment(
    variable: str, made: Callable[[], FunctionCallingLLM], header: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, *_ in SERVICES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with pytest.raises(AuthFailed, match=variable):
        made().chat("x")
    monkeypatch.setenv(variable, "k")
    request = ToolOrchestratingLLM(Album, "x", made()).request()
    assert request.headers[header] == Secret(value)
    assert "k" not in request.url.partition("?")[2]


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("openai:m", "https://api.openai.com/v1/responses"),
        ("openai-responses:m", "https://api.openai.com/v1/responses"),
        ("anthropic:m", "https://api.anthropic.com/v1/messages"),
        ("google:m", "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"),
        ("gemini:m", "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"),
        ("cohere:m", "https://api.cohere.com/v2/chat"),
        ("mistral:m", "https://api.mistral.ai/v1/chat/completions"),
        ("azure:m", "https://me.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21"),
        ("azure-v1:m", "https://me.openai.azure.com/openai/v1/responses"),
        ("bedrock:m", "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse"),
        ("bedrock-mantle:m", "https://bedrock-mantle.eu-west-1.api.aws/v1/chat/completions"),
        ("groq:m", "https://api.groq.com/openai/v1/chat/completions"),
    ],
)
def test_where_each_service_is(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert ToolOrchestratingLLM(Album, "x", llm(name, api_key="k")).request().url == url


def test_a_key_of_the_environment_does_not_go_with_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, *_ in SERVICES:
        monkeypatch.setenv(variable, "k")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    for made in (Google("m", auth=dict), OpenAICompatible("m", service="azure", auth=dict), Anthropic("m", auth=dict)):
        headers = ToolOrchestratingLLM(Album, "x", made).request().headers
        assert not headers.keys() & {"authorization", "api-key", "x-api-key", "x-goog-api-key"}
    given = ToolOrchestratingLLM(Album, "x", Google("m", auth=dict, api_key="mine")).request().headers
    assert given["x-goog-api-key"] == Secret("mine")


def test_a_type_that_no_schema_can_hold_is_asked_for_by_a_tool() -> None:
    class Tree(BaseModel):
        name: str
        branches: list[Tree] = []

    Tree.model_rebuild()
    unforced = Anthropic("claude-mythos-5", api_key="k")
    assert ToolOrchestratingLLM(Album, "x", unforced).preview().mode == "json_schema"
    preview = ToolOrchestratingLLM(Tree, "x", unforced).preview()
    assert (preview.mode, preview.body["tool_choice"]["type"], preview.notes) == ("tool_call", "auto", ("tool_choice",))


def test_responses_of_another_service() -> None:
    made = OpenAIResponses("m", service="llama.cpp", base_url="http://h:1/v1")
    assert ToolOrchestratingLLM(Album, "x", made).request().url == "http://h:1/v1/responses"
    assert made.metadata.provider == "llama.cpp"


@pytest.mark.parametrize("end", ["", "/", "/responses", "/chat/completions"])
def test_the_address_of_responses(end: str) -> None:
    made = OpenAIResponses("m", base_url=f"http://h:1/v1{end}?a=b")
    assert ToolOrchestratingLLM(Album, "x", made).request().target == "http://h:1/v1/responses?a=b"


def test_the_version_of_the_gemini_api_is_a_setting() -> None:
    made = Google("m", api_version="v1", api_key="k")
    assert "/v1/models/m:" in ToolOrchestratingLLM(Album, "x", made).request().url


def test_a_missing_key_is_named_by_its_variable(api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    network = ReplayNetwork(Recorded([text_body("a")], headers=JSON))
    made = OpenAICompatible("m", service="groq", network=network)
    with pytest.raises(AuthFailed, match="no API key for groq: set GROQ_API_KEY") as caught:
        api.chat(made, "x")
    assert (caught.value.provider, caught.value.model) == ("groq", "m")
    monkeypatch.setenv("GROQ_API_KEY", "gsk-1")
    assert api.chat(OpenAICompatible("m", service="groq", network=network), "x").text == "a"


def test_headers_from_the_environment_give_way_to_those_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-env")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-env")
    made = OpenAI("m", api_key="k", headers={"OpenAI-Organization": "org-given"})
    sent = ToolOrchestratingLLM(Album, "x", made).request().headers
    assert sent["openai-organization"] == "org-given"
    assert sent["openai-project"] == "proj-env"


def test_ollama_takes_a_key_and_an_address() -> None:
    request = ToolOrchestratingLLM(Album, "x", Ollama("m", api_key="k", base_url="https://ollama.com")).request()
    assert request.url == "https://ollama.com/api/chat"
    assert request.headers["authorization"] == Secret("Bearer k")
    assert Ollama("m").metadata == toolcast.llms.LLMMetadata("m", "ollama")


def test_ollama_says_how_the_model_is_held_to_the_tool() -> None:
    make = ToolOrchestratingLLM(Album, "x", Ollama("m"))
    modes = {choice: make.with_(tool_choice=choice).preview().mode for choice in (None, "required", "auto", "none")}
    assert modes == {None: "json_schema", "required": "json_schema", "auto": "tool_call", "none": "tool_call"}


def test_an_llm_of_ones_own_may_stand_before_a_ready_made_one() -> None:
    class Loud(FunctionCallingLLM):
        """An LLM that returns the text of another LLM in capitals."""

        def __init__(self, quiet: FunctionCallingLLM) -> None:
            super().__init__()
            self._quiet = quiet

        @property
        def metadata(self) -> LLMMetadata:
            return self._quiet.metadata

        async def _events(self, *args: Any) -> AsyncIterator[Event]:
            async for event in self._quiet._events(*args):
                yield TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event

    network = ReplayNetwork(*[Recorded(sse(delta(content="hello"), delta("stop")))] * 2)
    loud = Loud(OpenAI("m", api="chat", api_key="k", network=network))
    for backend in ("asyncio", "trio"):
        assert anyio.run(loud.achat, "x", backend=backend).text == "HELLO"
    assert network.open_replies == 0


def test_a_known_address_tells_the_service_and_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_COMPATIBLE_BASE_URL", raising=False)
    made = OpenAICompatible("m", base_url="https://api.deepseek.com/v1", api_key="k")
    assert made.metadata.provider == "deepseek"
    with pytest.raises(UnsupportedLLMError, match=r"OpenAICompatible\('m'\) needs base_url= or service="):
        OpenAICompatible("m").chat("x")


# -- answers that are empty

# For each service, bodies of answers that end as the protocol asks for, with neither text, thinking nor tool calls.
UNKNOWN = {"foo": 1}
SILENT: dict[str, tuple[Callable[[ReplayNetwork], FunctionCallingLLM], list[list[bytes]]]] = {
    "chat": (
        lambda network: OpenAICompatible("m", base_url="http://x/v1", network=network, max_retries=0),
        [sse(UNKNOWN), sse([1, 2]), sse(), sse(delta()), sse(delta("stop")), sse(delta("stop", content=""))],
    ),
    "mistral": (
        lambda network: Mistral("m", api_key="k", network=network, max_retries=0),
        [sse(UNKNOWN), sse(), sse(delta("stop", content=[]))],
    ),
    "responses": (
        lambda network: OpenAIResponses("m", api_key="k", network=network, max_retries=0),
        [sse({"type": "response.completed", "response": response}, done=False) for response in ({}, {"output": []})],
    ),
    "anthropic": (
        lambda network: Anthropic("m", api_key="k", network=network, max_retries=0),
        [
            sse(UNKNOWN, {"type": "message_stop"}, done=False),
            sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}, done=False),
            [b'{"type": "message", "content": [], "stop_reason": "end_turn"}'],
        ],
    ),
    "cohere": (
        lambda network: Cohere("m", api_key="k", network=network, max_retries=0),
        [
            sse({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}, done=False),
            [b'{"message": {"role": "assistant", "content": []}, "finish_reason": "COMPLETE"}'],
        ],
    ),
    "google": (
        lambda network: Google("m", api_key="k", network=network, max_retries=0),
        [
            sse(UNKNOWN, {"candidates": [{"finishReason": "STOP"}]}, done=False),
            sse({"candidates": [{"content": {}, "finishReason": "STOP"}]}, done=False),
        ],
    ),
    "ollama": (
        lambda network: Ollama("m", network=network, max_retries=0),
        [
            [b'{"done": true}\n'],
            [b'{"message": {}, "done": false}\n{"message": {"content": ""}, "done": true}\n'],
            [b'[1, 2]\n{"done": true}\n'],
        ],
    ),
}
SILENCES = [(name, body) for name, (_, bodies) in SILENT.items() for body in bodies]


@pytest.mark.parametrize(("name", "body"), SILENCES)
def test_an_answer_without_content_is_an_error_on_every_protocol(name: str, body: list[bytes], api: API) -> None:
    def llm() -> FunctionCallingLLM:
        return SILENT[name][0](ReplayNetwork(Recorded(body)))

    with pytest.raises(EmptyResponse, match="the answer was empty"):
        Engine(llm()).submit("Hello")
    make = ToolOrchestratingLLM(Album, "x", llm())
    # Without a choice it is no answer, whether streamed or not.
    kind = NoToolCallError if b'"choices": [{' in b"".join(body) or name not in ("chat", "mistral") else EmptyResponse
    with pytest.raises(kind, match="he answer was empty"):
        api.call(make)
    assert isinstance(api.stream(ToolOrchestratingLLM(Album, "x", llm())).error, kind)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat", b'{"choices": [], "usage": {"prompt_tokens": 9}}'),
        ("chat", b'{"choices": null}'),
        ("mistral", b'{"choices": []}'),
        ("google", b'{"candidates": []}'),
        ("google", b'{"usageMetadata": {"promptTokenCount": 9}}'),
    ],
)
def test_a_whole_body_without_an_answer_is_an_empty_response(name: str, body: bytes, api: API) -> None:
    llm = SILENT[name][0](ReplayNetwork(*[Recorded([body], headers=JSON)] * 2))
    with pytest.raises(EmptyResponse, match="the answer was empty") as caught:
        api.chat(llm, "Hello")
    assert caught.value.retryable
    with pytest.raises(EmptyResponse):
        api.call(ToolOrchestratingLLM(Album, "x", llm))


def test_what_came_out_of_a_pickle_can_call(api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-here")
    made = OpenAI(
        "m-1", api="chat", api_key="sk-there", system_prompt="Be brief.", headers={"x-team": "a"}, max_retries=5
    )
    again = pickle.loads(pickle.dumps(made))
    again.__toolcast__.network = network = ReplayNetwork(Recorded([text_body("a")], headers=JSON))
    assert api.chat(again, "x").text == "a"
    (request,) = network.requests
    assert request.headers["authorization"] == Secret("Bearer sk-here")
    assert request.headers["x-team"] == "a"
    assert json.loads(request.body)["messages"][0]["content"] == "Be brief."
    assert again.retry_policy == made.retry_policy


def test_keys_are_compared_by_what_they_are() -> None:
    keys = {Secret("a"), Secret("a"), Secret("b"), Secret("")}
    assert len(keys) == 3
    assert sum(map(bool, keys)) == 2
    assert Secret("a") != "a"


READY_MADE = [OpenAI, OpenAIResponses, OpenAICompatible, Anthropic, Cohere, Google, Mistral, Ollama, LlamaCpp]


@pytest.mark.parametrize("kind", READY_MADE)
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("temperature", "pass settings=Settings(temperature=...)"),
        ("timeout", "pass settings=Settings(timeout=...)"),
        ("request_timeout", "pass settings=Settings(timeout=...)"),
        ("max_tokens", "pass settings=Settings(max_tokens=...)"),
        ("num_ctx", "pass settings=Settings(num_ctx=...)"),
        ("model_kwargs", "pass settings=Settings(extra={...}), which goes into the request body"),
        ("system", "pass system_prompt=..."),
        ("extra_body", "pass settings=Settings(extra={...}), which goes into the request body"),
        ("retries", "pass max_retries=..."),
        ("max_concurency", "did you mean max_concurrency=?"),
        ("zzz", "It takes: model"),
    ],
)
def test_the_usual_names_of_other_libraries_are_errors_that_say_what_to_pass(
    kind: Any, name: str, instead: str
) -> None:
    with pytest.raises(TypeError) as caught:
        kind("m", **{name: "sk-a-secret"})
    assert str(caught.value).startswith(f"{kind.__name__}() takes no {name!r}")
    assert instead in str(caught.value)
    assert "sk-a-secret" not in str(caught.value)


@pytest.mark.parametrize("kind", READY_MADE[:-1])
@pytest.mark.parametrize(
    ("name", "instead"), [("host", "base_url"), ("api_base", "base_url"), ("token", "api_key"), ("client", "network")]
)
def test_the_usual_names_of_services_too(kind: Any, name: str, instead: str) -> None:
    with pytest.raises(TypeError, match=f"takes no '{name}': pass {instead}=..."):
        kind("m", **{name: "x"})


def test_the_region_of_claude_on_vertex_ai_is_no_location() -> None:
    options: dict[str, Any] = {"location": "us-east5"}
    with pytest.raises(TypeError, match="takes no 'location': pass region="):
        AnthropicVertex("claude-sonnet-4-5", **options)


def test_several_at_once_and_by_name() -> None:
    with pytest.raises(TypeError, match=r"Settings\(timeout=...\); Ollama\(\) takes no 'host': pass base_url="):
        Ollama("m", request_timeout=60, host="x")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] - refused
    for named in ("ollama:m", "groq:m", "local"):
        with pytest.raises(TypeError, match=r"settings=Settings\(temperature=...\)"):
            llm(named, temperature=0)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] - refused
    assert isinstance(llm("local", api_key="k"), LlamaCpp)
    with pytest.raises(TypeError, match="'n_ctx': pass server="):
        LlamaCpp("m", n_ctx=4)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] - refused


def test_a_subclass_may_take_such_a_name_itself() -> None:
    class Mine(OpenAI):
        def __init__(self, model: str, *, timeout: float, api_key: str) -> None:
            super().__init__(model, settings=Settings(timeout=timeout), api_key=api_key)

    assert Mine("m", timeout=3, api_key="k").settings.timeout == 3
