"""Uploads to the Gemini API in parts, with lost responses, and descriptions of files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.google_batches import KEY, GoogleBatches
from support.loopback import Loopback, whole
from support.service_files import upload_file
from toolcast import Google
from toolcast.errors import BadRequest, LLMError, MalformedEvent, Overloaded, StreamInterrupted
from toolcast.providers.file_codec import BytesContent, StoredFile
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.google.files import CHUNK, GoogleFiles
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest, HTTPResponse

CODEC = GoogleFiles(GoogleAdapter(api_key=Secret(KEY), base_url="https://service.example"))
URL = "https://service.example/upload/v1beta/files?upload_id=1"
STARTED = HTTPResponse(200, {"x-goog-upload-url": URL, "x-goog-upload-status": "active"}, b"")
ACTIVE = HTTPResponse(200, {"x-goog-upload-status": "active"}, b"")
FINAL = HTTPResponse(200, {"x-goog-upload-status": "final"}, b'{"file": {"name": "files/1"}}')


def upload(server: GoogleBatches, content: bytes) -> StoredFile:
    llm = Google("gemini-2.5-flash", base_url=server.base, api_key=KEY, max_retries=0)
    return upload_file(llm, content, "a.pdf")


def exchange(content: bytes, *answers: HTTPResponse | LLMError) -> tuple[list[HTTPRequest], StoredFile | None]:
    """Return the requests of an upload that gets these answers, and the file at its end."""
    steps = CODEC.upload("a.pdf", "application/pdf", BytesContent(content))
    requests = [next(steps)]
    try:
        for answer in answers:
            requests.append(steps.throw(answer) if isinstance(answer, LLMError) else steps.send(answer))
    except StopIteration as end:
        return requests, end.value
    return requests, None


def received(size: int | str) -> HTTPResponse:
    headers = {"x-goog-upload-status": "active", "x-goog-upload-size-received": str(size)}
    return HTTPResponse(200, headers, b"")


@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])
def test_parts(size: int) -> None:
    content = bytes(size)
    with GoogleBatches() as server:
        file = upload(server, content)
        assert server.files[file.id] == content
        assert server.count("POST /upload") == 1 + -(-size // CHUNK)
    assert (file.name, file.size, file.media_type, file.state) == ("a.pdf", size, "application/pdf", "ready")
    assert file.expires is not None
    assert file.created is not None
    assert file.expires - file.created == 48 * 3600
    assert file.url == f"{server.base}/v1beta/{file.id}"


def test_the_address_of_a_file() -> None:
    assert CODEC.describe("files/a").url == CODEC.delete("files/a").url == "https://service.example/v1beta/files/a"
    assert CODEC.fetch("files/a").url.startswith("https://service.example/v1beta/files/a:download?alt=")


@pytest.mark.parametrize("lost", [1, 2])
def test_a_part_whose_answer_is_lost_is_not_sent_again(lost: int) -> None:
    content = bytes(range(256)) * (3 * CHUNK // 256)
    with GoogleBatches() as server:
        server.lost_parts = lost
        file = upload(server, content)
        assert server.files[file.id] == content
        sent = [request.headers.get("x-goog-upload-command") for request in server.requests]
    assert sent == ["start", *["upload", "query"] * lost, *["upload"] * (2 - lost), "upload, finalize"]


def test_a_part_that_was_received_in_part() -> None:
    content = bytes(100)
    requests, file = exchange(content, STARTED, StreamInterrupted("cut"), received(40), FINAL)
    assert file is not None
    assert [request.headers.get("x-goog-upload-offset") for request in requests] == [None, "0", None, "40"]
    assert len(requests[-1].body) == 60


def test_an_upload_that_was_finished_unnoticed() -> None:
    _, file = exchange(bytes(100), STARTED, StreamInterrupted("cut"), FINAL)
    assert file is not None
    assert file.id == "files/1"


def test_an_upload_that_does_not_go_on() -> None:
    error = StreamInterrupted("cut")
    with pytest.raises(StreamInterrupted):
        exchange(bytes(100), STARTED, *[error, received(0)] * 3, error)


def test_errors_that_a_repetition_does_not_help() -> None:
    with pytest.raises(BadRequest):
        exchange(bytes(100), STARTED, BadRequest("no"))
    with pytest.raises(Overloaded):
        exchange(bytes(100), Overloaded("busy", retryable=True))


@pytest.mark.parametrize(
    "answers",
    [
        (HTTPResponse(200, {}, b""),),
        (HTTPResponse(200, {"x-goog-upload-url": "file:///a"}, b""),),
        (HTTPResponse(200, {"x-goog-upload-url": "http://service.example/a"}, b""),),
        (STARTED, HTTPResponse(200, {}, b"")),
        (STARTED, HTTPResponse(200, {"x-goog-upload-status": "cancelled"}, b"")),
        (STARTED, ACTIVE),
        (STARTED, HTTPResponse(200, {"x-goog-upload-status": "final"}, b"{}")),
        (STARTED, StreamInterrupted("cut"), ACTIVE),
        (STARTED, StreamInterrupted("cut"), received("x")),
        (STARTED, StreamInterrupted("cut"), received(101)),
        (STARTED, StreamInterrupted("cut"), received(100)),
    ],
)
def test_answers_that_break_the_protocol(answers: tuple[Any, ...]) -> None:
    with pytest.raises(MalformedEvent):
        exchange(bytes(100), *answers)


@given(st.integers(1, 3 * CHUNK), st.lists(st.integers(0, CHUNK), max_size=3))
@settings(max_examples=30)
def test_all_bytes_arrive_once(size: int, cuts: list[int]) -> None:
    """A part is cut after some of its bytes, and continued from there."""
    content = bytes(size)
    steps = CODEC.upload("a.pdf", "application/pdf", BytesContent(content))
    next(steps)
    request, arrived = steps.send(STARTED), 0
    try:
        while True:
            command = request.headers["x-goog-upload-command"]
            if command == "query":
                request = steps.send(received(arrived))
                continue
            assert int(str(request.headers["x-goog-upload-offset"])) == arrived
            assert command == "upload, finalize" or len(request.body) == CHUNK
            if cuts and (cut := cuts.pop()) < len(request.body):
                arrived += cut
                request = steps.throw(StreamInterrupted("cut"))
                continue
            arrived += len(request.body)
            request = steps.send(FINAL if command == "upload, finalize" else ACTIVE)
    except StopIteration as end:
        assert end.value.id == "files/1"
    assert arrived == size


def test_an_upload_to_another_origin_has_no_key() -> None:
    with Loopback() as elsewhere, GoogleBatches() as server:
        elsewhere.answer(whole(b'{"file": {"name": "files/1"}}', 200, "x-goog-upload-status: final"))
        server.upload_base = f"http://127.0.0.1:{elsewhere.port}"
        assert upload(server, b"abc").id == "files/1"
        [request] = elsewhere.requests
    assert request.body == b"abc"
    assert KEY.encode() not in request.raw


@pytest.mark.parametrize(
    ("state", "wanted"),
    [("STATE_UNSPECIFIED", "ready"), ("PROCESSING", "processing"), ("ACTIVE", "ready"), ("FAILED", "failed")],
)
def test_descriptions(state: str, wanted: str) -> None:
    document = {"name": "files/1", "state": state, "sizeBytes": "12", "expirationTime": "soon"}
    file = CODEC.read(HTTPResponse(200, {}, json.dumps(document).encode()))
    assert file == StoredFile("files/1", size=12, state=file.state)
    assert file.state == wanted


@pytest.mark.parametrize("base_url", ["https://a.example/b", "https://a.example/b/v1beta/"])
def test_the_address_of_uploads(base_url: str) -> None:
    steps = GoogleFiles(GoogleAdapter(base_url=base_url)).upload("a", "text/plain", BytesContent(b"a"))
    assert next(steps).url == "https://a.example/b/upload/v1beta/files"
