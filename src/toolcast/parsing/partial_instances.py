"""Instances of a class that are only half there, and how they show themselves.

Strategy: for every class one subclass is made, once, that goes by the same name. Its instances are made without
`__init__`, validators or `model_post_init`; their `__dict__` holds what has arrived and nothing else. What has not
arrived is read from the subclass, which holds `None` for every field, and for every computed field, since those
are for whole objects. So a snapshot costs one object, one dict and no call into the user's code, and whatever
Pydantic builds on `__dict__` (iteration, `model_fields_set`, a surrounding model's dump) sees just what arrived.

`repr` and `model_dump` keep to that at every depth: closed models inside a partial are shown without defaults,
computed fields and custom serializers too. A partial equals only a partial of the same class with the same
fields; it can be copied and pickled.
"""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, TypeGuard, cast

from pydantic import BaseModel, RootModel
from pydantic_core import PydanticUndefined, SchemaSerializer, core_schema

from .core_schemas import LISTS, MAPPINGS

_DICT: Any = dict
_TUPLE: Any = tuple
new: Any = object.__new__
assign: Any = object.__setattr__


class Partial:
    """The mark and the manners of half-filled instances; first among the bases, so that they win."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Nothing: the user's `__init_subclass__` is not told of classes that are not theirs."""

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        shown = _repr_fields(type(self))
        held = _values(self)
        yield from ((name, _plain(held[name])) for name in shown if name in held)
        yield from ((name, _plain(value)) for name, value in (_extra(self) or {}).items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__repr_args__())})"

    def __str__(self) -> str:
        if not isinstance(self, BaseModel):
            return repr(self)
        return " ".join(f"{name}={value!r}" for name, value in self.__repr_args__())

    def __reduce__(self) -> tuple[Any, ...]:
        whole = type(self).__mro__[2]
        private = getattr(self, "__pydantic_private__", None)
        return _revived, (whole, dict(_values(self)), _extra(self), private)


def is_partial(item: object) -> bool:
    """Whether this model or dataclass instance is one that was still growing. `TypeError` for other things."""
    if isinstance(item, Partial):
        return True
    if isinstance(item, BaseModel) or _is_dataclass(item):
        return False
    raise TypeError(f"is_partial() takes a model or a dataclass instance, not {type(item).__name__}")


@lru_cache(maxsize=1024)
def partial_class(cls: type) -> type:
    """The subclass whose instances are the half-filled ones of a model or dataclass."""
    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        **dict.fromkeys(_fields(cls)),
        **dict.fromkeys(getattr(cls, "__pydantic_computed_fields__", ())),
    }
    meta = cast("Any", type(cls))
    if not issubclass(cls, BaseModel):
        return cast("type", meta(cls.__name__, (Partial, cls), namespace))
    # Past Pydantic's metaclass, which would compile the class again, but not past the one that keeps
    # isinstance() right.
    return cast("type", ABCMeta.__new__(meta, cls.__name__, (Partial, cls), namespace | _model_namespace(cls)))


def is_bare(cls: type) -> bool:
    """Whether the values of its fields are all that an instance of this model or dataclass holds."""
    keeps_extra = getattr(cls, "model_config", {}).get("extra") == "allow"
    return not (issubclass(cls, BaseModel) and (keeps_extra or getattr(cls, "__private_attributes__", {})))


def dresser(cls: type) -> Callable[..., Any]:
    """A function that makes a snapshot of the values (a dict it may keep) and the extra ones, if any."""
    private: Mapping[str, Any] = getattr(cls, "__private_attributes__", {})
    keeps_extra = getattr(cls, "model_config", {}).get("extra") == "allow"

    def dressed(values: dict[str, Any], extra: dict[str, Any] | None = None) -> Any:
        item = new(cls)
        assign(item, "__dict__", values)
        return item

    def dressed_well(values: dict[str, Any], extra: dict[str, Any] | None = None) -> Any:
        item = dressed(values)
        if keeps_extra:
            assign(item, "__pydantic_extra__", extra or {})
        if private:
            assign(item, "__pydantic_private__", _private_defaults(private))
        return item

    return dressed if is_bare(cls) else dressed_well


