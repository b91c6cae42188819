"""What a model reads of what a tool gave, or of why it gave nothing.

A result may be anything: it may hold itself, be larger than memory, never end, or fail when it is looked at. Its
text is made all the same, and no more of it than may be shown. What is surely small is written at once, by
Pydantic. What is not is written piece by piece until there is enough; there a Pydantic model or a dataclass is
one piece, because how it is written is its own business. An error becomes its type and its message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import pydantic
from pydantic_core import to_json

from .errors import CallError, ToolcastError, TryAgain
from .messages import ImagePart, TextPart

_TOLD = 500
_TOLD_OF_CALLS = 2000
_SHOWN_FAULTS = 5
_SHOWN_INPUT = 80
_DEEPEST = 50
_LISTS = (list, tuple, set, frozenset)
_BYTES = (bytes, bytearray)
_PARTS = (TextPart, ImagePart)


def text_of(result: Any, limit: int | None = None) -> str:
    """`result` as text for a model: a string as it is, all else as JSON. It never raises.

    Of what is longer than `limit` characters there is the beginning, and a note on what was left out.
    """
    try:
        if isinstance(result, str):
            return cut(result, limit)
        if limit is None or _is_small(result, limit):
            return cut(_whole(result), limit)
        return _first(result, limit)
    except Exception as error:
        # The result is the user's own object, and writing it may run any code of its.
        return f"<{type(result).__name__} that cannot be shown: {type(error).__name__}>"


def told(error: BaseException | None) -> str:
    """`error` in words for the model: short, and without a trace of where it happened."""
    if isinstance(error, CallError) and error.message:
        return cut(error.message, _TOLD_OF_CALLS)
    return cut(_words(error), _TOLD)


def cut(text: str, limit: int | None) -> str:
    """`text`, and where it is longer than `limit`, its beginning and how much was left out."""
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}... [{len(text) - limit} characters left out]"
    # Half a surrogate pair, as from a file's name, cannot be sent to anybody.
    return text if text.isascii() else text.encode(errors="replace").decode()


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


def unfit(name: str, error: pydantic.ValidationError) -> str:
    """What is wrong with the arguments for the tool `name`."""
    faults = error.errors(include_url=False)
    shown = [
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}, got {_shortened(fault['input'])}"
        for fault in faults[:_SHOWN_FAULTS]
    ]
    more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
    count = f"{len(faults)} error{'s' if len(faults) > 1 else ''}"
    return (
        f"the arguments for {name} do not fit, {count}: {'; '.join(shown)}{more}. "
        "max_attempts=2 lets the model correct itself"
    )


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_INPUT else f"{text[: _SHOWN_INPUT - 1]}…"


def _words(error: BaseException | None) -> str:
    try:
        words = str(error)
    except Exception:
        # The error is the user's own class.
        words = ""
    name = type(error).__name__
    if isinstance(error, (TryAgain, ToolcastError)) and words:
        return words
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error)
        words = f"{words}: {'; '.join(map(_words, several.exceptions[:_SHOWN_FAULTS]))}"
    return f"{name}: {words}" if words else name


def _whole(result: Any) -> str:
    try:
        return to_json(result, by_alias=True, bytes_mode="base64", fallback=str).decode()
    except ValueError:  # a value that refers to itself
        return str(result)


def _is_small(result: Any, limit: int) -> bool:
    """Whether the text of `result` is surely not much longer than `limit`; models and the like count as one."""
    ahead, left = [result], limit
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
            return False
    return left > 0


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
        for item in islice(cast("Iterable[Any]", value), limit):
            yield opened
            yield from _pieces(item, limit, depth + 1)
            opened = ","
        yield "]" if opened == "," else "[]"
    elif isinstance(value, (str, *_BYTES)):
        yield _whole(value[: limit + 1])
    else:
        yield _whole(value)
