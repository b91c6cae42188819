"""The requests with tools that the provider runs: the vendors' documented examples, and what each does not have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from toolcast import (
    Anthropic,
    CodeExecution,
    FileSearch,
    FunctionCallingLLM,
    Google,
    Mistral,
    Ollama,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    RemoteMCP,
    Settings,
    ToolCallPart,
    URLContext,
    WebSearch,
    assistant,
    tool_result,
    user,
)
from toolcast.errors import BadRequest
from toolcast.llms.client import client_of
from toolcast.messages import ServerToolPart
from toolcast.providers.server_tool_forms import ELSEWHERE, FORMS
from toolcast.values.server_tools import ServerTool

KEY = "sk-test-0123456789"
TOKEN = "mcp-token-0123456789"
OPENAI = OpenAIResponses("gpt-5.4", api_key=KEY)
CHAT = OpenAI("gpt-5.4", api="chat", api_key=KEY)
XAI = OpenAIResponses("grok-4.5", service="xai", api_key=KEY)
XAI_CHAT = OpenAICompatible("grok-4.5", service="xai", api_key=KEY)
GROQ = OpenAICompatible("openai/gpt-oss-120b", service="groq", api_key=KEY)
COMPOUND = OpenAICompatible("groq/compound", service="groq", api_key=KEY)
LLAMA = OpenAICompatible("llama-3.3-70b-versatile", service="groq", api_key=KEY)
GROQ_RESPONSES = OpenAIResponses("openai/gpt-oss-120b", service="groq", api_key=KEY)
CLAUDE = Anthropic("claude-sonnet-4-5", api_key=KEY)
GEMINI = Google("gemini-3-flash-preview", api_key=KEY)
GEMINI_2 = Google("gemini-2.5-flash", api_key=KEY)
VERTEX = Google(
    "gemini-3-flash-preview",
    base_url="https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/google",
    api_key=KEY,
)
MISTRAL = Mistral("mistral-large-2512", api_key=KEY)
LOCATION = {"country": "GB", "city": "London", "region": "London"}
MCP = RemoteMCP("dmcp", "https://dmcp-server.deno.dev/sse", require_approval="never")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def body(llm: FunctionCallingLLM, *tools: Any, messages: Any = "Hi", **options: Any) -> dict[str, Any]:
    request = client_of(llm).build_request(
        messages, tools, options.pop("tool_choice", None), Settings(**options), parallel=True
    )
    http = client_of(llm).preview(request)
    assert http is not None
    found: dict[str, Any] = json.loads(http.body)
    return found


@pytest.mark.parametrize(
    ("llm", "tool", "sent"),
    [
        # developers.openai.com/api/docs/guides/tools-web-search
        (OPENAI, WebSearch(), {"type": "web_search"}),
        (
            OPENAI,
            WebSearch(allowed_domains=["pubmed.ncbi.nlm.nih.gov", "clinicaltrials.gov"]),
            {"type": "web_search", "filters": {"allowed_domains": ["pubmed.ncbi.nlm.nih.gov", "clinicaltrials.gov"]}},
        ),
        (
            OPENAI,
            WebSearch(**LOCATION, context_size="low"),
            {
                "type": "web_search",
                "user_location": {"type": "approximate", "country": "GB", "city": "London", "region": "London"},
                "search_context_size": "low",
            },
        ),
        (OPENAI, WebSearch(extra={"external_web_access": False}), {"type": "web_search", "external_web_access": False}),
        # .../tools-code-interpreter
        (OPENAI, CodeExecution(), {"type": "code_interpreter", "container": {"type": "auto"}}),
        (OPENAI, CodeExecution(container="cntr_abc123"), {"type": "code_interpreter", "container": "cntr_abc123"}),
        (
            OPENAI,
            CodeExecution(file_ids=["file-1", "file-2"]),
            {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1", "file-2"]}},
        ),
        # .../tools-file-search
        (
            OPENAI,
            FileSearch(["vs_1"], max_results=2, filter={"type": "in", "key": "category", "value": ["blog"]}),
            {
                "type": "file_search",
                "vector_store_ids": ["vs_1"],
                "max_num_results": 2,
                "filters": {"type": "in", "key": "category", "value": ["blog"]},
            },
        ),
        # .../tools-connectors-mcp
        (
            OPENAI,
            RemoteMCP("dmcp", "https://dmcp-server.deno.dev/sse", description="Dice", require_approval="never"),
            {
                "type": "mcp",
                "server_label": "dmcp",
                "server_description": "Dice",
                "server_url": "https://dmcp-server.deno.dev/sse",
                "require_approval": "never",
            },
        ),
        (
            OPENAI,
            RemoteMCP("stripe", "https://mcp.stripe.com", TOKEN, {"X-Team": "a"}, ["create_payment_link"]),
            {
                "type": "mcp",
                "server_label": "stripe",
                "server_url": "https://mcp.stripe.com",
                "authorization": TOKEN,
                "headers": {"X-Team": "a"},
                "allowed_tools": ["create_payment_link"],
                "require_approval": "always",
            },
        ),
        # docs.x.ai/docs/guides/tools
        (
            OPENAI,
            WebSearch(blocked_domains=["b.com"]),
            {"type": "web_search", "filters": {"blocked_domains": ["b.com"]}},
        ),
        (XAI, WebSearch(), {"type": "web_search"}),
        (XAI, WebSearch(allowed_domains=["x.ai"]), {"type": "web_search", "filters": {"allowed_domains": ["x.ai"]}}),
        (XAI, WebSearch(blocked_domains=["x.ai"]), {"type": "web_search", "filters": {"excluded_domains": ["x.ai"]}}),
        (XAI, WebSearch(city="Oslo"), {"type": "web_search", "user_location": {"type": "approximate", "city": "Oslo"}}),
        (XAI, CodeExecution(), {"type": "code_interpreter"}),
        (
            XAI,
            FileSearch(["collection_1"], max_results=10),
            {"type": "file_search", "vector_store_ids": ["collection_1"], "max_num_results": 10},
        ),
        (
            XAI,
            RemoteMCP("deepwiki", "https://mcp.deepwiki.com/mcp", require_approval="never"),
            {"type": "mcp", "server_label": "deepwiki", "server_url": "https://mcp.deepwiki.com/mcp"},
        ),
        # platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool, web-fetch-tool, code-execution-tool
        (CLAUDE, WebSearch(max_uses=5), {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}),
        (
            CLAUDE,
            WebSearch(
                max_uses=5,
                allowed_domains=["example.com", "trusteddomain.org"],
                city="San Francisco",
                region="California",
                country="US",
                timezone="America/Los_Angeles",
            ),
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "max_uses": 5,
                "allowed_domains": ["example.com", "trusteddomain.org"],
                "user_location": {
                    "type": "approximate",
                    "city": "San Francisco",
                    "region": "California",
                    "country": "US",
                    "timezone": "America/Los_Angeles",
                },
            },
        ),
        (
            CLAUDE,
            WebSearch(extra={"type": "web_search_20260318", "allowed_callers": ["direct"]}),
            {"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"]},
        ),
        (
            CLAUDE,
            URLContext(
                max_uses=10,
                blocked_domains=["private.example.com"],
                max_content_tokens=100_000,
                extra={"citations": {"enabled": True}},
            ),
            {
                "type": "web_fetch_20250910",
                "name": "web_fetch",
                "max_uses": 10,
                "blocked_domains": ["private.example.com"],
                "max_content_tokens": 100_000,
                "citations": {"enabled": True},
            },
        ),
        (CLAUDE, CodeExecution(), {"type": "code_execution_20250825", "name": "code_execution"}),
        # .../mcp-connector
        (CLAUDE, MCP, {"type": "mcp_toolset", "mcp_server_name": "dmcp"}),
        (
            CLAUDE,
            RemoteMCP("a", "https://a.com", allowed_tools=["search_events"], require_approval="never"),
            {
                "type": "mcp_toolset",
                "mcp_server_name": "a",
                "default_config": {"enabled": False},
                "configs": {"search_events": {"enabled": True}},
            },
        ),
        # ai.google.dev/gemini-api/docs/google-search, url-context, code-execution, file-search
        (GEMINI, WebSearch(), {"googleSearch": {}}),
        (GEMINI_2, URLContext(), {"urlContext": {}}),
        (GEMINI_2, CodeExecution(), {"codeExecution": {}}),
        (
            GEMINI,
            FileSearch(["fileSearchStores/my-store"], max_results=5, filter='author = "Robert Graves"'),
            {
                "fileSearch": {
                    "fileSearchStoreNames": ["fileSearchStores/my-store"],
                    "topK": 5,
                    "metadataFilter": 'author = "Robert Graves"',
                }
            },
        ),
        (
            GEMINI,
            RemoteMCP("docs", "https://a.com/mcp", TOKEN, {"X-Team": "a"}, require_approval="never"),
            {
                "mcpServers": [
                    {
                        "name": "docs",
                        "streamableHttpTransport": {
                            "url": "https://a.com/mcp",
                            "headers": {"Authorization": f"Bearer {TOKEN}", "X-Team": "a"},
                        },
                    }
                ]
            },
        ),
        (GEMINI, MCP, {"mcpServers": [{"name": "dmcp", "streamableHttpTransport": {"url": MCP.url.reveal()}}]}),  # type: ignore[union-attr]  # it is a SecretURL by now
        (VERTEX, WebSearch(blocked_domains=["a.com"]), {"googleSearch": {"excludeDomains": ["a.com"]}}),
        # console.groq.com/docs/browser-search, /docs/code-execution, /docs/tool-use/remote-mcp
        (GROQ, WebSearch(), {"type": "browser_search"}),
        (GROQ, CodeExecution(), {"type": "code_interpreter"}),
        (GROQ_RESPONSES, WebSearch(), {"type": "browser_search"}),
        (GROQ_RESPONSES, CodeExecution(), {"type": "code_interpreter", "container": {"type": "auto"}}),
        (
            GROQ_RESPONSES,
            MCP,
            {
                "type": "mcp",
                "server_label": "dmcp",
                "server_url": "https://dmcp-server.deno.dev/sse",
                "require_approval": "never",
            },
        ),
    ],
)
def test_the_documented_definition_is_sent(llm: FunctionCallingLLM, tool: ServerTool, sent: dict[str, Any]) -> None:
    assert body(llm, tool)["tools"] == [sent]


@pytest.mark.parametrize(
    ("llm", "tool", "why"),
    [
        (OPENAI, URLContext(), "openai does not run URLContext; it is known for anthropic, google"),
        (OPENAI, WebSearch(max_uses=3), "openai has no max_uses= for WebSearch, which is 3: leave it out"),
        (OPENAI, FileSearch(["vs_1"], filter="a = 1"), "needs an object as filter="),
        (CHAT, WebSearch(), "Its Responses API has it: pass api='responses'"),
        (XAI_CHAT, WebSearch(), "Its Responses API has it: pass api='responses'"),
        (XAI, WebSearch(context_size="low"), "xai has no context_size="),
        (XAI, CodeExecution(container="c"), "xai has no container="),
        (XAI, RemoteMCP("a", "https://a.com"), "without asking for an approval"),
        (CLAUDE, FileSearch(["vs_1"]), "anthropic does not run FileSearch; it is known for openai, xai, google"),
        (CLAUDE, WebSearch(context_size="low"), "anthropic has no context_size="),
        (CLAUDE, CodeExecution(file_ids=["f"]), "anthropic has no file_ids="),
        (CLAUDE, RemoteMCP("a", "https://a.com"), "require_approval='never'"),
        (CLAUDE, RemoteMCP("a", "https://a.com", headers={"x": "y"}, require_approval="never"), "has no headers="),
        (GEMINI, WebSearch(max_uses=1), "google has no max_uses="),
        (GEMINI, WebSearch(blocked_domains=["a.com"]), "google has no blocked_domains="),
        (GEMINI, FileSearch(["s"], filter={"a": 1}), "needs text as filter="),
        (GEMINI, RemoteMCP("a", "https://a.com", allowed_tools=["b"], require_approval="never"), "no allowed_tools="),
        (GEMINI, RemoteMCP("a", "https://a.com"), "require_approval='never'"),
        (VERTEX, FileSearch(["s"]), "google does not run FileSearch"),
        (VERTEX, MCP, r"google does not run RemoteMCP\('dmcp'\)"),
        (GROQ, URLContext(), "groq does not run URLContext"),
        (GROQ, WebSearch(allowed_domains=["a.com"]), "groq has no allowed_domains="),
        (GROQ, MCP, "pass api='responses' to the LLM"),
        (GROQ_RESPONSES, RemoteMCP("a", "https://a.com"), "require_approval='never'"),
        (COMPOUND, MCP, "pass api='responses' to the LLM"),
        (COMPOUND, FileSearch(["s"]), "groq does not run FileSearch"),
        (COMPOUND, WebSearch(country="NO"), "groq has no country="),
        (LLAMA, WebSearch(), "runs tools for gpt-oss and compound models"),
        (MISTRAL, WebSearch(), "Its Conversations API has it"),
        (MISTRAL, URLContext(), "mistral does not run URLContext"),
        (Ollama("qwen3"), WebSearch(), "ollama does not run WebSearch"),
        (OpenAICompatible("m", service="deepseek", api_key=KEY), WebSearch(), "deepseek does not run WebSearch"),
        (OpenAIResponses("m", service="lmstudio", api_key=KEY), WebSearch(), "lmstudio does not run WebSearch"),
    ],
)
def test_what_a_provider_does_not_have_is_an_error_before_sending(
    llm: FunctionCallingLLM, tool: ServerTool, why: str
) -> None:
    with pytest.raises(BadRequest, match=why) as raised:
        body(llm, tool)
    assert raised.value.provider == llm.metadata.provider


def test_openai_is_asked_for_what_was_found() -> None:
    tools = (WebSearch(), CodeExecution(), FileSearch(["vs_1"]), MCP)
    assert body(OPENAI, *tools)["include"] == [
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "code_interpreter_call.outputs",
        "file_search_call.results",
    ]
    assert body(OpenAIResponses("gpt-4.1", api_key=KEY), WebSearch())["include"] == ["web_search_call.action.sources"]
    assert "include" not in body(OpenAIResponses("gpt-4.1", api_key=KEY), MCP)
    assert body(XAI, WebSearch())["include"] == ["reasoning.encrypted_content"]


def test_tools_of_the_provider_stand_beside_ones_own() -> None:
    for llm in (OPENAI, XAI, GROQ, GROQ_RESPONSES, CLAUDE, GEMINI):
        sent = body(llm, add, WebSearch(), tool_choice="auto")
        assert len(sent["tools"]) == 2
        assert "add" in json.dumps(sent["tools"][0])
    assert sent["toolConfig"] == {
        "functionCallingConfig": {"mode": "VALIDATED"},
        "includeServerSideToolInvocations": True,
    }
    assert body(GEMINI, add, WebSearch())["toolConfig"] == sent["toolConfig"]
    assert body(GEMINI, add, WebSearch(), tool_choice="add")["toolConfig"]["functionCallingConfig"]["mode"] == "ANY"
    assert body(VERTEX, add, WebSearch())["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert "toolConfig" not in body(GEMINI, WebSearch())
    with pytest.raises(BadRequest, match=r"gemini-2.5-flash combines WebSearch neither with other tools nor with"):
        body(GEMINI_2, add, WebSearch())
    with pytest.raises(BadRequest, match="takes no tools but its own: leave out add"):
        body(COMPOUND, add, WebSearch())


def test_one_tool_use_is_no_limit_to_one_search() -> None:
    request = client_of(CLAUDE).build_request("Hi", [add, WebSearch()], "auto", None, parallel=False)
    http = client_of(CLAUDE).preview(request)
    assert http is not None
    assert json.loads(http.body)["tool_choice"] == {"type": "auto"}


def test_a_schema_of_anthropic_stands_beside_the_tools_that_it_runs() -> None:
    call = ToolCallPart("toolu_1", "add", '{"a": 1, "b": 2}')
    history = [user("1 + 2?"), assistant(call), tool_result(call, "3"), user("And?")]
    request = replace(
        client_of(CLAUDE).build_request(history, [add, WebSearch()], "add", None, parallel=False), mode="json_schema"
    )
    http = client_of(CLAUDE).preview(request)
    assert http is not None
    sent = json.loads(http.body)
    assert [tool["name"] for tool in sent["tools"]] == ["add", "web_search"]
    assert "tool_choice" not in sent
    assert sent["output_config"]["format"]["type"] == "json_schema"


def test_anthropic_connects_to_servers_by_name() -> None:
    server = RemoteMCP("docs", "https://a.com/mcp", TOKEN, require_approval="never")
    llm = Anthropic("claude-sonnet-4-5", api_key=KEY, headers={"anthropic-beta": "context-1m-2025-08-07"})
    for used, betas in ((CLAUDE, "mcp-client-2025-11-20"), (llm, "context-1m-2025-08-07,mcp-client-2025-11-20")):
        http = used.preview("Hi", tools=[server, MCP])
        assert http is not None
        assert http.headers["anthropic-beta"] == betas
        assert json.loads(http.body)["mcp_servers"] == [
            {"type": "url", "name": "docs", "url": "https://a.com/mcp", "authorization_token": TOKEN},
            {"type": "url", "name": "dmcp", "url": "https://dmcp-server.deno.dev/sse"},
        ]
    already = Anthropic("claude-sonnet-4-5", api_key=KEY, headers={"anthropic-beta": "mcp-client-2025-11-20"})
    http = already.preview("Hi", tools=[server])
    assert http is not None
    assert http.headers["anthropic-beta"] == "mcp-client-2025-11-20"
    http = CLAUDE.preview("Hi", tools=[WebSearch()])
    assert http is not None
    assert "anthropic-beta" not in http.headers


def test_code_runs_again_in_its_container() -> None:
    assert body(CLAUDE, CodeExecution(container="container_1"))["container"] == "container_1"
    notice = ServerToolPart(
        "code_execution", "", output={}, provider="anthropic", raw={"type": "container", "id": "container_2"}
    )
    call = ServerToolPart(
        "code_execution", "srv_1", {"code": "1"}, provider="anthropic", raw={"type": "server_tool_use"}
    )
    paused = [user("Run it."), assistant(call, notice)]
    assert body(CLAUDE, CodeExecution(), messages=paused)["container"] == "container_2"
    assert body(CLAUDE, CodeExecution(container="container_1"), messages=paused)["container"] == "container_1"
    sent = body(CLAUDE, CodeExecution(), messages=[*paused, user("And?")])
    assert sent["container"] == "container_2"  # its files may be used in a later turn
    assert [message["role"] for message in sent["messages"]] == ["user"]


def test_groqs_compound_systems_have_their_tools_by_name() -> None:
    sent = body(
        COMPOUND, WebSearch(blocked_domains=["a.com"], extra={"country": "norway"}), CodeExecution(), URLContext()
    )
    assert "tools" not in sent
    assert sent["compound_custom"] == {"tools": {"enabled_tools": ["web_search", "code_interpreter", "visit_website"]}}
    assert sent["search_settings"] == {"exclude_domains": ["a.com"], "country": "norway"}
    assert "search_settings" not in body(COMPOUND, CodeExecution())


def test_blocks_of_another_provider_are_left_out() -> None:
    raw = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    part = ServerToolPart("web_search", "ws_1", {"query": "sea"}, provider="openai", raw=raw)
    history = [user("Hi"), assistant(part, "Found."), user("And?"), assistant(part), user("So?")]
    assert raw in body(OPENAI, messages=history)["input"]
    for llm in (CHAT, XAI, GROQ, CLAUDE, GEMINI, MISTRAL, Ollama("qwen3")):
        sent = body(llm, messages=history)
        assert "web_search_call" not in json.dumps(sent)
        assert "Found." in json.dumps(sent)


def test_tools_in_extra_are_added_and_a_conflict_is_an_error() -> None:
    cases: list[tuple[FunctionCallingLLM, Any]] = [
        (OPENAI, {"type": "image_generation"}),
        (CHAT, {"type": "custom", "custom": {"name": "grep"}}),
        (CLAUDE, {"type": "memory_20250818", "name": "memory"}),
        (GEMINI, {"googleMaps": {}}),
        (GROQ, {"type": "browser_search"}),
        (MISTRAL, {"type": "web_search"}),
        (Ollama("qwen3"), {"type": "function", "function": {"name": "f"}}),
    ]
    for llm, more in cases:
        sent = body(llm, add, extra={"tools": [more]})["tools"]
        assert sent[-1] == more
        assert "add" in json.dumps(sent[0])
    with pytest.raises(BadRequest, match="another tool named 'web_search'"):
        body(CLAUDE, WebSearch(), extra={"tools": [{"type": "web_search_20260318", "name": "web_search"}]})
    with pytest.raises(BadRequest, match="another tool named 'web_search'"):
        body(OPENAI, WebSearch(), extra={"tools": [{"type": "web_search", "search_context_size": "low"}]})
    with pytest.raises(BadRequest, match="another tool named 'googleSearch'"):
        body(GEMINI, WebSearch(), extra={"tools": [{"googleSearch": {"a": 1}}]})
    with pytest.raises(BadRequest, match="another tool named 'google_search'"):
        body(GEMINI, WebSearch(), extra={"tools": [{"google_search": {}}]})
    with pytest.raises(BadRequest, match="another tool named 'web_search_preview_2025_03_11'"):
        body(OPENAI, WebSearch(), extra={"tools": [{"type": "web_search_preview_2025_03_11"}]})
    with pytest.raises(BadRequest, match="expected a dict per tool, got str: 'web_search'"):
        body(OPENAI, extra={"tools": ["web_search"]})
    with pytest.raises(BadRequest, match=r"another tool named 'dmcp \(mcp\)'"):
        body(OPENAI, MCP, extra={"tools": [{"type": "mcp", "server_label": "dmcp", "server_url": "https://b.com"}]})
    other = {"type": "mcp", "server_label": "other", "server_url": "https://b.com"}
    assert body(OPENAI, MCP, extra={"tools": [other]})["tools"][1] == other


def test_a_list_that_the_tools_need_is_extended_too() -> None:
    sent = body(OPENAI, WebSearch(), extra={"include": ["message.output_text.logprobs"]})
    assert sent["include"] == [
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "message.output_text.logprobs",
    ]
    server = {"type": "url", "name": "b", "url": "https://b.com"}
    assert body(CLAUDE, MCP, extra={"mcp_servers": [server]})["mcp_servers"][1] == server
    assert len(body(CLAUDE, MCP, extra={"metadata": {"user_id": "a"}})["mcp_servers"]) == 1


def test_each_form_and_each_advice_is_of_a_known_tool() -> None:
    kinds = set(ServerTool.__subclasses__())
    for forms in (*FORMS.values(), *ELSEWHERE.values()):
        assert set(forms) <= kinds
