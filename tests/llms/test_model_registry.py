"""Which model a command speaks to (R9 of the behaviours)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest

from toolcast.errors import BadRequest, NotFound, UnsupportedLLMError
from toolcast.llms.http_llm import ServiceLLM
from toolcast.llms.local.guided import GuidedLlamaCpp
from toolcast.llms.local.llama_cpp import LlamaCpp
from toolcast.llms.model_registry import OLLAMA_MODEL, choose_chat_llm, choose_llm, ollama_address
from toolcast.llms.named_llms import llm
from toolcast.llms.vendors.anthropic_llms import Anthropic
from toolcast.llms.vendors.cohere_mistral_ollama import Ollama
from toolcast.llms.vendors.openai_llms import OpenAI, OpenAICompatible
from toolcast.providers.base import RequestInput
from toolcast.values.credentials import Secret
from toolcast.values.settings import Settings

HERE = "http://127.0.0.1:11434"
OURS = {"OLLAMA_HOST": "box", "OLLAMA_MODEL": "qwen3:8b", "OLLAMA_API_KEY": "key"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*OURS, "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("model", "environ", "kind", "name", "base_url"),
    [
        (None, {}, LlamaCpp, "smollm2", None),
        ("local", OURS, LlamaCpp, "smollm2", None),
        ("local:some.gguf", {}, LlamaCpp, "some.gguf", None),
        (None, OURS, Ollama, "qwen3:8b", "https://box:443"),
        (None, {"OLLAMA_HOST": "box"}, Ollama, OLLAMA_MODEL, "https://box:443"),
        (None, {"OLLAMA_MODEL": "qwen3:8b"}, Ollama, "qwen3:8b", HERE),
        (None, {"OLLAMA_API_KEY": "key"}, Ollama, OLLAMA_MODEL, HERE),
        ("llama3.2", {}, Ollama, "llama3.2", HERE),
        ("llama3.2:1b", OURS, Ollama, "llama3.2:1b", "https://box:443"),
        ("ollama:llama3.2:1b", {}, Ollama, "llama3.2:1b", HERE),
        ("ollama:", {}, Ollama, OLLAMA_MODEL, HERE),
        ("gemma3n:e4b-it-q8_0", {}, Ollama, "gemma3n:e4b-it-q8_0", HERE),
        ("mixtral:8x7b-instruct-v0.1", {}, Ollama, "mixtral:8x7b-instruct-v0.1", HERE),
        ("gpt-oss:120b-cloud", {}, Ollama, "gpt-oss:120b-cloud", HERE),
        ("nomic-embed-text:v1.5", {}, Ollama, "nomic-embed-text:v1.5", HERE),
        ("mine:latest", {}, Ollama, "mine:latest", HERE),
        ("me/mine:first", {}, Ollama, "me/mine:first", HERE),
        ("hf.co/me/mine:one.gguf", {}, Ollama, "hf.co/me/mine:one.gguf", HERE),
        ("ollama:openia:gpt-5.4", {}, Ollama, "openia:gpt-5.4", HERE),
        (None, {"OLLAMA_MODEL": "phi3:mini"}, Ollama, "phi3:mini", HERE),
        ("models/no-such.gguf", OURS, LlamaCpp, "models/no-such.gguf", None),
        ("C:\\models\\no-such.GGUF", {}, LlamaCpp, "C:\\models\\no-such.GGUF", None),
        ("openai:gpt-5.4", OURS, OpenAI, "gpt-5.4", None),
        ("groq:llama", OURS, OpenAICompatible, "llama", None),
    ],
)
def test_the_model(
    model: str | None, environ: Mapping[str, str], kind: type[ServiceLLM], name: str, base_url: str | None
) -> None:
    made = cast("ServiceLLM", choose_llm(model, environ=environ))
    assert (type(made), made.model, made.base_url) == (kind, name, base_url)


def test_options_beat_the_environment() -> None:
    made = cast("ServiceLLM", choose_llm(None, "localhost:1", "mine", OURS))
    assert (type(made), made.model, made.base_url) == (Ollama, "qwen3:8b", "http://localhost:1")
    assert made.secret() == Secret("mine")


def test_host_and_token_are_those_of_any_service() -> None:
    made = cast("ServiceLLM", choose_llm("anthropic:claude", "https://box/v1", "mine", OURS))
    assert (type(made), made.base_url, made.secret()) == (Anthropic, "https://box/v1", Secret("mine"))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", HERE),
        ("localhost", "http://localhost:11434"),
        ("localhost:1", "http://localhost:1"),
        ("my.localhost", "http://my.localhost:11434"),
        ("127.0.0.1", HERE),
        ("127.9.9.9:80", "http://127.9.9.9:80"),
        ("0.0.0.0:5", "http://127.0.0.1:5"),
        (":8000", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:99", "http://[::1]:99"),
        (" localhost ", "http://localhost:11434"),
        ("example.com", "https://example.com:443"),
        ("example.com:11434", "https://example.com:11434"),
        ("10.0.0.1", "https://10.0.0.1:443"),
        ("localhost.example.com", "https://localhost.example.com:443"),
        ("127.0.0.1.example.com", "https://127.0.0.1.example.com:443"),
        ("http://example.com", "http://example.com:80"),
        ("https://localhost/ollama", "https://localhost:443/ollama"),
    ],
)
def test_the_address(host: str, url: str) -> None:
    assert ollama_address(host) == url


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:8765/v1", "http://127.0.0.1:8765/v1"),
        ("localhost", "http://localhost"),
        (":8000/v1", "http://localhost:8000/v1"),
        ("[::1]:99", "http://[::1]:99"),
        (" box.example/v1 ", "https://box.example/v1"),
        ("http://box.example/v1", "http://box.example/v1"),
        ("[fe80::1", "[fe80::1"),
    ],
)
def test_the_address_of_another_service(host: str, url: str) -> None:
    assert cast("ServiceLLM", choose_llm("openai:m", host, "key", {})).base_url == url


@pytest.mark.parametrize("host", ["[fe80::1", "a:b:c", "box:port", "ftp://box"])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(BadRequest, match="is no"):
        ollama_address(host)


@pytest.mark.parametrize("token", [None, "", "mine"])
def test_a_bearer_only_with_a_token(token: str | None) -> None:
    made = cast("ServiceLLM", choose_llm("ollama:llama3.2", None, token, {}))
    request = made.adapter.request(RequestInput("llama3.2", ()), Settings())
    assert request.url == f"{HERE}/api/chat"
    assert request.headers.get("authorization") == (Secret("Bearer mine") if token else None)


@pytest.mark.parametrize(("host", "token"), [("box", None), (None, "key")])
def test_the_embedded_model_is_nowhere_else(host: str | None, token: str | None) -> None:
    with pytest.raises(UnsupportedLLMError, match="no host and no token"):
        choose_llm("local", host, token, {})


@pytest.mark.parametrize("make", [choose_llm, llm])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("openia:gpt-5.4", "no provider is called 'openia'; did you mean 'openai:gpt-5.4'?"),
        ("Anthropic:claude", "did you mean 'anthropic:claude'?"),
        ("openia:gpt-5.4", r"\(a model of Ollama is written 'ollama:openia:gpt-5.4'\)"),
        ("gemeni:", "no provider is called 'gemeni'; did you mean 'gemini:MODEL'"),
        ("gibberish:", "no provider is called 'gibberish'; write 'provider:model' with one of: anthropic, "),
        ("gibberish:x", "no provider is called 'gibberish'; write 'provider:model' with one of: anthropic, "),
        (":x", "no provider is called ''; write 'provider:model'"),
        ("openai", "'openai' names no LLM: write 'openai:MODEL'"),
    ],
)
def test_a_provider_that_is_unknown(make: Callable[[str], object], name: str, text: str) -> None:
    with pytest.raises(UnsupportedLLMError, match=text):
        make(name)


@pytest.mark.parametrize(
    ("model", "kind"),
    [("local", GuidedLlamaCpp), ("local:some.gguf", LlamaCpp), ("llama3.2", Ollama), ("openai:gpt-5.4", OpenAI)],
)
def test_only_the_default_model_is_guided_in_a_chat(model: str, kind: type[ServiceLLM]) -> None:
    assert type(choose_chat_llm(model)) is kind


def test_a_file_is_no_provider() -> None:
    with pytest.raises(UnsupportedLLMError, match=r"write 'local:models/one.gguf' for a model file"):
        llm("models/one.gguf")


def test_a_model_file_that_is_absent_is_an_error(tmp_path: Path) -> None:
    made = choose_llm(str(tmp_path / "no-such.gguf"), environ=OURS)
    with pytest.raises(NotFound, match=r"there is no model file .*no-such\.gguf"):
        made.chat("Hi")
