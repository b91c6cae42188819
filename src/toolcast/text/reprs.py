"""`safe_repr`: a repr that an instance without its attributes has, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")


def safe_repr(describe: Callable[[T], str]) -> Callable[[T], str]:
    """Return a `__repr__` that shows the class alone if an attribute is missing.

    A traceback or a debugger may show an instance whose constructor has failed.
    """

    @wraps(describe)
    def __repr__(self: T) -> str:
        try:
            return describe(self)
        except AttributeError:
            return f"<{type(self).__name__}>"

    return __repr__
