"""Whole numbers on the command line."""

from __future__ import annotations

import argparse

import pytest

from toolcast.apps.command_parser import positive_int


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("20", 20), ("007", 7)])
def test_a_number(text: str, number: int) -> None:
    assert positive_int(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "²", "١"])
def test_no_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number of at least 1"):
        positive_int(text)
