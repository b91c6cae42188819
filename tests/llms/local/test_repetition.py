"""An answer that repeats itself: where it is noticed, what is none, and how the answer is ended."""

from __future__ import annotations

import pytest

from toolcast.errors import StreamTruncated
from toolcast.events import Event, Finish, TextDelta
from toolcast.llms.local.repetition import REPETITION, EndedByRepetition, Repetition

SENTENCE = "The weather is influenced by the Arctic and the Arctic region. "
LINES = 'I\'ll use the weather:\n"The weather of a city."\n'
LONG = " ".join(f"word{n}" for n in range(50)) + ". "


def noticed(text: str, size: int = 7) -> int | None:
    """After how many characters the text, in pieces of that size, is found to repeat itself."""
    repetition = Repetition()
    for at in range(0, len(text), size):
        if (kept := repetition.take(text[at : at + size])) is not None:
            return at + kept
    return None


@pytest.mark.parametrize("passage", [SENTENCE, LINES, LONG, "What's your story? ", "no ", "-"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_passage_again_and_again(passage: str, size: int) -> None:
    before = "The weather in Oslo is mostly sunny and warm. "
    found = noticed(before + passage * 400, size)
    assert found is not None
    assert 3 * len(passage) < found - len(before) <= max(4 * len(passage), 160 + len(passage)) + 80


@pytest.mark.parametrize(
    "text",
    [
        "",
        SENTENCE * 3,
        "ha " * 20,
        "| name | age |\n| --- | --- |\n" + "".join(f"| row {n} | {n * n} |\n" for n in range(200)),
        "\n".join(f"{n}. In a broader sense, this example is about {n * 7} things." for n in range(100)),
        "# Title\n\n" + "-" * 80 + "\n\nText.\n\n" + "=" * 80,
        "".join(f"{LONG}{n}" for n in range(20)),
    ],
)
def test_what_does_not_repeat_itself(text: str) -> None:
    assert noticed(text) is None


class Scripted:
    """A decoder whose every piece is the text that it is."""

    failed = False

    def feed(self, data: bytes) -> list[Event]:
        return [Finish("end_turn") if data == b"." else TextDelta(data.decode())]

    def close(self) -> list[Event]:
        raise StreamTruncated("no end")


def test_the_answer_ends_where_it_repeats_itself() -> None:
    decoder = EndedByRepetition(Scripted())
    assert decoder.feed(b"Once. ") == [TextDelta("Once. ")]
    (event,) = decoder.feed(SENTENCE.encode() * 20)
    assert isinstance(event, TextDelta)
    assert 4 * len(SENTENCE) <= len(event.text) < 5 * len(SENTENCE)
    assert decoder.failed  # so that nothing more is read
    assert decoder.close() == [Finish("other", raw=REPETITION)]


def test_any_other_answer_is_left_as_it_is() -> None:
    decoder = EndedByRepetition(Scripted())
    assert [*decoder.feed(b"Once."), *decoder.feed(b".")] == [TextDelta("Once."), Finish("end_turn")]
    assert not decoder.failed
    with pytest.raises(StreamTruncated):
        decoder.close()


def test_every_event_is_read() -> None:
    """A chunk that only adds text is an event too, as it may be the one that repeats."""
    ended = EndedByRepetition(Scripted())
    assert ended.open_call is None
    assert ended.more_text(b"data: {}\n\n") is None
