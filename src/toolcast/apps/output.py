"""Text for the terminal: error messages in the terms of the command line, and plain-text tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from unicodedata import combining, east_asian_width

# The library's messages name Python parameters; a person at the command line needs the option instead.
_REPLACEMENTS: Final = (
    (r"\[(?:Errno|WinError) -?\d+\] ", ""),
    (
        r"(:11434: Connection refused)\. Is base_url right, and the server running\?",
        r"\1. Start Ollama: `ollama serve`.",
    ),
    (r" \(while attempting to bind on address \([^()]*\)\)", ""),
    (r"\b(no API key for ([\w-]+): set .+?), or pass api_key=", r"\1, or run: toolcast config set-key \2"),
    (
        r"(\b([\w-]+) \S+: the service refused the key .+? to a valid key), or pass api_key=",
        r"\1, or store one: toolcast config set-key \2",
    ),
    (r"(?<= to a valid key), or pass api_key=", ", or store one: toolcast config set-key PROVIDER"),
    (r", or pass api_key=", ""),
    (r"[Pp]ass a valid api_key=", "Give a valid --token"),
    (r"; start\(timeout=\.\.\.\) waits longer than ([\d.]+) s\b", r" (\1 s)"),
    (r" Does its command run in a terminal\? stderr=sys\.stderr shows its messages", ""),
    (r"base_url= or service=", "--host"),
    (r"pass base_url=", "give --host"),
    (r"\bbase_url=(?=['\"])", "--host "),
    (r"\bbase_url\b=?", "--host"),
    (r" with max_attempts=2\b", ""),
    (r"(?<=\. )max_attempts=2 lets the model correct itself", "Ask again, or try another model"),
    (r"max_attempts=2 lets the model correct itself", "ask again, or try another model"),
    (r"(?<=\. )max_attempts=\d+ allows another attempt(?:, or try another model)?", "Ask again, or try another model"),
    (r", \d+ of them failed with \w+\)", ")"),
    (r"; allow more with settings=Settings\((?:[^()]|\([^()]*\))*\)", ""),
    (r" ?Compare the request, as preview\(\) shows it, with the API reference\.", ""),
    (r"; raise max_rounds=, or submit\(\) without text to go on from here", ""),
    (r", or raise max_repeats=", ""),
    (r"--resume, resume=True", "--resume"),
    (r"settings=Settings\(max_tokens=[\w.]+\)", "--max-tokens N"),
    (r"(, or)? allow more[:,] Budget\(\w+=\.\.\.\)", r"\1 allow more by --budget"),
    (r": pass your own, prices=Prices\([^()]*\), to the LLM or to Budget\.", "; a budget in tokens needs none."),
    (r"Expected at least one tool call, but got 0 tool calls\.", "the model gave no object."),
    (r" ?Pass allow_parallel_tool_calls=True for all of them\.", ""),
    (r"call toolcast\.batch\.read_\w+", "give --format"),
    (r"Pass checkpoint=, a file", "Give --checkpoint FILE"),
)
_NOT_INSTALLED: Final = re.compile(r"To fetch the model: ollama pull ([\w.-]++)(?!:)")  # a tag would be Ollama's
_PATTERNS: Final = tuple((re.compile(pattern), replacement) for pattern, replacement in _REPLACEMENTS)


def command_line_text(text: object) -> str:
    """Return the text of an error, or a text that quotes one, with options in place of the library's parameters."""
    replaced = _NOT_INSTALLED.sub(_other_provider, str(text))
    for pattern, replacement in _PATTERNS:
        replaced = pattern.sub(replacement, replaced)
    return replaced


def _other_provider(found: re.Match[str]) -> str:
    """Return the advice for a model that Ollama does not have: the name with the provider that has it, if one does."""
    from ..providers.model_features import provider_of

    provider = provider_of(found[1])
    return found[0] if provider is None else f"Did you mean {provider}:{found[1]}?"


def format_table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Return the lines of a table whose columns are as wide as their widest cell, without trailing spaces."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(map(_padded, row, widths)).rstrip() for row in rows)


def fitted_table(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    *,
    left_out: Iterable[str],
    width: int | None,
    least: int,
) -> list[str]:
    """Return the lines of a table whose last column is cut off where it does not fit; none if it has too little room.

    Args:
        columns: The names of the columns.
        rows: The cells by their columns.
        left_out: The columns that are left out, in this order, until `least` columns of the terminal are left for the
            last one.
        width: The width of the terminal; None cuts nothing off.
        least: The least room for the last column.
    """
    *others, last = columns
    room = None
    if width is not None:
        taken = {name: max(map(display_width, (name, *(row[name] for row in rows)))) + 2 for name in others}
        for name in left_out:
            if sum(taken.values()) + least > width:
                taken.pop(name, None)
        others, room = list(taken), width - sum(taken.values())
        if room < least:
            return []
    cells = ([*(row[name] for name in others), row[last] if room is None else fit(row[last], room)] for row in rows)
    return [*format_table([[*others, last], *cells])]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def pluralize(count: int, noun: str) -> str:
    """Return the number with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def display_width(text: str) -> int:
    """Return the number of terminal columns of a printable text: two for each wide character of East Asia."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(each) in "WF" else 0 if combining(each) else 1 for each in text)


def fit(text: str, width: int) -> str:
    """Return `text`, or its beginning with an ellipsis if it takes up more than `width` terminal columns."""
    if display_width(text) <= width:
        return text
    while text and display_width(text) > width - 1:
        text = text[:-1]
    return f"{text.rstrip()}…"
