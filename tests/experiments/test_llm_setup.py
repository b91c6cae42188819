"""The model of an experiment: which LLM it is, what it is asked with, and whether it is there."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from experiments.test_experiment_config import USUAL
from support.loopback import CLOSE, RESET, head, whole
from support.ollama_server import OllamaServer
from support.sync_and_async import API
from toolcast.errors import AuthFailed, MalformedEvent, NotFound, ServerError, ToolcastError, UnsupportedLLMError
from toolcast.events import Event, Finish
from toolcast.experiments import llm_setup
from toolcast.experiments.config_errors import UnknownKey
from toolcast.experiments.experiment_config import ExperimentConfig, config_of
from toolcast.experiments.llm_setup import (
    ModelNotFoundError,
    ServerNotFound,
    acheck_model,
    build_llm,
    check_model,
    check_setup,
    settings_of,
)
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.local.llama_cpp import LlamaCpp
from toolcast.llms.model_registry import choose_llm
from toolcast.llms.vendors.cohere_mistral_ollama import Ollama
from toolcast.llms.vendors.openai_llms import OpenAICompatible
from toolcast.messages import Message
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.capabilities import LLMMetadata, Progress
from toolcast.values.settings import Settings, Timeouts
from toolcast.values.tool_spec import ToolChoice


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_HOST", "OLLAMA_MODEL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def config(model_name: str = "llama3.2", **options: Any) -> ExperimentConfig:
    return config_of({**USUAL, "model_name": model_name, "model_options": options})


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("llama3.2", "llama3.2"),
        ("gemma3:4b", "gemma3:4b"),
        ("ollama:qwen3:8b", "qwen3:8b"),
        ("mistral:7b", "mistral:7b"),
    ],
)
def test_a_model_of_ollama_is_asked_at_its_host(name: str, model: str) -> None:
    llm = build_llm(config(name))
    assert isinstance(llm, Ollama)
    assert (llm.model, llm.base_url) == (model, "http://localhost:11434")


def test_the_environment_does_not_beat_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://elsewhere:1")
    monkeypatch.setenv("OLLAMA_MODEL", "other")
    llm = build_llm(config())
    assert isinstance(llm, Ollama)
    assert (llm.model, llm.base_url) == ("llama3.2", "http://localhost:11434")


def test_host_and_token_of_the_command_line_beat_all() -> None:
    llm = build_llm(config(), host="box:9", token="t0ken")
    assert isinstance(llm, Ollama)
    assert llm.base_url == "https://box:9"
    assert "t0ken" not in repr(llm)
    preview = llm.preview("?")
    assert preview is not None
    assert preview.headers["authorization"].reveal() == "Bearer t0ken"  # type: ignore[union-attr]  # it is a Secret


def test_a_model_of_another_service_does_not_gets_ollamas_host() -> None:
    llm = build_llm(config("groq:llama-3.3-70b"))
    assert isinstance(llm, OpenAICompatible)
    assert (llm.model, llm.base_url) == ("llama-3.3-70b", None)
    with pytest.raises(UnsupportedLLMError):
        build_llm(config("local"), host="box")


def test_the_embedded_model_gets_its_context() -> None:
    llm = build_llm(config("local"))
    assert isinstance(llm, LlamaCpp)
    assert (llm.model, llm.metadata.context_window) == ("smollm2", 4096)
    larger = build_llm(config("local:smollm2", num_ctx=2048))
    assert larger.metadata.context_window == 2048


def test_what_every_service_knows_goes_where_it_always_does() -> None:
    asked = config(seed=42, temperature=0.5, top_p=0.9, top_k=40, stop=["END"], num_predict=100)
    assert settings_of(asked, build_llm(asked)) == Settings(
        temperature=0.5, top_p=0.9, top_k=40, max_tokens=100, stop=("END",), seed=42
    )
    other = config("openai:gpt-4.1", seed=1, num_predict=5)
    assert settings_of(other, build_llm(other)) == Settings(seed=1, max_tokens=5)


@pytest.mark.parametrize("number", [None, -1])
def test_no_limit_is_not_sent(number: int | None) -> None:
    asked = config(num_predict=number)
    assert settings_of(asked, build_llm(asked)) == Settings()


def test_all_else_is_an_option_of_ollama() -> None:
    options = {"repeat_last_n": 64, "repeat_penalty": 1.1, "num_ctx": 8192, "min_p": 0.1, "num_predict": -2}
    asked = config(temperature=0.5, **options)
    llm = build_llm(asked)
    settings = settings_of(asked, llm)
    assert settings.extra == {"options": options}
    preview = llm.preview("?", settings=settings)
    assert preview is not None
    assert json.loads(preview.body)["options"] == {"temperature": 0.5, **options}


def test_the_embedded_model_takes_what_llama_cpp_knows() -> None:
    asked = config("local", repeat_last_n=64, repeat_penalty=1.1, num_ctx=2048, min_p=0.1, num_predict=-2)
    assert settings_of(asked, build_llm(asked)).extra == {"repeat_last_n": 64, "repeat_penalty": 1.1, "min_p": 0.1}
    assert settings_of(config("local", num_ctx=2048), build_llm(config("local"))) == Settings()
    with pytest.raises(UnknownKey, match=r"model_options\.num_gpu is no option of the embedded model"):
        settings_of(config("local", num_gpu=1), build_llm(config("local")))


def test_options_that_a_service_has_not_are_refused_by_their_keys() -> None:
    asked = config("openai:gpt-4.1", repeat_penalty=1.1, num_ctx=100, min_p=0.1)
    with pytest.raises(UnknownKey) as raised:
        settings_of(asked, build_llm(asked))
    assert [fault.key for fault in raised.value.faults] == [
        "model_options.min_p",
        "model_options.num_ctx",
        "model_options.repeat_penalty",
    ]
    assert "model_options.min_p is no option of openai gpt-4.1. Take it out, or name a model of Ollama" in str(
        raised.value
    )


def test_an_llm_of_ones_own_is_given_everything() -> None:
    asked = config(repeat_penalty=1.1)
    assert settings_of(asked, ScriptedLLM("a")).extra == {"options": {"repeat_penalty": 1.1}}


class Checking:
    """A function, sync or async, that checks a model."""

    def __init__(self, api: API) -> None:
        self._api = api

    def __call__(self, llm: FunctionCallingLLM, progress: Progress | None = None) -> None:
        self._api.method(_Both(llm, progress), "check")  # type: ignore[arg-type]  # has what `method` calls


class _Both:
    def __init__(self, llm: FunctionCallingLLM, progress: Progress | None) -> None:
        self._llm = llm
        self._progress = progress

    def check(self) -> None:
        with self._llm:
            check_model(self._llm, self._progress)

    async def acheck(self) -> None:
        async with self._llm:
            await acheck_model(self._llm, self._progress)


@pytest.fixture
def check(api: API) -> Checking:
    return Checking(api)


def tags(*names: str) -> bytes:
    return whole(json.dumps({"models": [{"name": name, "size": 1} for name in names]}).encode())


def asked_for(server: OllamaServer, model: str, **options: Any) -> Ollama:
    return Ollama(model, base_url=f"http://{server.host}", **options)


@pytest.mark.parametrize(
    ("model", "there"),
    [
        ("llama3.2", "llama3.2:latest"),
        ("llama3.2:latest", "llama3.2:latest"),
        ("llama3.2:latest", "llama3.2"),
        ("gemma3:4b", "gemma3:4b"),
        ("Gemma3:4B", "gemma3:4b"),
        ("hf.co/some/model:Q4_0", "hf.co/some/model:Q4_0"),
        ("box:5000/me/model", "box:5000/me/model:latest"),
    ],
)
def test_a_model_that_is_there(check: Checking, model: str, there: str) -> None:
    with OllamaServer() as server:
        server.answer(tags("other:1b", there))
        check(asked_for(server, model))
        (request,) = server.requests
    assert request.line == "GET /api/tags HTTP/1.1"


def test_x1_a_model_that_is_not_there(check: Checking) -> None:
    with OllamaServer() as server:
        server.answer(tags("llama3.2:latest", "gemma3:4b", "llama3.1:8b"))
        with pytest.raises(ModelNotFoundError) as raised:
            check(asked_for(server, "llama3.2:1b"))
    error = raised.value
    assert isinstance(error, ToolcastError)
    assert isinstance(error, LookupError)
    assert error.model == "llama3.2:1b"
    assert str(error) == (
        f"Ollama at http://{server.host} has no model 'llama3.2:1b'. Fetch it with `ollama pull llama3.2:1b`. "
        "It has: llama3.1:8b, llama3.2:latest"
    )


@pytest.mark.parametrize("body", [b'{"models": []}', b'{"models": null}'])
def test_x1_an_ollama_without_models(check: Checking, body: bytes) -> None:
    with OllamaServer() as server:
        server.answer(whole(body))
        with pytest.raises(ModelNotFoundError, match=r"`ollama pull m`\. It has no models yet"):
            check(asked_for(server, "m"))


def test_a_service_that_was_perhaps_meant_is_named(check: Checking) -> None:
    with OllamaServer() as server:
        server.answer(tags("zzz:latest"))
        with pytest.raises(
            ModelNotFoundError, match=r"For the service mistral leave ollama_client_config out\. It has: zzz"
        ):
            check(asked_for(server, "mistral:mistral-large-latest"))


def test_a_server_that_lists_no_models_is_taken_as_it_is(check: Checking) -> None:
    with OllamaServer() as server:
        server.fails(404, "not found")
        check(asked_for(server, "m"))
        assert len(server.requests) == 1


def test_x1_a_server_that_is_not_there(check: Checking) -> None:
    with OllamaServer() as server:
        host = server.host
    with pytest.raises(ConnectionError) as raised:
        check(Ollama("m", base_url=f"http://{host}"))
    assert isinstance(raised.value, ServerNotFound)
    assert isinstance(raised.value, ToolcastError)
    assert str(raised.value).startswith(f"Ollama does not answer at http://{host}: ")
    assert "Start it with `ollama serve`, or say where it is with ollama_client_config.host" in str(raised.value)


@pytest.mark.parametrize("broken", [(RESET,), (head(200, "content-length: 100"), b"{", CLOSE)])
def test_a_server_that_breaks_off(check: Checking, broken: tuple[Any, ...]) -> None:
    with OllamaServer() as server:
        server.answer(*broken)
        with pytest.raises(ServerNotFound, match="ollama serve"):
            check(asked_for(server, "m"))


@pytest.mark.parametrize("pieces", [(), (head(200, "content-length: 9"), b"{")])
def test_a_server_that_has_no_text(check: Checking, pieces: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_setup, "_TIMEOUTS", Timeouts(first_token=0.05, idle=0.05))
    over = threading.Event()
    with OllamaServer() as server:
        server.answer(*pieces, over)
        with pytest.raises(ServerNotFound, match="Ollama does not answer"):
            check(asked_for(server, "m"))
        over.set()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"models": [{}]}', b'{"models": [1]}', b"3", b"\xff"])
def test_a_server_that_is_no_ollama(check: Checking, body: bytes) -> None:
    with OllamaServer() as server:
        server.answer(whole(body))
        with pytest.raises(MalformedEvent, match="is no Ollama: asked for its models it says") as raised:
            check(asked_for(server, "m"))
    assert server.host in str(raised.value)


@pytest.mark.parametrize(("status", "kind"), [(401, AuthFailed), (500, ServerError)])
def test_a_refusal_is_what_it_always_is(check: Checking, status: int, kind: type[Exception]) -> None:
    with OllamaServer() as server:
        server.fails(status, "no")
        with pytest.raises(kind):
            check(asked_for(server, "m", api_key="t0ken-123"))
        (request,) = server.requests
    assert request.headers["authorization"] == "Bearer t0ken-123"


def test_an_auth_of_ones_own_is_asked(check: Checking) -> None:
    with OllamaServer() as server:
        server.answer(tags("m"))
        check(asked_for(server, "m", auth=lambda: {"x-who": "me"}))
        assert server.requests[0].headers["x-who"] == "me"


def test_an_address_with_a_path_and_a_query(check: Checking) -> None:
    with OllamaServer() as server:
        server.answer(tags("m"))
        check(Ollama("m", base_url=f"http://{server.host}/deep?zone=1"))
        assert server.requests[0].line == "GET /deep/api/tags?zone=1 HTTP/1.1"


class Loading(FunctionCallingLLM):
    """An LLM that has to be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded_in: list[int] = []

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("own")

    def load(self, progress: Progress | None = None) -> None:
        self.loaded_in.append(threading.get_ident())
        if progress is not None:
            progress(1, 2)

    async def _events(
        self, messages: Sequence[Message], tools: Sequence[CallableTool], tool_choice: ToolChoice, settings: Settings
    ) -> AsyncIterator[Event]:
        yield Finish("end_turn")


