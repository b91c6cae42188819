"""The finer counts that the providers report with a usage, under our own names: see `toolcast.llms.UsageDetails`.

Sources: the types of the vendors' SDKs (openai 3.54, anthropic 2.12, google-genai 3.4) and docs.x.ai/developers/
cost-tracking, openrouter.ai/docs/use-cases/usage-accounting, docs.perplexity.ai (usage and cost of a response).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from ..values.usage_details import COUNTS, NO_DETAILS, UsageDetails
from .response_decoder import as_count, as_dict, as_list

_Names = Mapping[str, str]

# Counts below `prompt_tokens_details` or `input_tokens_details`, `completion_tokens_details` or
# `output_tokens_details`, and those of the tools that the service ran.
_INTO: Final[_Names] = MappingProxyType(
    {
        "audio_tokens": "input_audio_tokens",
        "image_tokens": "input_image_tokens",
        "video_tokens": "input_video_tokens",
    }
)
_OUT_OF: Final[_Names] = MappingProxyType(
    {
        "audio_tokens": "output_audio_tokens",
        "image_tokens": "output_image_tokens",
        "accepted_prediction_tokens": "accepted_prediction_tokens",
        "rejected_prediction_tokens": "rejected_prediction_tokens",
    }
)
_WRITTEN: Final[_Names] = MappingProxyType(
    {"ttl_30m_tokens": "cache_creation_30m_tokens", "ttl_12h_tokens": "cache_creation_12h_tokens"}
)
_TOOLS: Final[_Names] = MappingProxyType(
    {
        "web_search_requests": "web_searches",  # Anthropic, OpenRouter
        "web_fetch_requests": "web_fetches",
        "code_execution_requests": "code_executions",
        "web_search_calls": "web_searches",  # xAI
        "code_interpreter_calls": "code_executions",
        "file_search_calls": "file_searches",
        "mcp_calls": "mcp_calls",
    }
)
_TICKS: Final = Decimal(10**10)  # of xAI, to the US dollar


def details_of(counts: Mapping[str, int], tier: object = None) -> UsageDetails:
    """Return the details in counts by our names, among others, and the service tier if it is text."""
    found = {name: count for name, count in counts.items() if count and name in COUNTS}
    named = tier if isinstance(tier, str) and tier else None
    return UsageDetails(**found, service_tier=named) if found or named else NO_DETAILS


def openai_counts(usage: Mapping[str, Any], into: Mapping[str, Any], out_of: Mapping[str, Any]) -> dict[str, int]:
    """Return the finer counts of OpenAI's protocols, by our names.

    Args:
        usage: The usage.
        into: Its details of the input.
        out_of: Its details of the output.
    """
    ran: dict[str, Any] = {}
    for name in ("server_tool_use", "server_tool_use_details", "server_side_tool_usage_details"):
        if name in usage:
            ran |= as_dict(usage[name])
    counts = _read(into, _INTO) if into else {}
    if "cache_write_tokens_details" in into:
        counts |= _read(as_dict(into["cache_write_tokens_details"]), _WRITTEN)
    if out_of:
        counts |= _read(out_of, _OUT_OF)
    if ran:
        counts |= _read(ran, _TOOLS)
    if "num_search_queries" in usage and (searches := as_count(usage["num_search_queries"])) is not None:  # Perplexity
        counts["web_searches"] = searches
    return counts


def reported_cost(usage: Mapping[str, Any]) -> Decimal | None:
    """Return the cost in US dollars that a service reports with the tokens: OpenRouter, Perplexity, xAI, gateways."""
    cost: Any = usage.get("cost")
    if isinstance(cost, dict):
        cost = as_dict(cost).get("total_cost")
    if cost is not None and _is_amount(cost):
        return Decimal(str(cost))
    ticks: Any = usage.get("cost_in_usd_ticks")
    return Decimal(ticks) / _TICKS if ticks is not None and _is_amount(ticks) else None


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and value >= 0


def anthropic_counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the finer counts of a usage of Anthropic's, by our names."""
    written = as_dict(usage.get("cache_creation"))
    return {
        **_read(
            written,
            {
                "ephemeral_5m_input_tokens": "cache_creation_5m_tokens",
                "ephemeral_1h_input_tokens": "cache_creation_1h_tokens",
            },
        ),
        **_read(as_dict(usage.get("server_tool_use")), _TOOLS),
    }


_MODALITIES: Final = MappingProxyType({"AUDIO": "audio", "IMAGE": "image", "VIDEO": "video"})


def google_counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the finer counts of a usage of Google's, by our names."""
    counts: dict[str, int] = {}
    for field, place in _GOOGLE.items():
        if field not in usage:
            continue
        for found in map(as_dict, as_list(usage[field])):
            kind = _MODALITIES.get(str(found.get("modality")))
            name = place.format(kind)
            if kind is not None and name in COUNTS:
                counts[name] = counts.get(name, 0) + (as_count(found.get("tokenCount")) or 0)
    if (tools := as_count(usage.get("toolUsePromptTokenCount"))) is not None:
        counts["tool_input_tokens"] = tools
    return counts


_GOOGLE: Final = MappingProxyType(
    {
        "promptTokensDetails": "input_{}_tokens",
        "candidatesTokensDetails": "output_{}_tokens",
        "cacheTokensDetails": "cache_read_{}_tokens",
    }
)


def bedrock_counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the finer counts of a usage of Bedrock's, by our names: the tokens written to a cache, by its time."""
    counts: dict[str, int] = {}
    for found in map(as_dict, as_list(usage.get("cacheDetails"))):
        name = f"cache_creation_{found.get('ttl')}_tokens"
        if name in COUNTS:
            counts[name] = counts.get(name, 0) + (as_count(found.get("inputTokens")) or 0)
    return counts


def _read(found: Mapping[str, Any], names: _Names) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, value in found.items():
        if name in names and (count := as_count(value)) is not None:
            counts[names[name]] = counts.get(names[name], 0) + count
    return counts
