"""Removal of credentials and personal data from recorded bodies, which keeps their chunk borders.

A body is searched as it was sent and, where it is JSON or a stream of JSON events, in each of its strings as decoded:
an escape may hide a text there, and a stream cuts it into deltas. So the strings of one field of all events are
searched as one text. `Scrubber.check` searches the result again, with further decodings, before it is written.
"""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, AnyStr, Final, TypeAlias, cast
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from ..errors import ToolcastError
from ..values.credentials import Secret
from ..values.http_request import HTTPRequest
from ..values.secret_patterns import MARK, is_secret, secret_spans

TextFilter: TypeAlias = Callable[[str], str] | Mapping[str, str]
"""The `filter` of a recording: a function of a text, or replacements by regular expression."""

_Span: TypeAlias = tuple[int, int, str]
_Rule: TypeAlias = Callable[[str], list[_Span]]

_EVENT: Final = re.compile(rb"[ \t]*(?:data:)?[ \t]*([\[{].*[\]}])\s*", re.DOTALL)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?')
_INDEX: Final = re.compile(rb'"\w*index"\s*:\s*(\d+)')
_LABELS: Final = frozenset((b'"id"', b'"object"', b'"type"', b'"model"', b'"role"', b'"system_fingerprint"'))


class RecordingError(ToolcastError):
    """The error for a recording that cannot be read, or that may not be written."""


class Scrubber:
    """The credentials that are in use, and the user's filter.

    Args:
        filter: The user's filter, or None.
        secrets: Credentials beside those of the requests and of the environment.
    """

    def __init__(self, filter: TextFilter | None = None, secrets: Iterable[str] = ()) -> None:
        self._filters = _filter_rules(filter)
        # A `Secret` and closures: a traceback that shows local variables must not show a credential.
        self._secrets = {Secret(text) for text in (*secrets, *_environment()) if is_credential(text)}
        self._find: Callable[[], re.Pattern[str]] | None = None

    def learn(self, request: HTTPRequest) -> None:
        """Add the credentials of a request."""
        found = {Secret(text) for value in request.credentials for text in _parts_of(value)}
        if not found <= self._secrets:
            self._secrets |= found
            self._find = None

    def text(self, text: str) -> str:
        """Return a text without credentials and without what the filter replaces."""
        return b"".join(self.chunks([text.encode("utf-8", "surrogatepass")])).decode("utf-8", "surrogatepass")

    def chunks(self, chunks: Sequence[bytes]) -> list[bytes]:
        """Return the chunks of a body without credentials and without what the filter replaces. None is empty."""
        clean = self._without_credentials(chunks)
        for rule in self._filters:
            clean = _replace(clean, _spans_in_body(b"".join(clean), rule, lines=True))
        return [chunk for chunk in clean if chunk]

    def check(self, data: bytes, where: str) -> None:
        """Raise `RecordingError` if `data` still contains a credential in one of its encodings."""
        if self._still_contains(data):
            raise RecordingError(
                f"the recording was not written: {where} still contains a credential. Remove it with filter=, or keep "
                "it out of what the program sends."
            )

    def _without_credentials(self, chunks: Sequence[bytes]) -> list[bytes]:
        # In a frame of its own, as its locals contain what must not be shown if a filter raises an exception.
        clean = _replace(chunks, _spans_in_body(b"".join(chunks), self._credentials, lines=False))
        data = b"".join(clean)
        body = data.decode("latin-1")
        known = self._known(body)
        spans = secret_spans(body, known) if _is_text(data) else known
        return _replace(
            clean,
            [  # outside of strings, where only a number of as many digits leaves JSON valid
                (start, end, b"9" * (end - start) if body[start:end].isdigit() else MARK.encode())
                for start, end in spans
            ],
        )

    def _credentials(self, text: str) -> list[_Span]:
        """Return the spans of `text` with the known credentials, and with what looks like one."""
        return [(*span, MARK) for span in secret_spans(text, self._known(text))]

    def _known(self, text: str) -> Iterator[tuple[int, int]]:
        return (found.span() for found in self._pattern().finditer(text))

    def _pattern(self) -> re.Pattern[str]:
        if self._find is None:
            forms = {form for secret in self._secrets for form in _encodings(secret.reveal())}
            # As bytes too: a body is searched as Latin-1. The longest first, as a shorter form may be a part of it.
            forms |= {form.encode("utf-8", "surrogatepass").decode("latin-1") for form in forms}
            ordered = sorted(forms, key=len, reverse=True)
            compiled = re.compile("|".join(map(re.escape, ordered)) if ordered else r"(?!)")
            self._find = lambda: compiled
        return self._find()

    def _still_contains(self, data: bytes) -> bool:
        text = data.decode("latin-1")
        texts = [text, *(_joined(strings) for strings in _fields(data).values())]
        decodings = (str, unquote, unquote_plus, html.unescape, _unescaped)
        views = (decode(text) for text in texts for decode in decodings)
        return any(self._pattern().search(view) for view in views)


