"""The removal of credentials and personal data from bodies, URLs and headers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from toolcast.testing import RecordingError
from toolcast.testing.scrubbing import Scrubber, is_credential
from toolcast.values.credentials import Secret, SecretURL
from toolcast.values.http_request import HTTPRequest, build_request

KEY = "sk-scrub-0123456789"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})


def events(*deltas: str, **more: str) -> list[bytes]:
    return [f"event: x\ndata: {json.dumps({'id': 'r', **more, 'delta': delta})}\n\n".encode() for delta in deltas]


def deltas(chunks: list[bytes]) -> list[str]:
    return [json.loads(line[6:])["delta"] for line in b"".join(chunks).splitlines() if line.startswith(b"data: ")]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("abc", False), ("hunter", False), ("hunter2", True), ("123456", False), ("12345678", True), ("password", True)],
)
def test_words_and_short_numbers_are_no_credentials(text: str, is_one: bool) -> None:
    assert is_credential(text) is is_one


@pytest.mark.parametrize(
    "secret",
    [
        Secret(KEY),
        Secret(f"Bearer {KEY}"),
        Secret(f"Basic {b64encode(f'me:{KEY}'.encode()).decode()}"),
        Secret(f"session={KEY}; theme=dark"),
        SecretURL(f"https://me:{KEY}@api.example"),
        SecretURL(f"https://api.example?token={KEY}"),
        SecretURL(f"https://api.example/{KEY}", Secret(KEY)),
    ],
)
def test_the_credentials_of_a_request(secret: Secret) -> None:
    scrubber = Scrubber()
    if isinstance(secret, SecretURL):
        scrubber.learn(build_request("GET", secret, {}, b""))
    else:
        scrubber.learn(HTTPRequest("GET", "https://api.example", {"a": secret}, b""))
    assert scrubber.chunks([f"see {KEY}!".encode()]) == [b"see [key]!"]


def test_registered_credentials_and_those_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.touch()
    variables = {"A_API_KEY": "abcdef-12345", "TOKEN": "ghijkl-12345", "HOME": "mnopqr-12345", "SSH_KEY": str(file)}
    long = "ab12" * 100  # no file may have this name
    monkeypatch.setattr("os.environ", {**variables, "B_TOKEN": long})
    text = f"{KEY} abcdef-12345 ghijkl-12345 mnopqr-12345 {file} {long}"
    assert Scrubber(secrets=[KEY, "abc"]).text(text) == f"[key] [key] [key] mnopqr-12345 {file} [key]"


@pytest.mark.parametrize(
    "name",
    [
        *("PGPASSWORD", "GH_PAT", "SLACK_WEBHOOK", "OPENAI_API_KEY_BACKUP", "GITHUB_TOKEN_2", "STRIPE_SECRET_KEY_TEST"),
        *("SMTP_PASS", "USER_CREDENTIALS", "SSH_PRIVATE_KEY_PEM", "apiKey", "clientSecret"),
    ],
)
def test_names_of_credentials_in_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {name: "abcdef-12345"})
    assert Scrubber().text("see abcdef-12345") == "see [key]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("postgres://me:s3cret-pw@db/x", "s3cret-pw at postgres://me:s3cret-pw@db/x"),
        ("-----BEGIN RSA PRIVATE KEY-----abc", "-----BEGIN RSA PRIVATE KEY-----abc"),
        *((key, key) for key in ("sk-abcdefgh", "ghp_abcdefgh", "xoxb-abcdefgh", "AKIAABCDEFGH", "eyJhbGciOi.x.y")),
    ],
)
def test_forms_of_credentials_in_the_environment(value: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"SOMETHING": value})
    assert "[key]" in (clean := Scrubber().text(text))
    assert not any(part in clean for part in ("s3cret", "abc", "ABC", "hbGci"))


ORDINARY = (
    *("PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHELL", "TERM", "EDITOR", "KEYBOARD", "KEYMAP", "MONKEY", "AUTHOR"),
    *("TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK", "XAUTHORITY", "COMPASS", "BYPASS", "PASSENGER_ROOT", "HOSTNAME"),
    *("LOGNAME", "DISPLAY", "PAGER", "TZ", "CI", "GITHUB_ACTOR", "GIT_AUTHOR_NAME", "PATTERN", "KEYWORDS", "NODE_ENV"),
    *("CONDA_DEFAULT_ENV", "VIRTUAL_ENV", "PYTHONPATH", "LC_ALL", "XDG_RUNTIME_DIR", "DATABASE_HOST"),
)


def test_what_is_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {name: f"value-of-{name}" for name in ORDINARY})
    text = " ".join(f"value-of-{name}" for name in ORDINARY)
    assert Scrubber().text(text) == text


def test_a_number_stays_json() -> None:
    body = b'{"pin": 12345678, "text": "12345678"}'
    assert Scrubber(secrets=["12345678"]).chunks([body]) == [b'{"pin": 99999999, "text": "[key]"}']


FILTERS: dict[str, Mapping[str, str] | Callable[[str], str]] = {
    "patterns": {"Ada( Lovelace)?": "Jane", r"(\w+)@example\.org": r"\1@hidden.invalid"},
    "a function": lambda text: text.replace("Ada Lovelace", "Jane").replace("@example.org", "@hidden.invalid"),
}


@pytest.mark.parametrize("kind", FILTERS)
def test_personal_data(kind: str) -> None:
    scrubber = Scrubber(FILTERS[kind])
    assert scrubber.text("https://x.org/Ada Lovelace") == "https://x.org/Jane"
    body = b"".join(scrubber.chunks([b'{"a": "Ada Lovel', b"ace, me@exam", b'ple.org", "\xc3\xa9": 1}']))
    assert json.loads(body) == {"a": "Jane, me@hidden.invalid", "é": 1}
    assert scrubber.chunks([b"\xc3\xa9 Ada Lovelace\r\n", b"{not JSON}: me@example.org"]) == [
        b"\xc3\xa9 Jane\r\n",
        b"{not JSON}: me@hidden.invalid",
    ]
    assert scrubber.chunks([b"\xff Ada Lovelace"]) == [b"\xff Jane"]


@pytest.mark.parametrize("kind", FILTERS)
def test_personal_data_that_a_stream_cuts_into_deltas(kind: str) -> None:
    chunks = Scrubber(FILTERS[kind]).chunks(events("I am A", "da Lo", "vel", "ace, really"))
    assert "".join(deltas(chunks)) == "I am Jane, really"
    assert len(chunks) == 4
    assert deltas(chunks)[0].startswith("I am ")


def test_parallel_calls_and_labels_are_kept_apart() -> None:
    one, two = (
        [f'data: {{"index": {index}, "delta": "{text}"}}\n\n'.encode() for text in ("Ad", "a")] for index in (0, 1)
    )
    mixed = [one[0], two[0], one[1], two[1]]
    assert deltas(Scrubber({"Ada": "Jane"}).chunks(mixed)) == ["Jane", "Jane", "", ""]
    repeated = events("x", "y", model="ab")
    assert Scrubber({"bab": "no"}).chunks(repeated) == repeated


def test_what_is_inserted_and_what_becomes_empty() -> None:
    assert Scrubber(lambda text: text + "!").chunks([b"a", b"b"]) == [b"a", b"b!"]
    assert Scrubber(lambda text: text + "!").chunks([b'{"a": "b"}']) == [b'{"a!": "b!"}']
    assert Scrubber({"a": ""}).chunks([b"a", b"b", b"a"]) == [b"b"]
    assert Scrubber({"a*": "x"}).text("bab") == "bxb"
    assert Scrubber({"b": "\ud800"}).chunks([b'["abc"]']) == [b'["a\\ud800c"]']


def test_a_filter_of_another_type() -> None:
    with pytest.raises(TypeError, match="filter: expected str as its result, got NoneType"):
        Scrubber(lambda text: None).text("x")  # type: ignore[arg-type,return-value]  # the mistake


@pytest.mark.parametrize(
    "data",
    [
        KEY.replace("-", "&#45;").encode(),
        json.dumps({"a": json.dumps({"b": KEY}).replace("s", "\\u0073")}).encode(),
        b'data: {"a": "sk-scrub-"}\n\ndata: {"a": "0123456789"}\n\n',
        KEY.replace("-", "%2D").encode(),
    ],
)
def test_a_credential_that_is_left_is_refused(data: bytes) -> None:
    with pytest.raises(RecordingError, match="was not written: here still contains a credential") as caught:
        Scrubber(secrets=[KEY]).check(data, "here")
    assert KEY not in str(caught.value)
    Scrubber(secrets=["another-key-1"]).check(data, "here")
