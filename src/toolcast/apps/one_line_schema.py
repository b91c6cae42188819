"""A schema in one line: `name "the full name", age int, tags list, size small|large?, author {name, born date}`.

    fields   field, field, ...
    field    name [:] [type] [?] ["description"]
    type     one of TYPES (default: str) | a|b|c, a choice | { fields }, an object
             each may be followed by `list` or `[]`: a list of them; `list` alone: a list of strings

`?` marks an optional field. The text is cut into tokens, which a recursive descent parser reads once, from left to
right. A text that does not match the grammar raises `SchemaError`, which points at the position. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from ..lazy.lazy_dataclasses import dataclass

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
_MAX_DEPTH = 10


class SchemaError(ValueError):
    """A schema that cannot be parsed; the message shows the position."""

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


def parse_schema(text: str) -> tuple[OneField, ...]:
    """Return the fields of the schema `text`.

    Raises:
        SchemaError: The text does not match the grammar.
    """
    return _SchemaParser(text).parse()


def build_model(fields: Sequence[OneField], name: str = "Data") -> type[BaseModel]:
    """Return a Pydantic model with these fields."""
    names = [each.name for each in fields]
    made = {field_name(each.name, names): _field_definition(each) for each in fields}
    return create_model(name, __config__=_CONFIG, **cast("dict[str, Any]", made))


def field_name(name: str, names: Collection[str]) -> str:
    """Return the name of the attribute for a field called `name` beside others called `names`.

    It is the name itself, unless a Pydantic model reserves it, as it does `copy` and names that begin with `_`.
    """
    made = name.lstrip("_") or "field"
    while (made != name and made in names) or hasattr(BaseModel, made):
        made += "_"
    return made


_CONFIG = ConfigDict(extra="ignore", protected_namespaces=())


def _field_definition(field: OneField) -> tuple[Any, Any]:
    if field.fields:
        kind: Any = build_model(field.fields, re.sub(r"\W", "", field.name.title().replace("_", "")) or "Data")
    else:
        kind = Literal[field.choices] if field.choices else TYPES[field.type]
    kind = list[kind] if field.many else kind
    default: Any = None if field.optional else ...
    return (kind | None if field.optional else kind), Field(default, alias=field.name, description=field.description)


class _SchemaToken(NamedTuple):
    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r'(?P<word>[\w.+/-]+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<many>\[\s*\])|(?P<sign>[,:?|{}])|(?P<other>\S)'
)
_NAME = re.compile(r"[^\W\d][\w-]*")


class _SchemaParser:
    """A recursive descent parser of the tokens of `text`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [_SchemaToken(found.lastgroup or "", found[0], found.start()) for found in _TOKEN.finditer(text)]
        self._end = _SchemaToken("end", "", len(text.rstrip()))
        self._position = 0
        self._depth = 0

    def parse(self) -> tuple[OneField, ...]:
        """Return all fields, up to the end of the text."""
        fields = self._fields()
        if self._token.kind != "end":
            raise self._error("expected a comma or the end of the schema")
        return fields

    def _fields(self) -> tuple[OneField, ...]:
        found: dict[str, OneField] = {}
        while not found or self._accept(","):
            if found and self._token.text in ("", "}"):  # a trailing comma
                break
            name = self._token
            if not _NAME.fullmatch(name.text):
                raise self._error("expected the name of a field")
            if name.text in found:
                raise self._error(f"duplicate field {name.text!r}")
            self._position += 1
            found[name.text] = self._field(name.text)
        return tuple(found.values())

    def _field(self, name: str) -> OneField:
        self._accept(":")
        kind = "str"
        choices: tuple[str, ...] = ()
        fields: tuple[OneField, ...] = ()
        if self._token.text == "{":
            fields = self._object()
        elif self._token_after.text == "|":
            choices = self._choices()
        elif self._token.kind == "word" and self._token.text != "list":
            kind = self._type()
        many = self._accept("list") or self._accept_many()
        optional = self._accept("?")
        description = self._string() if self._token.kind == "string" else None
        return OneField(name, kind, choices, fields, many, optional, description)

    def _object(self) -> tuple[OneField, ...]:
        opening = self._token
        self._position += 1
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise SchemaError(f"objects are nested more than {_MAX_DEPTH} deep", self._text, opening.at)
        fields = self._fields()
        if not self._accept("}"):
            raise self._error(f"expected a comma, or the }} that closes the {{ at {opening.at + 1}")
        self._depth -= 1
        return fields

    def _choices(self) -> tuple[str, ...]:
        """Return the values of a choice, each once."""
        found: list[str] = []
        while not found or self._accept("|"):
            if self._token.kind not in ("word", "string"):
                raise self._error("expected a value of the choice")
            found.append(self._string())
        return tuple(dict.fromkeys(found))

    def _type(self) -> str:
        if self._token.text not in TYPES:
            known = ", ".join((*TYPES, "list"))
            raise self._error(
                f"unknown type {self._token.text!r}; expected one of {known}, or a choice such as small|large"
            )
        return self._string()

    def _string(self) -> str:
        """Return the text of the next token, without its quotes, and move behind it."""
        token = self._token
        self._position += 1
        return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL) if token.kind == "string" else token.text

    def _accept(self, text: str) -> bool:
        """Move behind the next token if it is `text`, and return whether it was."""
        found = self._token.text == text
        self._position += found
        return found

    def _accept_many(self) -> bool:
        found = self._token.kind == "many"
        self._position += found
        return found

    @property
    def _token(self) -> _SchemaToken:
        return self._tokens[self._position] if self._position < len(self._tokens) else self._end

    @property
    def _token_after(self) -> _SchemaToken:
        return self._tokens[self._position + 1] if self._position + 1 < len(self._tokens) else self._end

    def _error(self, why: str) -> SchemaError:
        unclosed = self._token.text == '"'
        return SchemaError("unterminated quote" if unclosed else why, self._text, self._token.at)
