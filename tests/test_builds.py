"""The two builds: modules compiled for one platform, and the same modules as Python for all."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st

import toolcast
from toolcast.parsing.json_stream import JSONStream, JSONStreamError
from toolcast.parsing.partial_value import PartialValue, plan_for
from toolcast.providers.event_fast_path import Envelope
from toolcast.providers.sse import JSONLines, ServerSentEvents

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPILED: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]


@pytest.fixture(params=COMPILED)
def module(request: pytest.FixtureRequest) -> ModuleType:
    """One module that a wheel for one platform has compiled."""
    return importlib.import_module(request.param)


def test_the_name_of_the_build() -> None:
    assert toolcast.__compiled__ is not inspect.isfunction(JSONStream.feed)


def test_modules_are_compiled_in_one_build_and_python_in_the_other(module: ModuleType) -> None:
    assert str(module.__file__).endswith(".py") is not toolcast.__compiled__


def test_the_source_is_beside_a_compiled_module(module: ModuleType) -> None:
    """Tracebacks and `inspect` show it."""
    folder = Path(str(module.__file__)).parent
    assert (folder / f"{module.__name__.rpartition('.')[2]}.py").is_file()


def test_no_lazy_dataclass_is_compiled(module: ModuleType) -> None:
    """An `__init__` that is made on first use does not reach a compiled class."""
    places = {getattr(found, "__module__", "") for found in vars(module).values()}
    assert "toolcast.lazy_dataclasses" not in places


def test_modules_are_listed_in_order() -> None:
    assert sorted(set(COMPILED)) == COMPILED


def test_nothing_public_is_compiled() -> None:
    """Users subclass, copy, pickle and inspect what is public, and hold weak references to it."""
    packages = (toolcast, toolcast.testing, toolcast.experiments, toolcast.toolbox)
    public = [getattr(package, name) for package in packages for name in package.__all__]
    assert {getattr(each, "__module__", "") for each in public} & {*COMPILED} == set()


# -- what both builds accept: subclasses of str and bytes, as well as themselves


class Text(str):
    """A string of a user, such as a numpy or a markupsafe one."""


class Data(bytes):
    """Bytes of a user's network."""


def pieces_at(cuts: list[int], whole: Any) -> list[Any]:
    """Return the parts of a text or of bytes, cut at these places."""
    places = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    return [whole[start:end] for start, end in pairwise(places)]


CUTS = st.lists(st.integers(0, 1000), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, CUTS)
def test_a_parser_takes_subclasses_of_str(value: Any, cuts: list[int]) -> None:
    parts = pieces_at(cuts, json.dumps(value, ensure_ascii=False))
    plain, given_ones = JSONStream(), JSONStream()
    assert [given_ones.feed(Text(part)) for part in parts] == [plain.feed(part) for part in parts]
    assert given_ones.close() == plain.close()


@given(JSON, CUTS)
def test_partial_values_take_subclasses_of_str(value: Any, cuts: list[int]) -> None:
    growing = PartialValue(plan_for(dict[str, Any]))
    for part in pieces_at(cuts, json.dumps({"value": value, "text": "abc"})):
        growing.feed(Text(part))
    assert growing.is_complete
    assert growing.value == {"value": value, "text": "abc"}


@given(st.lists(JSON, min_size=1, max_size=4), CUTS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_frames_take_subclasses_of_bytes(values: list[Any], cuts: list[int], newline: str) -> None:
    lines = [json.dumps(value) for value in values]
    events = "".join(f"data: {line}{newline}{newline}" for line in lines).encode()
    parser = ServerSentEvents()
    found = [event for part in pieces_at(cuts, events) for event in parser.feed(Data(part))] + parser.close()
    assert [json.loads(event.data) for event in found] == values
    documents = JSONLines()
    whole = "".join(f"{line}\n" for line in lines).encode()
    parts = [line for part in pieces_at(cuts, whole) for line in documents.feed(Data(part))] + documents.close()
    assert [json.loads(line) for line in parts] == values


@given(st.text(), st.binary(max_size=40), st.integers(0, 60), st.integers(0, 60))
def test_no_cut_of_an_event_is_an_error_of_the_fast_path(text: str, other: bytes, start: int, end: int) -> None:
    """Slices whose end precedes their start are empty in Python, and an error in a compiled module."""
    event = b'data: {"a": %b, "obfuscation": "x1"}\n\n' % json.dumps(text).encode()
    for data in (event[start:], event[:end], event[:end] + event[start:], event[:end] + other + event[start:]):
        envelope = Envelope()
        envelope.learn(event, "a", text)
        assert envelope.text(data) is None or data.startswith(b'data: {"a": "')


@given(JSON, st.integers(0, 100))
def test_errors_have_the_same_place_in_both_builds(value: Any, place: int) -> None:
    text = json.dumps([value])
    place %= len(text)
    stream = JSONStream()
    with pytest.raises(JSONStreamError) as caught:
        stream.feed(text[:place] + "\x01")
    error = caught.value
    assert error.offset <= place  # a broken escape or literal begins before
    assert (error.line, error.column) == (1, error.offset + 1)
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.path) == (str(error), error.path)


def test_a_long_list_is_reused_if_no_snapshot_with_it_is_kept() -> None:
    """In both builds: the count of references tells a list that the caller kept from one that was dropped."""
    dropped, kept = (PartialValue(plan_for(list[int])) for _ in range(2))
    places: list[int] = []
    snapshots: list[list[int]] = []
    dropped.feed("[0")
    kept.feed("[0")
    for number in range(1, 1000):
        dropped.feed(f",{number}")
        places.append(id(dropped.value))
        kept.feed(f",{number}")
        snapshots.append(kept.value)
    assert len(set(places[-100:])) == 2
    assert [len(snapshot) for snapshot in snapshots] == list(range(1, 1000))
