"""Type plans: how the JSON of a type is shown and validated while it arrives. Computed once per type.

Pydantic has already compiled the type into a core schema with every alias, constraint, validator and discriminator. A
`FieldPlan` stands for one place of that schema. It strips the wrappers (default, nullable, validators, root models)
down to the core schema and decides what is shown before the value is complete:

* `grows`: a `str`, shown from its first character. The annotation counts too, because Pydantic compiles `str` and
  `SecretStr` alike. A pattern applies to the whole text and so prevents growing; a length limit does not.
* `container_plan`: a container that is shown from its bracket: `ObjectPlan` (models, dataclasses, TypedDicts),
  `ListPlan`, `DictPlan`, `TaggedPlan` (a union with a tag).
* neither: shown when complete. That includes tuples, sets, other unions, and everything that has no plan.

A closed container is validated by its own schema in which every planned container inside it is replaced by
`_CLOSED_VALUE`, a function that returns the value that was already validated: no value is validated twice, and no
validator of the container sees a placeholder. If a validator receives the raw data (before, wrap, plain, a custom
`__init__`: `sees_raw_data`), the container is validated from its own text instead. So that a validator still runs at
most three times, parts with validators inside such a container are not planned (`inside_raw`).

Plans are created on first use, so a recursive type needs no special case.
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
    SchemaSource,
    Strictness,
    field_hints,
    fields_schema,
    generators_to_lists,
    has_functions,
    has_raw_validators,
    has_serializer,
    hides_input,
    inner_key,
    is_plain_scalar,
    is_unconstrained,
    key_paths,
    object_fields,
    scalar_parser,
    split_definitions,
    tag_keys,
    unwrap_annotation,
    visible_names,
)
from .json_stream import ARRAY, OBJECT
from .partial_instances import (
    RootModelFactories,
    instance_factory,
    is_bare,
    lazy_class,
    lazy_instance,
    model_builder,
    partial_class,
)

# The values that `_closed_value` returns during the current validation.
closed_values: ContextVar[list[Any]] = ContextVar("closed_values")


def _closed_value(place: int | None) -> Any:
    return None if place is None else closed_values.get()[place]


_CLOSED_VALUE: Final = core_schema.no_info_plain_validator_function(_closed_value)


class FieldPlan:
    """The plan of one place of a type: how its value is validated, and what is shown before it is complete."""

    def __init__(self, schema: Schema, source: SchemaSource, hint: Any = None, *, root: bool = False) -> None:
        self.schema = schema
        self.source = source
        self.root = root
        self.nullable: bool = False  # null is None without a validator call
        self.has_validators: bool = False  # a function may change or reject the value
        self.uses_prior_fields: bool = False  # a validator may read the fields before this one
        self.sees_raw_data: bool = False  # a validator receives the raw data
        self.fatal: bool = True  # an invalid value ends the call: no later text can fix it
        self.root_models: RootModelFactories = ()
        self.hint: Any
        self.markers: frozenset[Any]
        self.hint, self.markers = unwrap_annotation(hint)
        self.config: Any = source.config
        self.core: Schema = self._strip(schema)
        self.grows: bool = self._may_grow()
        self.unconstrained: bool = not self.has_validators and not self.root_models and is_unconstrained(self.core)
        self.plain_text: bool = (
            self.grows and self.unconstrained and not any(key.startswith("str_") for key in self.config or ())
        )
        self.parse_scalar: Callable[[str], Any] | None = None  # raises ValueError or KeyError
        if not self.has_validators and not self.root_models:
            self.parse_scalar = scalar_parser(self.core) or (
                self.validator.validate_json if is_plain_scalar(self.core) else None
            )

    def _strip(self, schema: Schema) -> Schema:
        """Return the schema inside the wrappers, after noting their effects."""
        while True:
            schema = self.source.resolve(schema)
            kind = schema["type"]
            # With a validator or a root model around it, null is not None yet: they have to see it.
            if kind == "nullable":
                self.nullable |= not self.has_validators and not self.root_models
            elif kind in FUNCTIONS:
                self._note_function(schema)
                if kind == "function-plain":
                    return schema
            elif kind == "model" and schema.get("root_model"):
                self._note_root_model(schema)
            elif kind not in ("default", "json-or-python"):
                return schema
            schema = schema[inner_key(schema)]

    def _note_function(self, schema: Schema) -> None:
        self.has_validators = True
        self.uses_prior_fields |= schema["function"]["type"] == "with-info"
        # A before, wrap or plain validator may still accept what the type inside it rejects.
        if schema["type"] != "function-after":
            self.sees_raw_data = True
            self.fatal = False

    def _note_root_model(self, schema: Schema) -> None:
        cls = schema["cls"]
        self.root_models = (*self.root_models, instance_factory(partial_class(cls)))
        self.sees_raw_data |= bool(schema.get("custom_init"))
        self.config = schema.get("config")
        self.hint, markers = unwrap_annotation(field_hints(cls)["root"])
        self.markers |= markers

    def _may_grow(self) -> bool:
        text = self.core["type"] in ("str", "function-plain") and "pattern" not in self.core
        shown = self.hint is str if self.has_validators else self.core["type"] == "str"
        return text and shown and Done not in self.markers

    @cached_property
    def strictness(self) -> Strictness:
        """The strict places of the value."""
        return Strictness(self.schema, self.source)

    @cached_property
    def validator(self) -> SchemaValidator:
        """The validator of the complete value, from its own JSON text."""
        return self.source.validator(self.schema)

    @property
    def shown(self) -> frozenset[str] | None:
        """The names that a location may show if the type requires that its input stays out of errors; else None."""
        schemas = [self.schema, self.source.definitions]
        return visible_names(schemas) if hides_input(schemas) else None

    @cached_property
    def container_plan(self) -> ContainerPlan | None:
        """The plan of the container's contents; None if it is shown only when complete."""
        kind = self.core["type"]
        make = _CONTAINER_PLANS.get(kind)
        if make is None or Done in self.markers or self._hidden(kind):
            return None
        if kind in OBJECTS and object_fields(self.source, self.core) is None:
            return None
        source = self.source.nested(self.config, self.source.inside_raw or (self.validates_own_text and not self.root))
        # A type that refers to itself has a reference, and its plan must be one object, or it would have no end.
        if kind not in OBJECTS or "ref" not in self.core:
            return make(self.core, source, self.hint)
        key = self.core["ref"], source.inside_raw
        if key not in source.container_plans:
            source.container_plans[key] = make(self.core, source, self.hint)
        container_plan: ContainerPlan = source.container_plans[key]
        return container_plan

    def _hidden(self, kind: str) -> bool:
        """Return whether planning this container would run validators once more than allowed."""
        apart = kind in OBJECTS or kind == "tagged-union" or self.validates_own_text
        return self.source.inside_raw and apart and has_functions(self.schema, self.source)

    @cached_property
    def trivial(self) -> bool:
        """True if the container is valid whenever everything in it is."""
        return self.unconstrained and self.core["type"] in ("list", "dict")

    @cached_property
    def build(self) -> Callable[[dict[str, Any]], Any] | None:
        """A function that makes the complete model from its values; None if Pydantic would do more than that."""
        container_plan, cls = self.container_plan, self.core.get("cls", int)
        if self.has_validators or self.root_models or self.validates_own_text or self.core.get("post_init"):
            return None
        if (
            type(container_plan) is not ObjectPlan
            or not issubclass(cls, BaseModel)
            or cls.__new__ is not object.__new__
        ):
            return None
        return (
            model_builder(cls, tuple(container_plan.plans))
            if container_plan.plain_class and container_plan.simple
            else None
        )

    @cached_property
    def shown_at_once(self) -> bool:
        """True if one validation of a whole value gives what is shown of it, without a call to the user's code.

        Validators would run once more than allowed, and those of the root have no effect on what is shown.
        """
        container_plan = self.container_plan
        if has_functions(self.schema, self.source) or self.root_models:
            return False
        if type(container_plan) is ObjectPlan:
            is_model = "cls" in self.core and issubclass(self.core["cls"], BaseModel)
            return is_model and container_plan.plain_class is not None and not self.nullable
        return type(container_plan) is ListPlan or type(container_plan) is DictPlan

    def shown_whole(self, complete: Callable[[], Any]) -> Any:
        """Return the snapshot of a whole value, which `complete` returns; it is called when the snapshot is read."""
        container_plan = self.container_plan
        if type(container_plan) is not ObjectPlan:
            return complete()
        return lazy_instance(container_plan.lazy_class, _CompleteValues(complete))

    def undivided(self) -> FieldPlan:
        """Return a plan of the same place that shows the value only when it is complete."""
        return FieldPlan(self.schema, self.source, Annotated[Any, Done, *self.markers])

    @cached_property
    def validates_own_text(self) -> bool:
        """True if the complete container must be validated from its own text."""
        inside = self.core["type"] in OBJECTS and has_raw_validators(self.source, self.core)
        return self.sees_raw_data or inside or bool(self.core.get("custom_init"))

    @cached_property
    def closing(self) -> SchemaValidator:
        """The validator of the container from a text with numbers in the place of its planned parts."""
        return self.source.validator(self.closing_schema(), changed=True)

    def closing_schema(self, schema: Schema | None = None) -> Any:
        """Return the schema of `closing`, a copy that leaves other references to it unchanged."""
        schema = self.source.resolve(schema or self.schema)
        # Without its reference, under which Pydantic would take the original schema.
        copy = {key: value for key, value in schema.items() if key != "ref"}
        if schema is not self.core:
            return {**copy, inner_key(schema): self.closing_schema(schema[inner_key(schema)])}
        assert self.container_plan is not None
        return self.container_plan.closing(copy)


