"""Signatures as botocore computes them, and credentials that are looked up in a thread, once for all calls."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import botocore.auth  # type: ignore[import-untyped]  # it has no types
import botocore.session  # type: ignore[import-untyped]  # it has no types
import pytest
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # it has no types
from botocore.credentials import (  # type: ignore[import-untyped]  # it has no types
    Credentials,
    ReadOnlyCredentials,
    RefreshableCredentials,
)

from support.loopback import CLOSE, Loopback, whole
from toolcast.errors import AuthFailed, ConnectFailed, LLMError, Timeout
from toolcast.llms.credentials import aws_credentials
from toolcast.llms.credentials.aws_credentials import AWSSigner, SignatureSecret, configured_region, signed
from toolcast.transport.network import AsyncBackend, IOBackend, SyncBackend
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

NOW = datetime(2015, 8, 30, 12, 36, 0, tzinfo=UTC)
KEY, PRIVATE = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/a.b-v1%3A0/converse"
ARN_URL = "https://h:8443/p/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A%3Afoundation-model%2Fa.b~c%20d/converse-stream"


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials of AWS."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def request(url: str = URL, body: bytes = b'{"a": 1}', **headers: str | Secret) -> HTTPRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPRequest("POST", url, {"content-type": "application/json", "accept": "x/y", **named}, body, ("note",))


def text(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


class Sync:
    """The sync I/O of a call, without a network."""

    def __new__(cls) -> IOBackend:  # type: ignore[misc]  # a function with the name of what it returns
        return SyncBackend(mock.Mock())


def drive(coroutine: Any) -> Any:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it was suspended")


# -- signatures


def test_the_signature_of_the_documentation() -> None:
    """`get-vanilla` of the test suite of Signature Version 4."""
    credentials = ReadOnlyCredentials(KEY, PRIVATE, None)
    made = signed(
        HTTPRequest("GET", "https://example.amazonaws.com/", {}, b""), credentials, "service", "us-east-1", NOW
    )
    assert text(made.headers["authorization"]) == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        "SignedHeaders=host;x-amz-date, "
        "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    )
    assert made.headers["x-amz-date"] == "20150830T123600Z"


@pytest.mark.parametrize("url", [URL, ARN_URL, "http://127.0.0.1:8000/model/m/converse", f"{URL}?b=1&a=2"])
@pytest.mark.parametrize("token", [None, "session-token"])
@pytest.mark.parametrize("body", [b"", b'{"text": "\xc3\xa9"}'])
def test_botocore_signs_the_same(url: str, token: str | None, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: NOW)
    credentials = ReadOnlyCredentials(KEY, PRIVATE, token)
    made = signed(request(url, body, x_amz_guard=Secret("yes"), x_other="no"), credentials, "bedrock", "r-1", NOW)
    theirs = AWSRequest("POST", url, {"content-type": "application/json", "x-amz-guard": "yes"}, body)
    botocore.auth.SigV4Auth(credentials, "bedrock", "r-1").add_auth(theirs)
    for name in ("authorization", "x-amz-date", "x-amz-security-token"):
        assert text(made.headers.get(name, "")) == theirs.headers.get(name, "")
    assert (made.body, made.url, made.notes, made.headers["x-other"]) == (body, url, ("note",), "no")


def test_a_second_signature_replaces_the_first() -> None:
    first = signed(request(), ReadOnlyCredentials(KEY, PRIVATE, "token"), "bedrock", "r-1", NOW)
    again = signed(first, ReadOnlyCredentials(KEY, PRIVATE, None), "bedrock", "r-1", NOW + timedelta(seconds=1))
    fresh = signed(request(), ReadOnlyCredentials(KEY, PRIVATE, None), "bedrock", "r-1", NOW + timedelta(seconds=1))
    assert again == fresh
    assert first.headers["authorization"] != again.headers["authorization"]


def test_what_is_masked() -> None:
    made = signed(request(), ReadOnlyCredentials(KEY, PRIVATE, "token-1"), "bedrock", "r-1", NOW)
    value = made.headers["authorization"]
    assert isinstance(value, SignatureSecret) and isinstance(made.headers["x-amz-security-token"], Secret)
    signature = text(value).rpartition("=")[2]
    shown = made.mask(f"{KEY} {PRIVATE} token-1 {signature} {text(value)}")
    for secret in (KEY, PRIVATE, "token-1", signature):
        assert secret not in shown
    assert PRIVATE not in repr(made) and KEY not in repr(made) and signature not in repr(made)


# -- look-ups


class Session:
    """A session whose look-up does what a test wants, and counts."""

    def __init__(self, *results: Any, gate: threading.Event | None = None) -> None:
        self.results = list(results)
        self.gate = gate
        self.threads: list[str] = []

    def get_credentials(self) -> Any:
        self.threads.append(threading.current_thread().name)
        if self.gate is not None:
            assert self.gate.wait(20)
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, BaseException):
            raise result
        return result


def key_of(made: HTTPRequest) -> str:
    """The access key that signed a request."""
    return text(made.headers["authorization"]).partition("Credential=")[2].partition("/")[0]


def test_static_credentials_are_looked_up_once_and_elsewhere() -> None:
    session = Session(Credentials("AK1", "sk", "token"))
    signer = AWSSigner("bedrock", "r-1", session=session)
    for _ in range(3):
        assert key_of(drive(signer.sign(request(), Sync()))) == "AK1"
    assert session.threads == ["toolcast-aws"]


async def test_many_calls_wait_for_one_look_up_and_the_loop_goes_on(anyio_backend: str) -> None:
    gate = threading.Event()
    session = Session(Credentials("AK1", "sk"), gate=gate)
    signer = AWSSigner("bedrock", "r-1", session=session)
    backend = AsyncBackend(mock.Mock())
    keys: list[str] = []

    async def call() -> None:
        keys.append(key_of(await signer.sign(request(), backend)))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()  # the look-up blocks, and no task of the loop
        assert keys == []
        gate.set()
    assert keys == ["AK1"] * 50
    assert session.threads == ["toolcast-aws"]


def test_threads_wait_for_one_look_up() -> None:
    gate = threading.Event()
    session = Session(Credentials("AK1", "sk"), gate=gate)
    signer = AWSSigner("bedrock", "r-1", session=session)
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda: keys.append(key_of(drive(signer.sign(request(), Sync()))))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(20)
    assert (keys, session.threads) == (["AK1"] * 8, ["toolcast-aws"])


def expiring(key: str, seconds: float, refreshed: list[str]) -> RefreshableCredentials:
    """Credentials that a refresh replaces by others, which are valid for a day."""

    def refresh() -> dict[str, str]:
        refreshed.append(threading.current_thread().name)
        later = datetime.now(UTC) + timedelta(days=1)
        return {
            "access_key": f"{key}-{len(refreshed)}",
            "secret_key": "s",
            "token": "t",
            "expiry_time": later.isoformat(),
        }

    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return RefreshableCredentials(key, "s", "t", until, refresh, "test")


def test_credentials_that_expire_are_refreshed_in_the_thread() -> None:
    refreshed: list[str] = []
    source = expiring("AK", 60, refreshed)
    signer = AWSSigner("bedrock", "r-1", session=Session(source))
    assert [key_of(drive(signer.sign(request(), Sync()))) for _ in range(3)] == ["AK-1"] * 3
    assert refreshed == ["toolcast-aws"]
    source._expiry_time = datetime.now(UTC) + timedelta(seconds=950)  # not yet for botocore: it would wait for us
    assert key_of(drive(signer.sign(request(), Sync()))) == "AK-1"
    source._expiry_time = datetime.now(UTC) + timedelta(seconds=100)
    assert key_of(drive(signer.sign(request(), Sync()))) == "AK-2"
    assert refreshed == ["toolcast-aws"] * 2


def test_a_look_up_that_takes_too_long() -> None:
    """The call ends by its own limit or by that of the look-up, and a later one finds what was found meanwhile."""
    gate = threading.Event()
    session = Session(Credentials("AK1", "sk"), gate=gate)
    signer = AWSSigner("bedrock", "r-1", session=session, seconds=0.05)
    with pytest.raises(Timeout, match=r"no AWS credentials within 0\.05 s") as caught:
        drive(signer.sign(request(), Sync()))
    assert caught.value.phase == "connect"
    patient = AWSSigner("bedrock", "r-1", session=session, seconds=20)
    with pytest.raises(Timeout, match=r"no AWS credentials within 0\.01 s") as caught:
        drive(patient.sign(request(), Sync(), 0.01))
    assert caught.value.phase == "total"
    gate.set()
    assert key_of(drive(patient.sign(request(), Sync()))) == "AK1"
    assert len(session.threads) == 2  # of the two signers


def test_a_look_up_that_hangs_is_begun_anew() -> None:
    """Its thread may be gone: a forked process has no copy of it."""
    hanging, fine = Session(Credentials("AK1", "sk"), gate=threading.Event()), Credentials("AK2", "sk")
    signer = AWSSigner("bedrock", "r-1", session=hanging, seconds=0.02)
    with pytest.raises(Timeout):
        drive(signer.sign(request(), Sync()))
    assert hanging.gate is not None
    gate, hanging.gate, hanging.results = hanging.gate, None, [fine]
    signer._lookup._seconds = 20
    assert signer._lookup._running is not None
    signer._lookup._running._begun -= 100
    assert key_of(drive(signer.sign(request(), Sync()))) == "AK2"
    gate.set()


async def test_a_look_up_that_takes_too_long_in_a_loop(anyio_backend: str) -> None:
    gate = threading.Event()
    signer = AWSSigner("bedrock", "r-1", session=Session(Credentials("AK1", "sk"), gate=gate), seconds=0.05)
    with pytest.raises(Timeout):
        await signer.sign(request(), AsyncBackend(mock.Mock()))
    gate.set()


# -- what goes wrong


def test_no_credentials() -> None:
    signer = AWSSigner("bedrock", "r-1")
    for _ in range(2):
        with pytest.raises(AuthFailed, match=r"no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK .* Nothing was sent"):
            drive(signer.sign(request(), Sync()))


def test_each_call_raises_an_error_of_its_own() -> None:
    signer = AWSSigner("bedrock", "r-1", session=Session(ValueError("no JSON")))
    errors = []
    for _ in range(2):
        with pytest.raises(AuthFailed, match=r"cannot be read: ValueError: no JSON. Check the profile") as caught:
            drive(signer.sign(request(), Sync()))
        errors.append(caught.value)
    assert errors[0] is not errors[1]


def test_a_look_up_that_fails_once() -> None:
    signer = AWSSigner("bedrock", "r-1", session=Session(KeyError("x"), Credentials("AK1", "sk")))
    with pytest.raises(AuthFailed):
        drive(signer.sign(request(), Sync()))
    assert key_of(drive(signer.sign(request(), Sync()))) == "AK1"


def test_a_profile_that_is_not_there() -> None:
    for ask in (
        lambda: drive(AWSSigner("bedrock", "r-1", profile="missing").sign(request(), Sync())),
        lambda: configured_region("missing", None),
    ):
        with pytest.raises(AuthFailed, match="ProfileNotFound: The config profile"):
            ask()


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    aws_credentials._botocore.cache_clear()
    monkeypatch.setattr(aws_credentials, "import_module", missing)
    for ask in (
        lambda: drive(AWSSigner("bedrock", "r-1").sign(request(), Sync())),
        lambda: configured_region(None, None),
    ):
        with pytest.raises(ImportError, match=r"pip install 'toolcast\[bedrock\]', or set AWS_BEARER_TOKEN_BEDROCK"):
            ask()
    aws_credentials._botocore.cache_clear()


# -- the chain of botocore

ROLE = """
[profile base]
region = eu-north-1

