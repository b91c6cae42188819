"""A sample of a job's inputs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Any, cast

from .inputs import Inputs, open_inputs


def sample_inputs(source: Inputs, count: int) -> list[tuple[int, Any]]:
    """Return up to `count` inputs with their indexes: spread evenly over a list or DataFrame, or else the first ones.

    The inputs that are taken from an iterator are lost to it.

    Raises:
        TypeError: `source` is an async iterable.
        ValueError: `count` is less than 1.
    """
    if count < 1:
        raise ValueError(f"a sample of {count} inputs: expected at least 1")
    opened = open_inputs(source)
    if isinstance(opened, AsyncIterator):
        raise TypeError("a sample needs inputs that can be read without an event loop: pass a list of some of them")
    total = len(cast("Sequence[Any]", source)) if hasattr(source, "__len__") else 0
    if total <= count:
        return list(enumerate(islice(opened, count)))
    wanted = {at * total // count for at in range(count)}
    return [(index, each) for index, each in enumerate(islice(opened, max(wanted) + 1)) if index in wanted]
