"""What a type asks of the JSON that is to become it, worked out once: the plan that growing values walk.

Strategy: Pydantic has already compiled the type into a core schema, which knows every alias, constraint, validator
and discriminator. A `FieldPlan` stands for one place of that schema. It strips the wrappers (default, nullable,
validators, root models) down to the core and says what may be shown while its JSON arrives:

* `grows`: a `str`, shown from its first character. Asks for the annotation too, because Pydantic writes `str`
  and `SecretStr` alike. A pattern speaks of the whole text and so forbids it; a length limit does not.
* `shape`: a container that is shown from its bracket: `ObjectPlan` (models, dataclasses, TypedDicts),
  `ListPlan`, `DictPlan`, `TaggedPlan` (a union that a key decides).
* neither: shown when complete. So are tuples, sets, other unions, and whatever the plan does not know.

When a container closes it is validated by its own schema in which every planned container inside it is replaced by
`take`, which hands out the value that is already there: no value is validated again, and no validator of the
containers sees a stand-in. Where a validator wants to see the raw data (before, wrap, plain, a custom `__init__`:
`whole`) that cannot be, and the container is validated from its own text. So that a validator still runs three
times at most, whatever within such a container has validators is not taken apart (`_shadowed`).

Nodes and shapes are made when they are first met, so a recursive type is no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic_core import SchemaValidator, core_schema

from .core_schemas import (
    FUNCTIONS,
    OBJECTS,
    Done,
    NotNull,
    Path,
    Schema,
    Source,
    Strictness,
    bare,
    fields_of,
    has_functions,
    hides_input,
    hints_of,
    inside,
    is_leaf,
    listed,
    object_of,
    paths_of,
    raw_validators,
    reader_of,
    says_nothing,
    sourced,
    tag_keys,
)
from .json_stream import ARRAY, OBJECT
from .partial_instances import Shells, builder, dresser, is_bare, partial_class

# The values that the `take` of the validation now running hands out.
taken: ContextVar[list[Any]] = ContextVar("taken")


def _take(place: int | None) -> Any:
    return None if place is None else taken.get()[place]


_TAKE: Final = core_schema.no_info_plain_validator_function(_take)


class FieldPlan:
    """One place of a type: how its value is validated, and what of it may be shown before it is complete."""

    def __init__(self, schema: Schema, source: Source, hint: Any = None, *, root: bool = False) -> None:
        self.schema = schema
        self.source = source
        self.root = root
        self.nullable: bool = False  # null is None, and nobody has to be asked
        self.judged: bool = False  # a function has a say in the value
        self.informed: bool = False  # one that may ask for the fields before it
        self.whole: bool = False  # one that wants to see the raw data
        self.firm: bool = True  # when the complete value does not validate, nothing can mend that
        self.shells: Shells = ()
        self.hint: Any
        self.markers: frozenset[Any]
        self.hint, self.markers = bare(hint)
        self.config: Any = source.config
        self.core: Schema = self._strip(schema)
        self.grows: bool = self._may_grow()
        self.plain: bool = not self.judged and not self.shells and says_nothing(self.core)
        self.plain_text: bool = (
            self.grows and self.plain and not any(key.startswith("str_") for key in self.config or ())
        )
        self.quick: Callable[[str], Any] | None = None  # reads the JSON text of a scalar; ValueError, KeyError
        if not self.judged and not self.shells:
            self.quick = reader_of(self.core) or (self.validator.validate_json if is_leaf(self.core) else None)

    def _strip(self, schema: Schema) -> Schema:
        """The schema inside the wrappers, after noting what they say."""
        while True:
            schema = self.source.resolved(schema)
            kind = schema["type"]
            if kind == "nullable":
                self.nullable |= not self.judged and not self.shells
            elif kind in FUNCTIONS:
                self._note_function(schema)
                if kind == "function-plain":
                    return schema
            elif kind == "model" and schema.get("root_model"):
                self._note_root_model(schema)
            elif kind not in ("default", "json-or-python"):
                return schema
            schema = schema[inside(schema)]

    def _note_function(self, schema: Schema) -> None:
        self.judged = True
        self.informed |= schema["function"]["type"] == "with-info"
        if schema["type"] != "function-after":
            self.whole = True
            self.firm = False

    def _note_root_model(self, schema: Schema) -> None:
        cls = schema["cls"]
        self.shells = (*self.shells, dresser(partial_class(cls)))
        self.whole |= bool(schema.get("custom_init"))
        self.config = schema.get("config")
        self.hint, markers = bare(hints_of(cls)["root"])
        self.markers |= markers

    def _may_grow(self) -> bool:
        text = self.core["type"] in ("str", "function-plain") and "pattern" not in self.core
        shown = self.hint is str if self.judged else self.core["type"] == "str"
        return text and shown and Done not in self.markers

    @cached_property
    def strictness(self) -> Strictness:
        """Which places of the value are strict."""
        return Strictness(self.schema, self.source)

    @cached_property
    def validator(self) -> SchemaValidator:
        """Validates the complete value from its own JSON text."""
        return self.source.validator(self.schema)

    @property
    def hides_input(self) -> bool:
        """Return whether the type asks for its input to stay out of errors."""
        return hides_input([self.schema, self.source.definitions])

    @cached_property
    def shape(self) -> Shape | None:
        """How the container is taken apart; None: not at all."""
        kind = self.core["type"]
        make = _SHAPES.get(kind)
        if make is None or Done in self.markers or self._hidden(kind):
            return None
        if kind in OBJECTS and fields_of(self.source, self.core) is None:
            return None
        source = self.source.within(self.config, self.source.shadowed or (self.wants_text and not self.root))
        if kind not in OBJECTS or "ref" not in self.core:
            return make(self.core, source, self.hint)
        key = self.core["ref"], source.shadowed
        if key not in source.shapes:
            source.shapes[key] = make(self.core, source, self.hint)
        shape: Shape = source.shapes[key]
        return shape

    def _hidden(self, kind: str) -> bool:
        """Whether validators would run once more for taking this apart inside of what sees its raw data."""
        apart = kind in OBJECTS or kind == "tagged-union" or self.wants_text
        return self.source.shadowed and apart and has_functions(self.schema, self.source)

    @cached_property
    def trivial(self) -> bool:
        """Whether the container is right when everything in it is."""
        return self.plain and self.core["type"] in ("list", "dict")

    @cached_property
    def build(self) -> Callable[[dict[str, Any]], Any] | None:
        """Makes the complete model of its values; None where Pydantic would do more than that."""
        shape, cls = self.shape, self.core.get("cls", int)
        if self.judged or self.shells or self.wants_text or self.core.get("post_init"):
            return None
        if type(shape) is not ObjectPlan or not issubclass(cls, BaseModel) or cls.__new__ is not object.__new__:
            return None
        return builder(cls, tuple(shape.nodes)) if shape.bare and shape.simple else None

    def undivided(self) -> FieldPlan:
        """The same place, shown only when it is complete."""
        return FieldPlan(self.schema, self.source, Annotated[Any, Done, *self.markers])

    @cached_property
    def wants_text(self) -> bool:
        """Whether the complete container is to be validated from its own text."""
        inside = self.core["type"] in OBJECTS and raw_validators(self.source, self.core)
        return self.whole or inside or bool(self.core.get("custom_init"))

    @cached_property
    def closing(self) -> SchemaValidator:
        """Validates the container from a text in which numbers stand for the containers inside it."""
        return self.source.validator(self.closing_schema(), changed=True)

    def closing_schema(self, schema: Schema | None = None) -> Any:
        """The schema of `closing`, which leaves the references of the others alone."""
        schema = self.source.resolved(schema or self.schema)
        copy = {key: value for key, value in schema.items() if key != "ref"}
        if schema is not self.core:
            return {**copy, inside(schema): self.closing_schema(schema[inside(schema)])}
        assert self.shape is not None
        return self.shape.closing(copy)


class FieldSlot:
    """Where the value of one key of an object goes."""

    __slots__ = ("firm", "name", "node", "picks", "rank")

    def __init__(self, name: str, node: FieldPlan | None, rank: int = 0, *, firm: bool = True) -> None:
        self.name: str = name
        self.node: FieldPlan | None = node
        self.rank: int = rank  # of the names of one field, the lower wins
        self.firm: bool = firm
        self.picks: list[tuple[FieldSlot, Path]] = []  # the fields that take a part of the value


class ObjectPlan:
    """A model, dataclass or TypedDict: its fields by the keys they may come under."""

    bracket = OBJECT

    def __init__(self, core: Schema, source: Source, hint: Any) -> None:
        config: Schema = core.get("config") or {}
        fields: dict[str, Schema] = dict(fields_of(source, core) or ())
        hints: Schema = hints_of(core["cls"]) if "cls" in core else {}
        self.source: Source = source.within(config, source.shadowed)
        self.firm: bool = not raw_validators(source, core) and not core.get("custom_init")
        cls = None if core["type"] == "typed-dict" else partial_class(core["cls"])
        self.dress: Callable[..., Any] | None = None if cls is None else dresser(cls)
        self.nodes: dict[str, FieldPlan] = {
            name: FieldPlan(field["schema"], self.source, hints.get(name)) for name, field in fields.items()
        }
        self.awaited: tuple[str, ...] = tuple(name for name, node in self.nodes.items() if NotNull in node.markers)
        self.bare: type | None = cls if cls and is_bare(cls) and not self.awaited else None
        self.slots: dict[str, FieldSlot] = {}
        for name, field in fields.items():
            self._add_slots(name, paths_of(name, field, config), shown=not field.get("init_only"))
        self._set_extra(object_of(source, core), config)
        one = all(slot.firm and not slot.picks and slot.node is not None for slot in self.slots.values())
        self.simple: bool = one and self.extra != "allow"  # each field under one key, and nothing beside them
        self._informed: dict[tuple[str, bool], SchemaValidator] = {}

    def _add_slots(self, name: str, paths: list[Path], *, shown: bool) -> None:
        if any(len(path) > 1 for path in paths):
            self.nodes[name] = self.nodes[name].undivided()
        for rank, (key, *rest) in enumerate(paths):
            slot = FieldSlot(name, self.nodes[name] if shown else None, rank, firm=len(paths) == 1 and not rest)
            held = self.slots.get(str(key))
            if held is None and not rest:
                self.slots[str(key)] = slot
                continue
            if held is None or not held.picks:
                held = self._shared(str(key), held)
            held.picks.append((slot, tuple(rest)))

    def _shared(self, key: str, first: FieldSlot | None) -> FieldSlot:
        """A slot for a key whose value more than one field, or only a part of it some field, is made of."""
        slot = self.slots[key] = FieldSlot(key, FieldPlan(core_schema.any_schema(), self.source), firm=False)
        if first is not None and first.node is not None:
            first.node = self.nodes[first.name] = first.node.undivided()
            slot.picks.append((first, ()))
        return slot

    def _set_extra(self, inner: Schema, config: Schema) -> None:
        self.extra = inner.get("extra_behavior") or config.get("extra_fields_behavior") or "ignore"
        self.keeps_extra = self.extra == "allow" and inner["type"] == "model-fields"
        schema = inner.get("extras_schema") or core_schema.any_schema()
        self.others: FieldPlan | None = FieldPlan(schema, self.source).undivided() if self.extra != "ignore" else None

    @cached_property
    def forbidding(self) -> SchemaValidator:
        """Raises what Pydantic raises for a key that must not be there."""
        return SchemaValidator(core_schema.model_fields_schema({}, extra_behavior="forbid"))

    def before(self, name: str) -> list[str]:
        """The fields that a validator of `name` may ask for."""
        names = list(self.nodes)
        return names[: names.index(name)]

    def informed(self, name: str, closing: bool) -> SchemaValidator:
        """Validates the field in an object that holds it and, as numbers, the fields before it."""
        if (name, closing) not in self._informed:
            fields = {other: core_schema.model_field(_TAKE) for other in self.before(name)}
            node = self.nodes[name]
            schema: Any = node.closing_schema() if closing else node.schema
            fields[name] = core_schema.model_field(schema)
            self._informed[name, closing] = self.source.validator(core_schema.model_fields_schema(fields), changed=True)
        return self._informed[name, closing]

    def closing(self, schema: dict[str, Any]) -> Any:
        """The schema with `take` for every field that is taken apart."""
        if schema["type"] == "typed-dict":
            return {**schema, "fields": {name: self._taking(name, f) for name, f in schema["fields"].items()}}
        inner = dict(schema["schema"])
        if schema["type"] == "dataclass":
            inner["fields"] = [self._taking(field["name"], field) for field in inner["fields"]]
        else:
            inner["fields"] = {name: self._taking(name, field) for name, field in inner["fields"].items()}
        return {**schema, "schema": inner}

    def _taking(self, name: str, field: Schema) -> Schema:
        if self.nodes[name].shape is None:
            return field
        schema = field["schema"]
        default = schema["type"] == "default"  # which also says that the field may be missing
        return {**field, "schema": {**schema, "schema": _TAKE} if default else _TAKE}


class ListPlan:
    """A list: the node of its items."""

    bracket = ARRAY
    awaited: tuple[str, ...] = ()
    firm = True

    def __init__(self, core: Schema, source: Source, hint: Any) -> None:
        args = get_args(hint)
        self.item: FieldPlan = FieldPlan(
            core.get("items_schema") or core_schema.any_schema(), source, args[0] if args else None
        )

    def closing(self, schema: dict[str, Any]) -> Any:
        """The schema with `take` for the items, if they are taken apart."""
        return schema if self.item.shape is None else {**schema, "items_schema": _TAKE}


class DictPlan:
    """A dict: the node of its values, and a validator for its keys where they are not plain strings."""

    bracket = OBJECT
    awaited: tuple[str, ...] = ()
    firm = True

    def __init__(self, core: Schema, source: Source, hint: Any) -> None:
        args = get_args(hint)
        any_schema = core_schema.any_schema()
        keys = core.get("keys_schema") or any_schema
        self.value: FieldPlan = FieldPlan(
            core.get("values_schema") or any_schema, source, args[1] if len(args) > 1 else None
        )
        node = FieldPlan(keys, source)
        plain = node.plain_text or node.core["type"] == "any"
        self.keys: SchemaValidator | None = (
            None if plain else source.validator(core_schema.dict_schema(keys, any_schema))
        )

    def closing(self, schema: dict[str, Any]) -> Any:
        """The schema with `take` for the values, if they are taken apart."""
        return schema if self.value.shape is None else {**schema, "values_schema": _TAKE}


class TaggedPlan:
    """A union whose member is known as soon as one key of the object, the tag, is."""

    bracket = OBJECT
    awaited: tuple[str, ...] = ()
    firm = True

    def __init__(self, core: Schema, source: Source, hint: Any) -> None:
        self.keys: frozenset[str] = tag_keys(core["discriminator"])
        self.members: dict[Any, FieldPlan] = {tag: FieldPlan(schema, source) for tag, schema in core["choices"].items()}

    def closing(self, schema: dict[str, Any]) -> Any:
        """`take`: the member has been validated by its own node."""
        return _TAKE


Shape = ObjectPlan | ListPlan | DictPlan | TaggedPlan
_SHAPES: Mapping[str, Callable[[Schema, Source, Any], Shape]] = {
    **dict.fromkeys(OBJECTS, ObjectPlan),
    "list": ListPlan,
    "dict": DictPlan,
    "tagged-union": TaggedPlan,
}


def plan_for(type_form: Any) -> FieldPlan:
    """The plan of a type, made once: the node of its whole value. Raises what Pydantic raises for a bad type."""
    try:
        hash(type_form)
    except TypeError:  # unhashable metadata in an Annotated
        return _plan(type_form)
    # Equal hints need not be one type: `int | str` equals `str | int`.
    return _cached_plan(type_form, "" if isinstance(type_form, type) else repr(type_form))


@lru_cache(maxsize=512)
def _cached_plan(type_form: Any, written: str) -> FieldPlan:
    return _plan(type_form)


def _plan(type_form: Any) -> FieldPlan:
    given: Any = TypeAdapter(type_form).core_schema
    schema = listed(given)
    root, source = sourced(schema, listed=schema is not given)
    return FieldPlan(root, source, type_form, root=True)
