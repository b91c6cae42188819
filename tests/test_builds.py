"""The two builds: modules compiled for one platform, and the same modules as Python for all."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import re
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st

import toolcast
from cross_fuzz import mutated
from support.albums import SEA
from support.source_build import OF_BYTES, OF_TEXT, REQUEST, SourceBuild, outcome
from support.turns import PROTOCOLS, Turn
from toolcast.parsing.json_stream import JSONStream, JSONStreamError
from toolcast.parsing.partial_value import PartialValue, plan_for
from toolcast.providers import response_decoder
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
    """Readers of a traceback look there."""
    folder = Path(str(module.__file__)).parent
    assert (folder / f"{module.__name__.rpartition('.')[2]}.py").is_file()


def test_a_traceback_has_the_lines_of_the_source() -> None:
    """Python shows their text for the interpreted modules alone."""
    decoder = PROTOCOLS["chat"].wire().decoder(REQUEST)
    with pytest.raises(toolcast.LLMError, match="no") as caught:
        decoder.feed(b'data: {"error": {"message": "no"}}\n\n')
    frames = [frame for frame in traceback.extract_tb(caught.tb) if frame.filename.endswith("response_decoder.py")]
    assert [frame.name for frame in frames] == ["feed", "_read", "_event"]
    source = Path(str(response_decoder.__file__)).with_name("response_decoder.py").read_text(encoding="utf-8")
    assert "self._chunk(" in source.splitlines()[(frames[-1].lineno or 0) - 1]


def test_no_interpreted_class_has_a_compiled_base(module: ModuleType) -> None:
    """It could be defined, but an instance of it could not be made."""
    for _, name, _ in walk_packages(toolcast.__path__, "toolcast."):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    own = [found for found in vars(module).values() if inspect.isclass(found) and found.__module__ == module.__name__]
    derived = {subclass for found in own for subclass in type.__subclasses__(found)}
    assert {subclass.__module__ for subclass in derived if not issubclass(subclass, Exception)} <= {*COMPILED}


def test_modules_are_listed_in_order() -> None:
    assert sorted(set(COMPILED)) == COMPILED


def test_nothing_public_is_compiled() -> None:
    """Users subclass, copy, pickle and inspect what is public, with its bases, and hold weak references to it."""
    packages = (toolcast, toolcast.testing, toolcast.experiments, toolcast.toolbox)
    public = [getattr(package, name) for package in packages for name in package.__all__]
    bases = [base for each in public if inspect.isclass(each) for base in each.__mro__]
    assert {getattr(each, "__module__", "") for each in (*public, *bases)} & {*COMPILED} == set()


# -- what Python accepts, the compiled modules accept, with the same outcome


class Text(str):
    """A string of a user, such as a numpy or a markupsafe one."""


class Data(bytes):
    """Bytes of a user's network."""


@pytest.fixture(scope="module")
def source_build() -> Iterator[SourceBuild]:
    """The same library as Python alone."""
    with closing(SourceBuild()) as build:
        yield build


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
TURN = Turn("I think so.", "It is:", (("call00001", "Album", SEA.model_dump_json()), ("call00002", "Album", "{}")))
FRAMES = st.lists(
    st.sampled_from((b"data: ", b"data:", b"event: x", b"\n", b"\n\n", b"\r\n", b"\r", b": ping", b"[DONE]"))
    | st.binary(max_size=6)
    | JSON.map(lambda value: json.dumps(value).encode()),
    max_size=20,
).map(b"".join)
DOCUMENTS = JSON.map(json.dumps) | st.sampled_from(
    (SEA.model_dump_json(), '{"animal": {"kind": "cat", "lives": 9}}', '{"left": 1, "right": {"left": 2, "right": 3}}')
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw the body of a response in a protocol, with values of other types in some events."""
    chance = draw(st.randoms(use_true_random=False))
    protocol = PROTOCOLS[draw(st.sampled_from(sorted(PROTOCOLS)))]
    events = b"".join(protocol.stream(TURN if protocol.in_pieces else replace(TURN, calls=()))).splitlines(
        keepends=True
    )
    for place in draw(st.lists(st.integers(0, len(events) - 1), max_size=3)):
        if found := re.search(rb"\{.*\}", events[place]):
            with suppress(ValueError):  # bytes of a frame between two documents
                events[place] = events[place].replace(
                    found[0], mutated(found[0].decode(), chance).encode("utf-8", "replace")
                )
    return b"".join(events)


def damaged(text: Any, faults: list[tuple[int, Any]]) -> Any:
    """Return the text with these parts put in."""
    for place, part in faults:
        place %= len(text) + 1
        text = text[:place] + part + text[place:]
    return text


@pytest.mark.parametrize("machine", OF_BYTES)
@given(bodies() | FRAMES, st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=3)), max_size=2), CUTS)
def test_any_buffer_is_read_as_python_reads_bytes(
    source_build: SourceBuild, machine: str, body: bytes, faults: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    parts: list[bytes] = pieces_at(cuts, damaged(body, faults))
    expected = source_build.outcome(machine, parts)
    for kind in (bytes, bytearray, memoryview, Data):
        assert outcome(machine, [kind(part) for part in parts]) == expected


@pytest.mark.parametrize("machine", OF_TEXT)
@given(DOCUMENTS, st.lists(st.tuples(st.integers(0, 500), st.text(max_size=3)), max_size=2), CUTS)
def test_any_text_is_read_as_python_reads_it(
    source_build: SourceBuild, machine: str, text: str, faults: list[tuple[int, str]], cuts: list[int]
) -> None:
    parts: list[str] = pieces_at(cuts, damaged(text, faults))
    expected = source_build.outcome(machine, parts)
    for kind in (str, Text):
        assert outcome(machine, [kind(part) for part in parts]) == expected


@pytest.mark.parametrize("machine", OF_BYTES)
@pytest.mark.parametrize("other", ["data: {}\n\n", 5, None, [100]], ids=repr)
def test_a_chunk_of_another_type_is_an_error(machine: str, other: object) -> None:
    """Not the null bytes that `bytes(5)` would be."""
    with pytest.raises(TypeError, match="expected bytes, bytearray or memoryview"):
        outcome(machine, [other])


@pytest.mark.parametrize("machine", OF_TEXT)
@pytest.mark.parametrize("other", [b'{"a": 1}', 5, None], ids=repr)
def test_text_of_another_type_is_an_error(machine: str, other: object) -> None:
    with pytest.raises(TypeError):
        outcome(machine, ["{", other])


@given(st.lists(JSON, min_size=1, max_size=4), CUTS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_frames_of_any_buffer(values: list[Any], cuts: list[int], newline: str) -> None:
    lines = [json.dumps(value) for value in values]
    events = "".join(f"data: {line}{newline}{newline}" for line in lines).encode()
    for kind in (bytearray, memoryview, Data):
        parser = ServerSentEvents()
        found = [event for part in pieces_at(cuts, events) for event in parser.feed(kind(part))] + parser.close()
        assert [json.loads(event.data) for event in found] == values
        documents = JSONLines()
        whole = "".join(f"{line}\n" for line in lines).encode()
        parts = [line for part in pieces_at(cuts, whole) for line in documents.feed(kind(part))] + documents.close()
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
