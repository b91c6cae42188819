"""`fetch_url` over real loopback servers: what it reads, and what it does not ask."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.loopback import CLOSE, END, HOLD, Loopback, chunk, head, whole
from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import TryAgain, TurnCancelled
from toolcast.toolbox.fetch import fetch_tool
from toolcast.toolbox.public_addresses import IPAddress, refusal
from toolcast.tools.callable_tool import CallableTool, ToolOutput
from toolcast.tools.tool_context import ToolContext
from toolcast.transport.httpx_network import HttpxNetwork

HTML = "content-type: text/html; charset=utf-8"
TEXT = "content-type: text/plain"


def anywhere(address: IPAddress) -> bool:
    return True


def here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def open_tool(**options: Any) -> CallableTool:
    """A tool for which every name is this machine, and that may ask it."""
    return fetch_tool(**{"resolve": here, "allowed": anywhere, "timeout": 5.0} | options)


def fetched(server: Loopback, path: str = "/", host: str = "example.com", **options: Any) -> ToolOutput:
    return open_tool(**options).call({"url": f"http://{host}:{server.port}{path}"})


@pytest.fixture
def server() -> Any:
    with Loopback() as server:
        yield server


# What is read.


def test_a_page(server: Loopback) -> None:
    server.answer(whole("<title>Sea</title><h1>The séa</h1><a href=/x>on</a><script>no</script>".encode(), 200, HTML))
    output = fetched(server, "/a?b=c#d")
    address = f"http://example.com:{server.port}"
    assert output.content == (
        f"{address}/a?b=c (200, text/html)\nTitle: Sea\n\n# The séa\n\non ({address}/x)"
    )  # fmt: skip
    assert not output.is_error
    (request,) = server.requests
    assert request.line == "GET /a?b=c HTTP/1.1"
    assert request.headers["host"] == f"example.com:{server.port}"
    assert request.headers["connection"] == "close"
    assert not {"cookie", "authorization", "proxy-authorization", "referer"} & set(request.headers)


async def test_the_async_api(anyio_backend: str) -> None:
    with Loopback() as server:
        server.answer(whole(b"some text", 200, TEXT))
        output = await open_tool().acall({"url": f"http://example.com:{server.port}/"})
        assert output.content == f"http://example.com:{server.port}/ (200, text/plain)\n\nsome text"


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/problem+json; charset=utf-8", b"[]", "[]"),
        ("text/plain; charset=latin-1", b"\xe9", "é"),
        ('text/plain; charset="windows-1252"', b"\x80", "€"),
        ("text/plain; charset=utf-8", b"\xff.", "\ufffd."),
        ("text/plain; charset=no-such", "é".encode(), "é"),
        ("text/plain; charset=undefined", b"x", "x"),
        ("text/plain; charset=punycode", b"x-", "x-"),
        ("text/plain; charset=idna", b"x-", "x-"),
        ("text/plain; charset=zlib", b"x", "x"),
        ("text/plain", "\ufeffé".encode("utf-16-le"), "é"),
        ("text/plain; charset=latin-1", b"\xef\xbb\xbfx", "x"),
        ("text/html", b"<meta charset=latin-1><p>\xe9", "é"),
        ("text/html", b'<meta http-equiv=x content="text/html; charset=latin-1"><p>\xe9', "é"),
        ("application/xhtml+xml", b"<p>x", "x"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("text/html", b"<script>x</script>", "(there is no text in it; perhaps a script writes it)"),
        ("text/plain", b"", "(it is empty)"),
    ],
)
def test_what_is_text(kind: str, body: bytes, text: str, server: Loopback) -> None:
    server.answer(whole(body, 200, f"content-type: {kind}"))
    assert fetched(server).content.partition("\n\n")[2] == text


@pytest.mark.parametrize(("body", "kind"), [(b" \n<!DOCTYPE html><p>x", "text/html"), (b"x", "text/plain")])
def test_a_body_without_a_type(body: bytes, kind: str, server: Loopback) -> None:
    server.answer(whole(body))
    assert fetched(server).content == f"http://example.com:{server.port}/ (200, {kind})\n\nx"


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        (("content-type: image/png",), b"\x89PNG", "it is image/png, and only text, HTML and JSON are read"),
        (("content-type: application/pdf; x=y",), b"%PDF", "it is application/pdf, and only"),
        (("content-type: text/plain",), b"\x7fELF\0\0", "it is no text, although its type is"),
        ((), b"\x7fELF\0\0", "it is no text, although its type is"),
        ((TEXT, "content-encoding: br"), b"x", "an encoding that was not asked for"),
        ((TEXT, "content-encoding: gzip"), b"x" * 20, "not the gzip it claims to be"),
    ],
)
def test_what_is_no_text(headers: tuple[str, ...], body: bytes, why: str, server: Loopback) -> None:
    server.answer(whole(body, 200, *headers))
    with pytest.raises(TryAgain, match=why):
        fetched(server)
    server.wait_open(0)


def test_an_error_of_the_server_is_one_the_model_reads(server: Loopback) -> None:
    server.answer(whole(b"no such page", 404, TEXT))
    output = fetched(server)
    assert output.is_error
    assert output.content.endswith("/ (404, text/plain)\n\nno such page")


# How much of it.


@pytest.mark.parametrize(("size", "cut"), [(100, False), (101, True)])
def test_a_body_is_read_up_to_the_limit(size: int, cut: bool, server: Loopback) -> None:
    server.answer(whole(b"x" * size, 200, TEXT))
    text = fetched(server, limit=100).content.partition("\n\n")[2]
    assert text == "x" * 100 + ("\n[the rest was left out: 100 bytes were read]" if cut else "")


def test_a_body_without_end_is_left(server: Loopback) -> None:
    server.answer(head(200, TEXT, "transfer-encoding: chunked"), chunk(b"x" * 200), HOLD)
    assert "[the rest was left out" in fetched(server, limit=100).content
    server.wait_open(0)


def test_a_packed_body_counts_unpacked(server: Loopback) -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    server.answer(whole(bomb, 200, TEXT, "content-encoding: gzip"))
    content = fetched(server, limit=1000).content
    assert content.endswith("\n[the rest was left out: 1,000 bytes were read]")
    assert content.count("x") < 1100


def test_a_page_grows_no_longer_than_the_limit(server: Loopback) -> None:
    body = b"<base href=http://example.com/" + b"y" * 400 + b"/>" + b"<a href=x>z</a>" * 100
    server.answer(whole(body, 200, HTML))
    content = fetched(server, limit=3000).content
    assert content.endswith("[the rest was left out: 3,000 bytes were read]")
    assert len(content) < 4000


# Where it goes.


def test_a_redirect_is_followed(server: Loopback) -> None:
    server.answer(whole(b"", 302, f"location: http://other.example:{server.port}/b c"))
    server.answer(whole(b"", 308, "location: ../d"))
    server.answer(whole(b"there", 200, TEXT))
    assert fetched(server, "/a").content.startswith(f"http://other.example:{server.port}/d (200")
    assert [request.line for request in server.requests] == [f"GET {path} HTTP/1.1" for path in ("/a", "/b%20c", "/d")]
    assert [request.headers["host"].partition(":")[0] for request in server.requests] == [
        "example.com", "other.example", "other.example",
    ]  # fmt: skip


def test_redirects_are_counted(server: Loopback) -> None:
    for _ in range(3):
        server.answer(whole(b"", 307, "location: /again"))
    with pytest.raises(TryAgain, match="redirects more than 2 times"):
        fetched(server, max_redirects=2)
    assert len(server.requests) == 3


def test_no_redirects_at_all(server: Loopback) -> None:
    server.answer(whole(b"", 301, "location: /again"))
    with pytest.raises(TryAgain, match="more than 0 times"):
        fetched(server, max_redirects=0)


def test_a_redirect_to_nowhere_is_an_answer(server: Loopback) -> None:
    server.answer(whole(b"moved", 302, TEXT))
    assert "(302, text/plain)\n\nmoved" in fetched(server).content


@pytest.mark.fault(140)
@pytest.mark.parametrize(
    "onward",
    [
        "http://127.0.0.2/", "http://0x7f.0.0.2/", "http://[::ffff:127.0.0.2]/", "//169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/", "http://inside.example/", "file:///etc/passwd", "http://me@example.com/", "http://[::1",
    ],
)  # fmt: skip
def test_every_redirect_is_looked_at(onward: str, server: Loopback) -> None:
    def allowed(address: IPAddress) -> bool:
        return str(address) == "127.0.0.1" or refusal(address) is None

    def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"] if host == "example.com" else ["192.168.0.1"]

    server.answer(whole(b"", 302, f"location: {onward}"))
    with pytest.raises(TryAgain, match="was not fetched"):
        fetched(server, resolve=resolve, allowed=allowed)
    assert len(server.requests) == 1


class Never:
    """A network that must not be used."""

    def open(self, *request: object, **limits: object) -> Any:
        raise AssertionError("it was asked")

    aopen = close = aclose = open


@pytest.mark.parametrize(
    ("url", "found", "why"),
    [
        ("http://127.0.0.1/", [], "127.0.0.1, which is this machine's own; only public addresses are fetched"),
        ("http://2130706433/", [], "this machine's own"),
        ("http://[::1]/", [], "this machine's own"),
        ("http://169.254.169.254/", [], "link-local"),
        ("http://inside.example/", ["10.0.0.1"], "inside.example leads to 10.0.0.1, which is private"),
        ("http://inside.example/", ["93.184.216.34", "10.0.0.1"], "which is private"),
        ("http://inside.example/", ["64:ff9b::a00:1"], "means 10.0.0.1, which is private"),
        ("http://inside.example/", ["fe80::1%eth0"], "link-local"),
        ("http://inside.example/", [], "inside.example has no address"),
        ("gopher://example.com/", [], "begins with http"),
    ],
)
def test_what_is_not_asked(url: str, found: list[str], why: str) -> None:
    tool = fetch_tool(network=Never(), resolve=lambda host, port: found)
    with pytest.raises(TryAgain, match=why):
        tool.call({"url": url})


def test_the_rule_of_a_caller() -> None:
    tool = fetch_tool(network=Never(), allowed=lambda address: False)
    with pytest.raises(TryAgain, match=r"it leads to 8\.8\.8\.8, which is not allowed"):
        tool.call({"url": "http://8.8.8.8/"})


def test_names_are_looked_up_by_the_system(monkeypatch: pytest.MonkeyPatch, server: Loopback) -> None:
    asked: list[object] = []

    def getaddrinfo(host: object, port: object, **options: object) -> Any:
        asked.append((host, port))
        if host == "nowhere.example":
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))] * 2

    server.answer(whole(b"x", 200, TEXT))
    with monkeypatch.context() as patched:
        patched.setattr("toolcast.toolbox.public_http.socket.getaddrinfo", getaddrinfo)
        with pytest.raises(TryAgain, match=r"nowhere.example has no address: Name or service not known"):
            fetched(server, host="nowhere.example", resolve=None)
        with pytest.raises(TryAgain, match="this machine's own"):
            fetched(server, resolve=None, allowed=None)
    assert asked == [("nowhere.example", server.port), ("example.com", server.port)]
    assert server.requests == []


@pytest.mark.fault(140)
def test_a_name_is_looked_up_once_and_its_address_is_asked(server: Loopback) -> None:
    """A name that leads elsewhere the second time is not asked for a second time."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    server.answer(whole(b"x", 200, TEXT))
    output = fetched(server, host="rebinding.example", resolve=lambda host, port: next(answers))
    assert output.content.startswith("http://rebinding.example:")
    assert next(answers) == ["10.0.0.1"]