def is_credential(text: str) -> bool:
    """Return False for a text that is too short for a credential, or a word or number that any body may contain."""
    return len(text) > 3 and (len(text) > 7 or not (text.isalpha() or text.isdigit()))


def _environment() -> Iterator[str]:
    """Yield the values of the environment variables that are credentials, by their name or form."""
    for name, value in os.environ.items():
        # The path of a key file is none. A Path raises an error for a text that is too long to be one.
        if len(value) < 8 or not is_secret(name, value) or os.path.exists(value):  # noqa: PTH110  # see above
            continue
        yield value
        yield from re.findall(r"://[^/\s:@]*:([^/\s@]{4,})@", value)


def _parts_of(secret: Secret) -> Iterator[str]:
    """Yield the texts that reveal `secret`: with and without scheme, the login of `Basic`, the values of cookies."""
    for text in secret.forms():
        # The names of the headers that AWS signs are no values: every body may contain them.
        texts = [text, *re.findall(r'(?<!SignedHeaders)=([^;,\s"]+)', text)]
        with suppress(BadBase64, ValueError):
            login = b64decode(text, validate=True).decode()
            texts += [login, login.partition(":")[2]] if ":" in login else []
        yield from filter(is_credential, texts)


def _encodings(secret: str) -> Iterator[str]:
    """Yield a credential as it is, and as it is encoded in URLs, JSON, JSON within JSON, HTML, hex and base64."""
    plain = [secret, quote(secret), quote(secret, safe=""), quote_plus(secret)]
    plain += [re.sub("%..", lambda found: found[0].lower(), text) for text in plain[1:]]
    plain += [html.escape(secret), html.escape(secret, quote=False)]
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        plain += [once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ascii_only)[1:-1]]
    data = secret.encode("utf-8", "surrogatepass")
    yield from (*plain, data.hex(), data.hex().upper())
    for offset in range(3):
        # The characters that depend on the secret alone, wherever it begins in the encoded data.
        encoded = b64encode(b"\0" * offset + data).decode("ascii")
        core = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
        if len(core) > 5:
            yield from (core, core.replace("+", "-").replace("/", "_"))


def _filter_rules(given: TextFilter | None) -> list[_Rule]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        patterns = cast("Mapping[Any, Any]", given)
        return [_pattern_rule(re.compile(pattern), new) for pattern, new in patterns.items()]
    if callable(given):
        return [_function_rule(given)]
    raise TypeError(f"filter: expected a function of a text, or a mapping of patterns, got {type(given).__name__}")


def _pattern_rule(pattern: re.Pattern[str], new: str) -> _Rule:
    return lambda text: [
        (found.start(), found.end(), found.expand(new)) for found in pattern.finditer(text) if found[0]
    ]


def _function_rule(function: Callable[[str], str]) -> _Rule:
    def rule(text: str) -> list[_Span]:
        new = function(text)
        if not isinstance(cast("object", new), str):
            raise TypeError(f"filter: expected str as its result, got {type(new).__name__}")
        return [] if new == text else [_narrow(0, text, new)]

    return rule


def _narrow(start: int, old: AnyStr, new: AnyStr) -> tuple[int, int, AnyStr]:
    """Return the span of `old`, which begins at `start`, that differs from `new`."""
    shorter = min(len(old), len(new))
    same = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    shorter -= same
    tail = 0
    while tail < shorter and old[-1 - tail : len(old) - tail] == new[-1 - tail : len(new) - tail]:
        tail += 1
    return start + same, start + len(old) - tail, new[same : len(new) - tail]


