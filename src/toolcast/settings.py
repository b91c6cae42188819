"""How a call is made: one frozen value instead of twenty parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from typing_extensions import Unpack

from .option_types import require_number, require_optional


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds; `None` is no limit.

    `connect` until the connection stands, `first_token` until the first event, `idle` between two
    pieces of an answer, `total` for the whole call with its retries and re-asks.
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
    """The fields of `Settings`, for `with_`."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    stop: str | tuple[str, ...] | list[str] | None
    seed: int | None
    thinking: bool | str | int | None
    timeout: float | Timeouts | None
    extra: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Sampling, limits and time. `None` means: not sent, or taken from the next place down.

    The settings passed with a call beat the LLM's own, which beat `Configs.settings`, field by field.
    `thinking` is `True`, `False`, an effort (`"low"`, `"medium"`, `"high"`) or a budget in tokens; `"none"` and a
    budget of nothing are `False`.
    `timeout` is seconds in total, or `Timeouts`. `extra` goes into the request body as it is.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | list[str] | str | None = None
    seed: int | None = None
    thinking: bool | str | int | None = None
    timeout: float | Timeouts | None = None
    extra: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p"):
            require_number(name, getattr(self, name))
        for name in ("top_k", "max_tokens", "seed"):
            require_number(name, getattr(self, name), whole=True)
        require_optional("thinking", self.thinking, (bool, str, int), "True, False, an effort, a number of tokens")
        require_optional("timeout", self.timeout, (int, float, Timeouts), "seconds, Timeouts")
        require_optional("extra", self.extra, Mapping, "a mapping")
        require_optional("stop", self.stop, (str, tuple, list), "str, a list of str")
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        elif self.stop is not None:
            object.__setattr__(self, "stop", tuple(self.stop))
        if self.thinking == "none" or (isinstance(self.thinking, int) and self.thinking <= 0):
            object.__setattr__(self, "thinking", False)  # each service's way to say so is one
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens={self.max_tokens} must be at least 1")
        if self.timeout is not None and not isinstance(self.timeout, Timeouts):
            Timeouts(total=self.timeout)

    def with_(self, **changes: Unpack[SettingsChanges]) -> Settings:
        """A changed copy."""
        return replace(self, **changes)

    def over(self, base: Settings | None) -> Settings:
        """These settings where they are set, `base` where they are not."""
        if base is None:
            return self
        mine = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        return replace(base, **mine) if mine else base

    @property
    def timeouts(self) -> Timeouts:
        """The four limits that `timeout` stands for."""
        if isinstance(self.timeout, Timeouts):
            return self.timeout
        return _USUAL if self.timeout is None else Timeouts(total=self.timeout)


_FIELDS = tuple(field.name for field in fields(Settings))

NOTHING_SET = Settings()