class _CompleteValues:
    """The values that have arrived of a model that is complete."""

    __slots__ = ("_complete",)

    def __init__(self, complete: Callable[[], Any]) -> None:
        self._complete = complete

    def make(self) -> dict[str, Any]:
        """Return the values in the order of the fields."""
        # The fields that did not arrive have defaults in `model`, which partial objects do not show.
        model = self._complete()
        return {name: value for name, value in model.__dict__.items() if name in model.model_fields_set}


class FieldSlot:
    """The destination of the value of one key of an object."""

    __slots__ = ("fatal", "name", "part_slots", "plan", "rank")

    def __init__(self, name: str, plan: FieldPlan | None, rank: int = 0, *, fatal: bool = True) -> None:
        self.name: str = name
        self.plan: FieldPlan | None = plan
        self.rank: int = rank  # among the names of one field, the lowest wins
        self.fatal: bool = fatal
        self.part_slots: list[tuple[FieldSlot, Path]] = []  # the fields that use a part of the value


class ObjectPlan:
    """The plan of a model, dataclass or TypedDict: its fields by the keys they may have."""

    bracket = OBJECT

    def __init__(self, core: Schema, source: SchemaSource, hint: Any) -> None:
        config: Schema = core.get("config") or {}
        fields: dict[str, Schema] = dict(object_fields(source, core) or ())
        hints: Schema = field_hints(core["cls"]) if "cls" in core else {}
        self.source: SchemaSource = source.nested(config, source.inside_raw)
        self.fatal: bool = not has_raw_validators(source, core) and not core.get("custom_init")
        cls = None if core["type"] == "typed-dict" else partial_class(core["cls"])
        self.make_instance: Callable[..., Any] | None = None if cls is None else instance_factory(cls)
        self.plans: dict[str, FieldPlan] = {
            name: FieldPlan(field["schema"], self.source, hints.get(name)) for name, field in fields.items()
        }
        self.not_null: tuple[str, ...] = tuple(name for name, plan in self.plans.items() if NotNull in plan.markers)
        self.deferred: frozenset[str] = frozenset(
            name for name, field in fields.items() if "serialization" in core or has_serializer(field)
        )
        """The fields whose JSON only a serializer knows, or that have none."""
        self.plain_class: type | None = cls if cls and is_bare(cls) and not self.not_null else None
        self.slots: dict[str, FieldSlot] = {}
        for name, field in fields.items():
            self._add_slots(name, key_paths(name, field, config), shown=not field.get("init_only"))
        self._set_extra(fields_schema(source, core), config)
        one = all(slot.fatal and not slot.part_slots and slot.plan is not None for slot in self.slots.values())
        self.simple: bool = one and self.extra != "allow"  # each field has one key, and there are no extra values
        self._prior_fields_validators: dict[tuple[str, bool], SchemaValidator] = {}

    @cached_property
    def lazy_class(self) -> type:
        """The class of snapshots that make their values when they are read, for a plan with a `plain_class`."""
        assert self.plain_class is not None
        return lazy_class(self.plain_class)

    def _add_slots(self, name: str, paths: list[Path], *, shown: bool) -> None:
        if any(len(path) > 1 for path in paths):
            self.plans[name] = self.plans[name].undivided()
        for rank, (key, *rest) in enumerate(paths):
            slot = FieldSlot(name, self.plans[name] if shown else None, rank, fatal=len(paths) == 1 and not rest)
            # Two fields may have the same key, or parts of it (`AliasPath`): then one slot has both.
            present = self.slots.get(str(key))
            if present is None and not rest:
                self.slots[str(key)] = slot
                continue
            if present is None or not present.part_slots:
                present = self._shared(str(key), present)
            present.part_slots.append((slot, tuple(rest)))

    def _shared(self, key: str, first: FieldSlot | None) -> FieldSlot:
        """Return a slot for a key whose value several fields use, or of which a field uses only a part."""
        slot = self.slots[key] = FieldSlot(key, FieldPlan(core_schema.any_schema(), self.source), fatal=False)
        if first is not None and first.plan is not None:
            first.plan = self.plans[first.name] = first.plan.undivided()
            slot.part_slots.append((first, ()))
        return slot

    def _set_extra(self, inner: Schema, config: Schema) -> None:
        self.extra = inner.get("extra_behavior") or config.get("extra_fields_behavior") or "ignore"
        self.keeps_extra = self.extra == "allow" and inner["type"] == "model-fields"
        schema = inner.get("extras_schema") or core_schema.any_schema()
        self.extra_plan: FieldPlan | None = (
            FieldPlan(schema, self.source).undivided() if self.extra != "ignore" else None
        )

    @cached_property
    def forbid_validator(self) -> SchemaValidator:
        """The validator that raises Pydantic's error for a key that is not allowed."""
        return SchemaValidator(core_schema.model_fields_schema({}, extra_behavior="forbid"))

    def fields_before(self, name: str) -> list[str]:
        """Return the fields that a validator of `name` may read."""
        names = list(self.plans)
        return names[: names.index(name)]

    def prior_fields_validator(self, name: str, closing: bool) -> SchemaValidator:
        """Return a validator of the field in an object that also has, as numbers, the fields before it."""
        if (name, closing) not in self._prior_fields_validators:
            fields = {other: core_schema.model_field(_CLOSED_VALUE) for other in self.fields_before(name)}
            plan = self.plans[name]
            schema: Any = plan.closing_schema() if closing else plan.schema
            fields[name] = core_schema.model_field(schema)
            self._prior_fields_validators[name, closing] = self.source.validator(
                core_schema.model_fields_schema(fields), changed=True
            )
        return self._prior_fields_validators[name, closing]

    def closing(self, schema: dict[str, Any]) -> Any:
        """Return the schema with `_CLOSED_VALUE` for every planned field."""
        if schema["type"] == "typed-dict":
            return {
                **schema,
                "fields": {name: self._with_closed_value(name, f) for name, f in schema["fields"].items()},
            }
        inner = dict(schema["schema"])
        if schema["type"] == "dataclass":
            inner["fields"] = [self._with_closed_value(field["name"], field) for field in inner["fields"]]
        else:
            inner["fields"] = {name: self._with_closed_value(name, field) for name, field in inner["fields"].items()}
        return {**schema, "schema": inner}

    def _with_closed_value(self, name: str, field: Schema) -> Schema:
        if self.plans[name].container_plan is None:
            return field
        schema = field["schema"]
        default = schema["type"] == "default"  # the default must stay: the field may be missing
        return {**field, "schema": {**schema, "schema": _CLOSED_VALUE} if default else _CLOSED_VALUE}


