"""The arguments of a call as plain data, for permissions: the values that the tool receives, not their serialization.

Strategy: walk the validated values themselves. The `str` or the serializer of a foreign type may omit or rewrite data
that the tool will use, so neither is called. A path stays one (`PathText`), wherever it is; bytes and secrets become
their text; an object becomes its attributes. A value that inspection would change (an iterator), or that shows none of
its contents, raises `UnseenValue`: a call that cannot be inspected cannot be approved.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum
from typing import Any, Final, NoReturn, cast

from pydantic import AliasChoices, RootModel
from pydantic_core import from_json, to_jsonable_python

_DEEPEST: Final = 100
_MOST: Final = 100_000  # values that are more than a number or a text
_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
_LEAVES: Final = frozenset(
    ("datetime", "decimal", "fractions", "ipaddress", "re", "uuid", "pydantic.networks", "pydantic_core._pydantic_core")
)
"""Modules whose values are equal if their text is."""


class UnseenValue(ValueError):
    """An argument cannot be inspected before the tool runs."""


class PathText(str):
    """Text that is a path, whatever the name of its argument."""

    __slots__ = ()

    def __fspath__(self) -> str:
        return str(self)


def to_plain(value: object) -> Any:
    """Return the value as texts, numbers, booleans, None, lists and dicts of them. Raises `UnseenValue`."""
    if isinstance(value, dict) and all(type(each) in _PLAIN for each in cast("dict[str, object]", value).values()):
        return cast("dict[str, object]", value)
    try:
        return _Walk().of(value)
    except UnseenValue:
        raise
    except Exception as error:  # values of the user's own types: a failing value is denied
        raise UnseenValue(f"an argument cannot be inspected: {type(error).__name__}") from error


class _Walk:
    """One walk: the values around the current one (a cycle is an error), and how many more there may be."""

    __slots__ = ("left", "within")

    def __init__(self) -> None:
        self.within: set[int] = set()
        self.left = _MOST

    def of(self, value: Any) -> Any:
        """Return `value` as plain data."""
        if type(value) in _PLAIN:
            return value
        if id(value) in self.within or len(self.within) == _DEEPEST or not self.left:
            raise UnseenValue("the arguments are nested too deeply, contain themselves, or are too many to inspect")
        self.left -= 1
        self.within.add(id(value))
        convert = next(convert for kinds, convert in _CONVERTERS if isinstance(value, kinds))
        found = convert(self, value)
        self.within.remove(id(value))
        return found

    def mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        """Return its items, with text keys."""
        found: dict[str, Any] = {}
        for key, item in value.items():
            name = self.of(key)
            name = name if isinstance(name, str) else repr(name)
            if name in found:
                raise UnseenValue(f"two keys of an argument are both {name[:100]!r}")
            found[name] = self.of(item)
        return found

    def items(self, value: Iterable[Any]) -> Any:
        """Return its items; those of a named tuple by name."""
        named = getattr(value, "_asdict", None)
        return [self.of(item) for item in value] if named is None else self.mapping(named())

    def attributes(self, value: Any) -> Any:
        """Return the contents of an object of any other type."""
        if any(kind.__module__ in _LEAVES for kind in type(value).__mro__):
            return to_jsonable_python(value, fallback=str)
        secret = getattr(value, "get_secret_value", None)
        return self.mapping(_attributes(value)) if secret is None else self.of(secret())


def _unseen(_: _Walk | None, value: Any) -> NoReturn:
    raise UnseenValue(f"an argument is {type(value).__name__!r}, which cannot be inspected; use a list as its type")


_CONVERTERS: Final[Sequence[tuple[Any, Callable[[_Walk, Any], Any]]]] = (
    (Enum, lambda walk, value: walk.of(value.value)),
    (os.PathLike, lambda _, value: PathText(os.fsdecode(value))),
    (str, lambda _, value: str.__str__(value)),
    ((int, float), lambda _, value: value),
    (complex, lambda _, value: str(value)),
    ((bytes, bytearray, memoryview), lambda _, value: os.fsdecode(bytes(value))),
    (Mapping, _Walk.mapping),
    ((Sequence, Set, deque), _Walk.items),
    (Iterator, _unseen),
    (RootModel, lambda walk, value: walk.of(value.root)),
    (type, lambda _, value: value.__qualname__),
    (object, _Walk.attributes),
)
"""The conversion of each kind of value; the first that fits is used."""


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object itself, by the names in the tool's schema."""
    kind = cast("type[object]", type(value))
    fields: Mapping[str, Any] = getattr(kind, "__pydantic_fields__", {})
    slots = (name for each in kind.__mro__ for name in _slots(each))
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    named = {_name(name, fields.get(name)): each for name, each in found.items()}
    named |= getattr(value, "__pydantic_extra__", None) or {}
    return named if named or _may_be_empty(kind) else _unseen(None, value)


def _may_be_empty(kind: type[object]) -> bool:
    """Return whether an object without attributes is empty: that of a model, or one made without arguments."""
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


def is_plain_object(text: str) -> bool:
    """Return True if `text` is a JSON object without duplicate keys, so that an approver sees what will run."""
    try:
        value = from_json(text)
    except (TypeError, ValueError):  # a str with a lone surrogate is a TypeError
        return False
    return isinstance(value, dict) and (text.count(":") <= len(cast("Any", value)) or not _has_duplicate_keys(text))


def _has_duplicate_keys(text: str) -> bool:
    twice: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: twice.append(len(dict(pairs)) < len(pairs)))
    return any(twice)
