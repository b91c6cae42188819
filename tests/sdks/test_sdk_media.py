"""Images and recordings that are asked for, through the official clients and through toolcast: the same requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

import toolcast
from sdks.decoded import camel_case
from sdks.ours import SYNC
from support.loopback import Loopback, whole
from toolcast import ImageGeneration, LLMError, Settings

pytestmark = pytest.mark.networked

CHAT: Any = [{"role": "user", "content": "Hi"}]
IMAGES: Any = {
    "type": "image_generation",
    "model": "gpt-image-2",
    "size": "1024x1536",
    "quality": "high",
    "background": "transparent",
    "output_format": "webp",
    "output_compression": 80,
    "partial_images": 2,
    "action": "edit",
    "moderation": "low",
    "input_fidelity": "high",
}


def images(url: str, tools: Any = (IMAGES,), stream: bool = False) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        include: Any = ["reasoning.encrypted_content"]  # as toolcast always has it, to send thoughts back
        client.responses.create(
            model="gpt-5.4", input=CHAT, store=False, tools=list(tools), include=include, stream=stream
        )


def audio(format: str, stream: bool) -> Callable[[str], None]:
    def ask(url: str) -> None:
        from openai import OpenAI

        more: Any = {"stream_options": {"include_usage": True}} if stream else {}
        voice: Any = {"voice": "ash", "format": format}
        with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            client.chat.completions.create(
                model="gpt-audio", messages=CHAT, modalities=["text", "audio"], audio=voice, stream=stream, **more
            )

    return ask


def google(model: str, config: Callable[[Any], Any]) -> Callable[[str], None]:
    def ask(url: str) -> None:
        from google import genai
        from google.genai import types

        with genai.Client(api_key="any", http_options={"base_url": url, "api_version": "v1beta"}) as client:
            client.models.generate_content(model=model, contents="Hi", config=config(types))

    return ask


def picture(types: Any) -> Any:
    image = types.ImageConfig(aspect_ratio="16:9", image_size="2K")
    return types.GenerateContentConfig(response_modalities=["TEXT", "IMAGE"], image_config=image)


def speech(types: Any) -> Any:
    voice = types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name="Kore"))
    return types.GenerateContentConfig(
        response_modalities=["AUDIO"], speech_config=types.SpeechConfig(voice_config=voice)
    )


GENERATION = ImageGeneration(
    model="gpt-image-2",
    size="1024x1536",
    quality="high",
    background="transparent",
    output_format="webp",
    compression=80,
    partial_images=2,
    action="edit",
    moderation="low",
    input_fidelity="high",
)
SPOKEN = Settings(modalities=("text", "audio"), voice="ash")
CASES: dict[str, tuple[Callable[[str], None], str, Mapping[str, Any]]] = {
    "images": (images, "openai-responses:gpt-5.4", {"tools": [GENERATION]}),
    "images, nothing chosen": (
        lambda url: images(url, [{"type": "image_generation"}]),
        "openai-responses:gpt-5.4",
        {"tools": [ImageGeneration()]},
    ),
    "audio": (audio("wav", stream=False), "openai:gpt-audio", {"settings": SPOKEN}),
    "audio in a format": (
        audio("mp3", stream=False),
        "openai:gpt-audio",
        {"settings": SPOKEN.with_(audio_format="mp3")},
    ),
    "google's images": (
        google("gemini-3-pro-image-preview", picture),
        "google:gemini-3-pro-image-preview",
        {"settings": Settings(modalities=("text", "image"), aspect_ratio="16:9", image_size="2K")},
    ),
    "google's speech": (
        google("gemini-2.5-flash-preview-tts", speech),
        "google:gemini-2.5-flash-preview-tts",
        {"settings": Settings(modalities="audio", voice="Kore")},
    ),
}
STREAMS: dict[str, tuple[Callable[[str], None], str, Mapping[str, Any]]] = {
    "images": (lambda url: images(url, stream=True), "openai-responses:gpt-5.4", {"tools": [GENERATION]}),
    "audio": (audio("pcm16", stream=True), "openai:gpt-audio", {"settings": SPOKEN}),
}


def llm(url: str, name: str) -> toolcast.FunctionCallingLLM:
    base = url if name.startswith("google") else f"{url}/v1"
    return toolcast.llm(name, base_url=base, api_key="any", max_retries=0)


def bodies(official: Callable[[str], None], ours: Callable[[str], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that have a value of both requests: a client may send others as null."""
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(b'{"error": {"message": "enough"}}', 400, "content-type: application/json"))
        with suppress(Exception):  # each client has an error class of its own
            official(url)
        with pytest.raises(LLMError):
            ours(url)
        first, second = (json.loads(request.body) for request in server.requests)
    theirs, mine = ({name: value for name, value in body.items() if value} for body in (first, second))
    return (camel_case(theirs) if "contents" in theirs else theirs), mine


@pytest.mark.parametrize("name", CASES)
def test_the_requests_for_media(name: str) -> None:
    official, model, asked = CASES[name]
    theirs, ours = bodies(official, lambda url: llm(url, model).chat("Hi", **asked))
    assert ours == theirs


@pytest.mark.parametrize("name", STREAMS)
def test_the_requests_for_media_in_a_stream(name: str) -> None:
    official, model, asked = STREAMS[name]
    theirs, ours = bodies(official, lambda url: SYNC.events(llm(url, model), "Hi", **asked))
    assert ours == theirs