def test_the_next_address_is_tried(server: Loopback) -> None:
    server.answer(whole(b"x", 200, TEXT))
    assert fetched(server, resolve=lambda host, port: ["127.0.0.9", "127.0.0.9", "127.0.0.1"]).content.endswith("x")


def test_no_one_is_there(server: Loopback) -> None:
    with pytest.raises(TryAgain, match=r"could not be fetched: no connection to 127\.0\.0\.9:\d+: .* refused(?!\.)"):
        fetched(server, resolve=lambda host, port: ["127.0.0.9"])


def test_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch, server: Loopback) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.9:1")
    server.answer(whole(b"x", 200, TEXT))
    assert fetched(server).content.endswith("x")
    assert server.requests[0].line == "GET / HTTP/1.1"


# Certificates.


@pytest.fixture
def secure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A server that proves to be `example.com`, in a world that believes it."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("example.com").configure_cert(context)
    with Loopback(tls=context) as server:
        yield server


def test_a_certificate_proves_the_name(secure: Loopback) -> None:
    secure.answer(whole(b"x", 200, TEXT))
    output = open_tool().call({"url": f"https://EXAMPLE.com.:{secure.port}/"})
    assert output.content.startswith(f"https://example.com:{secure.port}/ (200")


@pytest.mark.parametrize("network", [lambda: HttpxNetwork(direct=True), lambda: None])
def test_a_certificate_of_another_name(network: Callable[[], HttpxNetwork | None], secure: Loopback) -> None:
    tool = open_tool(network=network())
    secure.answer(whole(b"x", 200, TEXT))
    tool.call({"url": f"https://example.com:{secure.port}/"})
    for host in ("other.example", "127.0.0.1"):  # on the same machine
        with pytest.raises(TryAgain, match=r"no connection to 127.0.0.1:\d+: .*certificate"):
            tool.call({"url": f"https://{host}:{secure.port}/"})
    assert len(secure.requests) == 1


