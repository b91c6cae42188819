"""Tables as plain text: columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """The lines of a table, without spaces at their ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
