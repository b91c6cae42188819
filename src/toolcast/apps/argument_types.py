"""Whole numbers on the command line."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """The whole number of 1 or more that `text` says; argparse tells what is wrong with any other."""
    if not (text.isdecimal() and text.isascii() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)
