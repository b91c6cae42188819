"""Marks of prompt caches: `CachePoint` in messages, among tools and in instructions, and `cache="auto"`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from toolcast import (
    Anthropic,
    AnthropicVertex,
    Bedrock,
    Cohere,
    FunctionCallingLLM,
    Google,
    Message,
    Mistral,
    Ollama,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    Settings,
    ToolCallPart,
    WebSearch,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.errors import BadRequest
from toolcast.messages import CachePoint, ThinkingPart, ToolResultPart

CLAUDE = Anthropic("claude-sonnet-4-5", api_key="k")
VERTEX = AnthropicVertex("claude-sonnet-4-5@20250929", project="p", region="l")
BEDROCK = Bedrock("anthropic.claude-sonnet-4-5-20250929-v1:0", api_key="k", region="us-east-1")
NOVA = Bedrock("amazon.nova-pro-v1:0", api_key="k", region="us-east-1")
LLAMA = Bedrock("meta.llama3-3-70b-instruct-v1:0", api_key="k", region="us-east-1")
FIVE: Any = {"type": "ephemeral"}
HOUR: Any = {"type": "ephemeral", "ttl": "1h"}
POINT: Any = {"cachePoint": {"type": "default"}}


def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather in a given location."""
    return f"{location}: 20 {unit}"


def get_time(timezone: str) -> str:
    """Get the current time in a given time zone."""
    return timezone


def body(
    llm: FunctionCallingLLM, messages: Any, tools: Sequence[Any] = (), choice: Any = None, **settings: Any
) -> dict[str, Any]:
    request = llm.preview(messages, tools=tools, tool_choice=choice, settings=Settings(**settings))
    assert request is not None
    found: dict[str, Any] = json.loads(request.body)
    return found


def marks(sent: Any) -> Iterator[Any]:
    """Yield the marks of a request, in the order in which its prompt is cached."""
    for section in ("tools", "system", "messages"):
        yield from _marks_in(sent.get(section))