class ListPlan:
    """The plan of a list: the plan of its items."""

    bracket = ARRAY
    not_null: tuple[str, ...] = ()
    fatal = True

    def __init__(self, core: Schema, source: SchemaSource, hint: Any) -> None:
        args = get_args(hint)
        self.item: FieldPlan = FieldPlan(
            core.get("items_schema") or core_schema.any_schema(), source, args[0] if args else None
        )

    def closing(self, schema: dict[str, Any]) -> Any:
        """Return the schema with `_CLOSED_VALUE` for the items, if they are planned."""
        return schema if self.item.container_plan is None else {**schema, "items_schema": _CLOSED_VALUE}


class DictPlan:
    """The plan of a dict: the plan of its values, and a validator of its keys unless they are plain strings."""

    bracket = OBJECT
    not_null: tuple[str, ...] = ()
    fatal = True

    def __init__(self, core: Schema, source: SchemaSource, hint: Any) -> None:
        args = get_args(hint)
        any_schema = core_schema.any_schema()
        keys = core.get("keys_schema") or any_schema
        self.value: FieldPlan = FieldPlan(
            core.get("values_schema") or any_schema, source, args[1] if len(args) > 1 else None
        )
        plan = FieldPlan(keys, source)
        plain = plan.plain_text or plan.core["type"] == "any"
        self.keys: SchemaValidator | None = (
            None if plain else source.validator(core_schema.dict_schema(keys, any_schema))
        )

    def closing(self, schema: dict[str, Any]) -> Any:
        """Return the schema with `_CLOSED_VALUE` for the values, if they are planned."""
        return schema if self.value.container_plan is None else {**schema, "values_schema": _CLOSED_VALUE}


