"""Recorded requests, and the comparison of a request with them.

Two requests match if they differ only in what changes from run to run: generated ids, dates and times, the boundary of
a multipart body, the port of a server on this machine, the order of JSON keys. A text in place of a credential matches
any text.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from ..lazy.lazy_dataclasses import dataclass
from ..values.http_request import HTTPRequest
from ..values.secret_patterns import GENERATED_ID, MARK
from .scrubbing import Scrubber

REQUEST_HEADERS: Final = re.compile(
    r"accept|content-type|user-agent|anthropic-(version|beta)|openai-beta|api-version|x-goog-api-client"
)
"""The headers of a request that are recorded."""

RESPONSE_HEADERS: Final = re.compile(
    r"content-type|date|location|retry-after(-ms)?|(x-|anthropic-)?ratelimit-[\w-]+|(x-)?(amzn-)?request-?id"
    r"|openai-(processing-ms|version)|openrouter-[\w-]+"
)
"""The headers of a response that are recorded: not those of the encodings, as bodies are recorded decoded."""

_SHOWN_DIFFERENCES: Final = 12
_SHOWN_CHARACTERS: Final = 60
"""The characters of a difference on both sides of where it begins."""

_SCALAR: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null|\[\]|\{\}")
"""A string that is quoted, as it looks like another value of JSON."""

_LOOPBACK: Final = re.compile(r"localhost|127(\.\d+){3}|::1")
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK: Final = r"\d\d?:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?[AaPp][Mm]\b)?(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
_TIME: Final = re.compile(
    rf"(?:\b(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,?\s+)?"
    rf"(?:\d{{4}}-\d\d-\d\d|\d{{4}}/\d\d/\d\d|\d\d?\.? {_MONTH} \d{{4}}|{_MONTH} \d\d?(?:st|nd|rd|th)?,? \d{{4}})"
    rf"(?:(?:[T ]|,? at |, ){_CLOCK})?)|\b{_CLOCK}"
)
_ID: Final = re.compile(GENERATED_ID)
_ID_KEYS: Final = frozenset(
    (
        *("call_id", "tool_call_id", "tool_use_id", "toolCallId", "previous_response_id", "item_id", "request_id"),
        *("idempotency_key", "session_id", "prompt_cache_key"),
    )
)
_TIME_KEYS: Final = re.compile(r"created(_?at)?|timestamp|expires?(_?at)?|now|(current_?)?(date|time)")


@dataclass(frozen=True)
class RecordedRequest:
    """A request without credentials. `url` has `***` in their place; `body` is what was sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, request: HTTPRequest) -> RecordedRequest:
        """Return the record of a request, whose URL and body are not scrubbed yet."""
        url = request.url
        if request.tls_name:  # the URL has one of the addresses of this host
            host = urlsplit(url).netloc.rpartition("@")[2]
            url = url.replace(host, re.sub(r"^(\[.*\]|[^:]*)", lambda _: str(request.tls_name), host), 1)
        shown = {name.lower(): value for name, value in request.headers.items() if isinstance(value, str)}
        headers = {name: value for name, value in shown.items() if REQUEST_HEADERS.fullmatch(name)}
        return cls(request.method, url, headers, request.body)

    def scrubbed(self, scrubber: Scrubber) -> RecordedRequest:
        """Return the request without credentials and without what the user's filter replaces."""
        headers = {name: scrubber.text(value) for name, value in self.headers.items()}
        return RecordedRequest(self.method, scrubber.text(self.url), headers, b"".join(scrubber.chunks([self.body])))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data. The body is `json` if it is JSON, otherwise `text` or `base64`."""
        shown = {"method": self.method, "url": self.url, "headers": dict(self.headers)}
        if not self.body:
            return shown
        data = _json_of(self.body)
        return {**shown, **({"json": data} if data is not None else encode_bytes(self.body))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RecordedRequest:
        """Return the request from the data of `to_dict`. Raise `ValueError`, `TypeError` or `LookupError` otherwise."""
        json_data: object = data.get("json")
        body = decode_bytes(data) if json_data is None else json.dumps(json_data, ensure_ascii=False).encode()
        return cls(str(data["method"]), str(data["url"]), {**data["headers"]}, body)

    @cached_property
    def exact(self) -> Mapping[str, str]:
        """Each value of the request as text, by its path."""
        return _leaves(self, volatile=True)

    @cached_property
    def stable(self) -> Mapping[str, str]:
        """Each value of the request as text, by its path, with placeholders for what changes from run to run."""
        return _leaves(self, volatile=False)

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


def encode_bytes(data: bytes) -> dict[str, str]:
    """Return `data` as JSON data: as text if it is UTF-8, otherwise as base64."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}


def decode_bytes(data: Mapping[str, Any]) -> bytes:
    """Return the bytes from the data of `encode_bytes`, or `b""` if it has none."""
    if "base64" in data:
        return b64decode(data["base64"], validate=True)
    text: str = data.get("text", "")
    return text.encode()


def find_match(sent: RecordedRequest, recorded: Sequence[RecordedRequest]) -> int | None:
    """Return the index of the first recorded request that `sent` matches, of an equal one if there is one."""
    found = [place for place, each in enumerate(recorded) if _match(each.stable, sent.stable)]
    return next((place for place in found if recorded[place].exact == sent.exact), found[0] if found else None)


