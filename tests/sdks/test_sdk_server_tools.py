"""Tools that the provider runs, through the official clients and through toolcast: the same tools in the request.

The other way round, the clients read the blocks that toolcast stores, and have each of their fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import toolcast
from sdks.decoded import camel_case
from support.loopback import Loopback, Request, whole
from toolcast import CodeExecution, FileSearch, RemoteMCP, ServerTool, URLContext, WebSearch

pytestmark = pytest.mark.networked

TOKEN = "mcp-token-0123456789"
SERVER = RemoteMCP("docs", "https://a.com/mcp", TOKEN, allowed_tools=["search"], require_approval="never")
PLACE = {"country": "GB", "city": "London", "timezone": "Europe/London"}


def openai(url: str, tools: Sequence[Any]) -> Any:
    from openai import OpenAI

    include: Any = [
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "code_interpreter_call.outputs",
        "file_search_call.results",
    ]
    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "Hi"}]
        response = client.responses.create(model="gpt-5.4", input=messages, store=False, tools=tools, include=include)
    return [item.model_dump(exclude_unset=True) for item in response.output]


def anthropic(url: str, tools: Sequence[Any]) -> Any:
    from anthropic import Anthropic

    servers: Any = [{"type": "url", "name": "docs", "url": "https://a.com/mcp", "authorization_token": TOKEN}]
    with Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        response = client.beta.messages.create(
            model="claude-sonnet-4-6",
            max_tokens=99,
            messages=[{"role": "user", "content": "Hi"}],
            tools=tools,
            mcp_servers=servers,
            betas=["mcp-client-2025-11-20"],
        )
    return [block.model_dump(exclude_unset=True, by_alias=True) for block in response.content]


def google(url: str, tools: Sequence[Any]) -> Any:
    from google import genai
    from google.genai import types

    config = types.GenerateContentConfig(tools=list(tools))
    with genai.Client(api_key="any", http_options={"base_url": url, "api_version": "v1beta"}) as client:
        response = client.models.generate_content(model="gemini-3-flash-preview", contents="Hi", config=config)
    return [
        part.model_dump(exclude_unset=True, exclude_none=True, by_alias=True, mode="json")
        for part in response.candidates[0].content.parts
    ]


def google_tools() -> list[Any]:
    from google.genai import types

    store = types.FileSearch(file_search_store_names=["fileSearchStores/a"], top_k=5, metadata_filter="a = 1")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = types.StreamableHttpTransport(url="https://a.com/mcp", headers=headers)
    return [
        types.Tool(google_search=types.GoogleSearch()),
        types.Tool(url_context=types.UrlContext()),
        types.Tool(code_execution=types.ToolCodeExecution()),
        types.Tool(file_search=store),
        types.Tool(mcp_servers=[types.McpServer(name="docs", streamable_http_transport=transport)]),
    ]


OPENAI_TOOLS: list[Any] = [
    {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.com"]},
        "user_location": {"type": "approximate", **PLACE},
        "search_context_size": "low",
    },
    {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}},
    {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3},
    {
        "type": "mcp",
        "server_label": "docs",
        "server_url": "https://a.com/mcp",
        "authorization": TOKEN,
        "allowed_tools": ["search"],
        "require_approval": "never",
    },
]
ANTHROPIC_TOOLS: list[Any] = [
    {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 3,
        "blocked_domains": ["a.com"],
        "user_location": {"type": "approximate", **PLACE},
    },
    {"type": "web_fetch_20250910", "name": "web_fetch", "max_content_tokens": 1000},
    {"type": "code_execution_20250825", "name": "code_execution"},
    {
        "type": "mcp_toolset",
        "mcp_server_name": "docs",
        "default_config": {"enabled": False},
        "configs": {"search": {"enabled": True}},
    },
]
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
OPENAI_ITEMS: list[Any] = [
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "sea", "sources": [{"type": "url", "url": "https://a.com"}]},
    },
    {
        "type": "file_search_call",
        "id": "fs_1",
        "status": "completed",
        "queries": ["sea"],
        "results": [{"file_id": "file-1", "filename": "a.pdf", "score": 0.5, "text": "Sea."}],
    },
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "1"}],
    },
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "arguments": "{}",
        "name": "search",
        "server_label": "docs",
        "output": "found",
    },
]
ANTHROPIC_BLOCKS: list[Any] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sea"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://a.com",
                "title": "A",
                "encrypted_content": "Eqgf",
                "page_age": None,
            }
        ],
    },
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    },
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "search", "server_name": "docs", "input": {"a": 1}},
    {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": False,
        "content": [{"type": "text", "text": "found"}],
    },
]
GOOGLE_PARTS: list[Any] = [
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {
        "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "a", "args": {"queries": ["sea"]}},
        "thoughtSignature": "UzE=",
    },
    {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "a", "response": {"b": 1}}},
]
CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]], list[ServerTool], Any, list[Any]]] = {
    "openai": (
        openai,
        lambda: OPENAI_TOOLS,
        [
            WebSearch(allowed_domains=["a.com"], **PLACE, context_size="low"),  # type: ignore[arg-type]  # all are str
            CodeExecution(file_ids=["file-1"]),
            FileSearch(["vs_1"], max_results=3),
            SERVER,
        ],
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-5.4",
            "status": "completed",
            "output": [*OPENAI_ITEMS, MESSAGE],
        },
        OPENAI_ITEMS,
    ),
    "anthropic": (
        anthropic,
        lambda: ANTHROPIC_TOOLS,
        [
            WebSearch(max_uses=3, blocked_domains=["a.com"], **PLACE),  # type: ignore[arg-type]  # as above
            URLContext(max_content_tokens=1000),
            CodeExecution(),
            SERVER,
        ],
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": [*ANTHROPIC_BLOCKS, {"type": "text", "text": "Hi"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        ANTHROPIC_BLOCKS,
    ),
    "google": (
        google,
        google_tools,
        [
            WebSearch(),
            URLContext(),
            CodeExecution(),
            FileSearch(["fileSearchStores/a"], max_results=5, filter="a = 1"),
            RemoteMCP("docs", "https://a.com/mcp", TOKEN, require_approval="never"),
        ],
        {
            "candidates": [
                {"content": {"role": "model", "parts": [*GOOGLE_PARTS, {"text": "Hi"}]}, "finishReason": "STOP"}
            ]
        },
        GOOGLE_PARTS,
    ),
}
LLMS: dict[str, Callable[[str], toolcast.FunctionCallingLLM]] = {
    "openai": lambda url: toolcast.OpenAIResponses("gpt-5.4", api_key="any", base_url=f"{url}/v1", max_retries=0),
    "anthropic": lambda url: toolcast.Anthropic("claude-sonnet-4-6", api_key="any", base_url=url, max_retries=0),
    "google": lambda url: toolcast.Google("gemini-3-flash-preview", api_key="any", base_url=url, max_retries=0),
}


def meant(request: Request) -> dict[str, Any]:
    """Return what a request has of tools."""
    body = json.loads(request.body)
    found = {name: body[name] for name in ("tools", "include", "mcp_servers") if name in body}
    if "contents" in body:
        found = camel_case(found)
    return {**found, "beta": request.headers.get("anthropic-beta")}


@pytest.mark.parametrize("name", CASES)
def test_both_send_the_same_tools_and_read_the_same_blocks(name: str) -> None:
    official, their_tools, tools, answer, blocks = CASES[name]
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(json.dumps(answer).encode(), 200, "content-type: application/json"))
        theirs = official(url, their_tools())
        response = LLMS[name](url).chat("Hi", tools=tools)
        first, second = map(meant, server.requests)
    assert second == first
    assert [part.raw for part in response.message.server_tools] == blocks == theirs[: len(blocks)]
