"""`TokenForecast`: the tokens that the next request of a model will take, from those that it has reported so far."""

from __future__ import annotations

from math import sqrt
from typing import Final

_FORGET: Final = 0.98  # of the weight of earlier requests with each new one: the last 50 count
_UNKNOWN_OUTPUT: Final = 500.0


class TokenForecast:
    """Corrections of the estimates of one model.

    Attributes:
        error: The standard error of the expected tokens of one request.
    """

    def __init__(self) -> None:
        # Begun with one request whose estimate was right, so that a single short one does not decide.
        self._estimated = self._input = 100.0
        self._output = 0.0
        self._weight = 0.0
        self._squares = 0.0  # of the errors of the expected tokens
        self.error: float = 0.0

    def add(self, input_estimate: int, input_tokens: int, output_tokens: int) -> None:
        """Add the reported tokens of a request whose input was estimated."""
        if self._weight:
            expected = input_estimate * (self._input / self._estimated) + self._output / self._weight
            error = input_tokens + output_tokens - expected
            self._squares += (1 - _FORGET) * (error * error - self._squares)
            self.error = sqrt(self._squares)
        self._estimated = self._estimated * _FORGET + input_estimate
        self._input = self._input * _FORGET + input_tokens
        self._output = self._output * _FORGET + output_tokens
        self._weight = self._weight * _FORGET + 1.0

    def expected(self, input_estimate: int, max_tokens: int | None) -> tuple[float, float]:
        """Return the tokens of input and output to expect of a request with this estimate and limit."""
        expected = _UNKNOWN_OUTPUT if self._weight == 0 else self._output / self._weight
        if max_tokens is not None and max_tokens < expected:
            expected = float(max_tokens)
        return input_estimate * (self._input / self._estimated), expected

    def input_tokens(self, input_estimate: int) -> float:
        """Return the corrected estimate of the tokens of an input."""
        return input_estimate * (self._input / self._estimated)