class TaggedPlan:
    """The plan of a union whose member is determined by one key, the tag."""

    bracket = OBJECT
    not_null: tuple[str, ...] = ()
    fatal = True

    def __init__(self, core: Schema, source: SchemaSource, hint: Any) -> None:
        self.keys: frozenset[str] = tag_keys(core["discriminator"])
        self.members: dict[Any, FieldPlan] = {tag: FieldPlan(schema, source) for tag, schema in core["choices"].items()}

    def closing(self, schema: dict[str, Any]) -> Any:
        """Return `_CLOSED_VALUE`: the member has been validated by its own plan."""
        return _CLOSED_VALUE


ContainerPlan = ObjectPlan | ListPlan | DictPlan | TaggedPlan
_CONTAINER_PLANS: Mapping[str, Callable[[Schema, SchemaSource, Any], ContainerPlan]] = {
    **dict.fromkeys(OBJECTS, ObjectPlan),
    "list": ListPlan,
    "dict": DictPlan,
    "tagged-union": TaggedPlan,
}


def plan_for(type_form: Any) -> FieldPlan:
    """Return the plan of a type, created once. Raise Pydantic's error for an invalid type."""
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
    schema = generators_to_lists(given)
    root, source = split_definitions(schema, listed=schema is not given)
    return FieldPlan(root, source, type_form, root=True)
