"""Values whose text arrives at once: validated by Pydantic in one call, and parsed only if their changes are read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from pydantic import AfterValidator, BaseModel, RootModel
from typing_extensions import TypedDict

from support.example_counts import examples
from toolcast.parsing.json_stream import JSONStream
from toolcast.parsing.partial_instances import is_partial
from toolcast.parsing.partial_value import MISSING, NotNull, PartialValue, plan_for

from .test_lazy_snapshots import Everything, plain
from .test_partial_value_properties import streams


class Song(BaseModel):
    title: str
    seconds: int = 0


class Album(BaseModel):
    title: str
    year: int | None = None
    songs: list[Song] = []


ALBUM = '{"title": "Sea of Glass", "songs": [{"title": "Clear water"}]}'


def fed(type_form: Any, *texts: str, wrapped: bool = False) -> PartialValue:
    growing = PartialValue(plan_for(type_form), wrapped=wrapped)
    for text in texts:
        growing.feed(text)
    return growing


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that go through the incremental parser."""
    texts: list[str] = []
    real = JSONStream.feed
    monkeypatch.setattr(JSONStream, "feed", lambda stream, text: texts.append(text) or real(stream, text))
    return texts


def test_a_whole_model_is_not_parsed(parsed: list[str]) -> None:
    growing = PartialValue(plan_for(Album))
    assert growing.feed(ALBUM)
    item = growing.value
    assert is_partial(item)
    assert (item.title, item.year, item.songs) == ("Sea of Glass", None, [Song(title="Clear water")])
    assert item.model_fields_set == {"title", "songs"}
    assert growing.is_complete
    assert not growing.close()
    assert parsed == []
    assert growing.changed == ("", "title", "songs", "songs.0", "songs.0.title")


@pytest.mark.pure_only
@pytest.mark.parametrize(
    ("type_form", "text", "wrapped"),
    [
        (list[Song], '{"value": [{"title": "Clear"}, {"title": "Green"}]}', True),
        (list[Song], ' [{"title": "Clear"}, {"title": "Green"}] ', False),
        (dict[str, Song], '\n{"one": {"title": "Clear", "seconds": 3}}', False),
        (dict[str, Song], '{ "value" :{"one": {"title": "Clear"}}}\n', True),
        (Everything, '{"title": "a", "tree": {"kind": "fork", "parts": [{"kind": "leaf", "the name": "b"}]}}', False),
    ],
)
def test_other_whole_values(type_form: Any, text: str, wrapped: bool, parsed: list[str]) -> None:
    growing = fed(type_form, text, wrapped=wrapped)
    value = plain(growing.value)
    assert parsed == []
    assert value == plain(fed(type_form, text[:20], text[20:], wrapped=wrapped).value)
    assert parsed == [text[:20], text[20:]]


class Validated(BaseModel):
    title: Annotated[str, AfterValidator(str.upper)]


class Hidden(BaseModel):
    title: Annotated[str | None, NotNull]


class Titles(RootModel[list[str]]):
    pass


class Typed(TypedDict):
    title: str


@pytest.mark.pure_only
@pytest.mark.parametrize(
    ("type_form", "text", "wrapped"),
    [
        (Album, '{"title": "Sea of Glass", "songs": {}', False),  # not whole
        (Album, '{"title": "Sea of Glass", "year": "x"}', False),  # invalid
        (Album, '{"title": "Sea of Glass", "year": NaN}', False),  # not JSON
        (Album, '{"title": "Sea of Glass", "x": 1e999}', False),
        (Validated, '{"title": "Sea of Glass, live"}', False),
        (Hidden, '{"title": null,              "x": {}}', False),
        (Titles, '["Sea of Glass", "Clear water"]', False),
        (Typed, '{"title": "Sea of Glass, live"}', False),
        (Album | None, '{"value": {"title": "Sea of Glass"}}', True),
        (list[Song], '{"other": [{"title": "Sea of Glass"}]}', True),
        (list[Song], '{"value": [{"title": "Sea"}], "x": [1]}', True),
        (Album, '{"title": "Sea"}', False),  # short
    ],
)
def test_other_texts_are_parsed(type_form: Any, text: str, wrapped: bool, parsed: list[str]) -> None:
    growing = PartialValue(plan_for(type_form), wrapped=wrapped, fail_fast=False)
    growing.feed(text)
    assert parsed == [text]
    assert growing.take_complete(text) is MISSING


@pytest.mark.pure_only
def test_white_space_may_follow(parsed: list[str]) -> None:
    growing = fed(Album, ALBUM)
    assert not growing.feed(" \n")
    assert not growing.feed("")
    assert growing.text == ALBUM + " \n"
    assert (growing.closed_items("songs"), growing.new_text("title")) == ([], "")
    assert growing.changed == fed(Album, ALBUM).changed
    assert growing.broken is None
    assert parsed == [ALBUM, ALBUM]


def test_other_text_must_not_follow() -> None:
    growing = fed(Album, ALBUM)
    item = growing.value
    assert not growing.feed(" x")
    assert growing.broken is not None
    assert growing.broken.offset == len(ALBUM) + 1
    assert not growing.is_complete
    assert growing.value is item
    assert not growing.feed("more")
    assert growing.text == ALBUM + " xmore"


def test_empty_text_may_come_first(parsed: list[str]) -> None:
    growing = PartialValue(plan_for(Album))
    assert not growing.feed("")
    assert growing.feed(ALBUM)
    assert parsed == []


def test_views_of_a_whole_value() -> None:
    growing = fed(Album, ALBUM)
    assert growing.closed_items("songs") == [Song(title="Clear water")]
    assert growing.new_text("title") == "Sea of Glass"
    assert growing.field_state("songs.0.title") == "done"
    assert growing.field_state("year") == "pending"
    assert [change.path for change in growing.changes()][:2] == ["", "title"]


def test_the_snapshot_and_the_result_share_nothing() -> None:
    growing = fed(Album, ALBUM)
    unread = growing.value
    result = growing.take_complete(ALBUM)
    assert type(result) is Album
    result.songs.append(Song(title="new"))
    result.songs[0].title = "changed"
    assert unread.songs == [Song(title="Clear water")]
    again = growing.take_complete(ALBUM)
    assert again == Album.model_validate_json(ALBUM)
    assert again.songs is not unread.songs


def test_a_result_after_a_snapshot_was_read() -> None:
    growing = fed(Album, ALBUM)
    item = growing.value
    item.songs[0].title = "changed"
    result = growing.take_complete(ALBUM)
    assert result == Album.model_validate_json(ALBUM)
    assert fed(Album, ALBUM, " ").take_complete(ALBUM + " ") is MISSING
    assert fed(Album, ALBUM).take_complete(ALBUM + " ") is MISSING


@settings(max_examples=examples(150))
@given(streams())
def test_whole_and_in_pieces(stream: tuple[Any, Any, list[str]]) -> None:
    type_form, document, pieces = stream
    text = "".join(pieces).ljust(24)
    whole, cut = fed(type_form, text), fed(type_form, text[:1], text[1:])
    assert plain(whole.value) == plain(cut.value)
    paths = {path for value in (whole, cut) for path in value.changed}
    assert {*whole.changed} == {*cut.changed} | {path for path in paths if path == ""}
    assert all(whole.field_state(path) == cut.field_state(path) for path in paths if path != "")
    complete = fed(type_form, text).take_complete(text)
    if complete is not MISSING:
        assert complete == plan_for(type_form).validator.validate_json(json.dumps(document))
