"""answer_details.py: log probabilities and safety ratings, and images and recordings of a model, in a response."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from toolcast import Message
from toolcast.chat.events import _plain
from toolcast.events import (
    AudioOutput,
    ChatResponse,
    Event,
    Finish,
    ImageOutput,
    LogprobsDelta,
    Restarted,
    SafetyRating,
    SafetyReport,
    TextDelta,
    TokenLogprob,
)
from toolcast.llms import Accumulator
from toolcast.llms.wrappers.cached_llm import decode, encode
from toolcast.messages import AudioPart, ImagePart, TextPart, describe_media
from toolcast.values.answer_details import describe_ratings, merge_ratings
from toolcast.values.plain_data import hide_content

SEA = TokenLogprob("sea", -0.1, b"sea", (TokenLogprob("sea", -0.1, b"sea"), TokenLogprob("lake", -2.5)))
CALM = TokenLogprob(" calm", -0.25)
MEDIUM = SafetyRating("violence", "response", "medium", provider="azure", raw={"severity": "medium"})
BLOCKED = SafetyRating("jailbreak", "prompt", "detected", True, "azure", {"filtered": True})
IMAGE = ImagePart(data=b"\x89PNG", media_type="image/png", opaque={"google": {"thoughtSignature": "c2ln"}})


def folded(*events: Event) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


def test_log_probabilities_and_ratings_are_in_the_response() -> None:
    events = [LogprobsDelta((SEA,)), LogprobsDelta((CALM,)), SafetyReport((MEDIUM,)), SafetyReport((BLOCKED,))]
    response = folded(TextDelta("sea calm"), *events, Finish("end_turn"))
    assert response.logprobs == (SEA, CALM)
    assert response.safety == (MEDIUM, BLOCKED)
    assert folded(*events, Restarted(2, "x")).logprobs == folded(*events, Restarted(2, "x")).safety == ()
    again = ChatResponse.from_dict(json.loads(response.to_json()))
    assert again == response
    assert again.safety[1].raw == {"filtered": True}
    assert "logprobs" not in folded(TextDelta("x")).to_dict()
    assert "jailbreak (detected) of the prompt" in response._repr_html_()


def test_a_block_is_not_undone_by_a_later_rating() -> None:
    harmless = SafetyRating("jailbreak", "prompt")
    assert merge_ratings([BLOCKED], [harmless]) == (BLOCKED,)
    assert merge_ratings([harmless], [BLOCKED]) == (BLOCKED,)
    of_the_response = SafetyRating("jailbreak", "response")
    assert merge_ratings([BLOCKED], [of_the_response]) == (BLOCKED, of_the_response)
    low, high = SafetyRating("hate", level="low"), SafetyRating("hate", level="high")
    assert merge_ratings([low], [high]) == (high,)
    assert describe_ratings([MEDIUM, harmless]) == ""
    assert describe_ratings([SafetyRating("X", blocked=True)]) == "X of the response"


def test_a_stored_rating_is_checked() -> None:
    with pytest.raises(TypeError, match="expected a category and a source"):
        SafetyRating.from_dict({"category": 1, "source": "prompt"})
    with pytest.raises(TypeError, match="expected a category and a source"):
        SafetyRating.from_dict({"category": "x", "source": "elsewhere"})


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_chunks_of_a_recording_are_one_part(data: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [AudioOutput(data[a:b], "audio/wav", "x") for a, b in pairwise(borders)]
    response = folded(*chunks, AudioOutput(b"", "audio/wav", opaque={"chat": {"id": "1"}}))
    (part,) = response.message.audio
    assert part == AudioPart(
        data=data, media_type="audio/wav", transcript="x" * len(chunks), opaque={"chat": {"id": "1"}}
    )


def test_a_recording_ends_with_its_data_of_the_service_or_before_another_part() -> None:
    one, other = AudioOutput(b"1", "audio/wav"), AudioOutput(b"2", "audio/mpeg")
    ended = AudioOutput(b"1", "audio/wav", opaque={"chat": {}})
    assert [part.data for part in folded(one, one, other).message.audio] == [b"11", b"2"]
    assert [part.data for part in folded(ended, one).message.audio] == [b"1", b"1"]
    assert [part.data for part in folded(one, TextDelta("x"), one).message.audio] == [b"1", b"1"]


def test_previews_are_not_in_the_message() -> None:
    preview = ImageOutput(ImagePart(data=b"p", media_type="image/png"), 0)
    response = folded(TextDelta("Here:"), preview, ImageOutput(IMAGE), TextDelta("."))
    assert response.message.parts == (TextPart("Here:"), IMAGE, TextPart("."))
    assert response.message.images == (IMAGE,)


def test_images_and_recordings_are_stored() -> None:
    sound = AudioPart(data=b"\0\xff", media_type="audio/wav", transcript="Hi", opaque={"chat": {"id": "1"}})
    message = Message("assistant", (IMAGE, sound))
    assert Message.from_dict(json.loads(message.to_json())) == message
    plain = Message("user", (ImagePart(url="https://a.com/b.png"), AudioPart(data=b"x", media_type="audio/wav")))
    assert {"opaque", "transcript"}.isdisjoint({name for part in plain.to_dict()["parts"] for name in part})
    assert Message.from_dict(plain.to_dict()) == plain


def test_a_cached_answer_has_all_of_it() -> None:
    events: list[Event] = [
        TextDelta("sea"),
        LogprobsDelta((SEA, CALM)),
        SafetyReport((MEDIUM,)),
        ImageOutput(IMAGE),
        AudioOutput(b"\0\1", "audio/wav", "Hi", {"chat": {"id": "1"}}),
        Finish("end_turn"),
    ]
    found, _ = decode(encode(events, 1.0))
    assert found == events
    damaged = encode(events, 1.0)[8:].replace(b'"type":"image"', b'"type":"document"')  # without its checksum
    with pytest.raises(ValueError, match="TypeError"):
        decode(damaged)


def test_events_are_plain_data_for_the_page() -> None:
    assert _plain(LogprobsDelta((CALM,))) == {
        "type": "LogprobsDelta",
        "tokens": [{"token": " calm", "logprob": -0.25}],
    }
    assert _plain(SafetyReport((BLOCKED,)))["ratings"][0]["blocked"] is True


def test_a_line_in_place_of_media() -> None:
    assert describe_media(IMAGE) == "[image/png, 4 bytes]"
    assert describe_media(ImagePart(url="https://a.com/b.png")) == "[image, by URL]"
    spoken = AudioPart(data=b"12", media_type="audio/wav", transcript="Hi")
    assert describe_media(spoken) == "[audio/wav, 2 bytes] Hi"
    hidden = hide_content(Message("assistant", (spoken, IMAGE)), ["secret"])
    assert hidden.parts == (hide_content(Message("assistant", (TextPart("x"),)), ["secret"]).parts[0], IMAGE)
