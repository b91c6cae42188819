"""What tools of a provider did, in each protocol: whole and streamed alike, at every cut, and sent back unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from support.example_counts import cut_places
from toolcast import RemoteMCP, Settings, ToolCallPart, WebSearch, user
from toolcast.errors import StreamTruncated
from toolcast.events import ChatResponse, Event, ServerToolUse
from toolcast.llms.token_estimates import server_tool_text
from toolcast.messages import ServerToolPart
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import GROQ, OPENAI, XAI
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.values.accumulator import Accumulator
from toolcast.values.credentials import Secret

KEY = Secret("sk-0123456789")
RESPONSES = OpenAIResponsesAdapter(OPENAI, api_key=KEY)
CLAUDE = AnthropicAdapter(api_key=KEY)
GEMINI = GoogleAdapter(api_key=KEY)


class Case(NamedTuple):
    """Blocks of a response, as the service has them in a whole one, and the parts that they become.

    `back` are the blocks that are sent back.
    """

    adapter: HTTPAdapter
    model: str
    blocks: Sequence[Mapping[str, Any]]
    parts: Sequence[ServerToolPart]
    back: Sequence[Mapping[str, Any]]


def openai(item: Mapping[str, Any], name: str, input: Any, output: Any = None, error: str | None = None) -> Case:
    return Case(
        RESPONSES, "gpt-5.4", [item], [ServerToolPart(name, item["id"], input, output, error, "openai", item)], [item]
    )


def claude(*pairs: tuple[Mapping[str, Any], ServerToolPart]) -> Case:
    blocks = [block for block, _ in pairs]
    return Case(CLAUDE, "claude-sonnet-4-5", blocks, [part for _, part in pairs], blocks)


def claudes(name: str, id: str, raw: Mapping[str, Any], **found: Any) -> tuple[Mapping[str, Any], ServerToolPart]:
    return raw, ServerToolPart(name, id, provider="anthropic", raw=raw, **found)


def gemini(*pairs: tuple[Mapping[str, Any], ServerToolPart]) -> Case:
    blocks = [block for block, _ in pairs]
    return Case(GEMINI, "gemini-3-flash-preview", blocks, [part for _, part in pairs], blocks)


def geminis(name: str, id: str, raw: Mapping[str, Any], **found: Any) -> tuple[Mapping[str, Any], ServerToolPart]:
    return raw, ServerToolPart(name, id, provider="google", raw=raw, **found)


def fetched(id: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "web_fetch_tool_result", "tool_use_id": id, "content": content}


CASES = {
    # developers.openai.com/api/docs/guides/tools-web-search
    "openai search": openai(
        {
            "type": "web_search_call",
            "id": "ws_67c9fa0502748190b7dd390736892e100be649c1a5ff9609",
            "status": "completed",
            "action": {"type": "search", "query": "good news", "sources": [{"type": "url", "url": "https://a.com"}]},
        },
        "web_search",
        {"type": "search", "query": "good news"},
        [{"type": "url", "url": "https://a.com"}],
    ),
    "openai open page": openai(
        {
            "type": "web_search_call",
            "id": "ws_2",
            "status": "failed",
            "action": {"type": "open_page", "url": "https://a"},
        },
        "web_search",
        {"type": "open_page", "url": "https://a"},
        None,
        "failed",
    ),
    "openai file search": openai(
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["deep research"],
            "results": [{"file_id": "file-1", "filename": "a.pdf", "score": 0.5, "text": "Research."}],
        },
        "file_search",
        {"queries": ["deep research"]},
        [{"file_id": "file-1", "filename": "a.pdf", "score": 0.5, "text": "Research."}],
    ),
    "openai code": openai(
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "print(6 * 7)",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "42\n"}],
        },
        "code_execution",
        {"code": "print(6 * 7)", "container": "cntr_1"},
        [{"type": "logs", "logs": "42\n"}],
    ),
    "openai mcp": openai(
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "approval_request_id": None,
            "arguments": '{"diceRollExpression":"2d4 + 1"}',
            "error": None,
            "name": "roll",
            "output": "4",
            "server_label": "dmcp",
        },
        "mcp",
        {"server": "dmcp", "name": "roll", "arguments": {"diceRollExpression": "2d4 + 1"}},
        "4",
    ),
    "openai mcp error": openai(
        {
            "type": "mcp_call",
            "id": "mcp_2",
            "arguments": "not JSON",
            "error": {"type": "http_error", "code": 401, "message": "Unauthorized"},
            "name": "roll",
            "output": None,
            "server_label": "dmcp",
        },
        "mcp",
        {"server": "dmcp", "name": "roll", "arguments": "not JSON"},
        None,
        '{"type": "http_error", "code": 401, "message": "Unauthorized"}',
    ),
    "openai mcp tools": openai(
        {
            "type": "mcp_list_tools",
            "id": "mcpl_1",
            "server_label": "dmcp",
            "tools": [{"annotations": None, "description": "Dice", "input_schema": {"type": "object"}, "name": "roll"}],
            "error": None,
        },
        "mcp",
        {"server": "dmcp"},
        {"tools": ["roll"]},
    ),
    # platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
    "anthropic search": claude(
        claudes(
            "web_search",
            "srvtoolu_1",
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "claude shannon"}},
            input={"query": "claude shannon"},
        ),
        claudes(
            "web_search",
            "srvtoolu_1",
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "url": "https://en.wikipedia.org/wiki/Claude_Shannon",
                        "title": "Claude Shannon - Wikipedia",
                        "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1Mi1mZjM5LTQ1NGUtODgxNC1kNjNjNTk1ZWI3Y...",
                        "page_age": "April 30, 2025",
                    }
                ],
            },
            output=[
                {
                    "type": "web_search_result",
                    "url": "https://en.wikipedia.org/wiki/Claude_Shannon",
                    "title": "Claude Shannon - Wikipedia",
                    "page_age": "April 30, 2025",
                }
            ],
        ),
    ),
    "anthropic search error": claude(
        claudes(
            "web_search",
            "srvtoolu_a93jad",
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_a93jad",
                "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
            },
            error="max_uses_exceeded",
        ),
    ),
    # .../web-fetch-tool, .../code-execution-tool
    "anthropic fetch and code": claude(
        claudes(
            "url_context",
            "srvtoolu_2",
            {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_fetch", "input": {"url": "https://a.com"}},
            input={"url": "https://a.com"},
        ),
        claudes(
            "url_context",
            "srvtoolu_2",
            fetched(
                "srvtoolu_2", {"type": "web_fetch_result", "url": "https://a.com", "content": {"type": "document"}}
            ),
            output={"type": "web_fetch_result", "url": "https://a.com", "content": {"type": "document"}},
        ),
        claudes(
            "code_execution",
            "srvtoolu_3",
            {
                "type": "server_tool_use",
                "id": "srvtoolu_3",
                "name": "bash_code_execution",
                "input": {"command": "ls -la"},
            },
            input={"command": "ls -la"},
        ),
        claudes(
            "code_execution",
            "srvtoolu_3",
            {
                "type": "bash_code_execution_tool_result",
                "tool_use_id": "srvtoolu_3",
                "content": {"type": "bash_code_execution_result", "stdout": "x", "stderr": "", "return_code": 0},
            },
            output={"type": "bash_code_execution_result", "stdout": "x", "stderr": "", "return_code": 0},
        ),
        claudes(
            "url_context",
            "srvtoolu_9",
            fetched("srvtoolu_9", {"type": "web_fetch_tool_error", "error_code": "url_not_accessible"}),
            error="url_not_accessible",
        ),
    ),
    # .../mcp-connector
    "anthropic mcp": claude(
        claudes(
            "mcp",
            "mcptoolu_1",
            {
                "type": "mcp_tool_use",
                "id": "mcptoolu_1",
                "name": "echo",
                "server_name": "example-mcp",
                "input": {"param1": "value1"},
            },
            input={"server": "example-mcp", "name": "echo", "arguments": {"param1": "value1"}},
        ),
        claudes(
            "mcp",
            "mcptoolu_1",
            {
                "type": "mcp_tool_result",
                "tool_use_id": "mcptoolu_1",
                "is_error": False,
                "content": [{"type": "text", "text": "Hello"}],
            },
            output=[{"type": "text", "text": "Hello"}],
        ),
        claudes(
            "mcp",
            "mcptoolu_2",
            {
                "type": "mcp_tool_result",
                "tool_use_id": "mcptoolu_2",
                "is_error": True,
                "content": [{"type": "text", "text": "No such tool"}],
            },
            error="No such tool",
        ),
        claudes(
            "mcp",
            "mcptoolu_3",
            {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_3", "is_error": True, "content": []},
            error="error",
        ),
    ),
    # ai.google.dev/gemini-api/docs/code-execution, .../tool-combination
    "google code": gemini(
        geminis(
            "code_execution",
            "",
            {"executableCode": {"language": "PYTHON", "code": "print(42)"}},
            input={"code": "print(42)", "language": "PYTHON"},
        ),
        geminis(
            "code_execution",
            "",
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
            output="42\n",
        ),
        geminis(
            "code_execution",
            "c1",
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "Traceback", "id": "c1"}},
            output="Traceback",
            error="OUTCOME_FAILED",
        ),
    ),
    "google search": gemini(
        geminis(
            "web_search",
            "b1",
            {
                "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["northernmost city"]}, "id": "b1"},
                "thoughtSignature": "EroDCrc=",
            },
            input={"queries": ["northernmost city"]},
        ),
        geminis(
            "web_search",
            "b1",
            {
                "toolResponse": {
                    "toolType": "GOOGLE_SEARCH_WEB",
                    "response": {"search_suggestions": "<div>"},
                    "id": "b1",
                },
                "thoughtSignature": "EroDCrd=",
            },
            output={"search_suggestions": "<div>"},
        ),
        geminis("google_maps", "m1", {"toolCall": {"toolType": "GOOGLE_MAPS", "id": "m1"}}, input={}),
    ),
}


def whole(case: Case) -> bytes:
    """Return the body of a whole response with the blocks, and a text after them."""
    if case.adapter is RESPONSES:
        message = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hi"}],
        }
        document: Any = {"id": "resp_1", "model": case.model, "status": "completed", "output": [*case.blocks, message]}
    elif case.adapter is CLAUDE:
        document = {
            "id": "msg_1",
            "type": "message",
            "model": case.model,
            "content": [*case.blocks, {"type": "text", "text": "Hi"}],
            "stop_reason": "end_turn",
        }
    else:
        parts = [*case.blocks, {"text": "Hi"}]
        document = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    return json.dumps(document).encode()


def streamed(case: Case) -> bytes:
    """Return the same response as events."""
    events: list[Any] = []
    if case.adapter is RESPONSES:
        events.append({"type": "response.created", "response": {"id": "resp_1", "model": case.model}})
        for at, item in enumerate(case.blocks):
            begun = {name: item[name] for name in ("type", "id")} | {"status": "in_progress"}
            events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
            events.append({"type": f"response.{item['type']}.in_progress", "output_index": at, "item_id": item["id"]})
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        at = len(case.blocks)
        message = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
        events.append({"type": "response.output_item.added", "output_index": at, "item": message})
        events.append({"type": "response.output_text.delta", "output_index": at, "content_index": 0, "delta": "Hi"})
        events.append({"type": "response.completed", "response": json.loads(whole(case))})
    elif case.adapter is CLAUDE:
        message = json.loads(whole(case)) | {"content": [], "stop_reason": None}
        events.append({"type": "message_start", "message": message})
        for at, block in enumerate([*case.blocks, {"type": "text", "text": "Hi"}]):
            begun = block | {"input": {}} if "input" in block else block | ({"text": ""} if "text" in block else {})
            events.append({"type": "content_block_start", "index": at, "content_block": begun})
            written = json.dumps(block.get("input", ""))
            deltas: list[Any] = [
                {"type": "input_json_delta", "partial_json": written[start : start + 7]}
                for start in range(0, len(written) if "input" in block else 0, 7)
            ]
            deltas += [{"type": "text_delta", "text": "Hi"}] if "text" in block else []
            events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": at})
        events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
        events.append({"type": "message_stop"})
    else:
        parts = [*case.blocks, {"text": "Hi"}]
        events += [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
        events[-1]["candidates"][0]["finishReason"] = "STOP"
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def request(case: Case, stream: bool) -> RequestInput:
    return RequestInput(case.model, (user("Hi"),), stream=stream, server_tools=(WebSearch(),))


def events_of(case: Case, *chunks: bytes, stream: bool = True) -> list[Event]:
    decoder = case.adapter.decoder(request(case, stream))
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


def response_of(events: Sequence[Event]) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


@pytest.mark.parametrize("name", CASES)
def test_whole_and_streamed_responses_have_the_same_parts(name: str) -> None:
    case = CASES[name]
    for body, stream in ((whole(case), False), (streamed(case), True)):
        response = response_of(events_of(case, body, stream=stream))
        assert response.message.server_tools == tuple(case.parts)
        assert response.text == "Hi"
        assert response.stop_reason == "end_turn"


@pytest.mark.parametrize("name", CASES)
def test_every_cut_gives_the_same_events(name: str) -> None:
    case = CASES[name]
    for body, stream in ((whole(case), False), (streamed(case), True)):
        events = events_of(case, body, stream=stream)
        assert events_of(case, *(body[at : at + 1] for at in range(len(body))), stream=stream) == events
        for at in cut_places(body):
            assert events_of(case, body[:at], body[at:], stream=stream) == events


@pytest.mark.parametrize("name", CASES)
def test_a_response_that_breaks_off_is_an_error(name: str) -> None:
    case = CASES[name]
    body = streamed(case)
    for at in range(len("data: {"), body.rindex(b"data: ") - 1, 11):
        with pytest.raises(StreamTruncated):
            events_of(case, body[:at])


@pytest.mark.parametrize("name", CASES)
def test_the_blocks_go_back_unchanged_and_in_their_order(name: str) -> None:
    case = CASES[name]
    message = response_of(events_of(case, streamed(case))).message
    restored = type(message).from_dict(json.loads(message.to_json()))
    for each in (message, restored):
        sent = json.loads(
            case.adapter.request(RequestInput(case.model, (user("Hi"), each)), Settings(max_tokens=99)).body
        )
        if case.adapter is RESPONSES:
            assert sent["input"][1:-1] == list(case.back)
        elif case.adapter is CLAUDE:
            assert sent["messages"][1]["content"][:-1] == list(case.back)
        else:
            assert sent["contents"][1]["parts"][:-1] == list(case.back)


def test_thoughts_go_back_before_the_search_that_they_led_to() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    search = dict(CASES["openai search"].blocks[0])
    case = CASES["openai search"]._replace(blocks=[thought, search, {**thought, "id": "rs_2"}])
    message = response_of(events_of(case, whole(case), stream=False)).message
    sent = json.loads(RESPONSES.request(RequestInput("gpt-5.4", (user("Hi"), message)), Settings()).body)["input"]
    assert [item.get("id") for item in sent[1:]] == ["rs_1", search["id"], "rs_2", None]


APPROVAL = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "arguments": '{"diceRollExpression":"2d4 + 1"}',
    "name": "roll",
    "server_label": "dmcp",
}


def test_a_call_that_needs_an_approval_is_a_call() -> None:
    case = Case(RESPONSES, "gpt-5.4", [APPROVAL], [], [])
    server = RemoteMCP("dmcp", "https://dmcp-server.deno.dev/sse")
    call = ToolCallPart("mcpr_1", "mcp.dmcp.roll", APPROVAL["arguments"], opaque={"responses": APPROVAL})
    for body, stream in ((whole(case), False), (streamed(case), True)):
        for cut in cut_places(body):
            decoder = RESPONSES.decoder(RequestInput("gpt-5.4", (user("Hi"),), stream=stream, server_tools=(server,)))
            response = response_of([*decoder.feed(body[:cut]), *decoder.feed(body[cut:]), *decoder.close()])
            assert (response.message.tool_calls, response.stop_reason) == ((call,), "tool_use")
        # A tool from `extra` is the caller's: it gets the request for the approval as it is.
        events = events_of(case, body, stream=stream)
        assert [event.data for event in events if getattr(event, "data", None) == APPROVAL] == [APPROVAL]


def test_google_reports_a_search_without_parts_of_it() -> None:
    winner = {"uri": "https://vertexaisearch.cloud.google.com/a", "title": "aljazeera.com"}
    grounding = {
        "webSearchQueries": ["euro 2024 winner"],
        "searchEntryPoint": {"renderedContent": "<div>"},
        "groundingChunks": [
            {"web": winner},
            {"retrievedContext": {"title": "a.pdf", "text": "Spain."}},
        ],
    }
    pages = {"urlMetadata": [{"retrievedUrl": "https://a.com", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}]}
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "Spain"}]}, "groundingMetadata": {}}]},
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": " won."}]},
                    "finishReason": "STOP",
                    "groundingMetadata": grounding,
                    "urlContextMetadata": pages,
                }
            ]
        },
    ]
    case = Case(GEMINI, "gemini-2.5-flash", [], [], [])
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    message = response_of(events_of(case, body)).message
    assert message.server_tools == (
        ServerToolPart("web_search", "", {"queries": ["euro 2024 winner"]}, [winner], provider="google"),
        ServerToolPart("file_search", "", {}, [{"title": "a.pdf", "text": "Spain."}], provider="google"),
        ServerToolPart("url_context", "", {"urls": ["https://a.com"]}, pages["urlMetadata"], provider="google"),
    )
    sent = json.loads(GEMINI.request(RequestInput("gemini-2.5-flash", (user("Hi"), message)), Settings()).body)
    assert sent["contents"][1]["parts"] == [{"text": "Spain won."}]
    # With parts of its own the search is not reported twice.
    call = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {}, "id": "b1"}}
    chunks[0]["candidates"][0]["content"] = {"parts": [call]}
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    assert [part.call_id for part in response_of(events_of(case, body)).message.server_tools] == ["b1"]


# console.groq.com/docs/tool-use/built-in-tools
EXECUTED = {
    "index": 0,
    "type": "browser_search",
    "arguments": '{"query": "weather in Oslo"}',
    "output": "L0: 4 degrees",
    "search_results": {"results": [{"title": "Oslo", "url": "https://a.no", "content": "4", "score": 0.9}]},
}


def test_groq_reports_the_tools_that_it_ran() -> None:
    adapter = OpenAIChatAdapter(GROQ, api_key=KEY)
    case = Case(adapter, "openai/gpt-oss-120b", [], [], [])
    part = ServerToolPart(
        "web_search",
        "0",
        {"query": "weather in Oslo"},
        {"output": "L0: 4 degrees", "search_results": EXECUTED["search_results"]},
        provider="groq",
    )
    message = {"role": "assistant", "content": "4 degrees.", "executed_tools": [EXECUTED]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    found = response_of(events_of(case, body, stream=False)).message
    assert found.server_tools == (part,)
    begun = {name: EXECUTED[name] for name in ("index", "type", "arguments")}
    deltas: list[Any] = [{"executed_tools": [begun]}, {"executed_tools": [EXECUTED]}, {"content": "4 degrees."}, {}]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    stream = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
    events = events_of(case, stream)
    assert response_of(events).message.server_tools == (part,)
    for at in cut_places(stream):
        assert events_of(case, stream[:at], stream[at:]) == events
    unknown = json.dumps(
        {"choices": [{"message": {"content": "x", "executed_tools": [{"type": "new"}]}, "finish_reason": "stop"}]}
    ).encode()
    assert response_of(events_of(case, unknown, stream=False)).message.server_tools == (
        ServerToolPart("new", provider="groq"),
    )


def test_a_block_that_is_cut_off_is_no_event() -> None:
    case = CASES["anthropic search"]
    start = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "claude", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"que'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    assert not any(isinstance(event, ServerToolUse) for event in events_of(case, body))


def test_the_container_of_a_paused_response_is_named_once_more() -> None:
    case = CASES["anthropic search"]
    document = json.loads(whole(case)) | {
        "stop_reason": "pause_turn",
        "container": {"id": "container_1", "expires_at": "2026-11-23T12:00:00Z"},
    }
    message = response_of(events_of(case, json.dumps(document).encode(), stream=False)).message
    notice = message.server_tools[-1]
    assert notice.output == {"container": "container_1", "expires_at": "2026-11-23T12:00:00Z"}
    sent = json.loads(CLAUDE.request(RequestInput("claude-sonnet-4-5", (user("Hi"), message)), Settings()).body)
    assert sent["container"] == "container_1"
    assert len(sent["messages"][1]["content"]) == 3


def test_items_of_another_service_of_the_protocol_stay_here() -> None:
    message = response_of(events_of(CASES["openai search"], whole(CASES["openai search"]), stream=False)).message
    adapter = OpenAIResponsesAdapter(XAI, api_key=KEY)
    sent = json.loads(adapter.request(RequestInput("grok-4.5", (user("Hi"), message)), Settings()).body)
    assert [item["role"] for item in sent["input"]] == ["user", "assistant"]


def test_an_item_stays_here_with_a_thought_that_cannot_go_back() -> None:
    """The service looks for the thought that led to an item: for one of another model it would refuse the request."""
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    search = dict(CASES["openai search"].blocks[0])
    for thought in ({**sealed, "encrypted_content": None}, sealed):
        blocks = [thought, search, {**search, "id": "ws_2"}, {**sealed, "id": "rs_2"}, {**search, "id": "ws_3"}]
        case = CASES["openai search"]._replace(blocks=blocks)
        message = response_of(events_of(case, whole(case), stream=False)).message
        sent = json.loads(RESPONSES.request(RequestInput("gpt-5.4", (user("Hi"), message)), Settings()).body)["input"]
        ids = [item["id"] for item in sent[1:-1]]
        assert ids[-2:] == ["rs_2", "ws_3"]
        assert ids[:-2] == (["rs_1", search["id"], "ws_2"] if thought is sealed else [])


def test_pictures_in_a_block_do_not_count_as_text() -> None:
    item = {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "outputs": [{"type": "image", "url": "data:image/png;base64,AA=="}],
    }
    part = ServerToolPart("code_execution", "ci_1", provider="openai", raw=item)
    assert (
        server_tool_text(part) == '{"type":"code_interpreter_call","id":"ci_1","outputs":[{"type":"image","url":""}]}'
    )
    assert server_tool_text(ServerToolPart("web_search", provider="google")) == ""
