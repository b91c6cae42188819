"""`UsageDetails`: the finer counts of a request's usage, which only some services report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from operator import attrgetter
from typing import Any, Final

from ..lazy.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsageDetails:
    """Finer counts of one request, or summed over several with `+`. A count that a service does not report is 0.

    Two details are equal if their counts are.

    Attributes:
        cache_creation_5m_tokens: The tokens that were written to a cache for five minutes.
        cache_creation_30m_tokens: The tokens that were written to a cache for thirty minutes.
        cache_creation_1h_tokens: The tokens that were written to a cache for one hour.
        cache_creation_12h_tokens: The tokens that were written to a cache for twelve hours.
        input_audio_tokens: The tokens of the input that are audio.
        output_audio_tokens: The tokens of the output that are audio.
        input_image_tokens: The tokens of the input that are images.
        output_image_tokens: The tokens of the output that are images.
        input_video_tokens: The tokens of the input that are video.
        cache_read_audio_tokens: The audio tokens that were read from a cache.
        tool_input_tokens: The tokens of the input that come from tools that the provider ran.
        accepted_prediction_tokens: The tokens of a predicted output that are in the response.
        rejected_prediction_tokens: The tokens of a predicted output that are not in the response. They are billed.
        web_searches: The searches of the web that the provider ran.
        web_fetches: The web pages that the provider read.
        code_executions: The runs of code by the provider.
        file_searches: The searches of files by the provider.
        mcp_calls: The calls of MCP servers by the provider.
        service_tier: The tier that processed the request, in the service's words. Of a sum: the tier of all of its
            requests, or None.
    """

    cache_creation_5m_tokens: int = 0
    cache_creation_30m_tokens: int = 0
    cache_creation_1h_tokens: int = 0
    cache_creation_12h_tokens: int = 0
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    input_image_tokens: int = 0
    output_image_tokens: int = 0
    input_video_tokens: int = 0
    cache_read_audio_tokens: int = 0
    tool_input_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0
    web_searches: int = 0
    web_fetches: int = 0
    code_executions: int = 0
    file_searches: int = 0
    mcp_calls: int = 0
    service_tier: str | None = field(default=None, compare=False, kw_only=True)

    @property
    def counts(self) -> dict[str, int]:
        """The counts that are not 0, by name."""
        return {name: count for name, count in zip(COUNTS, _counts(self), strict=True) if count}

    def __repr__(self) -> str:
        return f"UsageDetails({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    def __add__(self, other: UsageDetails) -> UsageDetails:
        tier = self.service_tier if self.service_tier == other.service_tier else None
        return UsageDetails(*map(sum, zip(_counts(self), _counts(other), strict=True)), service_tier=tier)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data of what is reported."""
        tier = {} if self.service_tier is None else {"service_tier": self.service_tier}
        return {**self.counts, **tier}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UsageDetails:
        """Return the details from the data of `to_dict`."""
        return cls(**dict(_checked(data)))


COUNTS: Final[tuple[str, ...]] = UsageDetails.__match_args__
"""The names of the counts."""

NO_DETAILS: Final = UsageDetails()

_counts: Final = attrgetter(*COUNTS)


def _checked(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of stored data, which may come from another program."""
    for name, value in data.items():
        if name == "service_tier" and isinstance(value, str):
            yield name, value
        elif name not in COUNTS:
            raise ValueError(f"{str(name)!r:.50} is no detail of a usage; there are: {', '.join(COUNTS)}, service_tier")
        elif not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name}: expected int, got {type(value).__name__} {value!r:.50}")
        else:
            yield name, value
