"""`count_tokens`: the endpoint of the provider where it has one, and an estimate that is marked as one elsewhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

import toolcast
from support.loopback import Loopback, whole
from toolcast import FallbackLLM, FunctionCallingLLM, LlamaCpp, OpenAI, OpenAIResponses, Settings, system, user
from toolcast.errors import AuthFailed, MalformedEvent, NotFound
from toolcast.events import Event
from toolcast.llms import CachedLLM, ChatRequest, Next, RecordingLLM, RedactedLLM, TokenCount, WrapperLLM
from toolcast.llms.local.llama_server import ServerOptions
from toolcast.testing import ScriptedLLM, use_llm

KEY = "sk-1234567890abcdef"


def weather(city: str) -> str:
    """Return the weather.

    Args:
        city: The city.
    """
    return city


PARAMETERS = {
    "additionalProperties": False,
    "properties": {"city": {"description": "The city.", "type": "string"}},
    "required": ["city"],
    "type": "object",
}

BACKENDS = pytest.mark.parametrize("backend", [None, "asyncio", "trio"])


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


def root(server: Loopback) -> str:
    return f"http://127.0.0.1:{server.port}"


def answer(server: Loopback, content: Any, status: int = 200) -> None:
    server.answer(whole(json.dumps(content).encode(), status, "content-type: application/json"))


def sent(server: Loopback, at: int = -1) -> tuple[str, Any]:
    request = server.requests[at]
    return request.line.split()[1], json.loads(request.body)


def count(backend: str | None, llm: FunctionCallingLLM, messages: Any, *rest: Any, **options: Any) -> TokenCount:
    if backend is None:
        return llm.count_tokens(messages, *rest, **options)
    return anyio.run(lambda: llm.acount_tokens(messages, *rest, **options), backend=backend)


@BACKENDS
def test_anthropic(backend: str | None, server: Loopback) -> None:
    """The documented request has the fields of a message without those of sampling."""
    answer(server, {"input_tokens": 403})
    llm = toolcast.llm("anthropic:claude-sonnet-4-5", api_key=KEY, base_url=root(server), system_prompt="Be terse.")
    settings = Settings(temperature=0.5, max_tokens=9_000, stop="x", thinking=2_048, service_tier="auto")
    found = count(backend, llm, "Hi", [weather], settings=settings)
    assert found == TokenCount(403, estimated=False)
    tool = {"name": "weather", "description": "Return the weather.", "input_schema": PARAMETERS}
    assert sent(server) == (
        "/v1/messages/count_tokens",
        {
            "model": "claude-sonnet-4-5",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            "system": "Be terse.",
            "tools": [tool],
            "thinking": {"type": "enabled", "budget_tokens": 2_048},
        },
    )
    assert server.requests[0].headers["x-api-key"] == KEY
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"


@BACKENDS
@pytest.mark.parametrize("kind", [OpenAI, OpenAIResponses])
def test_openai(backend: str | None, kind: Any, server: Loopback) -> None:
    answer(server, {"object": "response.input_tokens", "input_tokens": 11})
    llm = kind("gpt-5.4", api_key=KEY, base_url=f"{root(server)}/v1")
    assert count(backend, llm, [system("Be terse."), user("Hi")], [weather], tool_choice="weather").tokens == 11
    path, body = sent(server)
    assert path == "/v1/responses/input_tokens"
    assert body["model"] == "gpt-5.4"
    assert body["instructions"] == "Be terse."
    assert body["input"] == [{"role": "user", "content": "Hi"}]
    assert body["tools"][0]["name"] == "weather"
    assert body["tool_choice"] == {"type": "function", "name": "weather"}
    assert not body.keys() & {"stream", "store", "include", "max_output_tokens"}
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@BACKENDS
def test_google(backend: str | None, server: Loopback) -> None:
    answer(server, {"totalTokens": 31, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 31}]})
    llm = toolcast.llm("google:gemini-2.5-flash", api_key=KEY, base_url=root(server), system_prompt="Be terse.")
    assert count(backend, llm, "Hi", settings=Settings(temperature=0, service_tier="flex")).tokens == 31
    request = {
        "model": "models/gemini-2.5-flash",
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be terse."}]},
        "generationConfig": {"temperature": 0},
    }
    assert sent(server) == ("/v1beta/models/gemini-2.5-flash:countTokens", {"generateContentRequest": request})


def test_google_on_vertex(server: Loopback) -> None:
    answer(server, {"totalTokens": 31, "totalBillableCharacters": 80})
    url = f"{root(server)}/v1/projects/p/locations/l/publishers/google"
    llm = toolcast.llm("google:gemini-2.5-flash", api_key=KEY, base_url=url)
    assert llm.count_tokens([system("Be terse."), user("Hi")]).tokens == 31
    assert sent(server) == (
        "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:countTokens",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "systemInstruction": {"parts": [{"text": "Be terse."}]},
        },
    )


@BACKENDS
def test_vllm(backend: str | None, server: Loopback) -> None:
    answer(server, {"count": 17, "max_model_len": 4096, "tokens": [1]})
    llm = toolcast.llm("vllm:m", base_url=f"{root(server)}/v1")
    assert count(backend, llm, "Hi", settings=Settings(temperature=0)).tokens == 17
    assert sent(server) == ("/tokenize", {"model": "m", "messages": [{"role": "user", "content": "Hi"}]})


@BACKENDS
def test_llama_cpp_renders_its_template_and_tokenizes_that(backend: str | None, server: Loopback) -> None:
    answer(server, {"prompt": "<|im_start|>user\nHi<|im_end|>\n"})
    answer(server, {"tokens": [1, 2, 3]})
    llm = toolcast.llm("llama.cpp:m", base_url=f"{root(server)}/v1", api_key=KEY)
    assert count(backend, llm, "Hi") == TokenCount(3, estimated=False)
    assert sent(server, 0) == ("/apply-template", {"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    content = {"content": "<|im_start|>user\nHi<|im_end|>\n", "add_special": True, "parse_special": True}
    assert sent(server, 1) == ("/tokenize", content)
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize("name", ["mistral:m", "ollama:m", "groq:m", "azure-v1:m", "cohere:m"])
@BACKENDS
def test_providers_without_an_endpoint_are_estimated(backend: str | None, name: str, server: Loopback) -> None:
    llm = toolcast.llm(name, api_key=KEY, base_url=root(server))
    found = count(backend, llm, "one two three " * 100, [weather])
    assert found.estimated
    assert 300 < found.tokens < 600
    assert found.tokens > count(backend, llm, "one two three " * 100).tokens
    assert server.requests == []


@BACKENDS
def test_a_service_whose_responses_api_does_not_count_is_estimated(backend: str | None, server: Loopback) -> None:
    llm = OpenAIResponses("grok-4.5", service="xai", api_key=KEY, base_url=root(server))
    assert count(backend, llm, "one two three").estimated
    assert server.requests == []


@pytest.mark.parametrize("name", ["anthropic:m", "openai:m", "google:m", "vllm:m"])
def test_an_estimate_sends_nothing_and_needs_no_key(
    name: str, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    llm = toolcast.llm(name, base_url=root(server), system_prompt="Be terse.")
    assert llm.count_tokens("Hi", method="estimate").estimated
    assert server.requests == []
    with pytest.raises(ValueError, match="method='local': expected 'provider' or 'estimate'"):
        llm.count_tokens("Hi", method="local")  # type: ignore[arg-type]  # what a user may pass
    with pytest.raises(TypeError, match=r"count_tokens\(\) takes no 'model'"):
        llm.count_tokens("Hi", model="m")  # type: ignore[call-arg]  # what a user may pass


def test_a_key_is_required_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(AuthFailed, match="OPENAI_API_KEY"):
        OpenAI("m").count_tokens("Hi")


@BACKENDS
def test_an_error_is_no_estimate(backend: str | None, server: Loopback) -> None:
    answer(server, {"error": {"message": f"no such URL; your key is {KEY}"}}, 404)
    with pytest.raises(NotFound) as raised:
        count(backend, OpenAI("m", api_key=KEY, base_url=f"{root(server)}/v1"), "Hi")
    assert (raised.value.provider, raised.value.model) == ("openai", "m")
    assert KEY not in f"{raised.value!s}{raised.value!r}{vars(raised.value)!r}"


@BACKENDS
def test_a_failure_that_may_pass_is_tried_again(
    backend: str | None, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)
    server.answer(whole(b"", 503))
    answer(server, {"input_tokens": 5})
    assert count(backend, OpenAI("m", api_key=KEY, base_url=f"{root(server)}/v1"), "Hi").tokens == 5
    assert len(server.requests) == 2


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"input_tokens": "5"}', b'{"input_tokens": true}'])
def test_a_response_without_a_count(body: bytes, server: Loopback) -> None:
    server.answer(whole(body))
    with pytest.raises(MalformedEvent):
        OpenAI("m", api_key=KEY, base_url=f"{root(server)}/v1").count_tokens("Hi")


@pytest.mark.parametrize("bodies", [({"prompt": ""},), ({},), ({"prompt": "x"}, {"tokens": 7}), ({"prompt": "x"}, [])])
def test_a_llama_cpp_that_answers_something_else(bodies: tuple[Any, ...], server: Loopback) -> None:
    for body in bodies:
        answer(server, body)
    with pytest.raises(MalformedEvent):
        toolcast.llm("llama.cpp:m", base_url=f"{root(server)}/v1").count_tokens("Hi")


# -- LLMs around others


class Shouting(WrapperLLM):
    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        async for event in call_next(request):
            yield event


@BACKENDS
def test_what_a_wrapper_sends_is_unknown_so_that_nothing_is_sent(backend: str | None, server: Loopback) -> None:
    llm = Shouting(OpenAI("m", api_key=KEY, base_url=f"{root(server)}/v1"))
    assert count(backend, llm, "Hi").estimated
    assert server.requests == []


@BACKENDS
def test_a_redacted_request_is_counted_redacted(backend: str | None, server: Loopback) -> None:
    answer(server, {"input_tokens": 5})
    inner = OpenAI("m", api_key=KEY, base_url=f"{root(server)}/v1")
    llm = RedactedLLM(inner, lambda text: text.replace("Ada", "[NAME]"))
    assert count(backend, llm, "I am Ada.") == TokenCount(5, estimated=False)
    assert sent(server)[1]["input"] == [{"role": "user", "content": "I am [NAME]."}]


@BACKENDS
def test_wrappers_that_change_nothing_count_as_their_llm(backend: str | None, server: Loopback, tmp_path: Any) -> None:
    for _ in range(3):
        answer(server, {"input_tokens": 5})
    inner = OpenAI("m", api_key=KEY, base_url=f"{root(server)}/v1", system_prompt="Be terse.")
    for llm in (CachedLLM(inner), RecordingLLM(inner, tmp_path / "x.jsonl"), FallbackLLM([inner, ScriptedLLM()])):
        assert count(backend, llm, "Hi") == TokenCount(5, estimated=False)
        assert sent(server)[1]["instructions"] == "Be terse."
    assert count(backend, FallbackLLM([ScriptedLLM(), inner]), "Hi").estimated


@BACKENDS
def test_in_a_test_with_another_llm_nothing_is_sent(backend: str | None, server: Loopback) -> None:
    with use_llm(ScriptedLLM()):
        assert count(backend, OpenAI("m", api_key=KEY, base_url=f"{root(server)}/v1"), "Hi").estimated
    assert server.requests == []


def test_tools_that_are_not_offered_do_not_count() -> None:
    llm = ScriptedLLM()
    assert llm.count_tokens("Hi", [weather], tool_choice="none") == llm.count_tokens("Hi")


# -- the embedded model


def test_the_embedded_model_counts_its_own_request(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tools are a part of the system message, and the grammar is none of the prompt."""
    answer(server, {"prompt": "rendered"})
    answer(server, {"tokens": [1, 2]})
    llm = LlamaCpp("smollm2")
    adapter = llm._build_adapter(f"{root(server)}/v1", None)
    monkeypatch.setattr(llm, "_start", lambda: adapter)
    monkeypatch.setattr(adapter, "preflight", lambda request_input: None)
    assert llm.count_tokens("Hi", [weather]) == TokenCount(2, estimated=False)
    path, body = sent(server, 0)
    assert path == "/apply-template"
    assert "weather: Return the weather." in body["messages"][0]["content"]
    assert "tools" not in body


@pytest.mark.networked
def test_a_real_llama_cpp_counts_what_it_reports(smollm2: Any) -> None:
    """The usage of a response has the tokens that were counted before."""
    llm = LlamaCpp(str(smollm2), server=ServerOptions(threads=1))
    for messages in ("Hi", [system("Be terse."), user("Name a river. " * 20)]):
        counted = llm.count_tokens(messages)
        response = llm.chat(messages, settings=Settings(max_tokens=1))
        assert counted == TokenCount(response.usage.input_tokens, estimated=False)
