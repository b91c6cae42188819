"""The URL that a request is sent to, and the texts that it masks."""

from __future__ import annotations

from dataclasses import replace

from toolcast.values.credentials import Secret, SecretURL
from toolcast.values.http_request import HTTPRequest


def test_a_key_is_masked_with_and_without_its_scheme() -> None:
    headers = {
        "authorization": Secret("Bearer abcdef"),
        "x-short": Secret("ab"),
        "x-empty": Secret(""),
        "accept": "req",
    }
    request = HTTPRequest("POST", "https://x", headers, b"")
    assert request.mask("req Bearer abcdef, abcdef, ab") == "req [key], [key], ab"


def test_the_target_has_the_credentials_of_the_url() -> None:
    url = SecretURL("http://u:p@host/v1")
    request = HTTPRequest("GET", url.shown, {}, b"", secret_url=url)
    assert request.target == "http://u:p@host/v1"
    assert replace(request, url="http://other/").target == "http://other/"
    assert HTTPRequest("GET", "http://host", {}, b"").target == "http://host"
