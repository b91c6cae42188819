"""Log probabilities and safety ratings in the forms of the providers.

Sources: the types of the vendors' SDKs (openai 3.54, google-genai 3.4, ollama 0.6), llama.cpp's server README
("Result JSON"), docs.together.ai/docs/logprobs, docs.aws.amazon.com/bedrock/latest/userguide/
guardrails-use-converse-api.html ("Guardrail trace").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from ..values.answer_details import UNLIKELY, SafetyRating, TokenLogprob
from .response_decoder import as_dict, as_list, as_str

_Source: TypeAlias = Literal["prompt", "response"]


def token_logprobs(found: Any) -> tuple[TokenLogprob, ...]:
    """Return log probabilities in the form of OpenAI, Ollama and llama.cpp: a list of tokens with their alternatives.

    Together's older form, two lists of the same length, is read too.
    """
    if isinstance(found, dict):
        both = as_dict(found)
        pairs = zip(as_list(both.get("tokens")), as_list(both.get("token_logprobs")), strict=False)
        return tuple([TokenLogprob(token, _number(value)) for token, value in pairs if isinstance(token, str)])
    return tuple(_tokens(found))


def _tokens(found: Any) -> Iterator[TokenLogprob]:
    for each in map(as_dict, as_list(found)):
        if isinstance(token := each.get("token"), str):
            top = tuple(_tokens(each.get("top_logprobs")))
            yield TokenLogprob(token, _number(each.get("logprob")), _bytes(each.get("bytes")), top)


_LIST: Any = list  # typed as Any, so that isinstance does not narrow Any to an unknown type


def _number(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return max(float(value), UNLIKELY) if is_number and value == value else UNLIKELY


def _bytes(value: Any) -> bytes | None:
    if not isinstance(value, _LIST):
        return None
    numbers: Any = value  # anything but numbers of a byte is an error
    try:
        return bytes(numbers)
    except (TypeError, ValueError):
        return None


def google_logprobs(found: Mapping[str, Any]) -> tuple[TokenLogprob, ...]:
    """Return the log probabilities in a `logprobsResult`."""
    chosen = [as_dict(each) for each in as_list(found.get("chosenCandidates"))]
    tops = [as_list(as_dict(each).get("candidates")) for each in as_list(found.get("topCandidates"))]
    tops += [[]] * (len(chosen) - len(tops))
    return tuple(
        [
            TokenLogprob(
                as_str(each.get("token")),
                _number(each.get("logProbability")),
                None,
                tuple(
                    [
                        TokenLogprob(as_str(other.get("token")), _number(other.get("logProbability")))
                        for other in map(as_dict, top)
                    ]
                ),
            )
            for each, top in zip(chosen, tops, strict=False)
        ]
    )


def google_ratings(found: Any, source: _Source, provider: str) -> tuple[SafetyRating, ...]:
    """Return the ratings in a list of `safetyRatings`."""
    ratings: list[SafetyRating] = []
    for each in map(as_dict, as_list(found)):
        if category := as_str(each.get("category")):
            level, blocked = as_str(each.get("probability")) or None, each.get("blocked") is True
            ratings.append(SafetyRating(category, source, level, blocked, provider, each))
    return tuple(ratings)


_POLICIES = {
    "contentPolicy": ("filters",),
    "topicPolicy": ("topics",),
    "wordPolicy": ("customWords", "managedWordLists"),
    "sensitiveInformationPolicy": ("piiEntities", "regexes"),
    "contextualGroundingPolicy": ("filters",),
}


def bedrock_ratings(guardrail: Mapping[str, Any], provider: str) -> tuple[SafetyRating, ...]:
    """Return the ratings in the trace of a guardrail, whose assessments of input and output are by its id."""
    ratings: list[SafetyRating] = []
    sources: tuple[tuple[_Source, str], ...] = (("prompt", "inputAssessment"), ("response", "outputAssessments"))
    for source, name in sources:
        for value in as_dict(guardrail.get(name)).values():
            for assessment in map(as_dict, value if isinstance(value, _LIST) else [value]):
                ratings += _assessed(assessment, source, provider)
    return tuple(ratings)


def _assessed(assessment: Mapping[str, Any], source: _Source, provider: str) -> Iterator[SafetyRating]:
    for policy, lists in _POLICIES.items():
        for name in lists:
            for each in map(as_dict, as_list(as_dict(assessment.get(policy)).get(name))):
                category = as_str(each.get("name")) or as_str(each.get("type")) or as_str(each.get("match")) or policy
                level = as_str(each.get("confidence")) or None
                # NONE is a detection alone; all other actions block or mask.
                blocked = as_str(each.get("action")) not in ("", "NONE")
                yield SafetyRating(category, source, level, blocked, provider, each)
