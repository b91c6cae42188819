"""What the arguments of a call are, as plain data: the values that the tool gets, and not how they would be written.

Strategy: walk the validated values themselves. How a value prints or serializes may leave out or rewrite what the tool
will use, so no serializer and no `str` of a foreign type is asked. A path stays one (`PathText`), wherever it stands;
bytes and secrets are the text they hold; an object is its attributes. What cannot be looked at without changing it, or
shows nothing of what it holds, raises `UnseenValue`: nobody can answer for it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum
from typing import Any, Final, NoReturn, cast

from pydantic import AliasChoices, RootModel
from pydantic_core import to_jsonable_python

_DEEPEST: Final = 100
_MOST: Final = 100_000  # values that are more than a number or a text
_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
_LEAVES: Final = frozenset(
    ("datetime", "decimal", "fractions", "ipaddress", "re", "uuid", "pydantic.networks", "pydantic_core._pydantic_core")
)
"""Modules whose values are as they are written."""


class UnseenValue(ValueError):
    """An argument is nothing that can be looked at before the tool runs."""


class PathText(str):
    """Text that is a path, whatever the argument that holds it is called."""

    __slots__ = ()

    def __fspath__(self) -> str:
        return str(self)


def seen(value: object) -> Any:
    """The value as texts, numbers, booleans, None, lists and dicts of them. Raises `UnseenValue`."""
    if isinstance(value, dict) and all(type(each) in _PLAIN for each in cast("dict[str, object]", value).values()):
        return cast("dict[str, object]", value)
    try:
        return _Sight().of(value)
    except UnseenValue:
        raise
    except Exception as error:  # values of the user's own types: a failing value is denied
        # Values may be of the user's own types. One that fails when it is looked at cannot be answered for.
        raise UnseenValue(f"an argument cannot be looked at: {type(error).__name__}") from error


class _Sight:
    """One walk: the values that are being looked into, and how many more there may be."""

    __slots__ = ("left", "within")

    def __init__(self) -> None:
        self.within: set[int] = set()
        self.left = _MOST

    def of(self, value: Any) -> Any:
        """What `value` is."""
        if type(value) in _PLAIN:
            return value
        if id(value) in self.within or len(self.within) == _DEEPEST or not self.left:
            raise UnseenValue("the arguments are nested too deeply, hold themselves, or are too many to look at")
        self.left -= 1
        self.within.add(id(value))
        look = next(look for kinds, look in _LOOKS if isinstance(value, kinds))
        found = look(self, value)
        self.within.remove(id(value))
        return found

    def mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        """Its items, by texts."""
        found: dict[str, Any] = {}
        for key, item in value.items():
            name = self.of(key)
            name = name if isinstance(name, str) else repr(name)
            if name in found:
                raise UnseenValue(f"two keys of an argument read {name[:100]!r}")
            found[name] = self.of(item)
        return found

    def items(self, value: Iterable[Any]) -> Any:
        """Its items; those of a named tuple by their names."""
        named = getattr(value, "_asdict", None)
        return [self.of(item) for item in value] if named is None else self.mapping(named())

    def held(self, value: Any) -> Any:
        """What an object of any other type holds."""
        if any(kind.__module__ in _LEAVES for kind in type(value).__mro__):
            return to_jsonable_python(value, fallback=str)
        secret = getattr(value, "get_secret_value", None)
        return self.mapping(_attributes(value)) if secret is None else self.of(secret())


def _unseen(_: _Sight | None, value: Any) -> NoReturn:
    raise UnseenValue(f"an argument is {type(value).__name__!r}, which cannot be looked at; let the tool take a list")


_LOOKS: Final[Sequence[tuple[Any, Callable[[_Sight, Any], Any]]]] = (
    (Enum, lambda sight, value: sight.of(value.value)),
    (os.PathLike, lambda _, value: PathText(os.fsdecode(value))),
    (str, lambda _, value: str.__str__(value)),
    ((int, float), lambda _, value: value),
    (complex, lambda _, value: str(value)),
    ((bytes, bytearray, memoryview), lambda _, value: os.fsdecode(bytes(value))),
    (Mapping, _Sight.mapping),
    ((Sequence, Set, deque), _Sight.items),
    (Iterator, _unseen),
    (RootModel, lambda sight, value: sight.of(value.root)),
    (type, lambda _, value: value.__qualname__),
    (object, _Sight.held),
)
"""How values of each kind are looked at; the first that fits counts."""


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes that an object has of its own, by the names that the model knows."""
    kind = cast("type[object]", type(value))
    fields: Mapping[str, Any] = getattr(kind, "__pydantic_fields__", {})
    slots = (name for each in kind.__mro__ for name in _slots(each))
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    known = {_name(name, fields.get(name)): each for name, each in found.items()}
    known |= getattr(value, "__pydantic_extra__", None) or {}
    return known if known or _may_be_empty(kind) else _unseen(None, value)


def _may_be_empty(kind: type[object]) -> bool:
    """Whether an object without attributes holds nothing: one of a model, or one that was made of nothing."""
    made_of_nothing = kind.__init__ is object.__init__ and kind.__new__ is object.__new__
    return made_of_nothing or hasattr(kind, "__pydantic_fields__") or hasattr(kind, "__dataclass_fields__")


def _slots(kind: type) -> Iterator[str]:
    slots: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if not name.endswith("__"):
            yield f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name


def _name(name: str, field: Any) -> str:
    alias = getattr(field, "validation_alias", None)
    choices: Sequence[object] = alias.choices if isinstance(alias, AliasChoices) else (alias,)
    return next((each for each in choices if isinstance(each, str)), name)
