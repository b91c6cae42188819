"""Strings that fit a JSON Schema: words, formats and patterns.

Texts that match a regular expression, for the strings of an `AutoLLM`.
"""

from __future__ import annotations

import atexit
import base64
import re
import shutil
import string
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

_TRIES: Final = 100
_CHARACTERS: Final = string.ascii_letters + string.digits + string.punctuation + " "
_CLASSES: Final = {"DIGIT": string.digits, "WORD": string.ascii_letters + string.digits + "_", "SPACE": " \t"}


def text_matching(pattern: str, chance: Random, shortest: int, longest: int | None) -> str | None:
    """Return a text that matches `pattern`, with a length between the limits; None if none was found."""
    compiled = _parsed(pattern)
    if compiled is None:
        return None
    matches, tree = compiled
    for number in range(_TRIES):
        # Repetitions go on up to this length. What has to follow them is unknown.
        end = shortest if number % 2 or longest is None else longest
        text = _Writer(chance, max(end - chance.randint(0, 2 + number // 3), 0)).write(tree)
        if shortest <= len(text) <= (len(text) if longest is None else longest) and matches.search(text):
            return text
    return None


@lru_cache(256)
def _parsed(pattern: str) -> tuple[re.Pattern[str], Sequence[Any]] | None:
    """Return the compiled pattern and its syntax tree; None for one that is not in Python's syntax."""
    try:
        tree: Sequence[Any] = import_module("re._parser").parse(pattern)
        return re.compile(pattern), tree
    except re.error:  # Pydantic's default engine is another one, with the classes of Unicode for example
        return None


class _Writer:
    """A writer of one text, which repeats characters up to the length `end`, or else a few times."""

    def __init__(self, chance: Random, end: int) -> None:
        self._chance = chance
        self._end = end
        self._length = 0
        self._groups: dict[int, str] = {}

    def write(self, tree: Sequence[Any]) -> str:
        """Return a text for a syntax tree."""
        return "".join([self._one(str(kind), value) for kind, value in tree])

    def _one(self, kind: str, value: Any) -> str:
        if kind in ("LITERAL", "ANY", "NOT_LITERAL", "IN"):
            self._length += 1
            return chr(value) if kind == "LITERAL" else self._character(kind, value)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            return self._repeated(*value)
        if kind == "BRANCH":
            return self.write(self._chance.choice(value[1]))
        if kind == "SUBPATTERN":
            self._groups[value[0]] = text = self.write(value[-1])
            return text
        if kind == "ATOMIC_GROUP":
            return self.write(value)
        # Anchors and assertions add nothing: the text is compared with the whole pattern at the end.
        return self._groups.get(value, "") if kind == "GROUPREF" else ""

    def _repeated(self, least: int, most: int, tree: Sequence[Any]) -> str:
        texts = [self.write(tree) for _ in range(least)]
        few = self._chance.randint(0, 2)
        while len(texts) < most and (self._length < self._end or len(texts) < least + few):
            before = self._length
            texts.append(self.write(tree))
            if self._length == before:  # a repetition of nothing
                break
        return "".join(texts)

    def _character(self, kind: str, value: Any) -> str:
        if kind == "ANY":
            return self._chance.choice(string.ascii_lowercase)
        if kind != "IN":
            value, excluded = [(kind.removeprefix("NOT_"), value)], kind == "NOT_LITERAL"
        else:
            excluded = str(value[0][0]) == "NEGATE"
        given = dict.fromkeys("".join(_characters(value)))
        wanted = [each for each in _CHARACTERS if each not in given] if excluded else list(given)
        return self._chance.choice(wanted or ["?"])


def _characters(items: Sequence[Any]) -> Iterator[str]:
    """Yield the characters of a set."""
    for kind, value in items:
        if str(kind) == "LITERAL":
            yield chr(value)
        elif str(kind) == "RANGE":
            yield "".join(map(chr, range(value[0], min(value[1], value[0] + 200) + 1)))
        elif str(kind) == "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            known = _CLASSES[name.removeprefix("NOT_")]
            yield "".join([each for each in _CHARACTERS if each not in known]) if name.startswith("NOT_") else known


Size: TypeAlias = Literal["minimal", "typical", "maximal"]
"""The sizes of the values of an `AutoLLM`."""

_WORDS: Final = (
    "amber", "basin", "cedar", "delta", "ember", "field", "grove", "harbour", "island",
    "jasper", "kettle", "lantern", "meadow", "north", "orchard", "pebble", "quartz", "river",
    "silver", "timber", "umber", "valley", "willow", "yellow", "zephyr",
)  # fmt: skip
_LONG: Final = 'Ünï "quoted" \\ 漢字 😀 <b>&</b> {x}'


def make_text(body: Mapping[str, Any], size: Size, chance: Random, tries: int) -> str:
    """Return a string of a schema; with each of the `tries` another form of it."""
    shortest: int = body.get("minLength", 0)
    longest: int | None = body.get("maxLength")
    if "pattern" in body:
        found = text_matching(body["pattern"], chance, shortest, longest)
        if found is not None:
            return found
    known = _FORMATS.get(str(body.get("format", body.get("contentEncoding"))))
    if known is not None:
        forms = known(chance)
        if tries < 2 * len(forms):
            return forms[tries % len(forms)]
    if tries > 2:  # the type has a rule of its own
        return _odd_text(chance, tries - 3)
    text = words(chance, {"minimal": 0, "typical": 2, "maximal": 40}[size] + tries)
    if size == "maximal" and not tries:
        text = f"{_LONG} {text}"
    if len(text) < shortest:
        text = (text + "".join([chance.choice("abcdefgh") for _ in range(shortest - len(text))]))[:shortest]
    cut = text[:longest].strip()
    return cut + "x" * (shortest - len(cut))


def words(chance: Random, number: int) -> str:
    """Return a number of words."""
    return " ".join([chance.choice(_WORDS) for _ in range(number)])


def _moment(chance: Random, year: int) -> str:
    return f"{year}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T{_time(chance)}"


def _time(chance: Random) -> str:
    return f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"


def _moments(chance: Random) -> list[str]:
    past, future = _moment(chance, chance.randint(2000, 2020)), _moment(chance, 2900)
    return [f"{past}Z", past, f"{future}Z", future]


def _uuid(version: int) -> Callable[[Random], list[str]]:
    def forms(chance: Random) -> list[str]:
        bits = chance.getrandbits(128) & ~(0xF << 76) & ~(0xC << 60) | version << 76 | 0x8 << 60
        return [str(UUID(int=bits))]

    return forms


@lru_cache(1)
def _folder() -> Path:
    """Return a folder with a file, which a tool may change; it is removed at the end of the program."""
    folder = Path(tempfile.mkdtemp(prefix="toolcast-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "file.txt").touch()
    return folder


def _fixed(*forms: str) -> Callable[[Random], list[str]]:
    return lambda chance: list(forms)


def _domain(chance: Random) -> str:
    return f"{chance.choice(_WORDS)}.example.com"


_URLS: Final = (
    "https://example.com/a", "file:///a/b", "ftp://example.com/a", "ws://example.com/a", "redis://localhost:6379/0",
    "postgresql://a@localhost:5432/b", "mysql://a@localhost:3306/b", "mongodb://localhost:27017/a",
    "amqp://a:b@localhost:5672/c", "kafka://localhost:9092", "nats://localhost:4222", "mariadb://a@localhost:3306/b",
    "clickhouse://a@localhost:8123/b", "snowflake://a:b@c/d", "cockroachdb://a@localhost:26257/b",
)  # fmt: skip

_FORMATS: Final[Mapping[str, Callable[[Random], list[str]]]] = {
    "date-time": _moments,
    "date": lambda chance: [moment[:10] for moment in _moments(chance)[1:3]],
    "time": lambda chance: [_time(chance), f"{_time(chance)}Z"],
    "duration": lambda chance: [f"P{chance.randint(0, 9)}DT{chance.randint(0, 23)}H", "PT1S", "P1D"],
    "uuid": _uuid(4),
    **{f"uuid{version}": _uuid(version) for version in range(1, 9)},
    "email": lambda chance: [f"{chance.choice(_WORDS)}@{_domain(chance)}"],
    "name-email": lambda chance: [f"Ada {chance.choice(_WORDS).title()} <ada@{_domain(chance)}>"],
    "hostname": lambda chance: [_domain(chance)],
    "ipv4": lambda chance: [f"192.0.2.{chance.randint(1, 254)}"],
    "ipv6": lambda chance: [f"2001:db8::{chance.randint(1, 9999):x}"],
    "ipvanyaddress": lambda chance: [f"192.0.2.{chance.randint(1, 254)}"],
    "ipv4network": _fixed("192.0.2.0/24"),
    "ipv6network": _fixed("2001:db8::/32"),
    "ipvanynetwork": _fixed("192.0.2.0/24"),
    "ipv4interface": _fixed("192.0.2.1/24"),
    "ipv6interface": _fixed("2001:db8::1/32"),
    "ipvanyinterface": _fixed("192.0.2.1/24"),
    "uri": lambda chance: [f"https://{_domain(chance)}/a", *_URLS],
    "multi-host-uri": _fixed(*_URLS[4:]),
    "path": lambda chance: [f"{chance.choice(_WORDS)}/{chance.choice(_WORDS)}.txt"],
    "file-path": lambda chance: [str(_folder() / "file.txt")],
    "directory-path": lambda chance: [str(_folder())],
    "json-string": _fixed("{}", "[]", "0", '"a"', "true", '{"a": 1}'),
    "regex": _fixed("a+"),
    "base64": lambda chance: [base64.b64encode(chance.choice(_WORDS).encode()).decode()],
    "base64url": lambda chance: [base64.urlsafe_b64encode(chance.choice(_WORDS).encode()).decode()],
    "color": _fixed("#ffaa00", "red"),
    "decimal": lambda chance: [f"{chance.randint(0, 99)}.5", "1"],
}


def _odd_text(chance: Random, number: int) -> str:
    """Return a string of a form that a type demands in code rather than in its schema."""
    moment, local, *_ = _moments(chance)
    word = chance.choice(_WORDS)
    varying = (str(chance.randint(1, 99)), word.upper(), word.title(), word[0].upper(), local[:10], moment, local)
    forms = (*varying, *_uuid(4)(chance), *_ODD)
    return forms[number % len(forms)]


_ODD: Final = (
    "P1D", "ada@example.com", "https://example.com/a", "YWJj", "{}", "math.pi", "UTC", "Europe/Paris", "#ffaa00", "red",
    "1.5", "en", "DE", "EUR", "1.2.3", "192.0.2.1", "+15551234567", "true", "09:30", "a_b", "a-b", "A1", "ada.lovelace",
    "4111111111111111",
)  # fmt: skip
