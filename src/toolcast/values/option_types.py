"""Type checks of public arguments, which raise `TypeError` where a wrong one is passed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, cast


def require(name: str, value: object, kinds: type[Any] | tuple[type[Any], ...], expected: str) -> None:
    """Raise `TypeError` if `value` is not an instance of `kinds`.

    The message has the type and not the value, which may be a secret.
    """
    if not isinstance(value, kinds):
        raise _wrong(name, value, expected)


def require_optional(name: str, value: object, kinds: type[Any] | tuple[type[Any], ...], expected: str) -> None:
    """Raise `TypeError` if `value` is neither None nor an instance of `kinds`."""
    if value is not None:
        require(name, value, kinds, f"{expected} or None")


def require_callable(name: str, value: object, expected: str) -> None:
    """Raise `TypeError` if `value` cannot be called."""
    if not callable(value):
        raise _wrong(name, value, expected)


def require_parameters(name: str, function: object, *arguments: str) -> None:
    """Raise `TypeError` if `function` cannot be called with so many arguments, which the error describes."""
    expected = f"a function of {' and '.join(arguments)}"
    require_callable(name, function, expected)
    try:
        signature = inspect.signature(cast("Callable[..., object]", function))
    except ValueError:  # one written in C without a signature
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        given = ", ".join(signature.parameters)
        raise TypeError(f"{name}: expected {expected}, got one with the parameters ({given})") from error


def require_flag(name: str, value: object) -> None:
    """Raise `TypeError` if `value` is not a bool: the text "no" would count as true."""
    require(name, value, bool, "True or False")


def require_number(name: str, value: object, *, whole: bool = False) -> None:
    """Raise `TypeError` if `value` is neither None nor a number of `numbers` (numpy's are too)."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral if whole else Real)):
        raise _wrong(name, value, "a whole number or None" if whole else "a number or None")


def require_limit(name: str, value: object, *, whole: bool = False) -> None:
    """Raise `TypeError` or `ValueError` if `value` is neither None nor a number above 0."""
    require_number(name, value, whole=whole)
    if value is not None and not cast("float", value) > 0:  # nor NaN
        raise ValueError(f"{name}={value!r}: expected a number above 0, or None for no limit")


def require_text(name: str, value: object) -> None:
    """Raise `TypeError` if `value` is neither None nor a str."""
    require_optional(name, value, str, "str")


def _wrong(name: str, value: object, expected: str) -> TypeError:
    return TypeError(f"{name}: expected {expected}, got {type(value).__name__}")
