"""What servers list about their models: the context window, and whether they read images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.loopback import Loopback, whole
from support.ollama_server import MODEL, OllamaServer
from toolcast import OpenAICompatible
from toolcast.apps.model_facts import ServedModels
from toolcast.errors import Timeout
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.http.service import Service
from toolcast.testing import ScriptedLLM


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


def facts(llm: FunctionCallingLLM) -> tuple[int | None, bool | None]:
    metadata = ServedModels().ask(llm)
    assert metadata.capabilities.context_window == metadata.context_window
    return metadata.context_window, metadata.capabilities.images


def test_the_size_is_that_of_the_loaded_model_and_asked_for_once(server: OllamaServer) -> None:
    server.loaded = [{"name": "other", "context_length": 1}, {"name": f"{MODEL}:latest", "context_length": 8192}]
    server.shown = {"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "tools"]}
    served, llm = ServedModels(), server.llm()
    assert served.metadata(llm).context_window is None
    assert [served.ask(llm, again=True).context_window for _ in range(2)] == [8192, 8192]
    assert server.list_requests == 1
    assert served.metadata(llm).capabilities.images is False


def test_a_model_that_was_not_loaded_is_asked_for_again_after_its_first_answer(server: OllamaServer) -> None:
    server.shown = {"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}}
    served, llm = ServedModels(), server.llm()
    assert [served.ask(llm).context_window for _ in range(2)] == [40960, 40960]
    server.loaded = [{"name": MODEL, "context_length": 4096}]
    assert [served.ask(llm, again=True).context_window for _ in range(2)] == [4096, 4096]
    assert server.list_requests == 2


def test_ollamas_description_has_the_chosen_size_and_the_kinds_of_input(server: OllamaServer) -> None:
    server.shown = {
        "model_info": {"llava.context_length": 32768},
        "parameters": 'stop "<end>"\nnum_ctx 16384',
        "capabilities": ["completion", "vision"],
    }
    assert facts(server.llm()) == (16384, True)


@pytest.mark.parametrize(
    "loaded",
    [None, 5, [], ["x"], [{"name": MODEL}], [{"name": MODEL, "context_length": "8k"}], [{"context_length": 8}]],
)
def test_without_a_size_it_is_unknown(server: OllamaServer, loaded: Any) -> None:
    server.loaded = loaded
    served, llm = ServedModels(), server.llm()
    assert [served.ask(llm, again=True).context_window for _ in range(2)] == [None, None]
    assert server.list_requests == 1


@pytest.mark.parametrize("answer", [whole(b"not found", 404), whole(b"no JSON"), whole(json.dumps([1]).encode())])
def test_an_error_of_the_server_is_no_error_here(server: OllamaServer, answer: bytes) -> None:
    server.list_answer = answer
    assert facts(server.llm()) == (None, None)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"max_model_len": 8192}, (8192, None)),
        ({"context_length": 1000, "architecture": {"input_modalities": ["text", "image"]}}, (1000, True)),
        ({"max_context_length": 2000, "capabilities": {"vision": False}}, (2000, False)),
        ({"context_window": True, "capabilities": {"vision": "yes"}}, (None, None)),
    ],
)
def test_a_list_of_models_has_the_facts_of_each(row: dict[str, Any], expected: tuple[int | None, bool | None]) -> None:
    rows = [{"id": "other", "context_length": 1}, {"id": "m-1", **row}]
    with Loopback() as server:
        server.answer(whole(json.dumps({"data": rows}).encode()))
        assert facts(OpenAICompatible("m-1", base_url=f"http://127.0.0.1:{server.port}/v1", max_retries=0)) == expected


def test_a_list_without_the_model_has_no_facts() -> None:
    with Loopback() as server:
        server.answer(whole(b'{"models": [{"name": "models/other", "inputTokenLimit": 5}]}'))
        assert facts(OpenAICompatible("m-1", base_url=f"http://127.0.0.1:{server.port}/v1", max_retries=0)) == (
            None,
            None,
        )


def test_the_server_of_llama_cpp_describes_its_model() -> None:
    with Loopback() as server:
        server.answer(whole(b'{"data": [{"id": "m-1"}]}'))
        server.answer(whole(b'{"default_generation_settings": {"n_ctx": 4096}, "modalities": {"vision": true}}'))
        llm = OpenAICompatible("m-1", service="llama.cpp", base_url=f"http://127.0.0.1:{server.port}/v1", max_retries=0)
        assert facts(llm) == (4096, True)
        assert [request.line.split()[1] for request in server.requests] == ["/v1/models", "/props"]


def test_a_server_that_does_not_answer_is_no_error() -> None:
    with Loopback() as server:
        port = server.port
    assert facts(OpenAICompatible("m-1", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)) == (None, None)


def test_an_llm_without_a_server_is_not_asked() -> None:
    assert facts(ScriptedLLM()) == (ScriptedLLM().metadata.context_window, ScriptedLLM().metadata.capabilities.images)


def test_a_busy_server_is_asked_again(server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def too_late(*args: object, **options: object) -> Any:
        raise Timeout("no answer in time")

    server.loaded = [{"name": MODEL, "context_length": 8192}]
    served, llm = ServedModels(), server.llm()
    with monkeypatch.context() as patch:
        patch.setattr(Service, "send", too_late)
        assert served.ask(llm, again=True).context_window is None
    assert served.ask(llm, again=True).context_window == 8192
