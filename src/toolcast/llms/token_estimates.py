"""Estimates of the tokens of a request before it is sent, without a tokenizer.

Every model has its own tokenizer, and most are not published. An estimate counts the characters of each script, as
UTF-8 bytes tell them apart; the pacing of batch jobs corrects it by the usage that the model reports.

The check of the context window (`check_context`) must not refuse what the service would accept. It uses a lower bound:
a tokenizer splits a text at white space first, so that no token has a part of two words. Some merge frequent pairs of
words after that ("SuperBPE", arXiv 2503.13423, up to a third fewer tokens); the margin of 1.3 allows for those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil
from typing import Final

from ..errors import ContextTooLong
from ..messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from ..text.json_text import json_text
from ..values.capabilities import LLMMetadata
from ..values.hooks import NamedSpec
from ..values.settings import Settings
from ..values.tool_spec import ToolSpec

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
# Compressed sound at 16 KB/s, compressed video at 250 KB/s (Gemini: 300 tokens a second), and pages of a PDF.
_BYTES_PER_TOKEN: Final = {"audio": 500, "video": 800, "document": 50}

_UNSURE: Final = frozenset(
    (
        *("truncation", "transforms", "plugins", "context_management", "edits", "truncate"),
        *("betas", "anthropic_beta", "additionalModelRequestFields"),
    )
)
"""Fields in `extra` by which some services shorten the messages themselves, or enlarge the window."""

_MARGIN: Final = 1.3
_LONGEST_TOKEN: Final = 8  # characters of a token in Chinese, Japanese or Korean; most have one to three
_SHOWN: Final = 3  # messages and tools in an error

_BELOW: Final = bytes(range(0xC2))  # ASCII and continuation bytes
_NOT_EAST_ASIAN: Final = bytes(byte for byte in range(256) if not 0xE3 <= byte <= 0xED)  # U+3000 to U+DFFF
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


def estimate_message_tokens(message: Message) -> int:
    """Return an estimate of the tokens of one message."""
    return ceil(_MESSAGE + sum(map(_part_tokens, message.parts)))


def least_text_tokens(text: str) -> int:
    """Return a number of tokens that `text` has in any tokenizer, at the least."""
    words = len(text.split())
    if text.isascii():
        return words
    # Chinese, Japanese and Korean have words without white space between. Other scripts have that, or long tokens.
    characters = len(text.encode(errors="surrogatepass").translate(None, _NOT_EAST_ASIAN))
    return max(words, characters // _LONGEST_TOKEN)


def check_context(
    messages: Sequence[Message], tools: Sequence[NamedSpec], metadata: LLMMetadata, settings: Settings
) -> None:
    """Raise `ContextTooLong` if messages and tools certainly exceed the context window, unless that is not wanted.

    Args:
        messages: The messages.
        tools: The tools, of which the descriptions count: services encode schemas in ways of their own.
        metadata: The name of the model and the size of its context window, if that is known.
        settings: The settings of the request.
    """
    window = metadata.context_window
    if window is None or settings.check_context is False or (settings.extra and _UNSURE & settings.extra.keys()):
        return
    limit = window * _MARGIN
    # A word and the space after it have two characters: nearly all requests are decided here.
    if sum([_length(message) for message in messages]) + sum([len(tool.description) for tool in tools]) < 2 * limit:
        return
    least = sum([_least_tokens(message) for message in messages])
    least += sum([least_text_tokens(tool.description) for tool in tools])
    if least > limit:
        raise _too_long(messages, tools, least, window, metadata.model_name)


def _length(message: Message) -> int:
    return sum([len(text) for part in message.parts for text in _texts(part)])


def _least_tokens(message: Message) -> int:
    return sum([least_text_tokens(text) for part in message.parts for text in _texts(part)])


def _texts(part: Part) -> tuple[str, ...]:
    """Return the texts of a part that are certainly sent: thoughts of earlier turns are often left out."""
    if isinstance(part, TextPart):
        return (part.text,)
    if isinstance(part, ToolResultPart):
        return (part.content,)
    return (part.arguments,) if isinstance(part, ToolCallPart) else ()


def _too_long(
    messages: Sequence[Message], tools: Sequence[NamedSpec], least: int, window: int, model: str
) -> ContextTooLong:
    sizes = [(f"messages[{at}] ({each.role})", estimate_message_tokens(each)) for at, each in enumerate(messages)]
    sizes += [
        (f"tool {tool.name}", ceil(_tool_tokens(ToolSpec(tool.name, tool.description, tool.parameters))))
        for tool in tools
    ]
    largest = tuple(sorted(sizes, key=lambda size: size[1], reverse=True)[:_SHOWN])
    shown = ", ".join([f"{name} with about {tokens:,} tokens" for name, tokens in largest])
    error = ContextTooLong(
        f"the messages have at least {least:,} tokens, and the context window of {model} {window:,}: nothing was sent. "
        f"The largest: {shown}. Shorten or leave out these, use a model with a larger window, or send it all the same "
        "with Settings(check_context=False)"
    )
    error.largest = largest
    return error


def server_tool_text(part: ServerToolPart) -> str:
    """Return the text of a block that is sent back, for estimates of its tokens; empty if it is not sent.

    Encrypted results are in it as they are: the service counts what is in them. Media are left out.
    """
    return "" if part.raw is None else _DATA_URL.sub("", json_text(part.raw))


_DATA_URL = re.compile(r'data:[\w/+.-]+;base64,[^"]*')


def _part_tokens(part: Part) -> float:
    if isinstance(part, TextPart | ThinkingPart):
        return estimate_text_tokens(part.text)
    if isinstance(part, ToolCallPart):
        return estimate_text_tokens(part.name) + estimate_text_tokens(part.arguments)
    if isinstance(part, ToolResultPart):
        return estimate_text_tokens(part.content) + _IMAGE * len(part.images)
    if isinstance(part, ServerToolPart):
        return estimate_text_tokens(server_tool_text(part))
    if isinstance(part, CachePoint):
        return 0
    if isinstance(part, AudioPart | VideoPart | DocumentPart) and part.data is not None:
        return len(part.data) / _BYTES_PER_TOKEN[part.type]
    if isinstance(part, FileRef):
        return _file_tokens(part)
    return _IMAGE if isinstance(part, ImagePart) else _DOCUMENT


def _file_tokens(part: FileRef) -> float:
    kind = (part.media_type or "").partition("/")[0]
    if kind == "image":
        return _IMAGE
    return _DOCUMENT if part.size is None else part.size / _BYTES_PER_TOKEN.get(kind, _BYTES_PER_TOKEN["document"])


@lru_cache(256)
def _tool_tokens(tool: ToolSpec) -> float:
    schema = json.dumps(tool.parameters, ensure_ascii=False, default=str)
    return estimate_text_tokens(tool.name) + estimate_text_tokens(tool.description) + estimate_text_tokens(schema)
