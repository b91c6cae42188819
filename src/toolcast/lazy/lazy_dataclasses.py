"""`dataclass` as in the standard library, but with an `__init__` that is compiled when it is first used.

`dataclasses.dataclass` compiles up to six methods of each class from source. An orchestrator that is ready to be called
has imported about 70 such classes and made instances of 15, and those compilations were 40 % of its start-up. Here only
`__init__` is compiled, when it is first looked up; the other methods are closures. `dataclasses` still does the rest:
fields, `__slots__`, `__match_args__`, `replace`, `fields` and `asdict`; signatures, pickles and errors are the same.

Type checkers see the decorator of the standard library. At run time it has the options that this library uses.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import MISSING, FrozenInstanceError, fields
from inspect import getattr_static, signature
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, frozen=False, **options):
        """Return the class with the fields and the methods of a dataclass.

        Args:
            cls: The class, or None where the decorator has options.
            init: Whether `__init__` is added.
            repr: Whether `__repr__` is added.
            eq: Whether `__eq__` is added, and `__hash__` if the class is frozen.
            frozen: Whether the fields of an instance are read-only.
            **options: Other options of `dataclasses.dataclass`: `slots`, `kw_only`, `match_args`, `weakref_slot`.

        Raises:
            TypeError: For options or fields that `dataclasses.dataclass` does not take.
            ValueError: For `order`.
        """

        def decorate(cls):
            return _decorated(cls, options, init=init, repr=repr, eq=eq, frozen=frozen)

        return decorate if cls is None else decorate(cls)


def _decorated(cls: type, options: dict[str, Any], *, init: bool, repr: bool, eq: bool, frozen: bool) -> type:
    own = vars(cls)  # a method that the class defines itself is kept
    # Python adds `__hash__ = None` to a class that defines `__eq__` alone: that is not a method of its own.
    own_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    # Of a frozen class, `dataclasses` lets only frozen ones derive: these get their `__setattr__` from it.
    derived = frozen and any(map(dataclasses.is_dataclass, cls.__bases__))
    standard: Any = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=derived, **options)
    made = _extended(standard(cls))
    params = made.__dataclass_params__
    params.init, params.repr, params.eq, params.frozen = init, repr, eq, frozen
    if init and "__init__" not in own:
        made.__init__ = _LazyInit(made)
    if repr and "__repr__" not in own:
        made.__repr__ = _repr
    if eq and "__eq__" not in own:
        made.__eq__ = _eq(_values([field.name for field in fields(made) if field.compare]))
    if eq and not own_hash:
        hashed = [field.name for field in fields(made) if (field.compare if field.hash is None else field.hash)]
        made.__hash__ = _hash(_values(hashed)) if frozen else None
    if frozen and not derived:
        made.__setattr__, made.__delattr__ = _read_only(made)
        if "__slots__" in vars(made):  # without these, pickle and copy would assign to the fields
            made.__getstate__ = own.get("__getstate__", _getstate)
            made.__setstate__ = own.get("__setstate__", _setstate)
    return made  # type: ignore[no-any-return]  # a class is made of a class


def _extended(made: Any) -> Any:
    """Return the class without its type, as its attributes are assigned."""
    return made


class _LazyInit:
    """The `__init__` of a class until it is looked up, by a call or for its signature: then it is replaced."""

    __slots__ = ("_cls", "_globals")

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        # Looked up now: at the end of the interpreter a stream that is collected may be the first to need `__init__`,
        # when `sys.modules` is empty already.
        self._globals = vars(sys.modules[cls.__module__])

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # Two threads may both come here; their functions are equal, and the second replaces the first.
        init = _compiled_init(self._cls, self._globals)
        self._cls.__init__ = init
        return init.__get__(instance, owner)


def _compiled_init(cls: Any, module: dict[str, Any]) -> Any:
    """Return the `__init__` that `dataclasses` would write, with the names of `module` as its globals."""
    frozen, slots = cls.__dataclass_params__.frozen, "__slots__" in vars(cls)
    # The names are parameters of an outer function, so that they are local to `__init__`, whatever its module defines.
    names: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    positional: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for field in fields(cls):
        name, default, value = field.name, f"_default_{field.name}", field.name
        parameter = name
        if field.default_factory is not MISSING:
            names[default] = field.default_factory
            parameter = f"{name}=_FACTORY"
            value = f"{default}() if {name} is _FACTORY else {name}" if field.init else f"{default}()"
        elif field.default is not MISSING:
            names[default] = field.default
            parameter = f"{name}={default}"
            value = name if field.init else default
        if not field.init and field.default_factory is MISSING and (field.default is MISSING or not slots):
            continue  # the class has its default, or a method assigns it
        if field.init:
            (by_name if field.kw_only else positional).append(parameter)
        slot = getattr_static(cls, name, None)
        if not frozen:
            lines.append(f"_self.{name} = {value}")
        elif isinstance(slot, MemberDescriptorType):  # its own setter takes half of the time
            names[f"_set_{name}"] = slot.__set__
            lines.append(f"_set_{name}(_self, {value})")
        else:
            lines.append(f"_set(_self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("_self.__post_init__()")
    refuses = hasattr(cls, "_refuse_unknown")  # a class whose error for an unknown argument has a suggestion
    if refuses:
        lines.insert(0, "if _unknown: _self._refuse_unknown(_unknown)")
    by_name = ["*", *by_name] if by_name else []
    parameters = ", ".join(["_self", *positional, *by_name, *(["**_unknown"] if refuses else [])])
    body = "\n  ".join(lines or ["pass"])
    source = f"def make({', '.join(names)}):\n def __init__({parameters}):\n  {body}\n return __init__"
    made: dict[str, Any] = {}
    # A code object: `exec` of text would make Python forget a Ctrl-C that ends the program, and exit with another code.
    exec(compile(source, f"<__init__ of {cls.__qualname__}>", "exec"), module, made)
    init = made["make"](**names)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields(cls) if field.init} | {"return": None}
    if refuses:
        shown = signature(init)
        init.__signature__ = shown.replace(parameters=[*shown.parameters.values()][:-1])
    return init


_MOST_BYTES = 60


class _Factory:
    """The default of a parameter whose value is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"  # as the standard library's in a signature


_FACTORY = _Factory()


@recursive_repr("...")
def _repr(self: Any) -> str:
    values = ", ".join(f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({values})"


def changes_repr(self: Any) -> str:
    """Return the repr of a dataclass without the fields that have their defaults: for classes with many of them."""
    values = [(field, getattr(self, field.name)) for field in fields(self) if field.repr]
    changed = [f"{field.name}={_shown(value)}" for field, value in values if value != field.default]
    return f"{type(self).__qualname__}({', '.join(changed)})"


def _shown(value: object) -> str:
    if isinstance(value, bytes) and len(value) > _MOST_BYTES:
        return f"<{len(value):,} bytes>"  # of an image, say
    return repr(value)


def _values(names: Sequence[str]) -> Callable[[Any], object]:
    """Return a function from an instance to these of its values, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda instance: ()
    value = attrgetter(*names)  # of one name it returns no tuple
    return lambda instance: (value(instance),)


def _eq(values: Callable[[Any], object]) -> Any:
    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[Any], object]) -> Any:
    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _read_only(cls: Any) -> tuple[Any, Any]:
    """Return `__setattr__` and `__delattr__` of a frozen class; a subclass may have attributes beside the fields."""
    names = frozenset(field.name for field in fields(cls))

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
