"""Common words of English: `common_words.txt`, which is read when the first word is looked up.

A comparison of texts by their words gives these less weight. The stop words of a search are removed before
(agents/tool_search/stop_words.txt).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ..agents.tool_search import stemming


def is_common(stem: str) -> bool:
    """Return whether `stem` is that of a common word."""
    return stem in _stems()


@lru_cache(maxsize=1)
def _stems() -> frozenset[str]:
    words = stemming.read_word_list(Path(__file__).with_name("common_words.txt"))
    return frozenset(stemming.stems(" ".join(words)))
