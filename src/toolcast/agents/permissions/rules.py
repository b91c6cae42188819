"""Rules that allow or deny tool calls: tools by name, calls by conditions on their arguments.

A condition on an argument is True, False, or None: unknown, as the argument is missing or of another kind (the tool
may still convert "5" to 5, or have a default). An allow rule matches only where every condition is True; a deny rule,
where none is False.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard, cast, get_args

from ...lazy.lazy_dataclasses import dataclass
from .protected_paths import is_path_name, resolved_path

Plain: TypeAlias = "str | bool | int | float | None"
RuleAction: TypeAlias = Literal["allow", "deny"]

_ABSENT: Final = object()
_unclear = re.compile(r"[$%*?\[{\\]").search  # characters that some tools expand and others do not
_wildcard = re.compile(r"[*?\[]").search


class PathPattern(NamedTuple):
    """The arguments that are paths, beside those whose name shows it, and the folder at which paths begin."""

    parameters: frozenset[str] = frozenset()
    root: str | None = None

    def is_path(self, name: str) -> bool:
        """Return whether the argument `name`, dotted or not, is a path."""
        first, *_ = parts = name.split(".")
        return first in self.parameters or name in self.parameters or any(map(is_path_name, parts))


@dataclass(frozen=True, slots=True)
class Under:
    """The argument is a path in the folder `path`, or that folder itself, links followed; of a list, all of them."""

    path: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))

    def evaluate(self, value: object, root: str | None = None) -> bool | None:
        """Return whether `value`, relative to `root`, is in the folder; None if that is unknown."""
        if isinstance(value, (list, tuple)):
            # An empty list is unknown (None), not "all of them": a tool may then use a default of its own.
            return _all([self.evaluate(item, root) for item in cast("Sequence[object]", value)] or [None])
        text = os.fspath(cast("str", value)) if isinstance(value, (str, os.PathLike)) else None
        readings = _readings(text, root) if isinstance(text, str) else None
        if readings is None:
            return None
        folder = resolved_path(os.path.expanduser(self.path), root)
        # With the separator, so that `/srv/data-old` is not in `/srv/data`.
        found = {reading == folder or reading.startswith(folder.rstrip(os.sep) + os.sep) for reading in readings}
        # The readings disagree: which of them the tool opens is unknown.
        return None if len(found) > 1 else found.pop()


@dataclass(frozen=True, slots=True, init=False)
class OneOf:
    """The argument equals one of `values`."""

    values: tuple[Plain, ...]

    def __init__(self, *values: Plain) -> None:
        object.__setattr__(self, "values", values)
        if not all(_is_plain(value) for value in values):
            raise ValueError("OneOf takes texts, numbers, booleans and None: OneOf('a', 'b')")

    def evaluate(self, value: object) -> bool | None:
        """Return whether the condition holds for `value`; None if that is unknown."""
        # A value of another kind may be converted to one of these by the tool: no certain False.
        results = [_equal(value, expected) for expected in self.values]
        return True if True in results else None if None in results else False


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The argument is a number of at least `limit`."""

    limit: float

    def __post_init__(self) -> None:
        _check_limit(self.limit)

    def evaluate(self, value: object) -> bool | None:
        """Return whether the condition holds for `value`; None if that is unknown."""
        return value >= self.limit if _is_number(value) else None


@dataclass(frozen=True, slots=True)
class AtMost:
    """The argument is a number of at most `limit`."""

    limit: float

    def __post_init__(self) -> None:
        _check_limit(self.limit)

    def evaluate(self, value: object) -> bool | None:
        """Return whether the condition holds for `value`; None if that is unknown."""
        return value <= self.limit if _is_number(value) else None


@dataclass(frozen=True, slots=True)
class Exactly:
    """The value is equal to this one, whose JSON is `text`."""

    text: str

    @classmethod
    def of(cls, value: object) -> Exactly:
        """Return the condition that holds for `value` alone."""
        return cls(json.dumps(value, sort_keys=True))

    def evaluate(self, value: object) -> bool | None:
        """Return whether the condition holds for `value`."""
        return self == Exactly.of(value)


