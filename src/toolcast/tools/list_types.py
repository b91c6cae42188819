"""Iterables in output types: replaced by lists, or rejected with an explanation.

Pydantic validates an `Iterable` lazily, item by item when it is iterated, long after the call has returned. A model
writes a whole list, so `as_lists` replaces `Iterable[P]` and `Collection[P]` (for which Pydantic has no schema at all)
in a type form by `list[P]`. Fields of classes cannot be replaced; their core schemas are, by
`parsing.core_schemas.generators_to_lists`. Iterators and generators are not data: `explain_lazy` names the type to use
instead.
"""

from __future__ import annotations

import typing
from collections import abc
from collections.abc import Collection, Iterator
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeAliasType, is_typeddict

from ..parsing.core_schemas import field_hints

ALIASES: tuple[type[Any], ...] = (TypeAliasType, getattr(typing, "TypeAliasType", TypeAliasType))
"""The classes of type aliases: two from Python 3.12 on."""

_READABLE: Collection[Any] = (abc.Iterable, abc.Collection, abc.Reversible)
_LAZY: Collection[Any] = (
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterable,
    abc.AsyncIterator,
    abc.AsyncGenerator,
)
_UNIONS: Collection[Any] = (Union, UnionType)
_CLASS: Any = type  # typed as Any, so that a checker does not narrow a value typed Any


def as_lists(form: Any) -> Any:
    """Return `form` with `list` in place of each `Iterable`, `Collection` and `Reversible` in it."""
    return _replaced(form, ())


def _replaced(form: Any, aliases: tuple[Any, ...]) -> Any:
    inner = _alias_value(form)
    if inner is not None:
        if any(form is alias for alias in aliases):  # a recursive alias
            return form
        found = _replaced(inner, (*aliases, form))
        return form if found is inner else found
    origin = get_origin(form)
    if origin is Annotated:
        base, *metadata = get_args(form)
        found = _replaced(base, aliases)
        return form if found is base else _subscripted(Annotated, (found, *metadata))
    args = () if origin is Literal else get_args(form)
    replaced = tuple(_replaced(arg, aliases) for arg in args)
    if _is_one_of(origin or form, _READABLE):
        return _subscripted(list, replaced) if replaced else list
    if all(new is old for new, old in zip(replaced, args, strict=True)):
        return form
    return _subscripted(Union if _is_one_of(origin, _UNIONS) else origin, replaced)


def explain_lazy(form: Any, unsupported: bool = False) -> str | None:
    """Return why an iterator or generator in `form` cannot be parsed, and the type to use; None if there is none.

    With `unsupported`, fields that are a `Collection` or an `Iterable` count too: they have not been replaced.
    """
    refused = (*_LAZY, *_READABLE) if unsupported else _LAZY
    for owner, found in _parts(form, None, []):
        if _is_one_of(get_origin(found) or found, refused):
            where = f"its field {owner!r} is {_text(found)}" if owner else f"it asks for {_text(found)}"
            return f"{where}; a model writes a whole list, so use {_text(_list_of(found))}"
    return None


def _parts(form: Any, owner: str | None, seen: list[Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield `form` and every type inside it, each with the name of the innermost field that it belongs to."""
    inner = _alias_value(form)
    if inner is None:
        inner = _alias_value(get_origin(form))
    if inner is not None:
        if not any(form is other for other in seen):
            seen.append(form)
            yield from _parts(inner, owner, seen)
        return
    yield owner, form
    origin = get_origin(form)
    if origin is Literal:
        return
    for arg in get_args(form)[: 1 if origin is Annotated else None]:
        yield from _parts(arg, owner, seen)
    record = origin or form
    if _has_fields(record) and not any(record is other for other in seen):
        seen.append(record)
        for name, hint in field_hints(record).items():
            yield from _parts(hint, name, seen)


def _has_fields(form: Any) -> bool:
    if is_dataclass(form) or is_typeddict(form):
        return True
    return isinstance(form, _CLASS) and (issubclass(form, BaseModel) or hasattr(form, "_fields"))  # of a named tuple


def _list_of(form: Any) -> Any:
    args = get_args(form)
    return _subscripted(list, args[:1]) if args else list


def _text(form: Any) -> str:
    """Return `form` as Python source, without module names."""
    origin, args = get_origin(form), get_args(form)
    if origin is Annotated:
        return _text(args[0])
    if _is_one_of(origin, _UNIONS):
        return " | ".join(map(_text, args))
    if origin is Literal or (origin is None and not isinstance(form, type)):
        return repr(form)
    name: str = (origin or form).__name__
    name = "None" if name == "NoneType" else name
    return f"{name}[{', '.join(map(_text, args))}]" if args else name


def _alias_value(form: Any) -> Any:
    """Return the type that an alias or a `NewType` stands for; None for any other form."""
    if isinstance(form, NewType):
        return form.__supertype__
    return form.__value__ if isinstance(form, ALIASES) else None


def _subscripted(generic: Any, args: tuple[Any, ...]) -> Any:
    return generic[args]


def _is_one_of(form: Any, forms: Collection[Any]) -> bool:
    return any(form is other for other in forms)
