"""Reports of a service about the text of a response: log probabilities of its tokens, and safety ratings."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, cast

from ..lazy.lazy_dataclasses import dataclass

UNLIKELY: Final = -9999.0
"""The log probability of a token that the service reports none for, as OpenAI has it for very unlikely ones."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log probability of one token of a response.

    Attributes:
        token: The token's text. A token can be a part of a character: then the text is the service's stand-in for it.
        logprob: The natural logarithm of its probability; -9999.0 for a very unlikely token.
        bytes: Its UTF-8 bytes, if the service reports them.
        top: The most likely tokens at its place, if they were asked for. They have no `top` themselves.
    """

    token: str
    logprob: float
    bytes: builtins.bytes | None = None
    top: tuple[TokenLogprob, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, with the bytes as numbers."""
        data: dict[str, Any] = {"token": self.token, "logprob": self.logprob}
        if self.bytes is not None:
            data["bytes"] = list(self.bytes)
        return data | {"top": [each.to_dict() for each in self.top]} if self.top else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenLogprob:
        """Return the value from the data of `to_dict`."""
        sent = data.get("bytes")
        top = tuple([cls.from_dict(each) for each in data.get("top", ())])
        return cls(str(data["token"]), float(data["logprob"]), None if sent is None else builtins.bytes(sent), top)


@dataclass(frozen=True, slots=True)
class SafetyRating:
    """The rating of the prompt or of the response by a filter or guardrail of the service.

    Attributes:
        category: The service's name of the category, such as `HARM_CATEGORY_HARASSMENT`, `jailbreak` or a topic.
        source: The rated text: that of the prompt or that of the response.
        level: The service's word for the probability or the severity, such as `NEGLIGIBLE`, `medium` or `HIGH`.
        blocked: True if the filter has blocked the text, or changed it.
        provider: The provider.
        raw: The service's object.
    """

    category: str
    source: Literal["prompt", "response"] = "response"
    level: str | None = None
    blocked: bool = False
    provider: str = ""
    raw: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, without the fields that are not set."""
        found = {name: getattr(self, name) for name in self.__match_args__}
        return {name: dict(value) if name == "raw" else value for name, value in found.items() if value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SafetyRating:
        """Return the rating from the data of `to_dict`."""
        if not isinstance(cast("object", data["category"]), str) or data.get("source") not in ("prompt", "response"):
            raise TypeError(f"a safety rating: expected a category and a source, got {dict(data)!r:.100}")
        return cls(**data)


def merge_ratings(before: Iterable[SafetyRating], new: Iterable[SafetyRating]) -> tuple[SafetyRating, ...]:
    """Return the last rating of each category of the prompt and of the response, but one that blocked before others.

    A stream rates each chunk: one that was blocked is not unblocked by the next.
    """
    found: dict[tuple[str, str], SafetyRating] = {}
    for rating in (*before, *new):
        key = (rating.source, rating.category)
        if key not in found or rating.blocked or not found[key].blocked:
            found[key] = rating
    return tuple(found.values())


def describe_ratings(ratings: Iterable[SafetyRating]) -> str:
    """Return the ratings that blocked, for an error: `HARM_CATEGORY_HARASSMENT (HIGH) of the prompt`; empty if none."""
    blocked = [rating for rating in ratings if rating.blocked]
    words = [f"{each.category}{f' ({each.level})' if each.level else ''} of the {each.source}" for each in blocked]
    return ", ".join(words)
