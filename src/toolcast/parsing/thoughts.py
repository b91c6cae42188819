"""Tags around a model's thoughts in its text: nothing between them is an answer.

Models write `<think>...</think>`, other names in other brackets, tags that are never closed, and an end alone where the
template of the prompt has opened the tag: then all before it was a thought. A tag in backticks is text about tags.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final

_NAMES: Final = ("think", "thinking", "thought", "thoughts", "reasoning", "analysis", "scratchpad", "seed:think")
_NAME: Final = rf"(?:{'|'.join(_NAMES)})\s{{0,9}}>"
_MESSAGE: Final = r"[^{}\n]{0,40}?<\|message\|>"
_BEGIN: Final = rf"<{_NAME}|\[THINK\]|◁think▷|<\|channel\|>analysis{_MESSAGE}"
_END: Final = rf"</{_NAME}|\[/THINK\]|◁/think▷|<\|channel\|>final{_MESSAGE}"
STARTS: Final = r"<\[◁"
TAG: Final = rf"(?i:(?<!`)(?:(?P<begin>{_BEGIN})|(?P<end>{_END})))"
"""A regular expression of one tag, with the group `begin` or `end`."""

_CHANNEL: Final = "<|channel|>"
_FIXED: Final = ("[think]", "[/think]", "◁think▷", "◁/think▷", _CHANNEL)
_TAGS: Final = (*_FIXED, *(f"{bracket}{name}>" for name in _NAMES for bracket in ("<", "</")))
_PARTS: Final = {tag[:size] for tag in _TAGS for size in range(1, len(tag))}
_LONGEST: Final = 100


def searcher(starts: str, pattern: str) -> Callable[..., re.Match[str] | None]:
    """Return the function `search` of `pattern`, which begins with one of the characters `starts`.

    The expression alone is tried at each character, which makes it many times slower on prose.
    """
    find_starts, match = re.compile(f"[{starts}]").finditer, re.compile(pattern).match

    def search(text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        for start in find_starts(text, pos, endpos):
            if (found := match(text, start.start(), endpos)) is not None:
                return found
        return None

    return search


_CHANNEL_OPEN: Final = re.compile(r"<\|channel\|>[^{}\n]{0,60}\Z").match
find_tag = searcher(STARTS, TAG)
find_end = searcher(STARTS, rf"(?i:(?<!`)(?P<own_end>{_END}))")


def part_start(text: str, pos: int = 0) -> int:
    """Return where, from `pos` on, the end of `text` may be the start of a tag; the length of `text` if it is none."""
    pos = max(pos, len(text) - _LONGEST)
    start = text.rfind(_CHANNEL, pos)
    if start < 0 or not _CHANNEL_OPEN(text, start):
        start = max(text.rfind(bracket, pos) for bracket in "<[◁")
        if start < 0 or text[start:].rstrip().lower() not in _PARTS:
            start = len(text)
    return start - (start > pos and text[start - 1] == "`")  # which makes it text about a tag


def behind_thoughts(text: str) -> str:
    """Return the text behind the last end of a thought; nothing if none ends."""
    behind, end = "", find_end(text)
    while end is not None:
        behind, end = text[end.end() :], find_end(text, end.end())
    return behind


def without_thoughts(text: str) -> str:
    """Return `text` without thoughts and their tags."""
    kept, at = "", 0
    while (tag := find_tag(text, at)) is not None:
        if tag["begin"] is None:
            kept = ""  # nothing has opened the tag
        else:
            kept += text[at : tag.start()]
            tag = find_end(text, tag.end())
            if tag is None:
                return kept.strip()
        at = tag.end()
    return (kept + text[at:]).strip()
