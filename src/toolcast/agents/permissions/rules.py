"""What a `Rule` allows or denies: tools by name, calls by their arguments.

A condition judges one argument, and may find that it cannot tell: the argument is missing, or of another kind than
the condition speaks of (the tool may still read "5" as 5, or have a default). An allow rule holds only where every
condition surely does; a deny rule, where none surely does not.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard, cast, get_args

from .protected_paths import is_path_name, resolved_path

Plain: TypeAlias = "str | bool | int | float | None"
RuleAction: TypeAlias = Literal["allow", "deny"]

_ABSENT: Final = object()
_unclear = re.compile(r"[$%*?\[{\\]").search  # signs of which one tool makes something else, another does not
_wildcard = re.compile(r"[*?\[]").search


class PathPattern(NamedTuple):
    """What arguments are read by: those that are paths, beside those named like one, and where paths begin."""

    parameters: frozenset[str] = frozenset()
    root: str | None = None

    def is_path(self, name: str) -> bool:
        """Whether the argument of this name, with dots or without, is a path."""
        first, *_ = parts = name.split(".")
        return first in self.parameters or name in self.parameters or any(map(is_path_name, parts))


@dataclass(frozen=True, slots=True)
class Under:
    """The argument is a path in the folder `path`, or that folder itself, links followed; of a list, all of them."""

    path: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))

    def judge(self, value: object, root: str | None = None) -> bool | None:
        """Whether it holds for `value`, a relative path beginning at `root`; None where that cannot be told."""
        if isinstance(value, (list, tuple)):
            return _all([self.judge(item, root) for item in cast("Sequence[object]", value)] or [None])
        text = os.fspath(cast("str", value)) if isinstance(value, (str, os.PathLike)) else None
        readings = _readings(text, root) if isinstance(text, str) else None
        if readings is None:
            return None
        folder = resolved_path(os.path.expanduser(self.path), root)  # noqa: PTH111  # a text is wanted
        held = {reading == folder or reading.startswith(folder.rstrip(os.sep) + os.sep) for reading in readings}
        return None if len(held) > 1 else held.pop()


@dataclass(frozen=True, slots=True, init=False)
class OneOf:
    """The argument equals one of `values`."""

    values: tuple[Plain, ...]

    def __init__(self, *values: Plain) -> None:
        object.__setattr__(self, "values", values)
        if not all(_is_plain(value) for value in values):
            raise ValueError("OneOf takes texts, numbers, booleans and None: OneOf('a', 'b')")

    def judge(self, value: object) -> bool | None:
        """Whether it holds for `value`; None where that cannot be told."""
        judged = [_equal(value, expected) for expected in self.values]
        return True if True in judged else None if None in judged else False


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The argument is a number of at least `limit`."""

    limit: float

    def __post_init__(self) -> None:
        _check_limit(self.limit)

    def judge(self, value: object) -> bool | None:
        """Whether it holds for `value`; None where that cannot be told."""
        return value >= self.limit if _is_number(value) else None


@dataclass(frozen=True, slots=True)
class AtMost:
    """The argument is a number of at most `limit`."""

    limit: float

    def __post_init__(self) -> None:
        _check_limit(self.limit)

    def judge(self, value: object) -> bool | None:
        """Whether it holds for `value`; None where that cannot be told."""
        return value <= self.limit if _is_number(value) else None


@dataclass(frozen=True, slots=True)
class Exactly:
    """The value is this very one, whatever it is made of. `text` is its JSON."""

    text: str

    @classmethod
    def of(cls, value: object) -> Exactly:
        """The condition that holds for `value` alone."""
        return cls(json.dumps(value, sort_keys=True))

    def judge(self, value: object) -> bool | None:
        """Whether it holds for `value`."""
        return self == Exactly.of(value)


