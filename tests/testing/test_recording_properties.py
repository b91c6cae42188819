"""Any exchange comes back from a recording as it was, and no credential is left in one, however it is encoded."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, quote_plus

import anyio
import pytest
from hypothesis import assume, given, strategies as st

from toolcast.errors import ConnectFailed, LLMError, StreamInterrupted, Timeout
from toolcast.testing import Recorded, ReplayNetwork, record, replay
from toolcast.transport.network import aopen_response, open_response
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

URL = "http://service.example/v1?model=m"
HEADERS = st.dictionaries(st.sampled_from(["content-type", "retry-after", "x-request-id"]), st.text(max_size=10))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
BODIES = st.binary(max_size=60) | TEXTS.map(str.encode) | JSON_VALUES.map(lambda value: json.dumps(value).encode())
CHUNKS = st.lists(BODIES.filter(bool), max_size=5)
ERRORS = st.sampled_from([None, StreamInterrupted("cut"), Timeout("late", phase="idle"), TimeoutError("late")])


def request(body: bytes = b"", headers: Mapping[str, str | Secret] | None = None) -> HTTPRequest:
    return HTTPRequest("POST", URL, headers or {}, body)


def sent(network: ReplayNetwork, *requests: HTTPRequest) -> list[tuple[object, ...]]:
    """Send requests and return, for each, the response in its chunks, or the error."""
    seen: list[tuple[object, ...]] = []
    for each in requests:
        try:
            reply = open_response(network, each, connect=1, read=1)
        except LLMError as error:
            seen.append((type(error), error.message))
            continue
        chunks: list[object] = []
        try:
            while data := reply.read(1):
                chunks.append(data)
        except (LLMError, TimeoutError) as error:
            chunks.append((type(error), str(error)))
        reply.close()
        seen.append((reply.status, dict(reply.headers), chunks))
    return seen


async def asent(network: ReplayNetwork, *requests: HTTPRequest) -> list[tuple[object, ...]]:
    seen: list[tuple[object, ...]] = []
    for each in requests:
        reply = await aopen_response(network, each, connect=1, read=1)
        chunks: list[object] = []
        try:
            while data := await reply.read(1):
                chunks.append(data)
        except (LLMError, TimeoutError) as error:
            chunks.append((type(error), str(error)))
        await reply.aclose()
        seen.append((reply.status, dict(reply.headers), chunks))
    return seen


@given(BODIES, st.integers(100, 599), HEADERS, CHUNKS, ERRORS)
def test_any_exchange_comes_back_as_it_was(
    body: bytes, status: int, headers: dict[str, str], chunks: list[bytes], error: BaseException | None
) -> None:
    answer = Recorded([*chunks, *([error] if error else [])], status, headers)
    with TemporaryDirectory() as folder:
        path = Path(folder, "x")
        with record(path, "all"):
            recorded = sent(ReplayNetwork(answer), request(body))
        with replay(path):
            assert sent(ReplayNetwork(), request(body)) == recorded
        with replay(path):
            assert anyio.run(asent, ReplayNetwork(), request(body)) == recorded
        with replay(path, chunk_size=1):
            ((_, _, bytewise),) = sent(ReplayNetwork(), request(body))
        end = [] if error is None else [(type(error), str(error))]
        assert bytewise == [*(bytes([byte]) for byte in b"".join(chunks)), *end]


def test_a_failure_to_connect_comes_back_as_it_was(tmp_path: Path) -> None:
    with record(tmp_path / "x", "all"):
        recorded = sent(ReplayNetwork(ConnectFailed("refused", retryable=False)), request())
    with replay(tmp_path / "x"):
        assert sent(ReplayNetwork(), request()) == recorded == [(ConnectFailed, "refused")]


# -- credentials ------------------------------------------------------------------------------------------------------

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=10, max_size=24) | st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=10, max_size=24
)
# A word may be one of the file's own, which Hypothesis finds in the code: "toolcast_recording", "content-type".
SECRETS = SECRETS.filter(lambda text: not (text.translate(dict.fromkeys(map(ord, "_-"))).isalpha() or text.isdigit()))
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with every character escaped": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "URL": quote,
    "URL with slashes": lambda text: quote(text, safe=""),
    "form": quote_plus,
    "HTML": html.escape,
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 after one byte": lambda text: b64encode(b":" + text.encode()).decode(),
    "base64 for URLs, in a login": lambda text: urlsafe_b64encode(f"me:{text}".encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
}


def as_json(text: str) -> bytes:
    return f'{{"a": ["before {text} after"]}}'.encode()


def as_text(text: str) -> bytes:
    return f"before {text} after".encode()


def cut_anywhere(body: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(body) + 1) for cut in cuts} | {0, len(body)})
    return [body[start:end] for start, end in pairwise(places) if start < end]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(st.data())
def test_no_credential_is_written_in_any_encoding(encoding: str, data: st.DataObject) -> None:
    secret = data.draw(SECRETS)
    assume(max(secret) < "\U00010000")
    shown = ENCODINGS[encoding](secret)
    escaped = encoding.startswith("JSON") or json.dumps(shown, ensure_ascii=False) == f'"{shown}"'
    body = as_json(shown) if escaped else as_text(shown)
    chunks = cut_anywhere(body, data.draw(st.lists(st.integers(0, 200), max_size=4)))
    sent_with = request(body, {"authorization": Secret(f"Bearer {secret}")})
    with TemporaryDirectory() as folder:
        path = Path(folder, "x")
        with record(path, "all"):
            sent(ReplayNetwork(Recorded(chunks, 200, {"content-type": secret})), sent_with)
        text = path.read_text(encoding="utf-8")
        for form in (secret, shown, json.dumps(shown)[1:-1], json.dumps(secret)[1:-1]):
            assert form not in text
        assert "before [key]" in text or encoding.startswith("base64")
        with replay(path) as recording:  # on another machine, with another key
            sent(ReplayNetwork(), request(body, {"authorization": Secret("Bearer other-0123456789")}))
        assert recording.replayed == 1


@given(SECRETS, st.lists(st.integers(0, 24), max_size=5))
def test_a_credential_that_a_stream_cuts_into_deltas_is_not_written(secret: str, cuts: list[int]) -> None:
    text = f"see {secret}!"
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    deltas = [text[start:end] for start, end in pairwise(places)]
    events = [
        f"data: {json.dumps({'id': 'r1', 'choices': [{'index': 0, 'delta': {'content': each}}]})}\n\n"
        for each in deltas
    ]
    sent_with = request(b"", {"x-api-key": Secret(secret)})
    with TemporaryDirectory() as folder:
        path = Path(folder, "x")
        with record(path, "all"):
            sent(ReplayNetwork(Recorded([event.encode() for event in events])), sent_with)
        with replay(path):
            ((_, _, chunks),) = sent(ReplayNetwork(), sent_with)
    assert isinstance(chunks, list)
    assert len(chunks) == len(events)
    contents = [json.loads(chunk[6:])["choices"][0]["delta"]["content"] for chunk in chunks]
    assert "".join(contents) == "see [key]!"
