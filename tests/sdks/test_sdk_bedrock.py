"""toolcast beside boto3 on Amazon Bedrock: the same call is the same request, with the same credentials."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest

import toolcast
from sdks.official import SDKS
from support.bedrock_oracle import from_json, operation
from support.loopback import Loopback, Request, whole
from support.turns import PROTOCOLS, Turn
from toolcast import Bedrock, CodeExecution, Settings, WebSearch, assistant, system, tool_result, user
from toolcast.llms.credentials import aws_credentials
from toolcast.messages import AudioPart, DocumentPart, ImagePart, ThinkingPart
from toolcast.values.credentials import Secret

pytestmark = pytest.mark.networked

CLAUDE, NOVA = "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-2-lite-v1:0"
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
POINT = ThinkingPart(opaque={"bedrock": {"cachePoint": {"type": "default"}}})
THOUGHT = ThinkingPart("Hm é.", signature="Eq=")
HIDDEN = ThinkingPart(
    opaque={"bedrock": {"reasoningContent": {"redactedContent": base64.b64encode(b"\x00x").decode()}}}
)
CALL = toolcast.ToolCallPart("tooluse_1", "weather", '{"city": "Oslo", "days": [1, 2.5, null]}')
MEDIA = (
    ImagePart(data=b"\x89PNG", media_type="image/png"),
    ImagePart(url="s3://bucket/key.jpeg"),
    AudioPart(data=b"RIFF", media_type="audio/wav"),
    DocumentPart(data=b"%PDF", media_type="application/pdf", name="report.pdf"),
    DocumentPart(data=b"....", media_type="video/mp4"),
)


def weather(city: str, days: list[float] | None = None) -> str:
    """The weather in a city."""
    return f"{city} {days}"


CALLS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "text": (CLAUDE, [user("Hi é 🎶 \u2028")], {}),
    "an ARN": (ARN, [user("Hi")], {}),
    "media": (NOVA, [user("What is this?", *MEDIA)], {}),
    "a conversation": (
        CLAUDE,
        [
            system("Be kind.", POINT),
            user("Go"),
            assistant(THOUGHT, HIDDEN, "So.", CALL),
            tool_result(CALL, "4C", is_error=True),
        ],
        {"tools": [weather], "tool_choice": "weather"},
    ),
    "settings": (
        CLAUDE,
        [user("Hi")],
        {
            "settings": Settings(
                temperature=0.25,
                max_tokens=20_000,
                stop=("a", "b"),
                top_k=4,
                extra={
                    "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "DRAFT", "trace": "enabled"},
                    "additionalModelResponseFieldPaths": ["/stop_sequence"],
                    "requestMetadata": {"team": "x"},
                    "performanceConfig": {"latency": "optimized"},
                    "serviceTier": {"type": "flex"},
                },
            )
        },
    ),
    "thinking": (CLAUDE, [user("Hi")], {"settings": Settings(thinking=4000)}),
    "effort": ("global.anthropic.claude-opus-5-5", [user("Hi")], {"settings": Settings(thinking="high")}),
    "tools of Nova": (NOVA, [user("Hi")], {"tools": [weather, WebSearch(), CodeExecution()]}),
}


def sent(server: Loopback) -> Request:
    return server.requests.pop()


@pytest.mark.gate("G15")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", CALLS)
def test_the_same_call_is_the_same_request(name: str, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 gets the parameters that toolcast's body spells; what both send differs in no byte that counts."""
    model, messages, options = CALLS[name]
    now = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "any")
    monkeypatch.setattr(aws_credentials, "datetime", mock.Mock(now=lambda zone: now))
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    wire = PROTOCOLS["bedrock"]
    body = b"".join(wire.stream(Turn(text="Hi"))) if stream else wire.whole(Turn(text="Hi"))
    kind = "application/vnd.amazon.eventstream" if stream else "application/json"
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(body, 200, f"content-type: {kind}"))
        with Bedrock(model, base_url=url, region="us-east-1") as llm:
            if stream:
                assert [*llm.stream_chat(messages, **options)]
            else:
                assert llm.chat(messages, **options).text == "Hi"
        mine = sent(server)
        called = operation("ConverseStream" if stream else "Converse")
        params = {"modelId": model, **from_json(json.loads(mine.body), called.input_shape)}
        client = SDKS["bedrock"].client(url)  # type: ignore[attr-defined]  # boto3's has one
        if stream:
            assert list(client.converse_stream(**params)["stream"])
        else:
            assert client.converse(**params)["output"]["message"]["content"] == [{"text": "Hi"}]
        client.close()
        theirs = sent(server)
    assert mine.line == theirs.line
    assert json.loads(mine.body) == json.loads(theirs.body)
    assert mine.headers["content-type"] == theirs.headers["content-type"] == "application/json"
    assert mine.headers["x-amz-date"] == theirs.headers["x-amz-date"]
    scope = "Credential=any/20261123/us-east-1/bedrock/aws4_request"
    assert scope in mine.headers["authorization"] and scope in theirs.headers["authorization"]


@pytest.mark.gate("G15")
@pytest.mark.parametrize("model", [CLAUDE, ARN])
def test_the_same_key_is_the_same_header(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the address of the region: boto3 sends a key over TLS alone."""
    import boto3

    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-abc")
    seen: list[Any] = []

    def keep(request: Any, **unused: Any) -> None:
        seen.append(request)
        raise InterruptedError

    client = boto3.client("bedrock-runtime", region_name="eu-west-1")
    client.meta.events.register("before-send.bedrock-runtime.Converse", keep)
    with pytest.raises(InterruptedError):
        client.converse(modelId=model, messages=[{"role": "user", "content": [{"text": "Hi"}]}])
    client.close()
    llm = Bedrock(model, region="eu-west-1")
    mine = llm.preview("Hi")
    assert mine is not None and mine.url == seen[0].url
    assert mine.headers["authorization"] == Secret("Bearer bedrock-api-key-abc")
    assert seen[0].headers["Authorization"] == b"Bearer bedrock-api-key-abc"


@pytest.mark.gate("G10", "G15")
def test_boto3_accepts_half_an_answer() -> None:
    """A stream that ends early is an answer without its stop reason there; toolcast raises `StreamTruncated`."""
    events = PROTOCOLS["bedrock"].stream(Turn(text="Four degrees."))[:3]
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(b"".join(events), 200, "content-type: application/vnd.amazon.eventstream"))
        theirs = SDKS["bedrock"].ask(url, stream=True)
        with (
            Bedrock(CLAUDE, base_url=url, api_key="any", max_retries=0) as llm,
            pytest.raises(toolcast.errors.StreamTruncated),
        ):
            list(llm.stream_chat("Hi"))
    assert (theirs.text, theirs.stop_reason) == ("Four degre", "")
