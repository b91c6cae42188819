"""`lazy_dataclasses.dataclass` beside `dataclasses.dataclass`: classes of the same fields behave alike."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

import toolcast
from toolcast.lazy import lazy_dataclasses

Decorator = Callable[..., Any]
lazy: Decorator = lazy_dataclasses.dataclass
standard: Decorator = dataclasses.dataclass

OPTIONS = st.fixed_dictionaries(dict.fromkeys(("eq", "frozen", "slots", "match_args", "kw_only"), st.booleans()))
KINDS = st.sampled_from(["plain", "default", "factory", "hidden", "not compared", "not hashed", "no parameter"])


def kind_of_field(kind: str) -> Any:
    """Return the default of a field in the body of a class."""
    return {
        "default": 7,
        "factory": field(default_factory=list),
        "hidden": field(default=7, repr=False),
        "not compared": field(default=7, compare=False),
        "not hashed": field(default=(), hash=False),
        "no parameter": field(init=False, default=8),
    }[kind]


def same_class(decorator: Decorator, kinds: list[str], options: dict[str, Any], keywords: int) -> Any:
    """Return a class with a field of each kind; the last `keywords` of them are parameters only by name."""
    names = [f"field_{number}" for number in range(len(kinds))]
    annotations = dict.fromkeys(names, "object")
    if keywords:
        split = max(len(names) - keywords, 0)
        annotations = {
            **dict.fromkeys(names[:split], "object"),
            "_": KW_ONLY,
            **dict.fromkeys(names[split:], "object"),
        }
    body = {name: kind_of_field(kind) for name, kind in zip(names, kinds, strict=True) if kind != "plain"}
    made = type("Value", (), {"__annotations__": annotations, "__module__": __name__, "__doc__": "A value.", **body})
    return decorator(**options)(made)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[str], dict[str, Any], int]:
    """Draw kinds of fields, those without a default first, options, and a number of keyword-only fields."""
    kinds = sorted(draw(st.lists(KINDS, max_size=5)), key=lambda kind: kind != "plain")
    return kinds, draw(OPTIONS), draw(st.integers(0, 3))


def outcome(action: Callable[[], Any]) -> str:
    """Return the result of an action, or its error, as text."""
    try:
        return repr(action())
    except Exception as error:
        return repr(error)


def behaviour(cls: Any, plain: int) -> list[object]:
    """Return what a class and its instances do; the first `plain` fields have no default."""
    names = [each.name for each in dataclasses.fields(cls)]
    parameters = {name: index for index, name in enumerate(inspect.signature(cls).parameters)}
    required = {name: value for name, value in parameters.items() if value < plain}

    def make(**values: object) -> Any:
        return cls(**{**required, **values})

    one, other = make(), make()
    changed = [make(**{name: "other"}) for name in parameters]
    # Of a frozen class with slots, the standard library's error for other names is wrong until Python 3.13.
    some = [*names[:1], *(() if "__slots__" in vars(cls) else ("field_9",))]
    return [
        str(inspect.signature(cls)),
        cls.__init__.__annotations__,
        cls.__init__.__qualname__,
        cls.__init__.__module__,
        getattr(cls, "__match_args__", None),
        cls.__doc__,
        getattr(cls, "__slots__", None),
        cls.__hash__ is None,
        repr(cls.__dataclass_params__),
        repr(one),
        [repr(each) for each in changed],
        [getattr(one, name) for name in names],
        one == one,
        one == other,
        [one == each for each in changed],
        one == names,
        outcome(lambda: hash(one) == hash(other)) if "__eq__" in vars(cls) else "by identity",
        [outcome(lambda each=each: hash(one) == hash(each)) for each in changed] if "__eq__" in vars(cls) else [],
        repr(dataclasses.replace(one)),
        dataclasses.asdict(one),
        dataclasses.astuple(one),
        repr(copy.copy(one)),
        repr(copy.deepcopy(one)),
        [outcome(lambda name=name: setattr(one, name, 1)) for name in some],
        [outcome(lambda name=name: delattr(other, name)) for name in some],
        outcome(lambda: cls(*names, "one too many")),
        outcome(lambda: cls(missing=1)),
        outcome(cls),
    ]


@given(shapes())
def test_it_behaves_as_the_standard_library(shape: tuple[list[str], dict[str, Any], int]) -> None:
    plain = shape[0].count("plain")
    expected = behaviour(same_class(standard, *shape), plain)
    assert behaviour(same_class(lazy, *shape), plain) == expected


@lazy(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list, compare=False)
    kind: ClassVar[str] = "point"


@lazy(frozen=True, slots=True)
class NamedPoint(Point):
    """A point with a name."""

    name: str = ""


@lazy(frozen=True)
class Checked:
    """A value that checks itself."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"size is {self.size}")

    def __repr__(self) -> str:
        return f"<{self.size}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checked)


