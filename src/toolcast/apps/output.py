"""Text for the terminal: error messages in the terms of the command line, and plain-text tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

# The library's messages name Python parameters; a person at the command line needs the option instead.
_REPLACEMENTS: Final = (
    (r"\[(?:Errno|WinError) -?\d+\] ", ""),
    (r", or pass api_key=", ""),
    (r"[Pp]ass a valid api_key=", "Give a valid --token"),
    (r"base_url= or service=", "--host"),
    (r"pass base_url=", "give --host"),
    (r"\bbase_url\b=?", "--host"),
    (r" with max_attempts=2\b", ""),
    (r"max_attempts=2 lets the model correct itself", "ask again, or try another model"),
    (r"; allow more with settings=Settings\((?:[^()]|\([^()]*\))*\)", ""),
    (r" ?Compare the request, as preview\(\) shows it, with the API reference\.", ""),
    (r"; raise max_rounds=, or submit\(\) without text to go on from here", ""),
    (r", or raise max_repeats=", ""),
    (r"--resume, resume=True", "--resume"),
    (r"settings=Settings\(max_tokens=[\w.]+\)", "--max-tokens N"),
    (r"(, or)? allow more[:,] Budget\(\w+=\.\.\.\)", r"\1 allow more by --budget"),
    (r": pass your own, prices=Prices\([^()]*\), to the LLM or to Budget\.", "; a budget in tokens needs none."),
    (r"Pass checkpoint=, a file", "Give --checkpoint FILE"),
)
_PATTERNS: Final = tuple((re.compile(pattern), replacement) for pattern, replacement in _REPLACEMENTS)


def command_line_text(text: object) -> str:
    """Return the text of an error, or a text that quotes one, with options in place of the library's parameters."""
    replaced = str(text)
    for pattern, replacement in _PATTERNS:
        replaced = pattern.sub(replacement, replaced)
    return replaced


def format_table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Return the lines of a table whose columns are as wide as their widest cell, without trailing spaces."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
