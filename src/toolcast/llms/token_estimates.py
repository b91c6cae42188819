"""Estimates of the tokens of a request before it is sent, without a tokenizer.

Every model has its own tokenizer, and most are not published. An estimate counts the characters of each script, as
UTF-8 bytes tell them apart; the pacing of batch jobs corrects it by the usage that the model reports.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from math import ceil
from typing import Final

from ..messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from ..tool_spec import ToolSpec

# Tokens of one character, by the number of its bytes in UTF-8. One token is about four characters of English (OpenAI,
# "What are tokens and how to count them"); code and numbers have more. Other alphabets (2 bytes) take about two
# characters, Chinese, Japanese and Korean (3 bytes) about one or more, emoji (4 bytes) two or three tokens each.
_ASCII: Final = 0.27
_TWO_BYTES: Final = 0.45
_THREE_BYTES: Final = 0.8
_FOUR_BYTES: Final = 2.0

_MESSAGE: Final = 4  # the tokens around a message, as for OpenAI's models
_IMAGE: Final = 1_000  # between 258 (Gemini) and 1,600 (Anthropic), by size and model
_DOCUMENT: Final = 2_000  # of a document by its URL, whose length is not known here
_BYTES_PER_TOKEN: Final = {"audio": 500, "document": 50}  # compressed sound at 16 KB/s, and pages of a PDF

_BELOW: Final = bytes(range(0xC2))  # ASCII and continuation bytes
_LEADS: Final = (bytes(range(0xC2, 0xE0)), bytes(range(0xE0, 0xF0)))


def estimate_text_tokens(text: str) -> float:
    """Return an estimate of the tokens of `text`."""
    if text.isascii():
        return len(text) * _ASCII
    # `translate` counts at the speed of C: what is left after the first bytes of shorter characters are deleted.
    leads = text.encode(errors="surrogatepass").translate(None, _BELOW)
    three_or_four = leads.translate(None, _LEADS[0])
    four = len(three_or_four.translate(None, _LEADS[1]))
    two, three = len(leads) - len(three_or_four), len(three_or_four) - four
    ascii_ = len(text) - len(leads)
    return ascii_ * _ASCII + two * _TWO_BYTES + three * _THREE_BYTES + four * _FOUR_BYTES


def estimate_input_tokens(messages: Iterable[Message], tools: Iterable[ToolSpec] = ()) -> int:
    """Return an estimate of the input tokens of a request with these messages and tools, at least 1."""
    tokens = 0.0
    for message in messages:
        tokens += _MESSAGE
        for part in message.parts:
            tokens += estimate_text_tokens(part.text) if type(part) is TextPart else _part_tokens(part)
    for tool in tools:
        tokens += _tool_tokens(tool)
    return max(ceil(tokens), 1)


def _part_tokens(part: Part) -> float:
    if isinstance(part, TextPart | ThinkingPart):
        return estimate_text_tokens(part.text)
    if isinstance(part, ToolCallPart):
        return estimate_text_tokens(part.name) + estimate_text_tokens(part.arguments)
    if isinstance(part, ToolResultPart):
        return estimate_text_tokens(part.content) + _IMAGE * len(part.images)
    if isinstance(part, ServerToolPart):
        # Encrypted results are long, and the service counts what is in them: the text of the block is the best guess.
        return 0 if part.raw is None else estimate_text_tokens(json.dumps(part.raw, ensure_ascii=False, default=str))
    if isinstance(part, AudioPart | DocumentPart) and part.data is not None:
        return len(part.data) / _BYTES_PER_TOKEN[part.type]
    return _IMAGE if isinstance(part, ImagePart) else _DOCUMENT


@lru_cache(256)
def _tool_tokens(tool: ToolSpec) -> float:
    schema = json.dumps(tool.parameters, ensure_ascii=False, default=str)
    return estimate_text_tokens(tool.name) + estimate_text_tokens(tool.description) + estimate_text_tokens(schema)
