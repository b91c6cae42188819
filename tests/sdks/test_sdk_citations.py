"""Documents to be cited, and citations that go back, through the official clients and through toolcast."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import toolcast
from support.loopback import Loopback, whole
from toolcast import LLMError, Message, Settings, user
from toolcast.events import Citation
from toolcast.messages import DocumentPart, TextPart

pytestmark = pytest.mark.networked

MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
# platform.claude.com/docs/en/build-with-claude/citations
PAGE: Any = {
    "type": "page_location",
    "cited_text": "Water is essential for life.",
    "document_index": 0,
    "document_title": "My Document",
    "start_page_number": 5,
    "end_page_number": 6,
}
# Citation in the service model of botocore
PLACE: Any = {
    "title": "My Document",
    "sourceContent": [{"text": "Water is essential for life."}],
    "location": {"documentPage": {"documentIndex": 0, "start": 5, "end": 6}},
}


def anthropic(url: str) -> None:
    from anthropic import Anthropic

    document: Any = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        "title": "My Document",
        "citations": {"enabled": True},
    }
    with Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        client.messages.create(
            model="claude-sonnet-5",
            max_tokens=9,
            messages=[
                {"role": "user", "content": [document, {"type": "text", "text": "What is essential?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "It says that "},
                        {"type": "text", "text": "water is essential", "citations": [PAGE]},
                        {"type": "text", "text": "."},
                    ],
                },
                {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
            ],
        )


def bedrock(url: str) -> None:
    session = __import__("boto3").Session("AKIAIOSFODNN7EXAMPLE", "secret", region_name="us-east-1")
    document = {
        "format": "pdf",
        "name": "My Document",
        "source": {"bytes": b"%PDF"},
        "citations": {"enabled": True},
    }
    session.client("bedrock-runtime", endpoint_url=url).converse(
        modelId=MODEL,
        inferenceConfig={"maxTokens": 9},
        messages=[
            {"role": "user", "content": [{"document": document}, {"text": "What is essential?"}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "It says that "},
                    {"citationsContent": {"content": [{"text": "water is essential"}], "citations": [PLACE]}},
                    {"text": "."},
                ],
            },
            {"role": "user", "content": [{"text": "Why?"}]},
        ],
    )


CASES: list[tuple[str, Callable[[str], None], Callable[[str], Any], Any]] = [
    (
        "anthropic",
        anthropic,
        lambda url: toolcast.Anthropic("claude-sonnet-5", base_url=url, api_key="any"),
        PAGE,
    ),
    ("bedrock", bedrock, lambda url: toolcast.Bedrock(MODEL, base_url=url, api_key="any"), PLACE),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_documents_and_citations(case: Any) -> None:
    provider, official, llm, raw = case
    cited = Citation("page_location", 13, 31, provider=provider, raw=raw)
    document = DocumentPart(data=b"%PDF", media_type="application/pdf", name="My Document", citations=True)
    conversation = [
        user(document, "What is essential?"),
        Message("assistant", (TextPart("It says that water is essential.", (cited,)),)),
        user("Why?"),
    ]
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(b'{"error": {"message": "enough"}}', 402, "content-type: application/json"))
        with suppress(Exception):  # each client has an error class of its own
            official(url)
        with pytest.raises(LLMError):
            llm(url).chat(conversation, settings=Settings(max_tokens=9))
        theirs, ours = (json.loads(request.body) for request in server.requests)
    assert {name: each for name, each in ours.items() if each} == {name: each for name, each in theirs.items() if each}
