"""Text that somebody else wrote, made fit for a terminal."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Signs that control a terminal, or turn the direction of the text around them."""


def visible(text: str) -> str:
    """`text` with nothing in it that a terminal would act on: such a sign is shown by its number."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))