def test_any_other_model_is_loaded(check: Checking) -> None:
    llm, received = Loading(), list[tuple[int, int]]()
    check(llm, lambda done, total: received.append((done, total)))
    assert len(llm.loaded_in) == 1
    assert received == [(1, 2)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_loading_does_not_hold_up_an_event_loop(backend: str) -> None:
    llm = Loading()
    anyio.run(acheck_model, llm, backend=backend)
    assert llm.loaded_in != [threading.get_ident()]


def test_a_model_that_is_needed_later_is_looked_for_and_not_loaded() -> None:
    with OllamaServer() as server:
        server.answer(whole(json.dumps({"models": [{"name": "other"}]}).encode()))
        with (
            Ollama("m-1", base_url=f"http://{server.host}") as llm,
            pytest.raises(ModelNotFoundError, match="no model 'm-1'"),
        ):
            check_setup(llm)


def test_a_service_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with OpenAICompatible("m", base_url="https://api.example.com/v1") as llm:
        check_setup(llm)  # it may need none
    with choose_llm("openai:gpt-5") as llm, pytest.raises(AuthFailed, match="no API key for openai"):
        check_setup(llm)
    with choose_llm("openai:gpt-5", token="sk-1") as llm:
        check_setup(llm)


def test_an_embedded_model_needs_its_extra_and_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(llm_setup, "find_spec", lambda name: object())
    check_setup(LlamaCpp("smollm2"))  # which is downloaded when it is used
    with pytest.raises(NotFound, match=r"there is no model file .*none\.gguf"):
        check_setup(LlamaCpp(str(tmp_path / "none.gguf")))
    monkeypatch.setattr(llm_setup, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[local\]'"):
        check_setup(LlamaCpp("smollm2"))


def test_an_llm_of_a_program_is_taken_as_it_is() -> None:
    llm = ScriptedLLM()
    check_setup(llm)
    assert llm.requests == []
