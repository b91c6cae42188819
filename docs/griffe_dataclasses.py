"""An extension of griffe, which reads the API pages: classes of `toolcast.lazy.lazy_dataclasses` are dataclasses."""

from __future__ import annotations

from typing import Any

from griffe import ExprCall, ExprName, Extension


class LazyDataclasses(Extension):
    """Show griffe the standard decorator, so that it adds the parameters of `__init__`."""

    def on_class_instance(self, *, cls: Any, **kwargs: Any) -> None:
        """Replace the decorator of a class."""
        for decorator in cls.decorators:
            value = decorator.value
            function = value.function if isinstance(value, ExprCall) else value
            if getattr(function, "canonical_path", "") == "toolcast.lazy.lazy_dataclasses.dataclass":
                standard = ExprName("dataclasses.dataclass")
                decorator.value = ExprCall(standard, value.arguments) if isinstance(value, ExprCall) else standard
