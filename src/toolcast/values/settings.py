"""`Settings` and `Timeouts`: sampling parameters and limits of a call, as one frozen value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal, TypedDict

from typing_extensions import Unpack

from ..lazy.lazy_dataclasses import changes_repr, dataclass
from .cached_content import CachedContent
from .option_types import require_number, require_optional, require_text


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds; `None` is no limit.

    Attributes:
        connect: Limit for establishing the connection.
        first_token: Limit until the first event of a response.
        idle: Limit between two chunks of a response.
        total: Limit for the whole call with its retries.
    """

    connect: float | None = 10.0
    first_token: float | None = 300.0
    idle: float | None = 120.0
    total: float | None = 600.0

    def __post_init__(self) -> None:
        for name in _PHASES:
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"timeout {name}={value!r} must be a positive number of seconds, or None")


_PHASES = ("connect", "first_token", "idle", "total")
_USUAL = Timeouts()


class SettingsChanges(TypedDict, total=False):
    """The keyword arguments of `Settings.with_`."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    stop: str | tuple[str, ...] | list[str] | None
    seed: int | None
    thinking: bool | str | int | None
    strict: bool | None
    adapt: bool | None
    service_tier: str | None
    logprobs: bool | int | None
    keep_alive: float | str | None
    num_ctx: int | None
    check_context: bool | None
    modalities: tuple[str, ...] | list[str] | str | None
    voice: str | None
    audio_format: str | None
    aspect_ratio: str | None
    image_size: str | None
    cache: Literal["auto", "off"] | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    cached_content: CachedContent | str | None
    store: bool | None
    previous_response_id: str | None
    conversation: str | None
    background: bool | None
    timeout: float | Timeouts | None
    extra: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Sampling parameters and limits of a call. `None` is not sent, or taken from the next lower settings.

    The settings passed with a call beat the LLM's own, which beat `Configs.settings`, field by field.
    `thinking` is `True`, `False`, an effort (`"low"`, `"medium"`, `"high"`) or a budget in tokens; `"none"` and a
    budget of 0 mean `False`.
    `strict` constrains the arguments of calls to the schemas of tools: OpenAI does unless it is `False`, Anthropic if
    it is `True`. `adapt=False` raises the error of a service that refuses a setting, in place of a request without it.
    `service_tier` is the tier of the service that processes the request, in its own words: `"flex"`, `"priority"`,
    `"standard_only"`, ... `logprobs` asks for the log probabilities of the tokens: `True`, or the number of the most
    likely alternatives of each. `keep_alive` (seconds, or a text such as `"10m"`) and `num_ctx` (the size of the
    context in tokens) are Ollama's. Settings that a service does not have are left out, with a warning.
    `check_context=False` sends messages that are too long for the model's context window, too.
    `modalities` are the kinds of output: `"text"`, `"image"`, `"audio"`; one that a service does not have is an error
    before sending. `voice` and `audio_format` (`"wav"`, `"mp3"`, `"pcm16"`, ...) are for audio, `aspect_ratio`
    (`"16:9"`) and `image_size` (`"2K"`) for images.
    `cache="auto"` marks the parts of a prompt that stay the same in the next request, for providers that cache only
    what is marked; `"off"` does not. `prompt_cache_key` is a name that requests with a common beginning share, and
    `prompt_cache_retention` the time for which OpenAI keeps that beginning: at most (`"in_memory"`, `"24h"`), or since
    GPT-5.6 at least (`"30m"`, `"12h"`).
    `cached_content` is what `Google.create_cache` returned, or the name of such a cache: requests begin with it.
    `store` lets the service store the response, `previous_response_id` continues a stored one, and `conversation`
    continues a conversation of the service. `previous_response_id="auto"` lets an `Engine` send only the messages that
    the service does not have. `background=True` runs the request at the service, which is polled for the response.
    These four are for services that store responses; elsewhere they raise `BadRequest` before anything is sent.
    `timeout` is seconds in total, or `Timeouts`. `extra` is merged into the request body unchanged.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | list[str] | str | None = None
    seed: int | None = None
    thinking: bool | str | int | None = None
    strict: bool | None = None
    adapt: bool | None = None
    service_tier: str | None = None
    logprobs: bool | int | None = None
    keep_alive: float | str | None = None
    num_ctx: int | None = None
    check_context: bool | None = None
    modalities: tuple[str, ...] | list[str] | str | None = None
    voice: str | None = None
    audio_format: str | None = None
    aspect_ratio: str | None = None
    image_size: str | None = None
    cache: Literal["auto", "off"] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    cached_content: CachedContent | str | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: str | None = None
    background: bool | None = None
    timeout: float | Timeouts | None = None
    extra: Mapping[str, Any] | None = None

    __repr__ = changes_repr

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p"):
            require_number(name, getattr(self, name))
        for name in ("top_k", "max_tokens", "seed", "num_ctx"):
            require_number(name, getattr(self, name), whole=True)
        require_optional("thinking", self.thinking, (bool, str, int), "True, False, an effort, a number of tokens")
        require_optional("strict", self.strict, bool, "True, False")
        require_optional("adapt", self.adapt, bool, "True, False")
        require_text("service_tier", self.service_tier)
        require_optional("logprobs", self.logprobs, (bool, int), "True, False, a number of alternatives")
        require_optional("keep_alive", self.keep_alive, (int, float, str), "seconds, a text such as '10m'")
        require_optional("check_context", self.check_context, bool, "True, False")
        _set_modalities(self)
        if self.cache not in (None, "auto", "off"):
            raise ValueError(f"cache={self.cache!r:.50}: expected 'auto', 'off' or None")
        require_text("prompt_cache_key", self.prompt_cache_key)
        require_text("prompt_cache_retention", self.prompt_cache_retention)
        require_optional("cached_content", self.cached_content, (str, CachedContent), "CachedContent, its name")
        _check_stored(self)
        require_optional("timeout", self.timeout, (int, float, Timeouts), "seconds, Timeouts")
        require_optional("extra", self.extra, Mapping, "a mapping")
        require_optional("stop", self.stop, (str, tuple, list), "str, a list of str")
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        elif self.stop is not None:
            object.__setattr__(self, "stop", tuple(self.stop))
        if self.thinking == "none" or (isinstance(self.thinking, int) and self.thinking <= 0):
            object.__setattr__(self, "thinking", False)  # one value for all services
        for name in ("max_tokens", "num_ctx"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        if self.logprobs is not None and self.logprobs < 0:
            raise ValueError(f"logprobs={self.logprobs} must be True, False or a number of at least 0")
        if self.timeout is not None and not isinstance(self.timeout, Timeouts):
            Timeouts(total=self.timeout)

    @staticmethod
    def _refuse_unknown(options: Mapping[str, Any]) -> None:
        """Raise `TypeError` for arguments that the constructor does not take, with a suggestion for each."""
        from .option_suggestions import refuse_unknown  # for errors alone

        refuse_unknown("Settings", options, _FIELDS)

    def with_(self, **changes: Unpack[SettingsChanges]) -> Settings:
        """Return a changed copy."""
        return replace(self, **changes)

    def over(self, base: Settings | None) -> Settings:
        """Return these settings, with the values of `base` for unset fields."""
        if base is None:
            return self
        mine = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        return replace(base, **mine) if mine else base

    @property
    def cached_content_name(self) -> str | None:
        """The name of `cached_content`."""
        return self.cached_content.name if isinstance(self.cached_content, CachedContent) else self.cached_content

    @property
    def timeouts(self) -> Timeouts:
        """The time limits of `timeout`, with the defaults for None."""
        if isinstance(self.timeout, Timeouts):
            return self.timeout
        return _USUAL if self.timeout is None else Timeouts(total=self.timeout)


def _set_modalities(settings: Settings) -> None:
    """Set the modalities to a tuple, and check the settings of images and audio."""
    for name in ("voice", "audio_format", "aspect_ratio", "image_size"):
        require_text(name, getattr(settings, name))
    given = settings.modalities
    require_optional("modalities", given, (str, tuple, list), "a list of 'text', 'image', 'audio'")
    if given is None:
        return
    found = (given,) if isinstance(given, str) else tuple(given)
    if not found or any(each not in ("text", "image", "audio") for each in found):
        raise ValueError(f"modalities={given!r:.100}: expected some of 'text', 'image', 'audio'")
    object.__setattr__(settings, "modalities", found)


def _check_stored(settings: Settings) -> None:
    for name in ("store", "background"):
        require_optional(name, getattr(settings, name), bool, "True, False")
    for name in ("previous_response_id", "conversation"):
        require_text(name, value := getattr(settings, name))
        if value == "":
            raise ValueError(f"{name}='' is no id: pass None to leave it out")


_FIELDS = tuple(field.name for field in fields(Settings))

NOTHING_SET = Settings()
