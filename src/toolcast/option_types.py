"""Checks of the types of arguments that users pass, so that a wrong one is an error where it is passed."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any


def require(name: str, value: object, kinds: type[Any] | tuple[type[Any], ...], expected: str) -> None:
    """Raise `TypeError` if `value` is of none of these types.

    The message has its type and not the value, which may be a secret.
    """
    if not isinstance(value, kinds):
        raise _wrong(name, value, expected)


def require_optional(name: str, value: object, kinds: type[Any] | tuple[type[Any], ...], expected: str) -> None:
    """Raise `TypeError` if `value` is neither None nor of one of these types."""
    if value is not None:
        require(name, value, kinds, f"{expected} or None")


def require_callable(name: str, value: object, expected: str) -> None:
    """Raise `TypeError` if `value` cannot be called."""
    if not callable(value):
        raise _wrong(name, value, expected)


def require_flag(name: str, value: object) -> None:
    """Raise `TypeError` if `value` is no boolean: the text "no" would count as true."""
    require(name, value, bool, "True or False")


def require_number(name: str, value: object, *, whole: bool = False) -> None:
    """Raise `TypeError` if `value` is neither None nor a number, of any library."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral if whole else Real)):
        raise _wrong(name, value, "a whole number or None" if whole else "a number or None")


def require_text(name: str, value: object) -> None:
    """Raise `TypeError` if `value` is neither None nor a text."""
    require_optional(name, value, str, "str")


def _wrong(name: str, value: object, expected: str) -> TypeError:
    return TypeError(f"{name}: expected {expected}, got {type(value).__name__}")
