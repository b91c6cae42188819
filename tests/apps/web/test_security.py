"""Who gets in and who does not. Each request below is right but for the one thing that it is about."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from support.web_chats import TO_READY, chat
from toolcast.apps.web import make_app
from toolcast.apps.web.security import HEADERS, Guard
from toolcast.chat.machine import AsyncChatMachine
from toolcast.serve.access import Hosts, json_body

TOKEN = "a-token-that-is-not-guessed"
HERE = "http://127.0.0.1:8765"
RIGHT = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
MESSAGE = {"type": "QUEUE_MESSAGE", "message": "Hello"}


@asynccontextmanager
async def asking(host: str = "127.0.0.1") -> AsyncIterator[tuple[httpx.AsyncClient, AsyncChatMachine]]:
    """A client of the page of a chat that is ready."""
    async with chat(*TO_READY) as machine:
        app = make_app(machine, token=TOKEN, host=host)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
            yield client, machine


async def test_what_the_page_asks_for_it_gets() -> None:
    async with asking() as (client, machine):
        for path in (f"/?token={TOKEN}", "/assets/chat.js", "/assets/style.css", f"/models?token={TOKEN}"):
            assert (await client.get(path)).status_code == 200, path
        message = await client.post("/chats/chat/dispatch", json=MESSAGE, headers=RIGHT)
        assert (message.status_code, machine.state) == (200, "searching_tools")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/chats/chat/events",
        "/chats",
        "/chats/chat/messages",
        "/chats/chat/files/x",
        "/models",
        "/modes",
        "/diagram",
        "/nowhere",
    ],
)
@pytest.mark.parametrize(
    "given", ["", "?token=", "?token=wrong", f"?token={TOKEN}x", f"?token={TOKEN[:-1]}", "?token=ö"]
)
async def test_without_the_token_there_is_nothing(path: str, given: str) -> None:
    async with asking() as (client, _):
        refused = await client.get(path + given)
    assert refused.status_code == 403
    error = refused.text if path == "/" else refused.json()["error"]
    assert "open the address that the server printed" in error
    assert TOKEN not in refused.text


@pytest.mark.parametrize(
    "query", [f"?token=x&token={TOKEN}", f"?token={TOKEN}&token=x", f"?token={TOKEN}&token={TOKEN}"]
)
async def test_of_two_tokens_none_counts(query: str) -> None:
    async with asking() as (client, _):
        refused = await client.get(f"/models{query}")
    assert refused.status_code == 400
    assert "sent more than once" in refused.json()["error"]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Host", "127.0.0.1:8765"),
        ("Authorization", f"Bearer {TOKEN}"),
        ("Origin", HERE),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Type", "application/json"),
    ],
)
@pytest.mark.parametrize("second", ["x", None])
async def test_of_two_headers_none_counts(name: str, first: str, second: str | None) -> None:
    others = [(key, value) for key, value in RIGHT.items() if key != name]
    async with asking() as (client, machine):
        headers = [*others, (name, first), (name, second or first)]
        refused = await client.post("/chats/chat/dispatch", json=MESSAGE, headers=headers)
        assert (refused.status_code, machine.state) == (400, "ready")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN])
async def test_the_token_in_the_address_allows_no_change(header: str) -> None:
    async with asking() as (client, machine):
        refused = await client.post(
            f"/chats/chat/dispatch?token={TOKEN}", json=MESSAGE, headers={**RIGHT, "Authorization": header}
        )
        assert (refused.status_code, machine.state) == (403, "ready")


async def test_the_token_may_be_in_a_header_everywhere() -> None:
    async with asking() as (client, _):
        assert (await client.get("/diagram", headers={"Authorization": f"bearer {TOKEN}"})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.168.1.7:8765",
        "",
        "[::1",
        "[]",
        "a b",
        "127.0.0.1@evil.example:1",
        "evil@127.0.0.1",
        "evil:x@127.0.0.1:8765",
        "127.0.0.1/evil",
        "127.0.0.1?evil",
        "127.0.0.1#evil",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1 ",
    ],
)
async def test_a_name_that_is_not_meant_is_refused(host: str) -> None:
    """DNS rebinding: a foreign name is made to mean 127.0.0.1, and the foreign page may read all answers."""
    async with asking() as (client, machine):
        headers = {**RIGHT, "Host": host}
        refused = await client.post("/chats/chat/dispatch", json=MESSAGE, headers=headers)
        page = await client.get(f"/?token={TOKEN}", headers=headers)
        asset = await client.get("/assets/chat.js", headers=headers)
        assert (refused.status_code, page.status_code, asset.status_code) == (421, 421, 421)
        assert machine.state == "ready"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:1", "localhost", "LOCALHOST:80", "toolcast.localhost", "[::1]:8765", "127.9.9.9"]
)
async def test_every_name_of_this_machine_is_meant(host: str) -> None:
    async with asking() as (client, _):
        assert (await client.get(f"/?token={TOKEN}", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    ("text", "header", "meant"),
    [
        ("box.example", "box.example:8765", True),
        ("box.example", "BOX.example", True),
        ("box.example", "other.example", False),
        ("192.168.1.7", "192.168.1.7:80", True),
        ("192.168.1.7", "192.168.1.8:80", False),
        ("0.0.0.0", "192.168.1.8", True),
        ("::", "[2001:db8::1]:80", True),
        ("0.0.0.0", socket.gethostname(), True),
        ("0.0.0.0", "evil.example", False),
        ("0.0.0.0", "", False),
    ],
)
def test_the_host_it_listens_on_is_meant(text: str, header: str, meant: bool) -> None:
    assert (header in Hosts(text)) is meant


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://127.0.0.1:8765.evil.example"},
        {"Origin": ""},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": HERE, "Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_another_page_can_neither_write_nor_read(headers: Mapping[str, str]) -> None:
    async with asking() as (client, machine):
        refused = await client.post("/chats/chat/dispatch", json=MESSAGE, headers={**RIGHT, **headers})
        events = await client.get(f"/chats/chat/events?token={TOKEN}", headers=headers)
        assert (refused.status_code, events.status_code, machine.state) == (403, 403, "ready")


@pytest.mark.parametrize("headers", [{"Origin": HERE}, {"Sec-Fetch-Site": "same-origin", "Origin": HERE}], ids=str)
async def test_the_page_itself_may(headers: Mapping[str, str]) -> None:
    async with asking() as (client, _):
        assert (
            await client.post("/chats/chat/dispatch", json=MESSAGE, headers={**RIGHT, **headers})
        ).status_code == 200


async def test_a_link_from_elsewhere_leads_to_the_page() -> None:
    async with asking() as (client, _):
        page = await client.get(f"/?token={TOKEN}", headers={"Sec-Fetch-Site": "cross-site"})
    assert page.status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""]
)
async def test_what_a_form_can_send_is_refused(kind: str) -> None:
    async with asking() as (client, machine):
        refused = await client.post("/chats/chat/dispatch", json=MESSAGE, headers={**RIGHT, "Content-Type": kind})
        assert (refused.status_code, machine.state) == (415, "ready")


async def test_a_charset_beside_the_type_is_no_harm() -> None:
    async with asking() as (client, _):
        headers = {**RIGHT, "Content-Type": "Application/JSON; charset=utf-8"}
        assert (await client.post("/chats/chat/dispatch", json=MESSAGE, headers=headers)).status_code == 200


async def test_too_much_is_refused_before_all_of_it_was_read() -> None:
    async def receive() -> Message:
        received.append(100)
        return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    received: list[int] = []
    request = Request({"type": "http", "headers": [(b"content-type", b"application/json")]}, receive)
    with pytest.raises(HTTPException) as refused:
        await json_body(request, limit=1000)
    assert (refused.value.status_code, sum(received)) == (413, 1100)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # httpx leaves a generator of its own, which trio minds
async def test_too_much_is_answered() -> None:
    async with asking() as (client, machine):
        refused = await client.post("/chats/chat/dispatch", json={**MESSAGE, "message": "x" * 1_000_000}, headers=RIGHT)
        assert (refused.status_code, machine.state) == (413, "ready")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'"INTERRUPT"',
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b'{"type": "STREAM_COMPLETE"}',
        b'{"type": 5}',
        b'{"type": "QUEUE_MESSAGE"}',
        b'{"type": "QUEUE_MESSAGE", "message": {"role": "system"}}',
        b'{"type": "APPROVE_TOOL_CALL", "for_session": "yes"}',
        b'{"type": "STOP", "more": 1}',
    ],
    ids=lambda body: repr(body[:40]),
)
async def test_an_invalid_body_is_refused(body: bytes) -> None:
    async with asking() as (client, machine):
        refused = await client.post("/chats/chat/dispatch", content=body, headers=RIGHT)
        assert (refused.status_code, machine.state) == (400, "ready"), refused.text
        assert refused.json()["error"]


@pytest.mark.parametrize("path", ["/", f"/?token={TOKEN}", "/assets/chat.js", "/assets/none", "/assets/../server.py"])
async def test_every_answer_carries_the_headers(path: str) -> None:
    async with asking() as (client, _):
        answer = await client.get(path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


@pytest.mark.parametrize("word", ["'unsafe-inline'", "'unsafe-eval'", "data:", "http:", "https:", "*"])
def test_the_policy_has_no_hole(word: str) -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert word not in policy
    assert policy.startswith("default-src 'none';")


@pytest.mark.parametrize(
    "path", ["/assets/../server.py", "/assets/%2e%2e/server.py", "/assets/..%2fserver.py", "/assets//etc/passwd"]
)
async def test_nothing_but_the_assets_is_served(path: str) -> None:
    async with asking() as (client, _):
        assert (await client.get(path)).status_code in (403, 404)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_saying_something_takes_a_post(method: str) -> None:
    async with asking() as (client, machine):
        answer = await client.request(method, "/chats/chat/dispatch", json=MESSAGE, headers=RIGHT)
        assert (answer.status_code, machine.state) == (405, "ready")
        assert "access-control-allow-origin" not in answer.headers


async def test_what_is_no_request_is_none_of_its_business() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        received.append(scope["type"])

    received: list[str] = []
    await Guard(app, TOKEN, Hosts())({"type": "lifespan"}, _nothing, _nothing)
    assert received == ["lifespan"]


async def test_a_page_without_a_token_is_not_made() -> None:
    with pytest.raises(ValueError, match="token is empty"):
        Guard(_nothing, "", Hosts())


async def _nothing(*_: Any) -> None:
    raise AssertionError("never asked")


async def test_a_person_without_the_token_gets_a_page_that_explains_it() -> None:
    async with asking() as (client, _):
        page = await client.get("/?token=wrong")
        assert (page.status_code, page.headers["content-type"]) == (403, "text/html; charset=utf-8")
        assert "Open the address that it printed" in page.text
        assert "the token is missing or wrong" in page.text
        assert (await client.get("/", headers={"Host": "evil.example"})).status_code == 421
        assert (await client.get("/models")).json()["error"].startswith("the token is missing")
