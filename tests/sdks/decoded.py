"""What a comparison compares: an answer, or a failure, in words that belong to no SDK.

An adapter (official.py, ours.py) asks a server one question and puts what it was given into these words.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

PROMPT = "What is the weather like, and what is the time?"


@dataclass(frozen=True)
class Decoded:
    """One answer. `kept` is what has to be sent back as it came: signatures, encrypted thoughts."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    usage: tuple[int, int] = (0, 0)
    stop_reason: str = ""
    thinking: str = ""
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """One failure. `kinds` are the errors of toolcast that it may be: SDKs distinguish fewer of them."""

    kinds: tuple[str, ...]
    status: int | None = None

    def matches(self, kind: str, status: int | None) -> bool:
        """Return whether toolcast's error is this failure."""
        return kind in self.kinds and (self.status is None or self.status == status)


def arguments(text: str | None) -> Any:
    """Return the arguments of a call: the parsed JSON, or the text where it is cut off."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def camel_case(value: Any) -> Any:
    """Return JSON data with the names of Google's fields as in its reference: the client writes some as in Python."""
    if isinstance(value, list):
        return [camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): camel_case(each) for name, each in value.items()}
