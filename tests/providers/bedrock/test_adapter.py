"""Requests of Converse: every part of a message, every setting and tool choice. botocore must accept and send each."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from support.bedrock_oracle import sent
from toolcast.errors import BadRequest
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.providers.base import RequestInput
from toolcast.providers.bedrock.adapter import BedrockAdapter, runtime_url
from toolcast.values.credentials import Secret
from toolcast.values.server_tools import CodeExecution, URLContext, WebSearch
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec

CLAUDE, CLAUDE_3, CLAUDE_5 = (
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "anthropic.claude-3-haiku-20240307-v1:0",
    "global.anthropic.claude-opus-5-5",
)
NOVA, NOVA_2, LLAMA = "amazon.nova-pro-v1:0", "us.amazon.nova-2-lite-v1:0", "meta.llama3-3-70b-instruct-v1:0"
MISTRAL, GPT = "mistral.mistral-large-2402-v1:0", "openai.gpt-oss-120b-1:0"
FOUNDATION = "arn:aws:bedrock:us-east-1::foundation-model/x.y-v1:0"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
MODELS = (CLAUDE, CLAUDE_3, CLAUDE_5, NOVA, NOVA_2, LLAMA, MISTRAL, GPT, PROFILE)
WEATHER = ToolSpec(
    "weather",
    "The weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
)
NOW = ToolSpec("now.utc", " ", {"type": "object", "properties": {}})
B64 = base64.b64encode(b"bytes").decode()


def adapter(**options: Any) -> BedrockAdapter:
    return BedrockAdapter(**{"base_url": "https://bedrock-runtime.us-east-1.amazonaws.com", **options})


def encoded(
    *messages: Message, model: str = CLAUDE_3, settings: Settings | None = None, stream: bool = False, **options: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body and the notes of a request, which botocore sends in the same words for the same call."""
    messages = messages or (user("Hi"),)
    request = adapter().request(RequestInput(model, messages, stream=stream, **options), settings or Settings())
    body = json.loads(request.body)
    path, expected = sent(model, body, stream=stream)
    assert body == expected
    assert request.url == f"https://bedrock-runtime.us-east-1.amazonaws.com{path}"
    return body, request.notes


def document(media_type: str, name: str | None = None) -> DocumentPart:
    return DocumentPart(data=b"bytes", media_type=media_type, name=name)


def content(*parts: Any, **options: Any) -> list[dict[str, Any]]:
    """The content of a user message."""
    (message,) = encoded(user(*parts), **options)[0]["messages"]
    blocks: list[dict[str, Any]] = message["content"]
    return blocks


# -- the documented calls


def test_the_tool_call_of_the_user_guide() -> None:
    """User guide, "Call a tool with the Converse API": each field of both requests."""
    schema = {
        "type": "object",
        "properties": {"sign": {"type": "string", "description": "The call sign, for example WZPZ and WKRP."}},
        "required": ["sign"],
    }
    top_song = ToolSpec("top_song", "Get the most popular song played on a radio station.", schema)
    question = user("What is the most popular song on WZPZ?")
    spec = {"name": "top_song", "description": top_song.description, "inputSchema": {"json": schema}}
    first, _ = encoded(question, tools=(top_song,), model="cohere.command-r-v1:0")
    asked = {"role": "user", "content": [{"text": "What is the most popular song on WZPZ?"}]}
    assert first == {"messages": [asked], "toolConfig": {"tools": [{"toolSpec": spec}]}}
    call = ToolCallPart("tooluse_kZJMlvQmRJ6eAyJE5GIl7Q", "top_song", '{"sign": "WZPZ"}')
    second, _ = encoded(question, assistant(call), tool_result(call, "Elemental Hotel"), tools=(top_song,))
    assert second["messages"][1:] == [
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": call.id, "name": "top_song", "input": {"sign": "WZPZ"}}}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": call.id, "content": [{"text": "Elemental Hotel"}]}}]},
    ]
    failed = tool_result(call, "Station WZPA not found.", is_error=True)
    third, _ = encoded(question, assistant(call), failed, tools=(top_song,))
    assert third["messages"][2]["content"][0]["toolResult"]["status"] == "error"