# Time.


@pytest.mark.parametrize("begin", [[], [head(200, TEXT, "content-length: 5"), b"x"]])
def test_a_server_that_is_silent(begin: list[Any], server: Loopback) -> None:
    server.answer(*begin, HOLD)
    with pytest.raises(TryAgain, match="could not be fetched: it took too long"):
        fetched(server, timeout=0.05)


def test_the_time_is_for_all_of_it(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        server.answer(whole(b"", 302, "location: /again"))
    now = iter(range(100))
    monkeypatch.setattr("toolcast.toolbox.fetch.monotonic", lambda: next(now))
    with pytest.raises(TryAgain, match="could not be fetched: it took too long"):
        fetched(server, timeout=5.0)
    assert len(server.requests) == 2


def test_a_connection_that_breaks(server: Loopback) -> None:
    server.answer(head(200, TEXT, "content-length: 5"), b"x", CLOSE)
    with pytest.raises(TryAgain, match=r"could not be fetched: the connection to 127.0.0.1:\d+ broke"):
        fetched(server)


@pytest.mark.parametrize("begin", [[], [head(200, TEXT, "transfer-encoding: chunked"), chunk(b"x")]])
def test_a_cancelled_call_lets_go_at_once(begin: list[bytes], server: Loopback) -> None:
    server.answer(*begin, HOLD, END)
    cancellation, raised = Cancellation(), []
    tool = open_tool(timeout=60.0)

    def call() -> None:
        read = tool.read({"url": f"http://example.com:{server.port}/"})
        with pytest.raises(TurnCancelled) as caught:
            tool.run(read.value, ToolContext(tool="fetch_url", cancellation=cancellation))
        raised.append(caught.value)

    thread = threading.Thread(target=call)
    thread.start()
    server.wait_requests(1)
    cancellation.cancel()
    thread.join(30)
    assert len(raised) == 1
    server.wait_open(0)


def test_a_call_that_was_cancelled_before() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    tool = fetch_tool(network=Never())
    with pytest.raises(TurnCancelled):
        tool.run(tool.read({"url": "http://8.8.8.8/"}).value, ToolContext(cancellation=cancellation))


# The tool.


def test_the_tool() -> None:
    tool = fetch_tool(timeout=7.0)
    assert (tool.name, tool.read_only, tool.destructive, tool.timeout) == ("fetch_url", False, False, 7.0)
    assert json.dumps(tool.parameters["properties"]).count('"type"') == 1
    assert tool.parameters["required"] == ["url"]


@pytest.mark.parametrize("options", [{"limit": 0}, {"max_redirects": -1}, {"timeout": 0}])
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"fetch_tool|timeout"):
        fetch_tool(**options)