def builder(cls: type[BaseModel], names: Collection[str]) -> Callable[[dict[str, Any]], Any]:
    """A function that makes the whole instance, as Pydantic does, of valid values for all of these fields.

    It raises KeyError where one is missing.
    """

    def built(values: dict[str, Any]) -> Any:
        item = new(cls)
        assign(item, "__dict__", {name: values[name] for name in names})
        assign(item, "__pydantic_fields_set__", set(names))
        assign(item, "__pydantic_extra__", None)
        assign(item, "__pydantic_private__", None)
        return item

    return built


Shells = tuple[Callable[..., Any], ...]
"""What makes the root models around a value, half-filled ones, the outermost first."""


def shelled(value: Any, shells: Shells) -> Any:
    """The value in its root models."""
    for shell in reversed(shells):
        value = shell({"root": value})
    return value


def _private_defaults(private: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {name: _private_default(attribute) for name, attribute in private.items()}
    return {name: value for name, value in defaults.items() if value is not PydanticUndefined}


def _private_default(attribute: Any) -> Any:
    if attribute.default_factory is None:
        return deepcopy(attribute.default)
    if getattr(attribute, "default_factory_takes_validated_data", False):
        return None  # it asks for a whole object
    return attribute.default_factory()


def _ignore(item: Any, value: Any) -> None:
    """Pydantic sets these attributes when it copies; here they follow from the others."""


def _model_namespace(cls: type[BaseModel]) -> dict[str, Any]:
    """What a partial model answers where Pydantic asks for the state of an instance."""
    nothing = property(lambda item: None, _ignore)
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__pydantic_fields_set__": property(_fields_set, _ignore),
        "__pydantic_serializer__": _serializer(cls),
    }
    if cls.model_config.get("extra") != "allow":
        namespace["__pydantic_extra__"] = nothing
    if not cls.__private_attributes__:
        namespace["__pydantic_private__"] = nothing
    return namespace


def _fields_set(item: Any) -> set[str]:
    return {*(item.__dict__.keys() & _fields(item.__class__)), *(_extra(item) or ())}


def _fields(cls: Any) -> Mapping[str, Any]:
    """The fields of a model or dataclass by name, in the order of their definition."""
    known: Mapping[str, Any] = getattr(cls, "__pydantic_fields__", {})
    if issubclass(cls, BaseModel):
        return known
    return {field.name: known.get(field.name, field) for field in dataclasses.fields(cls)}


def _repr_fields(cls: type) -> list[str]:
    return [name for name, field in _fields(cls).items() if field.repr]


def _values(item: Any) -> dict[str, Any]:
    values: dict[str, Any] = item.__dict__
    return values


def _extra(item: Any) -> dict[str, Any] | None:
    return getattr(item, "__pydantic_extra__", None)


def _is_dataclass(item: object) -> TypeGuard[Any]:
    return dataclasses.is_dataclass(item) and not isinstance(item, type)


def _revived(whole: type, values: dict[str, Any], extra: Any, private: Any) -> Any:
    item = dresser(partial_class(whole))(values, extra)
    if private is not None:
        assign(item, "__pydantic_private__", private)
    return item


def _plain(value: Any) -> Any:
    """The value with every whole model in it turned into a partial of what was set."""
    cls: Any = value.__class__
    if isinstance(value, Partial):
        return value
    if isinstance(value, BaseModel):
        known = value.model_fields_set
        values = {name: part for name, part in value.__dict__.items() if name in known}
        return dresser(partial_class(cls))(values, value.__pydantic_extra__)
    if _is_dataclass(value):
        values = {name: getattr(value, name) for name in _fields(cls) if hasattr(value, name)}
        return dresser(partial_class(cls))(values)
    return _mapped(value, lambda part, _: _plain(part))


