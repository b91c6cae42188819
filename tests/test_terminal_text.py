"""What reaches a terminal of a text that somebody else wrote."""

from __future__ import annotations

import pytest

from toolcast.terminal_text import visible


@pytest.mark.fault(143)
def test_visible() -> None:
    assert visible("a\tb\r\nc\x1b[2Jd\u202ee\r") == "a\tb\nc\\x1b[2Jd\\u202ee\\r"
