"""References to uploaded files, and videos, in the requests of each protocol, as the vendors' references have them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcast import (
    Anthropic,
    Bedrock,
    Cohere,
    Google,
    Message,
    Mistral,
    Ollama,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    Settings,
    assistant,
    system,
    user,
)
from toolcast.errors import BadRequest
from toolcast.messages import FileRef, ToolResultPart, VideoPart
from toolcast.providers.base import RequestInput

PDF, PNG, WAV, MP4, CSV = "application/pdf", "image/png", "audio/wav", "video/mp4", "text/csv"
URI = "https://generativelanguage.googleapis.com/v1beta/files/abc-123"
SIGNED = "https://files.example/1?sig=x"


def parts_of(llm: Any, *parts: Any) -> list[Any]:
    """Return the parts of the only user message of a request."""
    body = json.loads(llm.adapter.request(RequestInput(llm.model, (user(*parts),)), Settings()).body)
    turns = body.get("messages") or body.get("input") or body.get("contents")
    found: list[Any] = turns[-1].get("content") or turns[-1]["parts"]
    return found


def openai() -> OpenAI:
    return OpenAI("gpt-5.4", api="chat", api_key="k")


def responses() -> OpenAIResponses:
    return OpenAIResponses("gpt-5.4", api_key="k")


def anthropic() -> Anthropic:
    return Anthropic("claude-sonnet-4-6", api_key="k")


def google() -> Google:
    return Google("gemini-3-flash-preview", api_key="k")


def mistral() -> Mistral:
    return Mistral("mistral-large-latest", api_key="k")


@pytest.mark.parametrize(
    ("llm", "ref", "sent"),
    [
        # developers.openai.com/api/docs/guides/pdf-files
        (openai(), FileRef("openai", "file-1", media_type=PDF), {"type": "file", "file": {"file_id": "file-1"}}),
        (openai(), FileRef("openai", "file-1"), {"type": "file", "file": {"file_id": "file-1"}}),
        (responses(), FileRef("openai", "file-1", media_type=PDF), {"type": "input_file", "file_id": "file-1"}),
        (
            responses(),
            FileRef("openai", "file-1", media_type=PNG),
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        ),
        (
            OpenAIResponses("grok-4.5", service="xai", api_key="k"),
            FileRef("xai", "file-1", media_type=PDF),
            {"type": "input_file", "file_id": "file-1"},
        ),
        # platform.claude.com/docs/en/build-with-claude/files
        (
            anthropic(),
            FileRef("anthropic", "file_1", media_type=PDF, name="a.pdf"),
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}, "title": "a.pdf"},
        ),
        (
            anthropic(),
            FileRef("anthropic", "file_1"),
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        ),
        (
            anthropic(),
            FileRef("anthropic", "file_1", media_type=PNG, name="a.png"),
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        ),
        (
            anthropic(),
            FileRef("anthropic", "file_1", media_type=CSV, name="a.csv"),
            {"type": "container_upload", "file_id": "file_1"},
        ),
        # ai.google.dev/gemini-api/docs/files
        (
            google(),
            FileRef("google", "files/abc-123", URI, MP4),
            {"fileData": {"mimeType": MP4, "fileUri": URI}},
        ),
        # docs.mistral.ai/capabilities/document_ai/document_qna, and .../audio
        (
            mistral(),
            FileRef("mistral", "1", SIGNED, PDF, "a.pdf"),
            {"type": "document_url", "document_url": SIGNED, "document_name": "a.pdf"},
        ),
        (mistral(), FileRef("mistral", "1", SIGNED), {"type": "document_url", "document_url": SIGNED}),
        (mistral(), FileRef("mistral", "1", SIGNED, WAV), {"type": "input_audio", "input_audio": SIGNED}),
        (mistral(), FileRef("mistral", "1", SIGNED, PNG), {"type": "image_url", "image_url": {"url": SIGNED}}),
        (mistral(), FileRef("mistral", "1", media_type=PDF), {"type": "file", "file_id": "1"}),
    ],
)
def test_a_reference(llm: Any, ref: FileRef, sent: dict[str, Any]) -> None:
    assert parts_of(llm, "Read.", ref)[1] == sent


@pytest.mark.parametrize(
    ("llm", "ref", "why"),
    [
        (openai(), FileRef("openai", "file-1", media_type=PNG), "cannot take FileRef"),
        (openai(), FileRef("openai", "file-1", media_type=WAV), "cannot take FileRef"),
        (responses(), FileRef("openai", "file-1", media_type=WAV), "cannot take FileRef"),
        (responses(), FileRef("openai", "file-1", media_type=MP4), "cannot take FileRef"),
        (google(), FileRef("google", "files/1", media_type=MP4), "needs the uri of the file 'files/1'"),
        (google(), FileRef("google", "files/1", URI), "needs the media_type of the file 'files/1'"),
        (mistral(), FileRef("mistral", "1", SIGNED, MP4), "cannot take FileRef"),
        (mistral(), FileRef("mistral", "1", media_type=WAV), "'1' has no uri, by which mistral takes audio"),
        (mistral(), FileRef("google", "1"), "is stored by google, and mistral has no access to it"),
        (Cohere("m", api_key="k"), FileRef("cohere", "1"), "takes no uploaded files"),
        (Ollama("m", base_url="http://host"), FileRef("ollama", "1"), "takes no uploaded files"),
        (Bedrock("m", base_url="http://host", api_key="k"), FileRef("bedrock", "1"), "takes no uploaded files"),
        (
            Google("gemini-3-flash-preview", project="p", location="l"),
            FileRef("google", "files/1", URI, MP4),
            "takes no uploaded files",
        ),
    ],
)
def test_a_reference_that_is_refused_before_sending(llm: Any, ref: FileRef, why: str) -> None:
    with pytest.raises(BadRequest, match=why) as caught:
        parts_of(llm, "Read.", ref)
    assert caught.value.provider == llm.adapter.provider


@pytest.mark.parametrize("llm", [openai(), responses(), anthropic(), google(), mistral()])
def test_a_reference_is_a_part_of_user_messages(llm: Any) -> None:
    ref = FileRef(llm.adapter.provider, "file-1", URI, PDF)
    for message in (system(ref), assistant("x", ref), Message("tool", (ToolResultPart("1", "x", "t"), ref))):
        with pytest.raises(BadRequest):
            llm.adapter.request(RequestInput(llm.model, (user("x"), message)), Settings())


def test_the_history_beside_a_reference_is_kept() -> None:
    ref = FileRef("openai", "file-1", media_type=PDF)
    messages = (user("Read.", ref), assistant("Done."), user("And?"))
    body = json.loads(openai().adapter.request(RequestInput("gpt-5.4", messages), Settings()).body)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


# -- videos


YOUTUBE = "https://www.youtube.com/watch?v=9hE5-98ZeCg"


@pytest.mark.parametrize(
    ("llm", "part", "sent"),
    [
        # ai.google.dev/gemini-api/docs/video-understanding
        (google(), VideoPart(data=b"abc", media_type=MP4), {"inlineData": {"mimeType": MP4, "data": "YWJj"}}),
        (google(), VideoPart(url=YOUTUBE), {"fileData": {"fileUri": YOUTUBE}}),
        (google(), VideoPart(url="https://youtu.be/1"), {"fileData": {"fileUri": "https://youtu.be/1"}}),
        (google(), VideoPart(url="gs://b/a.mp4"), {"fileData": {"mimeType": MP4, "fileUri": "gs://b/a.mp4"}}),
        (
            google(),
            VideoPart(url=YOUTUBE, start=1250, end=1570.5, fps=5),
            {
                "fileData": {"fileUri": YOUTUBE},
                "videoMetadata": {"startOffset": "1250s", "endOffset": "1570.5s", "fps": 5},
            },
        ),
        # docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_VideoBlock.html
        (
            Bedrock("amazon.nova-pro-v1:0", base_url="http://host", api_key="k"),
            VideoPart(data=b"abc", media_type=MP4),
            {"video": {"format": "mp4", "source": {"bytes": "YWJj"}}},
        ),
        # openrouter.ai/docs/features/multimodal/videos
        (
            OpenAICompatible("google/gemini-3-flash", service="openrouter", api_key="k"),
            VideoPart(data=b"abc", media_type=MP4),
            {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,YWJj"}},
        ),
        (
            OpenAICompatible("google/gemini-3-flash", service="openrouter", api_key="k"),
            VideoPart(url=YOUTUBE),
            {"type": "video_url", "video_url": {"url": YOUTUBE}},
        ),
        (
            OpenAICompatible("kimi-k2.6", service="moonshot", api_key="k"),
            VideoPart(url="data:video/mp4;base64,YWJj"),
            {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,YWJj"}},
        ),
        (
            OpenAICompatible("qwen3-vl-plus", service="qwen", api_key="k"),
            VideoPart(url="https://host/a.mp4", fps=2),
            {"type": "video_url", "video_url": {"url": "https://host/a.mp4"}, "fps": 2},
        ),
    ],
)
def test_a_video(llm: Any, part: VideoPart, sent: dict[str, Any]) -> None:
    assert parts_of(llm, "What happens?", part)[1] == sent


@pytest.mark.parametrize(
    ("llm", "part", "why"),
    [
        (openai(), VideoPart(data=b"abc", media_type=MP4), "cannot take VideoPart"),
        (responses(), VideoPart(url=YOUTUBE), "cannot take VideoPart"),
        (anthropic(), VideoPart(url=YOUTUBE), "cannot take VideoPart"),
        (mistral(), VideoPart(url=YOUTUBE), "cannot take VideoPart"),
        (Cohere("m", api_key="k"), VideoPart(url=YOUTUBE), "cannot take VideoPart"),
        (Ollama("m", base_url="http://host"), VideoPart(url=YOUTUBE), "VideoPart"),
        (google(), VideoPart(url="https://host/video"), "needs the media type"),
        (
            OpenAICompatible("kimi-k2.6", service="moonshot", api_key="k"),
            VideoPart(url="https://host/a.mp4"),
            "cannot take VideoPart",
        ),
        (
            OpenAICompatible("m", service="openrouter", api_key="k"),
            VideoPart(url=YOUTUBE, start=1),
            "openrouter has no option start of VideoPart",
        ),
        (
            OpenAICompatible("m", service="qwen", api_key="k"),
            VideoPart(url=YOUTUBE, fps=1, end=2),
            "qwen has no option end of VideoPart",
        ),
        (
            Bedrock("m", base_url="http://host", api_key="k"),
            VideoPart(data=b"abc", media_type=MP4, fps=1),
            "bedrock has no option fps of VideoPart",
        ),
        (
            Bedrock("m", base_url="http://host", api_key="k"),
            VideoPart(data=b"abc", media_type=PNG),
            "cannot take VideoPart",
        ),
    ],
)
def test_a_video_that_is_refused_before_sending(llm: Any, part: VideoPart, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        parts_of(llm, "What happens?", part)
