"""A sample of a job's inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any


def spread(rows: Iterator[Any], total: int | None, count: int) -> list[tuple[int, Any]]:
    """Return `count` of the rows with their indexes: spread evenly if their `total` is known, else the first ones."""
    if total is None or total <= count:
        return list(enumerate(islice(rows, count)))
    # The middle of each of as many equal parts: the first and the last rows of a file are often unlike the others.
    wanted = {(2 * part + 1) * total // (2 * count) for part in range(count)}
    return [(index, row) for index, row in enumerate(islice(rows, max(wanted) + 1)) if index in wanted]