def _mapped(value: Any, change: Callable[[Any, Any], Any]) -> Any:
    """A copy of a list, tuple or dict with every part changed; other values as they are."""
    if isinstance(value, _DICT):
        return {key: change(part, key) for key, part in value.items()}
    if isinstance(value, LISTS):
        parts = [change(part, index) for index, part in enumerate(value)]
        if isinstance(value, _TUPLE):
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return parts
    return value


def _serializer(cls: type[BaseModel]) -> SchemaSerializer:
    """What `model_dump` of a partial calls: a tree of what arrived, whose leaves Pydantic turns into JSON."""
    config: Any = {key: value for key, value in cls.model_config.items() if key.startswith("ser_json")}
    function = core_schema.plain_serializer_function_ser_schema(_dump, info_arg=True)
    return SchemaSerializer(core_schema.any_schema(serialization=function), config)


def _dump(item: Any, info: core_schema.SerializationInfo) -> Any:
    return _Dump(info).value(item, info.include, info.exclude)


class _Dump:
    """One call of `model_dump`: the options, applied at every depth."""

    def __init__(self, info: core_schema.SerializationInfo) -> None:
        self.info = info

    def value(self, value: Any, include: Any, exclude: Any) -> Any:
        value = _plain(value) if isinstance(value, BaseModel) else value
        if isinstance(value, RootModel):
            return self.value(value.__dict__.get("root"), include, exclude)
        if isinstance(value, BaseModel) or _is_dataclass(value):
            return self._object(value, include, exclude)
        if not isinstance(value, (_DICT, *LISTS)):
            return value
        parts = {place: self.value(*inside) for place, *inside in _kept(value, include, exclude)}
        if isinstance(value, _DICT):
            return parts
        return tuple(parts.values()) if isinstance(value, _TUPLE) else list(parts.values())

    def _object(self, item: Any, include: Any, exclude: Any) -> dict[str, Any]:
        fields = _fields(item.__class__)
        held = {name: getattr(item, name) for name in fields if not isinstance(item, Partial) or name in item.__dict__}
        held |= _extra(item) or {}
        dumped: dict[str, Any] = {}
        for name, value, *inside in _kept(held, include, exclude):
            field = fields.get(name)
            if not self._omitted(field, value):
                dumped[self._alias(item, field) or name] = self.value(value, *inside)
        return dumped

    def _omitted(self, field: Any, value: Any) -> bool:
        if self.info.exclude_none and value is None:
            return True
        at_default = self.info.exclude_defaults and field is not None and field.default == value
        return at_default or bool(getattr(field, "exclude", None))

    def _alias(self, item: Any, field: Any) -> str | None:
        config = getattr(item, "model_config", {})
        by_alias = self.info.by_alias or config.get("serialize_by_alias")
        return getattr(field, "serialization_alias", None) if by_alias else None


def _kept(parts: Any, include: Any, exclude: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """The parts that `include` and `exclude` let through: place, part, and what they say of its inside."""
    size = 0 if isinstance(parts, _DICT) else len(parts)
    for place, part in parts.items() if isinstance(parts, _DICT) else enumerate(parts):
        inner, outer = _within(include, place, size), _within(exclude, place, size)
        if outer is not True and (include is None or inner is not None):
            yield place, part, None if inner is True else inner, outer


def _within(choice: Any, place: Any, size: int) -> Any:
    """What an include or exclude says of one place: None (nothing), True (all of it), or a choice inside of it.

    `size` is the length of a list, whose places can also be counted from its end.
    """
    if choice is None:
        return None
    keys = [key for key in (place, place - size if size else place, "__all__") if key in choice]
    if not keys or not isinstance(choice, MAPPINGS):
        return True if keys else None
    inner = choice[keys[0]]
    return True if inner is ... or inner is True else inner or None
