"""Settings that a service refuses although toolcast takes them for right: the first day of a new model.

A refusal that names a *setting* in the request is answered with another request, without the setting or with the
nearest value that the service names. These may be changed, as they say how the model answers and not what it is asked:

* sampling: `temperature`, `top_p`, `top_k`;
* thinking: efforts, budgets, levels, summaries;
* the name of the limit of the answer, and a limit above that of the model, which becomes that;
* `parallel_tool_calls`, `stream_options`, `logprobs`, the service tier, and the settings of caches;
* values of the header `anthropic-beta`.

Content, tools, schemas, `strict`, `tool_choice`, `stop`, seeds, what is stored and what is in `Settings.extra` stay: an
answer without them would be one to another question. A refusal that is about a schema or a message changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The efforts of all services, the least first."""

_EFFORTS_OF: Final = ("reasoning_effort", "effort", "thinkingLevel")
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")
BETA: Final = "anthropic-beta"
# The words by which a refusal names a field, by the field.
_WORDS: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_?p",
    "topP": "top_?p",
    "top_k": "top_?k",
    "topK": "top_?k",
    **dict.fromkeys(_LIMITS, "max_?(completion_?|output_?)?tokens"),
    "parallel_tool_calls": "parallel_tool_calls",
    "stream_options": "stream_options",
    "logprobs": "logprobs",
    "top_logprobs": "top_logprobs",
    "service_tier": "service_?tier",
    "serviceTier": "service_?tier",
    "prompt_cache_key": "prompt_cache_key",
    "prompt_cache_retention": "prompt_cache_retention",
    "prompt_cache_options": r"prompt_cache_options",
    "reasoning_effort": "reasoning[_. ]?effort|effort",
    "effort": "reasoning[_. ]?effort|effort",
    "summary": "summary|summaries",
    "thinking": r"thinking(\.type(\.\w+)?)?",
    "thinkingLevel": "thinking[_ ]?level",
    "thinkingBudget": "(thinking[_ ]?)?budget",
    "enable_thinking": "enable_thinking",
    "thinking_budget": "thinking_budget",
}
_GROUPS: Final = frozenset(
    ("reasoning", "output_config", "outputConfig", "generationConfig", "thinkingConfig", "inferenceConfig")
)
_REFUSES = re.compile(
    r"unsupported|not (be )?(support|allow|permit|available|valid)|cannot|can't|unrecogni[sz]ed|unknown|deprecated|"
    r"only|must|invalid|extra(_| inputs)|unexpected|too large|maximum|no longer|does not have",
    re.IGNORECASE,
)
_ABOUT_CONTENT = re.compile(
    r"schema|propert|tools?[.\[ ]|functions?[.\[ ]|messages?[.\[]|input\[|contents?[.\[]|image|audio", re.IGNORECASE
)
_LEAST: Final = 16  # a lower limit of the answer is none that a service would name


class Change(NamedTuple):
    """A field of requests that is sent otherwise: with another `value`, under another name, or not at all.

    Attributes:
        path: The names of the fields that lead to it.
        value: The value that is sent in its place; None to leave it out.
        given: The only value that is replaced by `value`; None for all, or for all numbers above `value`.
        name: The name that it is sent under.
    """

    path: tuple[str, ...]
    value: Any = None
    given: Any = None
    name: str = ""

    def apply(self, fields: dict[str, Any]) -> str | None:
        """Change the field in `fields`. Return a note of that; None if the field is not there."""
        *groups, last = self.path
        place = fields
        for group in groups:
            if not isinstance(place.get(group), dict):
                return None
            place[group] = place = dict(cast("dict[str, Any]", place[group]))
        if last not in place or self.given not in (None, place[last]):
            return None
        before = place[last]
        if isinstance(self.value, int) and before <= self.value:
            return None  # it is within the limit
        del place[last]
        if self.name:
            place[self.name] = before
            return None  # the same setting
        if self.value is not None:
            place[last] = self.value
        elif not place and groups:
            Change(tuple(groups)).apply(fields)
        sent = "" if self.value is None else f"; {self.value!r} was sent"
        return f"{'.'.join(self.path)}={before!r:.60} (refused by the service{sent})"


def change_for(refusal: str, fields: Mapping[str, Any]) -> Change | None:
    """Return the change of the setting that a refusal names; None if it names none that may be changed."""
    if not _REFUSES.search(refusal) or _ABOUT_CONTENT.search(refusal):
        return None
    named = [(found.start(), path) for path in _settings(fields) if (found := _names(path, fields, refusal))]
    if not named:
        return None
    _, path = min(named)
    if path[-1] in _LIMITS:
        return _limit(path, fields, refusal)
    given = _value(path, fields)
    if path[-1] in _EFFORTS_OF and (effort := _allowed_effort(refusal, given.lower())):
        return Change(path, effort.upper() if given.isupper() else effort, given)
    return Change(path)


def refused_betas(refusal: str, header: str) -> set[str]:
    """Return the values of the header `anthropic-beta` that a refusal names."""
    return {value for value in header.split(",") if value.strip() in refusal} if BETA in refusal else set()


def _settings(fields: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the settings in `fields`."""
    for name, value in fields.items():
        if name in _WORDS:
            yield (*before, name)
        elif name in _GROUPS and isinstance(value, dict):
            yield from _settings(cast("dict[str, Any]", value), (*before, name))


def _value(path: tuple[str, ...], fields: Mapping[str, Any]) -> Any:
    found: Any = fields
    for name in path:
        found = found[name]
    return found


def _names(path: tuple[str, ...], fields: Mapping[str, Any], refusal: str) -> re.Match[str] | None:
    """Return where a refusal names a setting, or the effort that it has."""
    if found := re.search(rf"(?i)(?<![\w-])({_WORDS[path[-1]]})(?![\w-])", refusal):
        return found
    value = _value(path, fields)
    return re.search(rf"['\"`]{value}['\"`]", refusal) if path[-1].endswith("effort") and value in EFFORTS else None


def _limit(path: tuple[str, ...], fields: Mapping[str, Any], refusal: str) -> Change | None:
    """Return the change of the limit of the answer: its name, or the highest value that is allowed."""
    for other in _LIMITS:
        if other != path[-1] and re.search(rf"(?<!\w){other}\W+instead|use\W+{other}(?!\w)", refusal, re.IGNORECASE):
            return Change(path, name=other)
    given = _value(path, fields)
    numbers = [int(number.replace(",", "")) for number in re.findall(r"(?<![\w.-])\d[\d,]*(?![\w.-]*\w)", refusal)]
    allowed = [number for number in numbers if _LEAST <= number < given] if isinstance(given, int) else []
    return Change(path, max(allowed)) if allowed else None


def _allowed_effort(refusal: str, given: str) -> str | None:
    """Return the effort nearest to `given` of those that a refusal says are allowed; None if there is none."""
    _, _, allowed = refusal.lower().rpartition("must be" if "must be" in refusal else "support")
    found = [effort for effort in EFFORTS if re.search(rf"(?<![\w-]){effort}(?![\w-])", allowed) and effort != given]
    return nearest_effort(given, found) if found and given in EFFORTS else None


def nearest_effort(wanted: str, efforts: Iterable[str]) -> str:
    """Return the one of `efforts` that is nearest to `wanted`, of two the higher one."""
    place = EFFORTS.index(wanted)
    return min(efforts, key=lambda effort: (abs(EFFORTS.index(effort) - place), -EFFORTS.index(effort)))
