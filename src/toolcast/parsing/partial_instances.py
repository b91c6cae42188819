"""Partial instances of models and dataclasses: their classes, `repr`, `model_dump`, equality and pickling.

For every class one subclass with the same name is created, once. Its instances are made without `__init__`, validators
or `model_post_init`; their `__dict__` contains the fields that have arrived and nothing else. Missing fields are read
from the subclass, which has `None` for every field, and for every computed field, since those need whole objects. So a
snapshot costs one object, one dict and no call into the user's code, and everything that Pydantic builds on `__dict__`
(iteration, `model_fields_set`, the dump of a surrounding model) sees exactly the fields that arrived.

`repr` and `model_dump` follow this at every depth: complete models inside a partial one are also shown without
defaults, computed fields and custom serializers. A partial instance equals only a partial instance of the same class
with the same fields; it can be copied and pickled.
"""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final, Protocol, TypeGuard, cast

from pydantic import BaseModel, RootModel
from pydantic_core import PydanticUndefined, SchemaSerializer, core_schema

from .core_schemas import LISTS, MAPPINGS

_DICT: Any = dict
_TUPLE: Any = tuple
new_instance: Any = object.__new__
set_attribute: Any = object.__setattr__


class Partial:
    """The marker and the methods of partial instances; first among the bases, so that they take precedence."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Skip the user's `__init_subclass__`, which must not see generated classes."""

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        shown = _repr_fields(type(self))
        present = _values(self)
        yield from ((name, _as_partial(present[name])) for name in shown if name in present)
        yield from ((name, _as_partial(value)) for name, value in (_extra(self) or {}).items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__repr_args__())})"

    def __str__(self) -> str:
        if not isinstance(self, BaseModel):
            return repr(self)
        return " ".join(f"{name}={value!r}" for name, value in self.__repr_args__())

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the fields that have arrived, without those that the repr leaves out."""
        from ..values.html_repr import table

        data = to_shown(self)
        names = [name for name, _ in self.__repr_args__()]
        rows = [(name, data[name]) for name in names if name in data]  # an excluded field is not in the data
        return table(f"{type(self).__name__} (partial)", rows)

    def __reduce__(self) -> tuple[Any, ...]:
        # The user's class is found by name when a pickle is read.
        whole = _whole_class(self)
        private = getattr(self, "__pydantic_private__", None)
        return _restore, (whole, dict(_values(self)), _extra(self), private)


def _whole_class(item: Partial) -> type:
    return item.__class__.__mro__[2]  # the bases are `Partial` and the user's class


def to_shown(item: Any) -> Any:
    """Return an item of a stream as JSON-compatible data to show it.

    A partial object is written by the serializers of its class, which may mask a value, one field at a time: one whose
    serializer fails, as it may need a whole value, is left out.
    """
    from ..values.plain_data import to_plain

    if isinstance(item, list):
        return [to_shown(each) for each in cast("Any", item)]
    if not isinstance(item, Partial):
        return to_plain(item)
    shown: dict[str, Any] = {}
    serializer = getattr(_whole_class(item), "__pydantic_serializer__", None)
    for name in (*_values(item), *(_extra(item) or ())):
        if serializer is None:  # a dataclass of the standard library
            shown[name] = to_plain(getattr(item, name))
            continue
        with suppress(ValueError):
            data = serializer.to_python(item, mode="json", include={name}, by_alias=False, warnings=False, fallback=str)
            shown |= data if isinstance(data, dict) else {}
    return shown


class Unread(Protocol):
    """The values of a partial instance before it is read for the first time."""

    def make(self) -> dict[str, Any]:
        """Return the values."""
        ...


UNREAD: Final = ""
"""The key of an `Unread` in the `__dict__` of a lazy instance: no field has this name."""


@lru_cache(maxsize=1024)
def lazy_class(cls: type) -> type:
    """Return the subclass of a partial class for instances that make their values when one of them is first read.

    From then on the class of the instance is `cls` itself, so that every later access is an ordinary one.
    """

    # Every access comes here, also that of Pydantic and of `isinstance`, so that nothing sees the empty `__dict__`.
    def read(item: Any, name: str) -> Any:
        unread: Unread | None = object.__getattribute__(item, "__dict__").get(UNREAD)
        # Two threads may do this at once. Both make the same values, and both set all of them before the class.
        if unread is not None:
            set_attribute(item, "__dict__", unread.make())
        set_attribute(item, "__class__", cls)
        return getattr(item, name)

    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__slots__": (),  # the same layout, without which the class of an instance cannot change
        "__getattribute__": read,
    }
    meta = cast("Any", type(cls))
    make: Any = ABCMeta.__new__ if issubclass(cls, BaseModel) else meta.__new__
    bases: Any = (cls,)
    return cast("type", make(meta, cls.__name__, bases, namespace))


def lazy_instance(cls: type, unread: Unread) -> Any:
    """Return an instance of a lazy class."""
    item = new_instance(cls)
    set_attribute(item, "__dict__", {UNREAD: unread})
    return item


def is_partial(item: object) -> bool:
    """Return whether a model or dataclass instance is a partial one.

    Raises:
        TypeError: If `item` is neither a model nor a dataclass instance.
    """
    if isinstance(item, Partial):
        return True
    if isinstance(item, BaseModel) or _is_dataclass(item):
        return False
    raise TypeError(f"is_partial() takes a model or a dataclass instance, not {type(item).__name__}")


def partial_class(cls: type) -> type:
    """Return the subclass for partial instances of a model or dataclass, the same one in all threads."""
    # Several threads may make a class at once. The first one's is stored, and the second look-up returns it to all.
    _new_partial_class(cls)
    return _new_partial_class(cls)


@lru_cache(maxsize=1024)
def _new_partial_class(cls: type) -> type:
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
    # Bypasses Pydantic's metaclass, which would compile the class again, but not ABCMeta, which isinstance() needs.
    return cast("type", ABCMeta.__new__(meta, cls.__name__, (Partial, cls), namespace | _model_namespace(cls)))


def is_bare(cls: type) -> bool:
    """Return whether an instance of this model or dataclass has no state besides its fields."""
    keeps_extra = getattr(cls, "model_config", {}).get("extra") == "allow"
    return not (issubclass(cls, BaseModel) and (keeps_extra or getattr(cls, "__private_attributes__", {})))


def instance_factory(cls: type) -> Callable[..., Any]:
    """Return a function that makes a partial instance of the values (a dict it may keep) and the extra ones, if any."""
    private: Mapping[str, Any] = getattr(cls, "__private_attributes__", {})
    keeps_extra = getattr(cls, "model_config", {}).get("extra") == "allow"

    def finish(values: dict[str, Any], extra: dict[str, Any] | None = None) -> Any:
        # The two cheapest steps there are: every snapshot pays for them, once for each open object.
        item = new_instance(cls)
        set_attribute(item, "__dict__", values)
        return item

    def make_full(values: dict[str, Any], extra: dict[str, Any] | None = None) -> Any:
        item = finish(values)
        if keeps_extra:
            set_attribute(item, "__pydantic_extra__", extra or {})
        if private:
            # Methods of the user's class may read private attributes of an instance that is still growing.
            set_attribute(item, "__pydantic_private__", _private_defaults(private))
        return item

    return finish if is_bare(cls) else make_full


def model_builder(cls: type[BaseModel], names: Collection[str]) -> Callable[[dict[str, Any]], Any]:
    """Return a function that makes the complete instance from valid values of all fields, as Pydantic does.

    The function raises `KeyError` if a value is missing.
    """

    def build(values: dict[str, Any]) -> Any:
        item = new_instance(cls)
        set_attribute(item, "__dict__", {name: values[name] for name in names})
        # All four attributes, as Pydantic's own methods (copy, ==, pickle) fail without one of them.
        set_attribute(item, "__pydantic_fields_set__", set(names))
        set_attribute(item, "__pydantic_extra__", None)
        set_attribute(item, "__pydantic_private__", None)
        return item

    return build


RootModelFactories = tuple[Callable[..., Any], ...]
"""The factories of the partial root models around a value, outermost first."""


def wrap_in_root_models(value: Any, root_models: RootModelFactories) -> Any:
    """Return the value inside its root models."""
    # From the inside out: the first of them is the outermost.
    for shell in reversed(root_models):
        value = shell({"root": value})
    return value


def _private_defaults(private: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {name: _private_default(attribute) for name, attribute in private.items()}
    # An attribute without a default is absent, as in a new instance, and not None.
    return {name: value for name, value in defaults.items() if value is not PydanticUndefined}


def _private_default(attribute: Any) -> Any:
    if attribute.default_factory is None:
        return deepcopy(attribute.default)
    if getattr(attribute, "default_factory_takes_validated_data", False):
        return None  # the factory needs a complete object
    return attribute.default_factory()


def _ignore(item: Any, value: Any) -> None:
    """Ignore an assignment: Pydantic sets these attributes when it copies, but here they are computed."""


def _model_namespace(cls: type[BaseModel]) -> dict[str, Any]:
    """Return the attributes of a partial model that Pydantic reads as the state of an instance."""
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
    # Computed at each access, as the number of fields grows from snapshot to snapshot, and few users ask.
    return {*(item.__dict__.keys() & _fields(item.__class__)), *(_extra(item) or ())}


def _fields(cls: Any) -> Mapping[str, Any]:
    """Return the fields of a model or dataclass by name, in the order of their definition."""
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


def _restore(whole: type, values: dict[str, Any], extra: Any, private: Any) -> Any:
    item = instance_factory(partial_class(whole))(values, extra)
    if private is not None:
        set_attribute(item, "__pydantic_private__", private)
    return item


def _as_partial(value: Any) -> Any:
    """Return the value with every complete model in it converted to a partial one with the fields that were set."""
    cls: Any = value.__class__
    # It is shown field by field already; a copy would only cost time.
    if isinstance(value, Partial):
        return value
    if isinstance(value, BaseModel):
        known = value.model_fields_set
        values = {name: part for name, part in value.__dict__.items() if name in known}
        return instance_factory(partial_class(cls))(values, value.__pydantic_extra__)
    if _is_dataclass(value):
        values = {name: getattr(value, name) for name in _fields(cls) if hasattr(value, name)}
        return instance_factory(partial_class(cls))(values)
    return _map_parts(value, lambda part, _: _as_partial(part))


def _map_parts(value: Any, change: Callable[[Any, Any], Any]) -> Any:
    """Return a copy of a list, tuple or dict with every part changed; other values unchanged."""
    if isinstance(value, _DICT):
        return {key: change(part, key) for key, part in value.items()}
    if isinstance(value, LISTS):
        parts = [change(part, index) for index, part in enumerate(value)]
        if isinstance(value, _TUPLE):
            # A named tuple takes its parts as arguments.
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return parts
    return value


def _serializer(cls: type[BaseModel]) -> SchemaSerializer:
    """Return the serializer of a partial model: it builds a tree of plain values, whose leaves Pydantic encodes."""
    config: Any = {key: value for key, value in cls.model_config.items() if key.startswith("ser_json")}
    function = core_schema.plain_serializer_function_ser_schema(_dump, info_arg=True)
    return SchemaSerializer(core_schema.any_schema(serialization=function), config)


def _dump(item: Any, info: core_schema.SerializationInfo) -> Any:
    return _Dump(info).value(item, info.include, info.exclude)


class _Dump:
    """One call of `model_dump`, with its options applied at every depth."""

    def __init__(self, info: core_schema.SerializationInfo) -> None:
        self.info = info

    def value(self, value: Any, include: Any, exclude: Any) -> Any:
        value = _as_partial(value) if isinstance(value, BaseModel) else value
        if isinstance(value, RootModel):
            return self.value(value.__dict__.get("root"), include, exclude)
        if isinstance(value, BaseModel) or _is_dataclass(value):
            return self._object(value, include, exclude)
        if not isinstance(value, (_DICT, *LISTS)):
            return value
        parts = {place: self.value(*inside) for place, *inside in _selected(value, include, exclude)}
        if isinstance(value, _DICT):
            return parts
        return tuple(parts.values()) if isinstance(value, _TUPLE) else list(parts.values())

    def _object(self, item: Any, include: Any, exclude: Any) -> dict[str, Any]:
        fields = _fields(item.__class__)
        present = {
            name: getattr(item, name) for name in fields if not isinstance(item, Partial) or name in item.__dict__
        }
        # Extra values come after the fields, as Pydantic dumps them.
        present |= _extra(item) or {}
        dumped: dict[str, Any] = {}
        for name, value, *inside in _selected(present, include, exclude):
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


def _selected(parts: Any, include: Any, exclude: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield key, part and inner include and exclude of the parts that `include` and `exclude` select."""
    size = 0 if isinstance(parts, _DICT) else len(parts)
    for place, part in parts.items() if isinstance(parts, _DICT) else enumerate(parts):
        inner, outer = _within(include, place, size), _within(exclude, place, size)
        if outer is not True and (include is None or inner is not None):
            yield place, part, None if inner is True else inner, outer


def _within(choice: Any, place: Any, size: int) -> Any:
    """Return the include or exclude of one place: None (nothing), True (all of it), or a selection inside it.

    `size` is the length of a list, whose places may also be counted from its end.
    """
    if choice is None:
        return None
    keys = [key for key in (place, place - size if size else place, "__all__") if key in choice]
    if not keys or not isinstance(choice, MAPPINGS):
        return True if keys else None
    inner = choice[keys[0]]
    return True if inner is ... or inner is True else inner or None
