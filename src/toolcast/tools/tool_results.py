"""Text of tool results and errors for the model, limited in length and without secrets.

A result may be anything: recursive, larger than memory, endless, or failing when it is inspected. It is converted
anyway, up to the limit. Small results are encoded at once, by Pydantic. Others are encoded in chunks until there is
enough text; a Pydantic model or a dataclass is one chunk, because its own serializer decides its form. Iterators are
consumed up to the limit, files line by line. An error becomes its type and its message, with key-like text and the
folders of paths removed: its author did not expect a model to read it.
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
from ..messages import ImagePart, TextPart
from ..text.json_text import json_text, replace_surrogates

# Patterns are text, which `re` compiles and caches when it is used: compiling them delays every import.
_REFUSES_TOOLS: Final = "not support tools|support tool use|enable-auto-tool-choice"
"""The errors of Ollama, OpenRouter and vLLM for a model without tool support."""

_ERROR_LIMIT = 500
_CALL_ERROR_LIMIT = 2000
_SHOWN_ERRORS = 5
_SHOWN_INPUT = 80
_INSPECTED = 20_000
_DEFAULT_LIMIT = 100_000
_MAX_DEPTH = 50
_LISTS = (list, tuple, set, frozenset)
_BYTES = (bytes, bytearray)
_PARTS = (TextPart, ImagePart)

_IN_A_THREAD = "sync tools may run in a thread of their own"

# The errors of objects that belong to a thread, an event loop or a context, in the words of their libraries.
_REMEDIES: Final = (
    (
        "SQLite objects created in a thread can only be used in that same thread",
        f"{_IN_A_THREAD}. Open the connection inside the tool, open it with check_same_thread=False and use it under a "
        "lock, or write the tool with async def",
    ),
    (
        "attached to a different loop|bound to a different event loop|Event loop is closed",
        "an object of one event loop was used in another. Create it inside the tool, or call the async API of toolcast "
        "in the loop that the object belongs to, with a tool written with async def",
    ),
    (
        "no running event loop|no current event loop in thread",
        f"{_IN_A_THREAD}, which has no event loop. Write the tool with async def",
    ),
    (
        "was created in a different Context",
        "the tool runs in a copy of the context. Reset a context variable in the function that has set it",
    ),
    (
        "main thread is not in main loop|[Nn]ot in (?:the )?main thread|only works in main thread|different thread",
        f"{_IN_A_THREAD}. Pass the work on to the thread that the object belongs to, for example with a queue",
    ),
)

# Replacements in the text of an error, applied in order. Each pattern is linear.
_UNSAFE: Final = (
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


def text_of(result: Any, limit: int | None = None) -> str:
    """Return `result` as text for the model: a string unchanged, anything else as JSON. It never raises.

    Text longer than `limit` characters is cut, with a note on the number of characters left out.
    """
    try:
        if isinstance(result, str):
            return truncate(result, limit)
        left, has_iterator = _remaining(result, limit or _DEFAULT_LIMIT)
        if (left > 0 or limit is None) and not has_iterator:
            return truncate(_to_json(result), limit)
        return _json_prefix(result, limit or _DEFAULT_LIMIT)
    except Exception as error:  # serializing the user's object may run any code
        return f"<{type(result).__name__} that cannot be shown: {type(error).__name__}>"


def error_text(error: BaseException | None) -> str:
    """Return the description of `error` for the model: short, and without a traceback."""
    if isinstance(error, CallError) and error.message:
        return truncate(error.message, _CALL_ERROR_LIMIT)
    return truncate(_error_text(error), _ERROR_LIMIT)


def remedy_of(error: BaseException) -> str | None:
    """Return what the developer of a tool can change, for an error of where it ran; None for any other error.

    The model reads the error too, and can do nothing about it.
    """
    text = str(error)
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), None)


def refuses_tools(error: BaseException) -> bool:
    """Return whether a service's error is that of a model without tool support."""
    return re.search(_REFUSES_TOOLS, str(error)) is not None


def is_quick(result: Any) -> bool:
    """Return whether converting `result` to text takes next to no time."""
    left, has_iterator = _remaining(result, _INSPECTED)
    return left > 0 and not has_iterator


def collect_items(result: Iterator[Any], limit: int | None) -> list[Any]:
    """Return the items of `result`, as many as `limit` characters can show, and close it."""
    collector = _ItemCollector(limit)
    try:
        for item in _items(result, collector.left):
            if collector.is_full_with(item):
                break
    finally:
        getattr(result, "close", _nothing)()
    return collector.items


async def acollect_items(result: AsyncIterable[Any], limit: int | None) -> list[Any]:
    """Return the items of `result`, as many as `limit` characters can show, and close it."""
    collector, items = _ItemCollector(limit), aiter(result)
    try:
        async for item in items:
            if collector.is_full_with(item):
                break
    finally:
        if (close := getattr(items, "aclose", None)) is not None:
            await close()
    return collector.items


