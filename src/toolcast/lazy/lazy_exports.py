"""`lazy_exports`: the public names of a package, each imported on first use (PEP 562).

A package lists them once, as imports for type checkers:

    if TYPE_CHECKING:
        from .agent import Agent as Agent
    else:
        __getattr__, __dir__ = lazy_exports(__name__)

To learn what they are, the code of the package is run again, with an `__import__` that only notes them.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from typing import Any, Final


class _Anything:
    """A module that has every name, `TYPE_CHECKING` among them, which counts as true."""

    def __getattr__(self, name: str) -> _Anything:
        return self


_ANYTHING: Final = _Anything()


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of the calling package. Its `__all__` is an attribute, too."""
    code = sys._getframe(1).f_code  # pyright: ignore[reportPrivateUsage] - public in all but its name

    @cache
    def modules() -> Mapping[str, str]:
        """Return the module of each name; for a module that is itself a name, the package."""
        found: dict[str, str] = {}

        def note(name: str, namespace: Any = None, _: Any = None, names: Any = (), level: int = 0) -> Any:
            if level:
                found.update(dict.fromkeys(names, resolve_name("." * level + name, package)))
            return _ANYTHING

        exec(code, {"__builtins__": {**vars(builtins), "__import__": note}, "__name__": package})
        return found

    def get_attribute(name: str) -> Any:
        if name == "__all__":
            return sorted(modules())
        if name not in modules():
            raise import_module("toolcast.values.option_suggestions").missing_name(package, name)
        module = modules()[name]
        value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute, lambda: sorted(modules())
