"""Tags around a model's thoughts in its text: nothing between them is an answer.

Models write `<think>...</think>`, other names in other brackets, tags that are never closed, and an end alone where the
template of the prompt has opened the tag: then all before it was a thought. A tag in backticks is text about tags.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final

_NAME: Final = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad)"
_MESSAGE: Final = r"[^{}\n]{0,40}?<\|message\|>"
_BEGIN: Final = rf"<{_NAME}\s{{0,9}}>|\[THINK\]|◁think▷|<\|channel\|>analysis{_MESSAGE}"
_END: Final = rf"</{_NAME}\s{{0,9}}>|\[/THINK\]|◁/think▷|<\|channel\|>final{_MESSAGE}"
STARTS: Final = r"<\[◁"
TAG: Final = rf"(?i:(?<!`)(?:(?P<begin>{_BEGIN})|(?P<end>{_END})))"
"""A regular expression of one tag, with the group `begin` or `end`."""

PART: Final = r"(?i:`?(?:<\|channel\|>[^{}\n]{0,60}|[<◁][^\s<>{}▷]{0,20}\s{0,9}|\[/?T?H?I?N?K?)$|`$)"
"""A regular expression of the end of a text that may be the start of a tag."""
_LONGEST_PART: Final = 100


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


find_tag = searcher(STARTS, TAG)
find_end = searcher(STARTS, rf"(?i:(?<!`)(?:{_END}))")
_find_part = re.compile(PART).search


def find_part(text: str, pos: int = 0) -> re.Match[str] | None:
    """Return the end of `text` from `pos` on that may be the start of a tag."""
    return _find_part(text, max(pos, len(text) - _LONGEST_PART))


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
