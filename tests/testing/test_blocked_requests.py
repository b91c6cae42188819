"""Which requests are blocked."""

from __future__ import annotations

from typing import Any

import pytest

from support.sync_and_async import API
from toolcast import OpenAI
from toolcast.errors import AuthFailed, ConnectFailed
from toolcast.testing import Recorded, ReplayNetwork, RequestBlocked, record
from toolcast.testing.blocked_requests import AllowRequests, BlockRequests
from toolcast.transport.interception import intercept_by_default
from toolcast.values.http_request import HTTPRequest


class Unreachable:
    """A network that counts the requests, and fails."""

    def __init__(self) -> None:
        self.sent = 0

    def open(self, request: HTTPRequest, **limits: Any) -> Any:
        self.sent += 1
        raise ConnectFailed("unreachable", retryable=False)

    async def aopen(self, request: HTTPRequest, **limits: Any) -> Any:
        self.open(request)

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


def call(api: API, url: str, network: Any) -> None:
    api.chat(OpenAI("m-1", api_key="sk-0123456789", base_url=url, network=network), "x")


@pytest.mark.parametrize(
    "url", ["https://user:sk-0123456789@service.example/v1", "http://10.0.0.1/v1", "http://[2001:db8::1]:80/v1"]
)
def test_requests_to_other_machines(api: API, url: str) -> None:
    network = Unreachable()
    with intercept_by_default(BlockRequests()), pytest.raises(RequestBlocked) as caught:
        call(api, url, network)
    assert network.sent == 0
    for text in (
        "POST http",
        "@pytest.mark.toolcast_record",
        "toolcast_llm",
        "@pytest.mark.toolcast_block_requests(False)",
    ):
        assert text in str(caught.value)
    assert "sk-0123456789" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:9/v1", "http://api.localhost/v1", "http://127.0.0.2:9/v1", "http://[::1]:9/v1"]
)
def test_requests_to_this_machine(api: API, url: str) -> None:
    network = Unreachable()
    with intercept_by_default(BlockRequests()), pytest.raises(ConnectFailed):
        call(api, url, network)
    assert network.sent == 1


def test_what_is_no_real_request(api: API) -> None:
    with intercept_by_default(BlockRequests()), pytest.raises(IndexError):
        call(api, "https://service.example/v1", ReplayNetwork(IndexError("the network's own")))


def test_allowed_again_and_recorded(api: API, tmp_path: Any) -> None:
    network = Unreachable()
    with intercept_by_default(BlockRequests()):
        with intercept_by_default(AllowRequests()), pytest.raises(ConnectFailed):
            call(api, "https://service.example/v1", network)
        with record(tmp_path / "x.jsonl", mode="all"), pytest.raises(ConnectFailed):
            call(api, "https://service.example/v1", network)
        with pytest.raises(RequestBlocked):
            call(api, "https://service.example/v1", network)
    assert network.sent == 2


def test_a_missing_key_is_not_what_stops_a_blocked_request(api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with intercept_by_default(BlockRequests()):
        with pytest.raises(RequestBlocked, match="toolcast_record"):
            api.chat(OpenAI("m-1", api="chat"), "x")
        with pytest.raises(AuthFailed):  # which is not blocked
            api.chat(OpenAI("m-1", base_url="http://127.0.0.1:9/v1"), "x")
        with intercept_by_default(AllowRequests()), pytest.raises(AuthFailed):
            api.chat(OpenAI("m-1", api="chat"), "x")


def test_a_replay_needs_no_key(api: API, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    body = '{"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}'
    answer = Recorded([body.encode()], headers={"content-type": "application/json"})
    with record(tmp_path / "x.jsonl", mode="all"):
        api.chat(OpenAI("m-1", api="chat", api_key="sk-0123456789", network=ReplayNetwork(answer)), "x")
    with record(tmp_path / "x.jsonl", mode="none", process_wide=True):
        assert api.chat(OpenAI("m-1", api="chat"), "x").text == "Hello"
