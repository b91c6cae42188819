"""Download of a model file: over TLS, from a server on the loopback interface that proves to be `example.com`."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Sequence
from hashlib import sha256
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from support.gguf_files import gguf
from support.loopback import CLOSE, RESET, Loopback, chunk, head, whole
from toolcast.apps import model_download
from toolcast.apps.model_download import DownloadError, ModelDownload
from toolcast.toolbox.public_http import PublicHTTP
from toolcast.transport.httpx_network import HttpxNetwork

FILE = gguf(data=5000)
HASH = sha256(FILE).hexdigest()
ETAG = 'etag: "v1"'


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("example.com", "cdn.example.com").configure_cert(context)
    with Loopback(tls=context) as running:
        yield running


def here(host: str, port: int) -> Sequence[str]:
    """Every name leads to this machine, but one to the service of a cloud that gives out keys."""
    return ["169.254.169.254" if host == "inside.example.com" else "127.0.0.1"]


def loopback() -> PublicHTTP:
    """Requests to this machine; the network reads the certificates that are to be trusted with its first one."""
    return PublicHTTP(HttpxNetwork(direct=True), here, lambda address: address == IPv4Address("127.0.0.1"))


def download(server: Loopback, folder: Path, path: str = "/m.gguf?key=S3CRET", **options: Any) -> ModelDownload:
    """A download of a URL of the server."""
    http = options.pop("http", None) or loopback()
    return ModelDownload(f"https://example.com:{server.port}{path}", folder / "new" / "m.gguf", http, **options)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "new").iterdir())


def failed(wanted: ModelDownload) -> str:
    with pytest.raises(DownloadError) as caught:
        wanted.run()
    assert "S3CRET" not in str(caught.value)
    return str(caught.value)


def test_a_file(server: Loopback, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    server.answer(whole(FILE, 200, ETAG))
    wanted = download(server, tmp_path, progress=lambda done, total: seen.append((done, total)), sha256=HASH)
    assert wanted.run() == HASH
    assert wanted.path.read_bytes() == FILE
    assert seen[-1] == (len(FILE), len(FILE))
    assert left(tmp_path) == ["m.gguf"]
    assert server.requests[0].headers["host"] == f"example.com:{server.port}"
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_a_file_without_a_length(server: Loopback, tmp_path: Path) -> None:
    server.answer(head(200, "transfer-encoding: chunked"), chunk(FILE[:2]), chunk(FILE[2:]), b"0\r\n\r\n")
    assert download(server, tmp_path).run() == HASH


def test_redirects(server: Loopback, tmp_path: Path) -> None:
    server.answer(whole(b"", 302, f"location: https://cdn.example.com:{server.port}/signed file"))
    server.answer(whole(FILE, 200))
    assert download(server, tmp_path).run() == HASH
    assert server.requests[1].line == "GET /signed%20file HTTP/1.1"


@pytest.mark.parametrize(
    ("onward", "why"),
    [
        ("http://example.com/m.gguf", "example.com is not asked over http: only https keeps others from changing"),
        ("https://inside.example.com/m.gguf", "inside.example.com leads to 169.254.169.254, which is not allowed"),
        ("https://10.0.0.1/m.gguf", "it leads to 10.0.0.1, which is not allowed"),
        ("file:///etc/passwd", "a URL begins with http:// or https://"),
    ],
)
def test_every_redirect_is_checked(onward: str, why: str, server: Loopback, tmp_path: Path) -> None:
    server.answer(whole(b"", 302, f"location: {onward}"))
    assert why in failed(download(server, tmp_path))


def test_only_public_addresses_by_default(server: Loopback, tmp_path: Path) -> None:
    http = PublicHTTP(HttpxNetwork(direct=True), here)
    assert "leads to 127.0.0.1, which is this machine's own" in failed(download(server, tmp_path, http=http))
    assert server.requests == []


def test_redirects_without_end(server: Loopback, tmp_path: Path) -> None:
    for _ in range(11):
        server.answer(whole(b"", 302, "location: /m.gguf"))
    assert "it redirects more than 10 times" in failed(download(server, tmp_path))


def test_a_broken_connection_is_resumed(server: Loopback, tmp_path: Path) -> None:
    server.answer(head(200, ETAG, f"content-length: {len(FILE)}"), FILE[:1000], CLOSE)
    rest = len(FILE) - 1000
    server.answer(
        head(206, ETAG, f"content-range: bytes 1000-{len(FILE) - 1}/{len(FILE)}", f"content-length: {rest}"),
        FILE[1000:],
    )
    assert download(server, tmp_path).run() == HASH
    assert server.requests[1].headers["range"] == "bytes=1000-"
    assert server.requests[1].headers["if-range"] == '"v1"'


def broken(server: Loopback, folder: Path, *headers: str) -> None:
    """Leave a download behind whose connections broke off after 1,000 bytes."""
    server.answer(head(200, *headers, f"content-length: {len(FILE)}"), FILE[:1000], CLOSE)
    for _ in range(5):
        server.answer(RESET)
    why = failed(download(server, folder))
    assert "could not be downloaded" in why
    assert "the same command goes on after the 0.0 MB that are there" in why
    assert left(folder) == ["m.gguf.part", "m.gguf.part.json"]


def test_the_next_run_goes_on(server: Loopback, tmp_path: Path) -> None:
    broken(server, tmp_path, "last-modified: Sun, 01 Mar 2026 09:12:44 GMT", 'etag: W/"weak"')
    server.answer(whole(FILE[1000:], 206, f"content-range: bytes 1000-{len(FILE) - 1}/{len(FILE)}"))
    assert download(server, tmp_path, sha256=HASH).run() == HASH
    assert server.requests[-1].headers["if-range"] == "Sun, 01 Mar 2026 09:12:44 GMT"


@pytest.mark.parametrize("change", ["version", "url", "note", "no version", "shorter"])
def test_the_next_run_begins_again(change: str, server: Loopback, tmp_path: Path) -> None:
    broken(server, tmp_path, *(() if change == "no version" else (ETAG,)))
    note = tmp_path / "new" / "m.gguf.part.json"
    if change == "url":
        note.write_text(json.dumps(json.loads(note.read_text()) | {"url": "https://example.com/other"}))
    elif change == "note":
        note.write_text("[")
    elif change == "shorter":
        server.answer(whole(b"", 416))
    server.answer(whole(FILE, 200, 'etag: "v2"'))
    assert download(server, tmp_path).run() == HASH
    assert left(tmp_path) == ["m.gguf"]


def test_another_part_than_the_one_that_is_missing(server: Loopback, tmp_path: Path) -> None:
    broken(server, tmp_path, ETAG)
    server.answer(whole(FILE[500:], 206, f"content-range: bytes 500-{len(FILE) - 1}/{len(FILE)}"))
    assert "sends another part of the file (bytes 500-" in failed(download(server, tmp_path))
    server.answer(whole(FILE, 200))
    assert download(server, tmp_path).run() == HASH


def test_another_hash(server: Loopback, tmp_path: Path) -> None:
    server.answer(whole(FILE, 200))
    assert f"its sha256 is {HASH}, not {'0' * 64}" in failed(download(server, tmp_path, sha256="0" * 64))
    assert left(tmp_path) == []


@pytest.mark.parametrize("length", [True, False])
def test_a_file_that_is_too_large(length: bool, server: Loopback, tmp_path: Path) -> None:
    if length:
        server.answer(whole(FILE, 200))
    else:
        server.answer(head(200, "transfer-encoding: chunked"), chunk(FILE), b"0\r\n\r\n")
    assert "more than 0.0 MB; see --max-size" in failed(download(server, tmp_path, limit=4000))


def test_a_disk_that_is_too_small(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 10

    monkeypatch.setattr(model_download.shutil, "disk_usage", lambda folder: Usage)
    server.answer(whole(FILE, 200))
    assert "has 0.0 MB left" in failed(download(server, tmp_path))


@pytest.mark.parametrize(
    ("path", "status", "body", "why"),
    [
        ("/m.gguf", 404, b"", "example.com answers with the status 404"),
        ("/m.gguf", 403, b"", "for a private or gated model download the file yourself"),
        ("/m.gguf", 200, b"<!doctype html>", "it is no GGUF model file"),
        ("/m.gguf", 200, b"GG<!", "it is no GGUF model file"),
        ("/u/r/blob/main/m.gguf", 200, b"<!doctype html>", "has /resolve/ in place of /blob/"),
    ],
)
def test_what_is_no_model(path: str, status: int, body: bytes, why: str, server: Loopback, tmp_path: Path) -> None:
    server.answer(whole(body, status))
    assert why in failed(download(server, tmp_path, path))


def test_a_server_that_never_begins(server: Loopback, tmp_path: Path) -> None:
    for _ in range(6):
        server.answer(RESET)
    why = failed(download(server, tmp_path))
    assert "could not be downloaded" in why
    assert "goes on" not in why
