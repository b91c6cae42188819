"""The table of OpenAI-compatible services: complete, consistent, and good for a request each."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from toolcast.errors import BadRequest
from toolcast.messages import ThinkingPart, ToolCallPart, assistant, tool_result, user
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.endpoints import service_url
from toolcast.providers.chat_completions.services import SERVICES, ServiceSpec
from toolcast.providers.model_features import model_rows
from toolcast.values.accumulator import Accumulator
from toolcast.values.credentials import Secret
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))

EXPECTED = {
    "openai", "vllm", "llama.cpp", "lmstudio", "ollama", "groq", "deepseek", "openrouter", "together", "fireworks",
    "xai", "moonshot", "qwen", "perplexity", "openai-compatible", "azure", "azure-v1", "github", "litellm",
    "bedrock-mantle", "azure-foundry", "minimax", "cerebras", "zai", "huggingface",
}  # fmt: skip

ENVIRON = {
    "AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/",
    "AWS_REGION": "eu-west-1",
    "AZURE_AI_API_BASE": "https://me.services.ai.azure.com/",
}


def wire(service: ServiceSpec) -> OpenAIChatAdapter:
    """An adapter of a service with the URL of this environment."""
    return OpenAIChatAdapter(service, api_key=Secret("k"), base_url=service_url(service, None, "m", ENVIRON))


def test_the_table_names_the_services() -> None:
    assert SERVICES.keys() >= EXPECTED
    assert all(name == service.name for name, service in SERVICES.items())


# Values of `prompt_cache_retention`, which not every model has.
RETENTIONS = ("in_memory", "30m", "12h")


@every_service
def test_a_row_is_consistent(service: ServiceSpec) -> None:
    assert re.fullmatch(r"https?://[^\s?]+[^/]|\{[A-Z_]+\}", service.base_url)
    assert service.path.partition("?")[0].endswith("/chat/completions")
    assert service.key_env
    variables = (*service.key_env, *service.url_env, *service.bearer_env, *service.header_env.values())
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+", name) for name in variables)
    assert service.response_format is None or service.response_format.startswith("json")
    assert service.base_url.startswith("http://localhost") == (not service.needs_key)
    fields = {field.name for field in dataclasses.fields(Settings)} | {"parallel_tool_calls", "include", "tool_stream"}
    fields |= {"tools", *RETENTIONS}
    rows = model_rows(service.models_of or service.name)
    assert {
        *service.drops,
        *(name for row in rows for names in row.left_out.values() for name in names.split()),
    } <= fields


@every_service
def test_no_two_services_read_the_same_key(service: ServiceSpec) -> None:
    others = [other for other in SERVICES.values() if other.base_url != service.base_url]
    assert not any(set(service.key_env) & set(other.key_env) for other in others)


@every_service
def test_every_service_gets_a_request(service: ServiceSpec) -> None:
    call = ToolCallPart("x", "f", "{}")
    message = (user("Hi"), assistant("Well", call), tool_result(call, "4"), user("And?"))
    tools = (ToolSpec("f", "Does f.", {"type": "object"}),) if service.tools else ()
    everything = Settings(temperature=0.1, top_p=0.9, top_k=4, max_tokens=9, stop="x", seed=1, logprobs=1)
    everything = everything.with_(thinking="low")
    request = wire(service).request(RequestInput("m", message, tools, NamedTool("f") if tools else None), everything)
    body = json.loads(request.body)
    assert request.url == service_url(service, None, "m", ENVIRON)
    assert set(request.notes) >= set(service.drops) - set(RETENTIONS)
    assert not body.keys() & set(service.drops)
    assert len(body["messages"]) == 4
    assert body[service.max_tokens_field] == 9
    assert ("stream_options" in body) == service.stream_options
    assert ("tools" in body) == service.tools


@every_service
def test_an_error_names_the_service_and_its_variable(service: ServiceSpec) -> None:
    error = wire(service).error(401, {}, b"")
    assert error.provider == service.name
    assert service.key_env[0] in str(error)


@every_service
def test_tools_are_refused_where_there_are_none(service: ServiceSpec) -> None:
    conversation = RequestInput("m", (user("Hi"),), (ToolSpec("f", "", {}),))
    if service.tools:
        assert b'"tools"' in wire(service).request(conversation, Settings()).body
    else:
        with pytest.raises(BadRequest, match=service.name):
            wire(service).request(conversation, Settings())


def streamed(service: str, model: str, *, stream: bool = True, **settings: object) -> dict[str, object]:
    """The body of a request with a tool to a service."""
    tools = (ToolSpec("f", "Does f.", {"type": "object"}),)
    conversation = RequestInput(model, (user("Hi"),), tools, NamedTool("f"), stream=stream)
    body: dict[str, object] = json.loads(
        wire(SERVICES[service]).request(conversation, Settings().with_(**settings)).body
    )
    return body


def test_the_fields_that_a_service_needs_in_every_request() -> None:
    """MiniMax: thoughts in a field of their own. Z.ai: calls that grow, for the models that stream them."""
    for stream in (True, False):
        assert streamed("minimax", "MiniMax-M3", stream=stream)["reasoning_split"] is True
        assert ("tool_stream" in streamed("zai", "glm-5.2", stream=stream)) is stream
    assert "tool_stream" in streamed("zai", "glm-4.7")
    for model in ("glm-4.5-air", "glm-4-flash"):
        assert "tool_stream" not in streamed("zai", model)
    request = wire(SERVICES["zai"]).request(RequestInput("glm-5.2", (user("Hi"),), stream=True), Settings())
    assert b"tool_stream" not in request.body


def test_thinking_of_minimax() -> None:
    assert streamed("minimax", "MiniMax-M3", thinking="high")["thinking"] == {"type": "adaptive"}
    assert streamed("minimax", "MiniMax-M3", thinking=False)["thinking"] == {"type": "disabled"}
    assert "thinking" not in streamed("minimax", "MiniMax-M2.7", thinking=False)
    assert "thinking" not in streamed("minimax", "MiniMax-M3")


@pytest.mark.parametrize("beside", [{}, {"reasoning_content": "Hm, so."}])
def test_thoughts_of_minimax_are_text_once_and_go_back(beside: dict[str, str]) -> None:
    """In `reasoning_details` alone, or with the same text in a field beside it."""
    detail = {"type": "reasoning.text", "id": "reasoning-text-1", "format": "MiniMax-response-v1", "index": 0}
    halves = [{"reasoning_details": [{**detail, "text": text}]} for text in ("Hm, ", "so.")]
    if beside:
        halves = [{"reasoning_content": half["reasoning_details"][0]["text"], **half} for half in halves]
    deltas = [*halves, {"content": "Four."}]
    chunks = [{"choices": [{"index": 0, "delta": each}]} for each in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    message = {**beside, "reasoning_details": [{**detail, "text": "Hm, so."}], "content": "Four."}
    whole = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    adapter = wire(SERVICES["minimax"])
    for answer in (body, whole):
        decoder = adapter.decoder(RequestInput("MiniMax-M3", ()))
        accumulator = Accumulator()
        for event in [*decoder.feed(answer), *decoder.close()]:
            accumulator.apply(event)
        response = accumulator.response()
        thoughts = [part.text for part in response.message.parts if isinstance(part, ThinkingPart)]
        assert (response.text, thoughts) == ("Four.", ["Hm, so."])
        request = adapter.request(RequestInput("MiniMax-M3", (user("Hi"), response.message)), Settings())
        (_, back) = json.loads(request.body)["messages"]
        assert back == {"role": "assistant", "content": "Four.", "reasoning_details": message["reasoning_details"]}


def test_the_address_of_azure_foundry() -> None:
    request = wire(SERVICES["azure-foundry"]).request(RequestInput("DeepSeek-V3.2", (user("Hi"),)), Settings())
    assert request.url == "https://me.services.ai.azure.com/openai/v1/chat/completions"
    assert request.headers["api-key"] == Secret("k")