Condition: TypeAlias = "Plain | Under | OneOf | AtLeast | AtMost | Exactly"
"""What an argument has to be: a text is a glob for the whole argument, other plain values are equal to it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls of the tools that the glob `tool` names, all arguments in `where` as they are there, are allowed or denied.

    `where` has a condition for each argument it names; `"options.force"` is `force` in the object `options`, `""` is
    all arguments. For the command of a shell tool a text is a pattern: `"git"` is every `git ...`, `"npm run *"` as it
    reads. For an argument that is a path it is a glob for the path it leads to, links and `..` followed; one that
    begins with a folder's name begins at the root.

    A deny rule holds as well where an argument is missing or of another kind, as it cannot be told what the tool will
    take for it; an allow rule does not. Raises `ValueError` for what is no rule.
    """

    tool: str
    action: RuleAction
    where: Mapping[str, Condition] = field(default_factory=dict[str, Condition], hash=False)

    def __post_init__(self) -> None:
        tool, action, where = cast("tuple[object, object, object]", (self.tool, self.action, self.where))
        if not isinstance(tool, str) or not tool:
            raise ValueError(f"a rule names tools with a glob, not {tool!r}: Rule('read_*', 'allow')")
        if action not in get_args(RuleAction):
            raise ValueError(f"a rule cannot {action!r}; its action is 'allow' or 'deny'")
        if not isinstance(where, Mapping) or not all(map(_is_pair, cast("Mapping[object, object]", where).items())):
            raise ValueError(
                f"a rule's conditions are texts, numbers, booleans, None, Under, OneOf, AtLeast or AtMost by the name "
                f"of their argument, not {where!r:.200}: Rule('move', 'allow', {{'path': Under('src')}})"
            )
        object.__setattr__(self, "where", dict(self.where))

    def __str__(self) -> str:
        """The rule in words: `deny move where path is Under(path='/etc')`."""
        conditions = " and ".join(f"{name} is {condition!r}" for name, condition in self.where.items())
        return f"{self.action} {self.tool}" + (f" where {conditions}" if conditions else "")

    def concerns(self, name: str) -> bool:
        """Whether it speaks of the tool `name`."""
        return fnmatchcase(name, self.tool)

    def judge(
        self, arguments: Mapping[str, Any], *, without: str | None = None, place: PathPattern | None = None
    ) -> bool | None:
        """Whether its conditions, but that on `without`, hold for `arguments`; None where that cannot be told."""
        place = place or PathPattern()
        named = ((name, condition) for name, condition in self.where.items() if name != without)
        return _all([_judge(condition, _reached(arguments, name), name, place) for name, condition in named])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready data."""
        where = {name: _as_data(condition) for name, condition in self.where.items()}
        return {"tool": self.tool, "action": self.action, "where": where}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rule:
        """The rule that `to_dict` made `data` from."""
        where = {name: _condition(value) for name, value in data.get("where", {}).items()}
        return cls(data["tool"], data["action"], where)


_MADE_FROM: dict[str, Callable[[Any], Condition]] = {
    "under": Under,
    "one_of": lambda values: OneOf(*values),
    "at_least": AtLeast,
    "at_most": AtMost,
    "exactly": Exactly,
}
_NAMES = {Under: "under", OneOf: "one_of", AtLeast: "at_least", AtMost: "at_most", Exactly: "exactly"}
_CONDITIONS: Final = (Under, OneOf, AtLeast, AtMost, Exactly)


def _as_data(condition: Condition) -> Any:
    if isinstance(condition, _CONDITIONS):
        (value,) = asdict(condition).values()
        return {_NAMES[type(condition)]: list(cast("tuple[Plain, ...]", value)) if isinstance(value, tuple) else value}
    return condition


def _condition(data: Any) -> Condition:
    if not isinstance(data, dict):
        return cast("Condition", data)
    ((name, value),) = cast("dict[str, Any]", data).items()
    if name not in _MADE_FROM:
        raise ValueError(f"unknown condition {name!r}; the conditions are: {', '.join(_MADE_FROM)}")
    return _MADE_FROM[name](value)


def _reached(arguments: Mapping[str, Any], name: str) -> object:
    """The argument of that name, or in the objects that its dots name; absent where both could be meant."""
    value: object = arguments
    for key in name.split(".") if name else ():
        value = cast("Mapping[str, object]", value).get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    if "." in name and name in arguments:
        return arguments[name] if value is _ABSENT else _ABSENT
    return value


def _judge(condition: Condition, value: object, name: str, place: PathPattern) -> bool | None:
    if value is _ABSENT:
        return None
    if isinstance(condition, Under):
        return condition.judge(value, place.root)
    if isinstance(condition, (OneOf, AtLeast, AtMost, Exactly)):
        return condition.judge(value)
    if not isinstance(condition, str):
        return _equal(value, condition)
    if not isinstance(value, str):
        return None
    if isinstance(value, os.PathLike) or place.is_path(name):
        return _leads_to(condition, value, place.root)
    return fnmatchcase(value, condition)


def _leads_to(pattern: str, text: str, root: str | None) -> bool | None:
    """Whether the path leads to one that the glob means; None as well where only what is written is one."""
    readings = _readings(text, root)
    if readings is None:
        return None
    resolved = _resolved(pattern, root)
    held = {fnmatchcase(reading, resolved) for reading in readings}
    return True if held == {True} else None if held == {True, False} or fnmatchcase(text, pattern) else False


def _readings(text: str, root: str | None) -> set[str] | None:
    """The paths that tools may take `text` for: one knows what `~` is, another takes it for a name. None: unclear."""
    if _unclear(text):
        return None
    try:
        return {resolved_path(text, root), resolved_path(os.path.expanduser(text), root)}  # noqa: PTH111  # a text is wanted
    except ValueError:
        return None


def _resolved(pattern: str, root: str | None) -> str:
    """The glob with the folders in front of its first wildcard resolved; one that begins with it stays as it is."""
    found = _wildcard(pattern)
    wild = found.start() if found else len(pattern)
    if not wild and found:
        return pattern
    end = pattern.rfind("/", 0, wild) + 1 if found else wild
    folder = resolved_path(os.path.expanduser(pattern[:end]), root)  # noqa: PTH111  # a text is wanted
    return glob.escape(folder) + ("/" if found and folder != "/" else "") + pattern[end:]


def _equal(value: object, expected: Plain) -> bool | None:
    """Whether they are equal; None for values of different kinds, such as a boolean and a number."""
    return value == expected if _kind(value) is _kind(expected) else None


def _kind(value: object) -> type:
    if isinstance(value, str):
        return str
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


def _all(judged: Sequence[bool | None]) -> bool | None:
    return False if False in judged else None if None in judged else True


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, bool, int, float))


def _is_pair(pair: tuple[object, object]) -> bool:
    name, condition = pair
    return isinstance(name, str) and (_is_plain(condition) or isinstance(condition, _CONDITIONS))


def _is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number, and one that can be compared."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _check_limit(limit: object) -> None:
    if not _is_number(limit):
        raise ValueError(f"a limit is a number, not {limit!r}")
