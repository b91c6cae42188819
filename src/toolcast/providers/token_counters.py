"""The requests that count the tokens of a request, for all protocols. No I/O.

An adapter makes the request that it would send, and one of these functions derives from it what the endpoint for
counting accepts: these endpoints refuse fields that they do not know.

Sources: https://platform.claude.com/docs/en/api/messages-count-tokens,
https://platform.openai.com/docs/api-reference/responses/input-tokens, https://ai.google.dev/api/tokens,
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import LLMError, MalformedEvent
from ..values.http_request import HTTPRequest, HTTPResponse
from .batch_codec import as_object, optional_count, text_field
from .file_codec import Exchange

_ANTHROPIC: Final = (
    *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"),
    *("context_management", "mcp_servers", "speed"),
)
_RESPONSES: Final = (
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
    *("conversation", "previous_response_id", "truncation"),
)
_TEMPLATE: Final = ("model", "messages", "tools", "tool_choice", "chat_template_kwargs", "reasoning_effort")
_VLLM: Final = ("model", "messages", "tools", "chat_template_kwargs")
_CONVERSE: Final = ("messages", "system", "toolConfig", "additionalModelRequestFields")
_VERTEX: Final = ("contents", "systemInstruction", "tools", "generationConfig")

Post = Callable[[str, Mapping[str, Any]], HTTPRequest]
"""Returns the request to a path of the service with this JSON body."""


def count_adapted(count: Callable[[], Exchange[int]], adapt: Callable[[LLMError], bool]) -> Exchange[int]:
    """Count by `count`, and once more if the request was refused and `adapt` has left out what it was refused for."""
    try:
        return (yield from count())
    except LLMError as error:
        if not adapt(error):
            raise
    return (yield from count())


def count_by_anthropic(request: HTTPRequest, post: Post) -> Exchange[int]:
    """Count by `/v1/messages/count_tokens`."""
    response = yield post("/messages/count_tokens", _part(request, _ANTHROPIC))
    return _count(response, "input_tokens")


def count_by_anthropic_on_vertex(request: HTTPRequest, post: Post, model: str) -> Exchange[int]:
    """Count by the model `count-tokens` of Vertex AI, whose request names the other one."""
    body = {"model": model, **_part(request, ("anthropic_version", *_ANTHROPIC))}
    response = yield post("/count-tokens:rawPredict", body)
    return _count(response, "input_tokens")


def count_by_responses(request: HTTPRequest, post: Post) -> Exchange[int]:
    """Count by `/v1/responses/input_tokens`."""
    response = yield post("/responses/input_tokens", _part(request, _RESPONSES))
    return _count(response, "input_tokens")


def count_by_google(request: HTTPRequest, post: Post, model: str, path: str, *, vertex: bool) -> Exchange[int]:
    """Count by `countTokens`, whose request contains that for a response; on Vertex AI it has some of its fields."""
    if vertex:
        response = yield post(path, _part(request, _VERTEX))
    else:
        response = yield post(path, {"generateContentRequest": {"model": model, **json.loads(request.body)}})
    return _count(response, "totalTokens")


def count_by_bedrock(request: HTTPRequest, post: Post, path: str) -> Exchange[int]:
    """Count by `CountTokens`, whose request contains some fields of that for a response."""
    response = yield post(path, {"input": {"converse": _part(request, _CONVERSE)}})
    return _count(response, "inputTokens")


def count_by_vllm(request: HTTPRequest, post: Post) -> Exchange[int]:
    """Count by vLLM's `/tokenize`, which takes messages."""
    response = yield post("/tokenize", _part(request, _VLLM))
    return _count(response, "count")


def count_by_llama_cpp(request: HTTPRequest, post: Post) -> Exchange[int]:
    """Count by two requests to llama.cpp: the messages as its template renders them, and the tokens of that text."""
    rendered = yield post("/apply-template", _part(request, _TEMPLATE))
    prompt = text_field(as_object(rendered.body), "prompt")
    # As the server itself tokenizes the prompt of a chat.
    response = yield post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})
    tokens = as_object(response.body).get("tokens")
    if not isinstance(tokens, list):
        raise MalformedEvent("the response of /tokenize has no list 'tokens'. Check that base_url is llama.cpp's.")
    return len(tokens)  # pyright: ignore[reportUnknownArgumentType] - the tokens themselves are not read


def _part(request: HTTPRequest, names: tuple[str, ...]) -> dict[str, Any]:
    body = json.loads(request.body)
    return {name: body[name] for name in names if name in body}


def _count(response: HTTPResponse, name: str) -> int:
    found = as_object(response.body)
    count = optional_count(found, name)
    if count is None:
        raise MalformedEvent(
            f"the service returned no number {name!r} of tokens; the response has: {', '.join(sorted(found))[:200]}. "
            "Check that base_url is right."
        )
    return count
