"""The Accumulator: events in any legal order fold into one response."""

from __future__ import annotations

import pytest

from toolcast import Message, ToolCallPart, Usage
from toolcast.errors import MalformedEvent
from toolcast.events import (
    AudioOutput,
    ChatResponse,
    Event,
    Finish,
    ImageOutput,
    RawEvent,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    UsageReport,
)
from toolcast.llms import Accumulator
from toolcast.messages import AudioPart, ImagePart, TextPart, ThinkingPart
from toolcast.text.text_buffer import JOIN_THRESHOLD, TextBuffer


def folded(*events: Event) -> ChatResponse:
    accumulator, at_once = Accumulator(), Accumulator()
    for event in events:
        accumulator.apply(event)
    at_once.extend(events)
    response = accumulator.response(provider="p", model="asked")
    assert at_once.response(provider="p", model="asked") == response
    return response


def test_parts_keep_the_order_in_which_they_began() -> None:
    response = folded(
        ThinkingDelta("hm"),
        ThinkingDelta("", signature="s1"),
        ThinkingDelta("again"),
        TextDelta("a"),
        TextDelta("b"),
        ToolCallStart("1", "f"),
        ToolCallDelta("1", '{"x"'),
        TextDelta("c"),
        ToolCallDelta("1", ":1}"),
        ToolCallDone("1", "f", '{"x":1}', opaque={"sig": "o"}),
        Finish("tool_use", "m-1", "tool_calls"),
    )
    assert response.message == Message(
        "assistant",
        (
            ThinkingPart("hm", "s1"),
            ThinkingPart("again"),
            TextPart("ab"),
            ToolCallPart("1", "f", '{"x":1}', opaque={"sig": "o"}),
            TextPart("c"),
        ),
    )
    assert (response.stop_reason, response.model, response.provider) == ("tool_use", "m-1", "p")
    assert response.text == "abc"


def test_done_has_the_last_word_and_needs_no_start() -> None:
    response = folded(ToolCallDone("1", "f", "{}"), ToolCallStart("2", "g"), ToolCallDone("2", "h", '{"a":1}'))
    assert response.message.tool_calls == (ToolCallPart("1", "f", "{}"), ToolCallPart("2", "h", '{"a":1}'))


def test_a_call_without_done_is_truncated() -> None:
    response = folded(ToolCallStart("1", "f"), ToolCallDelta("1", '{"a'))
    assert response.message.tool_calls == (ToolCallPart("1", "f", '{"a', truncated=True),)
    assert (response.stop_reason, response.model) == ("other", "asked")


def test_a_reset_voids_the_deltas_before_it() -> None:
    response = folded(
        ToolCallStart("1", "f"), ToolCallDelta("1", '{"a'), ToolCallReset("1"), ToolCallDelta("1", '{"b":1}')
    )
    assert response.message.tool_calls[0].arguments == '{"b":1}'


def test_usage_is_cumulative_within_a_request_and_summed_over_requests() -> None:
    accumulator = Accumulator()
    for event in (UsageReport(Usage(5, 1)), UsageReport(Usage(5, 7)), Restarted(2, "bad"), UsageReport(Usage(9, 3))):
        accumulator.apply(event)
    assert accumulator.usage == Usage(14, 10)


def test_a_restart_voids_everything_but_usage() -> None:
    response = folded(TextDelta("a"), ToolCallStart("1", "f"), Finish("end_turn"), Restarted(2, "bad"), TextDelta("b"))
    assert response.message.parts == (TextPart("b"),)
    assert response.stop_reason == "other"


@pytest.mark.parametrize("event", [UsageReport(Usage(1, 1)), RawEvent({}), Finish("end_turn")])
def test_usage_alone_is_no_content(event: Event) -> None:
    accumulator = Accumulator()
    accumulator.apply(event)
    assert not accumulator.has_content
    accumulator.apply(TextDelta("a"))
    assert accumulator.has_content


def test_redacted_thoughts_stand_alone() -> None:
    response = folded(ThinkingDelta(redacted="xyz"), ThinkingDelta("more"), ThinkingDelta("", opaque={"a": 1}))
    assert response.message.parts == (ThinkingPart("", None, "xyz"), ThinkingPart("more", opaque={"a": 1}))


def test_audio_is_one_part_up_to_its_opaque_data_or_another_type() -> None:
    response = folded(
        AudioOutput(b"a", "audio/pcm", "he"),
        AudioOutput(b"b", "audio/pcm", "llo"),
        AudioOutput(b"", "audio/pcm", opaque={"id": "1"}),
        AudioOutput(b"c", "audio/pcm"),
        AudioOutput(b"d", "audio/wav"),
    )
    assert response.message.parts == (
        AudioPart(data=b"ab", media_type="audio/pcm", transcript="hello", opaque={"id": "1"}),
        AudioPart(data=b"c", media_type="audio/pcm"),
        AudioPart(data=b"d", media_type="audio/wav"),
    )


# -- chunks that other code appends to ----------------------------------------------------------------------------


def test_shared_pieces_are_the_arguments_of_their_call() -> None:
    accumulator, pieces = Accumulator(), TextBuffer()
    for event in (ToolCallStart("1", "f"), ToolCallStart("2", "g"), ToolCallDelta("2", "{}")):
        accumulator.apply(event)
    accumulator.share("1", pieces)
    pieces.add('{"a"')
    accumulator.apply(ToolCallDelta("1", ":"))  # that the other adds, too
    pieces.add(":")
    accumulator.apply(ToolCallDelta("2", " "))
    pieces.add("1")
    assert [part.arguments for part in accumulator.message().tool_calls] == ['{"a":1', "{} "]


def test_a_reset_ends_the_sharing() -> None:
    accumulator, pieces = Accumulator(), TextBuffer()
    accumulator.apply(ToolCallStart("1", "f"))
    accumulator.share("1", pieces)
    pieces.add("old")
    accumulator.apply(ToolCallReset("1"))
    accumulator.apply(ToolCallDelta("1", "new"))
    assert accumulator.message().tool_calls[0].arguments == "new"
    assert pieces.whole() == "old"


def test_only_a_call_that_was_announced_grows_and_is_shared() -> None:
    with pytest.raises(MalformedEvent):
        folded(ToolCallDelta("1", "{"))
    with pytest.raises(MalformedEvent):
        Accumulator().share("1", TextBuffer())


def test_a_preview_of_an_image_is_no_part() -> None:
    preview, image = (ImagePart(data=data, media_type="image/png") for data in (b"1", b"2"))
    assert folded(ImageOutput(preview, partial=0), ImageOutput(image)).message.parts == (image,)


def test_many_deltas_are_all_kept() -> None:
    pieces = [str(number) for number in range(2 * JOIN_THRESHOLD + 7)]
    events: list[Event] = [ToolCallStart("1", "f"), *(ToolCallDelta("1", piece) for piece in pieces)]
    events += [TextDelta(piece) for piece in pieces]
    events += [ThinkingDelta(piece) for piece in pieces]
    call, text, thought = folded(*events).message.parts
    assert call == ToolCallPart("1", "f", "".join(pieces), truncated=True)
    assert (text, thought) == (TextPart("".join(pieces)), ThinkingPart("".join(pieces)))