def _marks_in(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _marks_in(each)
    elif isinstance(value, dict):
        yield from (value[name] for name in ("cache_control", "cachePoint") if name in value)
        yield from _marks_in(value.get("content"))


# -- the documented examples (platform.claude.com/docs/en/build-with-claude/prompt-caching#prompt-caching-examples)


def test_large_context() -> None:
    sent = body(
        CLAUDE,
        [
            system("You are an AI assistant tasked with analyzing legal documents."),
            system("Here is the full text of a complex legal agreement: [50 pages]", CachePoint()),
            user("What are the key terms and conditions in this agreement?"),
        ],
        max_tokens=1024,
    )
    assert sent["system"] == [
        {"type": "text", "text": "You are an AI assistant tasked with analyzing legal documents."},
        {
            "type": "text",
            "text": "Here is the full text of a complex legal agreement: [50 pages]",
            "cache_control": FIVE,
        },
    ]
    question = {"type": "text", "text": "What are the key terms and conditions in this agreement?"}
    assert sent["messages"] == [{"role": "user", "content": [question]}]


def test_tool_definitions() -> None:
    sent = body(CLAUDE, "What's the weather like in New York?", [get_weather, get_time, CachePoint()])
    assert [tool.get("cache_control") for tool in sent["tools"]] == [None, FIVE]
    assert "system" not in sent


def test_continued_conversation() -> None:
    sent = body(
        CLAUDE,
        [
            system("...long system prompt", CachePoint()),
            user("Hello, can you tell me more about the solar system?"),
            assistant("Certainly! The solar system is the collection of celestial bodies."),
            user("Good to know.", "Tell me more about Mars.", CachePoint()),
        ],
    )
    assert sent["system"] == [{"type": "text", "text": "...long system prompt", "cache_control": FIVE}]
    assert sent["messages"][2]["content"] == [
        {"type": "text", "text": "Good to know."},
        {"type": "text", "text": "Tell me more about Mars.", "cache_control": FIVE},
    ]
    assert list(marks(sent)) == [FIVE, FIVE]


def test_four_marks() -> None:
    call = ToolCallPart("tool_1", "get_time", '{"timezone":"UTC"}')
    sent = body(
        CLAUDE,
        [
            system("You are a helpful research assistant.", CachePoint(), "# Knowledge base", CachePoint()),
            user("Can you search for information about Mars rovers?"),
            assistant(call),
            Message("tool", (ToolResultPart("tool_1", "Found 3 relevant documents"),)),
            assistant("I found 3 relevant documents."),
            user("Yes, please tell me about the Perseverance rover specifically.", CachePoint()),
        ],
        [get_weather, get_time, CachePoint()],
    )
    assert list(marks(sent)) == [FIVE] * 4


def test_mixed_ttl() -> None:
    messages = [system("rules", CachePoint("1h")), user("history", CachePoint("5m"), "question", CachePoint())]
    sent = body(CLAUDE, messages, [get_time, CachePoint("1h")])
    assert list(marks(sent)) == [HOUR, HOUR, {"type": "ephemeral", "ttl": "5m"}, FIVE]


def test_documented_example_of_bedrock() -> None:
    # docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
    sent = body(BEDROCK, [system("You are an expert.", CachePoint()), user("Document", CachePoint(), "Question?")])
    assert sent["system"] == [{"text": "You are an expert."}, POINT]
    assert sent["messages"] == [{"role": "user", "content": [{"text": "Document"}, POINT, {"text": "Question?"}]}]
    sent = body(BEDROCK, "Question?", [get_time, CachePoint("1h")])
    assert sent["toolConfig"]["tools"][1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


# -- the rules


@pytest.mark.parametrize("llm", [CLAUDE, VERTEX, BEDROCK])
def test_five_marks_are_refused(llm: FunctionCallingLLM) -> None:
    with pytest.raises(BadRequest, match="at most 4 CachePoints in a request, got 5"):
        body(llm, [user(*(part for text in "abcde" for part in (text, CachePoint())), "question")])


@pytest.mark.parametrize("llm", [CLAUDE, VERTEX, BEDROCK])
@pytest.mark.parametrize(
    ("messages", "tools", "where"),
    [
        ([user("a", CachePoint(), "b", CachePoint("1h"))], [], "a message"),
        ([system("a", CachePoint("5m")), user("b", CachePoint("1h"))], [], "the system prompt"),
        ([user("b", CachePoint("1h"))], [get_time, CachePoint()], "the tools"),
    ],
)
def test_a_longer_ttl_comes_first(llm: FunctionCallingLLM, messages: Any, tools: Any, where: str) -> None:
    with pytest.raises(BadRequest, match=f"after a point of 5 minutes in {where}: use ttl='1h'"):
        body(llm, messages, tools)


def test_nova_has_no_order_and_no_marks_on_tools() -> None:
    sent = body(NOVA, [user("a", CachePoint(), "b", CachePoint("1h"))], [get_time, CachePoint()])
    assert len(sent["toolConfig"]["tools"]) == 1
    assert sent["messages"][0]["content"][1::2] == [POINT, {"cachePoint": {"type": "default", "ttl": "1h"}}]


def test_ttl() -> None:
    with pytest.raises(ValueError, match=r"CachePoint\(ttl='2h'\): expected '5m', '1h' or None"):
        CachePoint("2h")  # type: ignore[arg-type]  # what a user may write


# -- the marked block


def test_two_points_at_one_place_are_one_mark() -> None:
    sent = body(CLAUDE, [user("a", CachePoint("1h"), CachePoint(), "b"), assistant("c"), user(CachePoint(), "d")])
    assert list(marks(sent)) == [HOUR, FIVE]
    assert sent["messages"][1]["content"] == [{"type": "text", "text": "c", "cache_control": FIVE}]


def test_a_message_of_a_point_alone() -> None:
    sent = body(CLAUDE, [user("a"), user(CachePoint()), assistant("b"), user("c")])
    assert [len(turn["content"]) for turn in sent["messages"]] == [1, 1, 1]
    assert list(marks(sent)) == [FIVE]
    assert "cache_control" in sent["messages"][0]["content"][0]


@pytest.mark.parametrize(
    ("before", "sent"), [([], 0), ([system("s")], 1)], ids=["nothing to cache", "the system prompt"]
)
def test_a_point_before_the_first_message(before: list[Message], sent: int) -> None:
    for llm in (CLAUDE, BEDROCK):
        found = body(llm, [*before, user(CachePoint(), "a")])
        assert json.dumps(found).count("cache") == sent
        assert len(found["messages"][0]["content"]) == 1


@pytest.mark.parametrize("llm", [CLAUDE, BEDROCK])
def test_points_alone_are_no_content(llm: FunctionCallingLLM) -> None:
    with pytest.raises(BadRequest, match="no content"):
        body(llm, [user(CachePoint())])


def test_thoughts_are_not_marked() -> None:
    thought = ThinkingPart("hm", signature="s")
    sent = body(CLAUDE, [user("a"), assistant(thought, CachePoint(), "b"), user("c")])
    assert list(_marks_in(sent["messages"][0])) == [FIVE]
    assert list(_marks_in(sent["messages"][1])) == []
    sent = body(BEDROCK, [user("a"), assistant("b", thought, CachePoint()), user("c")])
    assert [next(iter(block)) for block in sent["messages"][1]["content"]] == ["text", "cachePoint", "reasoningContent"]


def test_a_result_of_a_tool_and_a_call_are_marked() -> None:
    call = ToolCallPart("c", "get_time", "{}")
    messages = [user("a"), assistant(call, CachePoint()), Message("tool", (ToolResultPart("c", "x"), CachePoint()))]
    sent = body(CLAUDE, messages, [get_time])
    assert sent["messages"][1]["content"][0]["cache_control"] == FIVE
    assert sent["messages"][2]["content"][0]["cache_control"] == FIVE
    sent = body(BEDROCK, messages, [get_time])
    assert sent["messages"][1]["content"][1:] == [POINT]
    assert sent["messages"][2]["content"][1:] == [POINT]


def test_a_point_at_the_end_of_an_assistant_message_to_continue() -> None:
    for llm in (CLAUDE, BEDROCK):
        sent = body(llm, [user("a"), assistant("b ", CachePoint())])
        assert sent["messages"][1]["content"][0]["text"] == "b"


def test_points_between_tools() -> None:
    tools = [get_weather, CachePoint("1h"), get_time, WebSearch(), CachePoint()]
    sent = body(CLAUDE, "a", tools)
    assert [tool.get("cache_control") for tool in sent["tools"]] == [HOUR, None, FIVE]
    sent = body(CLAUDE, "a", [WebSearch(), CachePoint(), get_time])
    assert [tool.get("cache_control") for tool in sent["tools"]] == [None, FIVE]
    sent = body(CLAUDE, "a", tools, "get_time")
    assert [tool.get("cache_control") for tool in sent["tools"]] == [HOUR, None, FIVE]


def test_tools_of_an_encoder_are_not_changed() -> None:
    for _ in range(2):  # the second request has the same encoder
        assert list(marks(body(CLAUDE, ["a"], [get_time], cache="auto"))) == [FIVE, FIVE]
    assert list(marks(body(CLAUDE, ["a"], [get_time]))) == []


def test_a_point_before_all_tools_is_an_error() -> None:
    with pytest.raises(ValueError, match="a CachePoint comes after the tools to cache"):
        body(CLAUDE, "a", [CachePoint(), get_time])


def test_no_tools_no_mark() -> None:
    assert list(marks(body(CLAUDE, "a", [get_time, CachePoint()], "none"))) == []


# -- cache="auto"


@pytest.mark.parametrize("llm", [CLAUDE, VERTEX, BEDROCK])
def test_automatic_marks(llm: FunctionCallingLLM) -> None:
    messages = [system("s"), user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    sent = body(llm, messages, [get_weather, get_time], cache="auto")
    tools = sent.get("tools") or sent["toolConfig"]["tools"]
    assert _marks_of(tools[-2:]) == 1
    assert _marks_of(sent["system"]) == 1
    assert [_marks_of(turn["content"]) for turn in sent["messages"]] == [0, 0, 1, 0, 1]


def _marks_of(blocks: list[Any]) -> int:
    return json.dumps(blocks).count('"cache_control"') + json.dumps(blocks).count('"cachePoint"')


def test_a_required_call_has_no_mark_at_its_end() -> None:
    for llm in (CLAUDE, BEDROCK):
        sent = body(llm, [system("s"), user("a")], [get_time], "get_time", cache="auto")
        assert _marks_of(sent["messages"]) == 0
        assert _marks_of(sent["system"]) == 1
    assert _marks_of(body(CLAUDE, [user("a")], cache="auto")["messages"]) == 0


def test_automatic_marks_leave_the_others_their_place() -> None:
    messages = [system("s"), user("a", CachePoint(), "b", CachePoint("5m"), "c"), assistant("d"), user("e")]
    for llm in (CLAUDE, BEDROCK):
        sent = body(llm, messages, [get_time], cache="auto")
        assert _marks_of(sent["messages"]) == 3
        assert _marks_of(sent["system"]) == 1
        tools = sent.get("tools") or sent["toolConfig"]["tools"]
        assert _marks_of(tools) == 0


def test_automatic_marks_before_an_hour_last_an_hour() -> None:
    sent = body(CLAUDE, [system("s"), user("a", CachePoint("1h"), "b")], [get_time], cache="auto")
    assert list(marks(sent)) == [HOUR, HOUR, HOUR, FIVE]


def test_off() -> None:
    llm = Anthropic("claude-sonnet-4-5", api_key="k", settings=Settings(cache="auto"))
    assert list(marks(body(llm, [system("s"), user("a")]))) == [FIVE]
    assert list(marks(body(llm, [system("s"), user("a")], cache="off"))) == []
    with pytest.raises(ValueError, match="cache='on': expected 'auto', 'off' or None"):
        Settings(cache="on")  # type: ignore[arg-type]  # what a user may write


def test_an_automatic_mark_counts_points_that_are_blocks() -> None:
    raw = ThinkingPart(opaque={"bedrock": POINT})
    sent = body(BEDROCK, [system("s"), user("a", raw, "b", raw, "c", raw, "d")], [get_time], cache="auto")
    assert _marks_of([sent]) == 4


_TEXTS = st.sampled_from(["a", "b", " "])
_POINTS = st.sampled_from([CachePoint(), CachePoint("5m"), CachePoint("1h")])
_MESSAGES = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant"]), st.lists(_TEXTS | _POINTS, min_size=1, max_size=4)),
    min_size=1,
    max_size=7,
)


@given(_MESSAGES, st.booleans(), st.booleans())
def test_any_marks_are_as_the_rules_have_them(parts: Any, auto: bool, tools: bool) -> None:
    messages = [Message(role, tuple(found)) for role, found in parts]
    plain = [
        Message(message.role, tuple([part for part in message.parts if not isinstance(part, CachePoint)]))
        for message in messages
    ]
    assume(all(message.parts for message in plain))
    offered = [get_time, CachePoint("1h")] if tools else []
    for llm in (CLAUDE, BEDROCK):
        try:
            sent = body(llm, messages, offered, cache="auto" if auto else "off")
        except BadRequest:
            continue
        found = [mark.get("ttl") for mark in _in_order(sent)]
        assert len(found) <= 4
        assert found == sorted(found, key=lambda ttl: ttl != "1h")
        assert _without_marks(sent) == _without_marks(body(llm, plain, offered[:1]))


def _in_order(sent: dict[str, Any]) -> Iterator[Any]:
    if "toolConfig" in sent:
        sent = {**sent, "tools": sent["toolConfig"]["tools"]}
    yield from marks(sent)


def _without_marks(value: Any) -> Any:
    """Return a request without marks, and with its system prompt as blocks."""
    if isinstance(value, dict):
        kept = {name: _without_marks(each) for name, each in value.items() if name != "cache_control"}
        if isinstance(kept.get("system"), str):
            kept["system"] = [{"type": "text", "text": kept["system"]}]
        return kept
    if isinstance(value, list):
        return [_without_marks(each) for each in value if not (isinstance(each, dict) and "cachePoint" in each)]
    return value


# -- services without marks


@pytest.mark.parametrize(
    "llm",
    [
        OpenAI("gpt-5.4", api="chat", api_key="k"),
        OpenAIResponses("gpt-5.4", api_key="k"),
        Google("gemini-3-flash-preview", api_key="k"),
        Mistral("mistral-large-2512", api_key="k"),
        Cohere("command-a-plus-05-2026", api_key="k"),
        Ollama("qwen3", base_url="http://host"),
        OpenAICompatible("m", service="groq", api_key="k"),
        OpenAICompatible("m", base_url="http://host/v1"),
        LLAMA,
    ],
    ids=lambda llm: type(llm).__name__,
)
def test_services_without_marks_get_none(llm: FunctionCallingLLM) -> None:
    marked = [
        system("s", CachePoint()),
        user("a", CachePoint("1h"), "b", CachePoint()),
        assistant("c", CachePoint()),
        user(CachePoint()),
        user("d"),
    ]
    plain = [system("s"), user("a", "b"), assistant("c"), user("d")]
    assert body(llm, marked, [get_time, CachePoint()], cache="auto") == body(llm, plain, [get_time])


# -- keys and retention


@pytest.mark.parametrize(
    ("llm", "sent", "notes"),
    [
        (OpenAI("gpt-5.4", api="chat", api_key="k"), {"prompt_cache_key": "u1", "prompt_cache_retention": "24h"}, ()),
        (OpenAIResponses("gpt-5.4", api_key="k"), {"prompt_cache_key": "u1", "prompt_cache_retention": "24h"}, ()),
        (OpenAI("gpt-6-sol", api_key="k"), {"prompt_cache_key": "u1", "prompt_cache_retention": "24h"}, ()),
        (Mistral("m", api_key="k"), {"prompt_cache_key": "u1"}, ("prompt_cache_retention",)),
        (
            OpenAIResponses("grok-4.5", service="xai", api_key="k"),
            {"prompt_cache_key": "u1"},
            ("prompt_cache_retention",),
        ),
        (OpenAICompatible("grok-4.5", service="xai", api_key="k"), {}, ("prompt_cache_retention",)),
        (CLAUDE, {}, ("prompt_cache_key", "prompt_cache_retention")),
        (BEDROCK, {}, ("prompt_cache_key", "prompt_cache_retention")),
        (Google("gemini-3-flash-preview", api_key="k"), {}, ("prompt_cache_key", "prompt_cache_retention")),
    ],
)
def test_cache_key_and_retention(llm: FunctionCallingLLM, sent: Any, notes: tuple[str, ...]) -> None:
    settings = Settings(prompt_cache_key="u1", prompt_cache_retention="24h")
    request = llm.preview("a", settings=settings)
    assert request is not None
    found = json.loads(request.body)
    assert {name: found[name] for name in found if name.startswith("prompt_cache")} == sent
    assert request.notes == notes


def test_the_key_of_xai_is_a_header() -> None:
    llm = OpenAICompatible("grok-4.5", service="xai", api_key="k")
    request = llm.preview("a", settings=Settings(prompt_cache_key="conv_abc123"))
    assert request is not None
    assert request.headers["x-grok-conv-id"] == "conv_abc123"
    with pytest.raises(BadRequest, match="characters that a header cannot have"):
        llm.preview("a", settings=Settings(prompt_cache_key="a\nb"))


# -- OpenAI's protocols

OPENROUTER = OpenAICompatible("anthropic/claude-sonnet-4.5", service="openrouter", api_key="k")
QWEN = OpenAICompatible("qwen3-coder-plus", service="qwen", api_key="k")
CHAT = OpenAI("gpt-5.6", api="chat", api_key="k")
RESPONSES = OpenAIResponses("gpt-5.6", api_key="k")
BREAK: Any = {"mode": "explicit"}
CALL = ToolCallPart("c1", "get_time", '{"timezone":"UTC"}')


def test_documented_example_of_openrouter() -> None:
    # openrouter.ai/docs/guides/best-practices/prompt-caching: a system message, and a user message
    sent = body(
        OPENROUTER,
        [
            system("You are a historian studying the fall of the Roman Empire.", "HUGE TEXT BODY", CachePoint()),
            user("What triggered the collapse?"),
        ],
    )
    assert sent["messages"] == [
        {
            "role": "system",
            "content": [
                {"type": "text", "text": "You are a historian studying the fall of the Roman Empire."},
                {"type": "text", "text": "HUGE TEXT BODY", "cache_control": FIVE},
            ],
        },
        {"role": "user", "content": "What triggered the collapse?"},
    ]
    sent = body(OPENROUTER, [user("Given the book below:", "HUGE TEXT BODY", CachePoint("1h"), "Name all characters")])
    assert sent["messages"][0]["content"] == [
        {"type": "text", "text": "Given the book below:"},
        {"type": "text", "text": "HUGE TEXT BODY", "cache_control": HOUR},
        {"type": "text", "text": "Name all characters"},
    ]


def test_documented_example_of_qwen() -> None:
    # alibabacloud.com/help/en/model-studio/context-cache
    sent = body(QWEN, [system("long_text_content", CachePoint()), user("What is this code about?")])
    block = {"type": "text", "text": "long_text_content", "cache_control": FIVE}
    assert sent["messages"][0] == {"role": "system", "content": [block]}
    with pytest.raises(BadRequest, match=r"qwen takes no CachePoint\(ttl='1h'\): expected '5m', or none"):
        body(QWEN, [user("a", CachePoint("1h"), "b")])


@pytest.mark.parametrize("llm", [CHAT, RESPONSES])
def test_breakpoints_of_openai(llm: FunctionCallingLLM) -> None:
    sent = body(llm, [system("rules", CachePoint()), user("document", CachePoint("1h"), "question")])
    kind = "text" if llm is CHAT else "input_text"
    assert "instructions" not in sent
    assert sent["messages" if llm is CHAT else "input"] == [
        {"role": "system", "content": [{"type": kind, "text": "rules", "prompt_cache_breakpoint": BREAK}]},
        {
            "role": "user",
            "content": [
                {"type": kind, "text": "document", "prompt_cache_breakpoint": BREAK},
                {"type": kind, "text": "question"},
            ],
        },
    ]
    many = body(llm, [user(*[part for at in range(9) for part in (str(at), CachePoint())])])
    assert json.dumps(many).count("prompt_cache_breakpoint") == 9  # OpenAI uses the last ones
    assert "prompt_cache" not in json.dumps(body(llm, [system("rules"), user("a")], cache="auto"))


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5", "gpt-5.4", "gpt-5.5-mini", "o3"])
def test_earlier_models_of_openai_have_no_breakpoints(model: str) -> None:
    for llm in (OpenAI(model, api="chat", api_key="k"), OpenAIResponses(model, api_key="k")):
        assert "prompt_cache" not in json.dumps(body(llm, [user("a", CachePoint(), "b")]))


def test_results_and_answers_of_chat_completions_are_marked() -> None:
    messages = [
        user(CachePoint(), "a"),
        assistant("b", CachePoint()),
        user("c"),
        assistant(CALL),
        Message("tool", (ToolResultPart("c1", "noon"), CachePoint())),
    ]
    sent = body(OPENROUTER, messages, [get_time, CachePoint("1h")])
    assert sent["tools"][0]["cache_control"] == HOUR
    contents = [message["content"] for message in sent["messages"]]
    assert contents == [
        [{"type": "text", "text": "a"}],
        [{"type": "text", "text": "b", "cache_control": FIVE}],
        "c",
        None,
        [{"type": "text", "text": "noon", "cache_control": FIVE}],
    ]


def test_what_responses_cannot_mark_leaves_the_mark_before_it() -> None:
    messages = [user("a"), assistant("b", CALL, CachePoint()), tool_result(CALL, "noon"), user(CachePoint(), "c")]
    sent = body(RESPONSES, messages, [get_time])
    marked = [item for item in sent["input"] if "prompt_cache_breakpoint" in json.dumps(item)]
    assert [item.get("role", item.get("type")) for item in marked] == ["user", "function_call_output"]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_how_long_openai_keeps_what_is_cached(api: Any) -> None:
    """developers.openai.com/api/docs/guides/prompt-caching: at least 30 minutes or 12 hours, for all points."""
    new, old = (OpenAI(model, api=api, api_key="k") for model in ("gpt-6-sol", "gpt-5.4"))
    assert body(new, [user("a", CachePoint("1h"), "b")])["prompt_cache_options"] == {"ttl": "12h"}
    assert "prompt_cache_options" not in body(new, [user("a", CachePoint("5m"), "b")])
    assert "prompt_cache_options" not in body(old, [user("a", CachePoint("1h"), "b")])
    for llm, retention, field in (
        (new, "30m", {"prompt_cache_options": {"ttl": "30m"}}),
        (new, "12h", {"prompt_cache_options": {"ttl": "12h"}}),
        (new, "in_memory", {}),
        (old, "in_memory", {"prompt_cache_retention": "in_memory"}),
        (old, "12h", {}),
    ):
        settings = Settings(prompt_cache_retention=retention)
        request = llm.preview("a", settings=settings)
        assert request is not None
        sent = json.loads(request.body)
        assert {name: sent[name] for name in sent if name.startswith("prompt_cache")} == field
        assert request.notes == (() if field else ("prompt_cache_retention",))


@pytest.mark.parametrize("llm", [OPENROUTER, QWEN])
def test_automatic_marks_of_chat_completions(llm: FunctionCallingLLM) -> None:
    messages = [system("s"), system("t"), user("a"), assistant("b"), user("c"), assistant(CALL), tool_result(CALL, "n")]
    sent = body(llm, messages, [get_time], cache="auto")
    marked = [_marks_of([message]) for message in sent["messages"]]
    assert marked == [0, 1, 0, 0, 1, 0, 1]
    assert _marks_of(sent["tools"]) == (1 if llm is OPENROUTER else 0)
    forced = body(llm, [system("s"), user("a")], [get_time], "get_time", cache="auto")
    assert [_marks_of([message]) for message in forced["messages"]] == [1, 0]


def test_models_that_are_cached_without_marks_get_no_automatic_ones() -> None:
    llm = OpenAICompatible("openai/gpt-5.4", service="openrouter", api_key="k")
    assert _marks_of([body(llm, [system("s"), user("a")], [get_time], cache="auto")]) == 0
    assert _marks_of([body(llm, [system("s", CachePoint()), user("a")])]) == 1


def test_responses_of_other_services_get_no_marks() -> None:
    llm = OpenAIResponses("anthropic/claude-sonnet-4.5", service="openrouter", api_key="k")
    assert (
        _marks_of([body(llm, [system("s", CachePoint()), user("a", CachePoint(), "b")], [get_time, CachePoint()])]) == 0
    )


@given(_MESSAGES, st.booleans())
def test_any_marks_of_chat_completions(parts: Any, auto: bool) -> None:
    messages = [Message(role, tuple(found)) for role, found in parts]
    plain = [
        Message(message.role, tuple([part for part in message.parts if not isinstance(part, CachePoint)]))
        for message in messages
    ]
    assume(all(message.parts for message in plain))
    for llm in (OPENROUTER, CHAT, RESPONSES):
        try:
            sent = body(llm, messages, [get_time], cache="auto" if auto else "off")
        except BadRequest:
            continue
        # With marks, the system messages of Responses are in the input.
        without = body(llm, plain, [get_time])
        if "instructions" in without and "instructions" not in sent:
            continue
        assert _texts(sent) == _texts(without)


def _texts(sent: Any) -> Any:
    """Return the role and the text of each message."""
    return [
        (message["role"], content if isinstance(content, str) else "".join([part["text"] for part in content]))
        for message in sent.get("messages", sent.get("input"))
        if (content := message["content"]) is not None
    ]
