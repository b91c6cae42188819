"""Credentials: masking of keys and URLs, and the headers that count as secret."""

from __future__ import annotations

import pytest

from toolcast.values.credentials import Secret, SecretURL, protect_headers
from toolcast.values.http_request import HTTPRequest


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
def test_the_credentials_of_a_url_are_hidden(url: str, shown: str) -> None:
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
def test_a_credential_is_masked_in_every_encoding(text: str) -> None:
    url = SecretURL("http://us%3Aer:p%2540ss+word@host/v1?sig=k%2Fy%3D%26&code=p%40ss+word")
    request = HTTPRequest("GET", url.shown, {}, b"", secret_url=url)
    assert request.mask(f"it came with <{text}>") in ("it came with <[key]>", "it came with <us:er:[key]>")
    assert "p%2540ss" not in request.mask(request.target)


def test_a_url_with_further_secrets() -> None:
    url = SecretURL("http://host/bot123/x", Secret("bot123"))
    assert url.shown == "http://host/***/x"
    assert url.mask("/bot123/") == "/[key]/"


def test_headers_are_secrets_unless_they_are_harmless() -> None:
    harmless = {"Accept": "a", "User-Agent": "b", "OpenAI-Organization": "c", "X-Request-Id": "d", "x-team": "e"}
    unknown = {"Helicone-Auth": "f", "X-Anything": "g", "Authorization": "h", "x-user-agent-key": "i"}
    made = protect_headers({**harmless, **unknown})
    assert [name for name, value in made.items() if not isinstance(value, Secret)] == [*harmless]
    assert [value.reveal() for value in made.values() if isinstance(value, Secret)] == [*unknown.values()]