class _ItemCollector:
    """A list of items with a limit on the length of their text."""

    def __init__(self, limit: int | None) -> None:
        self.items: list[Any] = []
        self.left = limit or _DEFAULT_LIMIT

    def is_full_with(self, item: Any) -> bool:
        """Add an item; return whether it was the last."""
        self.items.append(item)
        self.left = _remaining(item, self.left - 1)[0]
        return self.left < 0


def _nothing() -> None: ...


def _items(result: Iterable[Any], limit: int) -> Iterable[Any]:
    """Return the items of `result`; for a file its lines, each cut at the limit."""
    return takewhile(len, iter(partial(result.readline, limit + 1), None)) if isinstance(result, IOBase) else result


def truncate(text: str, limit: int | None) -> str:
    """Return `text`; if it is longer than `limit`, its beginning and the number of characters left out."""
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}... [{len(text) - limit} characters left out]"
    # Half a surrogate pair, as from a file name, cannot be encoded.
    return replace_surrogates(text)


def split_images(result: Any) -> tuple[str, tuple[ImagePart, ...]] | None:
    """Return the text and the images of a result made of message parts; None for any other."""
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


def argument_errors(name: str, error: pydantic.ValidationError, *, hide_input: bool = False) -> str:
    """Return the description of invalid arguments for the tool `name`."""
    problems = error.errors(include_url=False)
    shown = [
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        + ("" if hide_input else f", got {_shortened(problem['input'])}")
        for problem in problems[:_SHOWN_ERRORS]
    ]
    more = f"; and {len(problems) - _SHOWN_ERRORS} more" if len(problems) > _SHOWN_ERRORS else ""
    count = f"{len(problems)} error{'s' if len(problems) > 1 else ''}"
    return f"the arguments for {name} do not fit, {count}: {'; '.join(shown)}{more}"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_INPUT else f"{text[: _SHOWN_INPUT - 1]}…"


def _error_text(error: BaseException | None) -> str:
    try:
        text = str(error)
    except Exception:  # the user's exception: its `__str__` may fail
        text = ""
    name = type(error).__name__
    if isinstance(error, (TryAgain, FailTurn, ToolcastError)) and text:
        return text
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error)
        return f"{name}: {_scrub(text)}: {'; '.join(map(_error_text, several.exceptions[:_SHOWN_ERRORS]))}"
    return f"{name}: {_scrub(text)}" if text else name


def _scrub(text: str) -> str:
    """Return the text of an exception without keys, and with only the last component of each path."""
    text = text[:_INSPECTED]
    for unsafe, shown in _UNSAFE:
        text = re.sub(unsafe, shown, text)
    return text.strip()


def _to_json(result: Any) -> str:
    try:
        return json_text(result, by_alias=True, bytes_mode="base64", fallback=str)
    except ValueError:  # a value that refers to itself
        return str(result)


def _remaining(result: Any, limit: int) -> tuple[int, bool]:
    """Return how much of `limit` characters the text of `result` leaves at most, and whether it contains an iterator.

    Models and the like count as one character, and so do iterators, which are not consumed.
    """
    stack, left, has_iterator = [result], limit, False
    while stack and left > 0:
        item = stack.pop()
        left -= 1
        if isinstance(item, (str, *_BYTES)):
            left -= len(item)
        elif isinstance(item, (dict, *_LISTS)):
            inside = cast("Collection[Any]", item)
            left -= len(inside)
            if left > 0:
                stack.extend(inside)
                stack.extend(cast("Mapping[Any, Any]", inside).values() if isinstance(inside, dict) else ())
        elif isinstance(item, Iterator):
            has_iterator = True
    return left, has_iterator


def _json_prefix(result: Any, limit: int) -> str:
    """Return the first `limit` characters of the text of a large `result`, with a note."""
    chunks: list[str] = []
    length = 0
    for chunk in _json_chunks(result, limit, 0):
        chunks.append(chunk)
        length += len(chunk)
        if length > limit:
            return f"{truncate(''.join(chunks)[:limit], None)}... [the rest was left out]"
    return truncate("".join(chunks), None)


def _json_chunks(value: Any, limit: int, depth: int) -> Iterator[str]:
    """Yield the JSON of `value` in chunks, none of them much longer than the limit."""
    if depth > _MAX_DEPTH:
        yield '"..."'
    elif isinstance(value, dict):
        opened = "{"
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield f"{opened}{_to_json(str(key)[:limit])}:"
            yield from _json_chunks(item, limit, depth + 1)
            opened = ","
        yield "}" if opened == "," else "{}"
    elif isinstance(value, (Iterator, *_LISTS)):
        opened = "["
        for item in islice(_items(cast("Iterable[Any]", value), limit), limit):
            yield opened
            yield from _json_chunks(item, limit, depth + 1)
            opened = ","
        yield "]" if opened == "," else "[]"
    elif isinstance(value, (str, *_BYTES)):
        yield _to_json(value[: limit + 1])
    else:
        yield _to_json(value)
