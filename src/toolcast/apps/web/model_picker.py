"""`ModelPicker`: the models that the page offers, and the check of one before it is used.

Providers are asked when the list is requested, and the answers are used for a minute. All methods block, and are called
in threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Final

from ...errors import ToolcastError
from ...providers.model_features import model_capabilities
from ...values.prices import Prices, listed_prices

FRESH: Final = 60.0
"""Seconds for which the answers of providers are used."""


class ModelPicker:
    """Lists models, and checks them.

    Args:
        names: Names of models that are listed in any case.
        list_others: Returns the names of models of each provider, and the errors of providers.
        check: Raises an error if the provider does not have the model of this name.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        *,
        list_others: Callable[[], tuple[Iterable[str], Mapping[str, str]]] | None = None,
        check: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._list_others = list_others or _list_none
        self._check = check
        self._clock = clock
        self._lock = Lock()
        self._listed: tuple[float, dict[str, Any]] | None = None
        self._checked: dict[str, float] = {}

    def listed(self) -> dict[str, Any]:
        """Return the models, and the providers that cannot be asked."""
        with self._lock:  # a second request waits for the answers to the first
            now = self._clock()
            if self._listed is None or now - self._listed[0] > FRESH:
                others, errors = self._list_others()
                models = [_row(name) for name in dict.fromkeys((*self._names, *others))]
                problems = [{"provider": provider, "error": error} for provider, error in errors.items()]
                self._listed = now, {"models": models, "errors": problems}
            return self._listed[1]

    def check(self, name: str) -> None:
        """Raise an error if the model cannot be used."""
        if self._check is not None and self._clock() - self._checked.get(name, -FRESH) >= FRESH:
            self._check(name)
            self._checked[name] = self._clock()

    def problem(self, name: str) -> str | None:
        """Return why the model cannot be used, or None."""
        try:
            self.check(name)
        except (ToolcastError, ImportError) as error:
            return str(error) or type(error).__name__
        return None


def _list_none() -> tuple[Iterable[str], Mapping[str, str]]:
    return (), {}


def _row(name: str) -> dict[str, Any]:
    provider, _, model = name.partition(":")
    context = model_capabilities(provider, model).context_window if model else None
    prices = listed_prices(provider, model) if model else None
    price = None if prices is None else _per_million(prices)
    return {"id": name, "provider": provider, "label": model or name, "context": context, "price": price}


def _per_million(prices: Prices) -> str:
    return f"${prices.input.normalize():f} / ${prices.output.normalize():f} per million"
