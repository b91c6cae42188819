"""A schema in one line: `name "the full name", age int, tags list, size small|large?, author {name, born date}`.

    fields   field, field, ...
    field    name [:] [type] [?] ["what it is"]
    type     one of TYPES (str where none is said) | a|b|c, a choice | { fields }, an object
             each with `list` or `[]` behind it: several; `list` alone: several strings

`?` is what may be missing. The text is cut into tokens, and those are read once, from left to right: what comes next
says what it is. What cannot be read is a `SchemaError`, which points at the place. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

TYPES: Mapping[str, type[Any]] = {
    "str": str,
    "text": str,
    "int": int,
    "float": float,
    "number": float,
    "bool": bool,
    "date": date,
    "time": time,
    "datetime": datetime,
}
_DEEPEST = 10


class SchemaError(ValueError):
    """The schema cannot be read; the message shows where."""

    def __init__(self, why: str, text: str, at: int) -> None:
        line = re.sub(r"\s", " ", text)
        super().__init__(f"{why}\n  {line}\n  {' ' * at}^")
        self.at: int = at


@dataclass(frozen=True, slots=True)
class OneField:
    """A field: of a `type` of TYPES, one of the `choices`, or an object of `fields`."""

    name: str
    type: str = "str"
    choices: tuple[str, ...] = ()
    fields: tuple[OneField, ...] = ()
    many: bool = False
    optional: bool = False
    description: str | None = None


def parsed(text: str) -> tuple[OneField, ...]:
    """The fields that `text` names. Raises `SchemaError`."""
    return _Reader(text).everything()


def model_of(fields: Sequence[OneField], name: str = "Data") -> type[BaseModel]:
    """A Pydantic model with these fields."""
    # Pydantic has names of its own, so ours are aliases.
    made = {f"field_{number}": _typed(each) for number, each in enumerate(fields)}
    return create_model(name, __config__=_CONFIG, **cast("dict[str, Any]", made))


_CONFIG = ConfigDict(extra="ignore")


def _typed(field: OneField) -> tuple[Any, Any]:
    if field.fields:
        kind: Any = model_of(field.fields, re.sub(r"\W", "", field.name.title().replace("_", "")) or "Data")
    else:
        kind = Literal[field.choices] if field.choices else TYPES[field.type]
    kind = list[kind] if field.many else kind
    default: Any = None if field.optional else ...
    return (kind | None if field.optional else kind), Field(default, alias=field.name, description=field.description)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r'(?P<word>[\w.+/-]+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<many>\[\s*\])|(?P<sign>[,:?|{}])|(?P<other>\S)'
)
_NAME = re.compile(r"[^\W\d][\w-]*")


class _Reader:
    """What of the tokens was read so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [_Token(found.lastgroup or "", found[0], found.start()) for found in _TOKEN.finditer(text)]
        self._end = _Token("end", "", len(text.rstrip()))
        self._place = 0
        self._depth = 0

    def everything(self) -> tuple[OneField, ...]:
        """All fields, to the end of the text."""
        fields = self._fields()
        if self._next.kind != "end":
            raise self._wrong("a comma or the end of the schema has to come here")
        return fields

    def _fields(self) -> tuple[OneField, ...]:
        found: dict[str, OneField] = {}
        while not found or self._takes(","):
            if found and self._next.text in ("", "}"):  # a comma behind the last one
                break
            name = self._next
            if not _NAME.fullmatch(name.text):
                raise self._wrong("the name of a field has to come here")
            if name.text in found:
                raise self._wrong(f"there is a field {name.text!r} already")
            self._place += 1
            found[name.text] = self._field(name.text)
        return tuple(found.values())

    def _field(self, name: str) -> OneField:
        self._takes(":")
        kind = "str"
        choices: tuple[str, ...] = ()
        fields: tuple[OneField, ...] = ()
        if self._next.text == "{":
            fields = self._object()
        elif self._after.text == "|":
            choices = self._choices()
        elif self._next.kind == "word" and self._next.text != "list":
            kind = self._type()
        many = self._takes("list") or self._takes_many()
        optional = self._takes("?")
        description = self._string() if self._next.kind == "string" else None
        return OneField(name, kind, choices, fields, many, optional, description)

    def _object(self) -> tuple[OneField, ...]:
        opening = self._next
        self._place += 1
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SchemaError(f"no more than {_DEEPEST} objects go into each other", self._text, opening.at)
        fields = self._fields()
        if not self._takes("}"):
            raise self._wrong(f"a comma or the }} has to come here that closes the {{ at {opening.at + 1}")
        self._depth -= 1
        return fields

    def _choices(self) -> tuple[str, ...]:
        """The words of a choice, each once."""
        found: list[str] = []
        while not found or self._takes("|"):
            if self._next.kind not in ("word", "string"):
                raise self._wrong("a word of the choice has to come here")
            found.append(self._string())
        return tuple(dict.fromkeys(found))

    def _type(self) -> str:
        if self._next.text not in TYPES:
            known = ", ".join((*TYPES, "list"))
            raise self._wrong(f"{self._next.text!r} is no type; there are: {known}, and choices: small|large")
        return self._string()

    def _string(self) -> str:
        """The next token, without its quotes."""
        token = self._next
        self._place += 1
        return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL) if token.kind == "string" else token.text

    def _takes(self, text: str) -> bool:
        """Whether `text` came next; then it is behind us."""
        found = self._next.text == text
        self._place += found
        return found

    def _takes_many(self) -> bool:
        found = self._next.kind == "many"
        self._place += found
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else self._end

    @property
    def _after(self) -> _Token:
        return self._tokens[self._place + 1] if self._place + 1 < len(self._tokens) else self._end

    def _wrong(self, why: str) -> SchemaError:
        unclosed = self._next.text == '"'
        return SchemaError("this quote is not closed" if unclosed else why, self._text, self._next.at)