@dataclass(frozen=True, slots=True)
class Others:
    """The other arguments than one are equal to these. `given` is the name of that one, and the JSON of the others."""

    given: tuple[str, str]

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, object]) -> Others:
        """Return the condition that holds for these arguments with any value of `name`."""
        return cls((name, Exactly.of({key: value for key, value in arguments.items() if key != name}).text))

    def evaluate(self, value: object) -> bool:
        """Return whether the condition holds for all arguments, as a mapping."""
        return isinstance(value, Mapping) and self == Others.of(self.given[0], cast("Mapping[str, object]", value))


Condition: TypeAlias = "Plain | Under | OneOf | AtLeast | AtMost | Exactly | Others"
"""A condition on an argument: a text is a glob for the whole argument, other plain values are equal to it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that allows or denies calls of tools, by conditions on their arguments.

    A deny rule also matches where an argument is missing or of another kind, as the value that the tool will use is
    unknown; an allow rule does not.

    Args:
        tool: A glob for names of tools.
        action: `"allow"` or `"deny"`.
        where: A condition by the name of its argument; `"options.force"` is `force` in the object `options`, `""` is
            all arguments. For the command of a shell tool a text is a pattern: `"git"` matches every `git ...`,
            `"npm run *"` every `npm run ...`; an allow rule only where the words beyond the pattern fit a form. For a
            path a text is a glob for the resolved path, links and `..` followed, which begins at the root if it begins
            with a folder's name.

    Raises:
        ValueError: If an argument is of the wrong kind.

    Example:
        `Rule("move", "deny", {"path": Under("/etc")})`
    """

    tool: str
    action: RuleAction
    where: Mapping[str, Condition] = field(default_factory=dict[str, Condition], hash=False)

    def __post_init__(self) -> None:
        tool, action, where = cast("tuple[object, object, object]", (self.tool, self.action, self.where))
        if not isinstance(tool, str) or not tool:
            raise ValueError(f"a rule names tools with a glob, not {tool!r}: Rule('read_*', 'allow')")
        if action not in get_args(RuleAction):
            raise ValueError(f"unknown action {action!r} of a rule; it is 'allow' or 'deny'")
        if not isinstance(where, Mapping) or not all(map(_is_pair, cast("Mapping[object, object]", where).items())):
            raise ValueError(
                f"a rule's conditions are texts, numbers, booleans, None, Under, OneOf, AtLeast or AtMost by the name "
                f"of their argument, not {where!r:.200}: Rule('move', 'allow', {{'path': Under('src')}})"
            )
        object.__setattr__(self, "where", dict(self.where))

    def __str__(self) -> str:
        """Return the rule as text: `deny move where path is Under(path='/etc')`."""
        conditions = " and ".join(f"{name} is {condition!r}" for name, condition in self.where.items())
        return f"{self.action} {self.tool}" + (f" where {conditions}" if conditions else "")

    def concerns(self, name: str) -> bool:
        """Return whether the rule applies to the tool `name`."""
        return fnmatchcase(name, self.tool)

    def evaluate(
        self, arguments: Mapping[str, Any], *, without: str | None = None, place: PathPattern | None = None
    ) -> bool | None:
        """Return whether all conditions but that on `without` hold for `arguments`; None if that is unknown."""
        place = place or PathPattern()
        named = ((name, condition) for name, condition in self.where.items() if name != without)
        return _all([_evaluate(condition, _reached(arguments, name), name, place) for name, condition in named])

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as JSON-compatible data."""
        where = {name: _as_data(condition) for name, condition in self.where.items()}
        return {"tool": self.tool, "action": self.action, "where": where}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rule:
        """Return the rule that `to_dict` made `data` of."""
        where = {name: _condition(value) for name, value in data.get("where", {}).items()}
        return cls(data["tool"], data["action"], where)


_MADE_FROM: dict[str, Callable[[Any], Condition]] = {
    "under": Under,
    "one_of": lambda values: OneOf(*values),
    "at_least": AtLeast,
    "at_most": AtMost,
    "exactly": Exactly,
    "others": lambda given: Others(tuple(given)),
}
_NAMES = {Under: "under", OneOf: "one_of", AtLeast: "at_least", AtMost: "at_most", Exactly: "exactly", Others: "others"}
_CONDITIONS: Final = (Under, OneOf, AtLeast, AtMost, Exactly, Others)


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
    """Return the argument `name`, or the one in the objects that its dots name; absent if both exist."""
    value: object = arguments
    for key in name.split(".") if name else ():
        value = cast("Mapping[str, object]", value).get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    # An argument whose own name has a dot hides the nested one: which of them a rule means is not certain.
    if "." in name and name in arguments:
        return arguments[name] if value is _ABSENT else _ABSENT
    return value


def _evaluate(condition: Condition, value: object, name: str, place: PathPattern) -> bool | None:
    if value is _ABSENT:
        return None
    if isinstance(condition, Under):
        return condition.evaluate(value, place.root)
    if isinstance(condition, (OneOf, AtLeast, AtMost, Exactly, Others)):
        return condition.evaluate(value)
    # The rest of the function is about texts: globs for paths, which are resolved first, and for anything else.
    if not isinstance(condition, str):
        return _equal(value, condition)
    if not isinstance(value, str):
        return None
    if isinstance(value, os.PathLike) or place.is_path(name):
        return _leads_to(condition, value, place.root)
    return fnmatchcase(value, condition)


def _leads_to(pattern: str, text: str, root: str | None) -> bool | None:
    """Return whether the resolved path matches the glob; None also where only the text as written does."""
    readings = _readings(text, root)
    if readings is None:
        return None
    resolved = _resolved(pattern, root)
    found = {fnmatchcase(reading, resolved) for reading in readings}
    # The text matches only as it is written: a link or `..` leads elsewhere, so neither answer is certain.
    return True if found == {True} else None if found == {True, False} or fnmatchcase(text, pattern) else False


def _readings(text: str, root: str | None) -> set[str] | None:
    """Return the paths that tools may open for `text`: some expand `~`, others do not. None: unknown."""
    if _unclear(text):
        return None
    # Both readings of `~` count, because the rule does not know whether the tool expands it.
    try:
        return {resolved_path(text, root), resolved_path(os.path.expanduser(text), root)}
    except ValueError:
        return None


def _resolved(pattern: str, root: str | None) -> str:
    """Return the glob with the folders before its first wildcard resolved; unchanged if it begins with a wildcard."""
    found = _wildcard(pattern)
    wild = found.start() if found else len(pattern)
    if not wild and found:
        return pattern
    end = pattern.rfind("/", 0, wild) + 1 if found else wild
    # Escaped, because a folder that a link leads to may have `[` or `*` in its name.
    folder = resolved_path(os.path.expanduser(pattern[:end]), root)
    return glob.escape(folder) + ("/" if found and folder != "/" else "") + pattern[end:]


def _equal(value: object, expected: Plain) -> bool | None:
    """Return whether the values are equal; None for different kinds, such as a boolean and a number."""
    # In Python True == 1; a rule about a number must not match a boolean, and the other way round.
    return value == expected if _kind(value) is _kind(expected) else None


def _kind(value: object) -> type:
    if isinstance(value, str):
        return str
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


def _all(results: Sequence[bool | None]) -> bool | None:
    # Three-valued "and": one certain False decides, whatever is unknown beside it.
    return False if False in results else None if None in results else True


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, bool, int, float))


def _is_pair(pair: tuple[object, object]) -> bool:
    name, condition = pair
    return isinstance(name, str) and (_is_plain(condition) or isinstance(condition, _CONDITIONS))


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a number, and not NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _check_limit(limit: object) -> None:
    if not _is_number(limit):
        raise ValueError(f"a limit is a number, not {limit!r}")