[profile role]
role_arn = arn:aws:iam::123456789012:role/r
source_profile = base
region = eu-west-3
"""
ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIASSUMED</AccessKeyId><SecretAccessKey>assumed-private-cAnArY</SecretAccessKey>
<SessionToken>assumed-token-cAnArY</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>"""


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture
def logs() -> Iterator[list[str]]:
    """The records of all loggers at every level."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name} {record.getMessage()} {record.args!r}")

    root, own = logging.getLogger(), logging.getLogger("botocore")
    before = root.level, own.level
    listener = Listener(logging.NOTSET)
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    own.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(listener)
    root.setLevel(before[0])
    own.setLevel(before[1])


def test_a_role_is_assumed_and_nothing_of_it_is_logged(
    server: Loopback, logs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(ROLE)
    (tmp_path / "credentials").write_text("[base]\naws_access_key_id = AKBASE\naws_secret_access_key = base-cAnArY\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.port}")
    server.answer(whole(ASSUMED.encode(), 200, "content-type: text/xml"))
    signer = AWSSigner("bedrock", "r-1", profile="role")
    made = drive(signer.sign(request(), Sync()))
    assert key_of(made) == "ASIASSUMED"
    assert text(made.headers["x-amz-security-token"]) == "assumed-token-cAnArY"
    assert b"Action=AssumeRole" in server.requests[0].body
    assert [line for line in logs if line.startswith("botocore.")]
    assert [line for line in logs if "cAnArY" in line] == []
    assert "cAnArY" not in repr(vars(signer))
    assert configured_region("role", None) == "eu-west-3"


def test_botocore_logs_as_before_outside_of_a_look_up(logs: list[str]) -> None:
    drive(AWSSigner("bedrock", "r-1", session=Session(Credentials("AK1", "sk"))).sign(request(), Sync()))
    logging.getLogger("botocore.auth").debug("mine")
    assert any("mine" in line for line in logs)


def test_a_container_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, server: Loopback) -> None:
    """It can be tried again, and it differs from wrong credentials."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.port}/creds")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    for _ in range(3):
        server.answer(CLOSE)
    with pytest.raises(LLMError, match="AWS credentials") as caught:
        drive(AWSSigner("bedrock", "r-1").sign(request(), Sync()))
    assert type(caught.value) in (AuthFailed, ConnectFailed)
    expires = (datetime.now(UTC) + timedelta(hours=6)).isoformat()
    found = {"AccessKeyId": "ASIA1", "SecretAccessKey": "s", "Token": "t", "Expiration": expires}
    server.answer(whole(json.dumps(found).encode(), 200, "content-type: application/json"))
    assert key_of(drive(AWSSigner("bedrock", "r-1").sign(request(), Sync()))) == "ASIA1"