def test_the_inference_parameters_of_the_user_guide() -> None:
    """User guide, "Using the Converse API": system prompt, inference parameters, and fields of the model."""
    settings = Settings(temperature=0.5, top_p=0.9, max_tokens=512, stop="</s>", extra={"requestMetadata": {"a": "b"}})
    body, notes = encoded(
        system("You are an app that creates playlists."), user("Create a list."), model=MISTRAL, settings=settings
    )
    assert body == {
        "system": [{"text": "You are an app that creates playlists."}],
        "messages": [{"role": "user", "content": [{"text": "Create a list."}]}],
        "inferenceConfig": {"maxTokens": 512, "temperature": 0.5, "topP": 0.9, "stopSequences": ["</s>"]},
        "requestMetadata": {"a": "b"},
    }
    assert notes == ()


# -- addresses


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "segment"),
    [
        (CLAUDE_3, "anthropic.claude-3-haiku-20240307-v1%3A0"),
        ("meta.llama3-8b", "meta.llama3-8b"),
        (PROFILE, "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fa1b2c3"),
        (FOUNDATION, "arn%3Aaws%3Abedrock%3Aus-east-1%3A%3Afoundation-model%2Fx.y-v1%3A0"),
        ("a~b_c é", "a~b_c%20%C3%A9"),
    ],
)  # fmt: skip
def test_the_model_is_one_segment_of_the_path(model: str, segment: str, stream: bool) -> None:
    """botocore encodes the same (see `encoded`); the last one is no id that it accepts as one."""
    operation = "converse-stream" if stream else "converse"
    for root in ("https://h", "https://h/", "https://h/proxy/"):
        request = adapter(base_url=root).request(RequestInput(model, (user("Hi"),), stream=stream), Settings())
        assert request.url == f"{root.rstrip('/')}/model/{segment}/{operation}"
    accept = "application/vnd.amazon.eventstream" if stream else "application/json"
    assert (request.headers["accept"], request.headers["content-type"]) == (accept, "application/json")
    encoded(model=model, stream=stream)


def test_a_query_stays_at_the_end() -> None:
    request = adapter(base_url="https://h/p?team=1").request(RequestInput("m", (user("Hi"),)), Settings())
    assert request.url == "https://h/p/model/m/converse-stream?team=***"
    assert request.target == "https://h/p/model/m/converse-stream?team=1"


