"""The values of tools that the provider runs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from toolcast import (
    CodeExecution,
    Engine,
    FileSearch,
    Message,
    RemoteMCP,
    ToolOrchestratingLLM,
    URLContext,
    WebSearch,
    user,
)
from toolcast.agents.engine.compaction import summary_prompt
from toolcast.agents.engine.history import estimate_tokens, has_content
from toolcast.chat.chat_context import ChatContext, Streamed
from toolcast.errors import BadRequest, EmptyResponse
from toolcast.events import ChatResponse, Finish, ServerToolUse, TextDelta, ToolCallDone, server_tool_use
from toolcast.llms.request import ChatRequest
from toolcast.llms.token_estimates import estimate_input_tokens
from toolcast.messages import CachePoint, ServerToolPart, TextPart
from toolcast.observability.telemetry_content import messages_json
from toolcast.structured.response_validation import is_empty
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import as_tool
from toolcast.values.accumulator import Accumulator
from toolcast.values.credentials import Secret, SecretURL
from toolcast.values.plain_data import hide_content
from toolcast.values.server_tools import ServerTool, credentials_digest, split_tools
from toolcast.values.tool_spec import NamedTool

TOKEN = "mcp-token-0123456789"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: WebSearch(max_uses=0), ValueError),
        (lambda: WebSearch(max_uses="3"), TypeError),  # type: ignore[arg-type]  # a wrong type is the test
        (lambda: WebSearch(allowed_domains="a.com"), TypeError),
        (lambda: WebSearch(allowed_domains=["a.com"], blocked_domains=["b.com"]), ValueError),
        (lambda: WebSearch(context_size="huge"), ValueError),  # type: ignore[arg-type]  # as above
        (lambda: WebSearch(country=1), TypeError),  # type: ignore[arg-type]  # as above
        (lambda: WebSearch(extra=[1]), TypeError),  # type: ignore[arg-type]  # as above
        (lambda: CodeExecution(container="c", file_ids=["f"]), ValueError),
        (lambda: FileSearch(), ValueError),
        (lambda: FileSearch("store"), TypeError),
        (lambda: FileSearch(["vs"], filter=3), TypeError),  # type: ignore[arg-type]  # as above
        (lambda: URLContext(max_content_tokens=0), ValueError),
        (lambda: RemoteMCP("", "https://a.com"), ValueError),
        (lambda: RemoteMCP("a b", "https://a.com"), ValueError),
        (lambda: RemoteMCP("a", "ftp://a.com"), ValueError),
        (lambda: RemoteMCP("a", 3), ValueError),  # type: ignore[arg-type]  # as above
        (lambda: RemoteMCP("a", "https://a.com", token=3), TypeError),  # type: ignore[arg-type]  # as above
        (lambda: RemoteMCP("a", "https://a.com", headers=["x"]), TypeError),  # type: ignore[arg-type]  # as above
        (lambda: RemoteMCP("a", "https://a.com", headers={"x": 3}), TypeError),  # type: ignore[dict-item]  # as above
        (lambda: RemoteMCP("a", "https://a.com", require_approval="ask"), ValueError),  # type: ignore[arg-type]  # as above
    ],
)
def test_a_wrong_option_is_an_error(make: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_values_are_compared_and_hashed() -> None:
    assert WebSearch(allowed_domains=["a.com"]) == WebSearch(allowed_domains=("a.com",))
    assert len({WebSearch(extra={"a": [1]}), WebSearch(extra={"a": [1]}), WebSearch()}) == 2
    assert FileSearch(["vs_1"], filter={"a": 1}) != FileSearch(["vs_1"], filter={"a": 2})
    assert len({CodeExecution(), URLContext(), WebSearch()}) == 3
    assert WebSearch(city="Berlin", timezone="Europe/Berlin").location == {
        "city": "Berlin",
        "timezone": "Europe/Berlin",
    }


def test_credentials_of_a_server_are_shown_nowhere() -> None:
    tool = RemoteMCP("docs", f"https://a.com/mcp?key={TOKEN}u", TOKEN, {"X-Key": f"{TOKEN}h"}, ["search"])
    assert isinstance(tool.token, Secret)
    assert isinstance(tool.url, SecretURL)
    assert TOKEN not in repr(tool)
    assert [secret.reveal() for secret in tool.secrets] == [TOKEN, f"{TOKEN}h", f"https://a.com/mcp?key={TOKEN}u"]
    assert tool.to_dict() == {
        "kind": "mcp",
        "name": "docs",
        "url": "https://a.com/mcp?key=***",
        "token": "***",
        "headers": {"X-Key": "***"},
        "allowed_tools": ["search"],
        "require_approval": "always",
    }
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(tool)
    assert RemoteMCP("docs", "https://a.com", token="").secrets == ()
    assert RemoteMCP("docs", SecretURL("https://a.com"), Secret("a"), {"x": Secret("b")}).secrets == (
        Secret("a"),
        Secret("b"),
    )
    assert pickle.loads(pickle.dumps(WebSearch(max_uses=3))) == WebSearch(max_uses=3)


def test_the_key_of_a_cache_differs_for_other_credentials() -> None:
    def data(*tools: ServerTool) -> list[Any]:
        return ChatRequest((user("Hi"),), server_tools=tools).cache_data()

    one, two = (data(RemoteMCP("docs", "https://a.com", token)) for token in (TOKEN, f"{TOKEN}2"))
    assert one[0] == two[0]
    assert one != two
    assert TOKEN not in str([*one, *two])
    assert one == data(RemoteMCP("docs", "https://a.com", TOKEN))
    assert len(data(WebSearch())) == len(data()) == 1
    assert data(WebSearch()) != data()
    assert "server_tools" not in data()[0]
    assert credentials_digest([WebSearch()]) == ""


@pytest.mark.parametrize("kind", [WebSearch, RemoteMCP, CachePoint])
def test_a_class_in_place_of_an_object_is_an_error(kind: type) -> None:
    # It would be a function of the caller's, whose arguments the model writes.
    with pytest.raises(TypeError, match=rf"got the class {kind.__name__}: write {kind.__name__}\(...\)"):
        split_tools([add, kind])


def test_two_tools_of_one_kind_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected one WebSearch, got two"):
        split_tools([WebSearch(), add, WebSearch(max_uses=1)])
    servers = [RemoteMCP("a", "https://a.com"), RemoteMCP("b", "https://a.com")]
    assert split_tools([add, *servers, WebSearch()]) == ([add], (*servers, WebSearch()), ())
    with pytest.raises(ValueError, match=r"expected one RemoteMCP\('a'\), got two"):
        split_tools([servers[0], RemoteMCP("a", "https://b.com")])


def test_a_required_call_waits_for_the_tools_of_the_provider() -> None:
    request = ChatRequest((user("Hi"),), (as_tool(add),), NamedTool("add"), server_tools=(WebSearch(),))
    assert request.conversation("m", "tool_call").tool_choice == "auto"
    assert request.conversation("m", "tool_call").server_tools == (WebSearch(),)
    assert request.conversation("m", "json_schema").tool_choice == NamedTool("add")
    assert (
        ChatRequest(request.messages, request.tools, "none", server_tools=(WebSearch(),)).choice_in("tool_call")
        == "none"
    )
    now = ChatRequest(request.messages, request.tools, NamedTool("add"), server_tools=(WebSearch(),), forces_now=True)
    assert now.conversation("m", "tool_call").tool_choice == NamedTool("add")
    assert now.to_dict()["forces_now"] is True


SEARCH = ServerToolUse("web_search", "srv_1", {"query": "sea"}, provider="anthropic", raw={"type": "server_tool_use"})


def test_what_they_did_is_in_the_message_and_survives_json() -> None:
    found = ServerToolUse(
        "web_search", "srv_1", output=[{"url": "https://a.com"}], provider="anthropic", raw={"a": [1]}
    )
    failed = ServerToolUse("web_search", "srv_2", error="max_uses_exceeded", provider="anthropic", raw={"b": None})
    accumulator = Accumulator()
    for event in (TextDelta("One."), SEARCH, found, TextDelta("Two."), failed, Finish("end_turn")):
        accumulator.apply(event)
    response = accumulator.response()
    assert [type(part).__name__ for part in response.message.parts] == [
        "TextPart",
        "ServerToolPart",
        "ServerToolPart",
        "TextPart",
        "ServerToolPart",
    ]
    assert response.message.server_tools == (SEARCH.part, found.part, failed.part)
    assert response.text == "One.Two."
    assert response.message.tool_calls == ()
    assert Message.from_dict(response.message.to_dict()) == response.message
    assert ChatResponse.from_dict(response.to_dict()).message == response.message
    assert server_tool_use(SEARCH.part) == SEARCH
    assert SEARCH.part == ServerToolPart(
        "web_search", "srv_1", {"query": "sea"}, provider="anthropic", raw={"type": "server_tool_use"}
    )


def test_a_scripted_llm_takes_tools_of_a_provider_and_a_custom_one_does_not() -> None:
    llm = ScriptedLLM([SEARCH, TextDelta("Found."), Finish("end_turn")])
    assert llm.chat("Hi", tools=[WebSearch()]).message.server_tools == (SEARCH.part,)

    class Custom(ScriptedLLM):
        takes_server_tools = False

    with pytest.raises(BadRequest, match="Custom runs no tools of a provider, and the request has WebSearch") as raised:
        Custom("Hi").chat("Hi", tools=[WebSearch()])
    assert raised.value.provider == "scripted"


FOUND = ServerToolPart(
    "web_search", "srv_1", output=[{"url": f"https://a.com?key={TOKEN}"}], provider="anthropic", raw={"a": "b" * 400}
)
FAILED = ServerToolPart("mcp", "srv_2", {"name": "search"}, error=f"no access with {TOKEN}", provider="openai")


def test_they_are_in_the_content_of_telemetry_without_credentials() -> None:
    message = Message("assistant", (SEARCH.part, FOUND, FAILED, ServerToolPart("url_context", provider="google")))
    shown = json.loads(messages_json([message], (), lambda text: text.replace(TOKEN, "[key]")))
    assert shown[0]["parts"] == [
        {
            "type": "server_tool_call",
            "id": "srv_1",
            "name": "web_search",
            "server_tool_call": {"type": "web_search", "input": {"query": "sea"}},
        },
        {
            "type": "server_tool_call_response",
            "id": "srv_1",
            "name": "web_search",
            "server_tool_call_response": {
                "type": "web_search",
                "output": [{"url": "https://a.com?key=[key]"}],
                "error": None,
            },
        },
        {
            "type": "server_tool_call_response",
            "id": "srv_2",
            "name": "mcp",
            "server_tool_call_response": {
                "type": "mcp",
                "output": None,
                "error": "no access with [key]",
                "input": {"name": "search"},
            },
        },
        {
            "type": "server_tool_call",
            "id": None,
            "name": "url_context",
            "server_tool_call": {"type": "url_context", "input": None},
        },
    ]


def test_their_texts_count_as_tokens() -> None:
    short, long = (Message("assistant", (part,)) for part in (SEARCH.part, FOUND))
    assert estimate_input_tokens([long]) > estimate_input_tokens([short]) + 50
    assert estimate_tokens([long]) > estimate_tokens([short]) + 50
    assert estimate_tokens([Message("assistant", (FAILED,))]) < 10
    assert estimate_input_tokens([Message("assistant", (FAILED,))]) < 10


def test_a_summary_has_the_text_that_they_led_to() -> None:
    prompt = summary_prompt([user("Sea?"), Message("assistant", (SEARCH.part, FOUND, TextPart("Blue.")))])
    assert prompt[1].text == "<conversation>\nuser: Sea?\n\nassistant: Blue.\n</conversation>"


def test_their_content_is_hidden_with_the_rest_of_an_answer() -> None:
    message = Message("assistant", (SEARCH.part, FOUND))
    assert hide_content(message, {"secret"}).parts == (
        ServerToolPart("web_search", "srv_1", provider="anthropic"),
        ServerToolPart("web_search", "srv_1", provider="anthropic"),
    )
    assert hide_content(message, ()) is message


def test_a_partial_answer_of_a_chat_has_them_after_it_was_stored() -> None:
    message = Message("assistant", (TextPart("I search."), SEARCH.part, FOUND))
    context = ChatContext(streamed=Streamed([TextDelta("I search."), SEARCH, server_tool_use(FOUND)]))
    assert context.streamed.message == message
    assert ChatContext.from_dict(json.loads(json.dumps(context.to_dict()))).streamed.message == message


class Account(BaseModel):
    """An account."""

    model_config = ConfigDict(hide_input_in_errors=True)

    number: int


def test_a_hidden_answer_is_requested_again_with_what_was_found() -> None:
    written = [SEARCH, server_tool_use(FOUND), TextDelta("secret"), Finish("end_turn")]
    call = ToolCallDone("c1", "Account", '{"number": "secret"}')
    invalid = [SEARCH, server_tool_use(FOUND), call, Finish("tool_use")]
    for first in (written, invalid):
        llm = ScriptedLLM(first, Account(number=4))
        make = ToolOrchestratingLLM(Account, "Account?", llm, tools=[WebSearch()], max_attempts=2)
        assert make().number == 4
        again = llm.requests[1].messages[1]
        assert again.server_tools == (SEARCH.part, FOUND)
        assert "secret" not in again.to_json().replace(TOKEN, "")


def test_a_search_alone_is_an_empty_answer() -> None:
    message = Message("assistant", (SEARCH.part, FOUND))
    assert is_empty(message)
    assert has_content(message)
    engine = Engine(ScriptedLLM([SEARCH, Finish("end_turn")]), [WebSearch()])
    with pytest.raises(EmptyResponse):
        engine.submit("Sea?")


def test_a_structured_call_takes_no_functions_as_tools() -> None:
    with pytest.raises(TypeError, match="expected tools that the provider runs, such as WebSearch"):
        ToolOrchestratingLLM(Account, "Account?", ScriptedLLM(), tools=[add])  # type: ignore[list-item]  # a wrong type is the test


def test_an_answer_with_a_search_is_parsed_by_its_own_call() -> None:
    llm = ScriptedLLM([SEARCH, ToolCallDone("c1", "Account", '{"number": 4}'), Finish("tool_use")])
    call = ToolOrchestratingLLM(Account, "Account?", llm, tools=[WebSearch()])
    assert call.parse(llm.chat("Account?", tools=[WebSearch()])).number == 4


@pytest.mark.parametrize("tools", [None, WebSearch()])
def test_tools_that_are_no_list_are_an_error(tools: Any) -> None:
    with pytest.raises(TypeError, match=r"tools=(None|WebSearch\(.*): expected a list of tools"):
        split_tools(tools)