def test_a_program_that_prints_credentials(tmp_path: Path) -> None:
    printed = json.dumps({"Version": 1, "AccessKeyId": "AKPRINTED", "SecretAccessKey": "s"})
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{printed}'\n")
    program.chmod(0o700)
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {program}\n")
    assert key_of(drive(AWSSigner("bedrock", "r-1").sign(request(), Sync()))) == "AKPRINTED"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    with pytest.raises(AuthFailed, match="CredentialRetrievalError"):
        drive(AWSSigner("bedrock", "r-1").sign(request(), Sync()))


def test_a_connection_that_fails_is_worth_another_attempt() -> None:
    from botocore.exceptions import ConnectTimeoutError  # type: ignore[import-untyped]  # it has no types

    error = ConnectTimeoutError(endpoint_url="https://sts")
    with pytest.raises(ConnectFailed, match="cannot be fetched: ConnectTimeoutError") as caught:
        drive(AWSSigner("bedrock", "r-1", session=Session(error)).sign(request(), Sync()))
    assert caught.value.retryable


def test_the_region_of_a_session(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion = sa-east-1\n[profile other]\nregion = ap-south-1\n")
    assert configured_region(None, None) == "sa-east-1"
    assert configured_region("other", None) == "ap-south-1"
    assert configured_region(None, botocore.session.Session(profile="other")) == "ap-south-1"
    boto3 = mock.Mock(region_name="me-south-1")
    assert configured_region(None, boto3) == "me-south-1"
    (tmp_path / "config").write_text("[default]\n")
    assert configured_region(None, None) is None
