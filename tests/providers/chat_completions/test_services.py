"""The table of OpenAI-compatible services: complete, consistent, and good for a request each."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from toolcast.credentials import Secret
from toolcast.errors import BadRequest
from toolcast.messages import ToolCallPart, assistant, tool_result, user
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.endpoints import service_url
from toolcast.providers.chat_completions.services import SERVICES, ServiceSpec
from toolcast.settings import Settings
from toolcast.tool_spec import NamedTool, ToolSpec

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))

EXPECTED = {
    "openai", "vllm", "llama.cpp", "lmstudio", "ollama", "groq", "deepseek", "openrouter", "together", "fireworks",
    "xai", "moonshot", "qwen", "perplexity", "openai-compatible", "azure", "azure-v1", "github", "litellm",
    "bedrock-mantle",
}  # fmt: skip

ENVIRON = {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/", "AWS_REGION": "eu-west-1"}


def wire(service: ServiceSpec) -> OpenAIChatAdapter:
    """An adapter of a service with the URL of this environment."""
    return OpenAIChatAdapter(service, api_key=Secret("k"), base_url=service_url(service, None, "m", ENVIRON))


def test_the_table_names_the_services() -> None:
    assert SERVICES.keys() >= EXPECTED
    assert all(name == service.name for name, service in SERVICES.items())


@every_service
def test_a_row_is_consistent(service: ServiceSpec) -> None:
    assert re.fullmatch(r"https?://[^\s?]+[^/]|\{[A-Z_]+\}", service.base_url)
    assert service.path.partition("?")[0].endswith("/chat/completions")
    assert service.key_env
    variables = (*service.key_env, *service.url_env, *service.bearer_env, *service.header_env.values())
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+", name) for name in variables)
    assert service.response_format is None or service.response_format.startswith("json")
    assert service.base_url.startswith("http://localhost") == (not service.needs_key)
    for rule in service.rules:
        re.compile(rule.models)
    fields = {field.name for field in dataclasses.fields(Settings)} | {"parallel_tool_calls", "include"}
    assert {*service.drops, *(name for rule in service.rules for name in rule.fields)} <= fields


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
    assert set(request.notes) >= set(service.drops)
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
