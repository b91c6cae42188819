"""The models of providers, asked for at real servers on the loopback interface."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.loopback import HOLD, Loopback, whole
from toolcast import LlamaCpp
from toolcast.apps import model_list
from toolcast.apps.model_list import ProviderModels, check_model, list_models
from toolcast.errors import AuthFailed, ConnectFailed, NotFound, ToolcastError, UnsupportedLLMError
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.named_llms import llm

LISTS: dict[str, tuple[str, Any]] = {
    "openai": ("/models", {"data": [{"id": "gpt-5.4"}, {"id": "whisper-1"}, {"id": "text-embedding-3-small"}]}),
    "anthropic": ("/v1/models?limit=1000", {"data": [{"id": "claude-sonnet-4-5-20250929", "type": "model"}]}),
    "cohere": ("/v1/models?endpoint=chat&page_size=1000", {"models": [{"name": "command-a"}]}),
    "ollama": ("/api/tags", {"models": [{"name": "qwen3:8b"}, {"name": "Gemma3:latest"}]}),
    "google": (
        "/v1beta/models?pageSize=1000",
        {
            "models": [
                {"name": "models/gemini-3-pro", "supportedGenerationMethods": ["generateContent"]},
                {"name": "models/gemini-only-counts", "supportedGenerationMethods": ["countTokens"]},
            ]
        },
    ),
    "mistral": (
        "/models",
        {
            "data": [
                {"id": "mistral-large", "capabilities": {"completion_chat": True}},
                {"id": "mistral-classifies", "capabilities": {"completion_chat": False}},
            ]
        },
    ),
    "together": ("/models", [{"id": "meta/llama", "type": "chat"}, {"id": "black-forest/flux", "type": "image"}]),
}
WANTED = {
    "openai": ("openai:gpt-5.4",),
    "anthropic": ("anthropic:claude-sonnet-4-5-20250929",),
    "cohere": ("cohere:command-a",),
    "ollama": ("ollama:Gemma3:latest", "ollama:qwen3:8b"),
    "google": ("google:gemini-3-pro",),
    "mistral": ("mistral:mistral-large",),
    "together": ("together:meta/llama",),
}


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


def made_at(server: Loopback, key: str | None = "key") -> Callable[[str], FunctionCallingLLM]:
    return lambda name: llm(name, base_url=f"http://127.0.0.1:{server.port}", api_key=key)


def answer(server: Loopback, document: Any, status: int = 200) -> None:
    server.answer(whole(json.dumps(document).encode(), status, "content-type: application/json"))


@pytest.mark.parametrize("provider", LISTS)
def test_the_models_that_a_service_lists(provider: str, server: Loopback) -> None:
    path, document = LISTS[provider]
    answer(server, document)
    assert list_models([provider], make=made_at(server), deadline=60.0) == [ProviderModels(provider, WANTED[provider])]
    assert server.requests[0].line == f"GET {path} HTTP/1.1"


@pytest.mark.parametrize("document", ["text", {"data": [1]}, {"other": []}, None, 5, {"models": [{}]}])
def test_an_answer_that_is_no_list_is_an_error_with_the_names_of_the_table(document: Any, server: Loopback) -> None:
    answer(server, document)
    (found,) = list_models(["openai"], make=made_at(server), deadline=60.0)
    assert "has no list of models" in found.error
    assert not found.is_from_service
    assert "openai:gpt-4o-mini" in found.models
    assert not re.search(r"[*?[]", "".join(found.models))


def test_a_service_without_a_list_or_with_an_error_is_not_asked_again(server: Loopback) -> None:
    answer(server, {"error": {"message": "busy"}}, 503)
    (found,) = list_models(["openai"], make=made_at(server), deadline=60.0)
    assert "busy" in found.error
    assert found.is_set_up
    assert len(server.requests) == 1


def test_a_wrong_key_is_an_error_and_a_missing_one_leaves_the_provider_out(server: Loopback) -> None:
    answer(server, {"error": {"message": "wrong key"}}, 401)
    (found,) = list_models(["openai"], make=made_at(server), deadline=60.0)
    assert found.is_set_up
    assert "wrong key" in found.error
    assert "sk-secret" not in found.error
    (found,) = list_models(["groq"], deadline=60.0)
    assert not found.is_set_up
    assert "GROQ_API_KEY" in found.error
    (found,) = list_models(["bedrock"], make=llm, deadline=60.0)
    assert not found.is_set_up


def test_one_that_does_not_answer_does_not_hold_up_the_others(server: Loopback) -> None:
    server.answer(HOLD)
    (late,) = list_models(["openai"], make=made_at(server), deadline=0.2)
    assert late.error
    assert late.models
    (local,) = list_models(["local"], deadline=60.0)
    assert local.models == ("local:smollm2",)


def test_a_maker_that_hangs_is_not_waited_for() -> None:

    ended = threading.Event()

    def hangs(name: str) -> FunctionCallingLLM:
        ended.wait(30)
        raise UnsupportedLLMError(name)

    (found,) = list_models(["openai"], make=hangs, deadline=0.05)
    ended.set()
    assert found.error == "no answer in time"


def test_without_names_it_is_all_that_are_set_up(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str) -> FunctionCallingLLM:
        if name.startswith(("ollama:", "vllm:")):
            return made_at(server)(name)
        raise UnsupportedLLMError("not set up")

    for name in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MISTRAL_API_KEY", "k")
    answer(server, {"models": []})
    server.answer(whole(b"", 404))
    found = {each.provider: each for each in list_models(make=make, deadline=60.0)}
    assert "local" in found
    assert set(found) in ({"local", "ollama"}, {"local", "ollama", "vllm"})


def test_a_model_is_checked_by_the_list_or_the_table(server: Loopback) -> None:
    make = made_at(server)
    for name in ("openai:gpt-5.4", "openai:gpt-4.1-mini"):
        answer(server, LISTS["openai"][1])
        assert check_model(name, make=make).metadata.model_name == name.partition(":")[2]
    answer(server, LISTS["openai"][1])
    with pytest.raises(NotFound, match=r"openai has no model 'gibberish'.*It has: .*gpt-5.4"):
        check_model("openai:gibberish", make=make)


@pytest.mark.parametrize("name", ["ollama:qwen3:8b", "ollama:gemma3", "ollama:GEMMA3:latest"])
def test_an_installed_model_of_ollama(name: str, server: Loopback) -> None:
    answer(server, LISTS["ollama"][1])
    assert check_model(name, make=made_at(server)).metadata.provider == "ollama"


def test_a_missing_model_of_ollama_says_how_to_fetch_it(server: Loopback) -> None:
    answer(server, LISTS["ollama"][1])
    with pytest.raises(NotFound, match=r"ollama pull qwen3:80b.*It has: qwen3:8b"):
        check_model("ollama:qwen3:80b", make=made_at(server))


def test_a_variant_of_a_router_is_the_listed_model(server: Loopback) -> None:
    answer(server, {"data": [{"id": "meta/llama"}]})
    assert check_model("openrouter:meta/llama:free", make=made_at(server))


def test_a_service_that_lists_nothing_is_no_obstacle(server: Loopback) -> None:
    answer(server, {"data": []})
    assert check_model("openai:gibberish", make=made_at(server))
    answer(server, {"error": {"message": "no such path"}}, 404)
    assert check_model("openai:gibberish", make=made_at(server))


def test_a_wrong_key_and_a_closed_port_are_errors(server: Loopback) -> None:
    answer(server, {"error": {"message": "wrong key"}}, 401)
    with pytest.raises(AuthFailed):
        check_model("openai:gpt-5.4", make=made_at(server))
    with pytest.raises(ConnectFailed):
        check_model("ollama:x", make=lambda name: llm(name, base_url="http://127.0.0.1:1"))


def test_an_embedded_model_is_a_file_or_can_be_fetched(tmp_path: Path) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF")
    assert isinstance(check_model("local:smollm2"), LlamaCpp)
    assert isinstance(check_model(str(file)), LlamaCpp)
    with pytest.raises(NotFound, match=r"no model file .*absent.gguf"):
        check_model(str(tmp_path / "absent.gguf"))


def test_a_stored_key_that_cannot_be_read_is_an_error_of_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(model: str | None, token: str | None) -> str | None:
        if model and model.startswith("groq:"):
            raise ToolcastError("the keyring is locked")
        return None

    def make(name: str) -> FunctionCallingLLM:
        unreadable(name, None)
        raise UnsupportedLLMError("not set up")

    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    monkeypatch.setattr(model_list, "find_key", unreadable)
    found = {each.provider: each.error for each in list_models(make=make, deadline=60.0)}
    assert found["groq"] == "the keyring is locked"