def describe_difference(sent: RecordedRequest, recorded: Sequence[RecordedRequest]) -> str:
    """Return the differences between `sent` and the most similar of the recorded requests, one in a line."""
    closest = min(recorded, key=lambda each: (each.url != sent.url, len(_differing(each, sent))))
    paths = _differing(closest, sent)
    lines: list[str] = []
    for path in paths[:_SHOWN_DIFFERENCES]:
        old, new = closest.stable.get(path), sent.stable.get(path)
        start = 0 if old is None or new is None else _common_length(old, new)
        lines += [f"  - {path}: {_excerpt(old, start)}"] if old is not None else []
        lines += [f"  + {path}: {_excerpt(new, start)}"] if new is not None else []
    if len(paths) > _SHOWN_DIFFERENCES:
        lines.append(f"  and {len(paths) - _SHOWN_DIFFERENCES} more differences")
    return "\n".join(lines)


def _differing(recorded: RecordedRequest, sent: RecordedRequest) -> list[str]:
    old, new = recorded.stable, sent.stable
    return [
        path
        for path in dict.fromkeys((*old, *new))
        if path not in old or path not in new or not _same_text(old[path], new[path])
    ]


def _match(recorded: Mapping[str, str], sent: Mapping[str, str]) -> bool:
    if recorded == sent:
        return True
    return recorded.keys() == sent.keys() and all(_same_text(text, sent[path]) for path, text in recorded.items())


def _same_text(recorded: str, sent: str) -> bool:
    """Return True if the texts are equal, except for credentials, which differ between machines."""
    if recorded == sent:
        return True
    pattern = ".+?".join(map(re.escape, recorded.split(MARK)))
    return MARK in recorded and re.fullmatch(pattern, sent, re.DOTALL) is not None


def _common_length(old: str, new: str) -> int:
    return next((place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _excerpt(text: str | None, start: int) -> str:
    """Return the part of `text` around `start`, on one line."""
    first, last = max(start - _SHOWN_CHARACTERS, 0), start + _SHOWN_CHARACTERS
    text = text or ""
    shown = json.dumps(text[first:last], ensure_ascii=False)[1:-1] if "\n" in text else text[first:last]
    return f"{'…' if first else ''}{shown}{'…' if last < len(text) else ''}"


def _json_of(body: bytes) -> Any:
    """Return the data of a JSON object or array that can be written again; None for anything else."""
    try:
        data = json.loads(body)
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return cast("Any", data) if isinstance(data, (dict, list)) else None


def _leaves(request: RecordedRequest, *, volatile: bool) -> dict[str, str]:
    """Return the values of a request by path; with placeholders for volatile ones, unless `volatile`."""
    mask = _Placeholders(volatile)
    url = urlsplit(request.url)
    local = _LOOPBACK.fullmatch(url.hostname or "") is not None
    leaves = {
        "method": request.method,
        "url": mask.text(f"{url.scheme}://{'(loopback)' if local else url.netloc}{url.path}"),
        **{f"url?{name}": mask.text(value) for name, value in sorted(parse_qsl(url.query, keep_blank_values=True))},
    }
    content_type = request.headers.get("content-type", "")
    body = request.body
    if (boundary := re.search(r'boundary="?([^";,]+)', content_type)) is not None and not volatile:
        body = body.replace(boundary[1].encode(), b"(boundary)")
    data = _json_of(body)
    if data is not None:
        _add_leaves(leaves, data, mask)
    elif body:
        text = encode_bytes(body)
        lines = text["text"].splitlines() if "text" in text else [text["base64"]]
        leaves |= {f"body line {number}": mask.text(line) for number, line in enumerate(lines, 1)}
    return leaves


def _add_leaves(leaves: dict[str, str], data: Any, mask: _Placeholders) -> None:
    """Add the values of JSON data, without recursion: a schema or an answer may be nested deeply."""
    ahead: list[tuple[str, str, Any]] = [("body", "", data)]
    while ahead:
        path, key, value = ahead.pop()
        if isinstance(value, str) and value[:1] in ("{", "[") and (inner := _json_of(value.encode(errors="replace"))):
            path, value = f"{path} (JSON)", inner  # such as the arguments of a call, whose keys have no order either
        if isinstance(value, dict) and value:
            members = cast("dict[str, Any]", value)
            # In one order, as placeholders are numbered by it; the stack reverses it.
            ahead += [(f"{path}.{name}", name, members[name]) for name in sorted(members, reverse=True)]
        elif isinstance(value, list) and value:
            items = cast("Sequence[Any]", value)
            ahead += [(f"{path}[{place}]", key, items[place]) for place in reversed(range(len(items)))]
        else:
            leaves[path] = mask.value(key, value)


class _Placeholders:
    """The placeholders of one request: ids are numbered, so that it still counts which of them are equal."""

    def __init__(self, volatile: bool) -> None:
        self._volatile = volatile
        self._ids: dict[str, str] = {}

    def value(self, key: str, value: Any) -> str:
        """Return a JSON value as text."""
        if not self._volatile and isinstance(value, str) and key in _ID_KEYS:
            return self._id(value)
        if not self._volatile and isinstance(value, (int, float)) and _TIME_KEYS.fullmatch(key):
            return "(time)"
        if not isinstance(value, str):
            return json.dumps(value)
        return json.dumps(value) if _SCALAR.fullmatch(value) else self.text(value)

    def text(self, text: str) -> str:
        """Return a text with placeholders for ids, dates and times."""
        if self._volatile:
            return text
        return _TIME.sub("(time)", _ID.sub(lambda found: self._id(found[0]), text))

    def _id(self, id: str) -> str:
        return self._ids.setdefault(id, f"(id {len(self._ids) + 1})")
