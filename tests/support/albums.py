"""The models and answers that many tests speak about."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from toolcast import ToolCallPart


class Song(BaseModel):
    title: str
    seconds: int


class Album(BaseModel):
    """A music album."""

    title: str
    artist: str
    songs: list[Song]


class Apology(BaseModel):
    """An apology for what cannot be done."""

    reason: str


SEA = Album(
    title="Sea of Glass",
    artist="The Tides",
    songs=[Song(title='Salt "and" é', seconds=61), Song(title="Deep: 1", seconds=200)],
)
SHORT = Album(title="B", artist="C", songs=[])


def call(value: BaseModel | str, name: str = "Album", id: str = "call_1", **more: Any) -> ToolCallPart:
    """The tool call that makes `value`, or whose arguments are this text."""
    arguments = value if isinstance(value, str) else value.model_dump_json()
    return ToolCallPart(id, name, arguments, **more)
