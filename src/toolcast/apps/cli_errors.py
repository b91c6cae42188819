"""Errors in the words of the command line: it has options and variables where the library has parameters."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = (
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
)
_PATTERNS: Final = tuple((re.compile(pattern), words) for pattern, words in _WORDS)


def command_words(text: object) -> str:
    """Return the text of an error, or of anything that quotes one, as a person at the command line can follow it."""
    words = str(text)
    for pattern, replacement in _PATTERNS:
        words = pattern.sub(replacement, words)
    return words
