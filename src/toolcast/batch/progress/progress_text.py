"""The progress of a job as text that fits a width, for all displays."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from .job_progress import ProgressSnapshot


class _Part(NamedTuple):
    text: str
    rank: int
    """Where the width is too small, the part of the highest rank is left out first."""


_MONEY_DIGITS: Final = ((Decimal("0.1"), 2), (Decimal("0.001"), 4))
_SCALES: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


def counts(snapshot: ProgressSnapshot) -> str:
    """Return the ended items and their total: `1,240/10,000`."""
    return f"{snapshot.done:,}" if snapshot.total is None else f"{snapshot.done:,}/{snapshot.total:,}"


def percent(snapshot: ProgressSnapshot) -> str:
    """Return the part of the items that has ended, rounded down: 100 % is the end. Empty if the total is unknown."""
    return "" if snapshot.share is None else f"{int(snapshot.share * 100)} %"


def time_text(snapshot: ProgressSnapshot) -> str:
    """Return the time left; at the end, or if it is unknown, the time since the start."""
    if snapshot.seconds_left is not None:
        return f"{duration(snapshot.seconds_left)} left"
    return f"in {duration(snapshot.seconds)}" if snapshot.state == "done" else duration(snapshot.seconds)


def details(snapshot: ProgressSnapshot, width: int, separator: str = " · ") -> str:
    """Return all but counts and time, at most `width` columns: failures, rate, money, tokens, what limits the job."""
    return _fit(_details(snapshot), width, separator)


def heading(snapshot: ProgressSnapshot, width: int, separator: str = " · ") -> str:
    """Return counts and time in at most `width` columns."""
    return _fit(_heading(snapshot), width, separator)


def one_line(snapshot: ProgressSnapshot, width: int, separator: str = " · ") -> str:
    """Return the whole progress in at most `width` columns."""
    return _fit([*_heading(snapshot), *_details(snapshot)], width, separator)


def sentence(snapshot: ProgressSnapshot) -> str:
    """Return the whole progress as a line of a log."""
    of = "" if snapshot.total is None else f" of {snapshot.total:,}"
    parts = [f"{snapshot.done:,}{of} items", time_text(snapshot), *(part.text for part in _details(snapshot))]
    return ", ".join(part for part in parts if part)


def duration(seconds: float) -> str:
    """Return a time as `0:42`, `1:02:03` or, from two days on, `3 d 4 h`."""
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def money(amount: Decimal) -> str:
    """Return US dollars, with more digits for small amounts: `$12.30`, `$0.0042`, `$0.00001200`."""
    digits = next((digits for least, digits in _MONEY_DIGITS if amount >= least), 8 if amount else 2)
    return f"${amount:,.{digits}f}"


def number(count: int) -> str:
    """Return a count in at most five characters: `940`, `12.4k`, `1.2M`."""
    for scale, name in _SCALES:
        if count >= scale:
            value = count / scale
            return f"{value:.0f}{name}" if value >= 99.95 else f"{value:.1f}{name}"
    return str(count)


def _heading(snapshot: ProgressSnapshot) -> list[_Part]:
    start = counts(snapshot) if snapshot.total is not None else f"{counts(snapshot)} items"
    return [_Part(start, 0), _Part(percent(snapshot), 4), _Part(time_text(snapshot), 1)]


def _details(snapshot: ProgressSnapshot) -> list[_Part]:
    parts = [_Part(f"{snapshot.failed:,} failed" if snapshot.failed else "", 2)]
    if snapshot.state == "finishing":
        parts.append(_Part(f"finishing {snapshot.running}", 1))
    parts.append(_Part(rate(snapshot.per_second) if snapshot.per_second else "", 5))
    parts.append(_Part(snapshot.budget or _spending(snapshot), 3))
    tokens = snapshot.usage.total_tokens
    parts.append(_Part(f"{number(tokens)} tokens" if tokens else "", 7))
    if snapshot.state == "running":
        parts.append(_Part(_concurrency(snapshot), 6))
    parts.append(_Part(f"{snapshot.from_checkpoint:,} from checkpoint" if snapshot.from_checkpoint else "", 8))
    return parts


def rate(per_second: float) -> str:
    """Return a rate in the unit that gives it digits: `34.5/s`, `12/min`."""
    if per_second >= 1:
        return f"{per_second:,.0f}/s" if per_second >= 99.95 else f"{per_second:.1f}/s"
    return f"{per_second * 60:.1f}/min" if per_second * 60 >= 1 else f"{per_second * 3600:.1f}/h"


def _spending(snapshot: ProgressSnapshot) -> str:
    cost, projected = snapshot.cost, snapshot.projected_cost
    if cost is None:
        known = snapshot.usage.known_cost
        return f"at least {money(known)}" if known else ""
    if not cost and not projected:
        return ""
    return money(cost) if projected is None or projected == cost else f"{money(cost)} of about {money(projected)}"


def _concurrency(snapshot: ProgressSnapshot) -> str:
    running, most = snapshot.running, snapshot.concurrency
    if not running and not snapshot.limited_by:
        return ""
    at_once = f"{running} running" if most is None else f"{running} of {most} running"
    return f"{at_once} ({snapshot.limited_by})" if snapshot.limited_by else at_once


def _fit(parts: Sequence[_Part], width: int, separator: str) -> str:
    """Return the parts in one line of at most `width` columns, without those of the highest rank if need be."""
    shown = [part for part in parts if part.text]
    while len(shown) > 1 and len(separator.join(part.text for part in shown)) > width:
        shown.remove(max(shown, key=lambda part: part.rank))
    return separator.join(part.text for part in shown)[: max(width, 0)]