@pytest.mark.parametrize(
    ("region", "environ", "url"),
    [
        ("eu-west-1", {}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("us-gov-west-1", {}, "https://bedrock-runtime.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", {}, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ("us-iso-east-1", {}, "https://bedrock-runtime.us-iso-east-1.c2s.ic.gov"),
        ("us-isob-east-1", {}, "https://bedrock-runtime.us-isob-east-1.sc2s.sgov.gov"),
        ("us-isof-south-1", {}, "https://bedrock-runtime.us-isof-south-1.csp.hci.ic.gov"),
        ("eu-isoe-west-1", {}, "https://bedrock-runtime.eu-isoe-west-1.cloud.adc-e.uk"),
        ("eusc-de-east-1", {}, "https://bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
        (
            "us-east-1",
            {"AWS_USE_FIPS_ENDPOINT": "true"},
            "https://bedrock-runtime-fips.us-east-1.amazonaws.com",
        ),
        ("r", {"AWS_ENDPOINT_URL": "https://a"}, "https://a"),
        ("r", {"AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "https://b"}, "https://b"),
        (
            "r",
            {"AWS_ENDPOINT_URL": "https://a", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "True"},
            "https://bedrock-runtime.r.amazonaws.com",
        ),
    ],
)
def test_where_a_region_is(region: str, environ: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As botocore resolves it."""
    from botocore.session import Session  # type: ignore[import-untyped]  # it has no types

    assert runtime_url(region, environ) == url
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    client = Session().create_client("bedrock-runtime", region, aws_access_key_id="a", aws_secret_access_key="b")
    assert client.meta.endpoint_url == url


@pytest.mark.parametrize("region", ["", "us east", "evil.com/", "a.b", "x@y", "US-EAST-1"])
def test_a_text_that_is_no_region(region: str) -> None:
    with pytest.raises(BadRequest, match="no region of AWS; expected for example 'us-east-1'"):
        runtime_url(region, {})


def test_the_api_key_is_a_bearer_token() -> None:
    request = adapter(api_key=Secret("bedrock-api-key-x")).request(RequestInput("m", (user("Hi"),)), Settings())
    assert request.headers["authorization"] == Secret("Bearer bedrock-api-key-x")
    assert "authorization" not in adapter().request(RequestInput("m", (user("Hi"),)), Settings()).headers


# -- messages


def test_turns_alternate_and_results_come_first() -> None:
    calls = ToolCallPart("a", "weather", "{}"), ToolCallPart("b", "now.utc", '{"x": [1]}')
    messages = encoded(
        user("One."), user("Two."), assistant("Hm."), assistant(*calls),
        system("Be brief."), tool_result(calls[0], "4C"), tool_result(calls[1], "noon"), user("So?"),
        tools=(WEATHER, NOW),
    )[0]["messages"]  # fmt: skip
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [next(iter(block)) for block in messages[1]["content"]] == ["text", "toolUse", "toolUse"]
    assert [next(iter(block)) for block in messages[2]["content"]] == ["toolResult", "toolResult", "text", "text"]
    (_, called) = [block["toolUse"] for block in messages[1]["content"][1:]]
    assert called == {"toolUseId": "b", "name": called["name"], "input": {"x": [1]}}
    assert called["name"].startswith("now_utc")


def test_blank_text_is_left_out() -> None:
    body, _ = encoded(system(" "), user("Hi", "\n"), assistant("So: \n"))
    assert "system" not in body
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "Hi"}]},
        {"role": "assistant", "content": [{"text": "So:"}]},
    ]


@pytest.mark.parametrize("messages", [(), (user(),), (system("Be kind."),), (user(" "),)])
def test_nothing_to_send(messages: tuple[Message, ...]) -> None:
    with pytest.raises(BadRequest, match="no content"):
        adapter().request(RequestInput("m", messages), Settings())


def test_arguments_that_are_no_object() -> None:
    call = ToolCallPart("a", "weather", '{"city": "Os', truncated=True)
    message = encoded(user("Go"), assistant(call), tool_result(call, "x"))[0]["messages"][1]
    assert message["content"][0]["toolUse"]["input"] == {"malformed": '{"city": "Os'}


def test_one_id_is_not_used_twice() -> None:
    call = ToolCallPart("a", "weather", "{}")
    history = (user("Go"), assistant(call), tool_result(call, "1"), assistant(call), tool_result(call, "2"))
    messages = encoded(*history, tools=(WEATHER,))[0]["messages"]
    ids = [block["toolUse"]["toolUseId"] for message in messages for block in message["content"] if "toolUse" in block]
    results = [message["content"][0]["toolResult"]["toolUseId"] for message in messages[2::2]]
    assert len(set(ids)) == 2 and ids == results


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (ImagePart(data=b"bytes", media_type="image/png"), {"image": {"format": "png"}}),
        (ImagePart(data=b"bytes", media_type="image/jpg"), {"image": {"format": "jpeg"}}),
        (ImagePart(url=f"data:image/webp;base64,{B64}"), {"image": {"format": "webp"}}),
        (AudioPart(data=b"bytes", media_type="audio/mpeg"), {"audio": {"format": "mp3"}}),
        (AudioPart(data=b"bytes", media_type="audio/ogg; codecs=opus"), {"audio": {"format": "ogg"}}),
        (document("application/pdf"), {"document": {"format": "pdf", "name": "document"}}),
        (document("text/markdown", "Q (a) - b/c_d[1].md"), {"document": {"format": "md", "name": "Q (a) - b c d[1]"}}),
        (document("text/plain", "notes"), {"document": {"format": "txt", "name": "notes"}}),
        (document("text/csv", "é"), {"document": {"format": "csv", "name": "document"}}),
        (document("video/mp4"), {"video": {"format": "mp4"}}),
        (document("image/gif"), {"image": {"format": "gif"}}),
    ],
)  # fmt: skip
def test_media_by_their_bytes(part: Any, block: dict[str, Any]) -> None:
    ((kind, more),) = block.items()
    assert content("What is this?", part)[1] == {kind: {**more, "source": {"bytes": B64}}}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (ImagePart(url="s3://bucket/a.png"), {"image": {"format": "png"}}),
        (ImagePart(url="s3://bucket/a", media_type="image/gif"), {"image": {"format": "gif"}}),
        (DocumentPart(url="s3://bucket/a.pdf"), {"document": {"format": "pdf", "name": "document"}}),
        (DocumentPart(url="s3://bucket/a.mp4"), {"video": {"format": "mp4"}}),
    ],
)
def test_media_in_s3(part: Any, block: dict[str, Any]) -> None:
    ((kind, more),) = block.items()
    assert content("What is this?", part)[1] == {kind: {**more, "source": {"s3Location": {"uri": part.url}}}}


@pytest.mark.parametrize(
    "part",
    [
        ImagePart(url="https://host/a.png"),
        ImagePart(url="http://169.254.169.254/a.png"),
        ImagePart(data=b"x", media_type="image/tiff"),
        ImagePart(data=b"x", media_type="application/pdf"),
        ImagePart(url="s3://bucket/a"),
        AudioPart(data=b"x", media_type="image/png"),
        AudioPart(data=b"x", media_type="audio/basic"),
        DocumentPart(data=b"x", media_type="application/zip"),
        DocumentPart(url="https://host/a.pdf"),
    ],
)
def test_media_that_it_does_not_take(part: Any) -> None:
    with pytest.raises(BadRequest, match=f"bedrock cannot take {type(part).__name__}"):
        content("What is this?", part)


def test_documents_have_names_of_their_own_and_text_beside_them() -> None:
    page = DocumentPart(data=b"bytes", media_type="application/pdf", name="page.pdf")
    blocks = content("Compare.", page, page, DocumentPart(data=b"bytes", media_type="text/plain", name="page.txt"))
    assert [block["document"]["name"] for block in blocks[1:]] == ["page", "page (2)", "page (3)"]
    with pytest.raises(BadRequest, match="a document only beside text"):
        content(page)
    old = encoded(user(page), assistant("A contract."), user("Who signed?"))[0]["messages"][0]["content"]
    assert [block.keys() for block in old] == [{"document"}, {"text"}]  # as another provider takes it alone
    long = DocumentPart(data=b"bytes", media_type="text/plain", name="x" * 500)
    assert len(content("Go", long, long)[2]["document"]["name"]) <= 200


def test_an_image_in_a_result() -> None:
    result = ToolResultPart("a", "seen", images=(ImagePart(data=b"bytes", media_type="image/png"),))
    history = (user("Look"), assistant(ToolCallPart("a", "weather")), Message("tool", (result,)))
    (block,) = encoded(*history, tools=(WEATHER,))[0]["messages"][2]["content"]
    image = {"image": {"format": "png", "source": {"bytes": B64}}}
    assert block == {"toolResult": {"toolUseId": "a", "content": [{"text": "seen"}, image]}}


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (ToolResultPart("a", ""), [{"text": ""}]),
        (ToolResultPart("a", "", is_error=True), [{"text": "The tool failed."}]),
        (ToolResultPart("a", "boom", is_error=True), [{"text": "boom"}]),
        (
            ToolResultPart("a", " ", images=(ImagePart(data=b"bytes", media_type="image/png"),)),
            [{"image": {"format": "png", "source": {"bytes": B64}}}],
        ),
    ],
)
def test_results_without_text(result: ToolResultPart, content: list[dict[str, Any]]) -> None:
    history = (user("Go"), assistant(ToolCallPart("a", "weather")), Message("tool", (result,)))
    (block,) = encoded(*history, tools=(WEATHER,))[0]["messages"][2]["content"]
    assert block["toolResult"]["content"] == content


@pytest.mark.parametrize(
    "message",
    [
        system(ImagePart(data=b"x", media_type="image/png")),
        Message("user", (ToolCallPart("a", "b"),)),
        Message("assistant", (ImagePart(data=b"x", media_type="image/png"),)),
        Message("tool", (TextPart("x"),)),
    ],
)
def test_parts_in_the_wrong_message(message: Message) -> None:
    with pytest.raises(BadRequest, match="bedrock cannot take"):
        encoded(user("Hi"), message)


# -- what goes back


def test_thoughts_go_back_with_their_signature() -> None:
    redacted = {"reasoningContent": {"redactedContent": B64}}
    thoughts = (
        ThinkingPart("Hm.", signature="Eq="),
        ThinkingPart(opaque={"bedrock": redacted, "model": CLAUDE}),
        ThinkingPart("Unsigned."),
        ThinkingPart(redacted="of-another-service"),
        ThinkingPart(opaque={"anthropic": {"type": "compaction"}}),
    )
    back = encoded(user("Hi"), assistant(*thoughts, "So."), user("Go on."), model=CLAUDE)[0]["messages"][1]["content"]
    signed = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Eq="}}}
    assert back == [signed, redacted, {"text": "So."}]
    other = encoded(user("Hi"), assistant(*thoughts, "So."), user("Go on."), model=NOVA)[0]["messages"][1]["content"]
    assert other == [signed, {"text": "So."}]


def test_the_blocks_of_its_own_tools_go_back() -> None:
    used = {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {"q": "x"}, "type": "server_tool_use"}}
    parts = (
        ServerToolPart("nova_grounding", "s1", input={"q": "x"}, provider="bedrock", raw=used),
        ServerToolPart("web_search", "s2", provider="anthropic", raw={"type": "server_tool_use"}),
        ServerToolPart("nova_grounding", "s3", provider="bedrock"),
    )
    back = encoded(user("Hi"), assistant(*parts, "So."), user("Go on."))[0]["messages"][1]["content"]
    assert back == [used, {"text": "So."}]


CITED = {"citations": [{"title": "a", "location": {"web": {"url": "https://a"}}}], "characters": 4}


@pytest.mark.parametrize(
    ("before", "blocks"),
    [
        (("Paris",), [{"text": "P"}, "aris"]),
        (("aris",), ["aris"]),
        ((" aris",), ["aris"]),
        (("Par",), [{"text": "Par"}]),
        ((), []),
    ],
)
def test_citations_go_back_with_their_text(before: tuple[str, ...], blocks: list[Any]) -> None:
    message = assistant(*before, ThinkingPart(opaque={"bedrock": CITED}), "End.")
    back = encoded(user("Hi"), message, user("Go on."))[0]["messages"][1]["content"]
    expected = [
        {"citationsContent": {"content": [{"text": block}], "citations": CITED["citations"]}}
        if isinstance(block, str) else block
        for block in blocks
    ]  # fmt: skip
    assert back == [*expected, {"text": "End."}]


def test_blocks_that_toolcast_has_no_part_for() -> None:
    """A cache point, in any message; guarded text."""
    point = ThinkingPart(opaque={"bedrock": {"cachePoint": {"type": "default", "ttl": "1h"}}})
    guarded = ThinkingPart(opaque={"bedrock": {"guardContent": {"text": {"text": "x", "qualifiers": ["query"]}}}})
    body, _ = encoded(system("Long.", point), user("Hi", guarded, point), assistant("Hm.", point), user("So?"))
    cache = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert body["system"] == [{"text": "Long."}, cache]
    assert body["messages"][0]["content"][2] == body["messages"][1]["content"][1] == cache


# -- tools

TOOLS = {"tools": (WEATHER, NOW)}
BOTH = ["weather", "now_utc"]


def chosen(model: str, choice: Any, **options: Any) -> tuple[list[str], Any, tuple[str, ...]]:
    """The names of the tools, the tool choice, and the notes."""
    body, notes = encoded(model=model, tool_choice=choice, **{**TOOLS, **options})
    config = body.get("toolConfig", {"tools": []})
    names = [tool["toolSpec"]["name"] for tool in config["tools"]]
    return [name[:7] for name in names], config.get("toolChoice"), notes


@pytest.mark.parametrize(
    ("model", "choice", "names", "sends", "notes"),
    [
        *[(model, None, BOTH, None, ()) for model in MODELS if model not in (CLAUDE, CLAUDE_3, CLAUDE_5)],
        *[(model, "auto", BOTH, {"auto": {}}, ()) for model in MODELS],
        *[(model, "none", [], None, ()) for model in MODELS],
        *[(model, "required", BOTH, {"any": {}}, ()) for model in (CLAUDE, NOVA, MISTRAL, GPT, PROFILE)],
        *[(model, NamedTool("weather"), BOTH, {"tool": {"name": "weather"}}, ()) for model in (CLAUDE, CLAUDE_3, NOVA)],
        *[(model, NamedTool("weather"), ["weather"], {"any": {}}, ()) for model in (MISTRAL, GPT, PROFILE)],
        (LLAMA, NamedTool("weather"), ["weather"], None, ("tool_choice",)),
        (LLAMA, "required", BOTH, None, ("tool_choice",)),
        (CLAUDE_5, NamedTool("weather"), ["weather"], {"auto": {}}, ("tool_choice",)),
        *[(model, {"any": {}}, BOTH, {"any": {}}, ()) for model in MODELS if model != CLAUDE_5],
        *[(model, {"tool": {"name": "weather"}}, BOTH, {"tool": {"name": "weather"}}, ()) for model in (CLAUDE, GPT)],
    ],
)  # fmt: skip
def test_tool_choices(model: str, choice: Any, names: list[str], sends: Any, notes: tuple[str, ...]) -> None:
    found = chosen(model, choice, parallel=True)
    assert found == ([name[:7] for name in names], sends, notes)


def test_claude_is_left_the_choice_by_default() -> None:
    assert chosen(CLAUDE, None, parallel=True) == (["weather", "now_utc"], None, ())


def test_a_tool_without_a_description_has_none() -> None:
    body, _ = encoded(tools=(NOW,))
    (tool,) = body["toolConfig"]["tools"]
    assert tool["toolSpec"].keys() == {"name", "inputSchema"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("choice", ["required", NamedTool("other"), {"any": {}}, {"tool": {"name": "x"}}])
def test_a_choice_without_the_tool(model: str, choice: Any) -> None:
    with pytest.raises(BadRequest, match=r"needs tools|not among the tools"):
        encoded(model=model, tool_choice=choice)


@pytest.mark.parametrize("model", MODELS)
def test_calls_in_the_history_need_a_tool_configuration(model: str) -> None:
    call = ToolCallPart("a", "weather", "{}")
    history = (user("Go"), assistant(call), tool_result(call, "4C"))
    (tool,) = encoded(*history, model=model)[0]["toolConfig"]["tools"]
    assert tool["toolSpec"] == {"name": "weather", "inputSchema": {"json": {"type": "object"}}}
    config = encoded(*history, model=model, tool_choice="none", tools=(WEATHER,))[0]["toolConfig"]
    assert [tool["toolSpec"]["description"] for tool in config["tools"]] == [WEATHER.description]


def test_tools_and_cache_points_in_extra_are_added() -> None:
    point = {"cachePoint": {"type": "default"}}
    body, _ = encoded(**TOOLS, settings=Settings(extra={"toolConfig": {"tools": [point]}}))
    assert [next(iter(tool)) for tool in body["toolConfig"]["tools"]] == ["toolSpec", "toolSpec", "cachePoint"]
    grounding = {"systemTool": {"name": "nova_grounding"}}
    body, _ = encoded(model=NOVA_2, settings=Settings(extra={"toolConfig": {"tools": [grounding]}}))
    assert body["toolConfig"] == {"tools": [grounding]}
    wrong = adapter().request(RequestInput(NOVA, (user("Hi"),)), Settings(extra={"toolConfig": 7}))
    assert json.loads(wrong.body)["toolConfig"] == 7  # the service's to refuse
    with pytest.raises(BadRequest, match=r"extra\['toolConfig'\]\['toolChoice'\]"):
        encoded(**TOOLS, tool_choice="required", settings=Settings(extra={"toolConfig": {"toolChoice": {"auto": {}}}}))
    with pytest.raises(BadRequest, match="another tool named 'weather'"):
        same = {"toolSpec": {"name": "weather"}}
        encoded(**TOOLS, settings=Settings(extra={"toolConfig": {"tools": [same]}}))
    with pytest.raises(BadRequest, match="another tool named 'nova_grounding'"):
        twice = Settings(extra={"toolConfig": {"tools": [{**grounding, "x": 1}]}})
        adapter().request(RequestInput(NOVA_2, (user("Hi"),), server_tools=(WebSearch(),)), twice)


def test_the_tools_of_nova() -> None:
    """Amazon Nova 2 user guide: `systemTool` beside one's own tools."""
    grounding, code = {"systemTool": {"name": "nova_grounding"}}, {"systemTool": {"name": "nova_code_interpreter"}}
    body, _ = encoded(model=NOVA_2, server_tools=(WebSearch(), CodeExecution()))
    assert body["toolConfig"] == {"tools": [grounding, code]}
    body, _ = encoded(model=NOVA_2, tools=(WEATHER,), tool_choice="required", server_tools=(WebSearch(),))
    assert [next(iter(tool)) for tool in body["toolConfig"]["tools"]] == ["toolSpec", "systemTool"]
    assert body["toolConfig"]["toolChoice"] == {"any": {}}
    for model in (CLAUDE, LLAMA, PROFILE):
        with pytest.raises(BadRequest, match=r"bedrock does not run WebSearch. Models of Amazon Nova have it"):
            encoded(model=model, server_tools=(WebSearch(),))
    with pytest.raises(BadRequest, match="does not run URLContext"):
        encoded(model=NOVA_2, server_tools=(URLContext(),))
    with pytest.raises(BadRequest, match="bedrock has no country= for WebSearch"):
        encoded(model=NOVA_2, server_tools=(WebSearch(country="GB"),))


# -- text held to a schema


@pytest.mark.parametrize("model", [CLAUDE, CLAUDE_5, GPT, PROFILE])
def test_text_constrained_to_a_schema(model: str) -> None:
    """User guide, "Get validated JSON results from models": the schema is text."""
    body, _ = encoded(model=model, tools=(WEATHER,), tool_choice="required", mode="json_schema")
    (format,) = [body["outputConfig"]["textFormat"]]
    assert (format["type"], format["structure"]["jsonSchema"]["name"]) == ("json_schema", "weather")
    schema = json.loads(format["structure"]["jsonSchema"]["schema"])
    assert schema["additionalProperties"] is False and schema["required"] == ["city"]
    assert "toolConfig" not in body
    assert "Answer with JSON that follows this JSON Schema" in body["system"][0]["text"]
    both, _ = encoded(model=model, **TOOLS, tool_choice="required", mode="json_schema")
    assert both["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["name"] == "calls"
    with pytest.raises(BadRequest, match=r"extra\['outputConfig'\]\['textFormat'\]"):
        extra = Settings(extra={"outputConfig": {"textFormat": {"type": "text"}}})
        encoded(model=model, tools=(WEATHER,), tool_choice="required", mode="json_schema", settings=extra)


@pytest.mark.parametrize("model", [CLAUDE_3, "anthropic.claude-opus-4-1-20250805-v1:0", NOVA])
def test_a_model_without_such_output(model: str) -> None:
    with pytest.raises(BadRequest, match=r"has no such output. Use mode='tool_call' or 'prompted'"):
        encoded(model=model, tools=(WEATHER,), tool_choice="required", mode="json_schema")


def test_which_schemas_it_can_hold() -> None:
    maps = ToolSpec("maps", "", {"type": "object", "additionalProperties": {"type": "string"}})
    for tool, holds in ((WEATHER, True), (maps, False)):
        asked = RequestInput(CLAUDE, (user("Hi"),), (tool,), "required", mode="json_schema")
        assert adapter().can_hold(asked) is holds
    assert adapter().can_hold(RequestInput(CLAUDE, (user("Hi"),), (WEATHER,), "auto"))
    with pytest.raises(BadRequest, match="the response cannot be constrained to a JSON schema"):
        encoded(model=CLAUDE, tools=(maps,), tool_choice="required", mode="json_schema")


# -- settings


@pytest.mark.parametrize(
    ("model", "settings", "fields", "notes"),
    [
        (CLAUDE, {}, {"inferenceConfig": {"maxTokens": 16_384}}, ()),
        (CLAUDE, {"max_tokens": 9}, {"inferenceConfig": {"maxTokens": 9}}, ()),
        (
            CLAUDE,
            {"thinking": 2000},
            {
                "inferenceConfig": {"maxTokens": 18_384},
                "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            },
            (),
        ),
        (
            CLAUDE,
            {"thinking": False, "top_k": 5, "seed": 1},
            {
                "inferenceConfig": {"maxTokens": 16_384},
                "additionalModelRequestFields": {"thinking": {"type": "disabled"}, "top_k": 5},
            },
            ("seed",),
        ),
        (
            CLAUDE_5,
            {"thinking": "high", "temperature": 0.2},
            {
                "inferenceConfig": {"maxTokens": 32_000},
                "outputConfig": {"effort": "high"},
                "additionalModelRequestFields": {"thinking": {"type": "adaptive", "display": "summarized"}},
            },
            ("temperature",),
        ),
        ("anthropic.claude-new-99", {"max_tokens": None}, {}, ()),
        (
            NOVA,
            {"top_k": 20, "temperature": 0.1, "thinking": "low", "seed": 3},
            {
                "inferenceConfig": {"temperature": 0.1},
                "additionalModelRequestFields": {"inferenceConfig": {"topK": 20}},
            },
            ("thinking", "seed"),
        ),
        (
            NOVA_2,
            {"thinking": "medium", "max_tokens": 10_000, "temperature": 0.7},
            {
                "inferenceConfig": {"maxTokens": 10_000, "temperature": 0.7},
                "additionalModelRequestFields": {
                    "reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}
                },
            },
            (),
        ),
        (
            NOVA_2,
            {"thinking": "xhigh", "max_tokens": 10_000, "temperature": 0.7, "top_p": 0.5, "stop": "x"},
            {
                "inferenceConfig": {"stopSequences": ["x"]},
                "additionalModelRequestFields": {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}},
            },
            ("max_tokens", "temperature", "top_p"),
        ),
        (NOVA_2, {"thinking": False}, {}, ()),
        (GPT, {"thinking": "minimal"}, {"additionalModelRequestFields": {"reasoning_effort": "low"}}, ()),
        (GPT, {"thinking": True}, {"additionalModelRequestFields": {"reasoning_effort": "medium"}}, ()),
        (
            LLAMA,
            {"thinking": True, "top_k": 3, "stop": ("", "x")},
            {"inferenceConfig": {"stopSequences": ["x"]}},
            ("thinking", "top_k"),
        ),
        *[
            (model, {"service_tier": "flex", "logprobs": True, "num_ctx": 5}, {"serviceTier": {"type": "flex"}}, notes)
            for model, notes in ((NOVA, ("logprobs", "num_ctx")), ("anthropic.claude-new-99", ("logprobs", "num_ctx")))
        ],
        (PROFILE, {"max_tokens": 5}, {"inferenceConfig": {"maxTokens": 5}}, ()),
    ],
)  # fmt: skip
def test_settings(model: str, settings: dict[str, Any], fields: dict[str, Any], notes: tuple[str, ...]) -> None:
    body, noted = encoded(model=model, settings=Settings(**settings))
    del body["messages"]
    assert (body, noted) == (fields, notes)


def test_extra_fields_are_merged_at_every_depth() -> None:
    extra = {
        "additionalModelRequestFields": {"anthropic_beta": ["x"], "thinking": {"display": "summarized"}},
        "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "1"},
        "performanceConfig": {"latency": "optimized"},
        "serviceTier": {"type": "flex"},
        "additionalModelResponseFieldPaths": ["/stop_sequence"],
    }
    body, _ = encoded(model=CLAUDE, settings=Settings(thinking=2000, extra=extra), stream=True)
    assert body["additionalModelRequestFields"] == {
        "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "summarized"},
        "anthropic_beta": ["x"],
    }
    assert {name: body[name] for name in list(extra)[1:]} == dict(list(extra.items())[1:])


def test_a_required_call_excludes_a_thinking_budget_of_claude() -> None:
    body, notes = encoded(model=CLAUDE, tools=(WEATHER,), tool_choice="required", settings=Settings(thinking=True))
    assert notes == ("thinking",)
    assert "additionalModelRequestFields" not in body
