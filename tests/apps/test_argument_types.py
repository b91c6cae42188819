"""Whole numbers on the command line."""

from __future__ import annotations

import argparse

import pytest

from toolcast.apps.argument_types import count


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("20", 20), ("007", 7)])
def test_a_number(text: str, number: int) -> None:
    assert count(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "²", "١"])
def test_no_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no number of 1 or more"):
        count(text)
