"""Estimates of tokens: by script, for every part of a message, and for tools."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolcast.llms.token_estimates import estimate_input_tokens, estimate_text_tokens
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    user,
)
from toolcast.tool_spec import ToolSpec


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10, 13),
        ("Быстрая коричневая лиса перепрыгивает собаку", 15, 25),
        ("敏捷的棕色狐狸跳过了懒狗", 9, 15),
        ("👍🏽🎉🚀", 6, 12),
        ("", 0, 0),
    ],
)
def test_texts_by_script(text: str, low: int, high: int) -> None:
    assert low <= estimate_text_tokens(text) <= high


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_an_estimate_is_the_sum_over_its_characters(one: str, other: str) -> None:
    whole = estimate_text_tokens(one) + estimate_text_tokens(other)
    assert estimate_text_tokens(one + other) == pytest.approx(whole)
    assert whole == pytest.approx(sum(map(estimate_text_tokens, one + other)))


@pytest.mark.parametrize(
    ("part", "low", "high"),
    [
        (TextPart("word " * 100), 100, 160),
        (ThinkingPart("word " * 100), 100, 160),
        (ToolCallPart("1", "get_weather", '{"city": "Rome"}'), 5, 12),
        (ToolResultPart("1", "sunny"), 1, 3),
        (ToolResultPart("1", "sunny", images=(ImagePart("https://x/y.png"),)), 900, 1_200),
        (ImagePart(data=b"x" * 500_000, media_type="image/png"), 900, 1_200),
        (AudioPart(data=b"x" * 160_000, media_type="audio/mp3"), 300, 340),
        (DocumentPart(data=b"x" * 100_000, media_type="application/pdf"), 1_900, 2_100),
        (DocumentPart("https://x/y.pdf"), 1_900, 2_100),
    ],
)
def test_each_kind_of_part(part: Part, low: int, high: int) -> None:
    assert low <= estimate_input_tokens([Message("user", (part,))]) - estimate_input_tokens([user("")]) <= high


def test_tools_count_with_their_schemas() -> None:
    small, large = (
        ToolSpec("get", "Get it.", {"type": "object", "properties": {f"field_{n}": {} for n in range(count)}})
        for count in (1, 50)
    )
    assert estimate_input_tokens([], []) == 1
    assert 10 < estimate_input_tokens([], [small]) < estimate_input_tokens([], [large]) - 150
