"""The forms of the tools that providers run, in the requests of each protocol.

`FORMS` has a row for each protocol, with a function for each tool that it has; docs/features.py makes the table of the
documentation from it. An option that a provider does not have is a `BadRequest` before sending, and so is a tool: a
search without its restriction to some domains would be another search. Imported by an encoder where a request has such
a tool. Sources: the types of the vendors' SDKs (openai 3.54, anthropic 2.12, google-genai 3.4, groq 1.7, xai-sdk 1.21)
and the pages that are named beside each form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from ..errors import BadRequest
from ..values.credentials import Secret
from ..values.server_tools import (
    CodeExecution,
    FileSearch,
    ImageGeneration,
    RemoteMCP,
    ServerTool,
    URLContext,
    WebSearch,
)

Form: TypeAlias = Callable[[str, Any], dict[str, Any]]
"""A function from the name of the provider, for errors, and a tool to its definition in a request."""

_TUPLE: Any = tuple  # typed as Any, so that isinstance does not narrow Any to an unknown type
_LOCATION: Final = ("country", "region", "city", "timezone")


def encode_server_tool(provider: str, protocol: str, tool: ServerTool) -> dict[str, Any]:
    """Return the definition of a tool in a request. Raise `BadRequest` if the protocol does not have it."""
    form = FORMS.get(protocol, {}).get(type(tool))
    if form is None:
        raise missing_server_tool(provider, tool, ELSEWHERE.get(protocol, {}).get(type(tool), ""))
    return {**form(provider, tool), **(tool.extra or {})}


def missing_server_tool(provider: str, tool: ServerTool, advice: str = "") -> BadRequest:
    """Return the error for a tool that a provider does not have. `advice`: another API of the provider that has it."""
    others = [name for name, forms in FORMS.items() if type(tool) in forms and "-" not in name]
    have = f"; it is known for {', '.join(others)}" if others and not advice else ""
    return BadRequest(f"{provider} does not run {tool.label}{have}. {advice or 'Leave it out of tools='}".rstrip("."))


def _sent(
    provider: str, tool: ServerTool, names: Mapping[str, str] = MappingProxyType({}), *known: str
) -> dict[str, Any]:
    """Return the options that are set, by their names in the protocol. Raise `BadRequest` for one that it has not.

    Args:
        provider: The name of the provider, for the error.
        tool: The tool.
        names: The names of options in the protocol.
        *known: The options that the caller encodes.
    """
    sent: dict[str, Any] = {}
    for each in fields(tool):
        value: Any = getattr(tool, each.name)
        if each.name in ("extra", *known) or value in (None, (), {}):
            continue
        if each.name not in names:
            raise BadRequest(f"{provider} has no {each.name}= for {tool.label}, which is {value!r:.100}: leave it out")
        sent[names[each.name]] = list(value) if isinstance(value, _TUPLE) else value
    return sent


def _plain(value: object) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def _url(tool: RemoteMCP) -> str:
    return _plain(tool.url)


def _headers(tool: RemoteMCP) -> dict[str, str]:
    return {name: _plain(value) for name, value in tool.headers.items()}


def _require_never(provider: str, tool: RemoteMCP) -> None:
    """Raise `BadRequest` for a server whose calls need an approval, where the provider cannot ask for one."""
    if tool.require_approval != "never":
        raise BadRequest(
            f"{provider} runs the calls of {tool.label} without asking for an approval: leave it out, or accept that "
            "with require_approval='never'"
        )


# -- OpenAI's Responses API: developers.openai.com/api/docs/guides/tools-web-search, -code-interpreter, -file-search,
# -connectors-mcp


def _openai_location(tool: WebSearch) -> dict[str, Any]:
    return {"user_location": {"type": "approximate", **tool.location}} if tool.location else {}


def _openai_search(provider: str, tool: WebSearch) -> dict[str, Any]:
    lists = ("allowed_domains", "blocked_domains")
    size = _sent(provider, tool, {"context_size": "search_context_size"}, *lists, *_LOCATION)
    filters = {name: list(domains) for name in lists if (domains := getattr(tool, name))}
    return {"type": "web_search", **({"filters": filters} if filters else {}), **_openai_location(tool), **size}


def _openai_code(provider: str, tool: CodeExecution) -> dict[str, Any]:
    _sent(provider, tool, {}, "container", "file_ids")
    files = {"file_ids": list(tool.file_ids)} if tool.file_ids else {}
    return {"type": "code_interpreter", "container": tool.container or {"type": "auto", **files}}


def _openai_images(provider: str, tool: ImageGeneration) -> dict[str, Any]:
    """developers.openai.com/api/docs/guides/tools-image-generation."""
    same = ("model", "size", "quality", "background", "output_format", "partial_images", "action", "moderation")
    names = {name: name for name in (*same, "input_fidelity")} | {"compression": "output_compression"}
    return {"type": "image_generation", **_sent(provider, tool, names)}


def _openai_files(provider: str, tool: FileSearch) -> dict[str, Any]:
    if isinstance(tool.filter, str):
        raise BadRequest(f"{provider} needs an object as filter= of FileSearch, got text")
    names = {"stores": "vector_store_ids", "max_results": "max_num_results", "filter": "filters"}
    return {"type": "file_search", **_sent(provider, tool, names)}


def _mcp(provider: str, tool: RemoteMCP, *, approval: bool) -> dict[str, Any]:
    about = {"type": "mcp", "server_label": tool.name, "server_url": _url(tool)}
    if tool.description:
        about["server_description"] = tool.description
    if tool.token is not None:
        about["authorization"] = _plain(tool.token)
    return {
        **about,
        **({"headers": _headers(tool)} if tool.headers else {}),
        **({"allowed_tools": list(tool.allowed_tools)} if tool.allowed_tools else {}),
        **({"require_approval": tool.require_approval} if approval else {}),
    }


def _openai_mcp(provider: str, tool: RemoteMCP) -> dict[str, Any]:
    return _mcp(provider, tool, approval=True)


# -- xAI's Responses API: docs.x.ai/docs/guides/tools; it has no approvals


def _xai_search(provider: str, tool: WebSearch) -> dict[str, Any]:
    names = {"allowed_domains": "allowed_domains", "blocked_domains": "excluded_domains"}
    filters = _sent(provider, tool, names, *_LOCATION)
    return {"type": "web_search", **({"filters": filters} if filters else {}), **_openai_location(tool)}


def _xai_code(provider: str, tool: CodeExecution) -> dict[str, Any]:
    return {"type": "code_interpreter", **_sent(provider, tool)}


def _xai_files(provider: str, tool: FileSearch) -> dict[str, Any]:
    names = {"stores": "vector_store_ids", "max_results": "max_num_results"}
    return {"type": "file_search", **_sent(provider, tool, names)}


def _unasked_mcp(provider: str, tool: RemoteMCP) -> dict[str, Any]:
    _require_never(provider, tool)
    return _mcp(provider, tool, approval=False)


# -- Groq: console.groq.com/docs/tool-use/built-in-tools. Models of OpenAI take tools by type, its Compound systems by
# name (see `groq_compound`)


def _groq_search(provider: str, tool: WebSearch) -> dict[str, Any]:
    return {"type": "browser_search", **_sent(provider, tool)}


def _groq_code(provider: str, tool: CodeExecution) -> dict[str, Any]:
    return {"type": "code_interpreter", **_sent(provider, tool)}


def _groq_mcp(provider: str, tool: RemoteMCP) -> dict[str, Any]:
    _require_never(provider, tool)
    return _mcp(provider, tool, approval=True)


def _groq_responses_code(provider: str, tool: CodeExecution) -> dict[str, Any]:
    return {"type": "code_interpreter", "container": {"type": "auto"}, **_sent(provider, tool)}


_COMPOUND: Final[Mapping[type[ServerTool], str]] = MappingProxyType(
    {WebSearch: "web_search", CodeExecution: "code_interpreter", URLContext: "visit_website"}
)


def groq_compound(provider: str, tools: Sequence[ServerTool]) -> dict[str, Any]:
    """Return the fields of a request to one of Groq's Compound systems, which has its tools by name."""
    names: list[str] = []
    settings: dict[str, Any] = {}
    for tool in tools:
        if type(tool) not in _COMPOUND:
            raise missing_server_tool(provider, tool, ELSEWHERE["groq"].get(type(tool), ""))
        names.append(_COMPOUND[type(tool)])
        searching = isinstance(tool, WebSearch)
        fitting = {"allowed_domains": "include_domains", "blocked_domains": "exclude_domains"} if searching else {}
        settings |= {**_sent(provider, tool, fitting), **(tool.extra or {})}
    return {
        "compound_custom": {"tools": {"enabled_tools": names}},
        **({"search_settings": settings} if settings else {}),
    }