def _replace(pieces: Sequence[AnyStr], spans: Sequence[tuple[int, int, AnyStr]]) -> list[AnyStr]:
    """Return `pieces` with these spans of their concatenation replaced, each in the piece where it begins."""
    if not spans:
        return list(pieces)
    replaced: list[AnyStr] = []
    begin, next_span = 0, 0
    for number, piece in enumerate(pieces, 1):
        end, at = begin + len(piece), begin
        new_piece = piece[:0]
        # An insertion at the very end belongs to the last piece.
        while next_span < len(spans) and (spans[next_span][0] < end or number == len(pieces)):
            start, stop, new = spans[next_span]
            new_piece += piece[at - begin : max(start, at) - begin]
            if start >= begin:
                new_piece += new
            at = min(stop, end)
            if stop > end:
                break  # the rest of it is in the next pieces
            next_span += 1
        replaced.append(new_piece + piece[at - begin :])
        begin = end
    return replaced


def _spans_in_body(body: bytes, rule: _Rule, *, lines: bool) -> list[tuple[int, int, bytes]]:
    """Return the spans of `body` in which the rule changes a JSON string, or, with `lines`, a line that is not JSON."""
    spans: list[tuple[int, int, bytes]] = []
    for (key, *_), strings in _fields(body).items():
        pieces = [text for _, _, text in strings]
        # A label is repeated in each event, but its repetitions are no text.
        new = [_replace([piece], rule(piece))[0] for piece in pieces] if key in _LABELS else _replaced(pieces, rule)
        spans += [
            _narrow(start, body[start:end], _quoted(text))
            for (start, end, old), text in zip(strings, new, strict=True)
            if text != old
        ]
    if lines:
        for start, line, is_json in _lines(body):
            if not is_json:
                text = line.decode("utf-8", "surrogateescape")
                for first, last, new_text in rule(text):
                    at = start + len(text[:first].encode("utf-8", "surrogateescape"))
                    length = len(text[first:last].encode("utf-8", "surrogateescape"))
                    spans.append((at, at + length, new_text.encode("utf-8", "surrogateescape")))
    return sorted(spans)


def _replaced(pieces: list[str], rule: _Rule) -> list[str]:
    return _replace(pieces, rule("".join(pieces)))


def _joined(strings: list[tuple[int, int, str]]) -> str:
    return "".join(text for _, _, text in strings)


def _unescaped(text: str) -> str:
    """Return a text without the escapes of JSON, which may be in a string of other JSON."""
    plain = re.sub(
        r"\\+(?:u([0-9a-fA-F]{4})|(.))", lambda found: chr(int(found[1], 16)) if found[1] else found[2], text
    )
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins the halves of surrogate pairs


def _quoted(text: str) -> bytes:
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return json.dumps(text).encode()


def _fields(body: bytes) -> dict[tuple[bytes, int, bytes], list[tuple[int, int, str]]]:
    """Return the strings of the JSON in `body`, with their bounds, by field: those of one field continue each other.

    A field is a key, its occurrence in the event, and the indices in the event, which tell parallel calls apart.
    """
    fields: dict[tuple[bytes, int, bytes], list[tuple[int, int, str]]] = {}
    for start, line, is_json in _lines(body):
        if not is_json:
            continue
        key, seen = b"", dict[bytes, int]()
        indices = b",".join(_INDEX.findall(line))
        for found in _STRING.finditer(line):
            token = found[0] if found[1] is None else found[0][: -len(found[1])]
            if found[1] is not None:
                key = token
            owner = b"" if found[1] is not None else key
            seen[owner] = seen.get(owner, 0) + 1
            bounds = start + found.start(), start + found.start() + len(token)
            fields.setdefault((owner, seen[owner], indices), []).append((*bounds, json.loads(token)))
    return fields


def _lines(body: bytes) -> list[tuple[int, bytes, bool]]:
    """Return the JSON documents of `body` and its other lines, with their offsets."""
    if _is_json(body):
        return [(0, body, True)]
    lines = body.splitlines(keepends=True)
    offsets = accumulate(map(len, lines), initial=0)
    return [
        (start, line, (event := _EVENT.fullmatch(line)) is not None and _is_json(event[1]))
        for start, line in zip(offsets, lines, strict=False)
    ]


def _is_json(data: bytes) -> bool:
    try:
        return _is_text(data) and isinstance(json.loads(data), (dict, list))
    except (ValueError, RecursionError):
        return False


def _is_text(data: bytes) -> bool:
    """Return False for a body that is not UTF-8, such as frames with checksums, in which a form would be a chance."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
