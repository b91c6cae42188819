"""Feeding a growing value, for the tests of partials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from toolcast.parsing.partial_value import PartialValue, plan_for


def pieces_of(document: Any, size: int) -> Iterator[str]:
    """The JSON text of a document (or a text as it is) in pieces."""
    text = document if isinstance(document, str) else json.dumps(document)
    for start in range(0, len(text), size):
        yield text[start : start + size]


def fed(type_form: Any, document: Any, *, size: int = 1, wrapped: bool = False, fail_fast: bool = True) -> PartialValue:
    """A growing value that has got the whole document."""
    growing = PartialValue(plan_for(type_form), wrapped=wrapped, fail_fast=fail_fast)
    for piece in pieces_of(document, size):
        growing.feed(piece)
    return growing


def looks(type_form: Any, document: Any, *, size: int = 1, wrapped: bool = False) -> list[str]:
    """How the snapshots look, one for each visible change."""
    growing = PartialValue(plan_for(type_form), wrapped=wrapped)
    return [repr(growing.value) for piece in pieces_of(document, size) if growing.feed(piece)]


def distinct(type_form: Any, document: Any, *, size: int = 1, wrapped: bool = False) -> list[str]:
    """The same without what looks like the one before it."""
    return list(dict.fromkeys(looks(type_form, document, size=size, wrapped=wrapped)))


def stopped(type_form: Any, document: Any, *, wrapped: bool = False) -> tuple[list[Any], str]:
    """The errors that stop the stream, and the text up to there."""
    growing = PartialValue(plan_for(type_form), wrapped=wrapped)
    with pytest.raises(pydantic.ValidationError) as caught:
        for piece in pieces_of(document, 1):
            growing.feed(piece)
    with pytest.raises(pydantic.ValidationError) as again:
        growing.feed(" ")
    assert again.value is caught.value
    return caught.value.errors(include_url=False), growing.text.rstrip()