# -- Anthropic: platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools, .../web-search-tool,
# .../web-fetch-tool, .../code-execution-tool, .../mcp-connector. The first versions of search and fetch, which all
# models have and which need no code execution; `extra={"type": "web_search_20260318"}` selects another.


def _anthropic_search(provider: str, tool: WebSearch) -> dict[str, Any]:
    names = {name: name for name in ("max_uses", "allowed_domains", "blocked_domains")}
    return {
        "type": "web_search_20250305",
        "name": "web_search",
        **_sent(provider, tool, names, *_LOCATION),
        **_openai_location(tool),
    }


def _anthropic_fetch(provider: str, tool: URLContext) -> dict[str, Any]:
    names = {name: name for name in ("max_uses", "allowed_domains", "blocked_domains", "max_content_tokens")}
    return {"type": "web_fetch_20250910", "name": "web_fetch", **_sent(provider, tool, names)}


def _anthropic_code(provider: str, tool: CodeExecution) -> dict[str, Any]:
    _sent(provider, tool, {}, "container")  # the container is a field of the request
    return {"type": "code_execution_20250825", "name": "code_execution"}


def _anthropic_mcp(provider: str, tool: RemoteMCP) -> dict[str, Any]:
    _require_never(provider, tool)
    _sent(provider, tool, {}, "name", "url", "token", "allowed_tools", "require_approval")
    toolset: dict[str, Any] = {"type": "mcp_toolset", "mcp_server_name": tool.name}
    if tool.allowed_tools:
        toolset["default_config"] = {"enabled": False}
        toolset["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    return toolset


ANTHROPIC_MCP_BETA: Final = "mcp-client-2025-11-20"
"""The value of the header `anthropic-beta` that requests with MCP servers need."""


def anthropic_servers(tools: Sequence[ServerTool]) -> list[dict[str, Any]]:
    """Return `mcp_servers` of a request of Anthropic's: the connections, beside their toolsets in `tools`."""
    return [
        {
            "type": "url",
            "name": tool.name,
            "url": _url(tool),
            **({"authorization_token": _plain(tool.token)} if tool.token is not None else {}),
        }
        for tool in tools
        if isinstance(tool, RemoteMCP)
    ]


# -- Google: ai.google.dev/gemini-api/docs/google-search, .../url-context, .../code-execution, .../file-search


def _google_search(provider: str, tool: WebSearch) -> dict[str, Any]:
    return {"googleSearch": _sent(provider, tool)}


def _vertex_search(provider: str, tool: WebSearch) -> dict[str, Any]:
    return {"googleSearch": _sent(provider, tool, {"blocked_domains": "excludeDomains"})}


def _google_code(provider: str, tool: CodeExecution) -> dict[str, Any]:
    return {"codeExecution": _sent(provider, tool)}


def _google_urls(provider: str, tool: URLContext) -> dict[str, Any]:
    return {"urlContext": _sent(provider, tool)}


def _google_files(provider: str, tool: FileSearch) -> dict[str, Any]:
    if isinstance(tool.filter, Mapping):
        raise BadRequest(f"{provider} needs text as filter= of FileSearch, such as 'author = \"Woolf\"', got an object")
    names = {"stores": "fileSearchStoreNames", "max_results": "topK", "filter": "metadataFilter"}
    return {"fileSearch": _sent(provider, tool, names)}


def _google_mcp(provider: str, tool: RemoteMCP) -> dict[str, Any]:
    _require_never(provider, tool)
    _sent(provider, tool, {}, "name", "url", "token", "headers", "require_approval")
    token = {} if tool.token is None else {"Authorization": f"Bearer {_plain(tool.token)}"}
    headers = {**token, **_headers(tool)}
    transport = {"url": _url(tool), **({"headers": headers} if headers else {})}
    return {"mcpServers": [{"name": tool.name, "streamableHttpTransport": transport}]}


_OPENAI: Final[Mapping[type[ServerTool], Form]] = MappingProxyType(
    {
        WebSearch: _openai_search,
        CodeExecution: _openai_code,
        ImageGeneration: _openai_images,
        FileSearch: _openai_files,
        RemoteMCP: _openai_mcp,
    }
)
_GOOGLE: Final[Mapping[type[ServerTool], Form]] = MappingProxyType(
    {WebSearch: _google_search, CodeExecution: _google_code, URLContext: _google_urls}
)


def _nova_search(provider: str, tool: WebSearch) -> dict[str, Any]:
    """docs.aws.amazon.com/nova/latest/userguide/grounding.html."""
    _sent(provider, tool)
    return {"systemTool": {"name": "nova_grounding"}}


def _nova_code(provider: str, tool: CodeExecution) -> dict[str, Any]:
    """docs.aws.amazon.com/nova/latest/userguide/tool-built-in.html."""
    _sent(provider, tool)
    return {"systemTool": {"name": "nova_code_interpreter"}}


FORMS: Final[Mapping[str, Mapping[type[ServerTool], Form]]] = MappingProxyType(
    {
        "bedrock": MappingProxyType({WebSearch: _nova_search, CodeExecution: _nova_code}),
        "openai": _OPENAI,
        "xai": MappingProxyType(
            {WebSearch: _xai_search, CodeExecution: _xai_code, FileSearch: _xai_files, RemoteMCP: _unasked_mcp}
        ),
        "anthropic": MappingProxyType(
            {
                WebSearch: _anthropic_search,
                CodeExecution: _anthropic_code,
                URLContext: _anthropic_fetch,
                RemoteMCP: _anthropic_mcp,
            }
        ),
        # docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/web-search
        "anthropic-vertex": MappingProxyType({WebSearch: _anthropic_search}),
        "google": MappingProxyType({**_GOOGLE, FileSearch: _google_files, RemoteMCP: _google_mcp}),
        "google-vertex": MappingProxyType({**_GOOGLE, WebSearch: _vertex_search}),
        "groq": MappingProxyType({WebSearch: _groq_search, CodeExecution: _groq_code}),
        "groq-responses": MappingProxyType(
            {WebSearch: _groq_search, CodeExecution: _groq_responses_code, RemoteMCP: _groq_mcp}
        ),
    }
)
"""The tools of each protocol: of the Responses API for openai and xai, of chat completions for groq."""

_RESPONSES: Final = "Its Responses API has it: pass api='responses' to the LLM"
_CONVERSATIONS: Final = "Its Conversations API has it, and chat completions have not: toolcast has no such adapter"

ELSEWHERE: Final[Mapping[str, Mapping[type[ServerTool], str]]] = MappingProxyType(
    {
        "openai-chat": dict.fromkeys(_OPENAI, _RESPONSES),
        "xai-chat": dict.fromkeys(_OPENAI, _RESPONSES),
        "bedrock-other": dict.fromkeys((WebSearch, CodeExecution), "Models of Amazon Nova have it"),
        "groq": {RemoteMCP: _RESPONSES},
        "mistral": dict.fromkeys((WebSearch, CodeExecution, FileSearch), _CONVERSATIONS),
    }
)
"""The advice for tools that a provider has in another API alone, by protocol."""