@lazy(frozen=True, slots=True)
class FromText:
    """A value that is made of text, with its own hash and pickle."""

    size: int

    def __init__(self, size: str) -> None:
        object.__setattr__(self, "size", int(size))

    def __hash__(self) -> int:
        return 5

    def __getstate__(self) -> str:
        return str(self.size)

    def __setstate__(self, state: str) -> None:
        object.__setattr__(self, "size", -int(state))


def test_methods_can_be_left_out() -> None:
    made = same_class(lazy, ["default"], {"init": False, "repr": False, "eq": False}, 0)
    assert not {"__init__", "__repr__", "__eq__"} & set(vars(made))
    assert made() != made()
    with pytest.raises(ValueError, match="order"):  # its methods are not made here
        same_class(lazy, ["default"], {"order": True}, 0)


def test_init_is_compiled_at_the_first_lookup() -> None:
    made = same_class(lazy, ["plain"], {"frozen": True, "slots": True}, 0)
    assert not inspect.isfunction(vars(made)["__init__"])
    assert made(1).field_0 == 1
    assert inspect.isfunction(vars(made)["__init__"])


def test_a_subclass_may_be_the_first_that_looks_it_up() -> None:
    made = same_class(lazy, ["plain"], {"frozen": True, "slots": True}, 0)

    class Derived(made):  # type: ignore[misc]  # a class made at run time
        def __init__(self) -> None:
            super().__init__(3)
            self.more = 4

    derived = Derived()
    assert (derived.field_0, derived.more) == (3, 4)
    with pytest.raises(FrozenInstanceError):
        derived.field_0 = 5
    del derived.more
    with pytest.raises(FrozenInstanceError):
        del derived.field_0


def test_dataclasses_derive_from_it() -> None:
    assert NamedPoint(1, 2, name="a") == NamedPoint(1, 2, [], "a")
    assert NamedPoint(1, 2) != Point(1, 2)
    assert Point.kind == "point"

    @dataclasses.dataclass(frozen=True)
    class Third(NamedPoint):
        z: int = 9

    assert repr(Third(1)).endswith("Third(x=1, y=0, tags=[], name='', z=9)")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'z'"):
        Third(1).z = 2  # type: ignore[misc]  # it is frozen
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Mutable", (Point,), {}))


def test_a_method_of_the_class_is_kept() -> None:
    assert repr(Checked(1)) == "<1>"
    assert Checked(1) == Checked(2)
    assert hash(Checked(1)) == hash((1,))
    assert hash(FromText("1")) == 5
    assert pickle.loads(pickle.dumps(FromText("1"))).size == -1
    with pytest.raises(ValueError, match="size is -1"):
        Checked(-1)


def test_a_frozen_value_with_slots_has_no_other_attributes() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'z'"):
        Point(1).z = 1  # type: ignore[attr-defined]  # that is the test


def test_pickles() -> None:
    for value in (Point(1, 2, ["a"]), NamedPoint(1, name="b"), Checked(3)):
        again = pickle.loads(pickle.dumps(value))
        assert type(again) is type(value)
        assert dataclasses.astuple(again) == dataclasses.astuple(value)


def test_it_is_a_dataclass_for_pydantic() -> None:
    assert TypeAdapter(Point).validate_python({"x": 1, "y": 2}) == Point(1, 2)
    assert TypeAdapter(Point).dump_python(Point(1, 2)) == {"x": 1, "y": 2, "tags": []}
    assert TypeAdapter(Point).json_schema()["required"] == ["x"]


def test_a_value_within_itself_is_shown_as_dots() -> None:
    point = Point(1, tags=[])
    point.tags.append(point)  # type: ignore[arg-type]  # to make it recursive
    assert repr(point) == "Point(x=1, y=0, tags=[...])"


def test_patterns_match_by_position() -> None:
    match Point(1, 2):
        case Point(1, y):
            assert y == 2


READY = """
import sys
import pydantic, toolcast
class Album(pydantic.BaseModel):
    title: str
llm = toolcast.OpenAI("gpt-4o-mini", api_key="none")
toolcast.ToolOrchestratingLLM(Album, "An album about {topic}", llm)
waiting = [
    name
    for module in list(sys.modules.values())
    if module.__name__.startswith("toolcast.")
    for name, found in vars(module).items()
    if isinstance(found, type) and type(vars(found).get("__init__")).__name__ == "_LazyInit"
]
print(len(set(waiting)))
"""


def test_most_classes_of_a_ready_orchestrator_are_not_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", READY], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 30
    assert toolcast.user("a") == toolcast.user("a")
