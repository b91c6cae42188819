"""What a model reads of what a tool gave, or of why it gave nothing.

A result may be anything: it may hold itself, be larger than memory, never end, or fail when it is looked at. Its
text is made all the same, and no more of it than may be shown. What is surely small is written at once, by
Pydantic. What is not is written piece by piece until there is enough; there a Pydantic model or a dataclass is
one piece, because how it is written is its own business. What gives its items one by one is read no further than it
can be shown, and a file by its lines. An error becomes its type and its message, without what in it looks like a key
and without the folders of paths: whoever raised it did not think of who reads it here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import IOBase
from itertools import islice, takewhile
from typing import Any, Final, cast

import pydantic

from ..errors import CallError, FailTurn, ToolcastError, TryAgain
from ..json_text import json_text, replace_surrogates
from ..messages import ImagePart, TextPart

REFUSES_TOOLS: Final = re.compile("not support tools|support tool use|enable-auto-tool-choice")
"""How Ollama, OpenRouter and vLLM say of a model that it cannot be given tools."""

_TOLD = 500
_TOLD_OF_CALLS = 2000
_SHOWN_FAULTS = 5
_SHOWN_INPUT = 80
_LOOKED_AT = 20_000
_ENDLESS = 100_000
_DEEPEST = 50
_LISTS = (list, tuple, set, frozenset)
_BYTES = (bytes, bytearray)
_PARTS = (TextPart, ImagePart)

# What is replaced in the text of an error, one after the other. None of them looks at a character twice.
_UNSAFE = [
    (re.compile(pattern), shown)
    for pattern, shown in (
        (r"Traceback \(most recent call last\):\n(?:[ \t].*\n?)*", ""),
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*-----)?", "[key]"),
        (r"://[^\s/@:]*:[^\s/@]+@", "://[key]@"),
        (r"(?i)(authorization[\"']?\s?[=:]\s?[\"']?)(?:\w+\s)?[^\s\"',;]+", r"\1[key]"),
        (r"(?i)\b(bearer|basic)\s+(?=\S*[\d=_-])[\w.~+/=-]{8,}", r"\1 [key]"),
        (r"([?&](?:key|token|sig|auth)=)[^\s&#'\"]+", r"\1[key]"),
        (
            r"(?i)((?:api|access|secret|private|auth|session)[_-]?(?:key|token|id)|password|passwd|secret|signature)"
            r"(s?[\"']?\s?[=:]\s?[\"']?)(?!\[key\])[^\s\"'&,;]+",
            r"\1\2[key]",
        ),
        (r"\b(?:sk|pk|rk|xai|glpat|xox[a-z])[-_][\w-]{8,}|\b(?:gh[a-z]|github_pat|hf|gsk)_\w{8,}", "[key]"),
        (r"\bAIza[\w-]{8,}|\bA(?:KIA|SIA)[A-Z0-9]{12,}|\bya29\.[\w-]+|\beyJ[\w-]{8,}(?:\.[\w-]+)+", "[key]"),
        (r"(?:(?<=['\"])|file://)(?:/|[A-Za-z]:[\\/]+|\\\\+)(?:[^'\"\n/\\]+[\\/]+)+(?=[^'\"\n/\\]+['\"])", ""),
        (r"(?:(?<![\w/:.~\\-])|file://)(?:/|[A-Za-z]:[\\/]+|\\\\+)(?:[^\s'\"/\\]+[\\/]+)+(?=[^\s'\"/\\])", ""),
    )
]


def text_of(result: Any, limit: int | None = None) -> str:
    """`result` as text for a model: a string as it is, all else as JSON. It never raises.

    Of what is longer than `limit` characters there is the beginning, and a note on what was left out.
    """
    try:
        if isinstance(result, str):
            return cut(result, limit)
        left, iterates = _measured(result, limit or _ENDLESS)
        if (left > 0 or limit is None) and not iterates:
            return cut(_whole(result), limit)
        return _first(result, limit or _ENDLESS)
    except Exception as error:  # what the user's tool gave: writing it may run any code
        # The result is the user's own object, and writing it may run any code of its.
        return f"<{type(result).__name__} that cannot be shown: {type(error).__name__}>"


def told(error: BaseException | None) -> str:
    """`error` in words for the model: short, and without a trace of where it happened."""
    if isinstance(error, CallError) and error.message:
        return cut(error.message, _TOLD_OF_CALLS)
    return cut(_words(error), _TOLD)


def is_quick(result: Any) -> bool:
    """Whether the text of `result` is made in next to no time."""
    left, iterates = _measured(result, _LOOKED_AT)
    return left > 0 and not iterates


def gathered(result: Iterator[Any], limit: int | None) -> list[Any]:
    """The items of `result`, no more of them than `limit` characters can show, and then it is closed."""
    found = _Gathering(limit)
    try:
        for item in _items(result, found.left):
            if found.is_full_with(item):
                break
    finally:
        getattr(result, "close", _nothing)()
    return found.items


async def gathered_later(result: AsyncIterable[Any], limit: int | None) -> list[Any]:
    """The items of `result`, no more of them than `limit` characters can show, and then it is closed."""
    found, items = _Gathering(limit), aiter(result)
    try:
        async for item in items:
            if found.is_full_with(item):
                break
    finally:
        if (close := getattr(items, "aclose", None)) is not None:
            await close()
    return found.items


class _Gathering:
    """Items, until their text is surely too long."""

    def __init__(self, limit: int | None) -> None:
        self.items: list[Any] = []
        self.left = limit or _ENDLESS

    def is_full_with(self, item: Any) -> bool:
        """Take one more; whether that was the last."""
        self.items.append(item)
        self.left = _measured(item, self.left - 1)[0]
        return self.left < 0


def _nothing() -> None: ...


def _items(result: Iterable[Any], limit: int) -> Iterable[Any]:
    """The items of `result`; those of a file are its lines, none of them much longer than it may be."""
    return takewhile(len, iter(partial(result.readline, limit + 1), None)) if isinstance(result, IOBase) else result


def cut(text: str, limit: int | None) -> str:
    """`text`, and where it is longer than `limit`, its beginning and how much was left out."""
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}... [{len(text) - limit} characters left out]"
    # Half a surrogate pair, as from a file's name, cannot be sent to anybody.
    return replace_surrogates(text)


def pictured(result: Any) -> tuple[str, tuple[ImagePart, ...]] | None:
    """The text and the images of a result that is made of parts; None for any other."""
    if not isinstance(result, (list, tuple, *_PARTS)):
        return None
    parts = cast("Sequence[Any]", result if isinstance(result, (list, tuple)) else (result,))
    if not all(isinstance(part, (str, *_PARTS)) for part in parts) or not any(
        isinstance(part, _PARTS) for part in parts
    ):
        return None
    images = tuple([part for part in parts if isinstance(part, ImagePart)])
    texts = [part if isinstance(part, str) else part.text for part in parts if not isinstance(part, ImagePart)]
    return "\n".join(texts), images


def unfit(name: str, error: pydantic.ValidationError, *, hide_input: bool = False) -> str:
    """Return what is wrong with the arguments for the tool `name`."""
    faults = error.errors(include_url=False)
    shown = [
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
        + ("" if hide_input else f", got {_shortened(fault['input'])}")
        for fault in faults[:_SHOWN_FAULTS]
    ]
    more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
    count = f"{len(faults)} error{'s' if len(faults) > 1 else ''}"
    return f"the arguments for {name} do not fit, {count}: {'; '.join(shown)}{more}"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_INPUT else f"{text[: _SHOWN_INPUT - 1]}…"


def _words(error: BaseException | None) -> str:
    try:
        words = str(error)
    except Exception:  # the user's exception: its `__str__` may fail
        # The error is the user's own class.
        words = ""
    name = type(error).__name__
    if isinstance(error, (TryAgain, FailTurn, ToolcastError)) and words:
        return words
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error)
        return f"{name}: {_safe(words)}: {'; '.join(map(_words, several.exceptions[:_SHOWN_FAULTS]))}"
    return f"{name}: {_safe(words)}" if words else name


def _safe(words: str) -> str:
    """The words of a foreign error, without keys, and of each path only the end."""
    words = words[:_LOOKED_AT]
    for unsafe, shown in _UNSAFE:
        words = unsafe.sub(shown, words)
    return words.strip()


def _whole(result: Any) -> str:
    try:
        return json_text(result, by_alias=True, bytes_mode="base64", fallback=str)
    except ValueError:  # a value that refers to itself
        return str(result)


def _measured(result: Any, limit: int) -> tuple[int, bool]:
    """What is left of `limit` characters behind the text of `result`, at most, and whether something in it iterates.

    Models and the like count as one character, and so does what iterates: it is not touched.
    """
    ahead, left, iterates = [result], limit, False
    while ahead and left > 0:
        item = ahead.pop()
        left -= 1
        if isinstance(item, (str, *_BYTES)):
            left -= len(item)
        elif isinstance(item, (dict, *_LISTS)):
            inside = cast("Collection[Any]", item)
            left -= len(inside)
            if left > 0:
                ahead.extend(inside)
                ahead.extend(cast("Mapping[Any, Any]", inside).values() if isinstance(inside, dict) else ())
        elif isinstance(item, Iterator):
            iterates = True
    return left, iterates


def _first(result: Any, limit: int) -> str:
    """The first `limit` characters of the text of a large `result`, and a note."""
    pieces: list[str] = []
    length = 0
    for piece in _pieces(result, limit, 0):
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            return f"{cut(''.join(pieces)[:limit], None)}... [the rest was left out]"
    return cut("".join(pieces), None)


def _pieces(value: Any, limit: int, depth: int) -> Iterator[str]:
    """The JSON of `value`, piece by piece, none of them much longer than it may be."""
    if depth > _DEEPEST:
        yield '"..."'
    elif isinstance(value, dict):
        opened = "{"
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield f"{opened}{_whole(str(key)[:limit])}:"
            yield from _pieces(item, limit, depth + 1)
            opened = ","
        yield "}" if opened == "," else "{}"
    elif isinstance(value, (Iterator, *_LISTS)):
        opened = "["
        for item in islice(_items(cast("Iterable[Any]", value), limit), limit):
            yield opened
            yield from _pieces(item, limit, depth + 1)
            opened = ","
        yield "]" if opened == "," else "[]"
    elif isinstance(value, (str, *_BYTES)):
        yield _whole(value[: limit + 1])
    else:
        yield _whole(value)
