"""What all wires share: a request's terms, what is made of them once, and JSON members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from toolcast.errors import BadRequest
from toolcast.messages import user
from toolcast.providers.base import (
    HTTPRequest,
    NamedTool,
    RequestInput,
    RequestOptions,
    Secret,
    SecretURL,
    ToolSpec,
    guarded,
    member,
    once_for_all,
)
from toolcast.settings import Settings

F = ToolSpec("f", "Does f.", {"type": "object"})


class Counted:
    """Makes a new object each time it is asked, and remembers what for."""

    def __init__(self) -> None:
        self.asked: list[tuple[RequestOptions, Settings]] = []
        self.of = once_for_all(self.make)

    def make(self, terms: RequestOptions, settings: Settings) -> object:
        self.asked.append((terms, settings))
        return object()


def said(text: str = "Hi", **about: Any) -> RequestInput:
    return RequestInput(
        **{"model": "m", "messages": (user(text),), "tools": (F,), "tool_choice": NamedTool("f"), **about}
    )


@pytest.mark.parametrize(
    ("conversation", "settings"),
    [
        pytest.param(said("other words"), Settings(), id="words"),
        pytest.param(said(), Settings(timeout=3), id="timeout"),
        pytest.param(said(), Settings(extra={"x": 1}), id="extra"),
        pytest.param(said(tools=(ToolSpec("f", "Does f.", {"type": "object"}),)), Settings(), id="an equal tool"),
    ],
)
def test_what_is_made_once(conversation: RequestInput, settings: Settings) -> None:
    counted = Counted()
    first = counted.of(said(), Settings())
    assert counted.of(conversation, settings) is first
    assert counted.asked == [(said().terms, Settings())]


@pytest.mark.parametrize(
    ("conversation", "settings"),
    [
        pytest.param(said(model="n"), Settings(), id="model"),
        pytest.param(said(stream=False), Settings(), id="stream"),
        pytest.param(said(parallel=True), Settings(), id="parallel"),
        pytest.param(said(tool_choice="auto"), Settings(), id="choice"),
        pytest.param(said(tools=()), Settings(), id="no tools"),
        pytest.param(said(tools=(ToolSpec("f", "Does f.", {}),)), Settings(), id="another schema"),
        pytest.param(said(), Settings(temperature=0.5), id="settings"),
    ],
)
def test_what_is_made_anew(conversation: RequestInput, settings: Settings) -> None:
    counted = Counted()
    first = counted.of(said(), Settings())
    assert counted.of(conversation, settings) is not first
    assert len(counted.asked) == 2


def test_to_think_is_not_a_budget_of_one_token() -> None:
    counted = Counted()
    made = [counted.of(said(), Settings(thinking=thinking)) for thinking in (True, 1)]
    assert made[0] is not made[1]
    assert [settings.thinking for _, settings in counted.asked] == [True, 1]


@pytest.mark.parametrize("nothing", [0, -1, "none"])
def test_to_think_of_nothing_is_not_to_think(nothing: int | str) -> None:
    counted = Counted()
    assert counted.of(said(), Settings(thinking=nothing)) is counted.of(said(), Settings(thinking=False))


def test_a_choice_that_can_be_changed_is_not_remembered() -> None:
    counted = Counted()
    choice = {"type": "any"}
    first = counted.of(said(tool_choice=choice), Settings())
    assert counted.of(said(tool_choice=choice), Settings()) is not first


def test_tools_are_told_apart_by_all_that_they_are() -> None:
    same, other = ToolSpec("f", "Does f.", {"type": "object"}), ToolSpec("f", "Does f.", {"type": "array"})
    assert {F, same} == {F}
    assert {F, other} == {F, other} and len({F, other}) == 2


def test_a_member_of_an_object() -> None:
    assert member("é", {"a": [1, None]}) == '"é":{"a":[1,null]}'


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_what_json_cannot_hold(value: object) -> None:
    with pytest.raises(BadRequest, match="cannot be written as JSON"):
        member("x", value)


def test_a_key_is_masked_with_and_without_its_word() -> None:
    headers = {
        "authorization": Secret("Bearer abcdef"),
        "x-short": Secret("ab"),
        "x-empty": Secret(""),
        "accept": "req",
    }
    request = HTTPRequest("POST", "https://x", headers, b"")
    assert request.masked("req Bearer abcdef, abcdef, ab") == "req [key], [key], ab"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host/v1", "http://host/v1"),
        ("https://host:1/v1?api-version=2024-10-21&alt=sse", "https://host:1/v1?api-version=2024-10-21&alt=sse"),
        ("http://u:PW-1@host/v1?key=K-1", "http://***@host/v1?key=***"),
        ("http://u@host", "http://***@host"),
        ("u:p@host:1/x", "***@host:1/x"),
        ("//u:p@host", "//***@host"),
        ("http://u:p@x@host", "http://***@host"),
        ("https://host/models/m@001?x=a@b", "https://host/models/m@001?x=***"),
        (
            "http://host?API-Version=1&Subscription-Key=K&api_key=K",
            "http://host?API-Version=1&Subscription-Key=***&api_key=***",
        ),
        ("http://host?access_token=K&sig=K&code=K&token", "http://host?access_token=***&sig=***&code=***&***"),
        ("http://host?K-1", "http://host?***"),
        ("http://host?&a=&=b", "http://host?&a=***&=***"),
        ("http://host/#K-1", "http://host/#***"),
        ("", ""),
    ],
)
def test_what_shows_of_a_url(url: str, shown: str) -> None:
    secret = SecretURL(url)
    assert secret.shown == shown
    assert secret.has_secrets == (shown != url)
    assert secret.reveal() == url
    assert repr(secret) == str(secret) == f"SecretURL({shown!r})"


@pytest.mark.parametrize(
    "text",
    [
        "us:er:p%40ss word",
        "p%2540ss+word",
        "p%40ss%20word",
        "p@ss word",
        "p%2540ss%2Bword",
        "dXM6ZXI6cCU0MHNzK3dvcmQ=",
        "k/y=&",
        "k%2Fy%3D%26",
        "k/y%3D%26",
    ],
)
def test_what_is_masked_of_a_url(text: str) -> None:
    url = SecretURL("http://us%3Aer:p%2540ss+word@host/v1?sig=k%2Fy%3D%26&code=p%40ss+word")
    request = HTTPRequest("GET", url.shown, {}, b"", secret_url=url)
    assert request.masked(f"it came with <{text}>") in ("it came with <[key]>", "it came with <us:er:[key]>")
    assert "p%2540ss" not in request.masked(request.target)


def test_a_url_with_further_secrets() -> None:
    url = SecretURL("http://host/bot123/x", Secret("bot123"))
    assert url.shown == "http://host/***/x"
    assert url.masked("/bot123/") == "/[key]/"


def test_where_a_request_is_sent() -> None:
    url = SecretURL("http://u:p@host/v1")
    request = HTTPRequest("GET", url.shown, {}, b"", secret_url=url)
    assert request.target == "http://u:p@host/v1"
    assert replace(request, url="http://other/").target == "http://other/"
    assert HTTPRequest("GET", "http://host", {}, b"").target == "http://host"


def test_which_headers_are_guarded() -> None:
    harmless = {"Accept": "a", "User-Agent": "b", "OpenAI-Organization": "c", "X-Request-Id": "d", "x-team": "e"}
    unknown = {"Helicone-Auth": "f", "X-Anything": "g", "Authorization": "h", "x-user-agent-key": "i"}
    made = guarded({**harmless, **unknown})
    assert [name for name, value in made.items() if not isinstance(value, Secret)] == [*harmless]
    assert [value.reveal() for value in made.values() if isinstance(value, Secret)] == [*unknown.values()]
