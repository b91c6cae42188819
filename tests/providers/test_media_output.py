"""Images and recordings of models in each protocol: whole and streamed alike, at every cut, and sent back."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from support.turns import sse
from toolcast import ImageGeneration, Message, Settings, user
from toolcast.errors import BadRequest, LimitExceeded, MalformedEvent, StreamTruncated
from toolcast.events import AudioOutput, ChatResponse, Event, ImageOutput
from toolcast.messages import AudioPart, ImagePart, ServerToolPart, TextPart
from toolcast.providers import media_output
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import OPENAI, OPENROUTER, XAI
from toolcast.providers.content_parts import media_line
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.providers.media_output import PCM, MediaBytes, image_of_url, media_type_of
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.providers.sse import LIMIT
from toolcast.values.accumulator import Accumulator
from toolcast.values.credentials import Secret

KEY = Secret("sk-0123456789")
CHAT = OpenAIChatAdapter(OPENAI, api_key=KEY)
ROUTER = OpenAIChatAdapter(OPENROUTER, api_key=KEY)
RESPONSES = OpenAIResponsesAdapter(OPENAI, api_key=KEY)
GEMINI = GoogleAdapter(api_key=KEY)
CLAUDE = AnthropicAdapter(api_key=KEY)

PNG = b"\x89PNG\r\n\x1a\n sea"
JPEG = b"\xff\xd8\xff sea"
SAMPLES = bytes(range(30))
WAV = b"RIFF\x24\0\0\0WAVEfmt sea"


def b64(data: bytes) -> str:
    return b64encode(data).decode()


class Case(NamedTuple):
    """One response in its two forms, the parts of its message, and what of it is sent back.

    `previews` are the previews that only the stream has.
    """

    adapter: HTTPAdapter
    whole: Any
    stream: Sequence[bytes]
    parts: tuple[Any, ...]
    back: Any
    previews: tuple[ImagePart, ...] = ()


def gemini(*parts: Any, finish: str | None = None) -> dict[str, Any]:
    end = {"finishReason": finish} if finish else {}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **end}]}


def inline(media_type: str, data: bytes, **more: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": b64(data)}, **more}


GENERATED = {
    "id": "ig_123",
    "type": "image_generation_call",
    "status": "completed",
    "output_format": "png",
    "revised_prompt": "A gray tabby cat hugging an otter with an orange scarf",
    "size": "1024x1024",
    "result": b64(PNG),
}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "container_id": "cntr_1",
    "code": "plot()",
    "outputs": [
        {"type": "logs", "logs": "done"},
        {"type": "image", "url": f"data:image/png;base64,{b64(PNG)}"},
        {"type": "image", "url": "https://files.example/plot.png"},
    ],
}
FAILED = {"id": "ig_9", "type": "image_generation_call", "status": "failed", "error": {"code": "moderation_blocked"}}


def response(*items: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": list(items)}


def response_stream(*items: Any, between: Sequence[Any] = ()) -> list[bytes]:
    events: list[Any] = [{"type": "response.created", "response": {**response(), "status": "in_progress"}}]
    for place, item in enumerate(items):
        begun = {**item, "status": "in_progress", "result": None}
        events.append({"type": "response.output_item.added", "output_index": place, "item": begun})
        events += between
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return sse(*events, {"type": "response.completed", "response": response(*items)})


def partial(data: bytes, number: int) -> dict[str, Any]:
    return {
        "type": "response.image_generation_call.partial_image",
        "output_index": 0,
        "item_id": "ig_123",
        "partial_image_index": number,
        "partial_image_b64": b64(data),
        "output_format": "png",
    }


def without_result(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "result"}


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def completion(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "c", "model": "m", "choices": [choice]}


IN_CODE = {"responses": {}, "provider": "openai"}
IMAGE_URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(PNG)}"}}
RECORDED = {"id": "audio_abc", "expires_at": 1729018505, "provider": "openai"}
CASES = {
    # ai.google.dev/gemini-api/docs/image-generation
    "google image": Case(
        GEMINI,
        gemini({"text": "Here:"}, inline("image/png", PNG, thoughtSignature="c2ln"), finish="STOP"),
        sse(
            gemini({"text": "Here:"}), gemini(inline("image/png", PNG, thoughtSignature="c2ln")), gemini(finish="STOP")
        ),
        (
            TextPart("Here:"),
            ImagePart(data=PNG, media_type="image/png", opaque={"google": {"thoughtSignature": "c2ln"}}),
        ),
        {"role": "model", "parts": [{"text": "Here:"}, inline("image/png", PNG, thoughtSignature="c2ln")]},
    ),
    "google image of another type than declared": Case(
        GEMINI,
        gemini(inline("image/png", JPEG), finish="STOP"),
        sse(gemini(inline("image/png", JPEG), finish="STOP")),
        (ImagePart(data=JPEG, media_type="image/jpeg", opaque={"media_type": "image/png"}),),
        {"role": "model", "parts": [inline("image/png", JPEG)]},
    ),
    # ai.google.dev/gemini-api/docs/speech-generation
    "google speech": Case(
        GEMINI,
        gemini(inline("audio/L16;codec=pcm;rate=24000", SAMPLES), finish="STOP"),
        sse(
            gemini(inline("audio/L16;codec=pcm;rate=24000", SAMPLES[:7])),
            gemini(inline("audio/L16;codec=pcm;rate=24000", SAMPLES[7:])),
            gemini(finish="STOP"),
        ),
        (AudioPart(data=SAMPLES, media_type="audio/L16;codec=pcm;rate=24000"),),
        {"role": "model", "parts": [inline("audio/L16;codec=pcm;rate=24000", SAMPLES)]},
    ),
    "google plot of code": Case(
        GEMINI,
        gemini(
            {"executableCode": {"language": "PYTHON", "code": "plot()"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": ""}},
            inline("image/png", PNG),
            finish="STOP",
        ),
        sse(
            gemini({"executableCode": {"language": "PYTHON", "code": "plot()"}}),
            gemini({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": ""}}, inline("image/png", PNG)),
            gemini(finish="STOP"),
        ),
        (
            ServerToolPart(
                "code_execution",
                "",
                {"code": "plot()", "language": "PYTHON"},
                provider="google",
                raw={"executableCode": {"language": "PYTHON", "code": "plot()"}},
            ),
            ServerToolPart(
                "code_execution",
                output="",
                provider="google",
                raw={"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": ""}},
            ),
            ImagePart(data=PNG, media_type="image/png"),
        ),
        {
            "role": "model",
            "parts": [
                {"executableCode": {"language": "PYTHON", "code": "plot()"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": ""}},
                inline("image/png", PNG),
            ],
        },
    ),
    # developers.openai.com/api/docs/guides/tools-image-generation
    "openai image": Case(
        RESPONSES,
        response(GENERATED),
        response_stream(GENERATED, between=[partial(PNG[:9], 0), partial(PNG[:10], 1)]),
        (
            ServerToolPart(
                "image_generation",
                "ig_123",
                {"revised_prompt": GENERATED["revised_prompt"], "size": "1024x1024", "output_format": "png"},
                provider="openai",
            ),
            ImagePart(
                data=PNG,
                media_type="image/png",
                opaque={"responses": without_result(GENERATED), "provider": "openai"},
            ),
        ),
        GENERATED,
        (ImagePart(data=PNG[:9], media_type="image/png"), ImagePart(data=PNG[:10], media_type="image/png")),
    ),
    "openai image that failed": Case(
        RESPONSES,
        response(FAILED),
        response_stream(FAILED),
        (ServerToolPart("image_generation", "ig_9", error='{"code": "moderation_blocked"}', provider="openai"),),
        None,
    ),
    "openai plot of code": Case(
        RESPONSES,
        response(CODE),
        response_stream(CODE),
        (
            ServerToolPart(
                "code_execution",
                "ci_1",
                {"code": "plot()", "container": "cntr_1"},
                CODE["outputs"],
                provider="openai",
                raw=CODE,
            ),
            ImagePart(data=PNG, media_type="image/png", opaque=IN_CODE),
            ImagePart(url="https://files.example/plot.png", opaque=IN_CODE),
        ),
        CODE,
    ),
    # openrouter.ai/docs/features/multimodal/image-generation
    "openrouter image": Case(
        ROUTER,
        completion({"content": "Here:", "images": [IMAGE_URL]}),
        sse(
            chunk({"content": "Here:"}),
            chunk({"images": [{**IMAGE_URL, "index": 0}]}),
            chunk({}, "stop"),
        ),
        (TextPart("Here:"), ImagePart(data=PNG, media_type="image/png")),
        {"role": "assistant", "content": "Here:", "images": [IMAGE_URL]},
    ),
    # developers.openai.com/api/docs/guides/audio
    "openai audio": Case(
        CHAT,
        completion(
            {
                "content": None,
                "audio": {
                    "id": "audio_abc",
                    "expires_at": 1729018505,
                    "data": b64(SAMPLES),
                    "transcript": "Yes, golden retrievers are.",
                },
            }
        ),
        sse(
            chunk({"role": "assistant", "content": None, "audio": {"id": "audio_abc", "transcript": "Yes, golden"}}),
            chunk({"audio": {"id": "audio_abc", "data": b64(SAMPLES)[:7]}}),
            chunk({"audio": {"data": b64(SAMPLES)[7:], "transcript": " retrievers are."}}),
            chunk({"audio": {"expires_at": 1729018505}}),
            chunk({}, "stop"),
        ),
        (
            AudioPart(
                data=SAMPLES, media_type=PCM, transcript="Yes, golden retrievers are.", opaque={"audio": RECORDED}
            ),
        ),
        {"role": "assistant", "content": None, "audio": {"id": "audio_abc"}},
    ),
}
EVERY = pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])


def events_of(adapter: HTTPAdapter, stream: bool, *chunks: bytes) -> list[Event]:
    decoder = adapter.decoder(RequestInput("m", (user("Hi"),), stream=stream))
    found: list[Event] = []
    for each in chunks:
        found += decoder.feed(each)
    return found + decoder.close()


def folded(events: Sequence[Event]) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


def body_of(adapter: HTTPAdapter, *messages: Message, stream: bool = False, **options: Any) -> Any:
    settings = Settings(**options)
    return json.loads(adapter.request(RequestInput("m", messages, stream=stream), settings).body)


@EVERY
def test_whole_and_streamed_are_alike(case: Case) -> None:
    whole = events_of(case.adapter, False, json.dumps(case.whole).encode())
    streamed = events_of(case.adapter, True, *case.stream)
    assert folded(whole).message.parts == case.parts
    assert folded(streamed) == folded(whole)
    previews = [event for event in streamed if isinstance(event, ImageOutput) and event.partial is not None]
    assert [(event.partial, event.image) for event in previews] == [*enumerate(case.previews)]


@EVERY
def test_every_cut(case: Case) -> None:
    body = b"".join(case.stream)
    expected = folded(events_of(case.adapter, True, body))
    for at in range(1, len(body)):
        assert folded(events_of(case.adapter, True, body[:at], body[at:])) == expected


@EVERY
def test_a_stream_that_breaks_off_is_an_error(case: Case) -> None:
    for at in range(1, len(case.stream)):
        with pytest.raises((StreamTruncated, MalformedEvent)):
            events_of(case.adapter, True, *case.stream[:at], case.stream[at][:20])


@EVERY
def test_it_is_stored_and_sent_back(case: Case) -> None:
    message = Message.from_dict(json.loads(Message("assistant", case.parts).to_json()))
    assert message == Message("assistant", case.parts)
    body = body_of(case.adapter, user("A cat."), message, user("Larger."))
    sent = body.get("contents") or body.get("input") or body["messages"]
    assert sent[1:-1] == ([] if case.back is None else [case.back])


def test_drafts_of_gemini_are_previews() -> None:
    body = gemini(
        inline("image/png", PNG, thought=True),
        inline("image/png", PNG),
        inline("image/png", PNG[:9], thought=True),
        finish="STOP",
    )
    events = events_of(GEMINI, False, json.dumps(body).encode())
    assert [event.partial for event in events if isinstance(event, ImageOutput)] == [0, None, 1]
    assert folded(events).message.images == (ImagePart(data=PNG, media_type="image/png"),)


def test_files_of_gemini_are_recordings_each() -> None:
    body = gemini(inline("audio/wav", WAV), inline("audio/wav", WAV), inline("text/csv", b"a,b"), finish="STOP")
    assert [part.data for part in folded(events_of(GEMINI, False, json.dumps(body).encode())).message.audio] == [
        WAV,
        WAV,
    ]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [(WAV, "audio/wav"), (b"ID3 sea", "audio/mpeg"), (b"fLaC", "audio/flac"), (b"OggS", "audio/ogg"), (b"x", PCM)],
)
def test_the_format_of_a_recording_is_recognized(data: bytes, media_type: str) -> None:
    body = completion({"audio": {"id": "a", "expires_at": 1, "data": b64(data), "transcript": ""}})
    (part,) = folded(events_of(CHAT, False, json.dumps(body).encode())).message.audio
    assert (part.data, part.media_type) == (data, media_type)


def test_the_id_of_a_recording_without_data_is_kept() -> None:
    body = completion({"content": "Hi", "audio": {"id": "audio_abc", "expires_at": 1729018505}})
    found = [one for one in events_of(CHAT, False, json.dumps(body).encode()) if isinstance(one, AudioOutput)]
    assert [(one.data, one.opaque) for one in found] == [(b"", {"audio": RECORDED})]


@pytest.mark.parametrize(
    ("adapter", "body"),
    [
        (GEMINI, gemini({"inlineData": {"mimeType": "image/png", "data": "not base64!"}}, finish="STOP")),
        (ROUTER, completion({"images": [{"image_url": {"url": "data:image/png;base64,a"}}]})),
        (CHAT, completion({"audio": {"id": "a", "data": "AAAAA"}})),
    ],
)
def test_damaged_data_is_an_error(adapter: HTTPAdapter, body: Any) -> None:
    with pytest.raises(MalformedEvent, match=r"no base64|cut off"):
        events_of(adapter, False, json.dumps(body).encode())


def test_a_generated_image_that_cannot_be_read_is_a_failure_of_its_tool() -> None:
    body = json.dumps(response({**GENERATED, "result": "===="})).encode()
    (used,) = folded(events_of(RESPONSES, False, body)).message.server_tools
    assert used.error == "the image cannot be read"


def test_data_of_another_kind_is_passed_on() -> None:
    odd = {"image_url": {"url": "file:///etc/passwd"}}
    html = {"image_url": {"url": f"data:text/html;base64,{b64(b'<p>')}"}}
    events = events_of(ROUTER, False, json.dumps(completion({"content": "x", "images": [odd, html, 1]})).encode())
    assert folded(events).message.images == ()
    assert image_of_url("javascript:alert(1)", MediaBytes()) is None
    assert media_type_of(b"x", "image/png\r\nx: y", "image") is None
    assert media_type_of(b"RIFF....WEBP", "", "image") == "image/webp"
    assert media_type_of(b"<svg>", "image/svg+xml", "image") == "image/svg+xml"
    body = gemini(inline("video/mp4", b"x"), inline("image/", b"x"), finish="STOP")
    assert folded(events_of(GEMINI, False, json.dumps(body).encode())).message.parts == ()


def test_the_bytes_of_a_response_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_output, "MOST_BYTES", 20)
    body = gemini(inline("image/png", PNG), inline("image/png", PNG), finish="STOP")
    with pytest.raises(LimitExceeded, match="longer than 20 bytes"):
        events_of(GEMINI, False, json.dumps(body).encode())


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("adapter", [RESPONSES, GEMINI, ROUTER], ids=["responses", "gemini", "openrouter"])
def test_an_image_may_be_longer_than_other_events(adapter: HTTPAdapter, streamed: bool) -> None:
    # As base64 longer than the limit of other events: a PNG of 4,096 by 4,096 pixels can be.
    image = PNG + bytes(LIMIT * 3 // 4)
    body: Any = gemini(inline("image/png", image), finish="STOP")
    if adapter is ROUTER:
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(image)}"}}
        body = completion({"content": "", "images": [picture]})
        if streamed:
            (choice,) = body["choices"]
            body = {**body, "choices": [{**choice, "delta": choice.pop("message")}]}
    elif adapter is RESPONSES:
        body = response({**GENERATED, "result": b64(image)})
        if streamed:
            body = {"type": "response.completed", "response": body}
    sent = b"data: " + json.dumps(body).encode() + b"\n\n" if streamed else json.dumps(body).encode()
    (found,) = folded(events_of(adapter, streamed, sent)).message.images
    assert found.data is not None
    assert len(found.data) == len(image)


@given(st.binary(max_size=60), st.lists(st.integers(0, 90), max_size=5))
def test_base64_is_decoded_in_any_chunks(data: bytes, cuts: list[int]) -> None:
    text, media = b64(data), MediaBytes()
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert b"".join([media.more(text[a:b]) for a, b in pairwise(borders)]) == data
    media.end()


# -- requests


def test_the_requests_for_images_and_audio() -> None:
    hi = user("Hi")
    config = body_of(GEMINI, hi, modalities=["text", "image"], aspect_ratio="16:9", image_size="2K")["generationConfig"]
    assert config == {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"},
    }
    config = body_of(GEMINI, hi, modalities="audio", voice="Kore")["generationConfig"]
    speech = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
    assert config == {"responseModalities": ["AUDIO"], "speechConfig": speech}
    body = body_of(CHAT, hi, modalities=["text", "audio"])
    assert (body["modalities"], body["audio"]) == (["text", "audio"], {"voice": "alloy", "format": "wav"})
    body = body_of(CHAT, hi, modalities=["text", "audio"], voice="ash", stream=True)
    assert body["audio"] == {"voice": "ash", "format": "pcm16"}
    body = body_of(ROUTER, hi, modalities=["image", "text"], aspect_ratio="16:9", image_size="4K")
    assert (body["modalities"], body["image_config"]) == (
        ["image", "text"],
        {"aspect_ratio": "16:9", "image_size": "4K"},
    )
    assert {"modalities", "audio", "image_config"}.isdisjoint(body_of(ROUTER, hi, voice="ash"))


def test_a_generator_of_images() -> None:
    tool = ImageGeneration(
        model="gpt-image-2", size="1024x1536", quality="high", output_format="jpeg", compression=50, partial_images=2
    )
    sent = RESPONSES.request(RequestInput("m", (user("A cat."),), server_tools=(tool,)), Settings())
    assert json.loads(sent.body)["tools"] == [
        {
            "type": "image_generation",
            "model": "gpt-image-2",
            "size": "1024x1536",
            "quality": "high",
            "output_format": "jpeg",
            "output_compression": 50,
            "partial_images": 2,
        }
    ]
    for adapter in (CHAT, CLAUDE, GEMINI, OpenAIResponsesAdapter(XAI, api_key=KEY)):
        with pytest.raises(BadRequest, match="does not run ImageGeneration"):
            adapter.request(RequestInput("m", (user("A cat."),), server_tools=(tool,)), Settings())
    for wrong in ({"compression": 101}, {"partial_images": 4}):
        with pytest.raises(ValueError, match="expected 0 to"):
            ImageGeneration(**wrong)  # type: ignore[arg-type]  # only these two are numbers
    with pytest.raises(TypeError, match="size"):
        ImageGeneration(size=1024)  # type: ignore[arg-type]  # the error is the subject


@pytest.mark.parametrize(
    ("adapter", "kind"),
    [(CLAUDE, "image"), (CLAUDE, "audio"), (CHAT, "image"), (RESPONSES, "audio"), (RESPONSES, "image")],
)
def test_an_output_that_a_service_does_not_have_is_an_error_before_sending(adapter: HTTPAdapter, kind: str) -> None:
    with pytest.raises(BadRequest, match=f"has no {kind} output with this protocol"):
        body_of(adapter, user("Hi"), modalities=["text", kind])
    assert body_of(adapter, user("Hi"), modalities=["text"])


def test_a_stream_has_samples_alone() -> None:
    with pytest.raises(BadRequest, match="streams audio as pcm16 alone, not as audio_format='mp3'"):
        body_of(CHAT, user("Hi"), modalities=["audio"], audio_format="mp3", stream=True)


@pytest.mark.parametrize("adapter", [CLAUDE, CHAT, RESPONSES])
@pytest.mark.parametrize(
    "part",
    [
        ImagePart(data=PNG, media_type="image/png"),
        ImagePart(data=PNG, media_type="image/png", opaque={"responses": {}, "provider": "another"}),
        AudioPart(data=WAV, media_type="audio/wav", opaque={"audio": {"id": "a", "provider": "openrouter"}}),
    ],
)
def test_an_output_of_another_service_is_named(adapter: HTTPAdapter, part: Any) -> None:
    """The conversation goes on after a change of the model."""
    sent = json.dumps(body_of(adapter, user("Hi"), Message("assistant", (part,)), user("More.")))
    assert media_line(part) in sent
    with pytest.raises(BadRequest, match=r"cannot take (ImagePart|AudioPart)"):  # the beginning of an answer
        body_of(adapter, user("Hi"), Message("assistant", (part,)))


@pytest.mark.parametrize("wrong", [[], ["video"], "text,image", 1])
def test_modalities_are_checked(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="modalities"):
        Settings(modalities=wrong)


def test_events_of_a_recording_come_as_they_arrive() -> None:
    events = [event for event in events_of(CHAT, True, *CASES["openai audio"].stream) if isinstance(event, AudioOutput)]
    assert [event.transcript for event in events] == ["Yes, golden", "", " retrievers are.", ""]
    assert events[-1].opaque == {"audio": RECORDED}
